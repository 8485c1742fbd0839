"""Time series to learn from: files of the UEA archive, and tables of one long series.

Batches are z-scored by the training part alone. Until then a gap is NaN, as is the padding after a
short series; in a batch both are 0, which is the mean, and neither is ever to be restored.
"""

import csv
import io
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from numpy.lib.stride_tricks import sliding_window_view
from numpy.random import Generator

from vesalius.data.batches import Batch, generator, shuffled, spread
from vesalius.data.masking import geometric_masks
from vesalius.errors import (
    BrokenFile,
    EmptyCorpus,
    ImpossibleSetting,
    NotFinite,
    SequenceTooLong,
    UnusableData,
    WrongLength,
    nearest,
)

TRAINING, VALIDATION = 1, 2  # ends of random keys; without an end, the key is that of the shuffling


@dataclass(frozen=True, eq=False)
class Series:
    """Series of any lengths, all with the same channels."""

    values: Sequence[Float[Array, "n C"]] | Float[Array, "series n C"]
    labels: Int[Array, " series"] | None = None
    names: tuple[str, ...] = ()
    """What the labels are called."""

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Table:
    """One long series."""

    values: Float[Array, "n C"]
    names: tuple[str, ...]
    """What the channels are called."""


def read_ts(path: str | Path) -> Series:
    """The series of a ``.ts`` file, the format of the UEA archive and of sktime.

    Channels are separated by colons, values by commas, and ``?`` or NaN is a gap. A label ends the
    line where the header lists classes.
    """
    path = Path(path)
    numbered = enumerate(_text(path).split("\n"), 1)
    lines = [(n, s.strip()) for n, s in numbered if s.strip() and not s.startswith("#")]
    start = next((i for i, (_, line) in enumerate(lines) if line.lower() == "@data"), None)
    if start is None:
        raise BrokenFile(f"{path} has no line @data; expected a .ts file of the UEA archive")
    channels, names = _header(path, [line for _, line in lines[:start]])
    values, labels = [], []
    for number, line in lines[start + 1 :]:
        cells = line.split(":")
        if names:
            labels.append(_label(f"{path}, line {number}", cells.pop(), names))
        channels = channels or len(cells)
        if len(cells) != channels:
            raise UnusableData(
                f"{path}, line {number}: expected {channels} channels, got {len(cells)}"
            )
        values.append(_one_series(f"{path}, line {number}", cells))
    if not values:
        raise EmptyCorpus(f"{path} holds no series; expected one a line after @data")
    return Series(tuple(values), np.array(labels, np.int64) if names else None, names)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BrokenFile(f"{path} is not UTF-8 text: {error}") from error


def _header(path: Path, lines: list[str]) -> tuple[int | None, tuple[str, ...]]:
    """The number of channels, if it is said, and the names of the classes."""
    tags = {tag.lower(): rest for tag, *rest in map(str.split, lines)}

    def says(tag: str) -> bool:
        return [word.lower() for word in tags.get(tag, [])[:1]] == ["true"]

    for tag, what in (("@timestamps", "time stamps"), ("@targetlabel", "numbers as targets")):
        if says(tag):
            raise UnusableData(f"{path} has {what}; expected plain values, with or without classes")
    names = tuple(tags["@classlabel"][1:]) if says("@classlabel") else ()
    if says("@classlabel") and not names:
        raise BrokenFile(f"{path} lists no classes after @classLabel true")
    said = (tags.get("@dimensions") or tags.get("@dimension") or ["1" * says("@univariate")])[0]
    if said and not said.isdecimal():
        raise BrokenFile(f"{path}: expected a whole number of dimensions, got {said!r}")
    return int(said or 0) or None, names


def _label(where: str, label: str, names: tuple[str, ...]) -> int:
    if label.strip() not in names:
        raise UnusableData(f"{where}: no class {label.strip()!r}; {nearest(label, names)}")
    return names.index(label.strip())


def _one_series(where: str, channels: list[str]) -> Float[Array, "n C"]:
    columns = []
    for number, text in enumerate(channels, 1):
        cells = text.replace("?", "nan").split(",")
        numbers = _numbers(cells)
        if numbers is None or np.isinf(numbers).any():
            wrong = next(c for c in cells if (x := _numbers([c])) is None or np.isinf(x).any())
            raise UnusableData(
                f"{where}, channel {number}: expected numbers, got {wrong!r}; a gap is written ?"
            )
        columns.append(numbers)
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(str(len(column)) for column in columns)
        raise UnusableData(f"{where}: expected channels of one length, got {lengths}")
    series = np.stack(columns, axis=1)
    if np.isnan(series).all():
        raise UnusableData(f"{where}: the series is one gap; expected values, or leave it out")
    return series


