"""Fine-tuning steps beside a bare PyTorch loop: same network, batches and optimiser, in turns.

    python benchmarks/finetuning.py

The model is the gpt specimen on a text, by every strategy that steps. The bare loop does what one
would write by hand to the same network; for lora it is wrapped in the same way. Each loop runs in a
process of its own. Prints medians; ``--write`` puts them into docs/benchmarks-finetuning.md.
"""

import argparse
import datetime
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from training import OPEN, STEPS, alternate, table

import vesalius as vs
from vesalius.machine import processor
from vesalius.training import Run
from vesalius.training.allocator import keep_freed_memory
from vesalius.training.callbacks import MetricsFile
from vesalius.training.processes import Processes
from vesalius.training.recipe import recipe

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks-finetuning.md"
TEXT = Path(__file__).parents[1] / "docs" / "training.md"
BATCH, WINDOW = 8, 64
STRATEGIES = {
    "finetune": {"layer_decay": 0.9},
    "partial": {"frozen_layers": 2},
    "lora": {"lora_rank": 8},
}


def begun(strategy: str) -> Run:
    """A run that is ready to take its first step."""
    folder = Path(tempfile.mkdtemp())
    os.environ["VESALIUS_CACHE"] = str(folder / "cache")
    how = {"steps": 10**6, "batch": BATCH, "evaluate_every": 10**6, "save_every": 10**6}
    said = {
        "init": "gpt",
        "strategy": strategy,
        "objective": "next-token",
        "model": {"dropout": 0.0},
        "data": {"corpus": str(TEXT), "window": WINDOW},
        "training": {**how, **STRATEGIES[strategy]},
    }
    stack = ExitStack()
    OPEN.append(stack)
    stack.enter_context(keep_freed_memory())
    return Run(recipe(said), folder, stack.enter_context(Processes("ddp")), resume=False)


def ours(strategy: str) -> Callable[[], None]:
    """A step of a run, with its batch and its metrics on disk."""
    run, told = begun(strategy), MetricsFile()
    told.begins(run)
    return lambda: run._step([told])


def bare(strategy: str) -> Callable[[], None]:
    """The same network, taken out of a run that never steps, in a loop of plain PyTorch."""
    network: nn.Module = begun(strategy).network.train()
    tokenizer = vs.load("gpt").tokenizer
    data = np.array(tokenizer.encode(TEXT.read_text()), np.int64)
    trained = [p for p in network.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    chosen = [group for group in groups if group["params"]]
    optimiser = torch.optim.AdamW(chosen, lr=1e-3, betas=(0.9, 0.99), fused=True)
    losses = []

    def step() -> None:
        starts = torch.randint(len(data) - WINDOW, (BATCH,))
        rows = torch.stack([torch.from_numpy(data[i : i + WINDOW + 1]) for i in starts])
        logits = network(rows[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), rows[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(loss.item())

    return step


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--write", action="store_true")
    said = arguments.parse_args()
    rounds = said.rounds
    lines = [
        "# Benchmarks of fine-tuning",
        "",
        f"Steps of the gpt specimen on windows of {WINDOW} tokens, {BATCH} at once, without "
        "dropout, beside a bare loop in plain PyTorch around the same network; in turns, each in a "
        "process of its own; medians. Ours include metrics on disk.",
        "",
        f"{datetime.date.today()}, {torch.get_num_threads()} threads of {processor()}, "
        f"PyTorch {torch.__version__}, {rounds} rounds of {STEPS} steps: "
        f"`python benchmarks/finetuning.py --rounds {rounds}`",
        "",
    ]
    for strategy in STRATEGIES:
        loops = {"ours": (ours, strategy), "bare PyTorch": (bare, strategy)}
        lines += table(strategy, BATCH * WINDOW, alternate(rounds, loops))
    if said.write:
        PAGE.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
