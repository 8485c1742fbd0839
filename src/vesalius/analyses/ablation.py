"""Ablation: what a word or class is worth without each of some steps.

One step after the other is replaced, with zeros by default, and the target is read again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius.analyses import targets
from vesalius.analyses.replaying import Outcome, Replay, each
from vesalius.analyses.targets import Target, Wanted
from vesalius.arguments import Progress, silent
from vesalius.equations import Step
from vesalius.equations.parameters import Array
from vesalius.equations.tracing import PLACES
from vesalius.model import ModelLike, loaded
from vesalius.traces.dissection import read, trace_of
from vesalius.traces.edits import replaced
from vesalius.traces.edits.selection import Where, chosen
from vesalius.traces.edits.values import Edit, EditLike, edit_of, zero
from vesalius.views import pictures
from vesalius.views.shown import Part, Table

if TYPE_CHECKING:
    from vesalius.traces.dissection import Given

SHOWN = 20
"""Steps that are told one by one."""
TOKENS = {"time": "time steps", "position": "positions"}
"""Axes that are as long as the text."""


@dataclass(frozen=True, eq=False)
class Ablation(pictures.Pictured):
    """The target without each of some steps, in a grid of their places: layers x heads for P."""

    target: Target
    edit: str
    """What stands in the place of each step."""
    names: Array
    """The steps' names in their grid, with positions and cells; empty where there is none."""
    axes: tuple[str, ...]
    """What the grid's axes are: layer, head, time, or step."""
    ticks: tuple[tuple[str, ...], ...]
    """What stands along each axis."""
    clean: float
    """The target as it is."""
    clean_probability: float | None
    values: Array
    """The target without each step; NaN where there is no such step."""
    probabilities: Array | None

    @property
    def effects(self) -> Array:
        """What replacing each step adds to the target."""
        return np.asarray(self.values - self.clean)

    def ranked(self) -> list[tuple[str, tuple[int, ...]]]:
        """The steps by the size of their effect, the largest first, with their cells."""
        cells = [at for at, name in np.ndenumerate(self.names) if name]
        order = np.argsort([-abs(self.effects[at]) for at in cells], kind="stable")
        return [(str(self.names[cells[k]]), cells[k]) for k in order]

    def __repr__(self) -> str:
        few = ", ".join(f"{name} {self.effects[at]:+.4g}" for name, at in self.ranked()[:3])
        return f"Ablation of {np.sum(self.names != '')} steps, {self._headline()}\n  largest: {few}"

    def _headline(self) -> str:
        odds = self.clean_probability
        likely = "" if odds is None else f", probability {odds:.4f}"
        return f"{self.target.label}: {self.target.noun} {self.clean:.4f}{likely}"

    def view(self) -> Iterator[Part]:
        yield f"{self._headline()}; each step in turn by {self.edit}"
        ranked = self.ranked()
        heads = ["step", self.target.noun, "change"]
        if self.probabilities is not None:
            heads.append("probability")
        rows = []
        for name, at in ranked[:SHOWN]:
            row = [name, f"{self.values[at]:.4f}", f"{self.effects[at]:+.4f}"]
            if self.probabilities is not None:
                row.append(f"{self.probabilities[at]:.4f}")
            rows.append(row)
        yield Table(heads, rows, right=(1, 2, 3))
        if len(ranked) > SHOWN:
            least = max(abs(self.effects[at]) for _, at in ranked[SHOWN:])
            yield f"{len(ranked) - SHOWN} more steps change it by {least:.4f} at most"

    def picture(self) -> str:
        title = f"{self.target.label}: change of the {self.target.noun} by {self.edit}"
        return drawn(self.effects, self.axes, self.ticks, title)

    def to_json(self) -> dict[str, Any]:
        """The target, its clean value, and every step with its own."""
        steps = []
        for at, name in np.ndenumerate(self.names):
            if name:
                one = {"step": str(name), "value": float(self.values[at])}
                odds = None if self.probabilities is None else float(self.probabilities[at])
                effect = float(self.effects[at])
                steps.append({**one, "probability": odds, "effect": effect})
        clean = {"value": self.clean, "probability": self.clean_probability}
        told = {"target": self.target.to_json(), "edit": self.edit, "clean": clean}
        axes = {axis: list(ticks) for axis, ticks in zip(self.axes, self.ticks, strict=True)}
        return {**told, "axes": axes, "steps": steps}


