"""The activations of ``families.activations`` in float32, in place, and the functions they need."""

import math
from typing import Any

import numpy as np
from numba import uintp
from numpy import ndarray as Array

from vesalius.generation.kernels.compiling import compiled

NONE, RELU, SIGMOID, TANH, GELU, GELU_TANH, GELU_10, QUICK_GELU, SILU = range(9)
MISH, HARDSWISH, LEAKY_RELU, RELU2, RELU6, LAPLACE, SQRTSOFTPLUS = range(9, 16)
ACTIVATIONS = {
    "linear": NONE,
    "relu": RELU,
    "sigmoid": SIGMOID,
    "tanh": TANH,
    "gelu": GELU,
    "gelu_tanh": GELU_TANH,
    "gelu_10": GELU_10,
    "quick_gelu": QUICK_GELU,
    "silu": SILU,
    "mish": MISH,
    "hardswish": HARDSWISH,
    "leaky_relu": LEAKY_RELU,
    "relu2": RELU2,
    "relu6": RELU6,
    "laplace": LAPLACE,
    "sqrtsoftplus": SQRTSOFTPLUS,
}


@compiled
def exponential(x: Any) -> Any:
    """e^x in float32, to its last digits, in a form that LLVM vectorises."""
    x = min(max(x, np.float32(-87)), np.float32(88))
    power = np.floor(x * np.float32(1 / math.log(2)) + np.float32(0.5))
    r = x - power * np.float32(math.log(2))  # within half a ln 2
    e = np.float32(1 / 5040)
    e = e * r + np.float32(1 / 720)
    e = e * r + np.float32(1 / 120)
    e = e * r + np.float32(1 / 24)
    e = e * r + np.float32(1 / 6)
    e = e * r + np.float32(1 / 2)
    e = e * r + np.float32(1)
    e = e * r + np.float32(1)
    exponent = (np.int32(power) + np.int32(127)) << np.int32(23)
    return e * np.int32(exponent).view(np.float32)


@compiled
def error_function(x: Any) -> Any:
    """erf(x) in float32, within 2e-7, in a form that LLVM vectorises.

    By Abramowitz and Stegun 7.1.26: 1 − (a₁ t + … + a₅ t⁵) exp(−x²) with t = 1 / (1 + p |x|).
    """
    one, size = np.float32(1), abs(x)
    t = one / (one + np.float32(0.3275911) * size)
    total = np.float32(1.061405429)
    total = total * t + np.float32(-1.453152027)
    total = total * t + np.float32(1.421413741)
    total = total * t + np.float32(-0.284496736)
    total = total * t + np.float32(0.254829592)
    near = one - total * t * exponential(-size * size)
    return near if x >= 0 else -near


@compiled
def rare_activation(kind: int, x: Any) -> Any:
    """An activation that few models have: it is chosen anew for each number."""
    zero, one, six = np.float32(0), np.float32(1), np.float32(6)
    if kind == GELU_10:
        y = np.float32(0.5) * x * (one + math.erf(x * np.float32(math.sqrt(0.5))))
        return min(y, np.float32(10))
    if kind == QUICK_GELU:
        return x / (one + exponential(np.float32(-1.702) * x))
    if kind == SILU:
        return x / (one + exponential(-x))
    if kind == MISH:  # with e = eˣ, tanh(log(1 + e)) is e (e + 2) / (e (e + 2) + 2)
        e = exponential(min(x, np.float32(20)))
        return x * (e * (e + np.float32(2)) / (e * (e + np.float32(2)) + np.float32(2)))
    if kind == HARDSWISH:
        return x * min(max(x + np.float32(3), zero), six) / six
    if kind == LEAKY_RELU:
        return max(x, np.float32(0.01) * x)
    if kind == RELU2:
        return max(x, zero) * max(x, zero)
    if kind == RELU6:
        return min(max(x, zero), six)
    if kind == LAPLACE:
        scaled = (x - np.float32(0.707107)) * np.float32(1 / (0.282095 * math.sqrt(2)))
        return np.float32(0.5) * (one + math.erf(scaled))
    return math.sqrt(max(x, zero) + math.log1p(exponential(-abs(x))))


@compiled
def activate(kind: int, y: Array) -> None:
    """An activation, in place."""
    one = np.float32(1)
    n = uintp(len(y))
    if kind == RELU:
        for i in range(n):
            y[i] = max(y[i], np.float32(0))
    elif kind == SIGMOID:
        for i in range(n):
            y[i] = one / (one + exponential(-y[i]))
    elif kind == TANH:
        for i in range(n):
            y[i] = math.tanh(y[i])
    elif kind == GELU:
        for i in range(n):
            half = np.float32(0.5) * y[i]
            y[i] = half + half * error_function(y[i] * np.float32(math.sqrt(0.5)))
    elif kind == GELU_TANH:  # (1 + tanh u) / 2 is the sigmoid of 2 u
        for i in range(n):
            u = y[i] + np.float32(0.044715) * y[i] * y[i] * y[i]
            y[i] = y[i] / (one + exponential(np.float32(-2 * math.sqrt(2 / math.pi)) * u))
    elif kind != NONE:
        for i in range(n):
            y[i] = rare_activation(kind, y[i])
