"""The engine in plain NumPy: complete, short, and the measure of the compiled ones.

It needs neither Numba nor PyTorch and keeps the model's precision. A sequence has its KV cache, its
carried state or its window. Sessions read the model's own arrays: nothing is packed first, so short
texts are done before a compiled engine has started.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.equations.activations import ACTIVATIONS, softmax
from vesalius.families import family_of
from vesalius.families.family import OwnConfig
from vesalius.generation.engines.sessions import Engine, Ids, Logits, Session, States
from vesalius.model import Model

KVCache = dict[str, tuple[Array, Array]]
"""Keys and values of all tokens of a sequence so far, heads x tokens x width, by layer."""


class ReferenceEngine(Engine):
    """A model by its own arrays."""

    def __init__(self, model: Model, threads: int = 1) -> None:
        super().__init__(model, "float32", threads)
        self.state, self.family = model.state, family_of(model.config)

    def session(self, slots: int, length: int, layer: int | None = None) -> "ReferenceSession":
        assert self.family.session is not None, "verbs ask for engines of families that have one"
        return self.family.session(self, slots, layer)


def output(config: OwnConfig, state: Mapping[str, Array], states: States) -> Logits:
    """z = U h, or Eᵀ h where the two matrices are one; with a bias where there is one."""
    logits: Array = states @ state["embedding.weight" if config.tied else "output.weight"].T
    for name in ("output.bias", "output_bias"):
        if name in state:
            logits += state[name]
    return logits


class ReferenceSession(Session):
    """Sequences of any family: ``extend`` does all the work, prefill and decode alike."""

    def __init__(self, engine: ReferenceEngine, slots: int, layer: int | None) -> None:
        self.engine, self.config, self.state = engine, engine.config, engine.state
        self.final = layer is None
        self.layers: int = self.config.layers if layer is None else layer
        self.begin(slots)

    def begin(self, slots: int) -> None:
        """Sequences of no tokens."""
        raise AssertionError("every family has its own")

    def clear(self, slot: int) -> None:
        """Forget the tokens of a sequence."""
        raise AssertionError("every family has its own")

    def prefill(self, slots: Ids, prompts: Sequence[Ids]) -> Logits:
        for slot in slots:
            self.clear(slot)
        return self.logits(self.extend(slots, prompts))

    def step(self, slots: Ids, ids: Ids) -> Logits:
        return self.logits(self.extend(slots, [[token] for token in ids]))

    def logits(self, states: list[States]) -> Logits:
        """The logits after the last token of each sequence."""
        return output(self.config, self.state, np.concatenate([rows[-1:] for rows in states]))

    def extend(
        self, slots: Ids, rows: Sequence[Ids], segments: Sequence[Ids] | None = None
    ) -> list[States]:
        kinds = segments or [np.zeros(len(row), np.int64) for row in rows]
        triples = zip(slots, rows, kinds, strict=True)
        return [self.one(slot, self.known(row), np.asarray(kind)) for slot, row, kind in triples]

    def one(self, slot: int, ids: Array, segments: Array) -> States:
        raise AssertionError("every family has its own")

    def linear(self, name: str, x: Array) -> Array:
        """W x + b of every row."""
        product: Array = x @ self.state[f"{name}.weight"].T
        bias = self.state.get(f"{name}.bias")
        return product if bias is None else product + bias


class TransformerSession(ReferenceSession):
    """Sequences with their KV caches; a block is (32), in either order of Figure 14."""

    def begin(self, slots: int) -> None:
        self.lengths = [0] * slots
        self.kv_cache: list[KVCache] = [{} for _ in range(slots)]
        self.block_options = self.config.block
        self.norm_first, self.causal = self.block_options.order == "pre", self.block_options.causal
        self.positions = position_vectors(self.config, self.state)

    def clear(self, slot: int) -> None:
        self.lengths[slot], self.kv_cache[slot] = 0, {}

    def copy(self, source: int, target: int) -> None:
        self.lengths[target] = self.lengths[source]
        self.kv_cache[target] = dict(self.kv_cache[source])

    def full(self, slot: int) -> bool:
        return self.lengths[slot] == len(self.positions)

    def one(self, slot: int, ids: Array, segments: Array) -> States:
        start = self.lengths[slot]
        self.lengths[slot] += len(ids)
        x = self.state["embedding.weight"][ids] + self.positions[start : start + len(ids)]
        if "segments.weight" in self.state:
            x = x + self.state["segments.weight"][segments]
        if not self.norm_first:
            x = self.norm("norm", x)
        for l in range(self.layers if len(ids) else 0):
            x = self.block(f"blocks.{l}", x, self.kv_cache[slot])
        return self.norm("norm", x) if self.norm_first and self.final else x

    def block(self, name: str, x: States, cache: KVCache) -> States:
        for part, run in (("attention", self.attention), ("feedforward", self.feedforward)):
            if self.norm_first:
                x = x + run(f"{name}.{part}", self.norm(f"{name}.{part}_norm", x), cache)
            else:
                x = self.norm(f"{name}.{part}_norm", x + run(f"{name}.{part}", x, cache))
        return x

    def attention(self, name: str, x: States, cache: KVCache) -> States:
        """All heads (28): softmax(S + q kᵀ / √d_k) v, with the keys and values of the KV cache."""
        q, k, v = (
            self.linear(f"{name}.{part}", x).reshape(len(x), self.config.heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        if name in cache:
            before = cache[name]
            k, v = np.concatenate([before[0], k], axis=1), np.concatenate([before[1], v], axis=1)
        cache[name] = k, v
        scores = q @ k.swapaxes(1, 2) / math.sqrt(k.shape[2])
        if self.causal:
            n, seen = scores.shape[1:]
            scores[:, np.triu(np.ones((n, seen), bool), k=seen - n + 1)] = -np.inf
        mixed = softmax(scores, axis=-1) @ v
        return self.linear(f"{name}.output", mixed.swapaxes(0, 1).reshape(len(x), -1))

    def feedforward(self, name: str, x: States, cache: KVCache) -> States:
        activation = ACTIVATIONS[self.block_options.activation]
        return self.linear(f"{name}.outer", activation(self.linear(f"{name}.inner", x)))

    def norm(self, name: str, x: States) -> States:
        weight, bias = self.state[f"{name}.weight"], self.state.get(f"{name}.bias")
        return normalise(x, weight, bias, self.block_options.epsilon)


def normalise(x: States, weight: Array, bias: Array | None, epsilon: float) -> States:
    """Layer normalisation (35) of every row; without bias, no mean is subtracted either."""
    centred = x if bias is None else x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("...i,...i->...", centred, centred)[..., None] / x.shape[-1]
    normalised: Array = centred / np.sqrt(variance + epsilon).astype(x.dtype) * weight
    return normalised if bias is None else normalised + bias


def position_vectors(config: OwnConfig, state: Mapping[str, Array]) -> Float[Array, "n d_e"]:
    """One vector for each position: learned, or sinusoidal."""
    if "positions.weight" in state:
        return state["positions.weight"]
    from vesalius.equations import sinusoidal_positions  # whose import GPT-2 does without

    made = sinusoidal_positions(config.embedding, config.context).T
    return made.astype(state["embedding.weight"].dtype)


class RecurrentSession(ReferenceSession):
    """Sequences with the states that they carry: (41), or (44) to (48)."""

    def begin(self, slots: int) -> None:
        width = self.config.hidden or self.config.embedding
        dtype = self.state["embedding.weight"].dtype
        self.hidden = np.zeros((slots, self.config.layers, width), dtype)
        self.cells = np.zeros_like(self.hidden)

    def clear(self, slot: int) -> None:
        self.hidden[slot] = self.cells[slot] = 0

    def copy(self, source: int, target: int) -> None:
        self.hidden[target], self.cells[target] = self.hidden[source], self.cells[source]

    def extend(
        self, slots: Ids, rows: Sequence[Ids], segments: Sequence[Ids] | None = None
    ) -> list[States]:
        """All sequences side by side, longest first: at each time, the first few still go on."""
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
    return 0.5 * np.tanh(0.5 * x) + 0.5


class FeedforwardSession(ReferenceSession):
    """Sequences with the window that each sees; before a text stand end-of-text tokens."""

    def begin(self, slots: int) -> None:
        self.windows = np.full((slots, self.config.context), self.engine.start)

    def clear(self, slot: int) -> None:
        self.windows[slot] = self.engine.start

    def copy(self, source: int, target: int) -> None:
        self.windows[target] = self.windows[source]

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
