"""Recording a forward pass: every value under its symbol and its place.

``with tracing() as steps:`` collects what the equations give while it is open. The equations
only say where they are, with ``at(layer=3)``; nothing else in the package knows of tracing.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value)


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


class Pattern:
    """One pattern of steps, as in ``P[*,2]``: a symbol, or ``*``, and the first of its indices."""

    def __init__(self, text: str) -> None:
        match = re.fullmatch(r"\s*([^\[\],\s]+)(?:\[([\d*,\s]*)\])?\s*", text)
        if match is None:
            raise UnknownStep(
                f"cannot read {text!r} as a step; expected the form A, A[3] or P[3,*]"
            )
        self.symbol, indices = match.groups()
        self.indices = [index.strip() for index in indices.split(",")] if indices else []

    def __call__(self, symbol: str, place: Mapping[str, int]) -> bool:
        """Whether a step is meant."""
        here = [str(place[axis]) for axis in PLACES if axis in place]
        return (
            self.symbol in ("*", symbol)
            and len(self.indices) <= len(here)
            and all(index in ("*", at) for index, at in zip(self.indices, here, strict=False))
        )


class Filter:
    """Which steps to record: ``"A[3], P[*,2], H"``.

    A pattern is a symbol, or ``*`` for any, and optionally the first indices of its place: ``P[3]``
    stands for all heads of layer 3. ``None`` lets everything through.
    """

    def __init__(self, patterns: str | Iterable[str] | None) -> None:
        if isinstance(patterns, str):
            patterns = re.split(r",(?![^\[]*\])", patterns)  # not at commas inside brackets
        self._patterns = None if patterns is None else {text: Pattern(text) for text in patterns}
        self._met: set[str] = set()

    def __call__(self, symbol: str, place: dict[str, int]) -> bool:
        if self._patterns is None:
            return True
        met = [text for text, pattern in self._patterns.items() if pattern(symbol, place)]
        self._met.update(met)
        return bool(met)

    def unmet(self) -> list[str]:
        """The patterns that nothing has fitted so far."""
        return [text.strip() for text in self._patterns or () if text not in self._met]


@runtime_checkable
class Editor(Protocol):
    """What replaces values on the way."""

    def edited(self, symbol: str, place: dict[str, int], value: Any) -> Any:
        """What to go on with: another value, or this very one where it is to stay."""

    def finish(self, passed: Collection[str]) -> None:
        """Refuse what was to be edited and never came; ``passed`` are the steps that did."""


class ByName:
    """Functions of values, by the exact names of steps."""

    def __init__(self, edit: Mapping[str, Callable[[Any], Any]]) -> None:
        self._edit, self._met = edit, set[str]()

    def edited(self, symbol: str, place: dict[str, int], value: Any) -> Any:
        step = name(symbol, place)
        if (change := self._edit.get(step)) is None:
            return value
        self._met.add(step)
        return fitted(step, value, change(value))

    def finish(self, passed: Collection[str]) -> None:
        if unmet := set(self._edit) - self._met:
            first = min(map(str, unmet))
            raise UnknownStep(
                f"there is no step {', '.join(sorted(map(str, unmet)))} to edit; "
                f"{nearest(first, passed)}"
            )


class Reached(Exception):
    """All that a trace was to have is there: its steps, which are the argument."""


@dataclass(frozen=True)
class Tracer:
    steps: Steps
    wanted: Filter
    keep: Callable[[Any], Any]
    outer: "Tracer | None"

    editor: Editor | None
    """What is replaced on the way."""
    known: Mapping[str, Any]
    """Values that need not be computed, by the step's name."""
    until: set[str]
    """Steps that have not come yet, after which nothing more is wanted; none where all is."""

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
        # An equation inside this one has recorded, and perhaps edited, what is not kept here.
        pairs = zip(equation.gives, value, strict=True)
        kept = equation.recorded if isinstance(equation.recorded, tuple) else equation.gives
        parts = (self._record_one(equation, s, place, v) if s in kept else v for s, v in pairs)
        return type(value)(*parts)

    def _record_one(
        self, equation: "Equation", symbol: str, place: dict[str, int], value: Any
    ) -> Any:
        step = name(symbol, place)
        self.steps.passed[step] = None
        if self.editor is not None:
            before, value = value, self.editor.edited(symbol, place, value)
            if value is not before:
                self.steps.edited.add(step)
        if self.wanted(symbol, place):
            self.steps.append(Step(symbol, place, equation, self.keep(value)))
        if step in self.until:
            self.until.remove(step)
            if not self.until:
                raise Reached(self.steps)
        return value


def fitted(step: str, value: Any, given: Any) -> Any:
    """What an edit gives in the place of a value; only an array of the same shape can take it."""
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
    edit: Mapping[str, Callable[[Any], Any]] | Editor | None = None,
    known: Mapping[str, Any] | None = None,
    until: Iterable[str] = (),
) -> Iterator[Steps]:
    """Record what the equations give: all of it, or ``only`` the steps named.

    ``keep`` is applied to each value before it is stored: ``keep=np.linalg.norm`` traces a model
    of any size in the memory of its numbers' norms. A trace inside a trace is recorded by both.
    ``edit={"A[3]": f}`` puts ``f(value)`` in the place of that step's value; a step that never
    comes is an error. Steps that are ``known`` from another trace are taken from there: neither
    they nor what they are made of is computed again, or recorded. ``until`` are steps after which
    the computation ends, as soon as all of them have come.
    """
    steps = Steps()
    wanted = Filter(only)
    editor = edit if edit is None or isinstance(edit, Editor) else ByName(edit)
    tracer = Tracer(steps, wanted, keep, _TRACER.get(), editor, known or {}, set(until))
    token = _TRACER.set(tracer)
    try:
        try:
            yield steps
        except Reached as reached:
            if reached.args[0] is not steps:  # but those of a trace around this one
                raise
        steps.unmet = wanted.unmet()
        if editor is not None:
            editor.finish(steps.passed)
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
