"""The feedforward language model."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array

from vesalius.generation.engines.compiled import LOCK, CompiledEngine, CompiledSession
from vesalius.generation.engines.sessions import Ids, Logits
from vesalius.generation.kernels import feedforward as kernels
from vesalius.generation.kernels.activations import ACTIVATIONS
from vesalius.model import Model


class FeedforwardEngine(CompiledEngine):
    def __init__(self, model: Model, dtype: str, threads: int) -> None:
        super().__init__(model, dtype, threads)
        config, state = self.config, model.state

        def pair(name: str) -> list[tuple[Array, Array | None]]:
            return [(state[f"{name}.weight"], state.get(f"{name}.bias"))]

        self.weights = kernels.FeedforwardWeights(
            first=self.matrices(pair("layers.0")),
            others=self.matrices(*(pair(f"layers.{l}") for l in range(1, config.layers))),
            output=self.matrices(pair("output")),
            activation=ACTIVATIONS[config.activation],
        )

    def session(self, slots: int, length: int, layer: int | None = None) -> "FeedforwardSession":
        assert layer is None, "the reference engine gives states"
        return FeedforwardSession(self, slots)


class FeedforwardSession(CompiledSession):
    """Sequences with the window that each sees; before a text stand end-of-text tokens."""

    def __init__(self, engine: FeedforwardEngine, slots: int) -> None:
        super().__init__(engine, slots)
        self.weights, config, self.start = engine.weights, engine.config, engine.start
        joined, hidden = self.shared(config.context * config.embedding, config.hidden)
        (x,) = self.per_thread(config.hidden)
        scratch = self.scratch(max(config.context * config.embedding, config.hidden))
        self.state = kernels.FeedforwardState(joined, hidden, x, scratch)
        self.windows = np.zeros((slots, config.context), np.int64)
        engine.compile(kernels.feedforward_step, self.weights, self.state, 1, self.logits)

    def prefill(self, slots: Ids, prompts: Sequence[Ids]) -> Logits:
        chosen, read = np.asarray(slots, np.int64), [self.known(prompt) for prompt in prompts]
        for slot, ids in zip(chosen, read, strict=True):
            window = self.windows[slot]
            last = ids[-len(window) :]
            window[:] = self.start
            window[len(window) - len(last) :] = last
        return self._run(chosen)

    def step(self, slots: Ids, ids: Ids) -> Logits:
        chosen = np.asarray(slots, np.int64)
        read, windows = self.known(ids), self.windows
        windows[chosen, :-1] = windows[chosen, 1:]
        windows[chosen, -1] = read
        return self._run(chosen)

    def _run(self, slots: Int[Array, " rows"]) -> Logits:
        n = len(slots)
        joined = self.engine.embedding[self.windows[slots]].reshape(n, -1)
        self.state.joined[:n, : joined.shape[1]] = joined
        with LOCK:
            self.engine.run(kernels.feedforward_step, self.weights, self.state, n, self.logits)
        return self.logits[:n]

    def copy(self, source: int, target: int) -> None:
        self.windows[target] = self.windows[source]
