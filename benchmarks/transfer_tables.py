"""What docs/transfer.md shows: what the runs of transfer.py came to, in tables and a picture."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from vesalius.specimens import FOLDER as SPECIMENS

HERE = Path(__file__).parent
KEPT = HERE / "transfer.jsonl"
"""All results, a run a line."""
PICTURE = HERE.parent / "docs" / "transfer.svg"
DRAWN = {"banking77-10": "ten sentences a class", "banking77": "all 10,003 sentences"}
"""Of BANKING77, side by side."""
INKS = {"bert": "#8a4b00", "gpt": "#00664b", "lstm": "#005a8f"}
RESULT = "result.json"
ORDER = ("scratch", "features", "mean", "partial", "lora", "read", "masked", "finetune")
_ERRORS = ("mean_squared_error", "mean_absolute_error", "mean_squared_error_of_full_batches")
METRICS: dict[str, tuple[str, ...]] = {
    "banking77-10": ("accuracy",),
    "banking77": ("accuracy",),
    "ewt": ("accuracy",),
    "wnut17": ("entity_f1", "accuracy"),
    "xquad": ("f1", "exact_match"),
    "vowels": ("accuracy",),
    "fashion-600": ("accuracy",),
    **{f"etth1-{horizon}": _ERRORS for horizon in (96, 192, 336, 720)},
    **{f"illness-{horizon}": _ERRORS for horizon in (24, 36, 48, 60)},
}
"""What is told of every task; gains on scratch are of the first."""
DECIMALS = 3
"""Of errors; shares have one, in per cent."""
Results = dict[int, dict[str, Any]]
"""By seed."""


def kept(runs: Path) -> list[dict[str, Any]]:
    """Results that were written down before, and the folder's, which replace them."""
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    lines += [file.read_text() for file in sorted(runs.rglob(RESULT))]
    found = {}
    for one in map(json.loads, lines):
        found[tuple(str(one[name]) for name in ("task", "model", "strategy", "seed"))] = one
    return [found[key] for key in sorted(found)]


def of_seeds(results: list[dict[str, Any]], task: str, model: str, strategy: str | None) -> Results:
    """The runs of one row."""
    about = {"task": task, "model": model, "strategy": strategy}
    return {one["seed"]: one for one in results if about.items() <= one.items()}


