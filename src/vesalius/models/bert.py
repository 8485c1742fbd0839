"""BERT with its heads (51 to 59)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vesalius.families.bert import BertConfig
from vesalius.models import blocks
from vesalius.models.activations import ACTIVATIONS
from vesalius.models.labels import mean_of
from vesalius.models.linear import Linear, linear


@dataclass(frozen=True)
class BertOutput:
    """What BERT gives; None where the head is not there."""

    hidden: Tensor
    """H[L], batch x n x embedding."""
    pooled: Tensor | None
    """hᶜ (57), batch x embedding."""
    mlm: Tensor | None
    """Logits of the words (55), batch x n x vocabulary; of chosen places, places x vocabulary."""
    nsp: Tensor | None
    """Logits of the sentence pair, whose softmax is (58), batch x 2."""
    labels: Tensor | None
    """Logits of a fine-tuned head, batch x labels, or batch x n x labels where tokens get them."""


class MaskedHead(nn.Module):
    """The MLM head (53 to 55); its product is tied to the embedding."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = Linear(config.embedding, config.embedding)
        self.norm = blocks.normalisation(config)
        self.bias = nn.Parameter(torch.empty(config.vocabulary))
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        return linear(self.norm(self.activation(self.dense(hidden))), embedding, self.bias)


class BertNetwork(nn.Module):
    """Token ids (batch x n), their segments and which are real, to a ``BertOutput``."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.embedding = blocks.Embedding(config.vocabulary, config.embedding)
        self.positions = blocks.LearnedPositions(config.context, config.embedding)
        self.segments = blocks.Embedding(config.segments, config.embedding)
        self.norm = blocks.normalisation(config)
        self.blocks = nn.ModuleList(blocks.Block(config) for _ in range(config.layers))
        self.pooler = Linear(config.embedding, config.embedding) if config.pooler else None
        self.mlm_head = MaskedHead(config) if config.mlm_head else None
        self.nsp_head = Linear(config.embedding, 2) if config.nsp_head else None
        self.label_head = Linear(config.embedding, config.labels) if config.labels else None
        self.labelled, self.pooling = config.labelled, config.pooling
        self.dropout = nn.Dropout(config.dropout)
        blocks.initialise(self)
        self._initialise_positions(config.embedding)

    @torch.no_grad()
    def _initialise_positions(self, embedding: int) -> None:
        """Positions begin as sinusoids, scaled to the size of the other weights, 0.02."""
        weight = self.positions.weight
        if not weight.is_meta:
            weight.copy_(blocks.SinusoidalPositions(embedding)(weight[None]) * 0.02 * math.sqrt(2))

    def forward(
        self,
        ids: Tensor,
        segments: Tensor | None = None,
        real: Tensor | None = None,
        predict: Tensor | None = None,
    ) -> BertOutput:
        """``predict`` marks the places whose words are wanted (batch x n); otherwise all are."""
        x = self.embedding(ids)
        segments = torch.zeros_like(ids) if segments is None else segments
        x = self.dropout(self.norm(x + self.positions(x) + self.segments(segments)))
        mask = blocks.padding_mask(real)
        for block in self.blocks:
            x = block(x, mask)
        pooled = torch.tanh(self.pooler(x[:, 0])) if self.pooler is not None else None
        mlm = None
        if self.mlm_head is not None:
            mlm = self.mlm_head(x if predict is None else x[predict], self.embedding.weight)
        nsp = None
        if self.nsp_head is not None and pooled is not None:
            nsp = self.nsp_head(self.dropout(pooled))
        labels = None
        if self.label_head is not None:
            read = pooled
            if self.labelled != "sequence":
                read = x
            elif self.pooling == "mean":
                known = torch.ones_like(ids, dtype=torch.bool) if real is None else real
                read = mean_of(x, known)
            labels = self.label_head(self.dropout(read))
        return BertOutput(x, pooled, mlm, nsp, labels)
