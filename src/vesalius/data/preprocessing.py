"""What training did to images and series before the model saw them, and how others do the same.

A model keeps it in ``preprocessing.json``: ``mean`` and ``std`` of every channel (pixels are 0 to
255), ``names`` of the classes, or the ``levels`` and ``side`` of pixels as tokens. Training writes
it; evaluating, dissecting and classifying read it here.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from vesalius.data.batches import Scaling, used_names
from vesalius.data.images import Images
from vesalius.data.series import Series
from vesalius.errors import CheckpointMismatch, UnusableData, nearest

Part = TypeVar("Part", Images, Series)


def kept(scaling: Scaling) -> dict[str, Any]:
    """A scaling as a model keeps it."""
    return {"mean": scaling.mean.ravel().tolist(), "std": scaling.std.ravel().tolist()}


def scaling(preprocessing: Mapping[str, Any], channels: int, axes: tuple[int, ...] = ()) -> Scaling:
    """The scaling that a model keeps; ``axes`` are lengths that follow the channels' axis."""
    try:
        mean, std = (np.array(preprocessing[name], np.float64) for name in ("mean", "std"))
    except (KeyError, TypeError, ValueError):
        mean = std = np.zeros(0)
    fits = mean.shape == std.shape == (channels,)
    if not fits or not np.isfinite([mean, std]).all() or not (std > 0).all():
        raise unfitting(f"mean and std, {channels} finite numbers each", preprocessing)
    return Scaling(mean.reshape(-1, *axes), std.reshape(-1, *axes))


def unfitting(expected: str, preprocessing: Mapping[str, Any]) -> CheckpointMismatch:
    """The complaint about preprocessing that belongs to another model."""
    got = ", ".join(f"{name} {value}" for name, value in preprocessing.items())
    return CheckpointMismatch(
        f"the model's preprocessing does not fit it: expected {expected}, "
        f"got {got[:200] or 'nothing'}; take the preprocessing.json that training wrote"
    )


def class_names(preprocessing: Mapping[str, Any], classes: int) -> list[str]:
    """What the classes are called; their numbers where they have no names."""
    names = preprocessing.get("names") or []
    if not isinstance(names, list | tuple) or len(names) not in (0, classes):
        raise unfitting(f"a list of {classes} names of classes", {"names": names})
    return [str(name) for name in names] or [str(number) for number in range(classes)]


def channel_names(preprocessing: Mapping[str, Any], channels: int) -> tuple[str, ...]:
    """What the channels of a series along time were called in training; empty if nobody knows."""
    names = preprocessing.get("channels") or []
    if not isinstance(names, list | tuple) or len(names) not in (0, channels):
        raise unfitting(f"a list of {channels} names of channels", {"channels": names})
    return tuple(map(str, names))


def labelled(part: Part, corpus: str, preprocessing: Mapping[str, Any], classes: int) -> Part:
    """The examples with the classes that the model knows, which go by their names if they can."""
    if part.labels is None:
        raise UnusableData(
            f"{corpus} has no labels, but the model tells {classes} classes apart; "
            f"expected a class for each example"
        )
    labels = part.labels
    known = class_names(preprocessing, classes)
    strange = [name for name in used_names(part) if name not in known]
    if part.names and not strange:
        places = [known.index(name) if name in known else -1 for name in part.names]
        labels = np.array(places)[labels]
    elif strange and (preprocessing.get("names") or len(part.names) != classes):
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
