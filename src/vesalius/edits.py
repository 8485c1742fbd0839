"""Edits as a language: which steps of a forward pass, which of their cells, and what instead.

``{"P[2,*]": zero, "H[3]@5": from_trace(other), "F[1](37, :)": scale(2.0)}``: a key is a pattern of
steps as ``only`` takes it, with a token position after ``@`` or cells in parentheses as NumPy
indexes them; a value is a function, a number, an array or one of the edits that are made here.
Positions and cells are counted from 0. Whatever is without effect is an error.
"""

import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.equations.parameters import Array
from vesalius.equations.tracing import Pattern, Steps, fitted, name
from vesalius.errors import EmptyCorpus, UnknownStep, WrongKind, WrongLength, nearest
from vesalius.views import counted

FORMS = "A[3], P[2,*], P[2,1]@5 for a token, H[2](:, 5) for cells"
Index = tuple[Any, ...]
Positions = int | Sequence[int] | Mapping[int, int] | None
"""Token positions; a mapping has those here with those of the other trace."""
Run = Callable[[Any, Sequence[str]], tuple[Steps, int]]
"""A forward pass of the same model on a text: the steps of some symbols, and how many tokens."""


def token_axis(symbol: str, place: Mapping[str, int], shape: Sequence[int], n: int) -> Index | None:
    """The axis of a step that has a place for each of n tokens, and the first token there.

    Heads and the mask have a row a token, all else a column. A ViT's patches lack the class token.
    Steps of one time, and vectors, have no such axis.
    """
    if len(shape) != 2 or "time" in place:
        return None
    if "head" in place or symbol == "S":
        return (0, 0) if shape[0] == n else None
    return (1, n - shape[1]) if shape[1] in (n, n - 1) else None


@dataclass(frozen=True)
class Where:
    """The cells of a step that an edit is about."""

    symbol: str
    place: dict[str, int]
    shape: tuple[int, ...]
    """Of the whole step."""
    index: Index
    n: int
    """Tokens of the text."""
    position: int | slice | None = None
    """The token position, where one was said."""

    @property
    def step(self) -> str:
        return name(self.symbol, self.place)

    @property
    def axis(self) -> Index | None:
        return token_axis(self.symbol, self.place, self.shape, self.n)

    def at(self, position: int | slice) -> Index | None:
        """The index of a token position; None where the step is of another time."""
        if "time" in self.place:
            return () if self.place["time"] - 1 in _positions(position, self.n, self.step) else None
        if self.axis is None:
            raise WrongLength(
                f"{self.step} has no token positions: it is {_by(self.shape)}, for {self.n} tokens"
            )
        axis, first = self.axis
        rows = [k - first for k in _positions(position, self.n, self.step) if k >= first]
        if not rows:
            raise WrongLength(f"{self.step} has no column for the class token, position 0")
        at = rows[0] if isinstance(position, int) else rows
        return (at,) if axis == 0 else (slice(None), at)


def _positions(position: int | slice, n: int, step: str) -> list[int]:
    if isinstance(position, slice):
        found = list(range(n)[position])
    else:
        found = [position % n] if -n <= position < n else []
    if not found:
        raise WrongLength(
            f"position {_told(position)} of {step} is not among the {counted(n, 'token')}; "
            f"expected 0 to {n - 1}, or -1 for the last"
        )
    return found


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _told(index: Any) -> str:
    if isinstance(index, slice):
        ends = ("" if k is None else str(k) for k in (index.start, index.stop, index.step))
        return ":".join(ends).removesuffix(":") if index.step is None else ":".join(ends)
    return "..." if index is Ellipsis else str(index)


