"""Recurrent networks: rnn and lstm."""

from collections.abc import Sequence

import numpy as np
from numpy import ndarray as Array

from vesalius.generation.engines.compiled import LOCK, CompiledEngine, CompiledSession
from vesalius.generation.engines.sessions import Ids, Logits
from vesalius.generation.kernels.activations import ACTIVATIONS
from vesalius.generation.kernels.recurrent import RecurrentState, RecurrentWeights, recurrent_step
from vesalius.model import Model


class RecurrentEngine(CompiledEngine):
    def __init__(self, model: Model, dtype: str, threads: int) -> None:
        super().__init__(model, dtype, threads)
        config, state = self.config, model.state

        def joined(l: int) -> list[tuple[Array, Array | None]]:
            both = state[f"layers.{l}.input.weight"], state[f"layers.{l}.recurrent.weight"]
            return [(np.concatenate(both, axis=1), state[f"layers.{l}.input.bias"])]

        output = state["embedding.weight" if config.tied else "output.weight"]
        self.weights = RecurrentWeights(
            first=self.matrices(joined(0)),
            others=self.matrices(*(joined(l) for l in range(1, config.layers))),
            output=self.matrices([(output, state.get("output_bias"))]),
            activation=ACTIVATIONS[getattr(config, "activation", "tanh")],
            embedding=config.embedding,
        )

    def session(self, slots: int, length: int, layer: int | None = None) -> "RecurrentSession":
        assert layer is None, "the reference engine gives states"
        return RecurrentSession(self, slots)


class RecurrentSession(CompiledSession):
    """Sequences with the state that each carries."""

    def __init__(self, engine: RecurrentEngine, slots: int) -> None:
        super().__init__(engine, slots)
        self.weights, config = engine.weights, engine.config
        width = config.hidden or config.embedding
        summed_rows = engine.weights.first.weight.shape[1]  # of four gates, or of the state alone
        embedded, summed = self.shared(config.embedding, summed_rows)
        first, joined, top = self.per_thread(config.embedding + width, 2 * width, width)
        self.state = RecurrentState(
            hidden=np.zeros((config.layers, slots, width), np.float32),
            cells=np.zeros((config.layers, slots, width), np.float32),
            embedded=embedded,
            first_joined=first,
            joined=joined,
            top=top,
            summed=summed,
            scratch=self.scratch(max(config.embedding + width, 2 * width)),
        )
        slot = np.zeros(1, np.int64)
        engine.compile(recurrent_step, self.weights, self.state, slot, self.logits, True)

    def prefill(self, slots: Ids, prompts: Sequence[Ids]) -> Logits:
        """All prompts side by side, token by token, each to its end."""
        chosen, read = np.asarray(slots, np.int64), [self.known(prompt) for prompt in prompts]
        for part in (self.state.hidden, self.state.cells):
            part[:, chosen] = 0
        lengths = np.array([len(prompt) for prompt in read])
        logits = np.zeros((len(read), self.engine.vocabulary), np.float32)
        with LOCK:
            for i in range(lengths.max()):
                alive = np.flatnonzero(lengths > i)
                ends = lengths[alive] == i + 1
                self._step(np.array([read[k][i] for k in alive]), chosen[alive], bool(ends.any()))
                logits[alive[ends]] = self.logits[: len(alive)][ends]
        return logits

    def step(self, slots: Ids, ids: Ids) -> Logits:
        chosen = np.asarray(slots, np.int64)
        with LOCK:
            self._step(self.known(ids), chosen, True)
        return self.logits[: len(chosen)]

    def _step(self, ids: Array, slots: Array, with_logits: bool) -> None:
        embedding = self.engine.embedding
        self.state.embedded[: len(ids), : embedding.shape[1]] = embedding[ids]
        arguments = self.weights, self.state, slots, self.logits, with_logits
        self.engine.run(recurrent_step, *arguments)

    def copy(self, source: int, target: int) -> None:
        for part in (self.state.hidden, self.state.cells):
            part[:, target] = part[:, source]
