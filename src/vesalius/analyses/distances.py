"""How far the parameters, the steps and the words of one model are from those of another.

Norms are taken in single precision and added up in double; nothing is copied as a whole.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vesalius.analyses.alignment import Alignment
from vesalius.equations.activations import log_softmax
from vesalius.equations.parameters import Array, arrays
from vesalius.machine.cancellation import check
from vesalius.model import Model
from vesalius.traces.trace import Trace


@dataclass(frozen=True)
class Distance:
    """How far an array or a step of one model is from that of the other."""

    name: str
    kind: str
    """The name without its place: ``W_Q`` of ``Phi[3].Gamma.Psi[2].W_Q``, ``mu`` of ``mu[3,2]``."""
    place: Mapping[str, int]
    """Its layer, head and time, as far as it has them; W_O has rows for each head."""
    shape: tuple[int, ...]
    difference: float
    """The norm of b minus a."""
    norm: float
    """The norm of a, or of b where a is zero."""
    both: float
    """The sum of the two norms."""

    @property
    def relative(self) -> float:
        return 0.0 if self.difference == 0 else self.difference / self.norm

    @property
    def share(self) -> float:
        """The difference as a share of the most that it could be: 0 alike, 1 opposite."""
        return 0.0 if self.difference == 0 else min(1.0, self.difference / self.both)

    def __str__(self) -> str:
        rows = f", head {self.place['head']}" if self.name.endswith("W_O") else ""
        return f"{self.name}{rows}"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            **self.place,
            "shape": list(self.shape),
            "difference": self.difference,
            "norm": self.norm,
            "relative": self.relative,
            "share": self.share,
        }


@dataclass(frozen=True)
class Outcome:
    """What two models say at one position: how far apart, and which words come and go."""

    position: int
    token: str
    """The token that was read there; empty where the output is one for the whole input."""
    kl: float
    """KL divergence of b from a, Σ a log(a / b), in nats."""
    reverse_kl: float
    """KL divergence of a from b, Σ b log(b / a), in nats."""
    gained: list[str]
    """Among the likeliest of b and not of a."""
    lost: list[str]
    """Among the likeliest of a and not of b."""

    def to_json(self) -> dict[str, Any]:
        return self.__dict__.copy()


def distance(name: str, kind: str, place: Mapping[str, int], a: Array, b: Array) -> Distance:
    """The norm of b - a beside that of a; arrays that share their memory are not subtracted."""
    check()
    if (a.ctypes.data, a.strides, a.shape) == (b.ctypes.data, b.strides, b.shape):
        norm = _norm(a)
        return Distance(name, kind, place, a.shape, 0.0, norm, 2 * norm)
    with np.errstate(invalid="ignore"):
        change = b - a
    if not np.isfinite(change.sum()):  # equal infinities, as in masks, do not differ
        change = np.where(a == b, 0, change)
    norms = _norm(a), _norm(b)
    return Distance(name, kind, place, a.shape, _norm(change), norms[0] or norms[1], sum(norms))


def _norm(x: Array) -> float:
    """The root of the sum of squares: rows in their own precision, their sum in double.

    Infinities, which masks have, are left out.
    """
    rows = x if x.flags.c_contiguous or x.ndim < 2 or not x.T.flags.c_contiguous else x.T
    square = float(np.einsum("...j,...j->...", rows, rows).sum(dtype=np.float64))
    return math.sqrt(square) if math.isfinite(square) else _norm(x[np.isfinite(x)])


def parameters(a: Model, b: Model, notes: list[str]) -> list[Distance]:
    """Every array that both have in the same shape; ``notes`` takes the others.

    Where one model is tied and the other is not, U of the first is Eᵀ.
    """
    ours, theirs = (dict(arrays(model.parameters)) for model in (a, b))
    for one, other in ((ours, theirs), (theirs, ours)):
        if "U" in one and "U" not in other and other["E"].T.shape == one["U"].shape:
            other["U"] = other["E"].T
    note_unequal("parameters", _shapes(ours), _shapes(theirs), notes)
    both = [name for name in ours if name in theirs and ours[name].shape == theirs[name].shape]
    heads = [model.config.symbols().get("M", 1) for model in (a, b)]
    return [one for name in both for one in _by_head(name, ours[name], theirs[name], *heads)]


def _by_head(name: str, a: Array, b: Array, heads: int, others: int) -> Iterator[Distance]:
    """An array by itself, or the rows of W_O for each head."""
    layer, head = (re.search(rf"{part}\[(\d+)\]", name) for part in ("Phi", "Psi"))
    place = {axis: int(m[1]) for axis, m in (("layer", layer), ("head", head)) if m}
    kind = re.sub(r"^Phi\[\d+\]\.(Gamma\.(Psi\[\d+\]\.)?|Pi\.)?", "", name)
    if not name.endswith("Gamma.W_O") or heads != others:
        yield distance(name, kind, place, a, b)
        return
    wide = len(a) // heads
    for m in range(heads):
        rows = slice(m * wide, (m + 1) * wide)
        yield distance(name, kind, {**place, "head": m + 1}, a[rows], b[rows])


def steps(
    a: Trace, b: Trace, notes: list[str], symbols: Collection[str] | None = None
) -> list[Distance]:
    """Every step that both have, in the order of computation, at the tokens that both have.

    ``symbols`` are those of the steps that are wanted; all by default.
    """
    both = Alignment(a, b)
    ours, theirs = ([s for s in t.steps if symbols is None or s.symbol in symbols] for t in (a, b))
    found = [(s, both.cells(s)) for s in ours]
    left = {s.name: s.shape for s, cells in found if cells is None and both.name_in_b(s)}
    matched = {both.name_in_b(s) for s, cells in found if cells is not None}
    times = set(both.pairs.values())  # of b, that a has counterparts for
    extra = {
        s.name: s.shape
        for s in theirs
        if s.name not in matched and ("time" not in s.place or s.place["time"] - 1 in times)
    }
    note_unequal("steps", left, extra, notes)
    notes += both.notes()
    return [distance(s.name, s.symbol, s.place, *cells) for s, cells in found if cells is not None]


def _shapes(named: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in named.items()}


def note_unequal(
    what: str,
    ours: Mapping[str, tuple[int, ...]],
    theirs: Mapping[str, tuple[int, ...]],
    notes: list[str],
) -> None:
    """Say which cannot be compared."""
    said = {
        "only a has": [name for name in ours if name not in theirs],
        "only b has": [name for name in theirs if name not in ours],
        "have other shapes in b:": [n for n in ours if n in theirs and ours[n] != theirs[n]],
    }
    for words, names in said.items():
        if names:
            few = ", ".join(names[:3]) + (f" … {names[-1]}" if len(names) > 3 else "")
            subject = f"{len(names):,} {what}"
            first = f"{subject} {words} " if words.startswith("have") else f"{words} {subject}: "
            notes.append(f"not compared: {first}{few}")


def outcomes(a: Trace, b: Trace, top: int, notes: list[str]) -> list[Outcome]:
    """KL divergences, and the words of ``top`` that come and go; none where no words are told."""
    labels = a.tells_labels and b.tells_labels
    step = next((s for s in ("zZ" if labels else "Zz") if s in a and s in b), None)
    told = step is not None and all(
        trace.class_names or "Y_hat" in trace or "y_hat" in trace for trace in (a, b)
    )
    if step is None or not told:
        return []
    ours, theirs = (t[step] if t[step].ndim == 2 else t[step][:, None] for t in (a, b))
    if len(ours) != len(theirs) or a[step].ndim != b[step].ndim:
        notes.append("not compared: distributions, which are over other words or positions")
        return []
    if a[step].ndim == 1:
        return [_outcome(a, 0, "", ours[:, 0], theirs[:, 0], top)]
    tokens, pairs = a.tokens(), Alignment(a, b).pairs
    return [_outcome(a, i, tokens[i], ours[:, i], theirs[:, j], top) for i, j in pairs.items()]


def _outcome(trace: Trace, i: int, token: str, ours: Array, theirs: Array, top: int) -> Outcome:
    p, q = (log_softmax(z.astype(np.float64)) for z in (ours, theirs))
    kl, reverse = float(np.exp(p) @ (p - q)), float(np.exp(q) @ (q - p))
    before, after = (np.argsort(-z, kind="stable")[:top].tolist() for z in (ours, theirs))
    gained = [_word(trace, k) for k in after if k not in before]
    lost = [_word(trace, k) for k in before if k not in after]
    return Outcome(i, token, max(kl, 0.0), max(reverse, 0.0), gained, lost)


def _word(trace: Trace, k: int) -> str:
    if trace.class_names:
        return trace.class_names[k]
    tokenizer = trace.model.tokenizer if trace.model else None
    return str(k) if tokenizer is None else tokenizer.piece(k)