def rows(results: list[dict[str, Any]], metrics: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Simple methods first, then every model by strategy, beside the same from scratch."""
    found: dict[tuple[str, str | None], Results] = {}
    for one in results:
        found.setdefault((one["model"], one["strategy"]), {})[one["seed"]] = one
    for (model, strategy), given in sorted(found.items(), key=lambda item: _place(*item[0])):
        scratch = found.get((model, "scratch"), {}) if strategy != "scratch" else {}
        minutes = [one["minutes"] for one in given.values() if "minutes" in one]
        yield (
            model,
            strategy or "",
            *(spread(given, metric) for metric in metrics),
            gained(given, scratch, metrics[0]),
            str(len(given)),
            f"{np.mean(minutes):.1f}" if minutes else "",
        )


def _place(model: str, strategy: str | None) -> tuple[bool, str, int]:
    return strategy is not None, model, ORDER.index(strategy) if strategy in ORDER else 0


def spread(given: Results, metric: str, deviation: bool = True) -> str:
    """The mean over seeds, with the standard deviation, on the test part."""
    values = np.array([one["test"][metric] for one in given.values() if metric in one["test"]])
    if not len(values):
        return ""
    error = "error" in metric
    digits, unit = (DECIMALS, "") if error else (1, " %")
    values = values if error else 100 * values
    apart = deviation and len(values) > 1 and values.std(ddof=1)
    return f"{values.mean():.{digits}f}" + (f" ± {apart:.{digits}f}" if apart else "") + unit


def gained(given: Results, scratch: Results, metric: str) -> str:
    """Points above the same network from scratch, seed by seed, with a 95 % interval (Student)."""
    shared = sorted(set(given) & set(scratch))
    if len(shared) < 2:
        return ""
    gains = [100 * (given[s]["test"][metric] - scratch[s]["test"][metric]) for s in shared]
    half = stats.t.ppf(0.975, len(gains) - 1) * np.std(gains, ddof=1) / np.sqrt(len(gains))
    mean = float(np.mean(gains))
    return f"{mean:+.1f} ({mean - half:+.1f} to {mean + half:+.1f})"


def draw(results: list[dict[str, Any]], file: Path = PICTURE) -> None:
    """Every strategy on BANKING77 as a dot with its spread, beside a line for TF-IDF."""
    matplotlib.rcParams["svg.hashsalt"] = "vesalius"
    named = [one for one in results if one["task"] in DRAWN]
    there = {(one["model"], one["strategy"]) for one in named if one["strategy"]}
    order = sorted(there, key=lambda pair: _place(*pair))
    places = {pair: k + 0.7 * list(INKS).index(pair[0]) for k, pair in enumerate(order)}
    figure, panels = plt.subplots(1, 2, sharey=True, figsize=(8.6, 5.4), layout="constrained")
    for (task, title), axes in zip(DRAWN.items(), panels, strict=True):
        found: dict[tuple[str, str | None], list[float]] = {}
        for one in named:
            if one["task"] == task:
                at = (one["model"], one["strategy"])
                found.setdefault(at, []).append(100 * one["test"]["accuracy"])
        simple = float(np.mean(found.pop(("TF-IDF", None))))
        axes.axvline(simple, color="#68645a", linestyle="--", linewidth=1, zorder=1)
        axes.annotate(
            f"TF-IDF {simple:.1f}", (simple, -0.9), ha="right", xytext=(-4, 0), va="center",
            textcoords="offset points", color="#68645a", annotation_clip=False,
        )  # fmt: skip
        for (model, strategy), values in found.items():
            place, mean = places[model, str(strategy)], float(np.mean(values))
            wide = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            hollow = {"mfc": "white"} if strategy == "scratch" else {}
            axes.errorbar(mean, place, xerr=wide, fmt="o", color=INKS[model], zorder=2, **hollow)
            axes.annotate(
                f"{mean:.1f}", (mean + wide, place), xytext=(7, 0), va="center", fontsize=9,
                textcoords="offset points", color="#1d1b17", zorder=3,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )  # fmt: skip
        axes.set_title(title, fontsize=11)
        axes.set_xlim(0, 108)
        axes.set_xticks(range(0, 101, 20))
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", color="#e5e1d7", linewidth=0.8, zorder=0)
        axes.set_axisbelow(True)
        axes.set_xlabel("right on the test part, %")
    panels[0].set_yticks(list(places.values()), [f"{m}, {s}" for m, s in places])
    panels[0].set_ylim(max(places.values()) + 0.6, -1.4)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    plt.close(figure)


def table(heads: Iterable[str], body: Iterable[Iterable[str]]) -> list[str]:
    heads = list(heads)
    lines = [
        f"| {' | '.join(heads)} |",
        f"| {' | '.join(['---'] * 2 + ['---:'] * (len(heads) - 2))} |",
    ]
    return [*lines, *(f"| {' | '.join(row)} |" for row in body)]


def tables(results: list[dict[str, Any]]) -> str:
    """Every task's, below when and where they were made."""
    dates = sorted({one["date"] for one in results})
    when = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    machines = ", ".join(sorted({one["machine"] for one in results}))
    lines = [f"{when}, {machines}, one thread a run, with other work on the machine."]
    if earlier := sorted({one["model"] for one in results if _earlier(one)}):
        lines[0] += (
            f" Rows of {', '.join(earlier)} are of specimens that shipped then; "
            "the present ones have been trained anew since."
        )
    lines += ["", f"![right on BANKING77, by model and strategy]({PICTURE.name})", ""]
    for name, metrics in METRICS.items():
        body = list(rows([one for one in results if one["task"] == name], metrics))
        if body:
            heads = ("model", "strategy", *(metric.replace("_", " ") for metric in metrics))
            heads += ("points above scratch (95 %)", "seeds", "minutes a run")
            used = [at for at in range(len(heads)) if any(row[at] for row in body)]
            short = ([row[at] for at in used] for row in body)
            lines += [f"### {name}", "", *table([heads[at] for at in used], short), ""]
    return "\n".join(lines).rstrip()


def _earlier(one: dict[str, Any]) -> bool:
    return "specimen" in one and one["specimen"] != specimen(one["model"])


@cache
def specimen(name: str) -> str:
    """Which weights and tokenizer a model of texts began with, by the hash of its weights."""
    return hashlib.sha256((SPECIMENS / name / "model.safetensors").read_bytes()).hexdigest()[:12]


def write(results: list[dict[str, Any]]) -> None:
    KEPT.write_text("".join(json.dumps(one) + "\n" for one in results))
    draw(results)
