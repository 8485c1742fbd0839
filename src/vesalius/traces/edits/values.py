"""What is put in the place of a step's value: zeros, a mean, noise, values of another trace."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.equations.parameters import Array
from vesalius.equations.tracing import Steps, fitted, name
from vesalius.errors import EmptyCorpus, UnknownStep, WrongKind, WrongLength, nearest
from vesalius.traces.edits.selection import Index, Where, by, positions_of, token_axis, told
from vesalius.views.shown import counted

Positions = int | Sequence[int] | Mapping[int, int] | None
"""Token positions; a mapping has those here with those of the other trace."""
Run = Callable[[Any, Sequence[str]], tuple[Steps, int]]
"""A forward pass of the same model on a text: the steps of some symbols, and how many tokens."""


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
                f"{where.step} is {by(where.shape)} here and {by(value.shape)} in the other "
                f"trace; from_trace(other, positions={{-1: -1}}) takes the last token alone"
            )
        try:
            return value[where.index]
        except IndexError:
            cells = ", ".join(map(told, where.index))
            raise WrongLength(
                f"{where.step} is {by(value.shape)} in the other trace, and has no cells at "
                f"({cells})"
            ) from None

    def _of(self, step: str) -> Array:
        if step not in self.trace:
            raise UnknownStep(f"the other trace has no {step}; {nearest(step, self.trace)}")
        return self.trace[step]

    def _at(self, where: Where, position: int) -> tuple[Array, Index]:
        """The value in the other trace, and where a position stands in it."""
        n = _length(self.trace)
        if "time" in where.place:
            time = positions_of(position, n, where.step)[0] + 1
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
