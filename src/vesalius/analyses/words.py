"""Words as points: neighbours over the whole vocabulary, exact projections, words in context (2.2).

Static vectors are the columns of E. A projection is on principal components, or on the line between
two words. In context, a token's states after every layer stand beside its static vector.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from vesalius import arguments
from vesalius.capabilities import require_served, tokenizer_of
from vesalius.equations.parameters import Array
from vesalius.errors import ImpossibleSetting, TokenOutOfRange, WrongKind
from vesalius.families import family_of
from vesalius.model import Model, ModelLike, loaded
from vesalius.tasks.embedding import DISTANCES, order
from vesalius.traces.trace import Trace
from vesalius.views.shown import Part, Shown, Table, short

AT_ONCE = 8192
"""Words whose vectors are held in float64 at once."""
SHOWN, WIDE = 12, 24
"""Words of an axis's end, and characters of a word, that are shown."""


class Near(NamedTuple):
    """A word, or a token of a text by its position, and how near it is."""

    id: int
    token: str
    score: float

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def vectors(model: Model) -> Array:
    """The static vectors of all words, a row each."""
    require_served(model, "similar")
    tokenizer_of(model)
    rows: Array = model.parameters.E.T
    return rows


def tokens(model: Model) -> list[str]:
    """Every word as text, by id; empty where the embedding has a row and the tokenizer no word."""
    tokenizer = tokenizer_of(model)
    return [tokenizer.piece(i) if i < tokenizer.rows else "" for i in range(len(vectors(model)))]


def _id(model: Model, word: str | int) -> int:
    """The id of one token, said by its text or its number."""
    if isinstance(word, str):
        return tokenizer_of(model).id_of(word)
    number, size = arguments.whole("a word", word), len(vectors(model))
    if not 0 <= number < size:
        raise TokenOutOfRange(f"the {size:,} words have ids from 0 to {size - 1:,}, got {number}")
    return number


# Neighbours ------------------------------------------------------------------


def neighbours(
    model: ModelLike, word: str | int, top: int = 10, distance: str = "cosine"
) -> list[Near]:
    """The words nearest to one token by their static vectors, nearest first.

    All words are compared, special ones too. Of ``cosine`` the highest is nearest, of ``euclidean``
    the lowest. ``similar`` takes texts of several tokens.
    """
    model = loaded(model)
    rows, own = vectors(model), _id(model, word)
    top = arguments.whole("top", top, least=1)
    distance = arguments.choice("distance", distance, DISTANCES)
    return _nearest(model, rows[own], top, distance, leave_out=own)


def _nearest(
    model: Model, to: Array, top: int, distance: str, leave_out: int | None = None
) -> list[Near]:
    tokenizer = tokenizer_of(model)
    rows = vectors(model)[: tokenizer.rows]
    scores = DISTANCES[distance](rows, to.astype(rows.dtype, copy=False))
    best = (int(i) for i in order(scores, distance)[: top + 1])
    found = [Near(i, tokenizer.piece(i), float(scores[i])) for i in best if i != leave_out]
    return found[:top]


# Projections -----------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Projection(Shown):
    """Every word as a point."""

    tokens: list[str]
    points: Array
    """Words x axes."""
    axes: tuple[str, ...]
    shares: tuple[float, ...]
    """Of the variance of all words, by axis."""

    def __repr__(self) -> str:
        named = ", ".join(f"{a} {s:.1%}" for a, s in zip(self.axes, self.shares, strict=True))
        return f"Projection of {len(self.tokens):,} words on {named}"

    def view(self) -> Iterator[Part]:
        """The words at both ends of every axis."""
        yield repr(self)
        rows = []
        for axis, column in zip(self.axes, self.points.T, strict=True):
            ranked = [i for i in np.argsort(column, kind="stable") if self.tokens[i]]
            ends = (ranked[:SHOWN], ranked[: -SHOWN - 1 : -1])
            rows.append((axis, *("  ".join(_shown(self.tokens[i]) for i in end) for end in ends)))
        yield Table(("axis", "lowest", "highest"), rows, prose=(1, 2))

    def to_json(self) -> dict[str, Any]:
        found = {"tokens": self.tokens, "points": self.points.tolist()}
        return {**found, "axes": list(self.axes), "shares": list(self.shares)}