class Selection:
    """A pattern of steps, with a token position or cells if there are any."""

    def __init__(self, text: Any) -> None:
        if not isinstance(text, str):
            raise WrongKind(f"edit takes the names of steps, as in {FORMS}; got {text!r}")
        match = re.fullmatch(r"([^@()]*)(?:@([^@()]*)|\(([^@()]*)\))?\s*", text)
        if match is None:
            raise UnknownStep(f"cannot read {text!r} as steps to edit; expected the form {FORMS}")
        steps, position, cells = match.groups()
        self.text, self.steps = text, steps.strip()
        if not self.steps:
            raise UnknownStep(f"there is no step {text!r} to edit; expected the form {FORMS}")
        self.pattern = Pattern(steps)
        self.position = None if position is None else self._index(position)
        self.cells = None if cells is None else tuple(map(self._index, cells.split(",")))
        if self.position is Ellipsis or (self.cells or ()).count(Ellipsis) > 1:
            raise UnknownStep(f"cannot read the '...' in {text!r}; expected the form {FORMS}")

    def _index(self, text: str) -> Any:
        """A whole number, a slice or ``...``, as NumPy reads them."""
        text = text.strip()
        if text == "...":
            return Ellipsis
        if re.fullmatch(r"[+-]?\d{1,9}", text):
            return int(text)
        if re.fullmatch(r"([+-]?\d{1,9})?(\s*:\s*([+-]?\d{1,9})?){1,2}", text):
            ends = [int(part) if part.strip() else None for part in text.split(":")]
            if len(ends) < 3 or ends[2] != 0:
                return slice(*ends)
        raise UnknownStep(
            f"cannot read the index {text!r} of {self.text!r}; expected a whole number or a slice "
            f"from 0, as in {FORMS}"
        )

    def where(self, symbol: str, place: dict[str, int], shape: Index, n: int) -> Where | None:
        """The cells of a step that are meant, or None where it is not."""
        if not self.pattern(symbol, place):
            return None
        whole = Where(symbol, place, shape, (), n)
        if self.position is not None:
            index = whole.at(self.position)
            found = Where(symbol, place, shape, index or (), n, self.position)
            return None if index is None else found
        if self.cells is None:
            return whole
        index = self.cells
        if len(index) - index.count(Ellipsis) > len(shape):
            raise WrongLength(
                f"{self.text!r} has {len(index)} indices; {whole.step} is {_by(shape)}"
            )
        try:
            size = np.broadcast_to(np.int8(0), shape)[index].size
        except IndexError:
            size = 0
        if not size:
            told = ", ".join(map(_told, index))
            raise WrongLength(f"{whole.step} is {_by(shape)}, and has no cells at ({told})")
        return Where(symbol, place, shape, index, n)


class Edit:
    """What is put in the place of a step's value."""

    def __str__(self) -> str:
        raise AssertionError("every edit has a name")

    def __repr__(self) -> str:
        return str(self)

    def bound(self, symbols: Sequence[str], run: Run) -> "Edit":
        """The edit with all that it needs of a model, for some symbols."""
        return self

    def __call__(self, part: Array, where: Where) -> Any:
        """What stands in the place of those cells."""
        raise AssertionError("every edit says its own")


EditLike = Edit | Callable[[Array], Array] | float | Array
"""How people write an edit: one of ours, a function of the value, a number, an array."""


@dataclass(frozen=True, repr=False)
class Function(Edit):
    function: Callable[[Array], Any]

    def __str__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, part: Array, where: Where) -> Any:
        return self.function(part)


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Edit):
    value: Any

    def __str__(self) -> str:
        return "zero" if np.ndim(self.value) == 0 and self.value == 0 else "constant"

    def __call__(self, part: Array, where: Where) -> Any:
        return np.full_like(part, self.value) if np.ndim(self.value) == 0 else self.value


zero = Constant(0.0)
"""Zeros, which is known as zero ablation: ``vs.dissect("gpt", "He", edit={"P[3,4]": vs.zero})``."""


@dataclass(frozen=True, repr=False)
class Scale(Edit):
    factor: float

    def __str__(self) -> str:
        return f"scale({self.factor:g})"

    def __call__(self, part: Array, where: Where) -> Any:
        return np.where(np.isfinite(part), np.nan_to_num(part) * self.factor, part)


