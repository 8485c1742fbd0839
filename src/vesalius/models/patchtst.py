"""PatchTST (P.1 to P.12): every channel's patches as a row of the batch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vesalius.errors import WrongLength
from vesalius.families.patchtst import PatchTSTConfig
from vesalius.models.blocks import Block, LearnedPositions, positions
from vesalius.models.linear import Linear


class Mean(nn.Module):
    """The mean of every channel over the look-back (P.1): batch x 1 x channels."""

    def forward(self, series: Tensor) -> Tensor:
        return series.mean(dim=1, keepdim=True)


class Deviation(nn.Module):
    """The deviation of every channel over the look-back (P.2): batch x 1 x channels."""

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, series: Tensor, mean: Tensor) -> Tensor:
        return ((series - mean).square().mean(dim=1, keepdim=True) + self.epsilon).sqrt()


class Standardised(nn.Module):
    """Instance normalisation (P.3)."""

    def forward(self, series: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
        return (series - mean) / deviation


class Gain(nn.Module):
    """The gain and bias of every channel (P.4), or what undoes them (P.11)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, undo: bool = False) -> Tensor:
        return (x - self.bias) / self.weight if undo else x * self.weight + self.bias


class PatchTSTNetwork(nn.Module):
    """Series (batch x context x channels) to forecasts (batch x horizon x channels)."""

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__()
        s = config.symbols()
        self.context, self.patch, self.stride = config.context, config.patch, config.stride
        self.pad, self.patches = s["pad"], s["n"]
        self.mean, self.deviation = Mean(), Deviation(s["epsilon_r"])
        self.standardised = Standardised()
        self.instance_norm = Gain(config.channels) if config.affine else None
        self.projection = Linear(config.patch, config.embedding)
        self.positions = positions(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        for block in self.blocks:
            block.attention.dropout = config.attention_dropout  # type: ignore[union-attr]
        self.output = Linear(s["nd_e"], config.horizon)
        self.dropout = nn.Dropout(config.dropout)
        self.head_dropout = nn.Dropout(config.head_dropout)
        if isinstance(self.positions, LearnedPositions):
            nn.init.uniform_(self.positions.weight, -0.02, 0.02)

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
        mean = self.mean(series)
        deviation = self.deviation(series, mean)
        x = self.standardised(series, mean, deviation)
        x = x if self.instance_norm is None else self.instance_norm(x)
        x = self.output(self.head_dropout(self.hidden(x).flatten(1)))
        x = x.view(batch, channels, -1).transpose(1, 2)
        x = x if self.instance_norm is None else self.instance_norm(x, undo=True)
        return x * deviation + mean
