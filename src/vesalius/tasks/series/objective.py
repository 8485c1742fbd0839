"""Objectives of time series: masked values, classes, and a number for each series (7.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from vesalius.arguments import Progress
from vesalius.data import parts, series
from vesalius.data.batches import Batch, Batches, class_count, require_labels
from vesalius.data.inputs import label_names
from vesalius.data.settings import SeriesData
from vesalius.errors import UnusableData
from vesalius.families.family import OwnConfig
from vesalius.metrics.baseline import Baseline
from vesalius.metrics.predictions import Predictions
from vesalius.model import Model
from vesalius.preparation import Preparation, Scaling
from vesalius.tasks.objective import (
    BATCH,
    SEED,
    HeldOut,
    Objective,
    Source,
    ValueObjective,
    classified,
)
from vesalius.tasks.series.baseline import nearest_series
from vesalius.tokenizers import Tokenizer
from vesalius.training.settings import Recipe

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from vesalius.tasks.objective import State, Sums

KEPT = ("split", "window", "stride", "label", "mask_ratio", "mask_length")
"""Settings of the data that a model's preprocessing keeps, for whoever evaluates it."""


class SeriesObjective(Objective):
    """Series of the same channels, z-scored."""

    data = SeriesData
    any_stretch: ClassVar[bool] = False
    """Whether a series may be evaluated in stretches as long as the model's context."""

    def source(
        self, recipe: Recipe, tokenizer: Tokenizer | None, progress: Progress, read: Any = None
    ) -> Source:
        data: SeriesData = recipe.data  # type: ignore[assignment]
        train, valid, split = parts.series_parts(data, recipe.seed, read)
        longest = max(len(values) for part in (train, valid) for values in part.values)
        implied = {"channels": train.values[0].shape[1], "context": longest}
        implied |= self.implied(train, valid)
        if self.classes:
            require_labels(train, valid)
            implied[self.classes] = class_count(train, valid)
        common: dict[str, Any] = {"training": train, "validation": valid}
        common |= {"batch": recipe.training.batch, "seed": recipe.seed}
        common["scaling"] = Scaling.of(train.values)
        kept = Preparation(
            **self.kept(train),
            **common["scaling"].to_json(),
            names=train.names if self.classes else None,
            **self.changed(data, KEPT),
            **self.remembered(recipe, split),
        )
        common |= self.scaled_targets(kept)
        digest = hashlib.sha256()
        for array in (*train.values, train.labels, train.targets):
            digest.update(b"" if array is None else array.tobytes())
        return Source(
            implied,
            lambda config, batch: self.batches(data, config, {**common, "batch": batch}),
            digest.hexdigest(),
            preprocessing=kept,
        )

    def held_out(self, model: Model, corpus: str, progress: Progress) -> HeldOut:
        kept, config = self.preprocessing_of(model), model.config
        channels: int = config.channels  # type: ignore[attr-defined]
        context = config.longest
        data = SeriesData(corpus=corpus, **kept.settings(KEPT))
        window = context if self.any_stretch else None
        part, which = parts.held_out_series(data, kept.held_out, window)
        for values in part.values:
            if values.shape[1] != channels or len(values) > context:
                raise UnusableData(
                    f"the model reads series of {channels} channels and up to "
                    f"{context} time steps, but {corpus} has one of {values.shape[1]} channels "
                    f"and {len(values)} time steps"
                )
        if self.classes:
            part = parts.relabelled(part, corpus, kept, getattr(config, self.classes))
        common: dict[str, Any] = {"training": part, "validation": part, "batch": BATCH}
        common |= {"seed": SEED, "scaling": kept.scaling(channels)}
        common |= self.scaled_targets(kept)
        return HeldOut(self, self.batches(data, config, common), part=which, examples=part)

    def baselines(self, model: Model, held_out: HeldOut, progress: Progress) -> list[Baseline]:
        if not (self.classes or self.fitted):
            return super().baselines(model, held_out, progress)
        data, seed = self.trained_on(model)
        training, _, split = parts.series_parts(data, seed)
        self.require_unchanged(model, split, data.corpus)
        scaling = model.preprocessing.scaling(training.values[0].shape[1])
        names = label_names(model) if self.classes else None
        return nearest_series(training, held_out.examples, scaling, names)

    def implied(self, train: series.Series, valid: series.Series) -> dict[str, int]:
        """What the series imply for the model's head; what cannot be learnt from is refused."""
        return {}

    def kept(self, train: series.Series) -> dict[str, Any]:
        """How targets are prepared."""
        return {}

    def scaled_targets(self, kept: Preparation) -> dict[str, Scaling]:
        """The scaling of targets, for batches that have them."""
        return {}

    def batches(self, data: SeriesData, config: OwnConfig, common: Mapping[str, Any]) -> Batches:
        raise AssertionError("every objective has its own")


