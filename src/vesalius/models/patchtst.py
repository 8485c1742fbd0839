"""PatchTST (P.1 to P.12): every channel's patches as a row of the batch."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vesalius.errors import WrongLength
from vesalius.families.patchtst import PatchTSTConfig
from vesalius.models.blocks import Block, LearnedPositions, SinusoidalPositions
from vesalius.models.linear import Linear


class Level(NamedTuple):
    """The mean and deviation of every channel over the look-back (batch x 1 x channels)."""

    mean: Tensor
    deviation: Tensor


class InstanceNorm(nn.Module):
    """The gain and bias of every channel; the statistics are those of the series itself."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.bias

    def undo(self, x: Tensor) -> Tensor:
        return (x - self.bias) / self.weight


class PatchTSTNetwork(nn.Module):
    """Series (batch x context x channels) to forecasts (batch x horizon x channels)."""

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__()
        s = config.symbols()
        self.context, self.patch, self.stride = config.context, config.patch, config.stride
        self.pad, self.patches, self.epsilon = s["pad"], s["n"], s["epsilon_r"]
        self.instance_norm = InstanceNorm(config.channels) if config.affine else None
        self.projection = Linear(config.patch, config.embedding)
        self.positions = (
            LearnedPositions(s["n_max"], config.embedding)
            if s["learned_positions"]
            else SinusoidalPositions(config.embedding)
        )
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        for block in self.blocks:
            block.attention.dropout = config.attention_dropout  # type: ignore[union-attr]
        self.output = Linear(s["nd_e"], config.horizon)
        self.dropout = nn.Dropout(config.dropout)
        self.head_dropout = nn.Dropout(config.head_dropout)
        if isinstance(self.positions, LearnedPositions):
            nn.init.uniform_(self.positions.weight, -0.02, 0.02)

    def level(self, series: Tensor) -> Level:
        mean = series.mean(dim=1, keepdim=True)
        variance = series.var(dim=1, keepdim=True, correction=0)
        return Level(mean, (variance + self.epsilon).sqrt())

    def cut(self, series: Tensor) -> Tensor:
        """Patches (batch · channels x patches x patch) of series (batch x context x channels)."""
        rows = series.transpose(1, 2).flatten(0, 1)
        if self.pad:
            rows = F.pad(rows, (0, self.pad), mode="replicate")
        else:
            rows = rows[:, self.context - (self.patch + self.stride * (self.patches - 1)) :]
        return rows.unfold(-1, self.patch, self.stride)[:, : self.patches]

    def hidden(self, series: Tensor) -> Tensor:
        """States after the last block (batch · channels x patches x embedding)."""
        x = self.projection(self.cut(series))
        x = self.dropout(x + self.positions(x))
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, series: Tensor) -> Tensor:
        batch, steps, channels = series.shape
        if steps != self.context:
            raise WrongLength(f"the model reads {self.context} time steps, got {steps}")
        level = self.level(series)
        x = (series - level.mean) / level.deviation
        x = x if self.instance_norm is None else self.instance_norm(x)
        x = self.output(self.head_dropout(self.hidden(x).flatten(1)))
        x = x.view(batch, channels, -1).transpose(1, 2)
        x = x if self.instance_norm is None else self.instance_norm.undo(x)
        return x * level.deviation + level.mean
