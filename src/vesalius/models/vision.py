"""The vision transformer (7.1)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vesalius.errors import WrongKind, WrongLength
from vesalius.families.vit import ViTConfig
from vesalius.models.blocks import Block, initialise, normalisation, positions
from vesalius.models.linear import Linear


@dataclass(frozen=True)
class ViTOutput:
    """What the vision transformer gives; None where the head is not there."""

    hidden: Tensor
    """Normalised states, batch x (patches + 1) x embedding; the class token comes first."""
    pooled: Tensor | None
    """tanh layer on the class token, batch x embedding."""
    logits: Tensor | None
    """Class head, batch x classes."""
    patches: Tensor | None
    """Masked-patch head: flattened patches, batch x patches x (patch² channels)."""


class ViTNetwork(nn.Module):
    """Pixels (batch x channels x height x width) to a ``ViTOutput``."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        s = config.symbols()
        self.image, self.patch = config.image, config.patch
        self.projection = Linear(s["P2C"], config.embedding)
        self.class_token = nn.Parameter(torch.empty(config.embedding))
        self.positions = positions(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = normalisation(config)
        self.pooler = Linear(config.embedding, config.embedding) if config.pooler else None
        self.class_head = Linear(config.embedding, config.classes) if config.classes else None
        self.mask_token = (
            nn.Parameter(torch.empty(config.embedding)) if config.masked_patch_head else None
        )
        self.patch_head = Linear(config.embedding, s["P2C"]) if config.masked_patch_head else None
        self.dropout = nn.Dropout(config.dropout)
        initialise(self)
        self._begin_as_published()

    def _begin_as_published(self) -> None:
        """Matrices by Glorot and Bengio, and no opinion on classes: narrow models learn sooner."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2 and name != "positions.weight" and not parameter.is_meta:
                nn.init.xavier_uniform_(parameter)
        if self.class_head is not None and not self.class_head.weight.is_meta:
            nn.init.zeros_(self.class_head.weight)

    def forward(self, pixels: Tensor, masked: Tensor | None = None) -> ViTOutput:
        height, width = pixels.shape[-2:]
        if (height, width) != (self.image, self.image):
            raise WrongLength(
                f"the model reads images of {self.image} x {self.image}, got {height} x {width}"
            )
        x = self.projection(patches(pixels, self.patch))
        if masked is not None:
            if self.mask_token is None:
                raise WrongKind(
                    "this model has no masked-patch head, and no token for masked patches"
                )
            x = torch.where(masked[..., None], self.mask_token, x)
        x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        x = self.dropout(x + self.positions(x))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return ViTOutput(
            x,
            torch.tanh(self.pooler(x[:, 0])) if self.pooler is not None else None,
            self.class_head(x[:, 0]) if self.class_head is not None else None,
            self.patch_head(x[:, 1:]) if self.patch_head is not None else None,
        )


def patches(pixels: Tensor, side: int) -> Tensor:
    """Flattened patches, row by row, the colours of a pixel together."""
    batch, channels, height, width = pixels.shape
    grid = pixels.view(batch, channels, height // side, side, width // side, side)
    return grid.permute(0, 2, 4, 3, 5, 1).reshape(batch, -1, side * side * channels)