def _numbers(cells: Sequence[str] | Sequence[Sequence[str]]) -> Array | None:
    """Texts as numbers in single precision, NaN and infinity among them; None if some are none."""
    try:
        with np.errstate(over="ignore"):
            return np.array(cells, np.float64).astype(np.float32)
    except ValueError:
        return None


def read_csv(path: str | Path, columns: Sequence[str] | None = None) -> Table:
    """One long series from a table with a line of names: all columns, or those named.

    A first column in which nothing is a number holds dates or times, and is left out.
    """
    path = Path(path)
    reader = csv.reader(io.StringIO(_text(path)))
    rows = [(reader.line_num, row) for row in reader if row]
    if len(rows) < 2:
        raise EmptyCorpus(f"{path} holds no rows; expected a line of names and lines of numbers")
    names = [name.strip() for name in rows.pop(0)[1]]
    if _numbers(names) is not None:
        raise UnusableData(f"{path} starts with numbers; expected the columns' names there")
    for line, row in rows:
        if len(row) != len(names):
            raise UnusableData(f"{path}, line {line}: expected {len(names)} cells, got {len(row)}")
    dated = all(_numbers([row[0]]) is None for _, row in rows)
    chosen = names[dated:] if columns is None else list(columns)
    if unknown := [name for name in chosen if name not in names]:
        raise UnusableData(f"{path} has no column {unknown[0]!r}; {nearest(unknown[0], names)}")
    if not chosen:
        raise UnusableData(f"{path} has no column of numbers; expected some, separated by commas")
    places = [names.index(name) for name in chosen]
    values = _numbers([[row[place] for place in places] for _, row in rows])
    if values is None or not np.isfinite(values).all():
        raise _not_a_number(path, rows, {place: names[place] for place in places})
    return Table(values, tuple(chosen))


def _not_a_number(
    path: Path, rows: list[tuple[int, list[str]]], names: dict[int, str]
) -> UnusableData | NotFinite:
    """The complaint about the first cell of these columns that holds no number."""
    for line, row in rows:
        for place, name in names.items():
            number = _numbers([row[place]])
            if number is None or not np.isfinite(number).all():
                kind = UnusableData if number is None else NotFinite
                return kind(
                    f"{path}, line {line}, column {name!r}: expected a number, got {row[place]!r}; "
                    f"fill the gap in the file, or choose columns without one"
                )
    raise AssertionError("all cells are numbers")


def parts(values: Float[Array, "n C"], *sizes: float) -> list[Float[Array, "part C"]]:
    """Consecutive parts of a long series: shares of it (0.7, 0.1, 0.2), or counts of rows."""
    if all(isinstance(size, int) for size in sizes):
        ends = [int(end) for end in accumulate(sizes)]
    elif all(0 < size <= 1 for size in sizes):
        ends = [round(len(values) * end) for end in accumulate(sizes)]
    else:
        raise ImpossibleSetting(f"expected shares up to 1, or whole numbers of rows, got {sizes}")
    ends = [0, *ends]
    if ends[-1] > len(values) or any(start >= end for start, end in pairwise(ends)):
        raise ImpossibleSetting(
            f"{len(values)} rows cannot be cut into parts of {', '.join(map(str, sizes))}; "
            f"expected at least one row for each, and no more than there are"
        )
    return [values[start:end] for start, end in pairwise(ends)]


def windows(
    values: Float[Array, "n C"], length: int, stride: int = 1
) -> Float[Array, "windows length C"]:
    """All windows of a length, a stride apart, as views of the series."""
    if length < 1 or stride < 1:
        raise ImpossibleSetting(f"expected length and stride from 1, got {length} and {stride}")
    if len(values) < length:
        raise WrongLength(f"a series of {len(values)} rows has no window of {length}; shorten it")
    return sliding_window_view(values, length, axis=0)[::stride].swapaxes(1, 2)


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


Part = TypeVar("Part", bound=Sized)


