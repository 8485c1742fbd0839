"""Objectives of images: pixels as tokens (igpt), masked patches and classes (vit)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vesalius.arguments import Progress
from vesalius.data import images, parts
from vesalius.data.batches import Batch, Batches, class_count, require_labels
from vesalius.data.inputs import label_names
from vesalius.data.settings import ImageData
from vesalius.errors import UnusableData
from vesalius.families.family import OwnConfig
from vesalius.metrics.baseline import Baseline
from vesalius.metrics.predictions import Predictions, Share
from vesalius.model import Model
from vesalius.preparation import Preparation, Scaling
from vesalius.tasks.images.baseline import by_pixels
from vesalius.tasks.objective import (
    BATCH,
    SEED,
    HeldOut,
    Objective,
    Source,
    classified,
)
from vesalius.tokenizers import Tokenizer
from vesalius.training.settings import Recipe

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from vesalius.tasks.objective import State, Sums

KEPT = ("split", "side", "colours", "mask_ratio")
"""Settings of the data that a model's preprocessing keeps, for whoever evaluates it."""


class ImageObjective(Objective):
    """Square images of one size."""

    data = ImageData

    def source(
        self, recipe: Recipe, tokenizer: Tokenizer | None, progress: Progress, read: Any = None
    ) -> Source:
        data: ImageData = recipe.data  # type: ignore[assignment]
        train, valid, split = parts.image_parts(data, recipe.seed)
        _, _, side, width = train.pixels.shape
        if side != width:
            raise UnusableData(f"expected square images, got {side} x {width}")
        implied = self.implied(data, train)
        if self.classes:
            require_labels(train, valid)
            implied[self.classes] = class_count(train, valid)
        common: dict[str, Any] = {"training": train, "validation": valid}
        common |= {"batch": recipe.training.batch, "seed": recipe.seed}
        common["scaling"] = images.ImageParts(**common).scale
        kept = self.kept(data, train, common["scaling"])
        digest = hashlib.sha256(train.pixels.tobytes())
        digest.update(b"" if train.labels is None else train.labels.tobytes())
        return Source(
            implied,
            lambda config, batch: self.batches(data, config, {**common, "batch": batch}),
            digest.hexdigest(),
            preprocessing=Preparation(
                names=train.names if self.classes else None,
                **{**self.changed(data, KEPT), **kept},
                **self.remembered(recipe, split),
            ),
        )

    def held_out(self, model: Model, corpus: str, progress: Progress) -> HeldOut:
        kept, config = self.preprocessing_of(model), model.config
        data = ImageData(corpus=corpus, **kept.settings((*KEPT, "levels")))
        wanted, scaling = self.reads(data, config, kept)
        part, which = parts.held_out_images(data, kept.held_out)
        if part.pixels.shape[1:] != wanted:
            words = "{1} x {2} pixels in {0} colours"
            raise UnusableData(
                f"the model reads images of {words.format(*wanted)}, "
                f"but {corpus} has {words.format(*part.pixels.shape[1:])}"
            )
        if self.classes:
            part = parts.relabelled(part, corpus, kept, getattr(config, self.classes))
        common = {"training": part, "validation": part, "batch": BATCH, "seed": SEED}
        batches = self.batches(data, config, {**common, "scaling": scaling})
        return HeldOut(self, batches, part=which, examples=part)

    def implied(self, data: ImageData, train: images.Images) -> dict[str, Any]:
        """What the images imply for the model."""
        return {"image": train.pixels.shape[-1], "channels": train.pixels.shape[1]}

    def kept(self, data: ImageData, train: images.Images, scaling: Scaling) -> dict[str, Any]:
        """How pixels are prepared."""
        return scaling.to_json()

    def reads(
        self, data: ImageData, config: OwnConfig, kept: Preparation
    ) -> tuple[tuple[int, ...], Scaling | None]:
        """The shape of images that a model reads, and the scaling of their pixels."""
        scaling = kept.scaling(config.channels, axes=(1, 1))
        return (config.channels, config.image, config.image), scaling

    def batches(self, data: ImageData, config: OwnConfig, common: Mapping[str, Any]) -> Batches:
        raise AssertionError("every objective has its own")


