"""Activation functions, element by element, and the softmax.

Configurations name activations as ``families.activations`` does, which lists them with their costs;
the dictionary at the end has them under the same names.
"""

import math

import numpy as np
from jaxtyping import Float

from vesalius.equations.parameters import Activation, Array
from vesalius.equations.registry import formula


@formula("5.1", r"\sigma(x) = \frac{1}{1 + e^{-x}}")
def sigmoid(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The sigmoid function.

    σ(x) = 1 / (1 + e⁻ˣ)

    Written as exp(−log(1 + e⁻ˣ)), which overflows on neither side.
    """
    return np.exp(-np.logaddexp(0, -x))


@formula("5.2", r"\mathrm{ReLU}(x) = \max(0, x)")
def relu(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The rectified linear unit.

    ReLU(x) = max(0, x)
    """
    return np.maximum(x, 0)


@formula("5.2", r"\mathrm{GELU}(x) = x\,P(X \leq x),\quad X \sim \mathcal{N}(0, 1)")
def gelu(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The Gaussian error linear unit, exact.

    GELU(x) = x P(X ≤ x) = x (1 + erf(x / √2)) / 2

    Hugging Face runs BERT and ViT with this form.
    """
    from scipy.special import erf  # here, because importing it takes longer than counting does

    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


@formula(
    "5.2",
    r"\mathrm{GELU}(x) \approx 0.5\,x\left(1 + \tanh\left(\sqrt{2/\pi}\,"
    r"(x + 0.044715\,x^3)\right)\right)",
)
def gelu_tanh(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The Gaussian error linear unit, approximated.

    GELU(x) ≈ 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))

    GPT-2 and Keras's BERT use this form; it is up to 4.7e-4 away from the exact one.
    """
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))


def tanh(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The hyperbolic tangent."""
    return np.tanh(x)


def gelu_10(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The Gaussian error linear unit, cut off at 10: min(GELU(x), 10)."""
    return np.minimum(gelu(x), 10)


def quick_gelu(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The Gaussian error linear unit by a sigmoid, as iGPT has it: x σ(1.702 x)."""
    return x * sigmoid(1.702 * x)


def silu(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The sigmoid linear unit, or swish: x σ(x)."""
    return x * sigmoid(x)


def mish(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Mish: x tanh(log(1 + eˣ))."""
    return x * np.tanh(np.logaddexp(0, x))


def hardswish(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Swish in straight lines: x min(max(x + 3, 0), 6) / 6."""
    return x * relu6(x + 3) / 6


def leaky_relu(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The rectified linear unit with a small slope below zero: max(x, 0.01 x)."""
    return np.maximum(x, 0.01 * x)


def relu2(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The square of the rectified linear unit: max(x, 0)²."""
    return np.square(relu(x))


def relu6(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The rectified linear unit, cut off at 6: min(max(x, 0), 6)."""
    return np.minimum(relu(x), 6)


def laplace(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The distribution function of a normal variable: (1 + erf((x − μ) / (σ √2))) / 2.

    Its mean μ = 0.707107 and deviation σ = 0.282095 bring it close to ReLU².
    """
    from scipy.special import erf

    return 0.5 * (1 + erf((x - 0.707107) / (0.282095 * math.sqrt(2))))


def sqrtsoftplus(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The root of the softplus: √log(1 + eˣ)."""
    return np.sqrt(np.logaddexp(0, x))


def linear(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """No activation at all."""
    return x


@formula("5.3", r"\tilde{v} = v \odot \sigma(x)", gives="v")
def multiplicative_gate(v: Float[Array, " d"], x: Float[Array, " d"]) -> Float[Array, " d"]:
    """The multiplicative gate of Figure 21.

    ṽ = v ⊙ σ(x)
    """
    return v * sigmoid(x)


@formula("4.2", r"\mathrm{softmax}(z)^{(i)} = \frac{\exp(z^{(i)})}{\sum_j \exp(z^{(j)})}")
def softmax(z: Float[Array, "*n"], axis: int = 0) -> Float[Array, "*n"]:
    """The softmax of the columns, or along another axis.

    softmax(z)⁽ⁱ⁾ = exp(z⁽ⁱ⁾) / Σⱼ exp(z⁽ʲ⁾)

    The largest entry is subtracted first: the quotient stays the same and nothing overflows.
    The sum is in double precision: over a vocabulary, single precision loses its fourth digit.
    """
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    total = e.sum(axis=axis, keepdims=True, dtype=np.float64)
    return np.divide(e, total, dtype=e.dtype)


def log_softmax(z: Float[Array, "*n"], axis: int = 0) -> Float[Array, "*n"]:
    """The logarithm of the softmax, which stays finite where the softmax rounds to zero."""
    shifted = z - z.max(axis=axis, keepdims=True)
    total = np.exp(shifted).sum(axis=axis, keepdims=True, dtype=np.float64)
    return np.subtract(shifted, np.log(total), dtype=shifted.dtype)


ACTIVATIONS: dict[str, Activation] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": relu,
    "gelu_10": gelu_10,
    "quick_gelu": quick_gelu,
    "silu": silu,
    "mish": mish,
    "hardswish": hardswish,
    "leaky_relu": leaky_relu,
    "relu2": relu2,
    "relu6": relu6,
    "laplace": laplace,
    "sqrtsoftplus": sqrtsoftplus,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "linear": linear,
}
