"""What fine-tuning came to: one run, or the same for several seeds."""

import shlex
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vesalius.metrics.predictions import Share, shown, words
from vesalius.model import Model, loaded
from vesalius.tasks import Task
from vesalius.views.shown import Part, Shown, Table


@dataclass(frozen=True, repr=False)
class FineTuned(Shown):
    """What fine-tuning came to."""

    folder: Path
    backbone: str
    task: Task
    data: str
    training: int
    """Examples that were trained on."""
    validation: int
    """Examples that were held out."""
    step: int
    reason: str
    """finished, patience (early stopping), or the signal that stopped it."""
    numbers: dict[str, float]
    """Of what was held out: loss and accuracy, or the error of values."""
    before: dict[str, float] = field(default_factory=dict)
    """The same numbers of the model as it was, where it could be asked."""
    notes: tuple[str, ...] = ()

    @property
    def objective(self) -> str:
        return self.task.name

    @property
    def model(self) -> Model:
        return loaded(self.folder)

    @property
    def done(self) -> bool:
        return self.reason in ("finished", "patience")

    def to_json(self) -> dict[str, Any]:
        about: dict[str, Any] = {"folder": str(self.folder), "backbone": self.backbone}
        about |= {"task": self.task.option, "objective": self.objective}
        about |= {"step": self.step, "reason": self.reason}
        counts = {"training": self.training, "validation": self.validation}
        before = {"before": self.before} if self.before else {}
        return {**about, **counts, **self.numbers, **before, "notes": list(self.notes)}

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in self.numbers.items())
        return f"FineTuned: {self.backbone} towards {self.objective} in {self.folder}; {numbers}"

    def view(self) -> Iterator[Part]:
        if not self.done:
            yield f"{self.reason}: saved at step {self.step}; go on with --resume"
            return
        of = self.task.examples
        counts = [(f"{of} to train on", self.training), (f"{of} held out", self.validation)]
        rows: list[tuple[str, ...]] = [(name, f"{count:,}") for name, count in counts]
        rows += [(f"{words(name)} on these", shown(x)) for name, x in self.numbers.items()]
        heads: tuple[str, ...] = (f"{_short(self.backbone)}, {self.objective}", "")
        if self.before:
            was = [shown(self.before[name]) for name in self.numbers]
            rows = [(*row, text) for row, text in zip(rows, ["", "", *was], strict=True)]
            heads = (heads[0], "after", "before")
        yield Table(heads, rows, right=(1, 2)[: len(heads) - 1])
        yield from self.notes
        yield from commands(self.task, self.folder, self.data)


@dataclass(frozen=True, repr=False)
class FineTunedSeeds(Shown):
    """The same fine-tuning for several seeds; the data, if one file, were split by each seed."""

    folder: Path
    runs: tuple[FineTuned, ...]
    seeds: tuple[int, ...]
    """All that were asked for; an interrupted call has run some of them."""

    @property
    def done(self) -> bool:
        return len(self.runs) == len(self.seeds) and all(run.done for run in self.runs)

    @property
    def reason(self) -> str:
        return self.runs[-1].reason

    @property
    def numbers(self) -> dict[str, float]:
        """The mean of each number."""
        return {name: _as(x, statistics.fmean(x)) for name, x in self._each().items()}

    @property
    def spread(self) -> dict[str, float]:
        """The standard deviation of each number between seeds."""
        each = self._each().items()
        return {name: _as(x, statistics.stdev(x) if len(x) > 1 else 0.0) for name, x in each}

    def _each(self) -> dict[str, list[float]]:
        finished = [run.numbers for run in self.runs if run.done]
        return {name: [one[name] for one in finished] for name in (finished or [{}])[0]}

    def to_json(self) -> dict[str, Any]:
        about = {"folder": str(self.folder), "seeds": list(self.seeds), "reason": self.reason}
        numbers = {"mean": self.numbers, "spread": self.spread}
        return {**about, **numbers, "runs": [run.to_json() for run in self.runs]}

    def __repr__(self) -> str:
        spread = self.spread
        told = ", ".join(f"{name} {x:.4f} ± {spread[name]:.4f}" for name, x in self.numbers.items())
        return f"FineTunedSeeds: {len(self.runs)} seeds in {self.folder}; {told}"

    def view(self) -> Iterator[Part]:
        last, spread, each = self.runs[-1], self.spread, self._each()
        rows = [
            (
                words(name),
                shown(mean),
                f"± {shown(spread[name])}",
                *(shown(one(each[name])) for one in (min, max)),
            )
            for name, mean in self.numbers.items()
        ]
        finished = sum(run.done for run in self.runs)
        title = f"{_short(last.backbone)}, {last.objective}, {finished} seeds"
        if rows:
            yield Table((title, "mean", "spread", "least", "most"), rows, right=(1, 2, 3, 4))
        if not self.done:
            yield f"{last.reason}: saved at step {last.step} of {last.folder}; go on with --resume"
            return
        yield f"each seed's model: {', '.join(run.folder.name for run in self.runs)}"
        yield from commands(last.task, self.runs[0].folder, last.data)


def commands(task: Task, folder: Path, data: str) -> Iterator[str]:
    """What to run next."""
    suffix = Path(data).suffix or (".conll" if "words" in task.kinds else ".ts")
    filled = {"folder": shlex.quote(str(folder)), "data": shlex.quote(data), "suffix": suffix}
    for line in (*task.then, "explore {folder}"):
        yield f"vesalius {line.format(**filled)}"


def _as(several: list[float], number: float) -> float:
    """A number of several metrics in their unit."""
    return Share(number) if isinstance(several[0], Share) else number


def _short(backbone: str) -> str:
    """A name, or the end of a path."""
    path = Path(backbone)
    return path.parent.name if path.name == "model" and path.parent.name else path.name
