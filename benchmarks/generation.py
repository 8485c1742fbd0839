"""Greedy text generation by GPT-2 beside other engines: same weights and prompt, in turns.

    python benchmarks/generation.py --rounds 5

Each contestant runs in a process of its own (``benchmarks/peers``), Transformers and ours in this
environment, the others in ``.venv-peers``; one that is not installed is left out. Prints medians
beside what reading the weights alone would take; ``--write`` makes a page and a picture of them.
"""

import argparse
import datetime
import random
import shlex
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from families import Family, measure_families
from peers.contestants import CONTESTANTS, LONG_PROMPT, PROMPTS, Missing, Worker
from reading import Reading, weight_bytes

import vesalius as vs
from vesalius.machine import physical_cores, processor
from vesalius.model import Model

ROOT = Path(__file__).parents[1]
BATCH, PROMPT, LONG = len(PROMPTS), len(PROMPTS[0]), len(LONG_PROMPT)
INK = "#333333"


def stirred() -> Model:
    """A random GPT-2 whose every array matters for the tokens that it chooses.

    As initialised it says one token for ever, whatever its blocks compute, and its biases are
    zero: that contestants agree would then mean nothing.
    """
    model, rng = vs.create("gpt2", seed=0), np.random.default_rng(0)
    for name, array in model.state.items():
        if array.ndim == 1:
            array += rng.normal(scale=0.05, size=array.shape).astype(array.dtype)
        elif name.startswith("blocks."):
            array *= 3
    return model


@dataclass
class Results:
    workers: list[Worker]
    families: list[Family]
    left_out: list[str]
    needed: dict[str, float]
    threads: int
    rounds: int
    new: int

    @property
    def bandwidths(self) -> list[float]:
        return [bandwidth for worker in self.workers for bandwidth in worker.bandwidths]

    def bound(self, precision: str) -> float:
        """Tokens per second if nothing but reading the weights took time, in the median."""
        return statistics.median(self.bandwidths) / self.needed[precision]

    def share(self, worker: Worker) -> float:
        """How much of its bound a contestant reached: the median over its turns.

        What a virtual machine can read changes, so that each turn is held against what was read
        around it.
        """
        needed = self.needed[worker.contestant.precision] * self.new
        turns = zip(worker.taken["new"], worker.bandwidths, strict=True)
        return statistics.median(needed / (seconds * read) for seconds, read in turns)

    def speeds(self, worker: Worker, what: str = "new") -> tuple[float, float, float]:
        """Tokens per second: the median, the slowest and the quickest."""
        tokens = {"new": self.new, "first": LONG, "batch": BATCH * self.new}[what]
        times = worker.taken[what]
        return tuple(tokens / pick(times) for pick in (statistics.median, max, min))

    def ours_is(self, worker: Worker, what: str = "new") -> str:
        """How we compare in the same sort of precision; nothing beside ourselves."""
        contestant = worker.contestant
        own = [w for w in self.workers if w.contestant.name == "vesalius"]
        own = [w for w in own if w.contestant.exact == contestant.exact]
        if contestant.name == "vesalius" or not own:
            return ""
        ratio = self.speeds(own[0], what)[0] / self.speeds(worker, what)[0]
        return f"{ratio:.2f} times as fast"

    def agreeing(self, worker: Worker) -> str:
        """How many of its tokens are Transformers', each at its place."""
        theirs = next((w for w in self.workers if w.contestant.name == "Transformers"), None)
        if theirs is None:
            return ""
        same = sum(a == b for a, b in zip(worker.ids, theirs.ids, strict=True))
        return f"{same} of {self.new}"


