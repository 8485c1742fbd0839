"""Training steps beside other loops: same model, batch, dropout and optimiser, one run, in turns.

    python benchmarks/training.py

Each loop runs in a process of its own. Beside ours: a bare loop in plain PyTorch as nanoGPT's is
(fused q, k, v, AdamW, clipping), a plain Transformers GPT-2 loop, and for the lstm a raw
``nn.LSTM`` loop. Prints medians, and writes them to docs/benchmarks-training.md.
"""

import argparse
import datetime
import io
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from rich.console import Console
from rich.live import Live
from torch import Tensor, nn
from torch.nn import functional as F

import vesalius as vs
from vesalius.cli.display import Screen
from vesalius.machine import processor
from vesalius.models.linear import linear
from vesalius.training import Run
from vesalius.training.allocator import keep_freed_memory
from vesalius.training.callbacks import MetricsFile
from vesalius.training.optimisers import clip_gradients
from vesalius.training.processes import Processes
from vesalius.training.recipe import recipe

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks-training.md"
SIZES = {
    "4 layers, width 128, context 64, batch 12": (4, 4, 128, 64, 12),
    "6 layers, width 384, context 256, batch 8": (6, 6, 384, 256, 8),
}
VOCABULARY = 65
STEPS = 10
"""Steps of a round."""
OPEN: list[ExitStack] = []
"""What a process of ours holds open until its end."""


class BareBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        batch, n, width = x.shape
        parts = self.qkv(self.before_attention(x)).split(width, dim=2)
        q, k, v = (p.view(batch, n, self.heads, -1).transpose(1, 2) for p in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(seen.transpose(1, 2).reshape(batch, n, width)))
        inner = F.gelu(self.up(self.before_mlp(x)), approximate="tanh")
        return x + self.dropout(self.down(inner))


class Bare(nn.Module):
    """A GPT as people write it by hand."""

    def __init__(self, layers: int, heads: int, width: int, context: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(BareBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def loop(
    network: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], n: int, b: int
) -> Callable[[], None]:
    """What nanoGPT's loop does: windows, a scheduled rate, decay for matrices, clipping, a log."""
    data = np.random.default_rng(0).integers(VOCABULARY, size=300_000, dtype=np.uint16)
    matrices = [p for p in network.parameters() if p.dim() >= 2]
    vectors = [p for p in network.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    network.train()
    losses = []

    def step() -> None:
        starts = torch.randint(len(data) - n, (b,))
        ids = torch.stack([torch.from_numpy(data[i : i + n].astype(np.int64)) for i in starts])
        targets = torch.stack(
            [torch.from_numpy(data[i + 1 : i + 1 + n].astype(np.int64)) for i in starts]
        )
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * (1 + math.cos(len(losses) / 1e6))
        value = loss(ids, targets)
        value.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(value.item())

    return step


def bare(layers: int, heads: int, width: int, context: int, batch: int) -> Callable[[], None]:
    network = Bare(layers, heads, width, context)
    return loop(network, network, context, batch)


def peer(layers: int, heads: int, width: int, context: int, batch: int) -> Callable[[], None]:
    network = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY, n_positions=context, n_embd=width, n_layer=layers, n_head=heads,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip

    def loss(ids: Tensor, targets: Tensor) -> Tensor:
        logits = network(ids, use_cache=False).logits
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))

    return loop(network, loss, context, batch)


def raw_lstm(layers: int, width: int, window: int, batch: int) -> Callable[[], None]:
    tokens = nn.Embedding(VOCABULARY, width)
    cell = nn.LSTM(width, width, num_layers=layers, batch_first=True)
    state: list = [None]

    def loss(ids: Tensor, targets: Tensor) -> Tensor:
        x, after = cell(tokens(ids), state[0])
        state[0] = tuple(part.detach() for part in after)
        logits = F.linear(x, tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))

    return loop(nn.ModuleList([tokens, cell]), loss, window, batch)


def ours(family: str, model: dict, data: dict, batch: int, told: bool = True) -> Callable[[], None]:
    """A step of a run, with its batch, metrics and display; or of its network, and nothing else."""
    folder = Path(tempfile.mkdtemp())
    os.environ["VESALIUS_CACHE"] = str(folder / "cache")
    characters = [chr(i) for i in range(33, 33 + VOCABULARY - 1)] + ["\n"]
    text = folder / "text.txt"
    text.write_text("".join(np.random.default_rng(0).choice(characters, size=300_000)))
    said = {
        "family": family,
        "objective": "next-token",
        "model": {**model, "dropout": 0.0},
        "data": {"corpus": str(text), "tokenizer": "characters", **data},
        "training": {"steps": 10**6, "batch": batch, "evaluate_every": 10**6, "save_every": 10**6},
    }
    stack = ExitStack()
    OPEN.append(stack)
    stack.enter_context(keep_freed_memory())
    run = Run(recipe(said), folder, stack.enter_context(Processes("ddp")), resume=False)
    if not told:
        return without(run, run.batches.train(0))
    terminal = Console(file=io.StringIO(), force_terminal=True)
    live = stack.enter_context(Live(console=terminal, refresh_per_second=4))
    callbacks = [MetricsFile(), Screen(live)]
    for callback in callbacks:
        callback.begins(run)

    return lambda: run._step(callbacks)


