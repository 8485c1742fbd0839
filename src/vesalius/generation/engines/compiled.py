"""What compiled engines have in common: packed weights, sequences in slots, a pool of threads."""

import math
import os
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import typeof
from numba.core import event
from numpy import ndarray as Array

from vesalius.generation.engines.sessions import Engine, Session
from vesalius.generation.kernels import vectors
from vesalius.generation.kernels.products import Matrices, Scratch, tiled
from vesalius.generation.kernels.threads import pool
from vesalius.generation.quantisation import quantise
from vesalius.machine import warn_once
from vesalius.model import Model

PAGE = 4096
PREFILL_TOKENS = 128
"""Tokens of prompts that prefill reads at once, at most."""
LOCK = threading.Lock()
"""One kernel runs at a time, on all threads."""
if hasattr(os, "register_at_fork"):  # no kernel runs while a process forks
    os.register_at_fork(
        before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release
    )


class CompiledEngine(Engine):
    """The weights of a model, packed for the kernels."""

    def __init__(self, model: Model, dtype: str, threads: int) -> None:
        super().__init__(model, dtype, threads)
        self.ready: set[Any] = set()
        self.outputs: int = self.config.symbols().get("V_U", self.vocabulary)
        self.embedding = np.asarray(model.state["embedding.weight"], np.float32)

    def compile(self, kernel: Any, *arguments: Any) -> None:
        """Compile a kernel for arguments of these types, unless that is done."""
        if kernel in self.ready:
            return
        with LOCK, event.install_listener("numba:compile", _Compiling()):
            kernel.compile(tuple(map(typeof, (pool(self.threads).alone, *arguments))))
        self.ready.add(kernel)

    def run(self, kernel: Any, *arguments: Any) -> None:
        """Run a compiled kernel on all threads."""
        pool(self.threads).run(kernel, *arguments)

    def matrices(self, *parts: Iterable[tuple[Array, Array | None]]) -> Matrices:
        """One matrix of every layer; each is made of parts, one below the other, with biases."""
        layers = [list(layer) for layer in parts]
        rows = sum(len(weight) for weight, _ in layers[0]) if layers else 1
        width = layers[0][0][0].shape[1] if layers else 1
        kind = np.int8 if self.dtype == "int8" else np.float32
        made = Matrices(
            _zeros((len(layers), rows, tiled(width, vectors.PADDING)), 0, kind),
            np.ones((len(layers), rows), np.float32),
            np.zeros((len(layers), rows), np.float32),
        )
        for l, layer in enumerate(layers):
            row = 0
            for weight, bias in layer:
                place = slice(row, row + len(weight))
                row = place.stop
                if kind is np.int8:
                    made.weight[l, place, :width], made.scale[l, place] = quantise(weight)
                else:
                    made.weight[l, place, :width] = weight
                if bias is not None:
                    made.bias[l, place] = bias
        return made


class CompiledSession(Session):
    """Sequences, and memory for the vectors that kernels compute."""

    engine: CompiledEngine

    def __init__(self, engine: CompiledEngine, slots: int, tokens: int = 1) -> None:
        self.engine = engine
        # Tiles may begin at any row and end beyond the last. Rows fill whole pages, so that the
        # vectors of each thread have the same offset in a page.
        self.rows = tiled(max(slots, tokens) + vectors.VECTORS, PAGE // vectors.CACHE_LINE)
        self.logits = np.zeros((slots + vectors.VECTORS, engine.outputs), np.float32)

    def scratch(self, widest: int) -> Scratch:
        kind = np.int16 if self.engine.dtype == "int8" and vectors.PAIRS else np.float32
        shape = self.engine.threads, self.rows
        return Scratch(np.zeros((*shape, _columns(widest)), kind), np.ones(shape, np.float32))

    def shared(self, *widths: int) -> list[Array]:
        """Vectors that all threads write to."""
        return [_zeros((self.rows, _columns(width)), PAGE // 2) for width in widths]

    def per_thread(self, *widths: int) -> list[Array]:
        """Vectors that each thread has for itself."""
        shape = self.engine.threads, self.rows
        return [_zeros((*shape, _columns(width)), PAGE // 2) for width in widths]


def _zeros(shape: tuple[int, ...], offset: int, kind: type = np.float32) -> Array:
    """Zeros at this offset in a page of memory: 0 for matrices, half a page for vectors.

    At one offset, rows of whole pages and the vector they are multiplied by would fall into the
    same sets of the L1 cache (4K aliasing) and evict each other, at three quarters of the speed.
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    memory = np.zeros(size + PAGE, np.uint8)
    start = (offset - memory.ctypes.data) % PAGE
    return memory[start : start + size].view(kind).reshape(shape)


def _columns(width: int) -> int:
    """Columns of vectors that are multiplied: padded to whole tiles, and by a cache line.

    Without it, rows of 2ⁿ bytes would fall into the same sets of the cache (4K aliasing).
    """
    return tiled(width, vectors.PADDING) + vectors.CACHE_LINE // 4


class _Compiling(event.Listener):  # type: ignore[misc]
    """Says once that kernels are compiled, which takes seconds; the cache loads them at once."""

    def on_start(self, _: object) -> None:
        warn_once("compiling kernels for this processor, which takes a while the first time")

    def on_end(self, _: object) -> None:
        pass
