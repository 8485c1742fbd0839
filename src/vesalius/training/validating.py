"""Validation: the means of an objective over examples that were held out.

A run validates on its source's batches. For a model that is trained already the batches are made
here, of what it brings along: its configuration, and the preprocessing that training kept.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from vesalius.data import preprocessing
from vesalius.data.batches import Batch, Batches
from vesalius.errors import UnusableData
from vesalius.training.objectives import Objective, State, tensors
from vesalius.training.recipe import ImageData, SeriesData
from vesalius.training.sources import (
    IMAGES_AS,
    SERIES_AS,
    held_out_images,
    held_out_series,
    image_batches,
    series_batches,
)


@torch.no_grad()
def validated(
    network: Any,
    objective: Objective,
    batches: Iterable[Batch],
    device: torch.device | None = None,
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> dict[str, float]:
    """The means of all sums over the batches, and the loss that they come to."""
    network.eval()
    device = device or torch.device("cpu")
    totals: dict[str, float] = {}
    counts: dict[str, int] = {}
    state: State = None
    for batch in batches:
        with precision():
            whole = tensors(batch, slice(None), device)
            sums, state = objective.sums(network, whole, state)
        for name, number in objective.terms(batch).items():
            if name in sums:
                totals[name] = totals.get(name, 0.0) + sums[name].item()
                counts[name] = counts.get(name, 0) + number
    means = {name: total / max(1, counts[name]) for name, total in totals.items()}
    return {"loss": sum(means[name] for name in objective.losses), **means}


def image_examples(
    objective: str, corpus: str, config: Any, kept: Mapping[str, Any], batch: int, seed: int
) -> Batches:
    """Images that a model is to be validated on, as it saw those that it was trained on."""
    data = ImageData(corpus=corpus, **_of(kept, *IMAGES_AS, "levels"))
    scaling = None
    if objective in ("next-pixel", "masked-pixels"):
        if "levels" not in kept or data.side is None:
            raise preprocessing.unfitting("levels and side", kept)
        if data.levels >= config.vocabulary or data.side**2 > config.context:
            most = f"fewer levels than {config.vocabulary}, and a side whose square is at most"
            raise preprocessing.unfitting(f"{most} {config.context}", kept)
        wanted = (1, data.side, data.side)
    else:
        scaling = preprocessing.scaling(kept, config.channels, axes=(1, 1))
        wanted = (config.channels, config.image, config.image)
    part = held_out_images(data)
    if part.pixels.shape[1:] != wanted:
        words = "{1} x {2} pixels in {0} colours"
        raise UnusableData(
            f"the model reads images of {words.format(*wanted)}, "
            f"but {corpus} has {words.format(*part.pixels.shape[1:])}"
        )
    if objective == "image-classes":
        part = preprocessing.labelled(part, corpus, kept, config.classes)
    common = {"training": part, "validation": part, "batch": batch, "seed": seed}
    return image_batches(objective, data, config, {**common, "scaling": scaling})


def series_examples(
    objective: str, corpus: str, config: Any, kept: Mapping[str, Any], batch: int, seed: int
) -> Batches:
    """Series that a model is to be validated on, scaled as those that it was trained on."""
    data = SeriesData(corpus=corpus, **_of(kept, *SERIES_AS))
    if objective == "masked-series" and data.window is None:  # any stretch of a series will do
        data = data.change(window=config.context)
    part = held_out_series(data)
    for values in part.values:
        if values.shape[1] != config.channels or len(values) > config.context:
            raise UnusableData(
                f"the model reads series of {config.channels} channels and up to "
                f"{config.context} time steps, but {corpus} has one of {values.shape[1]} channels "
                f"and {len(values)} time steps"
            )
    if objective == "series-classes":
        part = preprocessing.labelled(part, corpus, kept, config.outputs)
    common: dict[str, Any] = {"training": part, "validation": part, "batch": batch, "seed": seed}
    common["scaling"] = preprocessing.scaling(kept, config.channels)
    if objective == "series-values":
        of_target = {name: [kept.get(f"target_{name}")] for name in ("mean", "std")}
        common["target_scaling"] = preprocessing.scaling(of_target, 1)
    return series_batches(objective, data, config, common)


def _of(kept: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: kept[name] for name in names if name in kept}
