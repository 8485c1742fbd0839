"""What the gates of a recurrent layer do: every unit over time, and where its memory was written.

Of an LSTM the steps of (44) to (48); of an Elman network its state and what that is made of (41).
A unit's context is a sum over time, exactly: what each token added, times all that was kept since.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.analyses import rounding
from vesalius.equations.parameters import Array, Elman
from vesalius.errors import WrongKind, WrongLength
from vesalius.families import FAMILIES
from vesalius.traces.trace import Trace, require_trace
from vesalius.views import pictures
from vesalius.views.pictures import Pictured
from vesalius.views.shown import Part, Table, counted, short

SHARES = ("p", "r", "s")
"""Gates: shares from 0 to 1; all else has signs."""
LSTM = ("p", "k", "q", "r", "d", "c", "s", "h")
"""In the order of computation."""
ELMAN = ("Uh", "Wh", "h")
"""What comes from the token before, what from below with the bias, and the state."""
ON = 0.5
"""From which size on a unit counts as on."""
SHOWN = 12


@dataclass(frozen=True)
class Written(Pictured):
    """The context of one unit at one token, as the sum of what was written and kept."""

    layer: int
    unit: int
    position: int
    tokens: list[str]
    added: list[float]
    """What each token wrote."""
    kept: list[float]
    """The share of it that is left: the product of all forget gates since."""
    value: float
    """What the trace holds."""
    bound: float
    """How far rounding alone can bring the sum over time from it."""

    @property
    def agrees(self) -> bool:
        """Whether the sum over time is the stored value, but for rounding."""
        return rounding.agrees(self.difference, self.bound)

    @property
    def shares(self) -> list[float]:
        return [d * p for d, p in zip(self.added, self.kept, strict=True)]

    @property
    def total(self) -> float:
        return math.fsum(self.shares)

    @property
    def difference(self) -> float:
        """The sum over time minus the stored value."""
        return self.total - self.value

    def ranked(self) -> list[int]:
        """The tokens by what is left of them, the largest first."""
        return sorted(range(len(self.shares)), key=lambda i: -abs(self.shares[i]))

    def __repr__(self) -> str:
        few = ", ".join(f"{self.tokens[i]!r} {self.shares[i]:+.4g}" for i in self.ranked()[:3])
        return f"{self._headline()}\n  written by {few} …"

    def _headline(self) -> str:
        return (
            f"unit {self.unit} of layer {self.layer} at {self.tokens[self.position]!r}: "
            f"{self.value:.6g}"
        )

    def view(self) -> Iterator[Part]:
        yield self._headline()
        rows = [
            (str(i), repr(self.tokens[i]), *(f"{x:.4f}" for x in numbers))
            for i in self.ranked()[:SHOWN]
            for numbers in [(self.added[i], self.kept[i], self.shares[i])]
        ]
        yield Table(("", "token", "wrote", "kept", "left"), rows, right=(0, 2, 3, 4))
        verdict = rounding.verdict(self.difference, self.bound)
        yield f"the sum over {counted(len(self.shares), 'token')} {verdict}"

    def picture(self) -> str:
        """What is left of each token, as bars in SVG."""
        rows = [(f"{i} {short(self.tokens[i], 20)}", x) for i, x in enumerate(self.shares)]
        return pictures.bars(rows, self._headline(), f"the sum differs by {self.difference:.0e}")

    def to_json(self) -> dict[str, Any]:
        return {
            "layer": self.layer,
            "unit": self.unit,
            "position": self.position,
            "tokens": self.tokens,
            "added": self.added,
            "kept": self.kept,
            "shares": self.shares,
            "value": self.value,
            "sum": self.total,
            "difference": self.difference,
            "bound": self.bound,
            "agrees": self.agrees,
        }


@dataclass(frozen=True, eq=False)
class Gates(Pictured):
    """One layer of a recurrent network: its units over time."""

    family: str
    layer: int
    tokens: list[str]
    values: dict[str, Array]
    """Units x tokens, by symbol."""
    edited: frozenset[str]
    """Steps that were replaced on the way."""

    def __getitem__(self, symbol: str) -> Array:
        return self.values[arguments.choice("symbol", symbol, self.values)]

    @property
    def memory(self) -> str:
        """The symbol that holds from token to token: c, or h where there is no context."""
        return "c" if "c" in self.values else "h"

    @property
    def units(self) -> int:
        return len(self.values["h"])

    def order(self, by: str = "index") -> list[int]:
        """All units: by index, by the token at which each holds most, or alike beside alike.

        Alike are units whose memory has the same course: they are ordered by their angle in the
        plane of the two principal components.
        """
        held = np.asarray(self[self.memory], np.float64)
        by = arguments.choice("by", by, ("index", "hold", "similarity"))
        if by == "index":
            return list(range(self.units))
        if by == "hold":
            most = np.abs(held).argmax(axis=1)
            return [int(k) for k in np.lexsort((-np.abs(held).max(axis=1), most))]
        centred = held - held.mean(axis=1, keepdims=True) if held.shape[1] > 1 else held
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        course = centred / np.where(length > 0, length, 1)
        left, size, right = np.linalg.svd(course, full_matrices=False)
        signs = np.sign(right[np.arange(len(right)), np.abs(right).argmax(axis=1)])  # svd has none
        plane = (left * size * signs)[:, :2]
        angle = np.arctan2(plane[:, -1], plane[:, 0])
        return [int(k) for k in np.argsort(angle, kind="stable")]

    def on(self, symbol: str, first: int, last: int, least: float = ON) -> list[tuple[int, float]]:
        """The units that are on from one token to another, with their least size there.

        A gate is on where it is at least ``least``; what has a sign must keep it, too.
        """
        n = len(self.tokens)
        first = arguments.whole("first", first, least=0)
        last = arguments.whole("last", last, least=0)
        if not first <= last < n:
            raise WrongLength(f"expected tokens from 0 to {n - 1}, in order; got {first} to {last}")
        part = self[symbol][:, first : last + 1]
        weakest = np.maximum(part.min(axis=1), -part.max(axis=1))
        found = np.flatnonzero(weakest >= arguments.number("least", least))
        return [(int(k), float(weakest[k])) for k in found[np.argsort(-weakest[found])]]

    def written(self, unit: int, position: int = -1) -> Written:
        """Where the context of a unit at a token was written."""
        if "c" not in self.values:
            raise WrongKind(
                f"{self.family} has no context: its state is written anew at every token; "
                f"'vesalius unfold' tells what h[{self.layer},i] is made of"
            )
        unit = arguments.whole("unit", unit, least=0)
        n, at = len(self.tokens), arguments.whole("position", position)
        if unit >= self.units or not -n <= at < n:
            raise WrongLength(
                f"expected a unit below {self.units} and a position below {n}; "
                f"got {unit} and {position}"
            )
        at %= n
        c, d, k, p = (self.values[x][unit, : at + 1].astype(np.float64) for x in "cdkp")
        for t in range(at + 1):  # what was put in the place of a step is written there
            if {f"k[{self.layer},{t + 1}]", f"c[{self.layer},{t + 1}]"} & self.edited:
                before = c[t - 1] * p[t] if t else 0.0
                whole = not math.isclose(k[t], before, rel_tol=1e-5, abs_tol=1e-30)
                d[t], p[t] = (c[t], 0.0) if whole else (c[t] - k[t], p[t])
        since = np.append(np.cumprod(p[:0:-1])[::-1], 1.0)
        sizes, epsilon = float(np.abs(d * since).sum()), rounding.precision(self.values["c"])
        return Written(
            self.layer,
            unit,
            at,
            self.tokens[: at + 1],
            d.tolist(),
            since.tolist(),
            float(c[at]),
            rounding.bound(at + 1, sizes, epsilon),
        )

    def __repr__(self) -> str:
        return f"{self._headline()}\n  {', '.join(self.values)}: units x tokens"

    def _headline(self) -> str:
        read = counted(len(self.tokens), "token")
        return f"{self.family}, layer {self.layer}: {counted(self.units, 'unit')} over {read}"

    def view(self) -> Iterator[Part]:
        """The units whose memory is largest at the end."""
        yield self._headline()
        held = self[self.memory]
        rows = []
        for unit in np.argsort(-np.abs(held[:, -1]), kind="stable")[:SHOWN]:
            most = int(np.abs(held[unit]).argmax())
            numbers = [f"{self.values[x][unit, -1]:.3f}" for x in self.values]
            rows.append((str(unit), *numbers, f"{most} {self.tokens[most]!r}"))
        heads = ("unit", *self.values, "most at")
        yield f"by the size of {self.memory} at the last token, {self.tokens[-1]!r}"
        yield Table(heads, rows, right=tuple(range(len(self.values) + 1)))
        yield f"a unit holds most at the token where {self.memory} is largest"

    def picture(self) -> str:
        """The memory of the units that hold most, over time."""
        held = self[self.memory]
        units = np.argsort(-np.abs(held).max(axis=1), kind="stable")[:SHOWN]
        title = f"{self._headline()}; {self.memory} of the units that hold most"
        return pictures.grid(held[units], [f"unit {k}" for k in units], self.tokens, title)

    def to_json(self) -> dict[str, Any]:
        """The order of the units by each measure, and the memory of each."""
        return {
            "family": self.family,
            "layer": self.layer,
            "tokens": self.tokens,
            "units": self.units,
            "symbols": list(self.values),
            "memory": self.memory,
            "orders": {by: self.order(by) for by in ("index", "hold", "similarity")},
        }


def gates(trace: Trace, layer: int | None = None) -> Gates:
    """The units of a recurrent layer over time: ``vs.gates(vs.dissect("lstm", "He"))["p"]``.

    The last layer unless one is said. Of an rnn ``Uh`` is what comes from the token before, ``Wh``
    what comes from below, with the bias: the state is the activation of their sum.
    """
    require_trace(trace)
    if not any(step.symbol == "h" and "time" in step.place for step in trace.steps):
        having = ", ".join(name for name, family in FAMILIES.items() if family.carries_state)
        raise WrongKind(
            f"{trace.family} has no gates; families that have states over time: {having}"
        )
    layers = trace.graph.layers
    layer = layers if layer is None else arguments.whole("layer", layer, least=1)
    if layer > layers:
        raise WrongLength(f"expected a layer from 1 to {layers}, got {layer}")
    there = [s.symbol for s in trace.steps if "time" in s.place and s.place["layer"] == layer]
    n, others = there.count("h"), [x for x in dict.fromkeys(there) if x not in LSTM]
    symbols = [*others, *(x for x in LSTM if x in there)]
    found = {
        x: np.stack([trace[f"{x}[{layer},{i}]"] for i in range(1, n + 1)], axis=1) for x in symbols
    }
    if symbols == ["h"]:
        found = _elman(trace, layer, found["h"])
    edited = frozenset(trace.steps.edited)
    return Gates(trace.family, layer, trace.tokens(), found, edited)


def _elman(trace: Trace, layer: int, h: Array) -> dict[str, Array]:
    """What the state of an Elman layer is made of."""
    if trace.model is None:
        raise WrongKind(
            "a trace read from a file has no parameters; say which model made it: "
            "read_trace(file, model=...)"
        )
    Phi = trace.model.parameters.Phi[layer - 1]
    assert isinstance(Phi, Elman)
    before = np.concatenate([np.zeros_like(h[:, :1]), h[:, :-1]], axis=1)
    below = trace.states(layer - 1)
    return {"Uh": Phi.U @ before, "Wh": Phi.W @ below + Phi.b[:, None], "h": h}