def scale(factor: float) -> Edit:
    """The value times a factor: ``vs.dissect("gpt", "He shook", edit={"A[2]": vs.scale(2.0)})``.

    Infinities of a mask stay.
    """
    return Scale(arguments.number("factor", factor))


@dataclass(frozen=True, repr=False)
class Noise(Edit):
    deviation: float
    seed: int

    def __str__(self) -> str:
        return f"noise({self.deviation:g}, seed={self.seed})"

    def __call__(self, part: Array, where: Where) -> Any:
        rng = np.random.default_rng([self.seed, zlib.crc32(where.step.encode())])
        return part + self.deviation * rng.standard_normal(np.shape(part))


def noise(deviation: float, seed: int = 0) -> Edit:
    """The value plus normal noise: ``vs.dissect("gpt", "He shook", edit={"H[0]": vs.noise(0.1)})``.

    The same seed gives the same noise; each step has its own.
    """
    if arguments.number("deviation", deviation) < 0:
        raise arguments.wrong("deviation", "at least 0", deviation)
    return Noise(float(deviation), arguments.whole("seed", seed, least=0))


@dataclass(frozen=True, eq=False, repr=False)
class FromTrace(Edit):
    trace: Mapping[str, Array]
    positions: Mapping[int, int] | None = None

    def __str__(self) -> str:
        return "from another trace"

    def __call__(self, part: Array, where: Where) -> Any:
        if self.positions is not None:
            return self._some(part, where)
        if isinstance(where.position, int):  # the last is the last of both
            value, source = self._at(where, where.position)
            return value[source]
        value = np.asarray(self._of(where.step))
        if value.shape != where.shape and not where.index:
            raise WrongLength(
                f"{where.step} is {_by(where.shape)} here and {_by(value.shape)} in the other "
                f"trace; from_trace(other, positions={{-1: -1}}) takes the last token alone"
            )
        try:
            return value[where.index]
        except IndexError:
            told = ", ".join(map(_told, where.index))
            raise WrongLength(
                f"{where.step} is {_by(value.shape)} in the other trace, and has no cells at "
                f"({told})"
            ) from None

    def _of(self, step: str) -> Array:
        if step not in self.trace:
            raise UnknownStep(f"the other trace has no {step}; {nearest(step, self.trace)}")
        return self.trace[step]

    def _at(self, where: Where, position: int) -> tuple[Array, Index]:
        """The value in the other trace, and where a position stands in it."""
        n = _length(self.trace)
        if "time" in where.place:
            time = _positions(position, n, where.step)[0] + 1
            return self._of(name(where.symbol, {**where.place, "time": time})), ()
        value = np.asarray(self._of(where.step))
        return value, Where(where.symbol, where.place, value.shape, (), n).at(position) or ()

    def _some(self, part: Array, where: Where) -> Any:
        """The value with some positions taken from the other trace."""
        assert self.positions is not None
        if where.index or where.position is not None:
            raise WrongKind(
                f"{where.step} is edited at some cells, and from_trace(positions=...) names its "
                f"own; use one of the two"
            )
        changed = part.copy()
        for here, there in self.positions.items():
            if (target := where.at(here)) is None:  # of another time
                continue
            value, source = self._at(where, there)
            changed[target] = fitted(where.step, changed[target], value[source])
        return changed


def _length(trace: Any) -> int:
    if not hasattr(trace, "tokens"):
        raise WrongKind("positions are those of a trace, as vs.dissect gives it")
    return len(trace.tokens())


def from_trace(other: Mapping[str, Array], positions: Positions = None) -> Edit:
    """The value of the same step in another trace, which is known as activation patching.

    ``vs.dissect("gpt", "She shook her", edit={"H[2]@1": vs.from_trace(trace)})``. ``positions``
    takes some tokens alone: ``[1, 2]``, or ``{1: 2}`` for position 1 here and 2 there.
    """
    if not isinstance(other, Mapping):
        raise WrongKind(f"from_trace takes a trace, as vs.dissect gives it; got {other!r}")
    return FromTrace(other, pairs(positions))


