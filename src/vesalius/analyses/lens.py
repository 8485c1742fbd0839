"""The logit lens: what a model would say at every depth, read through what follows its last layer.

Depths are the states of a trace: H[0], and in every layer C[l] after attention and H[l] after the
feedforward network; h[l] in recurrent and feedforward models. Nothing is run again, so that edits
of the trace are seen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.analyses.targets import Target, Wanted, column_of, find, labels, output_of
from vesalius.equations import softmax
from vesalius.equations.parameters import Array
from vesalius.errors import UnknownStep, WrongKind, nearest
from vesalius.families import family_of
from vesalius.traces.trace import Trace, require_trace
from vesalius.views import pictures
from vesalius.views.pictures import Pictured
from vesalius.views.shown import Cell, Part, Table, counted

FAINT = 0.1
"""What is less likely than this is shown fainter."""
SHOWN, LINE = 32, 100
"""Tokens that are shown, the last ones, and characters of a table's line."""


@dataclass(frozen=True)
class Candidate:
    """A word or class with its probability."""

    id: int
    name: str
    probability: float

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "probability": self.probability}


@dataclass(frozen=True, eq=False)
class Course:
    """A target by depth."""

    target: Target
    values: Array
    """Its logit or value, or the difference of two."""
    probabilities: Array | None
    ranks: list[int] | None
    """1 where nothing is likelier; None for differences and values."""

    def to_json(self) -> dict[str, Any]:
        odds = None if self.probabilities is None else self.probabilities.tolist()
        told = {"target": self.target.to_json(), "values": self.values.tolist()}
        return {**told, "probabilities": odds, "ranks": self.ranks}


