"""How parameters follow their gradients (22): optimisers, and gradient clipping."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from vesalius.errors import ImpossibleSetting
from vesalius.training.settings import Training

LAYERS = ("blocks", "layers")
"""Where networks keep the layers whose matrices Muon turns."""


def optimiser(network: nn.Module, settings: Training) -> torch.optim.Optimizer:
    """The optimiser of a recipe; matrices decay, vectors (biases, gains) do not."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    rate, betas = settings.learning_rate, (settings.beta1, settings.beta2)
    if settings.optimiser == "sgd":
        groups = _groups(parameters, settings.weight_decay)
        return torch.optim.SGD(groups, lr=rate, momentum=settings.momentum, fused=True)
    if settings.optimiser == "muon":
        if not hasattr(torch.optim, "Muon"):
            raise ImpossibleSetting(
                f"[training] optimiser is muon, which PyTorch has from 2.9 on, not "
                f"{torch.__version__}; upgrade it, or set adamw"
            )
        return Muon(network, settings)
    kind = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
    return kind(_groups(parameters, settings.weight_decay), lr=rate, betas=betas, fused=True)


def _groups(parameters: list[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


class Muon(torch.optim.Optimizer):
    """Muon for the matrices of the layers, AdamW for all else: embeddings, heads, vectors.

    Muon makes the mean gradient of a matrix nearly orthogonal before it follows it. Its steps are
    scaled to the size of AdamW's, so that one learning rate serves both. The two optimisers share
    the groups and the state of this one.
    """

    def __init__(self, network: nn.Module, settings: Training) -> None:
        named = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
        layered = [p for name, p in named if not set(LAYERS).isdisjoint(name.split("."))]
        matrices = [p for p in layered if p.dim() == 2]
        turned = set(map(id, matrices))
        others = _groups([p for _, p in named if id(p) not in turned], settings.weight_decay)
        rate, betas = settings.learning_rate, (settings.beta1, settings.beta2)
        self.parts: list[torch.optim.Optimizer] = []
        if matrices:
            inner = [{"params": matrices, "weight_decay": settings.weight_decay}]
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
            part.step()


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
