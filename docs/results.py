"""What the marks of written pages may ask for: results that were recorded, or follow from a model.

Recorded are the runs of benchmarks/transfer.py and forecasting.py, and the cards of specimens;
counts and costs are computed by formula. Examples by a specimen are run (``marked.py``).
"""

import json
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import vesalius as vs
from vesalius import specimens

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.append(str(BENCHMARKS))
from transfer_tables import DECIMALS, gained, of_seeds, spread, tables  # noqa: E402

sys.path.remove(str(BENCHMARKS))

Row = dict[str, Any]


# Runs by several seeds -------------------------------------------------------------


@cache
def runs() -> list[Row]:
    return [json.loads(line) for line in (BENCHMARKS / "transfer.jsonl").read_text().splitlines()]


def _seeds(task: str, model: str, strategy: str | None) -> dict[int, Row]:
    found = of_seeds(runs(), task, model, strategy)
    if not found:
        raise KeyError(f"no run of {task}, {model}, {strategy} in transfer.jsonl")
    return found


def share(task: str, model: str, strategy: str | None = None, metric: str = "accuracy") -> str:
    """The mean over seeds: ``94.6 %``."""
    return spread(_seeds(task, model, strategy), metric, deviation=False)


def with_spread(
    task: str, model: str, strategy: str | None = None, metric: str = "accuracy"
) -> str:
    """Mean and standard deviation over seeds: ``21.0 ± 1.3 %``."""
    return spread(_seeds(task, model, strategy), metric)


def gain(task: str, model: str, strategy: str, metric: str = "accuracy") -> str:
    """Points above the same network from scratch, seed by seed: ``4.1``."""
    scratch = _seeds(task, model, "scratch")
    mean = gained(_seeds(task, model, strategy), scratch, metric).partition(" (")[0]
    return mean.removeprefix("+")


def wrong(task: str, model: str, strategy: str) -> str:
    """Examples that are wrong, of all, on the mean of the seeds: ``4.4 of 370``."""
    tests = [one["test"] for one in _seeds(task, model, strategy).values()]
    count = np.mean([(1 - test["accuracy"]) * test["examples"] for test in tests])
    return f"{count:.1f} of {tests[0]['examples']:.0f}"


def by_seed(task: str, rows: dict[str, tuple[str, str]]) -> str:
    """Accuracies of every seed with their mean, a row a strategy."""
    heads, body = [""], []
    for name, (model, strategy) in rows.items():
        found = _seeds(task, model, strategy)
        values = [found[seed]["test"]["accuracy"] for seed in sorted(found)]
        heads = ["", *(f"seed {seed}" for seed in sorted(found)), "mean"]
        body.append([name, *(f"{value:.3f}" for value in values), f"**{np.mean(values):.3f}**"])
    return table(heads, body)


def transfer_tables() -> str:
    """All tables of docs/transfer.md."""
    return tables(runs())


# Forecasts -------------------------------------------------------------------------

SQUARED, FULL = "mean_squared_error", "mean_squared_error_of_full_batches"
PUBLISHED = {
    "etth1": {96: 0.375, 192: 0.414, 336: 0.431, 720: 0.449},
    "illness": {24: 1.522, 36: 1.430, 48: 1.673, 60: 1.529},
}
"""Of PatchTST/42 (Nie et al. 2023, Table 3)."""
SIMPLE = {
    "etth1": {
        "last value": "last value",
        "last day again": "last season",
        "DLinear, in closed form": "DLinear",
    },
    "illness": {
        "last value": "last value",
        "last year again": "last season",
        "DLinear, in closed form": "DLinear",
    },
}


