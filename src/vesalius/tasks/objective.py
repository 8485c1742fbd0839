"""An objective: what a network is trained towards, in one object.

It makes batches of data, turns them into losses, names the heads that it reads, and reports the
numbers that people compare. A loss is a sum and, apart from it, the number of its terms, because a
batch may be gone through in parts and by several processes; the mean is over all of it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy import ndarray as Array

from vesalius import specimens
from vesalius.arguments import Progress
from vesalius.data.batches import Batch, Batches
from vesalius.data.inputs import label_names
from vesalius.data.masking import IGNORED
from vesalius.data.parts import here
from vesalius.data.settings import Data
from vesalius.equations import softmax
from vesalius.errors import UnusableData, WrongKind
from vesalius.families.config import Config, Setting
from vesalius.generation import forward
from vesalius.machine import require
from vesalius.metrics.baseline import Baseline
from vesalius.metrics.classes import ClassPredictions
from vesalius.metrics.predictions import Predictions, Share
from vesalius.metrics.values import ValuePredictions
from vesalius.model import PREPROCESSING, Model
from vesalius.preparation import Preparation, Scaling
from vesalius.tasks import task_named
from vesalius.tokenizers import Tokenizer
from vesalius.training.settings import Recipe

if TYPE_CHECKING:  # the table is asked without training, too
    import torch
    from torch import Tensor
    from torch.nn import Module

    State = tuple[Tensor, ...] | None
    Sums = dict[str, Tensor]
else:
    State = Sums = Any


BATCH, SEED = 16, 0
"""Of evaluations: rows that are gone through at once, and what masks and pairs follow from."""


@dataclass(frozen=True)
class Source:
    """Data to train on, ready to be cut into batches once the model is known."""

    implied: dict[str, Any]
    """Settings of the model that follow from the data, such as its vocabulary or its classes."""
    batches: Callable[[Config, int], Batches]
    """For a configuration, so many examples at a time."""
    digest: str
    """SHA-256 of what is trained on."""
    tokenizer: Tokenizer | None = None
    preprocessing: Preparation = field(default_factory=Preparation)
    """What the model keeps of it."""
    validation: Any = None
    """The examples to validate on as they were read, where numbers need more than their batches."""


@dataclass(frozen=True)
class HeldOut:
    """Examples to evaluate a model on, and the objective that they serve."""

    objective: Objective
    batches: Batches
    tokens: int = 0
    unknown: int | None = None
    """Of texts: tokens that stand for words which the vocabulary lacks."""
    part: str = "all"
    """In words, what of the corpus they are."""
    examples: Any = None
    """The examples as they were read, for whoever measures another method on the same."""
    notes: tuple[str, ...] = ()
    """What could not be measured on the corpus, and what was not read as it is."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What all objectives have; each kind adds its data and its losses."""

    data: ClassVar[type[Data]]
    """The settings of its data."""
    writes_text: ClassVar[bool] = False
    """Whether a model that is trained towards it can be asked for samples of text."""
    classes: ClassVar[str] = ""
    """The model's setting that counts the classes of examples, where they have any."""
    fitted: ClassVar[str] = ""
    """What a linear head on the model gives, where that is the whole of it: "classes" or "values";
    empty where ``classes`` says it, or it is neither."""
    answers: ClassVar[str] = "labels"
    """The array of a batch that holds those."""

    name: str
    title: str
    losses: tuple[str, ...]
    """The sums whose means add up to the loss; the others are for looking at."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """What the model must have for it."""
    defaults: Mapping[str, Setting] = field(default_factory=dict)
    """What a model is given unless the recipe says otherwise."""
    heads: tuple[str, ...] = ()
    """The heads that the losses read, of a network that may have several."""
    least_window: int = 1
    """Tokens that a window of text needs at least."""

    @property
    def families(self) -> tuple[str, ...]:
        """The families that can be trained towards it."""
        return task_named(self.name).served

    def required(self, config: Config, said: Mapping[str, Any] = {}) -> dict[str, Setting]:
        """What a model must have for it, of the settings that its family has.

        ``said`` are the settings that a recipe changes.
        """
        return {name: v for name, v in self.settings.items() if name in config.settings()}

    def serves(self, model: Model) -> bool:
        """Whether a model has the heads that it reads."""
        parts = {name.partition(".")[0] for name in model.state}
        wanted = self.required(model.config).items()
        return (
            model.family in self.families
            and parts.issuperset(self.heads)
            and all(getattr(model.config, name) == value for name, value in wanted)
        )

    def labels_of(self, corpus: str) -> bool:
        """Whether a corpus is of files that say what is asked, as tables with labels do."""
        return False

    @property
    def fitted_to(self) -> str:
        """What a linear model could be fitted to in place of the head, if anything."""
        return self.fitted or ("classes" if self.classes else "")

    @property
    def linear_head(self) -> str:
        """The linear head that gives the answers, by its name in the network; empty if none."""
        if not self.fitted_to:
            return ""
        return self.heads[-1] if self.heads else "output"

    # Its data ----------------------------------------------------------------

    def source(
        self, recipe: Recipe, tokenizer: Tokenizer | None, progress: Progress, read: Any = None
    ) -> Source:
        """The data of a recipe; a tokenizer that a model brings along is used as it is.

        ``read`` is what was read of the corpus before, to choose the task by.
        """
        raise AssertionError("every kind of data has its own")

    def held_out(self, model: Model, corpus: str, progress: Progress) -> HeldOut:
        """Examples of a corpus to evaluate a model on, prepared as for its training."""
        raise AssertionError("every kind of data has its own")

    def validated(self, source: Source, batches: Batches) -> HeldOut:
        """What a run validates on, as an evaluation has it."""
        raise AssertionError("objectives whose numbers need whole examples have their own")

    def preprocessing_of(self, model: Model) -> Preparation:
        """How training prepared a model's images or series; such models run on PyTorch."""
        require("torch")
        if not model.preprocessing:
            raise WrongKind(
                f"how the model's input was scaled is not known; expected {PREPROCESSING}, which "
                f"training writes beside it"
            )
        return model.preprocessing

    def changed(self, data: Data, names: tuple[str, ...]) -> dict[str, Any]:
        """The settings among ``names`` that a recipe has changed: a model keeps them."""
        default = type(data)()
        return {name: v for name in names if (v := getattr(data, name)) != getattr(default, name)}

    def remembered(self, recipe: Recipe, split: Mapping[str, Any]) -> dict[str, Any]:
        """What a model keeps of the data that it was trained on: where they are, how split."""
        data: Data = recipe.data  # type: ignore[assignment]
        said = self.changed(data, tuple(data.settings()))
        for name in ("corpus", "valid"):
            if here(said.get(name) or ""):
                said[name] = os.path.abspath(said[name])
        return {"held_out": split or None, "recipe": {"seed": recipe.seed, "data": said}}

    def trained_on(self, model: Model) -> tuple[Any, int]:
        """The data's settings and the seed of the recipe that a model was trained by."""
        kept = model.preprocessing.recipe
        if not kept and model.folder is not None and model.folder.parent == specimens.FOLDER:
            kept = specimens.card(model.folder.name).recipe
        if not kept:
            raise UnusableData(
                f"what the model was trained on is not known: its {PREPROCESSING} names no data"
            )
        return self.data(**kept["data"]), int(kept["seed"])

    def require_unchanged(self, model: Model, split: Mapping[str, Any], corpus: str) -> None:
        """Refuse data that have changed since a model was trained on them."""
        kept = model.preprocessing.held_out
        if kept and kept != split:
            raise UnusableData(f"{corpus} has changed since the model was trained on it")

    def baselines(self, model: Model, held_out: HeldOut, progress: Progress) -> list[Baseline]:
        """Simple methods, fitted on what the model was trained on, measured on the same."""
        raise WrongKind(f"there is no simple method to compare {self.name} with")

    def calibrated(self, model: Model, batches: Batches) -> dict[str, Any]:
        """What a trained model's preprocessing keeps of its validation."""
        return {}

    # Its losses --------------------------------------------------------------

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        """Sums over a batch, and the state to carry to the next one."""
        raise AssertionError("every objective has its own")

    def terms(self, batch: Batch) -> dict[str, int]:
        """How many terms each sum has in a batch."""
        raise AssertionError("every objective has its own")

    def cross_entropy(self, name: str, logits: Tensor, targets: Tensor, training: bool) -> Sums:
        """Cross entropy (17), and when not training the number of right answers."""
        from torch.nn import functional as F

        logits, targets = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
        loss = F.cross_entropy(logits.float(), targets, reduction="sum", ignore_index=IGNORED)
        if training:
            return {name: loss}
        return {name: loss, f"{name} accuracy": (logits.argmax(-1) == targets).sum()}

    def answered(self, found: Tensor, answers: Tensor) -> Sums:
        """Sums over what the linear head gives, as validation has them."""
        (name,) = self.losses
        return self.cross_entropy(name, found, answers, training=False)

    def counted(self, name: str, count: int) -> dict[str, int]:
        """The terms of ``cross_entropy``."""
        return {name: count, f"{name} accuracy": count}

    def targets(self, batch: Batch) -> int:
        """How many tokens of a batch are to be predicted."""
        return int((batch["targets"] != IGNORED).sum())

    def means(
        self,
        network: Module,
        batches: Iterable[Batch],
        device: torch.device | None = None,
        precision: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> dict[str, float]:
        """Validation: the means of all sums over the batches, and the loss that they come to."""
        import torch

        network.eval()
        device = device or torch.device("cpu")
        totals: dict[str, float] = {}
        counts: dict[str, int] = {}
        state: State = None
        for batch in batches:
            with torch.no_grad(), precision():
                sums, state = self.sums(network, tensors(batch, slice(None), device), state)
            for name, number in self.terms(batch).items():
                if name in sums:
                    totals[name] = totals.get(name, 0.0) + sums[name].item()
                    counts[name] = counts.get(name, 0) + number
        means = {name: total / max(1, counts[name]) for name, total in totals.items()}
        return {"loss": sum(means[name] for name in self.losses), **means}

    # Its report --------------------------------------------------------------

    def measured(
        self, model: Model, batches: Iterable[Batch], held_out: HeldOut
    ) -> tuple[dict[str, float], Predictions | None]:
        """The means that evaluate a trained model, and its predictions where they are kept."""
        return self.means(model.network, batches), None

    def outputs(
        self,
        model: Model,
        batches: Iterable[Batch],
        read: Callable[[Module, dict[str, Tensor]], Tensor],
    ) -> tuple[Array, Array]:
        """What the network gives for all examples, and the answers, in double precision."""
        import torch

        network = model.network.eval()
        found, wanted = list[Array](), list[Array]()
        for batch in batches:
            with torch.no_grad():
                given = tensors(batch, slice(None), torch.device("cpu"))
                found.append(read(network, given).double().numpy())
            wanted.append(batch[self.answers])
        return np.concatenate(found), np.concatenate(wanted)

    def report(self, means: Mapping[str, float], kept: Preparation) -> dict[str, float]:
        """The numbers that people compare."""
        (name,) = self.losses
        return {"loss": means[name], "accuracy": Share(means[f"{name} accuracy"])}


class ValueObjective(Objective):
    """Σ (ŷ − y)² over z-scored values; reported in the units that they came in."""

    fitted = "values"

    def scaling_of(self, values: Array) -> dict[str, float]:
        """What a model keeps of the values that it is trained on."""
        scale = Scaling.of([values[:, None]])
        return {"target_mean": float(scale.mean[0]), "target_std": float(scale.std[0])}

    def answered(self, found: Tensor, answers: Tensor) -> Sums:
        return {"values": (found - answers).square().sum()}

    def terms(self, batch: Batch) -> dict[str, int]:
        return {"values": len(batch[self.answers])}

    def compared(
        self, model: Model, values: Array, truth: Array, inputs: Sequence[str]
    ) -> tuple[dict[str, float], Predictions]:
        """The mean of all examples, and the values beside the true ones."""
        scaling = model.preprocessing.target_scaling
        wanted, predicted = (scaling.mean + scaling.std * z for z in (truth, values))
        means = {"loss": float(((values - truth) ** 2).mean())}
        return means, ValuePredictions(inputs, wanted[:, 0], predicted[:, 0])

    def report(self, means: Mapping[str, float], kept: Preparation) -> dict[str, float]:
        error = means["loss"] * float(kept.target_scaling.std[0]) ** 2
        return {"mean_squared_error": error, "root_mean_squared_error": math.sqrt(error)}


def classified(
    model: Model, logits: Array, labels: Array, inputs: Sequence[str]
) -> tuple[dict[str, float], Predictions]:
    """The means of classes, and the classes beside the true ones."""
    nats, right = forward.score(logits, labels)
    means = {"classes": nats / len(labels), "classes accuracy": right / len(labels)}
    return means, ClassPredictions(inputs, label_names(model), labels, softmax(logits, axis=1))


def tensors(batch: Batch, rows: slice, device: torch.device) -> dict[str, Tensor]:
    """Some rows of a batch, where the network is."""
    import torch

    return {
        name: torch.from_numpy(np.ascontiguousarray(array[rows])).to(device)
        for name, array in batch.items()
    }