def project(
    model: ModelLike, *axes: tuple[str | int, str | int], dimensions: int = 3
) -> Projection:
    """All words of a model on a few axes, by their static vectors.

    Without ``axes``, on the principal components of the whole vocabulary, which are exact (no
    sample, no iteration). Each of ``axes`` is two words, as in ``(" he", " she")``: the first lies
    at -1 on their line, the second at 1. Further dimensions are the principal components of what
    the lines leave.
    """
    model = loaded(model)
    rows, names = vectors(model), tokens(model)
    dimensions = arguments.whole("dimensions", dimensions, least=1)
    if dimensions > rows.shape[1] or len(axes) > dimensions:
        raise ImpossibleSetting(
            f"{len(axes)} pairs of words and {dimensions} dimensions; expected no more pairs than "
            f"dimensions, and no more of these than the vectors' {rows.shape[1]}"
        )
    ends = [_ends(model, pair) for pair in axes]
    mean, covariance = _moments(rows, np.array([bool(name) for name in names]))
    columns, labels, spread = [], [], []
    lines = np.array([_line(rows, *pair) for pair in ends]).reshape(len(ends), rows.shape[1])
    for (first, second), line in zip(ends, lines, strict=True):
        middle = (rows[first].astype(np.float64) + rows[second]) / 2
        columns.append((line * 2 / (line @ line), middle))
        labels.append(f"{names[first]} → {names[second]}")
        spread.append(float(line @ covariance @ line / (line @ line)))
    values, directions = _components(covariance, lines, dimensions - len(ends))
    for k, (value, direction) in enumerate(zip(values, directions, strict=True), 1):
        columns.append((direction, mean))
        labels.append(f"component {k}")
        spread.append(float(value))
    points = np.empty((len(rows), dimensions))
    weights = np.stack([weight for weight, _ in columns], axis=1)
    offsets = np.array([weight @ origin for weight, origin in columns])
    for start in range(0, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE].astype(np.float64)
        points[start : start + AT_ONCE] = some @ weights - offsets
    whole = float(np.trace(covariance)) or 1.0
    return Projection(names, points, tuple(labels), tuple(s / whole for s in spread))


def _ends(model: Model, pair: Sequence[str | int]) -> tuple[int, int]:
    if isinstance(pair, str) or len(pair) != 2:
        raise ImpossibleSetting(f"an axis is two words, as in (' he', ' she'); got {pair!r}")
    return _id(model, pair[0]), _id(model, pair[1])


def _line(rows: Array, first: int, second: int) -> Array:
    found: Array = rows[second].astype(np.float64) - rows[first]
    if not found.any():
        raise ImpossibleSetting(
            f"words {first} and {second} have the same vector, so that no line leads from one to "
            f"the other; choose two that differ"
        )
    return found


def _moments(rows: Array, real: Array) -> tuple[Array, Array]:
    """The mean and the covariance of all words, in float64."""
    mean = rows[real].mean(axis=0, dtype=np.float64)
    covariance = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        centred = rows[part][real[part]] - mean
        covariance += centred.T @ centred
    return mean, covariance / max(1, int(real.sum()))


def _components(covariance: Array, lines: Array, count: int) -> tuple[Array, Array]:
    """The largest principal components orthogonal to the lines; their largest entry is positive."""
    if count == 0:
        return np.empty(0), np.empty((0, len(covariance)))
    basis = np.linalg.qr(lines.T)[0] if len(lines) else np.empty((len(covariance), 0))
    rest = np.eye(len(covariance)) - basis @ basis.T
    values, directions = np.linalg.eigh(rest @ covariance @ rest)
    best = directions[:, ::-1][:, :count].T
    largest = best[np.arange(count), np.abs(best).argmax(axis=1)]
    return values[::-1][:count], best * np.sign(largest)[:, None]


# Static against contextual ---------------------------------------------------


