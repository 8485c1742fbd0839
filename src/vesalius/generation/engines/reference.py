"""Engines in plain NumPy: what the compiled ones are tested against, and what short texts run on.

They need neither Numba nor PyTorch, and keep the model's precision. A session takes sequences one
after the other, each with its KV cache or its carried state; it reads the model's state itself, so
that nothing has to be packed first.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

from vesalius.equations.activations import ACTIVATIONS, softmax
from vesalius.errors import TokenOutOfRange
from vesalius.families import family_of
from vesalius.model import Model
from vesalius.tokenizers.kinds import END_OF_TEXT

Ids = Sequence[int] | Int[Array, " n"]
States = Float[Array, "n d"]


class ReferenceEngine:
    """A model by its own arrays."""

    def __init__(self, model: Model) -> None:
        self.config: Any = model.config
        self.state, self.family = model.state, family_of(model.config)
        special = {} if model.tokenizer is None else model.tokenizer.special
        self.start: int = special.get(END_OF_TEXT, 0)

    def session(self, slots: int, length: int, layer: int | None = None) -> "ReferenceSession":
        """Room for so many sequences; their states are those after a layer, or the last."""
        assert self.family.session is not None, "verbs ask for engines of families that have one"
        made: ReferenceSession = self.family.session(self, slots, layer)
        return made

    def logits(self, states: States) -> Float[Array, "n V"]:
        """The logits of the next token that states give."""
        return output(self.config, self.state, states)


def output(config: Any, state: Any, states: States) -> Float[Array, "n V"]:
    """z = U h, or Eᵀ h where the two matrices are one; with a bias where there is one."""
    tied = getattr(config, "tied", False)
    logits: Array = states @ state["embedding.weight" if tied else "output.weight"].T
    for name in ("output.bias", "output_bias"):
        if name in state:
            logits += state[name]
    return logits


class ReferenceSession:
    """So many sequences of an engine, each in its slot."""

    def __init__(self, engine: ReferenceEngine, slots: int, layer: int | None) -> None:
        self.engine, self.config, self.state = engine, engine.config, engine.state
        self.final = layer is None
        self.layers: int = self.config.layers if layer is None else layer
        self.begin(slots)

    def begin(self, slots: int) -> None:
        """Sequences of no tokens."""
        raise AssertionError("every family has its own")

    def extend(
        self, slots: Ids, rows: Sequence[Ids], segments: Sequence[Ids] | None = None
    ) -> list[States]:
        """Go on with sequences; the states of their new tokens."""
        kinds = segments or [np.zeros(len(row), np.int64) for row in rows]
        pairs = zip(slots, rows, kinds, strict=True)
        return [self.one(slot, self.known(row), np.asarray(kind)) for slot, row, kind in pairs]

    def one(self, slot: int, ids: Array, segments: Array) -> States:
        raise AssertionError("every family has its own")

    def known(self, ids: Ids) -> Int[Array, " n"]:
        """Ids that the vocabulary has; NumPy would take negative ones from its end."""
        read = np.asarray(ids, np.int64)
        words = len(self.state["embedding.weight"])
        if read.size and not (read.min() >= 0 and read.max() < words):
            raise TokenOutOfRange(
                f"token ids go from 0 to {words - 1}, got {read.min()} to {read.max()}"
            )
        return read

    def linear(self, name: str, x: Array) -> Array:
        """W x + b of every row."""
        product: Array = x @ self.state[f"{name}.weight"].T
        bias = self.state.get(f"{name}.bias")
        return product if bias is None else product + bias


class TransformerSession(ReferenceSession):
    """Sequences with their KV caches; a block is (32), in either order of Figure 14."""

    def begin(self, slots: int) -> None:
        self.lengths = np.zeros(slots, np.int64)
        self.cache: dict[tuple[int, int], tuple[Array, Array]] = {}
        self.norm_first = self.config.symbols()["variant"] == 2
        self.causal = getattr(self.config, "causal", False)
        self.positions = position_vectors(self.config, self.state)

    def one(self, slot: int, ids: Array, segments: Array) -> States:
        start = self.lengths[slot]
        self.lengths[slot] += len(ids)
        x = self.state["embedding.weight"][ids] + self.positions[start : start + len(ids)]
        if "segments.weight" in self.state:
            x = x + self.state["segments.weight"][segments]
        if not self.norm_first:
            x = self.norm("norm", x)
        for l in range(self.layers):
            x = self.block(f"blocks.{l}", x, (slot, l))
        return self.norm("norm", x) if self.norm_first and self.final else x

    def block(self, name: str, x: States, place: tuple[int, int]) -> States:
        for part, run in (("attention", self.attention), ("feedforward", self.feedforward)):
            if self.norm_first:
                x = x + run(f"{name}.{part}", self.norm(f"{name}.{part}_norm", x), place)
            else:
                x = self.norm(f"{name}.{part}_norm", x + run(f"{name}.{part}", x, place))
        return x

    def attention(self, name: str, x: States, place: tuple[int, int]) -> States:
        """All heads (28): softmax(S + q kᵀ / √d_k) v, with the keys and values so far."""
        q, k, v = (
            self.linear(f"{name}.{part}", x).reshape(len(x), self.config.heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        if place in self.cache:
            before = self.cache[place]
            k, v = np.concatenate([before[0], k], axis=1), np.concatenate([before[1], v], axis=1)
        self.cache[place] = k, v
        scores = q @ k.swapaxes(1, 2) / math.sqrt(k.shape[2])
        if self.causal:
            n, seen = scores.shape[1:]
            scores[:, np.triu(np.ones((n, seen), bool), k=seen - n + 1)] = -np.inf
        mixed = softmax(scores, axis=-1) @ v
        return self.linear(f"{name}.output", mixed.swapaxes(0, 1).reshape(len(x), -1))

    def feedforward(self, name: str, x: States, place: tuple[int, int]) -> States:
        activation = ACTIVATIONS[self.config.activation]
        return self.linear(f"{name}.outer", activation(self.linear(f"{name}.inner", x)))

    def norm(self, name: str, x: States) -> States:
        weight, bias = self.state[f"{name}.weight"], self.state.get(f"{name}.bias")
        return normalise(x, weight, bias, self.config.epsilon)


def normalise(x: States, weight: Array, bias: Array | None, epsilon: float) -> States:
    """Layer normalisation (35) of every row; without bias, no mean is subtracted either."""
    centred = x if bias is None else x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("...i,...i->...", centred, centred)[..., None] / x.shape[-1]
    normalised: Array = centred / np.sqrt(variance + epsilon).astype(x.dtype) * weight
    return normalised if bias is None else normalised + bias


def position_vectors(config: Any, state: Any) -> Float[Array, "n d_e"]:
    """One vector for each position: learned, or made."""
    if "positions.weight" in state:
        learned: Array = state["positions.weight"]
        return learned
    from vesalius.equations import sinusoidal_positions  # which GPT-2 does without, and its time

    made = sinusoidal_positions(config.embedding, config.context).T
    return made.astype(state["embedding.weight"].dtype)


class RecurrentSession(ReferenceSession):
    """Sequences with the states that they carry: (41), or (44) to (48)."""

    def begin(self, slots: int) -> None:
        width = self.config.hidden or self.config.embedding
        dtype = self.state["embedding.weight"].dtype
        self.hidden = np.zeros((slots, self.config.layers, width), dtype)
        self.cells = np.zeros_like(self.hidden)

    def extend(
        self, slots: Ids, rows: Sequence[Ids], segments: Sequence[Ids] | None = None
    ) -> list[States]:
        """All sequences side by side, longest first, so that those alive are the first."""
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        lengths = np.array([len(rows[i]) for i in order])
        places = np.asarray(slots, np.int64)[order]
        ids = np.zeros((len(order), max(1, lengths.max(initial=0))), np.int64)
        for at, i in enumerate(order):
            ids[at, : lengths[at]] = self.known(rows[i])
        alive = (lengths[:, None] > np.arange(ids.shape[1])).sum(axis=0)
        x: Array = self.state["embedding.weight"][ids]
        for l in range(self.layers):
            x = self.layer(l, x, places, alive)
        found = {i: x[at, : lengths[at]] for at, i in enumerate(order)}
        return [found[i] for i in range(len(rows))]

    def layer(self, l: int, x: Array, places: Array, alive: Array) -> Array:
        summed = self.linear(f"layers.{l}.input", x)
        recurrent = np.ascontiguousarray(self.state[f"layers.{l}.recurrent.weight"].T)
        hidden, cells = self.hidden[places, l], self.cells[places, l]
        out = np.zeros((*x.shape[:2], hidden.shape[1]), hidden.dtype)
        for t, n in enumerate(alive):
            both = summed[:n, t] + hidden[:n] @ recurrent
            hidden[:n], cells[:n] = self.cell(both, cells[:n])
            out[:n, t] = hidden[:n]
        self.hidden[places, l], self.cells[places, l] = hidden, cells
        return out

    def cell(self, summed: Array, cells: Array) -> tuple[Array, Array]:
        """The new states, and cells where there are any."""
        activation = getattr(self.config, "activation", None)
        if activation is not None:
            return ACTIVATIONS[activation](summed), cells
        add, forget, candidate, out = np.split(summed, 4, axis=1)
        cells = _gate(forget) * cells + _gate(add) * np.tanh(candidate)
        return _gate(out) * np.tanh(cells), cells


def _gate(x: Array) -> Array:
    """σ(x) as (1 + tanh(x / 2)) / 2, which NumPy computes in vectors."""
    gate: Array = 0.5 * np.tanh(0.5 * x) + 0.5
    return gate


class FeedforwardSession(ReferenceSession):
    """Sequences with their windows; what stands before a text reads as ends of other texts."""

    def begin(self, slots: int) -> None:
        self.windows = np.full((slots, self.config.context), self.engine.start)

    def one(self, slot: int, ids: Array, segments: Array) -> States:
        joined = np.concatenate([self.windows[slot], ids])
        width = self.config.context
        windows = np.lib.stride_tricks.sliding_window_view(joined, width)[1:]
        self.windows[slot] = joined[-width:]
        x: Array = self.state["embedding.weight"][windows].reshape(len(ids), -1)
        activation = ACTIVATIONS[self.config.activation]
        for l in range(self.layers):
            x = activation(self.linear(f"layers.{l}", x))
        return x
