"""Products of matrices with a few vectors, and what is done to their results."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types, uintp
from numba.extending import overload, register_jitable
from numpy import ndarray as Array

from vesalius.generation.kernels.compiling import compiled
from vesalius.generation.kernels.teams import Member, meet, take
from vesalius.generation.kernels.vectors import ROWS, VECTORS, tile

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
WIDE = 2**14
"""Bytes of a vector from which on it is not kept in the cache beside the rows that it meets."""
LEFT, PIECE = 8, 2**17
"""One row out of so many is left to whichever thread comes first, about so many bytes at a time."""
one_by_one = tile(1, 1, 4, fetches=True)
several_by_one = tile(ROWS, 1, 1, fetches=False)
several_first = tile(ROWS, VECTORS, 1, fetches=True)
several = tile(ROWS, VECTORS, 1, fetches=False)


class Matrices(NamedTuple):
    """One matrix of every layer: layers x rows x columns, and a scale and a bias for each row."""

    weight: Array
    scale: Array
    bias: Array


class Room(NamedTuple):
    """Where a product's vectors are made ready, one by each thread, several in the first's part."""

    x: Array
    scale: Array


@register_jitable
def tiled(count: int, tile: int) -> int:
    """So many rows or columns, filled up to whole tiles."""
    return -(-count // tile) * tile


@compiled
def exponential(x: Any) -> Any:
    """e^x in float32, to its last digits, in a form that vectors can take."""
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
    """erf(x) in float32, within 2e-7, in a form that vectors can take.

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
def seldom(kind: int, x: Any) -> Any:
    """An activation that few models have: chosen for each number anew."""
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
            y[i] = seldom(kind, y[i])


@compiled
def share(member: Member, n: int) -> tuple[int, int]:
    """The rows that a thread sees to; a single one is every thread's, which needs no meeting."""
    if n == 1:
        return 0, 1
    return member.part * n // member.parts, (member.part + 1) * n // member.parts


@compiled
def room_of(member: Member, n: int) -> int:
    """Whose room is worked in: each thread's own for a single row, the first's for several."""
    return member.part if n == 1 else 0


@compiled
def settle(member: Member, n: int) -> None:
    """Wait for the rows of others."""
    if n > 1:
        meet(member)


def prepared(member: Member, x: Array, width: int, room: Room) -> tuple[Array, Array]:
    """Vectors as the matrix wants them, and a scale for each."""
    raise AssertionError("compiled code has its own, below")


@overload(prepared, jit_options={"fastmath": True})
def _prepared(member: Any, x: Any, width: Any, room: Any) -> Any:
    return _as_integers if room.types[0].dtype == types.int16 else _as_they_are


def _as_they_are(member: Any, x: Any, width: Any, room: Any) -> Any:
    return x, room.scale[0]


def _as_integers(member: Any, x: Any, width: Any, room: Any) -> Any:
    n = len(x)
    own = room_of(member, n)
    ready, coarse = room.x[own], room.scale[own]
    # A sum holds a pair of products out of every sixteen columns, and has 32 bits.
    levels = np.float32(min(32767, (2**31 - 1) * 16 // (254 * width)))
    start, stop = share(member, n)
    for row in range(start, stop):
        largest = np.float32(1e-30)
        for i in range(uintp(width)):
            largest = max(largest, abs(x[row, i]))
        fine = levels / largest
        for i in range(uintp(width)):
            ready[row, i] = np.int16(np.rint(x[row, i] * fine))
        coarse[row] = largest / levels
    settle(member, n)
    return ready, coarse


@compiled
def some_rows(
    weight: Array,
    scale: Array,
    bias: Array,
    x: Array,
    coarse: Array,
    n: int,
    out: Array,
    start: int,
    stop: int,
    kind: int,
) -> None:
    """Rows from start to stop of g(W x + b) for the first n of the vectors made ready."""
    one_stream = n == 1 and weight.shape[1] * x.itemsize < WIDE
    whole = start if one_stream else start + (stop - start) // ROWS * ROWS
    for i in range(start, whole, ROWS):
        if n == 1:
            several_by_one(weight, i, x, 0, out)
        else:
            several_first(weight, i, x, 0, out)
            for b in range(VECTORS, n, VECTORS):
                several(weight, i, x, b, out)
    for i in range(whole, stop):
        for row in range(n):
            one_by_one(weight, i, x, row, out)
    for row in range(n):
        y = out[row, start:stop]
        for i in range(uintp(stop - start)):
            y[i] = y[i] * coarse[row] * scale[start + i] + bias[start + i]
        activate(kind, y)


@compiled
def multiply(
    member: Member, matrices: Matrices, l: int, x: Array, room: Room, out: Array, kind: int
) -> None:
    """A thread's part of g(W x + b) of layer l, for each row of x.

    Memory gives most where each thread reads on and on, but never the same to all: they have parts
    of the same size, and whoever is done with its own helps with the rows after them.
    ``x`` has zeros up to whole tiles of columns, and both have room for whole tiles of rows. A
    thread that has its part still has to meet the others.
    """
    weight, scale, bias = matrices.weight[l], matrices.scale[l], matrices.bias[l]
    rows, width = weight.shape
    ready, coarse = prepared(member, x, width, room)
    part = (rows - rows // LEFT) // member.parts // ROWS * ROWS
    piece = max(PIECE // (width * weight.itemsize) // ROWS, 1) * ROWS
    start, stop = member.part * part, (member.part + 1) * part
    while start < rows:
        some_rows(weight, scale, bias, ready, coarse, len(x), out, start, stop, kind)
        start = member.parts * part + take(member) * piece
        stop = min(start + piece, rows)
