"""Hugging Face's preprocessor_config.json of a ViT as our preprocessing.json, and back.

Pixels are 0 to 255 in ours and are scaled in one step: (pixel − mean) / std. Theirs are multiplied
by a factor first. They resize by interpolation, as ``classify`` and ``dissect`` do; corpora are
shrunk by means of areas. Of an image that already has its size all make the same numbers.
"""

import re
from collections.abc import Mapping
from typing import Any

from vesalius.errors import BrokenFile
from vesalius.preparation import Preparation

FILE = "preprocessor_config.json"
FACTOR = 1 / 255
LABELS = {
    "classes": "single_label_classification",
    "labels": "multi_label_classification",
    "values": "regression",
}
"""What a head of labels tells: one of several classes, several labels at once, or values; and what
their config.json calls it, as problem_type."""


def read(theirs: Mapping[str, Any], described: Mapping[str, Any], channels: int) -> Preparation:
    """Mean and deviation of the pixels, the side they are resized to, and the classes' names."""
    factor = theirs.get("rescale_factor", FACTOR) if theirs.get("do_rescale", True) else 1
    scaled = theirs.get("do_normalize", True)
    mean, std = (
        numbers(theirs.get(key, usual), channels) if scaled else [plain] * channels
        for key, usual, plain in (("image_mean", 0.5, 0.0), ("image_std", 0.5, 1.0))
    )
    if not _number(factor) or factor <= 0 or not mean or not std:
        raise BrokenFile(
            f"{FILE} should have image_mean and image_std, {channels} numbers each, and "
            f"rescale_factor, a number above 0"
        )
    size = theirs.get("size")
    side = size.get("height") if isinstance(size, dict) else size
    return Preparation(
        mean=[m / factor for m in mean],
        std=[s / factor for s in std],
        side=side if theirs.get("do_resize", True) and type(side) is int else None,
        names=names(described),
    )


def numbers(value: Any, count: int) -> list[float]:
    """So many numbers, or one for all; none where they cannot be used."""
    value = [value] * count if _number(value) else value
    fits = isinstance(value, list) and len(value) == count and all(map(_number, value))
    return [float(number) for number in value] if fits else []


def _number(value: Any) -> bool:
    return type(value) in (int, float) and -1e300 < value < 1e300


def names(described: Mapping[str, Any]) -> list[str]:
    """The classes of a config.json by their numbers, unless they are only numbered there."""
    labels = described.get("id2label") or {}
    try:
        ordered = [str(labels[key]) for key in sorted(labels, key=int)]
    except (TypeError, ValueError, LookupError):
        return []
    return [] if all(re.fullmatch(r"LABEL_\d+", name) for name in ordered) else ordered


def label_kind(kept: Preparation, described: Mapping[str, Any], labels: int) -> str:
    """What a model's labels are, by what it keeps, or by the config.json that it came with.

    As in Transformers, a single label of which nothing is said is a value.
    """
    ours = {theirs: kind for kind, theirs in LABELS.items()}
    usual = "values" if labels == 1 else "classes"
    said = kept.labels or ours.get(str(described.get("problem_type")), usual)
    if said not in LABELS:
        raise BrokenFile(f"preprocessing.json says labels {said!r}; known are {', '.join(LABELS)}")
    return str(said)


def write(kept: Preparation, side: int) -> dict[str, Any]:
    """Their file from what we keep; empty where the scaling of pixels is not kept."""
    if not isinstance(kept.mean, list) or not isinstance(kept.std, list):
        return {}
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": side, "width": side},
        "resample": 2,  # bilinear, as ViT has it
        "do_rescale": True,
        "rescale_factor": FACTOR,
        "do_normalize": True,
        "image_mean": [mean * FACTOR for mean in kept.mean],
        "image_std": [std * FACTOR for std in kept.std],
    }
