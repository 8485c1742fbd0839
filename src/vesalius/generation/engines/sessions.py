"""What every engine offers, compiled or in NumPy: sequences in slots, prefill, decode, states."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Self

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

from vesalius.errors import TokenOutOfRange
from vesalius.families.family import OwnConfig
from vesalius.model import Model
from vesalius.tokenizers.kinds import END_OF_TEXT

Ids = Sequence[int] | Int[Array, " n"]
Logits = Float[Array, "rows V"]
States = Float[Array, "n d"]


class Engine(ABC):
    """The weights of a model, ready to compute with."""

    def __init__(self, model: Model, dtype: str, threads: int) -> None:
        self.config: OwnConfig = model.config
        self.dtype, self.threads = dtype, threads
        self.vocabulary = len(model.state["embedding.weight"])
        special = {} if model.tokenizer is None else model.tokenizer.special
        self.start: int = special.get(END_OF_TEXT, 0)
        """The token before a text, where a window reaches beyond its beginning."""

    def with_threads(self, threads: int) -> Self:
        """The same weights for another number of threads."""
        if threads == self.threads:
            return self
        other = copy(self)
        other.threads = threads
        return other

    @abstractmethod
    def session(self, slots: int, length: int, layer: int | None = None) -> "Session":
        """A number of sequences, each of at most this length.

        Their states are taken after a layer, or before the output.
        """


class Session(ABC):
    """A number of sequences, each in its slot."""

    engine: Engine

    @abstractmethod
    def prefill(self, slots: Ids, prompts: Sequence[Ids]) -> Logits:
        """Begin sequences anew with prompts; the logits after each, valid until the next call."""

    @abstractmethod
    def step(self, slots: Ids, ids: Ids) -> Logits:
        """Decode one token of each sequence; the logits after it, valid until the next call."""

    @abstractmethod
    def copy(self, source: int, target: int) -> None:
        """Make the sequence in one slot a copy of another."""

    def full(self, slot: int) -> bool:
        """Whether a sequence has no space for one more token."""
        return False

    def extend(
        self, slots: Ids, rows: Sequence[Ids], segments: Sequence[Ids] | None = None
    ) -> list[States]:
        """Continue sequences; the hidden states of their new tokens."""
        raise AssertionError("windows and carried states are read by the reference engine")

    def known(self, ids: Ids) -> Int[Array, " n"]:
        """Ids within the vocabulary: kernels do not check, and NumPy takes -1 as the last."""
        read = np.asarray(ids, np.int64)
        most = self.engine.vocabulary - 1
        if read.size and not (read.min() >= 0 and read.max() <= most):
            raise TokenOutOfRange(
                f"token ids go from 0 to {most}, got {read.min()} to {read.max()}"
            )
        return read