class MaskedSeries(SeriesObjective):
    """Σ (ŷ − y)² over the masked values."""

    any_stretch = True

    def batches(self, data: SeriesData, config: OwnConfig, common: Mapping[str, Any]) -> Batches:
        lengths = {"context": config.context, "mean_length": data.mask_length}
        return series.MaskedSeries(ratio=data.mask_ratio, **lengths, **common)

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        restored = network(batch["series"], batch["real"])
        return {"series": (restored - batch["target"])[batch["masked"]].square().sum()}, state

    def terms(self, batch: Batch) -> dict[str, int]:
        return {"series": int(batch["masked"].sum())}

    def report(self, means: Mapping[str, float], kept: Preparation) -> dict[str, float]:
        return {"mean_squared_error": means["loss"]}


class SeriesClasses(SeriesObjective):
    """−Σ log p(class)."""

    classes = "outputs"

    def batches(self, data: SeriesData, config: OwnConfig, common: Mapping[str, Any]) -> Batches:
        return series.LabelledSeries(context=config.context, **common)

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        logits = outputs(network, batch)
        return self.cross_entropy("classes", logits, batch["labels"], network.training), state

    def terms(self, batch: Batch) -> dict[str, int]:
        return self.counted("classes", len(batch["labels"]))

    def measured(
        self, model: Model, batches: Iterable[Batch], held_out: HeldOut
    ) -> tuple[dict[str, float], Predictions | None]:
        logits, labels = self.outputs(model, batches, outputs)
        return classified(model, logits, labels, held_out.examples.origins)


class SeriesValues(ValueObjective, SeriesObjective):
    """A value for each series."""

    answers = "targets"

    def implied(self, train: series.Series, valid: series.Series) -> dict[str, int]:
        series.require_targets(train, valid)
        return {"outputs": 1}

    def kept(self, train: series.Series) -> dict[str, Any]:
        assert train.targets is not None
        return self.scaling_of(train.targets)

    def scaled_targets(self, kept: Preparation) -> dict[str, Scaling]:
        return {"target_scaling": kept.target_scaling}

    def batches(self, data: SeriesData, config: OwnConfig, common: Mapping[str, Any]) -> Batches:
        return series.TargetedSeries(context=config.context, **common)

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        return self.answered(outputs(network, batch), batch["targets"]), state

    def measured(
        self, model: Model, batches: Iterable[Batch], held_out: HeldOut
    ) -> tuple[dict[str, float], Predictions | None]:
        values, truth = self.outputs(model, batches, outputs)
        return self.compared(model, values, truth, held_out.examples.origins)


def outputs(network: Module, batch: dict[str, Tensor]) -> Tensor:
    """What the head gives for whole series."""
    found: Tensor = network(batch["series"], batch["real"])
    return found


MASKED = MaskedSeries(
    name="masked-series",
    title="masked values of a series, by squared error",
    losses=("series",),
    settings={"head": "series"},
)
CLASSES = SeriesClasses(
    name="series-classes",
    title="the class of a series",
    losses=("classes",),
    settings={"head": "classes"},
)
VALUES = SeriesValues(
    name="series-values",
    title="a number for a series, by squared error",
    losses=("values",),
    settings={"head": "regression"},
)
