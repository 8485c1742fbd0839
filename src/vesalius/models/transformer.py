"""The transformer language model (11): transformer, gpt2 and igpt."""

from typing import Any

from torch import Tensor, nn

from vesalius.families.transformer import TransformerConfig
from vesalius.models.blocks import (
    Block,
    Embedding,
    initialise,
    normalisation,
    padding_mask,
    positions,
)
from vesalius.models.labels import LabelOutput, TextLabels
from vesalius.models.linear import Linear, linear


class TransformerNetwork(TextLabels):
    """Token ids (batch x n) to logits (batch x n x vocabulary); ``labels`` gives those of texts."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.causal, self.norm_first = config.causal, config.block.order == "pre"
        self.embedding = Embedding(config.vocabulary, config.embedding)
        self.positions = positions(config)
        self.norm = normalisation(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output = (
            None if config.tied else Linear(config.embedding, config.symbols()["V_U"], bias=False)
        )
        self.mean = config.pooling == "mean"
        self.label_head = (
            Linear(config.embedding, config.labels, bias=False) if config.labels else None
        )
        self.dropout = nn.Dropout(config.dropout)
        initialise(self, layers=config.layers)

    def hidden(self, ids: Tensor, real: Tensor | None = None) -> Tensor:
        """What the logits are read from (batch x n x embedding).

        Padding behind a text is out of a causal mask's sight; otherwise ``real`` masks it.
        """
        mask = None if self.causal else padding_mask(real)
        x = self.embedding(ids)
        x = x + self.positions(x)
        x = self.dropout(x if self.norm_first else self.norm(x))
        for block in self.blocks:
            x = block(x, mask, causal=self.causal)
        return self.norm(x) if self.norm_first else x

    def words(self, hidden: Tensor) -> Tensor:
        weight = self.embedding.weight if self.output is None else self.output.weight
        return linear(hidden, weight)

    def forward(self, ids: Tensor, real: Tensor | None = None) -> Any:
        """Logits of the next token; where ``real`` marks what is no padding, of labels instead."""
        if real is None:
            return self.words(self.hidden(ids))
        return LabelOutput(None, self.label(self.hidden(ids, real), real))

    def whole(self, ids: Tensor) -> LabelOutput:
        hidden = self.hidden(ids)
        return LabelOutput(self.words(hidden), self.label(hidden))
