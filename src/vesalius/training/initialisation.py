"""What a run begins with: its data, a configuration that agrees with them, and initial weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from vesalius.arguments import Progress
from vesalius.data.batches import Batches
from vesalius.errors import CheckpointMismatch, ImpossibleSetting, VesaliusError, WrongKind
from vesalius.families import configuration, family_of
from vesalius.families.config import Config
from vesalius.families.family import OwnConfig
from vesalius.model import Model, load
from vesalius.tasks import task_named
from vesalius.tasks.objective import Objective, Source
from vesalius.training.settings import Recipe

HEADS = (
    *("output", "output_bias", "class_head", "patch_head", "mask_token"),
    *("pooler", "mlm_head", "nsp_head", "label_head"),
)
"""The heads of networks, by the first part of their tensors' names.

A recipe that starts from a model may give it others, which begin with new weights.
"""
LEAST = ("vocabulary", "context")
"""Settings that may be larger than the data need; all others must equal what the data imply."""


@dataclass(frozen=True, eq=False)
class Setup:
    """What a recipe needs, read and loaded once."""

    objective: Objective
    started: Model | None
    """The model that the run starts from."""
    source: Source
    config: OwnConfig
    batches: Batches

    @classmethod
    def of(cls, recipe: Recipe, progress: Progress) -> "Setup":
        objective = task_named(recipe.objective).learns
        started = None if recipe.init is None else load(recipe.init)
        tokenizer = None if started is None else started.tokenizer
        source = objective.source(recipe, tokenizer, progress)
        config = configured(recipe, objective, source.implied, started)
        return cls(
            objective, started, source, config, source.batches(config, recipe.training.batch)
        )


def configured(
    recipe: Recipe, objective: Objective, implied: dict[str, Any], started: Model | None
) -> Config:
    """What the recipe says, and for the rest what the data imply."""
    if started is not None:
        _require_served(objective, started.family)
        required = objective.required(started.config, recipe.model)
        heads = {name: v for name, v in implied.items() if name in ("outputs", "classes", "labels")}
        usual = {n: v for n, v in objective.defaults.items() if n in started.config.settings()}
        changes: dict[str, Any] = {**heads, **usual, **required, **recipe.model}
        family = None if recipe.family is None else family_of(configuration(recipe.family)).name
        if family not in (None, started.family):
            raise ImpossibleSetting(
                f"init is a model of {family_of(started.config).name}, not of {recipe.family}; "
                f"leave family out"
            )
        try:
            config = started.config.change(**changes)
        except VesaliusError as error:
            raise type(error)(f"[model] {error}") from error
    else:
        assert recipe.family is not None, "recipes say a family or a model to start from"
        default = configuration(recipe.family)
        known, required = default.settings(), objective.required(default, recipe.model)
        fitting = {name: value for name, value in implied.items() if name in known}
        usual = {n: v for n, v in objective.defaults.items() if n in known}
        config = configuration(recipe.family, **{**fitting, **usual, **required, **recipe.model})
    _require_served(objective, family_of(config).name)
    for name, wanted in required.items():
        if getattr(config, name) != wanted:
            raise ImpossibleSetting(f"{objective.name} needs [model] {name} = {wanted}")
    for name, needed in implied.items():
        has = getattr(config, name)
        if has < needed if name in LEAST else has != needed:
            raise ImpossibleSetting(
                f"[model] {name} is {has}, but the data have {needed}; leave it out to follow them"
            )
    return config


def _require_served(objective: Objective, family: str) -> None:
    if family not in objective.families:
        raise WrongKind(f"{objective.name} is for {', '.join(objective.families)}, not {family}")


def network(config: Config, seed: int, started: Model | None) -> tuple[nn.Module, list[str]]:
    """A network to train, and which of its tensors are new where it starts from a model."""
    torch.manual_seed(seed)
    made: nn.Module = family_of(config).network(config)
    if started is None:
        return made, list(made.state_dict())
    wanted = made.state_dict()
    kept = {name: torch.from_numpy(np.array(array)) for name, array in started.state.items()}
    new = [name for name, t in wanted.items() if name not in kept or kept[name].shape != t.shape]
    if wrong := [name for name in new if name.split(".")[0] not in HEADS]:
        raise CheckpointMismatch(
            f"the model to start from lacks, or has in another shape: {', '.join(wrong)}"
        )
    made.load_state_dict({name: wanted[name] if name in new else kept[name] for name in wanted})
    return made, new


def freeze(network: nn.Module, objective: Objective) -> None:
    """Freeze the heads that an objective does not read; DDP would wait for their gradients.

    An objective that names no heads is for networks with a single one.
    """
    for name, parameter in network.named_parameters():
        head = name.partition(".")[0]
        if objective.heads and head in HEADS and head not in objective.heads:
            parameter.requires_grad_(False)
