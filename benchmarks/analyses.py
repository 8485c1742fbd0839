"""Traces and ablations beside TransformerLens and nnsight: GPT-2 of 124M, random weights, one run.

    python benchmarks/analyses.py [--write]

Wants TransformerLens before 4 and nnsight beside Vesalius, in an environment of their own. Prints a
table, and with --write makes it docs/benchmarks-analyses.md.
"""

import argparse
import datetime
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from vesalius.machine import processor

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks-analyses.md"
ABOUT = """\
Each contestant has a process of its own for each task, in turns. A trace keeps what the library
records of a forward pass: all steps of ours, `run_with_cache` of TransformerLens, the outputs of
every block, attention and feedforward network by nnsight. An ablation cuts each of the 144 heads of
GPT-2 (124M, random weights) and reads one logit. `python benchmarks/analyses.py --write`.
"""
LENGTHS = (32, 256)
ROUNDS = {"trace": 5, "ablate": 1}
CONTESTANTS = {"trace": ("vesalius", "transformer_lens", "nnsight")}
CONTESTANTS["ablate"] = ("vesalius", "transformer_lens")


def ids(length: int) -> list[int]:
    return [(7919 * i) % 50257 for i in range(length)]


def vesalius(task: str, length: int) -> Callable[[], object]:
    import vesalius as vs

    model = vs.create("gpt2")
    if task == "trace":
        return lambda: vs.dissect(model, ids(length))
    return lambda: vs.ablate(model, ids(length), "P[*,*]", 11)


def transformer_lens(task: str, length: int) -> Callable[[], object]:
    import torch
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    torch.set_grad_enabled(False)
    config = HookedTransformerConfig(
        n_layers=12,
        d_model=768,
        n_ctx=1024,
        d_head=64,
        n_heads=12,
        d_mlp=3072,
        d_vocab=50257,
        act_fn="gelu_new",
        normalization_type="LN",
        device="cpu",
        seed=0,
    )
    model = HookedTransformer(config)
    tokens = torch.tensor([ids(length)])
    if task == "trace":
        return lambda: model.run_with_cache(tokens)

    def ablate() -> list[float]:
        clean, found = model(tokens)[0, -1, 11], []
        for layer in range(12):
            for head in range(12):

                def cut(z: torch.Tensor, hook: object, head: int = head) -> torch.Tensor:
                    z[:, :, head] = 0
                    return z

                hooks = [(f"blocks.{layer}.attn.hook_z", cut)]
                logits = model.run_with_hooks(tokens, fwd_hooks=hooks)
                found.append(float(logits[0, -1, 11] - clean))
        return found

    return ablate


def nnsight(task: str, length: int) -> Callable[[], object]:
    import torch
    from nnsight import NNsight
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_grad_enabled(False)
    model = NNsight(GPT2LMHeadModel(GPT2Config()).eval())
    tokens = torch.tensor([ids(length)])

    def trace() -> list[torch.Tensor]:
        kept = []
        with model.trace(tokens):
            for block in model.transformer.h:
                kept += [part.output.save() for part in (block.attn, block.mlp, block)]
            kept.append(model.lm_head.output.save())
        return kept

    return trace


def measure(contestant: str, task: str, length: int) -> None:
    """In a process of its own: seconds of every round, and memory at the peak."""
    run = globals()[contestant](task, length)
    if task == "trace":
        run()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(ROUNDS[task]):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "before": before * 1024, "peak": peak * 1024}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", nargs=3, metavar=("CONTESTANT", "TASK", "LENGTH"))
    given = parser.parse_args()
    if given.only:
        measure(given.only[0], given.only[1], int(given.only[2]))
        return
    rows = []
    for task, contestants in CONTESTANTS.items():
        for length in LENGTHS:
            found: dict[str, list[dict]] = {}
            for _ in range(2 if task == "trace" else 1):
                for contestant in contestants:
                    command = [sys.executable, __file__, "--only", contestant, task, str(length)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    said = json.loads(done.stdout.splitlines()[-1])
                    found.setdefault(contestant, []).append(said)
            ours = statistics.median(s for one in found["vesalius"] for s in one["seconds"])
            for contestant, runs in found.items():
                middle = statistics.median(s for one in runs for s in one["seconds"])
                peak = max(one["peak"] for one in runs) / 1e9
                cells = (task, str(length), contestant.replace("_", " "), f"{middle:.3f}")
                rows.append(f"| {' | '.join(cells)} | {middle / ours:.2f} | {peak:.2f} |")
                print(rows[-1], flush=True)
    if given.write:
        today = datetime.date.today().isoformat()
        heads = "| task | tokens | library | seconds | against ours | peak, GB |"
        table = "\n".join([heads, "| --- | --- | --- | ---: | ---: | ---: |", *rows])
        PAGE.write_text(
            f"# Analyses beside TransformerLens and nnsight\n\n{ABOUT}\n"
            f"{today}, {processor()}, two threads.\n\n{table}\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
