"""Partial fine-tuning: the lower layers stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vesalius.errors import ImpossibleSetting
from vesalius.families.config import Config
from vesalius.training.strategies.strategy import Strategy, depths, layers

if TYPE_CHECKING:
    from torch.nn import Module


class Partial(Strategy):
    """The layers above ``frozen_layers``; what lies below is frozen, embeddings and positions too.

    Tensors that are new are trained wherever they stand.
    """

    name = "partial"
    title = "the upper layers and heads; lower layers, embeddings and positions are frozen"
    settings = ("layer_decay", "frozen_layers")

    def prepare(self, network: Module, config: Config, new: list[str]) -> None:
        frozen, there = self.training.frozen_layers, layers(network)
        if frozen > there:
            raise ImpossibleSetting(
                f"[training] frozen_layers is {frozen}, but the model has {there} layers"
            )
        depth = depths(network, config)
        for name, parameter in network.named_parameters():
            if depth[name] <= frozen and name not in new:
                parameter.requires_grad_(False)
