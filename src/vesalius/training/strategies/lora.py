"""LoRA: matrices stay as they are, and low-rank updates of them are trained (L.1, L.2).

A checkpoint holds the plain model with the updates merged in, and beside it the updates. A run goes
on from these and from the matrices of the model that it started from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vesalius.checkpoints import files
from vesalius.errors import AnotherRecipe, ImpossibleSetting
from vesalius.families.config import Config
from vesalius.model import load
from vesalius.training.strategies.strategy import LAYERS, Strategy

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

ADAPTER = "adapter.safetensors"
ATTENTION = ("query", "value")


class LoRA(Strategy):
    """Updates of the query and value matrices; of all of the layers' where there are none.

    New tensors are trained too, and the linear head of an objective that has one.
    """

    name = "lora"
    title = "low-rank updates of matrices (L.1), merged into them when saved"
    settings = ("layer_decay", "lora_rank", "lora_alpha", "lora_matrices")

    def prepare(self, network: Module, config: Config, new: list[str]) -> None:
        from vesalius.models.lora import adapt

        rank, found = self.training.lora_rank, self._matrices(network)
        for name, (width_out, width) in found.items():
            if rank > min(width_out, width):
                raise ImpossibleSetting(
                    f"[training] lora_rank is {rank}, but {name} has {width_out} x {width} "
                    f"weights; expected {min(width_out, width)} at most"
                )
        head = self.objective.linear_head
        for name, parameter in network.named_parameters():
            if name not in new and not (head and name.startswith(f"{head}.")):
                parameter.requires_grad_(False)
        adapt(network, list(found), rank, self.training.lora_alpha, self.recipe.seed)

    def _matrices(self, network: Module) -> dict[str, tuple[int, ...]]:
        """The maps to adapt, with the shapes of their matrices."""
        from torch import nn

        linear = {
            name: tuple(module.weight.shape)
            for name, module in network.named_modules()
            if isinstance(module, nn.Linear) and name.split(".")[0] in LAYERS
        }
        chosen = {name: v for name, v in linear.items() if name.rpartition(".")[2] in ATTENTION}
        return linear if self.training.lora_matrices == "all" or not chosen else chosen

    @property
    def _scale(self) -> float:
        return self.training.lora_alpha / self.training.lora_rank

    def plain(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        from vesalius.models.lora import merged

        return merged(weights, self._scale)

    def write(self, folder: Path, weights: Mapping[str, Tensor]) -> None:
        from vesalius.models.lora import adapters

        names = [f"{name}.{letter}" for name in adapters(weights) for letter in "AB"]
        arrays = {name: weights[name].numpy() for name in names}
        arrays["rank"] = np.array([self.training.lora_rank], np.float32)
        arrays["alpha"] = np.array([self.training.lora_alpha], np.float32)
        files.write(folder / ADAPTER, arrays, "float32")

    def read(self, folder: Path, plain: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        import torch

        from vesalius.models.lora import PLAIN

        saved = files.read(folder / ADAPTER).arrays
        updates = {name: v for name, v in saved.items() if name not in ("rank", "alpha")}
        adapted = {name.removesuffix(".A") for name in updates if name.endswith(".A")}
        assert self.recipe.init is not None, "a recipe with a strategy says its init"
        started = load(self.recipe.init).state
        found: dict[str, np.ndarray] = dict(updates)
        for name, array in plain.items():
            above, _, last = name.rpartition(".")
            if above not in adapted:
                found[name] = array
            elif last == "weight":
                found[f"{above}.{PLAIN}.{last}"] = np.asarray(started[name], array.dtype)
            else:
                found[f"{above}.{PLAIN}.{last}"] = array
        again = self.plain({name: torch.from_numpy(np.array(v)) for name, v in found.items()})
        if not all(
            np.array_equal(again[f"{name}.weight"], plain[f"{name}.weight"]) for name in adapted
        ):
            raise AnotherRecipe(
                f"{self.recipe.init} is not the model that the run started from any more; "
                f"its matrices with {folder / ADAPTER} do not give those of the checkpoint"
            )
        return found
