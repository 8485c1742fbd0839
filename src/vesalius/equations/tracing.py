"""Recording a forward pass: every value under its symbol and its place.

``with tracing() as steps:`` collects what the equations give while it is open. The equations
only say where they are, with ``at(layer=3)``; nothing else in the package knows of tracing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius.errors import UnknownStep, WrongLength, nearest

if TYPE_CHECKING:
    from vesalius.equations.registry import Equation

PLACES = ("layer", "head", "time")


@dataclass(frozen=True)
class Step:
    """One value of a forward pass: which symbol, where, by which equation."""

    symbol: str
    place: dict[str, int]
    equation: "Equation"
    value: Any

    @property
    def name(self) -> str:
        """The symbol with its place in brackets, as in ``A[3]`` or ``P[3,2]``."""
        return name(self.symbol, self.place)


def name(symbol: str, place: dict[str, int]) -> str:
    indices = ",".join(str(place[axis]) for axis in PLACES if axis in place)
    return f"{symbol}[{indices}]" if indices else symbol


class Steps(list[Step]):
    """The recorded steps in the order of computation; ``steps["A[3]"]`` is a value by name.

    A name that occurs more than once gives its latest value.
    """

    def __init__(self) -> None:
        super().__init__()
        self.called: set[str] = set()
        """Names of all equations that ran, recorded or not."""
        self.edited: set[str] = set()
        """Names of the steps whose values were replaced."""
        self.passed: dict[str, None] = {}
        """Names of all steps that came by, recorded or not."""
        self.unmet: list[str] = []
        """What was asked for and never came, when all is done."""
        self._by_name: dict[str, Step] = {}

    def append(self, step: Step) -> None:
        super().append(step)
        self._by_name[step.name] = step

    def names(self) -> list[str]:
        return list(self._by_name)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self._by_name:
            raise UnknownStep(f"no step {key!r} was recorded; {nearest(key, self._by_name)}")
        return self._by_name[key].value


class Filter:
    """Which steps to record: ``"A[3], P[*,2], H"``.

    A pattern is a symbol, or ``*`` for any, and optionally the first indices of its place: ``P[3]``
    stands for all heads of layer 3. ``None`` lets everything through.
    """

    def __init__(self, patterns: str | Iterable[str] | None) -> None:
        if isinstance(patterns, str):
            patterns = re.split(r",(?![^\[]*\])", patterns)  # not at commas inside brackets
        self._patterns = None if patterns is None else {text: self._read(text) for text in patterns}
        self._met: set[str] = set()

    @staticmethod
    def _read(text: str) -> tuple[str, list[str]]:
        match = re.fullmatch(r"\s*([^\[\],\s]+)(?:\[([\d*,\s]*)\])?\s*", text)
        if match is None:
            raise UnknownStep(
                f"cannot read {text!r} as a step; expected the form A, A[3] or P[3,*]"
            )
        symbol, indices = match.groups()
        return symbol, [index.strip() for index in indices.split(",")] if indices else []

    def __call__(self, symbol: str, place: dict[str, int]) -> bool:
        if self._patterns is None:
            return True
        here = [str(place[axis]) for axis in PLACES if axis in place]
        met = [
            text
            for text, (wanted, indices) in self._patterns.items()
            if wanted in ("*", symbol)
            and len(indices) <= len(here)
            and all(index in ("*", at) for index, at in zip(indices, here, strict=False))
        ]
        self._met.update(met)
        return bool(met)

    def unmet(self) -> list[str]:
        """The patterns that nothing has fitted so far."""
        return [text.strip() for text in self._patterns or () if text not in self._met]


@dataclass(frozen=True)
class Tracer:
    steps: Steps
    wanted: Filter
    keep: Callable[[Any], Any]
    outer: "Tracer | None"

    edit: Mapping[str, Callable[[Any], Any]]
    """What to replace on the way, by the step's name."""
    known: Mapping[str, Any]
    """Values that need not be computed, by the step's name."""

    def given(self, equation: "Equation") -> Any:
        """What the equation would give here, if that is known already; else None."""
        if not self.known or not equation.gives:
            return None
        place = _PLACE.get()
        values = [self.known.get(name(symbol, place)) for symbol in equation.gives]
        if any(value is None for value in values):
            return None
        return values[0] if len(values) == 1 else equation.result(*values)

    def record(self, equation: "Equation", value: Any) -> Any:
        """Keep the value, and give it back for the computation to go on with."""
        if self.outer is not None:
            value = self.outer.record(equation, value)
        self.steps.called.add(equation.name)
        if not equation.recorded or not equation.gives:
            return value
        place = _PLACE.get()
        if len(equation.gives) == 1:
            return self._record_one(equation, equation.gives[0], place, value)
        pairs = zip(equation.gives, value, strict=True)
        return type(value)(*(self._record_one(equation, s, place, part) for s, part in pairs))

    def _record_one(
        self, equation: "Equation", symbol: str, place: dict[str, int], value: Any
    ) -> Any:
        step = name(symbol, place)
        self.steps.passed[step] = None
        if self.edit and (change := self.edit.get(step)) is not None:
            value = _edited(step, value, change)
            self.steps.edited.add(step)
        if self.wanted(symbol, place):
            self.steps.append(Step(symbol, place, equation, self.keep(value)))
        return value