@dataclass(frozen=True, repr=False)
class Contexts(Shown):
    """One token of a text: its states after every layer, and what is near to them."""

    position: int
    id: int
    token: str
    distance: str
    depths: list[str]
    own: list[float]
    """By depth: how near the state is to the token's static vector."""
    words: list[list[Near]]
    """By depth: the words whose static vectors are nearest to the state."""
    others: list[list[Near]]
    """By depth: the nearest states of the text's other tokens, by position."""

    def __repr__(self) -> str:
        last = ", ".join(_shown(one.token) for one in self.words[-1][:3])
        ends = [f"{own:.3f} in {depth}" for depth, own in zip(self.depths, self.own, strict=True)]
        return (
            f"Contexts of {_shown(self.token)} at position {self.position}, by {self.distance}\n"
            f"  to its own vector {ends[0]}, {ends[-1]}\n"
            f"  {self.depths[-1]} is nearest to {last}"
        )

    def view(self) -> Iterator[Part]:
        def named(some: list[Near]) -> str:
            return "  ".join(f"{_shown(one.token)} {one.score:.2f}" for one in some)

        rows = [
            (depth, f"{own:.4f}", named(words), named(others))
            for depth, own, words, others in zip(
                self.depths, self.own, self.words, self.others, strict=True
            )
        ]
        heads = ("state", "own vector", "nearest words", "nearest tokens of the text")
        title = f"{_shown(self.token)} at position {self.position}, by {self.distance}"
        yield Table(heads, rows, right=(1,), prose=(2, 3), title=title)

    def to_json(self) -> dict[str, Any]:
        told = asdict(self)
        for name in ("words", "others"):
            told[name] = [[near.to_json() for near in some] for some in getattr(self, name)]
        return told


def contexts(trace: Trace, position: int = -1, top: int = 5, distance: str = "cosine") -> Contexts:
    """What the states of one token are near to, from its embedding to the last layer.

    Near among the static vectors of all words, and among the states of the text's other tokens
    after the same layer. The last token unless ``position`` says another.
    """
    if trace.model is None:
        raise WrongKind(
            "a trace read from a file has no model whose words could be near; say which made it: "
            "read_trace(file, model=...)"
        )
    model, n = trace.model, len(trace.ids)
    rows = vectors(model)
    if family_of(model.config).window:
        raise WrongKind(f"{trace.family} has one state for a whole window, not one for each token")
    position = arguments.whole("position", position)
    if not -n <= position < n:
        raise TokenOutOfRange(f"the text has {n} tokens, counted from 0; got position {position}")
    position %= n
    top = arguments.whole("top", top, least=1)
    distance = arguments.choice("distance", distance, DISTANCES)
    layers = range(trace.graph.layers + 1)
    states = {
        depth: trace.states(layer) for layer, depth in zip(layers, _depths(trace), strict=True)
    }
    width = rows.shape[1]
    states = {depth: found for depth, found in states.items() if found.shape[0] == width}
    if not states:
        raise WrongKind(f"no state of this {trace.family} has the {width} numbers of a word")
    own, words, others = [], [], []
    for found in states.values():
        state = found[:, position]
        static = rows[trace.ids[position]].astype(state.dtype, copy=False)[None]
        own.append(float(DISTANCES[distance](static, state)[0]))
        words.append(_nearest(model, state, top, distance))
        others.append(_among(trace, found, position, top, distance))
    token = trace.tokens()[position]
    return Contexts(
        position, trace.ids[position], token, distance, list(states), own, words, others
    )


def _depths(trace: Trace) -> list[str]:
    """The names of the states after every layer."""
    letter, first = ("H", "H[0]") if "H[0]" in trace.steps.passed else ("h", "X")
    return [first, *(f"{letter}[{layer}]" for layer in range(1, trace.graph.layers + 1))]


def _among(trace: Trace, states: Array, position: int, top: int, distance: str) -> list[Near]:
    scores = DISTANCES[distance](states.T, states[:, position])
    names = trace.tokens()
    best = (int(i) for i in order(scores, distance) if int(i) != position)
    return [Near(i, names[i], float(scores[i])) for i in best][:top]


def _shown(token: str) -> str:
    return short(token, WIDE)
