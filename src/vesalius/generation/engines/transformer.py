"""Decoding with transformers: transformer, gpt2 and igpt."""

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array
from threadpoolctl import threadpool_limits

from vesalius.generation.engines.engine import LOCK, SHORT, Engine, Ids, Logits, Session
from vesalius.generation.kernels import transformer as kernels
from vesalius.generation.kernels.products import ACTIVATIONS, NONE, Matrices, finish
from vesalius.generation.kernels.transformer import Norms, TransformerState, TransformerWeights
from vesalius.generation.kernels.vectors import LANES
from vesalius.model import Model


class TransformerEngine(Engine):
    def __init__(self, model: Model, dtype: str, threads: int) -> None:
        super().__init__(model, dtype, threads)
        config, state = self.config, model.state
        layers = range(config.layers)

        def pair(name: str) -> tuple[Array, Array | None]:
            return state[f"{name}.weight"], state.get(f"{name}.bias")

        def every(*names: str) -> Matrices:
            return self.matrices(*([pair(f"blocks.{l}.{n}") for n in names] for l in layers))

        def norms(names: Iterable[str]) -> Norms:
            both = [pair(name) for name in names]
            return Norms(
                np.array([weight for weight, _ in both], np.float32),
                np.array([bias for _, bias in both], np.float32),
            )

        self.positions = _positions(config, state)
        self.weights = TransformerWeights(
            norm=norms(["norm"]),
            attention_norm=norms(f"blocks.{l}.attention_norm" for l in layers),
            projections=every("attention.query", "attention.key", "attention.value"),
            attention_output=every("attention.output"),
            feedforward_norm=norms(f"blocks.{l}.feedforward_norm" for l in layers),
            inner=every("feedforward.inner"),
            outer=every("feedforward.outer"),
            output=self.matrices([pair("embedding" if config.tied else "output")]),
            activation=ACTIVATIONS[config.activation],
            norm_first=config.variant == 2,
            epsilon=config.epsilon,
            d_k=config.symbols()["d_k"],
        )

    def session(self, slots: int, length: int) -> "TransformerSession":
        return TransformerSession(self, slots, length)


def _positions(config: Any, state: Any) -> Float[Array, "n d_e"]:
    if config.positions == "learned":
        return np.asarray(state["positions.weight"], np.float32)
    even = np.arange(0, config.embedding, 2)
    angles = np.outer(np.arange(config.context), 10000.0 ** (-even / config.embedding))
    both = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(config.context, -1)
    return both[:, : config.embedding].astype(np.float32)


