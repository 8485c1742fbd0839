"""The time series transformer (7.2), as published."""

import math

from torch import Tensor, nn
from torch.nn import functional as F

from vesalius.errors import SequenceTooLong
from vesalius.families.tst import TSTConfig
from vesalius.models.activations import ACTIVATIONS
from vesalius.models.blocks import Block, LearnedPositions, padding_mask, positions
from vesalius.models.linear import Linear


class TSTNetwork(nn.Module):
    """Series (batch x n x channels), and which steps are real, to series, logits or values."""

    def __init__(self, config: TSTConfig) -> None:
        super().__init__()
        s = config.symbols()
        self.scale = math.sqrt(config.embedding)
        self.context = config.context
        self.flat = config.head != "series"
        self.projection = Linear(config.channels, config.embedding)
        self.positions = positions(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output = Linear(s["read"], s["outputs"])
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.dropout)
        if isinstance(self.positions, LearnedPositions):
            nn.init.uniform_(self.positions.weight, -0.02, 0.02)

    def hidden(self, series: Tensor, real: Tensor | None = None) -> Tensor:
        """States after the activation (batch x n x embedding)."""
        x = self.projection(series) * self.scale
        x = self.dropout(x + self.positions(x))
        mask = padding_mask(real)
        for block in self.blocks:
            x = block(x, mask)
        return self.dropout(self.activation(x))

    def forward(self, series: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.hidden(series, real)
        if not self.flat:
            return self.output(x)
        if x.shape[1] > self.context:
            raise SequenceTooLong(
                f"the series has {x.shape[1]} time steps, the model {self.context}; shorten it"
            )
        # The output layer reads all positions: zeros where there is padding.
        x = x if real is None else x * real[..., None]
        return self.output(F.pad(x, (0, 0, 0, self.context - x.shape[1])).flatten(1))
