"""The activations of ``families.activations`` in PyTorch.

All are named functions, since a network that holds a lambda cannot be pickled.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def gelu_10(x: Tensor) -> Tensor:
    return F.gelu(x).clamp(max=10)


def quick_gelu(x: Tensor) -> Tensor:
    # By a fused function, which keeps one number for the backward pass and not two.
    return F.silu(1.702 * x) / 1.702


def relu2(x: Tensor) -> Tensor:
    return F.relu(x).square()


def laplace(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2))))


def sqrtsoftplus(x: Tensor) -> Tensor:
    return F.softplus(x).sqrt()


def linear(x: Tensor) -> Tensor:
    return x


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "relu": F.relu,
    "gelu_10": gelu_10,
    "quick_gelu": quick_gelu,
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "leaky_relu": F.leaky_relu,
    "relu2": relu2,
    "relu6": F.relu6,
    "laplace": laplace,
    "sqrtsoftplus": sqrtsoftplus,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "linear": linear,
}