@cache
def _without_network() -> list[Row]:
    text = (BENCHMARKS / "forecasting.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def _simple(corpus: str, horizon: int, method: str) -> Row:
    corpus = {"illness": "national-illness"}.get(corpus, corpus)
    asked = {"corpus": corpus, "horizon": horizon, "method": method}
    (found,) = (one for one in _without_network() if asked.items() <= one.items())
    return found


def forecasts(corpus: str, horizon: int) -> str:
    """Three errors at one horizon, of simple methods and of the network."""
    metrics = (SQUARED, "mean_absolute_error", FULL)
    body = []
    for name, method in SIMPLE[corpus].items():
        found = _simple(corpus, horizon, method)
        body.append([name, *(f"{found[metric]:.{DECIMALS}f}" for metric in metrics)])
    network = _seeds(f"{corpus}-{horizon}", "patchtst", "scratch")
    body.append(["PatchTST", *(spread(network, metric) for metric in metrics)])
    body.append(["PatchTST, published", "", "", f"{PUBLISHED[corpus][horizon]:.3f}"])
    return table([f"{corpus}, {horizon} time steps", "MSE", "MAE", "MSE of full batches"], body)


def horizons(corpus: str, asked: Iterable[int]) -> str:
    """The squared error at several horizons; in brackets that over full batches alone."""
    body = []
    for name, method in SIMPLE[corpus].items():
        found = [_simple(corpus, horizon, method) for horizon in asked]
        body.append([name, *(f"{one[SQUARED]:.3f} ({one[FULL]:.3f})" for one in found)])
    network = [_seeds(f"{corpus}-{horizon}", "patchtst", "scratch") for horizon in asked]
    shown = (f"{spread(n, SQUARED)} ({spread(n, FULL, deviation=False)})" for n in network)
    body.append(["PatchTST", *shown])
    body.append(["PatchTST, published", *(f"({PUBLISHED[corpus][h]:.3f})" for h in asked)])
    return table([f"{corpus}, MSE (MSE of full batches)", *map(str, asked)], body)


def parameters(family: str) -> str:
    return f"{vs.count(family).total:,}"


def covered(task: str) -> str:
    """The share of values within the 90 % interval, least and most of the seeds."""
    found = _seeds(task, "patchtst", "scratch").values()
    tests = [100 * one["test"]["share_within_the_90_percent_interval"] for one in found]
    ends = dict.fromkeys(f"{end:.0f}" for end in (min(tests), max(tests)))
    return f"{' to '.join(ends)} %"


# Specimens -------------------------------------------------------------------------


def card(name: str, form: str) -> str:
    """Numbers of a specimen's card by their names, as in ``{bits_per_byte:.3f}``."""
    found = specimens.card(name)
    return form.format(**found.to_json() | found.result).replace("%", " %")


# Costs by formula ------------------------------------------------------------------

REACHED, ACCUMULATED = 125e12, 512
"""Operations a second of an A100 in bfloat16 at 40 %, and sequences of a step."""


def gigabytes(size: float) -> str:
    return f"{size / 1e9:,.2f} GB"


def training_of(model: str, length: int, what: str) -> str:
    """Of one sequence: a part of its memory, or ``products``."""
    cost = vs.cost(model, length=length)
    return f"{cost.training_step / 1e12:.2f} TFLOP" if what == "products" else (
        gigabytes(cost.memory[what])
    )  # fmt: skip


def of_a_block(model: str) -> float:
    """Bytes of one block's parameters in float32."""
    layers = vs.count(model).config.layers
    whole, less = vs.count(model).total, vs.count(model, layers=layers - 1).total
    return 4 * (whole - less)


def scaled(model: str, length: int, machines: Iterable[int]) -> str:
    """Memory and time of a step that several processes share."""
    cost = vs.cost(model, length=length)
    activations = cost.memory["activations"]
    weights = sum(cost.memory.values()) - activations
    body = []
    for number in machines:
        each = ACCUMULATED // number
        products = each * cost.training_step
        shard = weights / number + (of_a_block(model) if number > 1 else 0)
        sizes = (f"{(size + activations) / 1e9:.1f} GB" for size in (weights, shard))
        took = products / REACHED
        time = f"{took:.1f}" if took > 1 else f"{took:.2f}"
        body.append([f"{number}", f"{each}", *sizes, f"{products / 1e12:,.0f} TFLOP", time])
    heads = ["GPUs", "sequences each", "memory each, DDP", "memory each, FSDP2", "products each"]
    return table([*heads, "seconds at 125 TFLOP/s"], body, numbers=True)


def table(heads: list[str], body: Iterable[list[str]], numbers: bool = False) -> str:
    """Markdown; the first column is of words unless all are numbers."""
    rule = ["---:" if numbers or at else "---" for at in range(len(heads))]
    lines = (f"| {' | '.join(row)} |" for row in [heads, rule, *body])
    return re.sub(r"\|  (?=\|)", "| ", "\n".join(lines))
