"""The classes of images and series, with names and probabilities: what ``vesalius classify`` shows.

The forward pass is that of the equations; the input is prepared as in training.
"""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from vesalius.capabilities import require_served
from vesalius.dissection import dissect
from vesalius.equations.parameters import Array
from vesalius.errors import EmptySequence, WrongKind
from vesalius.inputs import Input, class_names, read_inputs
from vesalius.model import PREPROCESSING, Model, ModelLike, loaded
from vesalius.views import Part, Shown, Table

if TYPE_CHECKING:
    from vesalius.inputs import Source

    Sources = list[str] | list[Path] | list[Array] | tuple[str | Path | Array, ...]


@dataclass(frozen=True)
class Candidate:
    """One class, and how likely it is."""

    number: int
    name: str
    probability: float


@dataclass(frozen=True, repr=False)
class Classification(Shown):
    """The classes of one image or series, the likeliest first."""

    source: str
    """The file, and which of those in it."""
    candidates: tuple[Candidate, ...]
    prepared: str
    """What was done to the input before the model read it."""
    label: str | None = None
    """The class that its file says it has."""
    hint: str = ""

    @property
    def name(self) -> str:
        """The likeliest class."""
        return self.candidates[0].name

    @property
    def right(self) -> bool | None:
        """Whether it is what the file says; None where that says nothing."""
        return None if self.label is None else self.label == self.name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        best = ", ".join(f"{c.name} {c.probability:.4f}" for c in self.candidates[:3])
        label = "" if self.label is None else f"; its file says {self.label}"
        return f"Classification: {best}{label}\n  input: {self.prepared}"

    def view(self) -> Iterator[Part]:
        rows = [(c.name, f"{c.probability:.4f}") for c in self.candidates]
        yield Table(("class", "probability"), rows, right=(1,), title=self.source)
        yield f"input: {self.prepared}"

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        return {
            "source": self.source,
            "class": self.name,
            "candidates": [asdict(candidate) for candidate in self.candidates[:top]],
            "prepared": self.prepared,
            "label": self.label,
            "hint": self.hint or None,
        }


@overload
def classify(
    model: ModelLike, given: "Sources", raw: bool = False, invert: bool = False
) -> list[Classification]: ...


@overload
def classify(
    model: ModelLike, given: "Source", raw: bool = False, invert: bool = False
) -> Classification | list[Classification]: ...


def classify(
    model: ModelLike, given: "Source | Sources", raw: bool = False, invert: bool = False
) -> Classification | list[Classification]:
    """The classes of an image or a series: a ``Classification``, or a list where there are several.

    ``given`` is an array, a file (.png, .jpg, .npy; .ts, .csv, .npy), or a list of these. ``raw``
    leaves the numbers as they are; ``invert`` turns dark into bright.
    """
    model = loaded(model)
    require_served(model, "classify")
    if not class_names(model):
        raise WrongKind(
            f"this {model.family} tells no classes apart: it has no head for them; "
            f"expected one that was trained on classes"
        )
    if not model.preprocessing and not raw:
        raise WrongKind(
            f"how the model's input was scaled is not known: it has no {PREPROCESSING}; "
            f"say raw where the input is scaled already"
        )
    # A list of files or arrays is of several inputs; one of numbers is an array.
    several = isinstance(given, list | tuple) and all(
        isinstance(one, str | os.PathLike | np.ndarray) for one in given
    )
    sources: Any = given if several else [given]
    found = [one for source in sources for one in read_inputs(model, source, raw, invert)]
    if not found:
        raise EmptySequence("expected an image or a series, got none")
    results = [_classified(model, one) for one in found]
    return results if several or len(results) > 1 else results[0]


def _classified(model: Model, given: Input) -> Classification:
    candidates = tuple(Candidate(*row) for row in dissect(model, given, only="z").classes())
    return Classification(given.source, candidates, given.prepared, given.label, given.hint)