def pairs(positions: Any) -> dict[int, int] | None:
    """Positions here, with those in the other trace."""
    if positions is None:
        return None
    if not isinstance(positions, Mapping):
        some = positions if isinstance(positions, Iterable) else [positions]
        positions = {position: position for position in some}
    whole = {
        arguments.whole("a position", here): arguments.whole("a position", there)
        for here, there in positions.items()
    }
    if not whole:
        raise WrongLength("positions names none; expected at least one token position")
    return whole


@dataclass(frozen=True, eq=False, repr=False)
class Mean(Edit):
    texts: tuple[Any, ...]

    def __str__(self) -> str:
        return f"mean of {counted(len(self.texts), 'text')}"

    def bound(self, symbols: Sequence[str], run: Run) -> Edit:
        sums = Sums(str(self))
        for text in self.texts:
            sums.add(*run(text, symbols))
        return sums

    def __call__(self, part: Array, where: Where) -> Any:
        raise AssertionError("it is bound to a model first")


def mean(texts: "Iterable[str | Sequence[int] | Array]") -> Edit:
    """The mean of the step over some texts, which is known as mean ablation.

    ``vs.dissect("gpt", "He shook his", edit={"P[3,4]": vs.mean(["It was late.", "She came."])})``.
    Where all texts are as long as the one that is edited, each token has a mean of its own; else
    the mean is over all tokens too.
    """
    found = (texts,) if isinstance(texts, str) else tuple(texts)
    if not found:
        raise EmptyCorpus("mean takes at least one text to average over, got none")
    return Mean(found)


@dataclass(eq=False, repr=False)
class Sums(Edit):
    """Sums over texts of each step, and over all tokens of each step that has them."""

    title: str
    lengths: set[int] = field(default_factory=set)
    texts: int = 0
    whole: dict[str, Array] = field(default_factory=dict)
    """By a step's name, while all texts are of one length, or the step's shape is."""
    tokens: dict[tuple[Any, ...], tuple[Array, int]] = field(default_factory=dict)
    """By symbol, layer and head: the sum over texts and tokens, and the number of tokens."""

    def __str__(self) -> str:
        return self.title

    def add(self, steps: Steps, n: int) -> None:
        self.texts += 1
        self.lengths.add(n)
        for step in steps:
            value = np.asarray(step.value, np.float64)
            before = self.whole.get(step.name)
            if before is None or before.shape == value.shape:
                self.whole[step.name] = value if before is None else before + value
            axis = token_axis(step.symbol, step.place, value.shape, n)
            if "time" in step.place:
                total, count = value, 1
            elif axis is not None and step.symbol not in ("mu", "S"):
                total, count = value.sum(axis=axis[0]), value.shape[axis[0]]
            else:
                continue
            key = self._key(step.symbol, step.place)
            so_far = self.tokens.get(key, (0.0, 0))
            self.tokens[key] = (np.asarray(so_far[0] + total), so_far[1] + count)

    @staticmethod
    def _key(symbol: str, place: Mapping[str, int]) -> tuple[Any, ...]:
        return symbol, place.get("layer"), place.get("head")

    def __call__(self, part: Array, where: Where) -> Any:
        by_token = self.tokens.get(self._key(where.symbol, where.place))
        if self.lengths == {where.n} or by_token is None:
            value = self.whole.get(where.step)
            if value is None or value.shape != where.shape:
                lengths = ", ".join(map(str, sorted(self.lengths)))
                raise WrongLength(
                    f"{where.step} has no mean over tokens; expected texts of {where.n} tokens, "
                    f"as long as the one that is edited; got {lengths}"
                )
            return (value / self.texts)[where.index]
        total, count = by_token
        average = total / count
        if "time" not in where.place and where.axis is not None:
            average = np.expand_dims(average, where.axis[0])
        return np.broadcast_to(average, where.shape)[where.index]