class TransformerSession(Session):
    """Keys and values of all tokens so far, in room that was taken at the beginning."""

    def __init__(self, engine: TransformerEngine, slots: int, length: int) -> None:
        super().__init__(engine, slots)
        self.weights, self.positions = engine.weights, engine.positions
        s = engine.config.symbols()
        joined = s["M"] * (2 * s["d_k"] + s["d_v"])
        embedded, projected, attended, added, inner = self.shared(
            s["d_e"], joined, s["Md_v"], s["d_e"], s["d_f"]
        )
        x, normed = self.own(s["d_e"], s["d_e"])
        self.length, tokens, d_k = length, -(-length // 4) * 4, -(-s["d_k"] // LANES) * LANES
        self.state = TransformerState(
            keys=np.zeros((s["L"], slots, s["M"], tokens, d_k), np.float32),
            values=np.zeros((s["L"], slots, s["M"], tokens, s["d_v"]), np.float32),
            embedded=embedded,
            x=x,
            normed=normed,
            projected=projected,
            attended=attended,
            added=added,
            queries=np.zeros((engine.threads, 1, d_k), np.float32),
            scores=np.zeros((engine.threads, 1, tokens), np.float32),
            inner=inner,
            room=self.room(max(s["d_e"], s["Md_v"], s["d_f"])),
        )
        self.lengths = np.zeros(slots, np.int64)

    def read(self, slot: int, ids: Ids) -> Float[Array, " V"]:
        read = self.known(ids)
        n = self.lengths[slot] = len(read)
        assert n <= self.length, "a session is made for what it will hold"
        with LOCK:
            if n == 0:
                pass
            elif n <= SHORT:
                self._step(read, np.full(n, slot), np.arange(n), 1)
            else:
                x = self._read_long(slot, read)
                output = kernels.transformer_output
                self.engine.run(output, self.weights, self.state, x[-1:], self.logits)
        return self.logits[0]

    def step(self, slots: Ids, ids: Ids) -> Logits:
        chosen = np.asarray(slots, np.int64)
        read, positions = self.known(ids), self.lengths[chosen]
        assert positions.max() < self.length, "a session is made for what it will hold"
        with LOCK:
            self._step(read, chosen, positions, len(read))
        self.lengths[chosen] += 1
        return self.logits[: len(chosen)]

    def full(self, slot: int) -> bool:
        return bool(self.lengths[slot] == self.length)

    def copy(self, source: int, target: int) -> None:
        n = self.lengths[target] = self.lengths[source]
        for kept in (self.state.keys, self.state.values):
            kept[:, target, :, :n] = kept[:, source, :, :n]

    def _step(self, ids: Array, slots: Array, positions: Array, last: int) -> None:
        self.state.embedded[: len(ids)] = self.embedded(ids, positions)
        arguments = self.weights, self.state, slots, positions, self.logits, last
        self.engine.run(kernels.transformer_step, *arguments)

    def embedded(self, ids: Array, positions: Array) -> Float[Array, "n d_e"]:
        return self.engine.embedding[ids] + self.positions[positions]

    def _read_long(self, slot: int, ids: Int[Array, " n"]) -> Float[Array, "n d_e"]:
        """Many tokens of one sequence, as products of matrices, which are NumPy's."""
        threads = self.engine.threads
        with ThreadPoolExecutor(threads) as pool, threadpool_limits(threads, user_api="blas"):
            return _Products(self, pool).read(slot, ids)


class _Products:
    """A forward pass of many tokens, whose keys and values a session keeps.

    The kernels' own threads would keep those of NumPy's products waiting, so that what lies between
    products is done by others.
    """

    def __init__(self, session: TransformerSession, pool: ThreadPoolExecutor) -> None:
        self.session, self.weights, self.pool = session, session.weights, pool

    def read(self, slot: int, ids: Int[Array, " n"]) -> Float[Array, "n d_e"]:
        w = self.weights
        x = self.session.embedded(ids, np.arange(len(ids)))
        if not w.norm_first:
            x = self._normed(w.norm, 0, x)
        for l in range(len(w.inner.weight)):
            read = self._normed(w.attention_norm, l, x) if w.norm_first else x
            attended = self._attended(slot, l, self._product(w.projections, l, read))
            x += self._product(w.attention_output, l, attended)
            if not w.norm_first:
                x = self._normed(w.attention_norm, l, x)
            read = self._normed(w.feedforward_norm, l, x) if w.norm_first else x
            x += self._product(w.outer, l, self._product(w.inner, l, read, w.activation))
            if not w.norm_first:
                x = self._normed(w.feedforward_norm, l, x)
        return x

    def _normed(self, norms: Norms, l: int, x: Float[Array, "n d_e"]) -> Float[Array, "n d_e"]:
        out = x.copy()
        arguments = norms.weight[l], norms.bias[l], self.weights.epsilon
        self._share(kernels.normalise_rows, out, *arguments)
        return out

    def _product(
        self, matrices: Matrices, l: int, x: Float[Array, "n c"], kind: int = NONE
    ) -> Float[Array, "n r"]:
        weight = matrices.weight[l, :, : x.shape[1]]
        out = x @ weight.astype(np.float32, copy=False).T
        self._share(finish, out, matrices.scale[l], matrices.bias[l], kind)
        return out

    def _attended(self, slot: int, l: int, projected: Float[Array, "n w"]) -> Float[Array, "n v"]:
        n, heads, d_k = len(projected), self.session.state.keys.shape[2], self.weights.d_k
        parts = np.split(projected, [heads * d_k, 2 * heads * d_k], axis=1)
        q, k, v = (part.reshape(n, heads, -1).transpose(1, 0, 2) for part in parts)
        self.session.state.keys[l, slot, :, :n, :d_k] = k
        self.session.state.values[l, slot, :, :n] = v
        scores = q @ k.transpose(0, 2, 1)
        self._share(kernels.soften_causally, scores, 1 / math.sqrt(d_k))
        return (scores @ v).transpose(1, 0, 2).reshape(n, -1)

    def _share(self, kernel: Any, rows: Array, *arguments: Any) -> None:
        """Run a kernel on parts of the rows at once."""
        parts = np.array_split(rows, self.session.engine.threads)
        list(self.pool.map(lambda part: kernel(*arguments, part), parts))
