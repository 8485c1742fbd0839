"""Activation patching: which values of a clean run bring its answer back in a corrupted one.

The model runs on the corrupted text; one value after the other, each token position by itself
by default, is taken from the run on the clean text.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vesalius.analyses import targets
from vesalius.analyses.ablation import SHOWN, drawn, spread
from vesalius.analyses.alignment import common
from vesalius.analyses.replaying import Outcome, Replay, each
from vesalius.analyses.targets import Target, Wanted
from vesalius.arguments import Progress, silent
from vesalius.equations import Step
from vesalius.equations.parameters import Array
from vesalius.equations.tracing import name
from vesalius.errors import WrongKind, WrongLength
from vesalius.model import ModelLike, loaded
from vesalius.traces.dissection import read, trace_of
from vesalius.traces.edits import replaced
from vesalius.traces.edits.selection import Where, chosen
from vesalius.traces.edits.values import Edit, Positions, from_trace, pairs
from vesalius.traces.trace import Trace
from vesalius.views import pictures
from vesalius.views.shown import Part, Table, short

if TYPE_CHECKING:
    from vesalius.traces.dissection import Given

WHOLE = "all"
"""The column of steps that are patched as a whole."""


@dataclass(frozen=True, eq=False)
class Patching(pictures.Pictured):
    """The target of the corrupted run, with each value of the clean run: steps x positions."""

    target: Target
    steps: tuple[str, ...]
    """The rows; a step that has a time stands without it."""
    positions: tuple[str, ...]
    """The columns: token positions, or "all" for a step that is patched as a whole."""
    tokens: tuple[str, ...]
    """The corrupted run's tokens at these positions."""
    clean: float
    corrupted: float
    values: Array
    """The target after each patch; NaN where there is none."""
    clean_probability: float | None
    corrupted_probability: float | None
    probabilities: Array | None

    @property
    def effects(self) -> Array:
        """What each patch adds to the target of the corrupted run."""
        return np.asarray(self.values - self.corrupted)

    @property
    def normalised(self) -> Array:
        """The effects as shares of the way back: 0 is the corrupted run, 1 the clean one.

        NaN where the two runs do not differ in the target.
        """
        way = self.clean - self.corrupted
        return self.effects / way if way else np.full_like(self.effects, np.nan)

    def ranked(self) -> list[tuple[int, int]]:
        """The cells by the size of their effect, the largest first."""
        cells = [tuple(map(int, at)) for at in np.argwhere(np.isfinite(self.values))]
        cells.sort(key=lambda at: -abs(self.effects[at]))
        return cells  # type: ignore[return-value]

    def __repr__(self) -> str:
        few = ", ".join(f"{self._cell(at)} {self.effects[at]:+.4g}" for at in self.ranked()[:3])
        return f"Patching of {len(self.steps)} steps, {self._headline()}\n  largest: {few}"

    def _headline(self) -> str:
        odds = ("", "")
        if self.clean_probability is not None:
            both = (self.clean_probability, self.corrupted_probability)
            odds = tuple(f" (probability {p:.4f})" for p in both)  # type: ignore[assignment]
        return (
            f"{self.target.label}: {self.target.noun} {self.clean:.4f}{odds[0]} clean, "
            f"{self.corrupted:.4f}{odds[1]} corrupted"
        )

    def _cell(self, at: tuple[int, int]) -> str:
        step, position = self.steps[at[0]], self.positions[at[1]]
        return step if position == WHOLE else f"{step}@{position}"

    def view(self) -> Iterator[Part]:
        yield self._headline()
        ranked, normalised = self.ranked(), self.normalised
        differ = bool(np.isfinite(normalised).any())
        rows = [
            (
                *(self._cell(at), self.tokens[at[1]], f"{self.values[at]:.4f}"),
                *(f"{self.effects[at]:+.4f}", *([f"{normalised[at]:.4f}"] if differ else [])),
            )
            for at in ranked[:SHOWN]
        ]
        heads = ["value", "token", self.target.noun, "change", *(["restored"] if differ else [])]
        yield Table(heads, rows, right=(2, 3, 4))
        if not differ:
            yield f"both runs have the same {self.target.noun}: there is nothing to restore"
        if len(ranked) > SHOWN:
            least = max(abs(self.effects[at]) for at in ranked[SHOWN:])
            yield f"{len(ranked) - SHOWN} more change it by {least:.4f} at most"

    def picture(self) -> str:
        columns = [
            token if position == WHOLE else f"{position} {token}"
            for position, token in zip(self.positions, self.tokens, strict=True)
        ]
        shown, what = self.normalised, f"share of the clean {self.target.noun} that is restored"
        if not np.isfinite(shown).any():
            shown, what = self.effects, f"change of the {self.target.noun}"
        title = f"{self.target.label}: {what}"
        return drawn(shown, ("step", "position"), (self.steps, columns), title)

    def to_json(self) -> dict[str, Any]:
        """The target in both runs, and after every patch."""
        normalised = self.normalised
        patches = [
            {
                "step": self.steps[i],
                "position": None if self.positions[j] == WHOLE else int(self.positions[j]),
                "value": float(self.values[i, j]),
                "probability": None
                if self.probabilities is None
                else float(self.probabilities[i, j]),
                "effect": float(self.effects[i, j]),
                "normalised": float(normalised[i, j]) if np.isfinite(normalised[i, j]) else None,
            }
            for i, j in np.argwhere(np.isfinite(self.values))
        ]
        return {
            "target": self.target.to_json(),
            "clean": {"value": self.clean, "probability": self.clean_probability},
            "corrupted": {"value": self.corrupted, "probability": self.corrupted_probability},
            "steps": list(self.steps),
            "positions": list(self.positions),
            "tokens": list(self.tokens),
            "patches": patches,
        }


