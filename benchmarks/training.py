"""Training steps beside other loops: same model, batch, dropout and optimiser, one run, in turns.

    python benchmarks/training.py

Beside ours: a bare loop in plain PyTorch as nanoGPT's is (fused q, k, v, AdamW, clipping), a plain
Transformers GPT-2 loop, and for the lstm a raw ``nn.LSTM`` loop. Prints medians, and writes them to
docs/benchmarks-training.md.
"""

import argparse
import datetime
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers
from networks import processor
from torch import Tensor, nn
from torch.nn import functional as F

import vesalius as vs
from vesalius.training import Run
from vesalius.training.processes import Processes
from vesalius.training.recipe import recipe
from vesalius.training.watching import MetricsFile

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks-training.md"
SIZES = {
    "4 layers, width 128, context 64, batch 12": (4, 4, 128, 64, 12),
    "6 layers, width 384, context 256, batch 8": (6, 6, 384, 256, 8),
}
VOCABULARY = 65
STEPS = 10
"""Steps of a round."""


class BareBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, n, width = x.shape
        parts = self.qkv(self.before_attention(x)).split(width, dim=2)
        q, k, v = (p.view(batch, n, self.heads, -1).transpose(1, 2) for p in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, n, width))
        return x + self.down(F.gelu(self.up(self.before_mlp(x)), approximate="tanh"))


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
    network: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], data: np.ndarray, n: int, b: int
):
    """A loop as short as they come: draw windows, step, clip."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, betas=(0.9, 0.99), fused=True)
    network.train()

    def step() -> None:
        starts = torch.randint(len(data) - n, (b,))
        ids = torch.stack([torch.from_numpy(data[i : i + n].astype(np.int64)) for i in starts])
        targets = torch.stack(
            [torch.from_numpy(data[i + 1 : i + 1 + n].astype(np.int64)) for i in starts]
        )
        loss(ids, targets).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def ours(family: str, model: dict, batch: int, text: Path, folder: Path) -> Run:
    window = {"window": model.pop("window")} if "window" in model else {}
    said = {
        "family": family,
        "objective": "next-token",
        "model": {**model, "dropout": 0.0},
        "data": {"corpus": str(text), "tokenizer": "characters", **window},
        "training": {"steps": 10**6, "batch": batch, "evaluate_every": 10**6, "save_every": 10**6},
    }
    folder.mkdir()
    return Run(recipe(said), folder, Processes("ddp").__enter__(), resume=False)


def alternate(rounds: int, **steps: Callable[[], None]) -> dict[str, list[float]]:
    """Seconds a step of each, in turns, after warming up."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        for _ in range(STEPS):
            step()
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(STEPS):
                step()
            taken[name].append((time.perf_counter() - start) / STEPS)
    return taken


def peak() -> float:
    """The best rate of a large product in single precision, in operations a second."""
    best = 0.0
    from vesalius.models.linear import linear

    for size in (1024, 2048):
        a, b = torch.randn(size, size), torch.randn(size, size)
        for product in (lambda a=a, b=b: a @ b, lambda a=a, b=b: linear(a, b)):
            with torch.no_grad():
                product()
                for _ in range(8):
                    start = time.perf_counter()
                    product()
                    best = max(best, 2 * size**3 / (time.perf_counter() - start))
    return best


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
        lines.append(f"| {name.replace('_', ' ')} | {speed} | {spread} | {ratio} |")
    print("\n".join(lines), flush=True)
    return [*lines, ""]


def gpt(what: str, rounds: int, text: Path, folder: Path, best: float) -> list[str]:
    layers, heads, width, context, batch = SIZES[what]
    model = {"layers": layers, "heads": heads, "embedding": width, "context": context}
    run = ours("gpt2", model, batch, text, folder / what)
    data = np.asarray(run.batches.tokens.ids)
    bare = Bare(layers, heads, width, context)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=context, n_embd=width, n_layer=layers, n_head=heads,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    peer = transformers.GPT2LMHeadModel(config)

    def peer_loss(ids: Tensor, targets: Tensor) -> Tensor:
        logits = peer(ids, use_cache=False).logits
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))

    watchers = [MetricsFile()]
    for watcher in watchers:
        watcher.begins(run)
    whole = run.batches.train(0)
    taken = alternate(
        rounds,
        ours=lambda: run._step(watchers),
        bare_PyTorch=loop(bare, bare, data, context, batch),
        Transformers=loop(peer, peer_loss, data, context, batch),
        ours_without_loader_and_logging=without(run, whole),
    )
    lines = table(what, batch * context, taken)
    cost = vs.cost("gpt2", length=context, batch=batch, **model, vocabulary=VOCABULARY)
    rate = cost.training_step / statistics.median(taken["ours"])
    lines += [
        f"Products are {cost.training_step / 1e9:.1f} GFLOP a step: {rate / 1e9:.0f} GFLOP/s, "
        f"{rate / best:.0%} of the {best / 1e9:.0f} GFLOP/s of the best single product.",
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
        nn.utils.clip_grad_norm_(run.network.parameters(), 1.0)
        run.optimiser.step()
        run.optimiser.zero_grad(set_to_none=True)

    return step


def lstm(rounds: int, text: Path, folder: Path) -> list[str]:
    width, window, batch = 256, 64, 32
    model = {"layers": 2, "embedding": width, "window": window}
    run = ours("lstm", model, batch, text, folder / "lstm")
    data = np.asarray(run.batches.tokens.ids)
    tokens = nn.Embedding(VOCABULARY, width)
    cell = nn.LSTM(width, width, num_layers=2, batch_first=True)
    raw = nn.ModuleList([tokens, cell])
    state: list = [None]

    def loss(ids: Tensor, targets: Tensor) -> Tensor:
        x, after = cell(tokens(ids), state[0])
        state[0] = tuple(part.detach() for part in after)
        logits = F.linear(x, tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))

    taken = alternate(
        rounds, ours=lambda: run._step([]), raw_LSTM=loop(raw, loss, data, window, batch)
    )
    return table("lstm, 2 layers, width 256, window 64, batch 32", window * batch, taken)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    rounds = arguments.parse_args().rounds
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["VESALIUS_CACHE"] = str(folder / "cache")
        characters = [chr(i) for i in range(33, 33 + VOCABULARY - 1)] + ["\n"]
        rng = np.random.default_rng(0)
        text = folder / "text.txt"
        body = "".join(rng.choice(characters, size=300_000))
        text.write_text(body)
        best = peak()
        lines = [
            "# Benchmarks of training",
            "",
            "Steps of the same model, batch and optimiser, without dropout, in one run, in turns; "
            "medians. Ours include drawing the batch, logging and metrics on disk.",
            "",
            f"{datetime.date.today()}, {torch.get_num_threads()} threads of {processor()}, "
            f"PyTorch {torch.__version__}, Transformers {transformers.__version__}, {rounds} "
            f"rounds of {STEPS} steps: `python benchmarks/training.py --rounds {rounds}`",
            "",
        ]
        for what in SIZES:
            lines += gpt(what, rounds, text, folder, best)
        lines += lstm(rounds, text, folder)
    PAGE.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