def _edited(step: str, value: Any, change: Callable[[Any], Any]) -> Any:
    """The value in the place of another; only one of the same shape can take it."""
    given = change(value)
    if hasattr(given, "detach"):  # a tensor of PyTorch
        given = given.detach().cpu().numpy()
    try:
        edited = np.asarray(given).astype(value.dtype)
    except (TypeError, ValueError) as error:
        raise WrongLength(f"the edit of {step} gives no array of numbers: {error}") from error
    if edited.shape != value.shape:
        raise WrongLength(
            f"the edit of {step} gives shape {edited.shape}, expected {value.shape} as before"
        )
    return edited


_TRACER: ContextVar[Tracer | None] = ContextVar("tracer", default=None)
_PLACE: ContextVar[dict[str, int]] = ContextVar("place", default={})  # noqa: B039 - never mutated


def tracer() -> Tracer | None:
    """The tracer that is open here, if any."""
    return _TRACER.get()


@contextmanager
def tracing(
    only: str | Iterable[str] | None = None,
    keep: Callable[[Any], Any] = lambda value: value,
    edit: Mapping[str, Callable[[Any], Any]] | None = None,
    known: Mapping[str, Any] | None = None,
) -> Iterator[Steps]:
    """Record what the equations give: all of it, or ``only`` the steps named.

    ``keep`` is applied to each value before it is stored: ``keep=np.linalg.norm`` traces a model
    of any size in the memory of its numbers' norms. A trace inside a trace is recorded by both.
    ``edit={"A[3]": f}`` puts ``f(value)`` in the place of that step's value; a step that never
    comes is an error. Steps that are ``known`` from another trace are taken from there: neither
    they nor what they are made of is computed again, or recorded.
    """
    steps = Steps()
    wanted = Filter(only)
    token = _TRACER.set(Tracer(steps, wanted, keep, _TRACER.get(), edit or {}, known or {}))
    try:
        yield steps
        steps.unmet = wanted.unmet()
        if unmet := set(edit or {}) - steps.edited:
            first = min(map(str, unmet))
            raise UnknownStep(
                f"there is no step {', '.join(sorted(map(str, unmet)))} to edit; "
                f"{nearest(first, steps.passed)}"
            )
    finally:
        _TRACER.reset(token)


@contextmanager
def at(**place: int) -> Iterator[None]:
    """Name the place of what is computed inside: ``with at(layer=3):``."""
    token = _PLACE.set({**_PLACE.get(), **place})
    try:
        yield
    finally:
        _PLACE.reset(token)
