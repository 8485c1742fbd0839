"""What training did to a model's input, and what it was trained on: ``preprocessing.json``.

Training writes it beside the weights; evaluating, dissecting and using a model read it. Files come
from anywhere, so that a value is checked where it is used, against the shapes of its model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.errors import CheckpointMismatch

COLUMNS = ("second", "group", "length")
"""What is written of a table's texts even where there is none."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Values at zero mean and unit deviation in every channel (7.2), and back."""

    mean: Float[Array, "..."]
    std: Float[Array, "..."]

    @classmethod
    def of(cls, values: Sequence[Float[Array, "_ C"]] | Float[Array, "series n C"]) -> Self:
        """The scaling of some series, whose gaps do not count; a constant is only shifted."""
        rows = np.concatenate(values).astype(np.float64)  # sums of equal singles are exact in it
        known = ~np.isnan(rows)
        count = np.maximum(1, known.sum(axis=0))
        mean = np.where(known, rows, 0).sum(axis=0) / count
        std = np.sqrt((np.where(known, rows - mean, 0) ** 2).sum(axis=0) / count)
        return cls(mean, np.where(std > 0, std, 1))

    def apply(self, values: Array) -> Array:
        return np.asarray((values - self.mean) / self.std, np.float32)

    def undo(self, values: Array) -> Array:
        return np.asarray(values * self.std + self.mean, np.float32)

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean.ravel().tolist(), "std": self.std.ravel().tolist()}


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What a model keeps; the names are those of the file, and None is what it does not say."""

    task: str | None = None
    """What a model was trained for, where its heads do not tell: a task of another package."""
    labels: str | None = None
    """What a head of labels gives for a text: classes, labels or values."""
    target_mean: float | None = None
    target_std: float | None = None
    """The scaling of values that are predicted."""
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    """The scaling of every channel; pixels are 0 to 255."""
    levels: int | None = None
    """Of pixels as tokens: equal levels of grey."""
    names: Sequence[str] | None = None
    """The classes, labels or tags by their numbers; empty where they are only numbered."""
    channels: Sequence[str] | None = None
    """The channels of a series along time."""
    batch: int | None = None
    """Of forecasts: the windows of a batch in training."""

    # Settings of the data, which evaluating and using a model take over.
    text: str | None = None
    second: str | None = None
    label: str | None = None
    separator: str | None = None
    group: str | None = None
    length: int | None = None
    word: int | None = None
    column: int | None = None
    case: bool | None = None
    stride: int | None = None
    question: int | None = None
    side: int | None = None
    colours: int | None = None
    window: int | None = None
    mask_ratio: float | None = None
    mask_length: float | None = None
    borders: str | None = None
    split: float | None = None
    test: float | None = None

    impossible: bool | None = None
    """Whether some questions that were trained on have no answer."""
    held_out: Mapping[str, Any] | None = None
    """The hash of the files that were trained on, and how they were split."""
    recipe: Mapping[str, Any] | None = None
    """The seed and the data of the recipe."""
    intervals: Mapping[str, Sequence[Sequence[float]]] | None = None
    """Of forecasts, by level: half the width for each time step and channel, in scaled units."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """What a file says besides; it is written again."""

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> "Preparation":
        known = {name: value for name, value in written.items() if name in SETTINGS}
        return cls(**known, others={k: v for k, v in written.items() if k not in SETTINGS})

    def to_json(self) -> dict[str, Any]:
        table = self.separator is not None
        every = {name: getattr(self, name) for name in SETTINGS}
        known = {k: v for k, v in every.items() if v is not None or (table and k in COLUMNS)}
        return {**known, **self.others}

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return bool(self.to_json())

    def change(self, **changes: Any) -> "Preparation":
        return replace(self, **changes)

    def settings(self, names: Sequence[str]) -> dict[str, Any]:
        """Those among some settings of the data that are known."""
        return {name: v for name in names if (v := getattr(self, name)) is not None}

    def scaling(self, channels: int, axes: tuple[int, ...] = ()) -> Scaling:
        """The scaling of the input; ``axes`` are lengths that follow the channels' axis."""
        return self._scaling(self.mean, self.std, channels, axes)

    @property
    def target_scaling(self) -> Scaling:
        """The scaling of values that are predicted."""
        return self._scaling([self.target_mean], [self.target_std], 1, ())

    def _scaling(self, mean: Any, std: Any, channels: int, axes: tuple[int, ...]) -> Scaling:
        try:
            means, stds = (np.array(value, np.float64) for value in (mean, std))
        except (TypeError, ValueError):
            means = stds = np.zeros(0)
        fits = means.shape == stds.shape == (channels,)
        if not fits or not np.isfinite([means, stds]).all() or not (stds > 0).all():
            raise self.unfitting(f"mean and std, {channels} finite numbers each")
        return Scaling(means.reshape(-1, *axes), stds.reshape(-1, *axes))

    def class_names(self, classes: int) -> list[str]:
        """What the classes are called; their numbers where they have no names."""
        names = self._names("names", classes, "classes")
        return names or [str(number) for number in range(classes)]

    def channel_names(self, channels: int) -> tuple[str, ...]:
        """What channels were called in training; empty if nobody knows."""
        return tuple(self._names("channels", channels, "channels"))

    def _names(self, key: str, count: int, what: str) -> list[str]:
        names = getattr(self, key) or []
        if not isinstance(names, list | tuple) or len(names) not in (0, count):
            raise self.unfitting(f"a list of {count} names of {what}", key)
        return list(map(str, names))

    def unfitting(self, expected: str, *keys: str) -> CheckpointMismatch:
        """The error about what belongs to another model; with ``keys``, it shows these alone."""
        shown = {k: v for k, v in self.to_json().items() if not keys or k in keys}
        got = ", ".join(f"{name} {value}" for name, value in shown.items())
        return CheckpointMismatch(
            f"the model's preprocessing does not fit it: expected {expected}, "
            f"got {got[:200] or 'nothing'}; take the preprocessing.json that training wrote"
        )


SETTINGS = tuple(one.name for one in fields(Preparation) if one.name != "others")
