"""Elman and LSTM language models (13), on PyTorch's fused recurrent kernels."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from vesalius.families.recurrent import RecurrentConfig
from vesalius.families.rnn import ElmanConfig
from vesalius.models.activations import ACTIVATIONS
from vesalius.models.blocks import Embedding
from vesalius.models.labels import LabelOutput, TextLabels
from vesalius.models.linear import Linear, linear

State = tuple[Tensor, ...]
"""What a recurrent layer hands on: h, and c in an LSTM."""
Keep = Callable[[str, Tensor], Tensor]
"""Given a value by the paper's letter, and gives it back."""


class RecurrentLayer(nn.Module):
    """Weights of one layer, ``gates`` of them stacked; one bias, as in (41) and (44) to (48)."""

    def __init__(self, width_in: int, width: int, gates: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.input = nn.Linear(width_in, gates * width)
        self.recurrent = nn.Linear(width, gates * width, bias=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def weights(self) -> list[Tensor]:
        # PyTorch's kernels want a second bias; the paper has one.
        second = torch.zeros_like(self.input.bias)
        return [self.input.weight, self.recurrent.weight, self.input.bias, second]


class RecurrentNetwork(TextLabels):
    """Token ids (batch x n) to logits (batch x n x vocabulary); a state may be carried along.

    ``labels`` gives the logits of texts' labels.
    """

    gates: int

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.width = config.hidden or config.embedding
        self.embedding = Embedding(config.vocabulary, config.embedding)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)  # as Zaremba et al.; logits start small
        self.layers = nn.ModuleList(
            RecurrentLayer(config.embedding if l == 0 else self.width, self.width, self.gates)
            for l in range(config.layers)
        )
        self.output = None if config.tied else Linear(self.width, config.vocabulary, bias=False)
        self.output_bias = (
            nn.Parameter(torch.zeros(config.vocabulary)) if config.output_bias else None
        )
        self.mean = config.pooling == "mean"
        self.label_head = Linear(self.width, config.labels, bias=False) if config.labels else None
        self.dropout: nn.Dropout = nn.Dropout(config.dropout)

    def initial_state(self, batch: int) -> State:
        """Zeros: layers x batch x width, once for h and, in an LSTM, once for c."""
        weight = self.embedding.weight
        shape = (len(self.layers), batch, self.width)
        return tuple(weight.new_zeros(shape) for _ in range(2 if self.gates == 4 else 1))

    def run(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        raise AssertionError("every kind says its own")

    def forward(
        self,
        ids: Tensor,
        state: State | None = None,
        real: Tensor | None = None,
    ) -> Any:
        """Logits; and, where a state is given, the state to go on from.

        Where ``real`` marks what is no padding, the logits are those of labels instead.
        """
        before = self.initial_state(len(ids)) if state is None else state
        x, after = self.run(self.dropout(self.embedding(ids)), before)
        x = self.dropout(x)
        if real is not None:
            return LabelOutput(None, self.label(x, real))
        logits = self.words(x)
        return logits if state is None else (logits, after)

    def words(self, hidden: Tensor) -> Tensor:
        weight = self.embedding.weight if self.output is None else self.output.weight
        return linear(hidden, weight, self.output_bias)

    def whole(self, ids: Tensor) -> LabelOutput:
        x, _ = self.run(self.embedding(ids), self.initial_state(len(ids)))
        return LabelOutput(self.words(x), self.label(x))

    def _typed_layers(self) -> list[RecurrentLayer]:
        return [layer for layer in self.layers if isinstance(layer, RecurrentLayer)]

    def _kernel_arguments(self) -> tuple[list[Tensor], bool, int, float, bool, bool, bool]:
        weights = [weight for layer in self._typed_layers() for weight in layer.weights()]
        dropout = self.dropout.p if self.training else 0.0
        return weights, True, len(self.layers), dropout, self.training, False, True


class LSTMNetwork(RecurrentNetwork):
    gates = 4

    def run(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        x, *state_after = torch.lstm(x, state, *self._kernel_arguments())
        return x, tuple(state_after)

    def time_step(self, layer: RecurrentLayer, x: Tensor, state: State, keep: Keep) -> State:
        """(44) to (48) without the fused kernel, each value by its letter."""
        h, c = state
        R, P, Q, S = (layer.input(x) + layer.recurrent(h)).chunk(4, dim=-1)
        q = keep("q", torch.tanh(Q))
        k = keep("k", c * keep("p", torch.sigmoid(P)))
        d = keep("d", q * keep("r", torch.sigmoid(R)))
        c = keep("c", d + k)
        return keep("h", keep("s", torch.sigmoid(S)) * torch.tanh(c)), c


class ElmanNetwork(RecurrentNetwork):
    gates = 1

    def __init__(self, config: ElmanConfig) -> None:
        super().__init__(config)
        self.activation = config.activation

    def run(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        if self.activation == "sigmoid":
            return self._run_step_by_step(x, state[0])
        kernel = torch.rnn_tanh if self.activation == "tanh" else torch.rnn_relu
        x, after = kernel(x, state[0], *self._kernel_arguments())
        return x, (after,)

    def time_step(self, layer: RecurrentLayer, x: Tensor, state: State, keep: Keep) -> State:
        """(41) without the fused kernel."""
        g = ACTIVATIONS[self.activation]
        return (keep("h", g(layer.input(x) + layer.recurrent(state[0]))),)

    def _run_step_by_step(self, x: Tensor, states: Tensor) -> tuple[Tensor, State]:
        """PyTorch has no fused kernel for the sigmoid of Mikolov's network."""
        after = []
        for layer, h in zip(self._typed_layers(), states, strict=True):
            from_below, outputs = layer.input(x), []
            for i in range(x.shape[1]):
                h = torch.sigmoid(from_below[:, i] + layer.recurrent(h))
                outputs.append(h)
            after.append(h)
            x = torch.stack(outputs, dim=1)
            if layer is not self.layers[-1]:
                x = self.dropout(x)
        return x, (torch.stack(after),)