def patch(
    model: ModelLike,
    clean: "Given",
    corrupted: "Given",
    steps: str | Iterable[str] = "H[*]",
    target: Wanted = None,
    positions: Positions | Literal["all"] = None,
    progress: Progress = silent,
) -> Patching:
    """The corrupted run with values of the clean run in the place of its own, one at a time.

    ``vs.patch("gpt", "He shook his", "He opened his").normalised``: 0 is the corrupted run, 1 the
    clean one. Each token position is patched by itself; ``positions`` are some of them, ``"all"``
    is a step as a whole, and ``{1: 2}`` is position 1 of the corrupted text with 2 of the clean
    one, where they are not equally long. ``target`` is the clean run's likeliest word by default.
    """
    model = loaded(model)
    source, reading = read(model, clean), read(model, corrupted)
    before, trace = trace_of(source), trace_of(reading)
    whole = isinstance(positions, str)
    if whole and positions != WHOLE:
        raise WrongKind(
            f"positions are whole numbers, or 'all' for steps as a whole; got {positions!r}"
        )
    if whole or not isinstance(positions, Mapping):
        _require_equal_lengths(before, trace)
    wanted = targets.find(before, target)
    replay = Replay(reading, trace, _same_target(trace, wanted, target))
    places = None if whole else pairs(range(reading.length) if positions is None else positions)
    found = list(
        _patches(chosen(steps, trace.steps, reading.length), before, places, positions is None)
    )
    tasks = [partial(_patched, replay, step, where, change) for step, where, change, _, _ in found]
    outcomes = [replay.outcome({}), *each(tasks, "patches", progress)]
    values, odds = replay.read(outcomes)
    rows = tuple(dict.fromkeys(row for *_, row, _ in found))
    used = {column for *_, column in found}
    columns = [*sorted(k for k in used if k is not None), *([None] if None in used else [])]
    cells = [(rows.index(row), columns.index(column)) for *_, row, column in found]
    shape, tokens = (len(rows), len(columns)), trace.tokens()
    return Patching(
        target=replay.target,
        steps=rows,
        positions=tuple(WHOLE if k is None else str(k) for k in columns),
        tokens=tuple(WHOLE if k is None else tokens[k] for k in columns),
        clean=wanted.of(before[wanted.step]),
        corrupted=float(values[0]),
        values=spread(values[1:], shape, cells),
        clean_probability=wanted.probability(before[wanted.step]),
        corrupted_probability=None if odds is None else float(odds[0]),
        probabilities=None if odds is None else spread(odds[1:], shape, cells),
    )


def _same_target(trace: Trace, found: Target, wanted: Any) -> Target:
    """The target in another trace; words are those of the first."""
    rows = [cell[0] for cell, _ in found.cells]
    if isinstance(wanted, tuple | list) and wanted and wanted[0] == found.step:
        return targets.find(trace, wanted)
    return targets.find(trace, rows)


Patch = tuple[Step, Where, Edit, str, int | None]
"""A step, its cells, what they become, and the row and column of the result."""


def _patches(
    found: list[tuple[Step, Where]], clean: Trace, places: Mapping[int, int] | None, every: bool
) -> Iterator[Patch]:
    for step, where in found:
        if where.index or where.position is not None:
            raise WrongKind(
                f"patch takes whole steps; say positions= in place of cells of {step.name}"
            )
        timeless = {axis: k for axis, k in step.place.items() if axis != "time"}
        row = name(step.symbol, timeless)
        if places is None or (where.axis is None and "time" not in step.place):
            if places is not None and not every:
                where.at(next(iter(places)))  # which says that there are no positions
            yield step, where, from_trace(clean), step.name if places is None else row, None
            continue
        for here, there in places.items():
            first = 0 if where.axis is None else where.axis[1]
            if every and here < first:  # the class token, which a patch is not
                continue
            if where.at(here) is not None:
                yield step, where, from_trace(clean, {here: there}), row, here % where.n


def _patched(replay: Replay, step: Step, where: Where, change: Edit) -> Outcome:
    """The outcome with a value of the clean run; where that is no other, nothing is to be run."""
    value = np.asarray(step.value)
    given = replaced(value, where, change)
    return replay.outcome({} if np.array_equal(given, value) else {step.name: given})


def _require_equal_lengths(clean: Trace, corrupted: Trace) -> None:
    here, there = corrupted.tokens(), clean.tokens()
    if len(here) == len(there):
        return
    start, end = common(here, there)
    pairs_ = {k: k for k in range(start)} | {-k: -k for k in range(end, 0, -1)}
    differ = (short(tokens[start : len(tokens) - end], 60) for tokens in (there, here))
    advice = (
        f"they agree in the first {start} and the last {end}, which "
        f"positions={short(pairs_, 60)} patches"
        if pairs_
        else "no token is the same from either end: positions={-1: -1} patches the last"
    )
    raise WrongLength(
        f"the clean text has {len(there)} tokens, the corrupted one {len(here)}: "
        f"{' and '.join(differ)} differ from position {start} on; {advice}"
    )
