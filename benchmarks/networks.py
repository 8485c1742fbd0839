"""Loading, forward passes and dissection beside Transformers: same weights, one run, alternating.

    python benchmarks/networks.py

Prints a table of medians and their ratio, and writes it to docs/benchmarks.md.
"""

import argparse
import datetime
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

import vesalius as vs
from vesalius.machine import processor

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


@dataclass
class Result:
    """Seconds of one thing done in two ways, in turns."""

    what: str
    ours: list[float]
    theirs: list[float]
    note: str = ""

    def row(self) -> str:
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        spread = f"{min(self.ours) * 1e3:.0f} to {max(self.ours) * 1e3:.0f}"
        cells = (self.what, f"{ours * 1e3:.1f}", spread, f"{theirs * 1e3:.1f}")
        return f"| {' | '.join(cells)} | {theirs / ours:.2f} | {self.note} |"


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def alternate(
    what: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int, note: str = ""
) -> Result:
    """Both once to warm up, then in turns."""
    ours(), theirs()
    result = Result(what, [], [], note)
    for _ in range(rounds):
        result.ours.append(seconds(ours))
        result.theirs.append(seconds(theirs))
    print(result.row(), flush=True)
    return result


RUN = {
    "ours": "network = vs.load(folder).network",
    "theirs": "network = transformers.GPT2LMHeadModel.from_pretrained(folder)",
    "dissect": "vs.dissect(vs.load(folder), list(range(32)))",
}
PROBE = """
import re, sys, time
import torch, transformers, vesalius as vs
folder, loaded = sys.argv[1], (vs.load, vs.dissect, vs.create("ffnn"), transformers.GPT2LMHeadModel)
transformers.utils.logging.disable_progress_bar()
def memory(kind):
    status = open("/proc/self/status").read()
    return int(re.search(kind + r":\\s+(\\d+) kB", status).group(1)) * 1024
before, start = memory("VmRSS"), time.perf_counter()
{run}
print(time.perf_counter() - start)
if "network" in globals():
    with torch.no_grad():
        network(torch.arange(8)[None])
print(memory("VmHWM") - before)
"""


def probe(folder: Path, what: str) -> tuple[float, float]:
    """Seconds of something done in a new process, and the bytes of memory that it adds.

    A network runs once before memory is measured, so that all its weights are there.
    """
    command = [sys.executable, "-c", PROBE.format(run=RUN[what]), str(folder)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    taken, grown = map(float, out.split())
    return taken, grown


def loading(folder: Path, rounds: int) -> Result:
    size = (folder / "model.safetensors").stat().st_size
    runs: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for who, run in runs.items():
            run.append(probe(folder, who))
    memory = {who: max(grown for _, grown in run) / size for who, run in runs.items()}
    note = f"memory {memory['ours']:.2f} and {memory['theirs']:.2f} times the file"
    times = {who: [taken for taken, _ in run] for who, run in runs.items()}
    result = Result("load GPT-2 124M", times["ours"], times["theirs"], note)
    print(result.row(), flush=True)
    return result


@torch.no_grad()
def forward(folder: Path, model: vs.Model, rounds: int) -> list[Result]:
    peer = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = torch.randint(50257, (1, 512))
    ours, theirs = model.network, peer
    compiled, their_compiled = torch.compile(ours), torch.compile(theirs)
    return [
        alternate(
            "GPT-2 124M, 1 x 512",
            lambda: ours(ids),
            lambda: theirs(ids, use_cache=False).logits,
            rounds,
        ),
        alternate(
            "GPT-2 124M, 1 x 512, compiled",
            lambda: compiled(ids),
            lambda: their_compiled(ids, use_cache=False).logits,
            rounds,
        ),
    ]


@torch.no_grad()
def forward_bert(rounds: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        peer = transformers.BertModel(transformers.BertConfig()).eval()
        peer.save_pretrained(folder)
        network = vs.load(folder).network
        ids = torch.randint(30522, (8, 128))
        results = [
            alternate(
                "BERT base, 8 x 128",
                lambda: network(ids).hidden,
                lambda: peer(ids).last_hidden_state,
                rounds,
            )
        ]
        compiled, their_compiled = torch.compile(network), torch.compile(peer)
        results.append(
            alternate(
                "BERT base, 8 x 128, compiled",
                lambda: compiled(ids).hidden,
                lambda: their_compiled(ids).last_hidden_state,
                rounds,
            )
        )
    return results


@torch.no_grad()
def dissection(folder: Path, model: vs.Model, rounds: int) -> Result:
    """All intermediates of 32 tokens, against three passes that return what Transformers can."""
    peer = transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
    ids = list(range(100, 132))
    batch = torch.tensor([ids])

    def three_passes() -> None:
        for _ in range(3):
            peer(batch, output_attentions=True, output_hidden_states=True)

    kept = vs.dissect(model, ids)
    size = sum(step.value.nbytes for step in kept.steps)
    peak = probe(folder, "dissect")[1]
    note = (
        f"{len(kept.steps)} steps, {size / 1e6:.0f} MB kept, {peak / 1e6:.0f} MB at the peak with "
        "the model; theirs is three passes with attentions and hidden states"
    )
    return alternate(
        "dissect GPT-2 124M, 32 tokens", lambda: vs.dissect(model, ids), three_passes, rounds, note
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    rounds = arguments.parse_args().rounds
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder)
        model = vs.load(folder)
        results = [
            loading(folder, max(3, rounds // 3)),
            *forward(folder, model, rounds),
            *forward_bert(rounds),
            dissection(folder, model, rounds),
        ]
    write(results, rounds)


def write(results: list[Result], rounds: int) -> None:
    versions = f"PyTorch {torch.__version__}, Transformers {transformers.__version__}"
    machine = f"{torch.get_num_threads()} threads of {processor()}"
    lines = [
        "# Benchmarks",
        "",
        "Our networks beside Transformers', with the same weights, in one run and in turns; "
        "medians in milliseconds. A ratio above one means that ours is faster.",
        "",
        f"{datetime.date.today()}, {machine}, {versions}, {rounds} rounds: "
        f"`python benchmarks/networks.py --rounds {rounds}`",
        "",
        "| what | ours | from, to | Transformers | ratio | |",
        "| --- | ---: | --- | ---: | ---: | --- |",
        *(result.row() for result in results),
    ]
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