@dataclass(frozen=True, eq=False)
class Lens(Pictured):
    """What states of every depth stand for: words or classes with probabilities, or values."""

    family: str
    depths: list[str]
    """The names of the states, from the input to the output."""
    tokens: list[str]
    """What the columns are called that are read."""
    positions: list[int]
    """Where these stand in the input, or in a forecast."""
    likeliest: list[list[list[Candidate]]]
    """By depth and token, the likeliest first; empty for models that give values."""
    probabilities: Array
    """Depths x tokens x top: those of the likeliest."""
    distances: Array | None
    """Of models that give values: by depth and column, how far from the output (RMS)."""
    course: Course | None
    """The target by depth, if there is one."""
    trace: Trace
    """What was read."""

    def distribution(self, depth: str) -> Array:
        """All probabilities, or values, at a depth: words x tokens."""
        if depth not in self.depths:
            raise UnknownStep(f"there is no depth {depth!r}; {nearest(depth, self.depths)}")
        logits = _logits(self.trace, self.depths, depth)
        return softmax(logits) if self.trace.tells_odds else logits

    def __repr__(self) -> str:
        told = f"Lens of {self.family}: {self.depths[0]} to {self.depths[-1]}, "
        told += counted(len(self.tokens), "token" if self.likeliest else "column")
        if self.likeliest:
            said = (row[-1][0] for row in self.likeliest)
            each = [
                f"{d} {_word(c.name)} {c.probability:.2f}"
                for d, c in zip(self.depths, said, strict=True)
            ]
            told += f"\n  at the last: {', '.join(each[-4:])}"
        return told

    def view(self) -> Iterator[Part]:
        what = "distance from the output" if self.likeliest == [] else "the likeliest"
        few = f"; the last {SHOWN} of {len(self.tokens)}" if len(self.tokens) > SHOWN else ""
        yield f"logit lens of {self.family}: {what} at every depth{few}"
        shown = range(max(0, len(self.tokens) - SHOWN), len(self.tokens))
        cells = [[self._cell(d, k) for k in shown] for d in range(len(self.depths))]
        heads = [_word(self.tokens[k]) for k in shown]
        for start, stop in _lines(heads, cells):
            rows = [
                (depth, *row[start:stop]) for depth, row in zip(self.depths, cells, strict=True)
            ]
            right = range(1, stop - start + 1) if self.distances is not None else ()
            yield Table(("", *heads[start:stop]), rows, right=tuple(right))
        if self.course is not None:
            yield self._course(self.course)

    def _cell(self, depth: int, column: int) -> Cell:
        if self.distances is not None:
            return Cell(f"{self.distances[depth, column]:.4g}")
        best = self.likeliest[depth][column]
        if len(best) == 1 and len(self.tokens) > 1:
            return Cell(_word(best[0].name), faint=best[0].probability < FAINT)
        told = "\n".join(f"{_word(one.name)} {one.probability:.2f}" for one in best)
        return Cell(told, faint=best[0].probability < FAINT)

    def _course(self, course: Course) -> Table:
        rows = []
        for k, depth in enumerate(self.depths):
            row = [depth, f"{course.values[k]:.4g}"]
            if course.probabilities is not None:
                row.append(f"{course.probabilities[k]:.4f}")
            rows.append((*row, f"{course.ranks[k]:,}") if course.ranks else tuple(row))
        heads = ["depth", "logit" if course.probabilities is not None else "value"]
        heads += ["probability"] if course.probabilities is not None else []
        heads += ["rank"] if course.ranks else []
        title = f"{course.target.label}{self._where(course.target)}"
        return Table(heads, rows, right=tuple(range(1, len(heads))), title=title)

    def _where(self, target: Target) -> str:
        if target.step != "Z":
            return ""
        return f" at position {target.column}, {_word(self.trace.tokens()[target.column])}"

    def picture(self) -> str:
        """Depths x tokens as SVG, the output on top: the likeliest, coloured by probability."""
        shown = slice(max(0, len(self.tokens) - SHOWN), None)
        depths, tokens = self.depths[::-1], self.tokens[shown]
        if self.distances is not None:
            title = "Logit lens: distance from the model's output"
            return pictures.grid(
                self.distances[::-1, shown], depths, tokens, title, ("depth", ""), signed=False
            )
        words = [[_word(best[0].name) for best in row[shown]] for row in self.likeliest[::-1]]
        return pictures.grid(
            self.probabilities[::-1, shown, 0],
            depths,
            tokens,
            "Logit lens: the likeliest at every depth",
            ("depth", "token"),
            signed=False,
            words=words,
            limit=1.0,
        )

    def to_json(self) -> dict[str, Any]:
        """The likeliest by depth and token, or distances from the output, and the target."""
        told = [[[one.to_json() for one in best] for best in row] for row in self.likeliest]
        return {
            "family": self.family,
            "depths": self.depths,
            "tokens": self.tokens,
            "positions": self.positions,
            "likeliest": told,
            "distances": None if self.distances is None else self.distances.tolist(),
            "target": None if self.course is None else self.course.to_json(),
        }


def lens(trace: Trace, target: Wanted = None, position: int | None = None, top: int = 1) -> Lens:
    """The logit lens: the ``top`` likeliest words or classes at every depth and token.

    With a ``target`` (a word, a class, two to compare, or a cell of what the model gives) its
    logit, probability and rank by depth too. ``position`` reads one token only.
    """
    require_trace(trace)
    top = arguments.whole("top", top, least=1)
    depths = depths_of(trace)
    own = _logits(trace, depths, depths[-1])
    wanted = None if target is None else _target(trace, target, position)
    columns = [] if own.ndim == 1 else list(range(own.shape[1]))
    if position is not None:
        columns = [column_of(trace, own, position)]
    tokens, positions = _names(trace, own, columns)
    likeliest, distances, course = list[Any](), list[Any](), list[Any]()
    for depth in depths:
        logits = own if depth == depths[-1] else _logits(trace, depths, depth)
        if trace.tells_odds:
            odds = softmax(logits)
            shares = odds[:, columns].T if columns else [odds]
            likeliest.append([_best(trace, share, top) for share in shares])
        else:
            far = _distances(logits, own)
            distances.append(far[columns] if columns else far)
        if wanted is not None:
            course.append((wanted.of(logits), wanted.probability(logits), _rank(wanted, logits)))
    told = [[[one.probability for one in best] for best in row] for row in likeliest]
    return Lens(
        family=trace.family,
        depths=depths,
        tokens=tokens,
        positions=positions,
        likeliest=likeliest,
        probabilities=np.array(told),
        distances=np.array(distances) if distances else None,
        course=None if wanted is None else _course(wanted, course),
        trace=trace,
    )