class Loop:
    """A loop in a process of its own, since what one sets for its process is part of it."""

    def __init__(self, make: Callable[..., Callable[[], None]], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.here, there = context.Pipe()
        self.process = context.Process(target=_serve, args=(there, make, arguments), daemon=True)
        self.process.start()
        self.run()  # to warm up

    def run(self) -> float:
        """Seconds a step, of a round."""
        self.here.send(STEPS)
        return self.here.recv()


def _serve(pipe: Any, make: Callable[..., Callable[[], None]], arguments: tuple) -> None:
    step = make(*arguments)
    while True:
        count = pipe.recv()
        start = time.perf_counter()
        for _ in range(count):
            step()
        pipe.send((time.perf_counter() - start) / count)


def alternate(rounds: int, loops: dict[str, tuple]) -> dict[str, list[float]]:
    """Seconds a step of each, in turns."""
    running = {name: Loop(*said) for name, said in loops.items()}
    taken: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(rounds):
        for name, one in running.items():
            taken[name].append(one.run())
    for one in running.values():
        one.process.terminate()
    return taken


def product(size: int, faster: bool) -> Callable[[], None]:
    a, b = torch.randn(size, size), torch.randn(size, size)

    def step() -> None:
        with torch.no_grad():
            linear(a, b) if faster else a @ b

    return step


def table(what: str, tokens: int, taken: dict[str, list[float]]) -> list[str]:
    lines = [
        f"### {what}",
        "",
        "| loop | tokens/s | ms a step | from, to | ours is |",
        "| --- | ---: | ---: | --- | ---: |",
    ]
    mine = statistics.median(taken["ours"])
    for name, times in taken.items():
        median = statistics.median(times)
        spread = f"{min(times) * 1e3:.1f} to {max(times) * 1e3:.1f}"
        ratio = "" if name == "ours" else f"{median / mine:.2f} times as fast"
        speed = f"{tokens / median:,.0f} | {median * 1e3:.1f}"
        lines.append(f"| {name} | {speed} | {spread} | {ratio} |")
    print("\n".join(lines), flush=True)
    return [*lines, ""]


PRODUCTS = {
    f"{library}, {size} x {size}": (product, size, library == "oneDNN")
    for size in (1024, 2048)
    for library in ("MKL", "oneDNN")
}
"""Large products in single precision, the best of which is taken for the processor's peak."""


def gpt(what: str, rounds: int) -> list[str]:
    layers, heads, width, context, batch = size = SIZES[what]
    model = {"layers": layers, "heads": heads, "embedding": width, "context": context}
    taken = alternate(
        rounds,
        {
            "ours": (ours, "gpt2", model, {}, batch),
            "bare PyTorch": (bare, *size),
            "Transformers": (peer, *size),
            "ours without loader, logging and display": (ours, "gpt2", model, {}, batch, False),
            **PRODUCTS,
        },
    )
    products = {name: taken.pop(name) for name in PRODUCTS}
    rates = {
        name: 2 * PRODUCTS[name][1] ** 3 / statistics.median(products[name]) for name in products
    }
    best = max(rates, key=lambda name: rates[name])
    lines = table(what, batch * context, taken)
    cost = vs.cost("gpt2", length=context, batch=batch, **model, vocabulary=VOCABULARY)
    rate = cost.training_step / statistics.median(taken["ours"])
    lines += [
        f"Products are {cost.training_step / 1e9:.1f} GFLOP a step: {rate / 1e9:.0f} GFLOP/s, "
        f"{rate / rates[best]:.0%} of the {rates[best] / 1e9:.0f} GFLOP/s of single products "
        f"({best}), taken in the same turns.",
        "",
    ]
    print(lines[-2])
    return lines


def without(run: Run, batch: dict[str, np.ndarray]) -> Callable[[], None]:
    """The same step with one batch over and over, and nobody told."""
    ids, targets = (torch.from_numpy(np.ascontiguousarray(batch[k])) for k in ("ids", "targets"))

    def step() -> None:
        run.network.train()
        out = run.network(ids)
        F.cross_entropy(out.view(-1, out.shape[-1]), targets.view(-1)).backward()
        clip_gradients(run.network, run.settings.clip)
        run.optimiser.step()
        run.optimiser.zero_grad(set_to_none=True)

    return step


def lstm(rounds: int) -> list[str]:
    layers, width, window, batch = size = (2, 256, 64, 32)
    model = {"layers": layers, "embedding": width}
    taken = alternate(
        rounds,
        {
            "ours": (ours, "lstm", model, {"window": window}, batch),
            "raw nn.LSTM": (raw_lstm, *size),
        },
    )
    return table("lstm, 2 layers, width 256, window 64, batch 32", window * batch, taken)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    rounds = arguments.parse_args().rounds
    lines = [
        "# Benchmarks of training",
        "",
        "Steps of the same model, batch and optimiser, without dropout, in one run, in turns, each "
        "loop in a process of its own; medians. Ours include drawing the batch, metrics on disk "
        "and the display.",
        "",
        f"{datetime.date.today()}, {torch.get_num_threads()} threads of {processor()}, "
        f"PyTorch {torch.__version__}, Transformers {transformers.__version__}, {rounds} "
        f"rounds of {STEPS} steps: `python benchmarks/training.py --rounds {rounds}`",
        "",
    ]
    for what in SIZES:
        lines += gpt(what, rounds)
    lines += lstm(rounds)
    PAGE.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