def contest(wanted: list[str], rounds: int, threads: int, new: int) -> Results:
    """All contestants in turns, round by round."""
    left_out: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = stirred()
        model.save(folder, layout="huggingface")
        needed = weight_bytes(model)
        reading = Reading(threads)
        workers: list[Worker] = []
        for contestant in CONTESTANTS:
            if wanted and not any(word in contestant.label.lower() for word in wanted):
                continue
            try:
                workers.append(worker := Worker(contestant, folder, threads))
            except Missing as error:
                left_out.append(f"{contestant.label} is left out: {error}")
                print(left_out[-1], flush=True)
                continue
            stack.callback(worker.close)
            print(f"{contestant.label} warms up", flush=True)
            worker.continue_prompt(new)
            worker.do_the_rest(new)
        for i in range(rounds):
            print(f"round {i + 1} of {rounds}", flush=True)
            # In another order each time: memory has fast and slow spells, which none should own.
            for worker in random.Random(i).sample(workers, len(workers)):
                seconds, read = reading.around(partial(worker.continue_prompt, new))
                worker.bandwidths.append(read)
                for what, taken in {"new": seconds, **worker.do_the_rest(new)}.items():
                    worker.taken[what].append(taken)
    families = [] if wanted else measure_families(reading, rounds, threads, new)
    return Results(workers, families, left_out, needed, threads, rounds, new)


