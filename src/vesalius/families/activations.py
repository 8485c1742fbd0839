"""The activations g: one table for configurations, costs, memory and Transformers' names.

``equations.activations``, ``models.activations`` and ``generation.kernels.activations`` compute
each of them under the name that it has here. Nothing here needs NumPy: counting starts without it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Activation:
    """One activation, and what it costs."""

    formula: str
    cost: int
    """Pointwise operations of one neuron, which formulas call a."""
    kept: int
    """Numbers that the backward pass reads of one neuron.

    One is the result, which the next product needs; ReLU, sigmoid and tanh need no other."""
    theirs: tuple[str, ...]
    """What Transformers calls it; the first of these is written. Empty where it has none."""


ACTIVATIONS: dict[str, Activation] = {
    "gelu": Activation("x (1 + erf(x / √2)) / 2", 5, 2, ("gelu", "gelu_python")),
    "gelu_tanh": Activation(
        "x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2",
        9,
        2,
        ("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate", "gelu_python_tanh"),
    ),
    "relu": Activation("max(x, 0)", 1, 1, ("relu",)),
    "gelu_10": Activation("min(gelu(x), 10)", 6, 3, ("gelu_10",)),
    "quick_gelu": Activation("x sigmoid(1.702 x)", 6, 2, ("quick_gelu",)),
    "silu": Activation("x sigmoid(x)", 5, 2, ("silu", "swish")),
    "mish": Activation("x tanh(log(1 + eˣ))", 5, 2, ("mish",)),
    "hardswish": Activation("x min(max(x + 3, 0), 6) / 6", 5, 2, ("hardswish",)),
    "leaky_relu": Activation("max(x, 0.01 x)", 2, 2, ("leaky_relu",)),
    "relu2": Activation("max(x, 0)²", 2, 2, ("relu2",)),
    "relu6": Activation("min(max(x, 0), 6)", 2, 2, ("relu6",)),
    "laplace": Activation("(1 + erf((x − 0.707107) / (0.282095 √2))) / 2", 5, 2, ("laplace",)),
    "sqrtsoftplus": Activation("√log(1 + eˣ)", 4, 2, ("sqrtsoftplus",)),
    "sigmoid": Activation("1 / (1 + e⁻ˣ)", 4, 1, ("sigmoid",)),
    "tanh": Activation("tanh x", 1, 1, ("tanh",)),
    "linear": Activation("x", 0, 1, ("linear",)),
}

TRAINED = ("prelu", "xielu")
"""Activations of Transformers with parameters of their own, which the paper's blocks lack."""

BY_THEIR_NAME = {theirs: ours for ours, row in ACTIVATIONS.items() for theirs in row.theirs}
