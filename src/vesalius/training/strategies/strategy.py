"""A strategy: which weights of a model are trained, at which rates, and what is saved of them.

Without a strategy a run trains all weights at one rate, which is ``finetune`` as well. The others
override what they do in another way; the loop asks no names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from vesalius.errors import ImpossibleSetting
from vesalius.families import family_of
from vesalius.families.config import Config
from vesalius.tasks.objective import Objective
from vesalius.training.settings import Recipe, Training

if TYPE_CHECKING:  # recipes are read without training, too
    from torch import Tensor
    from torch.nn import Module

    from vesalius.training.loop import Run

LAYERS = ("blocks", "layers")
"""Where networks keep their layers."""


class Strategy:
    """Whole fine-tuning: all weights; with ``layer_decay``, lower layers at lower rates."""

    name: ClassVar[str] = "finetune"
    title: ClassVar[str] = "all weights"
    settings: ClassVar[tuple[str, ...]] = ("layer_decay",)
    """Settings of ``[training]`` that only some strategies read, among them this one."""

    def __init__(self, recipe: Recipe, objective: Objective) -> None:
        self.recipe, self.training, self.objective = recipe, recipe.training, objective

    @classmethod
    def require(cls, training: Training, objective: Objective) -> None:
        """Refuse what can be told from the recipe alone."""
        if not 0 < training.layer_decay <= 1:
            raise ImpossibleSetting(
                f"[training] layer_decay must be above 0 and at most 1, got {training.layer_decay}"
            )

    @classmethod
    def trains(cls, training: Training) -> Training:
        """How it trains, of what the recipe says."""
        return training

    # Before the first step ---------------------------------------------------

    def prepare(self, network: Module, config: Config, new: list[str]) -> None:
        """Freeze and wrap; ``new`` are the tensors that the model to start from has not."""

    def shares(self, network: Module, config: Config) -> dict[str, float]:
        """Each parameter's share of the scheduled learning rate.

        What lies above the layers has all of it, and every layer below a factor less.
        """
        depth, top = depths(network, config), layers(network) + 1
        return {name: self.training.layer_decay ** (top - depth[name]) for name in depth}

    # Steps -------------------------------------------------------------------

    def fit(self, run: Run) -> dict[str, float]:
        """A step that is no gradient descent, and its metrics; none where the loop descends."""
        return {}

    def means(self, run: Run) -> dict[str, float]:
        """Validation's means from what ``fit`` computed; none where the loop runs the network."""
        return {}

    # Checkpoints -------------------------------------------------------------

    def plain(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of a plain model that computes the same."""
        return weights

    def write(self, folder: Path, weights: Mapping[str, Tensor]) -> None:
        """Write beside a plain model what it does not hold, so that a run can go on."""

    def read(self, folder: Path, plain: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The weights as they are trained, from a plain model and what lies beside it."""
        return plain


def layers(network: Module) -> int:
    return sum(len(getattr(network, name, ())) for name in LAYERS)


def depths(network: Module, config: Config) -> dict[str, int]:
    """How high each parameter stands: 0 below the layers, then the layer, L + 1 above them."""
    below, top = family_of(config).below(config), layers(network) + 1

    def depth(name: str) -> int:
        part, _, rest = name.partition(".")
        if part in LAYERS:
            return int(rest.partition(".")[0]) + 1
        return 0 if part in below else top

    return {name: depth(name) for name, _ in network.named_parameters()}


def training_mode(network: Any) -> None:
    """Training mode; what is frozen as a whole runs as in evaluation.

    Batch normalisation would otherwise go on changing its statistics, and frozen layers would drop
    units from features that nothing can adapt to that any more.
    """
    network.train()
    for module in network.modules():
        owned = list(module.parameters())
        if owned and not any(parameter.requires_grad for parameter in owned):
            module.eval()


def count(network: Module) -> tuple[int, int]:
    """The parameters that are trained, and all of them."""
    sizes = [(p.requires_grad, math.prod(p.shape)) for p in network.parameters()]
    return sum(size for trained, size in sizes if trained), sum(size for _, size in sizes)
