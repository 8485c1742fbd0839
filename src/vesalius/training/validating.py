"""Validation: the means of an objective over examples that were held out.

A run validates on its source's batches. For a model that is trained already the batches are made
here, of what it brings along: its configuration, and the preprocessing that training kept.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch

from vesalius.data import images, series
from vesalius.data.batches import Batch, Batches, Scaling
from vesalius.errors import CheckpointMismatch, UnusableData, nearest
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

Part = TypeVar("Part", images.Images, series.Series)


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
            raise _unfitting("levels and side", kept)
        if data.levels >= config.vocabulary or data.side**2 > config.context:
            most = f"fewer levels than {config.vocabulary}, and a side whose square is at most"
            raise _unfitting(f"{most} {config.context}", kept)
        wanted = (1, data.side, data.side)
    else:
        scaling = _scaling(kept, config.channels, axes=(1, 1))
        wanted = (config.channels, config.image, config.image)
    part = held_out_images(data)
    if part.pixels.shape[1:] != wanted:
        words = "{1} x {2} pixels in {0} colours"
        raise UnusableData(
            f"the model reads images of {words.format(*wanted)}, "
            f"but {corpus} has {words.format(*part.pixels.shape[1:])}"
        )
    if objective == "image-classes":
        part = _labelled(part, corpus, kept, config.classes)
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
        part = _labelled(part, corpus, kept, config.outputs)
    common = {"training": part, "validation": part, "batch": batch, "seed": seed}
    scaling = _scaling(kept, config.channels)
    return series_batches(objective, data, config, {**common, "scaling": scaling})


def _of(kept: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: kept[name] for name in names if name in kept}


def _scaling(kept: Mapping[str, Any], channels: int, axes: tuple[int, ...] = ()) -> Scaling:
    try:
        mean, std = (np.array(kept[name], np.float64) for name in ("mean", "std"))
    except (KeyError, TypeError, ValueError):
        mean = std = np.zeros(0)
    fits = mean.shape == std.shape == (channels,)
    if not fits or not np.isfinite([mean, std]).all() or not (std > 0).all():
        raise _unfitting(f"mean and std, {channels} finite numbers each", kept)
    return Scaling(mean.reshape(-1, *axes), std.reshape(-1, *axes))


def _unfitting(expected: str, kept: Mapping[str, Any]) -> CheckpointMismatch:
    got = ", ".join(f"{name} {value}" for name, value in kept.items())
    return CheckpointMismatch(
        f"the model's preprocessing does not fit it: expected {expected}, "
        f"got {got[:200] or 'nothing'}; take the preprocessing.json that training wrote"
    )


def _labelled(part: Part, corpus: str, kept: Mapping[str, Any], classes: int) -> Part:
    """The examples with the classes that the model knows, which go by their names if they can."""
    if part.labels is None:
        raise UnusableData(
            f"{corpus} has no labels, but the model tells {classes} classes apart; "
            f"expected a class for each example"
        )
    labels = part.labels
    known = list(kept.get("names") or map(str, range(classes)))
    strange = [name for name in part.names if name not in known]
    if part.names and not strange:
        labels = np.array([known.index(name) for name in part.names])[labels]
    elif strange and (kept.get("names") or len(part.names) != classes):
        raise UnusableData(
            f"{corpus} has the class {strange[0]!r}, which the model does not know; "
            f"{nearest(strange[0], known)}"
        )
    if labels.max() >= classes:
        raise UnusableData(
            f"the model tells {classes} classes apart, 0 to {classes - 1}, "
            f"but {corpus} has the class {labels.max()}"
        )
    return replace(part, labels=labels)
