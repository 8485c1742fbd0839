"""The transformer language model (11): transformer, gpt2 and igpt."""

from torch import Tensor, nn

from vesalius.families.transformer import TransformerConfig
from vesalius.models.blocks import Block, Embedding, initialise, normalisation, positions
from vesalius.models.linear import Linear, linear


class TransformerNetwork(nn.Module):
    """Token ids (batch x n) to logits (batch x n x vocabulary)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.causal, self.norm_first = config.causal, config.variant == 2
        self.embedding = Embedding(config.vocabulary, config.embedding)
        self.positions = positions(config)
        self.norm = normalisation(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output = (
            None if config.tied else Linear(config.embedding, config.symbols()["V_U"], bias=False)
        )
        self.dropout = nn.Dropout(config.dropout)
        initialise(self, layers=config.layers)

    def hidden(self, ids: Tensor) -> Tensor:
        """What the logits are read from (batch x n x embedding)."""
        x = self.embedding(ids)
        x = x + self.positions(x)
        x = self.dropout(x if self.norm_first else self.norm(x))
        for block in self.blocks:
            x = block(x, causal=self.causal)
        return self.norm(x) if self.norm_first else x

    def forward(self, ids: Tensor) -> Tensor:
        weight = self.embedding.weight if self.output is None else self.output.weight
        return linear(self.hidden(ids), weight)
