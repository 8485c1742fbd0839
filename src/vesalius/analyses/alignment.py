"""Which tokens of two traces belong together, and a step of the one laid beside the other's.

Texts of one length are compared position by position. Otherwise equal tokens are pairs, and so are
the tokens between two such pairs where both texts have equally many; others have no counterpart.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.equations import Step
from vesalius.equations.parameters import Array
from vesalius.equations.tracing import name
from vesalius.errors import UnknownStep, WrongLength
from vesalius.machine.properties import cached_property
from vesalius.traces.edits.selection import by, token_axis
from vesalius.traces.edits.values import Edit, from_trace
from vesalius.traces.graph import arrayed
from vesalius.traces.steps import ATTENTION
from vesalius.traces.trace import Trace
from vesalius.views.shown import Part, Shown, counted


def common(ours: Sequence[str], theirs: Sequence[str]) -> tuple[int, int]:
    """How many tokens agree from the start, and how many of the others from the end."""
    least = min(len(ours), len(theirs))
    start = next((k for k in range(least) if ours[k] != theirs[k]), least)
    rest = least - start
    end = next((k for k in range(rest) if ours[-1 - k] != theirs[-1 - k]), rest)
    return start, end


@dataclass(frozen=True)
class Alignment:
    """Tokens of trace a with those of trace b that they are compared with."""

    a: Trace
    b: Trace

    @cached_property
    def lengths(self) -> tuple[int, int]:
        return len(self.a.tokens()), len(self.b.tokens())

    @cached_property
    def pairs(self) -> Mapping[int, int]:
        """Positions of a with those of b; without any token in common, the last ones."""
        n, m = self.lengths
        if n == m:
            return {k: k for k in range(n)}
        matched = SequenceMatcher(None, self.a.tokens(), self.b.tokens(), autojunk=False)
        found = {
            i: j
            for _, i1, i2, j1, j2 in matched.get_opcodes()
            if i2 - i1 == j2 - j1
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True)
        }
        return found or {n - 1: m - 1}

    @property
    def whole(self) -> bool:
        """Whether every token has a counterpart at its own place."""
        return self.lengths[0] == self.lengths[1]

    def notes(self) -> list[str]:
        """What of texts of different length is compared."""
        if self.whole:
            return []
        n, m = self.lengths
        return [
            f"a has {counted(n, 'token')} and b {m}: "
            f"{len(self.pairs)} of each belong together and are compared"
        ]

    def name_in_b(self, step: Step) -> str | None:
        """What the step of a is called in b: steps of a time are those of its counterpart."""
        if "time" not in step.place:
            return step.name
        there = self.pairs.get(step.place["time"] - 1)
        return None if there is None else name(step.symbol, {**step.place, "time": there + 1})

    def cells(self, step: Step) -> tuple[Array, Array] | None:
        """The cells of a step that both have, of a and of b; None where there are none."""
        theirs = self._in_b(step)
        if theirs is None:
            return None
        ours, theirs, axes = np.asarray(step.value), np.asarray(theirs), self._axes(step)
        if self.whole or not axes:
            return ours, theirs
        for axis, first in axes.items():
            pairs = [(i - first, j - first) for i, j in self.pairs.items() if min(i, j) >= first]
            ours = ours.take([i for i, _ in pairs], axis)
            theirs = theirs.take([j for _, j in pairs], axis)
        return ours, theirs

    def difference(self, step: Step) -> "Array | Between | None":
        """b minus a in the shape of a, NaN where a has no counterpart; None where nothing has."""
        theirs = self._in_b(step)
        if theirs is None:
            return None
        if len(step.shape) != 2:
            return _change(np.asarray(step.value), np.asarray(theirs))
        return Between(self, step, theirs)

    def patches(self, names: Iterable[str]) -> dict[str, Edit]:
        """Values of b for steps of a, known as activation patching: ``P[3,4]``, ``H[2]@1``.

        A step without a position is taken at all tokens that have a counterpart.
        """
        found: dict[str, dict[int, int]] = {}
        for one in names:
            step, sign, position = one.partition("@")
            pairs = self.pairs
            if sign:
                here = arguments.whole("a position", _number(position), least=0)
                if here not in self.pairs:
                    raise WrongLength(f"token {here} has no counterpart that {step} could be of")
                pairs = {here: self.pairs[here]}
            found.setdefault(step, {}).update(pairs)
        n = self.lengths[0]
        return {
            step: from_trace(self.b, None if self.whole and len(pairs) == n else pairs)
            for step, pairs in found.items()
        }

    def _in_b(self, step: Step) -> Any:
        """The value of the step in b, if it has the same shape but for the tokens."""
        found = self.name_in_b(step)
        if found is None or found not in self.b:
            return None
        there = self.b.graph.step(found)
        axes = {} if self.whole else self._axes(step)
        n, m = self.lengths
        wanted = tuple(k - (n - m) * (i in axes) for i, k in enumerate(step.shape))
        return arrayed(there.value) if there.shape == wanted else None

    def at(self, step: Step, cell: Sequence[int]) -> tuple[int, ...] | None:
        """The cell of b that a cell of a is compared with."""
        found = list(cell)
        for axis, first in self._axes(step).items():
            if (there := self.pairs.get(cell[axis] + first)) is None or there < first:
                return None
            found[axis] = there - first
        return tuple(found)

    def _axes(self, step: Step) -> dict[int, int]:
        """The axes that have a place for each token of a, with the first token there."""
        n = self.lengths[0]
        if step.symbol in ATTENTION and step.shape == (n, n):
            return {0: 0, 1: 0}
        found = token_axis(step.symbol, step.place, step.shape, n)
        return {} if found is None else {found[0]: found[1]}


class Between:
    """b minus a of a matrix, of which only the cells that are asked for are computed."""

    ndim = 2

    def __init__(self, of: Alignment, step: Step, theirs: Any) -> None:
        self.shape, self._ours, self._theirs = step.shape, arrayed(step.value), theirs
        self._there: list[Array] = []
        """For each row and each column of a, that of b; below zero where there is none."""
        axes = of._axes(step)
        for axis, wide in enumerate(step.shape):
            first = axes.get(axis)
            if first is None or of.whole:
                self._there.append(np.arange(wide))
            else:
                found = [of.pairs.get(k + first, -1) - first for k in range(wide)]
                self._there.append(np.array(found, np.intp))

    def __getitem__(self, cells: tuple[slice, slice]) -> Array:
        here = [np.arange(wide)[some] for wide, some in zip(self.shape, cells, strict=True)]
        there = [places[some] for places, some in zip(self._there, cells, strict=True)]
        known = [places >= 0 for places in there]
        ours = self._ours[:, here[1][known[1]]][here[0][known[0]]]
        theirs = self._theirs[:, there[1][known[1]]][there[0][known[0]]]
        change = _change(ours, theirs)
        whole = np.full([len(places) for places in here], np.nan, change.dtype)
        whole[np.ix_(*known)] = change
        return whole

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:, :], dtype)


def _change(a: Array, b: Array) -> Array:
    """b minus a; equal infinities, which masks have, do not differ."""
    with np.errstate(invalid="ignore"):
        change = b - a
    return np.asarray(np.where(a == b, np.zeros_like(change), change))


@dataclass(frozen=True)
class Pair(Shown):
    """One number of a step in two traces."""

    step: str
    at: tuple[int, ...]
    at_b: tuple[int, ...]
    """The cell of b, which is another where the texts are not equally long."""
    a: float
    b: float
    difference: float
    """b minus a, in the precision of the steps."""

    @classmethod
    def of(cls, runs: Alignment, step: str, cell: Sequence[int]) -> "Pair":
        found, at = runs.a.graph.step(step), tuple(cell)
        if len(at) != len(found.shape) or not all(
            0 <= k < n for k, n in zip(at, found.shape, strict=True)
        ):
            raise WrongLength(f"{step} is {by(found.shape)}, and has no cell ({_told(at)})")
        theirs, there = runs._in_b(found), runs.at(found, at)
        if theirs is None or there is None:
            raise UnknownStep(f"b has no counterpart of {step}({_told(at)})")
        a, b = arrayed(found.value)[at], theirs[there]
        change = float(_change(np.asarray(a), np.asarray(b)))
        return cls(step, at, there, float(a), float(b), change)

    def __repr__(self) -> str:
        there = "" if self.at == self.at_b else f" at ({_told(self.at_b)})"
        return (
            f"{self.step}({_told(self.at)}): {self.a:.6g} in a, {self.b:.6g} in b{there}, "
            f"b - a = {self.difference:.6g}"
        )

    def view(self) -> Iterator[Part]:
        yield repr(self)

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "at": list(self.at), "at_b": list(self.at_b)}


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() and len(text) < 10 else text


def _told(cell: Sequence[int]) -> str:
    return ", ".join(map(str, cell))
