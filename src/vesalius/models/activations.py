"""The activations of ``families.activations`` in PyTorch."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "gelu_10": lambda x: F.gelu(x).clamp(max=10),
    # By a fused function, which keeps one number for the backward pass and not two.
    "quick_gelu": lambda x: F.silu(1.702 * x) / 1.702,
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "leaky_relu": F.leaky_relu,
    "relu2": lambda x: F.relu(x).square(),
    "relu6": F.relu6,
    "laplace": lambda x: 0.5 * (1 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2)))),
    "sqrtsoftplus": lambda x: F.softplus(x).sqrt(),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "linear": lambda x: x,
}