@dataclass(frozen=True, kw_only=True)
class Pixels(ImageObjective):
    """−Σ log p(pixel): of the next one, or of masked ones."""

    masked: bool = False

    def implied(self, data: ImageData, train: images.Images) -> dict[str, Any]:
        return {"vocabulary": data.levels + 1, "context": train.pixels.shape[-1] ** 2}

    def kept(self, data: ImageData, train: images.Images, scaling: Scaling) -> dict[str, Any]:
        return {"levels": data.levels, "side": train.pixels.shape[-1]}

    def reads(
        self, data: ImageData, config: OwnConfig, kept: Preparation
    ) -> tuple[tuple[int, ...], Scaling | None]:
        if kept.levels is None or data.side is None:
            raise kept.unfitting("levels and side")
        if data.levels >= config.vocabulary or data.side**2 > config.context:
            most = f"fewer levels than {config.vocabulary}, and a side whose square is at most"
            raise kept.unfitting(f"{most} {config.context}")
        return (1, data.side, data.side), None

    def batches(self, data: ImageData, config: OwnConfig, common: Mapping[str, Any]) -> Batches:
        if self.masked:
            return images.MaskedPixels(levels=data.levels, ratio=data.mask_ratio, **common)
        return images.PixelSequences(levels=data.levels, **common)

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        logits = network(batch["ids"])
        return self.cross_entropy("token", logits, batch["targets"], network.training), state

    def terms(self, batch: Batch) -> dict[str, int]:
        return self.counted("token", self.targets(batch))

    def report(self, means: Mapping[str, float], kept: Preparation) -> dict[str, float]:
        nats, right = means["token"], Share(means["token accuracy"])
        return {"nats_per_pixel": nats, "bits_per_pixel": nats / math.log(2), "accuracy": right}


class MaskedPatches(ImageObjective):
    """Σ (ŷ − y)² over the values of masked patches."""

    def batches(self, data: ImageData, config: OwnConfig, common: Mapping[str, Any]) -> Batches:
        return images.MaskedPatches(patch=config.patch, ratio=data.mask_ratio, **common)

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        from vesalius.models.vision import patches

        masked, pixels = batch["masked"], batch["pixels"]
        restored = network(pixels, masked).patches
        side = round((pixels.shape[-1] * pixels.shape[-2] / masked.shape[1]) ** 0.5)
        wanted = patches(pixels, side)
        return {"patches": (restored - wanted)[masked].square().sum()}, state

    def terms(self, batch: Batch) -> dict[str, int]:
        values = batch["pixels"][0].size // batch["masked"].shape[1]
        return {"patches": int(batch["masked"].sum()) * values}

    def report(self, means: Mapping[str, float], kept: Preparation) -> dict[str, float]:
        return {"mean_squared_error": means["loss"]}


class ImageClasses(ImageObjective):
    """−Σ log p(class)."""

    classes = "classes"

    def batches(self, data: ImageData, config: OwnConfig, common: Mapping[str, Any]) -> Batches:
        return images.LabelledImages(shift=data.shift, mirror=data.mirror, **common)

    def logits(self, network: Module, batch: dict[str, Tensor]) -> Tensor:
        found: Tensor = network(batch["pixels"]).logits
        return found

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        logits = self.logits(network, batch)
        return self.cross_entropy("classes", logits, batch["labels"], network.training), state

    def terms(self, batch: Batch) -> dict[str, int]:
        return self.counted("classes", len(batch["labels"]))

    def measured(
        self, model: Model, batches: Iterable[Batch], held_out: HeldOut
    ) -> tuple[dict[str, float], Predictions | None]:
        logits, labels = self.outputs(model, batches, self.logits)
        return classified(model, logits, labels, held_out.examples.origins)

    def baselines(self, model: Model, held_out: HeldOut, progress: Progress) -> list[Baseline]:
        data, seed = self.trained_on(model)
        training, _, split = parts.image_parts(data, seed)
        self.require_unchanged(model, split, data.corpus)
        training = training if data.side is None else images.shrunk(training, data.side)
        progress("a baseline of pixels", 0, None)
        return by_pixels(training, held_out.examples, label_names(model), seed)


NEXT_PIXEL = Pixels(
    name="next-pixel", title="the next pixel", losses=("token",), settings={"causal": True}
)
MASKED_PIXELS = Pixels(
    name="masked-pixels",
    title="masked pixels",
    losses=("token",),
    settings={"causal": False},
    masked=True,
)
MASKED_PATCHES = MaskedPatches(
    name="masked-patches",
    title="masked patches, by squared error",
    losses=("patches",),
    settings={"masked_patch_head": True},
    defaults={"classes": 0},
    heads=("mask_token", "patch_head"),
)
CLASSES = ImageClasses(
    name="image-classes",
    title="the class of an image",
    losses=("classes",),
    defaults={"masked_patch_head": False},
    heads=("class_head",),
)