@dataclass(frozen=True, eq=False, kw_only=True)
class TwoParts(Generic[Part]):
    """Examples to train on, in a new order every epoch, and examples to validate on, in theirs."""

    training: Part
    validation: Part
    batch: int
    seed: int = 0

    def train(self, step: int) -> Batch:
        rows = shuffled(len(self.training), self.batch, step, self.seed)
        return self.examples(self.training, rows, generator(self.seed, step, TRAINING))

    def valid(self, most: int | None = None) -> Iterator[Batch]:
        chosen = spread(len(self.validation), most)
        for number, start in enumerate(range(0, len(chosen), self.batch)):
            rows = chosen[start : start + self.batch]
            yield self.examples(self.validation, rows, generator(self.seed, number, VALIDATION))

    def examples(self, part: Part, rows: Int[Array, " batch"], random: Generator) -> Batch:
        """Some examples of a part as a batch."""
        raise AssertionError("every kind of batch makes its own")


@dataclass(frozen=True, eq=False, kw_only=True)
class PaddedSeries(TwoParts[Series]):
    """Series padded to the model's length, scaled as the training part or as it is said."""

    context: int
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        for name, part in (("training", self.training), ("validation", self.validation)):
            for number, values in enumerate(part.values):
                _require_fitting(f"series {number} of the {name} part", values, self)

    @cached_property
    def scale(self) -> Scaling:
        return self.scaling or Scaling.of(self.training.values)

    def padded(
        self, part: Series, rows: Int[Array, " batch"]
    ) -> tuple[Float[Array, "batch n C"], Bool[Array, "batch n C"]]:
        """Scaled values, and which of them are known: neither gaps nor padding."""
        channels = self.training.values[0].shape[1]
        values = np.full((len(rows), self.context, channels), np.nan, np.float32)
        for place, row in enumerate(rows):
            values[place, : len(part.values[row])] = part.values[row]
        known = ~np.isnan(values)
        return np.where(known, self.scale.apply(values), np.float32(0)), known


def _require_fitting(name: str, values: Array, batches: PaddedSeries) -> None:
    channels = batches.training.values[0].shape[1]
    if len(values) > batches.context:
        raise SequenceTooLong(
            f"{name} has {len(values)} time steps, the context {batches.context}; "
            f"choose a longer context, or cut the series into windows"
        )
    if values.shape[1] != channels:
        raise UnusableData(f"{name} has {values.shape[1]} channels, the first one has {channels}")


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledSeries(PaddedSeries):
    """Series with their classes: ``series``, which steps are ``real``, and ``labels``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_labels(self.training, self.validation)

    def examples(self, part: Series, rows: Int[Array, " batch"], random: Generator) -> Batch:
        assert part.labels is not None
        series, known = self.padded(part, rows)
        return {"series": series, "real": known.any(axis=2), "labels": part.labels[rows]}


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedSeries(PaddedSeries):
    """Series to be restored: ``series`` with zeros where ``masked``, ``target``, and ``real``."""

    ratio: float = 0.15
    mean_length: float = 3
    separate: bool = True

    def examples(self, part: Series, rows: Int[Array, " batch"], random: Generator) -> Batch:
        target, known = self.padded(part, rows)
        batch, n, C = target.shape
        masked = known & geometric_masks(
            random, batch, n, C, self.ratio, self.mean_length, self.separate
        )
        if not masked.any():  # a mean over no value would be no number
            masked[tuple(random.choice(np.argwhere(known)))] = True
        series = np.where(masked, np.float32(0), target)
        return {"series": series, "target": target, "masked": masked, "real": known.any(axis=2)}


class Labelled(Protocol):
    """A part whose examples may have classes."""

    @property
    def labels(self) -> Array | None: ...
    @property
    def names(self) -> tuple[str, ...]: ...


def require_labels(training: Labelled, validation: Labelled) -> None:
    """Refuse parts without labels, or whose labels are called differently."""
    for name, part in (("training", training), ("validation", validation)):
        if part.labels is None:
            raise UnusableData(f"the {name} part has no labels; expected a class for each example")
    if training.names != validation.names:
        raise UnusableData(
            f"the classes to train on are {', '.join(training.names) or 'without names'}, "
            f"those to validate on {', '.join(validation.names) or 'without names'}; "
            f"expected the same"
        )
