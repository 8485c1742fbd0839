"""What compiled engines have in common: packed weights, sequences in slots, teams of threads."""

import logging
import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numba import typeof
from numba.core import event
from numpy import ndarray as Array

from vesalius.errors import TokenOutOfRange
from vesalius.generation.kernels import vectors
from vesalius.generation.kernels.products import Matrices, Room, tiled
from vesalius.generation.kernels.teams import team
from vesalius.generation.quantisation import quantise
from vesalius.model import Model

PAGE = 4096
TOGETHER = 128
"""Tokens of prompts that are read at once, at most."""
LOCK = threading.Lock()
"""Kernels run one after the other, each on all threads, whoever asks for them."""
if hasattr(os, "register_at_fork"):  # none is running when a process becomes two
    os.register_at_fork(
        before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release
    )
LOG = logging.getLogger("vesalius")

Ids = Sequence[int] | Int[Array, " n"]
Logits = Float[Array, "rows V"]


class Session(ABC):
    """So many sequences of an engine, each in its slot."""

    def __init__(self, engine: "Engine", slots: int, together: int = 1) -> None:
        self.engine = engine
        # Tiles may begin at any row and end beyond the last. Whole pages of rows, so that each
        # thread's own begin at the same place of one.
        self.rows = tiled(max(slots, together) + vectors.VECTORS, PAGE // vectors.LINE)
        self.logits = np.zeros((slots + vectors.VECTORS, engine.outputs), np.float32)

    def room(self, widest: int) -> Room:
        kind = np.int16 if self.engine.dtype == "int8" and vectors.PAIRS else np.float32
        parts = self.engine.threads
        x = np.zeros((parts, self.rows, _columns(widest)), kind)
        return Room(x, np.ones((parts, self.rows), np.float32))

    def known(self, ids: Ids) -> Int[Array, " n"]:
        """Ids that compiled code may look up: it does not check."""
        read = np.asarray(ids, np.int64)
        if read.size and not (read.min() >= 0 and read.max() < self.engine.vocabulary):
            raise TokenOutOfRange(
                f"token ids go from 0 to {self.engine.vocabulary - 1}, "
                f"got {read.min()} to {read.max()}"
            )
        return read

    def shared(self, *widths: int) -> list[Array]:
        return [_zeros((self.rows, _columns(width)), PAGE // 2) for width in widths]

    def own(self, *widths: int) -> list[Array]:
        """Room that each thread has for itself."""
        shape = self.engine.threads, self.rows
        return [_zeros((*shape, _columns(width)), PAGE // 2) for width in widths]

    @abstractmethod
    def read_many(self, slots: Ids, prompts: Sequence[Ids]) -> Logits:
        """Begin sequences anew with these tokens; the logits of the next, until the next call."""

    def read(self, slot: int, ids: Ids) -> Float[Array, " V"]:
        return self.read_many([slot], [ids])[0]

    @abstractmethod
    def step(self, slots: Ids, ids: Ids) -> Logits:
        """One more token of each of these; the logits of the next, until the next call."""

    def full(self, slot: int) -> bool:
        """Whether a sequence has no room for one more token."""
        return False

    @abstractmethod
    def copy(self, source: int, target: int) -> None:
        """Let one sequence begin as another is."""


class Engine(ABC):
    """The weights of a model, packed."""

    def __init__(self, model: Model, dtype: str, threads: int) -> None:
        config: Any = model.config
        self.config = config
        self.dtype, self.threads = dtype, threads
        self.ready: set[Any] = set()
        self.vocabulary: int = config.vocabulary
        self.outputs: int = config.symbols().get("V_U", self.vocabulary)
        self.embedding = np.asarray(model.state["embedding.weight"], np.float32)

    def run(self, kernel: Any, *arguments: Any) -> None:
        """Run a kernel on all threads; for the first time on one, when it may be compiled."""
        crew = team(self.threads)
        if kernel in self.ready:
            crew.run(kernel, *arguments)
            return
        with event.install_listener("numba:compile", _Said()):
            kernel.compile(tuple(map(typeof, (crew.alone, *arguments))))
        kernel(crew.alone, *arguments)
        self.ready.add(kernel)

    def with_threads(self, threads: int) -> "Engine":
        """The same weights for another number of threads."""
        other = copy(self)
        other.threads = threads
        return other

    @abstractmethod
    def session(self, slots: int, length: int) -> Session:
        """Room for so many sequences of so many tokens at most."""

    def matrices(self, *parts: Iterable[tuple[Array, Array | None]]) -> Matrices:
        """Matrices of all layers, each of parts one below the other, with their biases."""
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


def _zeros(shape: tuple[int, ...], after: int, kind: type = np.float32) -> Array:
    """Zeros that begin so many bytes after a page of memory does.

    Vectors half a page after matrices: where rows are whole pages, the two would otherwise be in
    each other's place in the cache all along, at three quarters of the speed.
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    room = np.zeros(size + PAGE, np.uint8)
    start = (after - room.ctypes.data) % PAGE
    return room[start : start + size].view(kind).reshape(shape)


def _columns(width: int) -> int:
    """Columns of vectors that matrices meet: zeros up to whole tiles, and a line of the cache.

    Rows of a power of two of bytes would drive each other out of the cache.
    """
    return tiled(width, vectors.PADDING) + vectors.LINE // 4


class _Said(event.Listener):  # type: ignore[misc]
    """Says that a kernel is compiled, which takes seconds; one that was kept is only loaded."""

    said = False

    def on_start(self, _: object) -> None:
        if not _Said.said:
            LOG.warning("compiling kernels for this processor, which takes a while the first time")
        _Said.said = True

    def on_end(self, _: object) -> None:
        pass