def selections(steps: Any) -> list[Selection]:
    """Patterns that stand side by side, ``"A, P[3,*]@5"``, or one by one in a list."""
    if isinstance(steps, str):
        steps = re.split(r",(?![^\[(]*[\])])", steps)  # not at commas inside brackets
    if not isinstance(steps, Iterable):
        raise WrongKind(f"steps are said by name, as in {FORMS}; got {steps!r}")
    if not (found := [Selection(text) for text in steps]):
        raise UnknownStep(f"steps names none; expected some, as in {FORMS}")
    return found


def chosen(steps: Any, recorded: Steps, n: int) -> list[tuple[Any, Where]]:
    """The steps of a trace that are meant, and their cells; none is an error."""
    found: dict[str, tuple[Any, Where]] = {}
    for selection in selections(steps):
        met = [step for step in recorded if selection.pattern(step.symbol, step.place)]
        if not met:
            raise UnknownStep(
                f"there is no step {selection.steps}; {nearest(selection.steps, recorded.names())}"
            )
        places = [selection.where(s.symbol, s.place, np.shape(s.value), n) for s in met]
        if not any(places):
            raise WrongLength(f"{selection.text!r} is of another time than its position")
        found |= {s.name: (s, w) for s, w in zip(met, places, strict=True) if w is not None}
    return list(found.values())


def edit_of(value: Any) -> Edit:
    """The edit that a value stands for."""
    if isinstance(value, Edit):
        return value
    if callable(value):
        return Function(value)
    found = arguments.plain(value)
    if isinstance(found, int | float) and not isinstance(found, bool):
        return Constant(arguments.number("an edit", found))
    try:
        array = np.asarray(found)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "fiu" or not array.ndim:
        raise WrongKind(
            f"an edit is a function, a number, an array, or one of vs.zero, vs.mean, vs.scale, "
            f"vs.noise, vs.from_trace; got {value!r}"
        )
    if not np.isfinite(array).all():
        raise arguments.wrong("an edit's array", "finite", value)
    return Constant(array)


class Edits:
    """What is edited on the way of one forward pass, in the order in which it was said."""

    def __init__(self, edit: Any, n: int, run: Run) -> None:
        if not isinstance(edit, Mapping):
            raise WrongKind(
                f"edit takes what to put in the place of steps, by their names, {{'A[3]': f}}; "
                f"got {edit!r}"
            )
        self.n, self._met = n, set[str]()
        """How many tokens there are, and the patterns that have had an effect."""
        chosen = {text: (Selection(text), edit_of(value)) for text, value in edit.items()}
        self._edits = {
            text: (selection, change.bound([selection.pattern.symbol], run))
            for text, (selection, change) in chosen.items()
        }
        self._seen: set[str] = set()

    def edited(self, symbol: str, place: dict[str, int], value: Any) -> Any:
        for text, (selection, change) in self._edits.items():
            if not selection.pattern(symbol, place):
                continue
            self._seen.add(text)
            where = selection.where(symbol, place, np.shape(value), self.n)
            if where is not None:
                self._met.add(text)
                value = replaced(value, where, change)
        return value

    def finish(self, passed: Collection[str]) -> None:
        for text, (selection, _) in self._edits.items():
            if text not in self._seen:
                raise UnknownStep(
                    f"there is no step {selection.steps} to edit; "
                    f"{nearest(selection.steps, passed)}"
                )
            if text not in self._met:
                raise WrongLength(f"{text!r} is of another time than its position: nothing matches")


def replaced(value: Array, where: Where, change: Edit) -> Array:
    """A step's value with the cells that are meant replaced."""
    part = np.array(value[where.index])  # a copy, which functions may write to
    given = fitted(where.step, part, change(part, where))
    whole = np.array(value)  # in the same order of memory, on which the last bits depend
    whole[where.index or ...] = given
    return whole
