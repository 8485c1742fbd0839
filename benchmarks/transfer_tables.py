"""The page of docs/transfer.md: what the runs of transfer.py came to, in tables."""

import datetime
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from vesalius.machine import processor

PAGE = Path(__file__).parents[1] / "docs" / "transfer.md"
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
"""What is between these is written here; the rest of the page is written by hand."""
SHARES = ("accuracy", "f1", "entity_f1", "exact_match")
ERRORS = ("mean_squared_error", "mean_absolute_error")
Results = dict[int, dict[str, Any]]
"""By seed."""


def results(folder: Path) -> Results:
    found = (json.loads(file.read_text()) for file in folder.glob("*/result.json"))
    return {one["seed"]: one for one in found}


def rows(runs: Path, name: str, metric: str) -> Iterator[tuple[str, ...]]:
    """Simple methods first, then every model by strategy, beside the same from scratch."""
    found = {tuple(f.relative_to(runs / name).parts): results(f) for f in _folders(runs / name)}
    for path, given in sorted(found.items(), key=lambda one: (len(one[0]), one[0])):
        if not given:
            continue
        told = next(iter(given.values()))
        scratch = found.get((path[0], "scratch"), {}) if len(path) > 1 else {}
        gain = "" if path[-1] == "scratch" else gained(given, scratch, metric)
        minutes = [one["seconds"] / 60 for one in given.values() if "seconds" in one]
        time = f"{np.mean(minutes):.1f}" if minutes else ""
        label = (told["model"], told["strategy"] or "")
        yield (*label, *numbers(given, metric), gain, str(len(given)), time)


def _folders(folder: Path) -> list[Path]:
    return sorted({file.parents[1] for file in folder.rglob("result.json")})


def numbers(given: Results, metric: str) -> tuple[str, ...]:
    """The mean and the standard deviation over seeds, of the task's metric on the test part."""
    values = np.array([one["test"][metric] for one in given.values()])
    if metric not in SHARES:
        return (
            f"{values.mean():.4f}" + (f" ± {values.std(ddof=1):.4f}" if len(values) > 1 else ""),
        )
    percent = 100 * values
    spread = f" ± {percent.std(ddof=1):.1f}" if len(values) > 1 else ""
    return (f"{percent.mean():.1f}{spread} %",)


def gained(given: Results, scratch: Results, metric: str) -> str:
    """Points above the same network from scratch, seed by seed, with a 95 % interval (Student)."""
    shared = sorted(set(given) & set(scratch))
    if len(shared) < 2:
        return ""
    gains = [100 * (given[s]["test"][metric] - scratch[s]["test"][metric]) for s in shared]
    half = stats.t.ppf(0.975, len(gains) - 1) * np.std(gains, ddof=1) / np.sqrt(len(gains))
    mean = float(np.mean(gains))
    return f"{mean:+.1f} ({mean - half:+.1f} to {mean + half:+.1f})"


def table(heads: Iterable[str], body: Iterable[Iterable[str]]) -> list[str]:
    heads = list(heads)
    lines = [
        f"| {' | '.join(heads)} |",
        f"| {' | '.join(['---'] * 2 + ['---:'] * (len(heads) - 2))} |",
    ]
    return [*lines, *(f"| {' | '.join(row)} |" for row in body)]


def write_page(runs: Path, tasks: dict[str, Any]) -> None:
    lines = [f"{datetime.date.today()}, {processor()}, one thread a run, beside other work.", ""]
    for name, task in tasks.items():
        if (runs / name).exists() and (body := list(rows(runs, name, task.metric))):
            heads = ("model", "strategy", f"test {task.metric.replace('_', ' ')}")
            heads += ("points above scratch (95 %)", "seeds", "minutes a run")
            lines += [f"### {name}", "", *table(heads, body), ""]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    text = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