def ablate(
    model: ModelLike,
    text: "Given",
    steps: str | Iterable[str] = "P[*,*]",
    target: Wanted = None,
    edit: EditLike = zero,
    position: int | None = None,
    progress: Progress = silent,
) -> Ablation:
    """What the target is without each of the steps: ``vs.ablate("gpt", "He shook his").effects``.

    ``text`` is whatever ``dissect`` reads. ``steps`` is a pattern, or several: all heads unless
    said; ``"H[*]@2"`` is one token position of each state. ``target`` is a word, a class, an id,
    two of these for their difference, or a step and a cell; the likeliest word after the last token
    by default, ``position`` is another token. ``edit`` is what ``dissect`` takes: ``vs.zero``,
    ``vs.mean(texts)``, a function. Only what follows a step is computed again.
    """
    reading = read(loaded(model), text)
    trace = trace_of(reading)
    replay = Replay(reading, trace, targets.find(trace, target, position))
    found = chosen(steps, trace.steps, reading.length)
    symbols = sorted({step.symbol for step, _ in found})
    change = edit_of(edit).bound(symbols, reading.of_another)
    tasks = [partial(_without, replay, step, where, change) for step, where in found]
    outcomes = [replay.outcome({}), *each(tasks, "ablations", progress)]
    values, odds = replay.read(outcomes)
    axes, ticks, cells = arranged([where for _, where in found])
    names = np.full([len(tick) for tick in ticks], "", dtype=object)
    for (_, where), at in zip(found, cells, strict=True):
        names[at] = where.label
    return Ablation(
        target=replay.target,
        edit=str(change),
        names=names,
        axes=axes,
        ticks=ticks,
        clean=float(values[0]),
        clean_probability=None if odds is None else float(odds[0]),
        values=spread(values[1:], names.shape, cells),
        probabilities=None if odds is None else spread(odds[1:], names.shape, cells),
    )


def _without(replay: Replay, step: Step, where: Where, change: Edit) -> Outcome:
    return replay.outcome({step.name: replaced(np.asarray(step.value), where, change)})


Cell = tuple[int, ...]


def arranged(
    found: Sequence[Where],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], list[Cell]]:
    """A grid for steps: its axes, what stands along them, and each step's cell.

    Steps of several symbols have an axis for these; those of different kinds of places are a list,
    as are several positions or cells of one step.
    """
    symbols = list(dict.fromkeys(where.symbol for where in found))
    kinds = {tuple(axis for axis in PLACES if axis in where.place) for where in found}
    if len(kinds) > 1 or kinds == {()} or len({where.step for where in found}) < len(found):
        names = tuple(where.label for where in found)
        return ("step",), (names,), [(k,) for k in range(len(names))]
    (kind,) = kinds
    numbers = {axis: sorted({where.place[axis] for where in found}) for axis in kind}
    axes, ticks = kind, tuple(tuple(map(str, numbers[axis])) for axis in kind)
    cells = [tuple(numbers[axis].index(where.place[axis]) for axis in kind) for where in found]
    if len(symbols) > 1:
        axes, ticks = ("step", *axes), (tuple(symbols), *ticks)
        cells = [(symbols.index(w.symbol), *at) for w, at in zip(found, cells, strict=True)]
    return axes, ticks, cells


def spread(numbers: Array, shape: tuple[int, ...], cells: Sequence[Cell]) -> Array:
    """Numbers at their cells of a grid, and NaN elsewhere."""
    grid = np.full(shape, np.nan)
    for number, at in zip(numbers, cells, strict=True):
        grid[at] = number
    return grid


def drawn(
    values: Array, axes: Sequence[str], ticks: Sequence[Sequence[str]], title: str, last: str = ""
) -> str:
    """A grid of any number of axes as a heat map: the last from left to right.

    Of many tokens the columns with the largest values are drawn.
    """
    if values.ndim == 1:
        values, axes, ticks = values[:, None], (*axes, last), (*ticks, ("change",))
    *before, columns = ticks
    rows = [""]
    for ticks_of in before:
        rows = [f"{row} {tick}".strip() for row in rows for tick in ticks_of]
    flat = values.reshape(-1, values.shape[-1])
    if axes[-1] in TOKENS and len(most := pictures.largest_columns(flat)) < len(columns):
        title = f"{title}, {len(most)} of {len(columns)} {TOKENS[axes[-1]]}"
        flat, columns = flat[:, most], [columns[k] for k in most]
    return pictures.grid(flat, rows, columns, title, (" ".join(axes[:-1]), axes[-1]))
