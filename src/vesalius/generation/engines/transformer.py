"""Transformers with a KV cache: transformer, gpt2 and igpt decode, bert reads whole texts."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.families import family_of
from vesalius.generation.engines.compiled import (
    LOCK,
    PREFILL_TOKENS,
    CompiledEngine,
    CompiledSession,
)
from vesalius.generation.engines.reference import normalise, position_vectors
from vesalius.generation.engines.sessions import Ids, Logits, States
from vesalius.generation.kernels import transformer as kernels
from vesalius.generation.kernels.activations import ACTIVATIONS
from vesalius.generation.kernels.products import Matrices, tiled
from vesalius.generation.kernels.vectors import LANES, ROWS
from vesalius.model import Model


class TransformerEngine(CompiledEngine):
    def __init__(self, model: Model, dtype: str, threads: int) -> None:
        super().__init__(model, dtype, threads)
        config, state, block = self.config, model.state, self.config.block
        layers = range(config.layers)

        def pair(name: str) -> tuple[Array, Array | None]:
            return state[f"{name}.weight"], state.get(f"{name}.bias")

        def every(*names: str) -> Matrices:
            return self.matrices(*([pair(f"blocks.{l}.{n}") for n in names] for l in layers))

        def norms(names: Iterable[str]) -> kernels.Norms:
            both = [pair(name) for name in names]
            return kernels.Norms(
                np.array([weight for weight, _ in both], np.float32),
                np.array([np.zeros_like(w) if b is None else b for w, b in both], np.float32),
                block.centred,
            )

        self.positions = np.asarray(position_vectors(config, state), np.float32)
        segments = state.get("segments.weight", np.zeros((1, config.embedding)))
        self.segments = np.asarray(segments, np.float32)
        self.causal = block.causal
        output = "embedding" if config.tied else "output"
        # Bert has none: its heads read hidden states.
        generates = "generate" in family_of(config).verbs
        self.weights = kernels.TransformerWeights(
            norm=norms(["norm"]),
            attention_norm=norms(f"blocks.{l}.attention_norm" for l in layers),
            projections=every("attention.query", "attention.key", "attention.value"),
            attention_output=every("attention.output"),
            feedforward_norm=norms(f"blocks.{l}.feedforward_norm" for l in layers),
            inner=every("feedforward.inner"),
            outer=every("feedforward.outer"),
            # Bert has none: its heads read hidden states.
            output=self.matrices(*([[pair(output)]] if generates else [])),
            activation=ACTIVATIONS[block.activation],
            norm_first=block.order == "pre",
            epsilon=block.epsilon,
            d_k=config.symbols()["d_k"],
            causal=self.causal,
        )

    def session(self, slots: int, length: int, layer: int | None = None) -> "TransformerSession":
        return TransformerSession(self, slots, length, layer)

    def first_layers(self, count: int) -> kernels.TransformerWeights:
        """The weights up to a layer; nothing is copied."""
        w = self.weights

        def some(part: Matrices) -> Matrices:
            return Matrices(*(array[:count] for array in part))

        return w._replace(
            projections=some(w.projections),
            attention_output=some(w.attention_output),
            inner=some(w.inner),
            outer=some(w.outer),
        )


class TransformerSession(CompiledSession):
    """Sequences with their KV cache: keys and values of all tokens so far, allocated once."""

    engine: TransformerEngine

    def __init__(
        self, engine: TransformerEngine, slots: int, length: int, layer: int | None = None
    ) -> None:
        # Without a causal mask, a sequence has to be read all at once.
        self.most = PREFILL_TOKENS if engine.causal else max(PREFILL_TOKENS, slots * length)
        super().__init__(engine, slots, min(slots * length, self.most))
        self.weights, self.positions = engine.weights, engine.positions
        self.final = engine.weights.norm_first and layer is None
        if layer is not None:
            self.weights = engine.first_layers(layer)
        s = engine.config.symbols()
        joined = s["M"] * (2 * s["d_k"] + s["d_v"])
        embedded, projected, attended, added, inner = self.shared(
            s["d_e"], joined, s["Md_v"], s["d_e"], s["d_f"]
        )
        d_k, d_v = tiled(s["d_k"], LANES), tiled(s["d_v"], ROWS)
        tokens = tiled(tiled(length, LANES), ROWS)
        x, normed, queries, scores, mixed = self.per_thread(s["d_e"], s["d_e"], d_k, tokens, d_v)
        self.length = length
        self.state = kernels.TransformerState(
            key_cache=np.zeros((s["L"], slots, s["M"], tokens, d_k), np.float32),
            value_cache=np.zeros((s["L"], slots, s["M"], tokens, s["d_v"]), np.float32),
            embedded=embedded,
            x=x,
            normed=normed,
            projected=projected,
            attended=attended,
            added=added,
            inner=inner,
            queries=queries,
            scores=scores,
            transposed=np.zeros((engine.threads, d_v * tokens), np.float32),
            mixed=mixed,
            scratch=self.scratch(max(s["d_e"], s["Md_v"], s["d_f"])),
        )
        self.lengths = np.zeros(slots, np.int64)
        none = (self.lengths[:0],) * 3
        self.engine.compile(kernels.transformer_step, self.weights, self.state, *none, self.logits)

    def prefill(self, slots: Ids, prompts: Sequence[Ids]) -> Logits:
        """Prompts as one row of tokens, of which a kernel reads ``PREFILL_TOKENS`` at a time."""
        lengths = [len(prompt) for prompt in prompts]
        assert max(lengths) <= self.length, "a session is made for what it will hold"
        read = self.known(np.concatenate([np.asarray(prompt, np.int64) for prompt in prompts]))
        chosen = np.repeat(slots, lengths)
        positions = np.concatenate([np.arange(length) for length in lengths])
        ends = np.cumsum(lengths) - 1
        with LOCK:
            for start in range(0, len(read), PREFILL_TOKENS):
                part = slice(start, start + PREFILL_TOKENS)
                here = (ends >= start) & (ends < part.stop)
                wanted, logits = ends[here] - start, self.logits[np.argmax(here) :]
                self._step(read[part], chosen[part], positions[part], wanted, logits)
        self.lengths[slots] = lengths
        return self.logits[: len(prompts)]

    def extend(
        self, slots: Ids, rows: Sequence[Ids], segments: Sequence[Ids] | None = None
    ) -> list[States]:
        chosen, lengths = np.asarray(slots, np.int64), np.array([len(row) for row in rows])
        before = self.lengths[chosen]
        assert (before + lengths).max() <= self.length, "a session is made for what it will hold"
        read = self.known(np.concatenate([np.asarray(row, np.int64) for row in rows]))
        kinds = np.zeros(len(read), np.int64) if segments is None else np.concatenate(segments)
        places = np.repeat(chosen, lengths)
        positions = np.concatenate(
            [np.arange(a, a + n) for a, n in zip(before, lengths, strict=True)]
        )
        width, nothing = self.engine.embedding.shape[1], np.zeros(0, np.int64)
        states = np.empty((len(read), width), np.float32)
        with LOCK:
            for start in range(0, len(read), self.most):
                part = slice(start, min(start + self.most, len(read)))
                arguments = read[part], places[part], positions[part], nothing, self.logits
                self._step(*arguments, self.engine.segments[kinds[part]])
                states[part] = self.state.x[0, : part.stop - start, :width]
        self.lengths[chosen] += lengths
        if self.final:
            norm = self.weights.norm
            bias = norm.bias[0] if norm.centred else None
            states = normalise(states, norm.weight[0], bias, self.weights.epsilon)
        return np.split(states, np.cumsum(lengths)[:-1])

    def step(self, slots: Ids, ids: Ids) -> Logits:
        chosen = np.asarray(slots, np.int64)
        read, positions = self.known(ids), self.lengths[chosen]
        assert positions.max() < self.length, "a session is made for what it will hold"
        with LOCK:
            self._step(read, chosen, positions, np.arange(len(read)), self.logits)
        self.lengths[chosen] += 1
        return self.logits[: len(chosen)]

    def full(self, slot: int) -> bool:
        return bool(self.lengths[slot] == self.length)

    def copy(self, source: int, target: int) -> None:
        n = self.lengths[target] = self.lengths[source]
        for cache in (self.state.key_cache, self.state.value_cache):
            cache[:, target, :, :n] = cache[:, source, :, :n]

    def _step(
        self,
        ids: Array,
        slots: Array,
        positions: Array,
        wanted: Array,
        logits: Logits,
        segments: Float[Array, "*n d_e"] | float = 0.0,
    ) -> None:
        embedded = self.engine.embedding[ids] + self.positions[positions] + segments
        self.state.embedded[: len(ids), : embedded.shape[1]] = embedded
        arguments = self.weights, self.state, slots, positions, wanted, logits
        self.engine.run(kernels.transformer_step, *arguments)