def report(results: Results) -> list[str]:
    bounds = ", ".join(
        f"{results.bound(kept):.0f} in {kept} ({count / 1e6:.0f} MB)"
        for kept, count in results.needed.items()
    )
    reads = [bandwidth / 1e9 for bandwidth in results.bandwidths]
    slowest, quickest, usual = min(reads), max(reads), statistics.median(reads)
    lines = [
        f"### {results.new} new tokens after {PROMPT}, one sequence",
        "",
        "| engine | weights | tokens/s | from, to | of the bound | as Transformers | ours is |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for worker in results.workers:
        median, low, high = results.speeds(worker)
        kept = worker.contestant.precision
        lines.append(
            f"| {worker.contestant.name} | {kept} | {median:.1f} | {low:.1f} to {high:.1f} "
            f"| {results.share(worker):.0%} | {results.agreeing(worker)} "
            f"| {results.ours_is(worker)} |"
        )
    lines += [
        "",
        f"The bound is what reading allows: every token needs all weights but the positions. Sums "
        f"of 1 GiB by as many threads, for half a second before and after, gave {slowest:.0f} to "
        f"{quickest:.0f} GB/s, in the median {usual:.1f}, which is in tokens/s {bounds}; each turn "
        f"is held against the better of the two, and done again where they differ by a tenth. "
        f"Tokens count as Transformers' where the same stands at the same place; after the first "
        f"that differs the two go on from different texts.",
        "",
    ]
    return lines + _first_token(results) + _batch(results) + _families(results)


def _first_token(results: Results) -> list[str]:
    lines = [
        f"### The first token after a prompt of {LONG}",
        "",
        "| engine | weights | ms | from, to | tokens of the prompt/s | ours is |",
        "| --- | --- | ---: | --- | ---: | ---: |",
    ]
    for worker in results.workers:
        if not (times := worker.taken["first"]):
            continue
        median = statistics.median(times) * 1e3
        lines.append(
            f"| {worker.contestant.name} | {worker.contestant.precision} | {median:.0f} "
            f"| {min(times) * 1e3:.0f} to {max(times) * 1e3:.0f} "
            f"| {results.speeds(worker, 'first')[0]:.0f} | {results.ours_is(worker, 'first')} |"
        )
    return [*lines, ""]


def _batch(results: Results) -> list[str]:
    ours = [worker for worker in results.workers if worker.taken["batch"]]
    if not ours:
        return []
    lines = [
        f"### {BATCH} sequences at once",
        "",
        "| engine | weights | tokens/s in all | from, to | times one sequence |",
        "| --- | --- | ---: | --- | ---: |",
    ]
    for worker in ours:
        median, low, high = results.speeds(worker, "batch")
        lines.append(
            f"| {worker.contestant.name} | {worker.contestant.precision} | {median:.1f} "
            f"| {low:.1f} to {high:.1f} | {median / results.speeds(worker)[0]:.2f} |"
        )
    return [*lines, ""]


def _families(results: Results) -> list[str]:
    if not results.families:
        return []
    lines = [
        "### Other families, larger than the cache",
        "",
        "| model | weights | MB a token | tokens/s | of the bound | from, to |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for family in results.families:
        shares = family.shares
        lines.append(
            f"| {family.label} | {family.precision} | {family.needed / 1e6:.0f} "
            f"| {family.speed:.1f} | {statistics.median(shares):.0%} "
            f"| {min(shares):.0%} to {max(shares):.0%} |"
        )
    return [*lines, ""]


def draw(results: Results, file: Path) -> None:
    """Bars of tokens per second, exact ones above quantised ones, and the bound of each group."""
    matplotlib.rcParams["svg.hashsalt"] = "vesalius"
    split = [[w for w in results.workers if w.contestant.exact is exact] for exact in (True, False)]
    groups = [sorted(g, key=lambda w: -results.speeds(w)[0]) for g in split if g]
    rows = sum(map(len, groups)) + len(groups)
    figure, axes = plt.subplots(figsize=(8, 0.8 + 0.36 * rows), layout="constrained")
    place, ticks = 0.0, {}
    for group in groups:
        exact, top = group[0].contestant.exact, place
        for worker in group:
            _bar(axes, place, results.speeds(worker), worker.contestant.name == "vesalius")
            ticks[place] = worker.contestant.label
            place += 1
        bound = results.bound("float32" if exact else "int8")
        axes.plot([bound, bound], [top - 0.5, place - 0.5], color=INK, linestyle="--", zorder=2)
        side = {"ha": "left", "xytext": (6, 0)} if exact else {"ha": "right", "xytext": (-6, 0)}
        words = f"reading the weights allows {bound:.0f}"
        axes.annotate(words, (bound, place - 1), **side, textcoords="offset points", va="center")
        place += 0.6
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.invert_yaxis()
    axes.set_xlabel("tokens/s")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    plt.close(figure)


def _bar(axes: Any, place: float, speeds: tuple[float, ...], ours: bool) -> None:
    """One contestant: the median as a bar and a number, the spread as a line."""
    median, low, high = speeds
    axes.barh(place, median, 0.7, color="#b5402a" if ours else "#9aa7b1", zorder=1)
    axes.plot([low, high], [place, place], color=INK, linewidth=1, zorder=3)
    axes.annotate(
        f"{median:.0f}",
        (high, place),
        (5, 0),
        textcoords="offset points",
        va="center",
        zorder=4,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )


def page(results: Results) -> str:
    versions = {k: v for worker in results.workers for k, v in worker.versions.items()}
    said = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    command = shlex.join(["python", "benchmarks/generation.py", *sys.argv[1:]])
    lines = [
        "# Benchmarks of generation",
        "",
        "GPT-2 of 124M parameters with the same weights, greedily and with a cache, in one run, in "
        "turns, each engine in a process of its own; medians. The weights are random, and so large "
        "that the tokens depend on all of them.",
        "",
        f"{datetime.date.today()}, {results.threads} threads of {processor()}, {said}, "
        f"{results.rounds} rounds: `{command}`",
        "",
        "![tokens per second of every engine](benchmarks-generation.svg)",
        "",
        *(line + "\n" for line in results.left_out),
        *report(results),
    ]
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=physical_cores())
    arguments.add_argument("--new", type=int, default=128, help="tokens to generate")
    arguments.add_argument("--only", nargs="*", default=[], help="words of contestants' names")
    arguments.add_argument("--write", type=Path, nargs="?", const=ROOT / "docs", help="a folder")
    said = arguments.parse_args()
    wanted = [word.lower() for word in said.only]
    results = contest(wanted, said.rounds, said.threads, said.new)
    print("\n".join(report(results)))
    if said.write:
        draw(results, said.write / "benchmarks-generation.svg")
        (said.write / "benchmarks-generation.md").write_text(page(results))


if __name__ == "__main__":
    main()