def depths_of(trace: Trace) -> list[str]:
    """The names of all states that the read-out fits, from the input to the output."""
    layers = range(1, trace.graph.layers + 1)
    if "H[0]" in trace.steps.passed:
        return ["H[0]", *(name for l in layers for name in (f"C[{l}]", f"H[{l}]"))]
    if "h[1]" in trace.steps.passed:
        return [f"h[{l}]" for l in layers]
    tall = trace.states("X").shape[0] == trace.states(1).shape[0]
    return [*(("X",) if tall else ()), *(f"h[{l}]" for l in layers)]


def _logits(trace: Trace, depths: Sequence[str], depth: str) -> Array:
    """What the states of a depth give; those of the last give what the trace holds of the output.

    So the last is the model's own, whatever was edited behind its last layer.
    """
    logits = trace.read_logits(depth)
    output = output_of(trace)
    own = trace[output] if output is not None and output in trace else None
    if depth == depths[-1] and own is not None and own.shape == logits.shape:
        return own
    return logits


def _target(trace: Trace, wanted: Wanted, position: int | None) -> Target:
    target = find(trace, wanted, position)
    output = output_of(trace)
    if target.step != output:
        raise WrongKind(f"the lens reads {output} at every depth; {target.step} is none of it")
    return target


def _names(trace: Trace, own: Array, columns: Sequence[int]) -> tuple[list[str], list[int]]:
    """What the columns that are read are called, and where they stand."""
    tokens = trace.tokens()
    if own.ndim == 1:
        after = "" if not trace.ids else f"after {_word(tokens[-1])}"
        return [after or ("[class]" if "[class]" in tokens else "series")], [0]
    if trace.model is not None and family_of(trace.model.config).forecast is not None:
        return [f"+{k + 1}" for k in columns], list(columns)  # time steps after the series
    first = len(tokens) - own.shape[1]  # a class token restores nothing
    return [tokens[first + k] for k in columns], [first + k for k in columns]


def _best(trace: Trace, share: Array, top: int) -> list[Candidate]:
    top = min(top, len(share))
    ahead = np.flatnonzero(share >= np.partition(share, -top)[-top])
    order = ahead[np.argsort(-share[ahead], kind="stable")][:top]
    return [Candidate(int(k), _name(trace, int(k)), float(share[k])) for k in order]


def _name(trace: Trace, row: int) -> str:
    if named := labels(trace):
        return named[row]
    tokenizer = trace.model.tokenizer if trace.model else None
    return str(row) if tokenizer is None else tokenizer.piece(row)


def _word(text: str) -> str:
    """A token as it is shown: its space and its end of line can be seen."""
    seen = "".join(c if c.isprintable() else "⏎" if c == "\n" else "�" for c in text)
    return f"·{seen[1:]}" if seen.startswith(" ") else seen


def _distances(value: Array, own: Array) -> Array:
    """The root of the mean square of the difference, by column."""
    gone = value.astype(np.float64) - own
    return np.atleast_1d(np.sqrt((gone * gone).mean(axis=0)))


def _rank(target: Target, logits: Array) -> int | None:
    if not target.likelihood or len(target.cells) > 1:
        return None
    column = logits if logits.ndim == 1 else logits[:, target.column]
    return int((column > column[target.cells[0][0][0]]).sum()) + 1


def _course(target: Target, course: list[tuple[float, float | None, int | None]]) -> Course:
    values, odds, ranks = zip(*course, strict=True)
    return Course(
        target,
        np.array(values),
        np.array(odds) if target.likelihood else None,
        None if ranks[0] is None else list(ranks),
    )


def _lines(heads: Sequence[str], cells: Sequence[Sequence[Cell]]) -> Iterator[tuple[int, int]]:
    """Where a wide table is cut, so that its lines fit."""
    start, used = 0, 8
    for k, head in enumerate(heads):
        texts = [head, *(line for row in cells for line in row[k].text.split("\n"))]
        wide = max(map(len, texts)) + 3
        if used + wide > LINE and k > start:
            yield start, k
            start, used = k, 8
        used += wide
    yield start, len(heads)
