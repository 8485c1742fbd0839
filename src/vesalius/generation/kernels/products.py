"""Products of matrices with a few vectors, activated as soon as they are made."""

from typing import Any, NamedTuple

import numpy as np
from numba import types, uintp
from numba.extending import overload, register_jitable
from numpy import ndarray as Array

from vesalius.generation.kernels.activations import activate
from vesalius.generation.kernels.compiling import compiled
from vesalius.generation.kernels.threads import Worker, barrier, next_chunk
from vesalius.generation.kernels.vectors import ROWS, VECTORS, tile

WIDE = 2**14
"""Bytes from which on a vector does not stay in the L1 cache beside rows of the matrix."""
TINY = np.float32(1e-30).view(np.int32)
DYNAMIC, CHUNK_BYTES = 8, 2**17
"""One eighth of the rows is scheduled dynamically, in chunks of about this size."""
one_by_one = tile(1, 1, 4, prefetches=True)
several_by_one = tile(ROWS, 1, 1, prefetches=False)
several_prefetching = tile(ROWS, VECTORS, 1, prefetches=True)
several = tile(ROWS, VECTORS, 1, prefetches=False)


class Matrices(NamedTuple):
    """One matrix of every layer: layers x rows x columns, and a scale and a bias for each row."""

    weight: Array
    scale: Array
    bias: Array


class Scratch(NamedTuple):
    """Memory for the operands of a product, a part for each thread; ``scratch_of`` says whose."""

    x: Array
    scale: Array


@register_jitable
def tiled(count: int, tile: int) -> int:
    """A number of rows or columns, rounded up to whole tiles."""
    return -(-count // tile) * tile


@compiled
def row_range(worker: Worker, n: int) -> tuple[int, int]:
    """The rows of a thread. All compute a single row, which saves a barrier."""
    if n == 1:
        return 0, 1
    return worker.thread * n // worker.threads, (worker.thread + 1) * n // worker.threads


@compiled
def scratch_of(worker: Worker, n: int) -> int:
    """Whose scratch is used: each thread's own for a single row, the first's for several."""
    return worker.thread if n == 1 else 0


@compiled
def barrier_if_shared(worker: Worker, n: int) -> None:
    """A barrier where threads have shared the rows, as they do with more than one."""
    if n > 1:
        barrier(worker)


def prepared(worker: Worker, x: Array, width: int, scratch: Scratch) -> tuple[Array, Array]:
    """Vectors as the kernel multiplies them, in float32 or 16 bits, and a scale for each."""
    raise AssertionError("compiled code has its own, below")


@overload(prepared, jit_options={"fastmath": True})
def _prepared(worker: Any, x: Any, width: Any, scratch: Any) -> Any:
    return _as_integers if scratch.types[0].dtype == types.int16 else _as_they_are


def _as_they_are(worker: Any, x: Any, width: Any, scratch: Any) -> Any:
    return x, scratch.scale[0]


def _as_integers(worker: Any, x: Any, width: Any, scratch: Any) -> Any:
    n = len(x)
    own = scratch_of(worker, n)
    ready, coarse = scratch.x[own], scratch.scale[own]
    # A sum of 32 bits holds a pair of products out of every sixteen columns.
    levels = np.float32(min(32767, (2**31 - 1) * 16 // (254 * width)))
    start, stop = row_range(worker, n)
    for row in range(start, stop):
        bits = TINY  # as integers: NaN's are the largest, and it becomes the vector's scale
        for i in range(uintp(width)):
            bits = max(bits, np.float32(x[row, i]).view(np.int32) & np.int32(0x7FFFFFFF))
        largest = np.int32(bits).view(np.float32)
        fine = levels / largest
        for i in range(uintp(width)):
            ready[row, i] = np.int16(np.rint(x[row, i] * fine))
        coarse[row] = largest / levels
    barrier_if_shared(worker, n)
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
    """Rows from start to stop of g(W x + b), for the first n of the prepared vectors."""
    one_stream = n == 1 and weight.shape[1] * x.itemsize < WIDE
    whole = start if one_stream else start + (stop - start) // ROWS * ROWS
    for i in range(start, whole, ROWS):
        if n == 1:
            several_by_one(weight, i, x, 0, out)
        else:
            several_prefetching(weight, i, x, 0, out)
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
    worker: Worker, matrices: Matrices, l: int, x: Array, scratch: Scratch, out: Array, kind: int
) -> None:
    """A thread's part of g(W x + b) of layer l, for each row of x.

    Memory bandwidth is best where each thread reads one long run of rows, but threads are never
    equally fast. So seven eighths of the rows are scheduled statically, in equal parts, and the
    rest dynamically, in chunks for whichever thread is done. ``x`` has zeros up to whole tiles of
    columns; ``x`` and ``out`` have memory for whole tiles of rows. A barrier has to follow.
    """
    weight, scale, bias = matrices.weight[l], matrices.scale[l], matrices.bias[l]
    rows, width = weight.shape
    ready, coarse = prepared(worker, x, width, scratch)
    part = (rows - rows // DYNAMIC) // worker.threads // ROWS * ROWS
    chunk = max(CHUNK_BYTES // (width * weight.itemsize) // ROWS, 1) * ROWS
    start, stop = worker.thread * part, (worker.thread + 1) * part
    while start < rows:
        some_rows(weight, scale, bias, ready, coarse, len(x), out, start, stop, kind)
        start = worker.threads * part + next_chunk(worker) * chunk
        stop = min(start + chunk, rows)
