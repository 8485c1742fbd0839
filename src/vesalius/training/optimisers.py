"""How parameters follow their gradients (22), and how fast: optimisers, schedules, limits."""

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from vesalius.training.settings import Training


def optimiser(network: nn.Module, settings: Training) -> torch.optim.Optimizer:
    """The optimiser of a recipe; matrices decay, vectors (biases, gains) do not."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimiser == "sgd":
        return torch.optim.SGD(
            groups, lr=settings.learning_rate, momentum=settings.momentum, fused=True
        )
    kind = torch.optim.AdamW if settings.optimiser == "adamw" else torch.optim.Adam
    return kind(
        groups, lr=settings.learning_rate, betas=(settings.beta1, settings.beta2), fused=True
    )


def clip_gradients(network: nn.Module, limit: float) -> float:
    """The norm of all gradients; where it is above the limit, they are scaled down to that.

    No limit is 0. Gradients below it are let be: multiplying them by one takes time too.
    """
    parameters = [p for p in network.parameters() if p.grad is not None]
    norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
    full = getattr(norm, "full_tensor", None)  # of a network that is spread over processes
    size = float(full() if full else norm)
    if limit and size > limit:
        clip_grads_with_norm_(parameters, limit, norm)
    return size
