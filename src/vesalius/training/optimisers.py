"""How parameters follow their gradients (22), and how fast: optimisers, schedules, limits."""

import math

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from vesalius.training.recipe import Training


def optimiser(network: nn.Module, how: Training) -> torch.optim.Optimizer:
    """The optimiser of a recipe; matrices decay, vectors (biases, gains) do not."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": how.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if how.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=how.learning_rate, momentum=how.momentum, fused=True)
    kind = torch.optim.AdamW if how.optimiser == "adamw" else torch.optim.Adam
    return kind(groups, lr=how.learning_rate, betas=(how.beta1, how.beta2), fused=True)


def clipped(network: nn.Module, limit: float) -> float:
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


def learning_rate(how: Training, step: int) -> float:
    """The rate of a step, counted from 0: it rises to the full one, then follows the schedule.

    Cosine is at its end when all steps are done, so that none is lost where that is nothing.
    """
    since = step - how.warmup
    if since < 0:
        return how.learning_rate * (step + 1) / (how.warmup + 1)
    if how.schedule == "constant":
        return how.learning_rate
    if how.schedule == "step":
        return how.learning_rate * how.step_factor ** (since // how.step_every)
    done = min(1.0, since / max(1, how.steps - how.warmup))
    share = how.final_rate + (1 - how.final_rate) * (1 + math.cos(math.pi * done)) / 2
    return how.learning_rate * share
