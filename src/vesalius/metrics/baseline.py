"""What a simple method came to, on the examples that a model was measured on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from warnings import catch_warnings

from vesalius.data import splits

HELD = 0.1
"""The share of what is trained on by which a method's settings are chosen."""
Setting = TypeVar("Setting")


@dataclass(frozen=True)
class Baseline:
    """A simple method, fitted on what the model was trained on."""

    name: str
    about: str
    """In words, what it is and what was chosen."""
    numbers: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "about": self.about, **self.numbers}


def chosen(
    settings: Sequence[Setting],
    classes: Sequence[int],
    seed: int,
    score: Callable[[Setting, list[int], list[int]], float],
) -> Setting:
    """The setting with the best score on a part of the training examples that is held out for it.

    ``score`` fits on some rows and measures on others; what the model is measured on is neither.
    """
    if len(settings) == 1 or len(classes) < 2:
        return settings[0]
    train, valid = splits.apart(classes, HELD, seed)
    with fitting():
        return max(settings, key=lambda setting: score(setting, train, valid))


@contextmanager
def fitting() -> Iterator[None]:
    """A solver that stops at its most steps is good enough for a baseline, and says nothing."""
    with catch_warnings(action="ignore"):
        yield
