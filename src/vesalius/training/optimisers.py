"""How parameters follow their gradients (22): optimisers, and gradient clipping."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from vesalius.errors import ImpossibleSetting
from vesalius.machine import quick_bfloat16
from vesalius.training.settings import Training
from vesalius.training.strategies.strategy import LAYERS

Named = list[tuple[str, nn.Parameter]]
Shares = Mapping[str, float]


def optimiser(
    network: nn.Module, settings: Training, shares: Shares | None = None
) -> torch.optim.Optimizer:
    """The optimiser of a recipe; matrices decay, vectors (biases, gains) do not.

    Each group of parameters knows its ``share`` of the scheduled learning rate.
    """
    bare = getattr(network, "module", network)
    named = [(name, p) for name, p in bare.named_parameters() if p.requires_grad]
    shares = shares or {}
    rate, betas = settings.learning_rate, (settings.beta1, settings.beta2)
    if settings.optimiser == "sgd":
        groups = _groups(named, settings.weight_decay, shares)
        return torch.optim.SGD(groups, lr=rate, momentum=settings.momentum, fused=True)
    if settings.optimiser == "muon":
        if not hasattr(torch.optim, "Muon"):
            raise ImpossibleSetting(
                f"[training] optimiser is muon, which PyTorch has from 2.9 on, not "
                f"{torch.__version__}; upgrade it, or set adamw"
            )
        return Muon(named, settings, shares)
    kind = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
    return kind(_groups(named, settings.weight_decay, shares), lr=rate, betas=betas, fused=True)


def _groups(named: Named, weight_decay: float, shares: Shares) -> list[dict[str, Any]]:
    """Parameters of one share and decay together, matrices first."""
    found: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, p in sorted(named, key=lambda one: one[1].dim() < 2):
        found.setdefault((p.dim() >= 2, shares.get(name, 1.0)), []).append(p)
    return [
        {"params": together, "weight_decay": weight_decay if matrix else 0.0, "share": share}
        for (matrix, share), together in found.items()
    ]


class Muon(torch.optim.Optimizer):
    """Muon for the matrices of the layers, AdamW for all else: embeddings, heads, vectors.

    Muon makes the mean gradient of a matrix nearly orthogonal before it follows it. Its steps are
    scaled to the size of AdamW's, so that one learning rate serves both. The two optimisers share
    the groups and the state of this one.
    """

    def __init__(self, named: Named, settings: Training, shares: Shares) -> None:
        inside = [one for one in named if not set(LAYERS).isdisjoint(one[0].split("."))]
        matrices = [(name, p) for name, p in inside if p.dim() == 2]
        turned = {name for name, _ in matrices}
        rest = [one for one in named if one[0] not in turned]
        others = _groups(rest, settings.weight_decay, shares)
        rate, betas = settings.learning_rate, (settings.beta1, settings.beta2)
        self.parts: list[torch.optim.Optimizer] = []
        if matrices:
            inner = _groups(matrices, settings.weight_decay, shares)
            self.parts.append(torch.optim.Muon(inner, lr=rate, adjust_lr_fn="match_rms_adamw"))
        if others:
            self.parts.append(torch.optim.AdamW(others, lr=rate, betas=betas, fused=True))
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._share()

    def _share(self) -> None:
        """Give both optimisers the groups and the state that were made or loaded here."""
        groups = iter(self.param_groups)
        for part in self.parts:
            part.param_groups = [next(groups) for _ in part.param_groups]
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "losses are computed before"
        for part in self.parts:
            if isinstance(part, torch.optim.AdamW) or quick_bfloat16():
                part.step()
            else:
                _muon_in_float32(part)


@torch.no_grad()
def _muon_in_float32(muon: torch.optim.Optimizer) -> None:
    """A step of PyTorch's Muon with its products in float32.

    PyTorch's are in bfloat16, ten times slower than float32 on a processor that has no
    instructions for it: more than half of a training step.
    """
    for group in muon.param_groups:
        rate, momentum = float(group["lr"]), group["momentum"]
        for p in group["params"]:
            if p.grad is None:
                continue
            state = muon.state[p]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(p.grad)
            mean = state["momentum_buffer"].lerp_(p.grad, 1 - momentum)
            update = orthogonalised(p.grad.lerp(mean, momentum), group)
            p.mul_(1 - rate * group["weight_decay"])
            p.add_(update, alpha=-rate * 0.2 * math.sqrt(max(p.shape)))  # match_rms_adamw


def orthogonalised(gradient: torch.Tensor, group: Mapping[str, Any]) -> torch.Tensor:
    """Newton-Schulz: every singular value x of the gradient, over its norm, goes through
    ax + bx³ + cx⁵ several times, which takes it near 1; singular vectors stay."""
    a, b, c = group["ns_coefficients"]
    tall = gradient.size(0) > gradient.size(1)
    X = gradient.T if tall else gradient
    X = X / X.norm().clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram = X @ X.T
        X = torch.addmm(X, torch.addmm(gram, gram, gram, beta=b, alpha=c), X, beta=a)
    return X.T if tall else X


def clip_gradients(network: nn.Module, limit: float) -> float:
    """Gradient clipping: scale all gradients down where their norm is above the limit.

    Gives the norm before. The limit 0 is none. Gradients below the limit are left alone, because
    multiplying them by one takes time too.
    """
    parameters = [p for p in network.parameters() if p.grad is not None]
    norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
    full = getattr(norm, "full_tensor", None)  # of a network that is sharded over processes
    size = float(full() if full else norm)
    if limit and size > limit:
        clip_grads_with_norm_(parameters, limit, norm)
    return size
