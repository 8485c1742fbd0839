"""Time series to learn from: files of the UEA archive, and tables of one long series.

Batches are z-scored by the training part alone. Until then a gap is NaN, as is the padding after a
short series; in a batch both are 0, which is the mean, and neither is ever to be restored.
"""

import csv
import io
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from numpy.lib.stride_tricks import sliding_window_view
from numpy.random import Generator

from vesalius.checkpoints.plain import require_end
from vesalius.data.batches import Batch, TwoParts
from vesalius.data.masking import geometric_masks
from vesalius.errors import (
    BrokenFile,
    EmptyCorpus,
    ImpossibleSetting,
    NotFinite,
    UnusableData,
    WrongLength,
    nearest,
)
from vesalius.machine.properties import cached_property
from vesalius.preparation import Scaling

TIMES = ("date", "datetime", "ds", "time", "timestamp", "year", "")
"""What a first column of times is called, whatever it holds; pandas calls its index nothing."""


@dataclass(frozen=True, eq=False)
class Series:
    """Series of any lengths, all with the same channels."""

    values: Sequence[Float[Array, "n C"]] | Float[Array, "series n C"]
    labels: Int[Array, " series"] | None = None
    names: tuple[str, ...] = ()
    """What the labels are called."""
    targets: Float[Array, " series"] | None = None
    """A number for each series, for regression."""
    origins: tuple[str, ...] = ()
    """Where each series comes from: its line in a file, or its file."""

    def __len__(self) -> int:
        return len(self.values)

    def chosen(self, rows: Int[Array, " some"]) -> "Series":
        return self.of([self.values[row] for row in rows], rows)

    def of(self, values: Sequence[Float[Array, "n C"]], rows: Int[Array, " some"]) -> "Series":
        """Other values, with the labels and targets of some of these."""
        labels = None if self.labels is None else self.labels[rows]
        targets = None if self.targets is None else self.targets[rows]
        origins = tuple(self.origins[row] for row in rows) if self.origins else ()
        return Series(values, labels, self.names, targets, origins)


@dataclass(frozen=True, eq=False)
class Table:
    """One long series."""

    values: Float[Array, "n C"]
    names: tuple[str, ...]
    """What the channels are called."""
    labels: tuple[str, ...] = ()
    """The class of each row, if a column says it."""


def read_ts(path: str | Path) -> Series:
    """The series of a ``.ts`` file, the format of the UEA archive and of sktime.

    Channels are separated by colons, values by commas, and ``?`` or NaN is a gap. A label ends the
    line where the header lists classes, and a number where it says that there are targets.
    """
    path = Path(path)
    numbered = enumerate(_text(path).split("\n"), 1)
    lines = [(n, s.strip()) for n, s in numbered if s.strip() and not s.startswith("#")]
    start = next((i for i, (_, line) in enumerate(lines) if line.lower() == "@data"), None)
    if start is None:
        raise BrokenFile(f"{path} has no line @data; expected a .ts file of the UEA archive")
    channels, names, targeted = _header(path, [line for _, line in lines[:start]])
    values, labels, targets = [], list[int](), list[float]()
    places = tuple(f"{path.name}, line {number}" for number, _ in lines[start + 1 :])
    for number, line in lines[start + 1 :]:
        cells = line.split(":")
        if names:
            labels.append(_label(f"{path}, line {number}", cells.pop(), names))
        elif targeted:
            targets.append(_target(f"{path}, line {number}", cells.pop()))
        if not cells:
            raise UnusableData(f"{path}, line {number}: expected values before what ends the line")
        channels = channels or len(cells)
        if len(cells) != channels:
            raise UnusableData(
                f"{path}, line {number}: expected {channels} channels, got {len(cells)}"
            )
        values.append(_one_series(f"{path}, line {number}", cells))
    if not values:
        raise EmptyCorpus(f"{path} holds no series; expected one a line after @data")
    return Series(
        tuple(values),
        np.array(labels, np.int64) if names else None,
        names,
        np.array(targets, np.float64) if targeted else None,
        places,
    )


def _text(path: Path) -> str:
    require_end(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BrokenFile(f"{path} is not UTF-8 text: {error}; save it as UTF-8") from error


def _header(path: Path, lines: list[str]) -> tuple[int | None, tuple[str, ...], bool]:
    """The number of channels, if it is said, the names of classes, and if there are targets."""
    tags = {tag.lower(): rest for tag, *rest in map(str.split, lines)}

    def says(tag: str) -> bool:
        return [word.lower() for word in tags.get(tag, [])[:1]] == ["true"]

    if says("@timestamps"):
        raise UnusableData(f"{path} has time stamps; expected plain values")
    if says("@classlabel") and says("@targetlabel"):
        raise BrokenFile(f"{path} says that it has classes and targets; expected one of them")
    names = tuple(tags["@classlabel"][1:]) if says("@classlabel") else ()
    if says("@classlabel") and not names:
        raise BrokenFile(f"{path} lists no classes after @classLabel true")
    said = (tags.get("@dimensions") or tags.get("@dimension") or ["1" * says("@univariate")])[0]
    if said and not re.fullmatch("[0-9]{1,9}", said):
        raise BrokenFile(f"{path}: expected a whole number of dimensions, got {said!r}")
    return int(said or 0) or None, names, says("@targetlabel")


def _target(where: str, text: str) -> float:
    number = _numbers([text])
    if number is None or not np.isfinite(number).all():
        raise UnusableData(f"{where}: expected a number to end the line, got {text.strip()!r}")
    return float(text)


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


def read_rows(path: str | Path) -> list[tuple[int, list[str]]]:
    """The rows of a table with commas, and the lines that they end in; empty ones are left out."""
    reader = csv.reader(io.StringIO(_text(Path(path))))
    try:
        return [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise BrokenFile(f"{path}, line {reader.line_num}: {error}") from error


_DATE = re.compile(
    r"(\d{4})([-/])(\d{1,2})\2(\d{1,2})(?:[ T](\d{1,2}):(\d\d)(?::(\d\d))?)?", re.ASCII
)


def moment(text: str) -> datetime | None:
    """The date, or date and time, that a text is: by ISO 8601, or as in 2024/1/31 0:00."""
    text = text.strip()
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    if found := _DATE.fullmatch(text):
        year, month, day, hour, minute, second = (int(found[i] or 0) for i in (1, 3, 4, 5, 6, 7))
        with suppress(ValueError):
            return datetime(year, month, day, hour, minute, second)
    return None


def read_csv(path: str | Path, label: str | None = None) -> Table:
    """One long series from a table with a line of names.

    A first column that is called date or the like, or in which nothing is a number, holds times,
    and is left out; so is the column that holds labels.
    """
    rows = read_rows(path)
    if len(rows) < 2:
        raise EmptyCorpus(f"{path} holds no rows; expected a line of names and lines of numbers")
    names = [name.strip() for name in rows.pop(0)[1]]
    headless = names[1:] and moment(names[0]) and _numbers(names[1:]) is not None
    if headless or _numbers(names) is not None:
        raise UnusableData(f"{path} starts with numbers; expected the columns' names there")
    if twice := {name for name in names if names.count(name) > 1}:
        raise UnusableData(f"{path} has the column {min(twice)!r} twice; expected different names")
    for line, row in rows:
        if len(row) != len(names):
            raise UnusableData(f"{path}, line {line}: expected {len(names)} cells, got {len(row)}")
    dated = names[0].lower() in TIMES or all(_numbers([row[0]]) is None for _, row in rows)
    chosen = [name for name in names[dated:] if name != label]
    if label is not None and label not in names:
        raise UnusableData(f"{path} has no column {label!r}; {nearest(label, names)}")
    if not chosen:
        raise UnusableData(f"{path} has no column of numbers; expected some, separated by commas")
    places = [names.index(name) for name in chosen]
    values = _numbers([[row[place] for place in places] for _, row in rows])
    if values is None or not np.isfinite(values).all():
        raise _not_a_number(Path(path), rows, {place: names[place] for place in places})
    if label is None:
        return Table(values, tuple(chosen))
    labels = [(line, row[names.index(label)].strip()) for line, row in rows]
    if empty := [line for line, text in labels if not text]:
        raise UnusableData(f"{path}, line {empty[0]}, column {label!r}: expected a class, got none")
    return Table(values, tuple(chosen), tuple(text for _, text in labels))


def has_column(path: str | Path, name: str) -> bool:
    """Whether a table has a column of this name."""
    return any(name in [column.strip() for column in row] for _, row in read_rows(path)[:1])


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
                    f"fill the gap, or leave the column out; a column of classes is said as label"
                )
    raise AssertionError("all cells are numbers")


def read_series(path: str | Path, label: str | None = None) -> Series:
    """The series of a .ts file, of a .csv file, or of a folder of those."""
    path = Path(path)
    if not path.exists():
        raise BrokenFile(
            f"there is no {str(path)!r} to read series from; "
            f"expected a .ts file, a .csv file, or a folder of .csv files"
        )
    if path.is_dir() or path.suffix.lower() == ".csv":
        return read_tables(path, label)
    return read_ts(path)


def table_files(path: str | Path) -> list[Path]:
    """A file itself; of a folder, its tables."""
    path = Path(path)
    return sorted(path.glob("*.csv")) if path.is_dir() else [path]


def read_tables(path: str | Path, label: str | None = None) -> Series:
    """The series of a CSV file, or of those in a folder.

    Every file is a series; where a column holds labels, every stretch of rows with the same one.
    """
    path = Path(path)
    files = table_files(path)
    if not files:
        raise EmptyCorpus(f"{path} holds no .csv files; expected one for each series")
    tables = [read_csv(file, label=label) for file in files]
    for file, table in zip(files, tables, strict=True):
        if table.names != tables[0].names:
            raise UnusableData(
                f"expected files with the same columns: {files[0]} has "
                f"{', '.join(tables[0].names)}; {file} has {', '.join(table.names)}"
            )
    if label is None:
        return Series([table.values for table in tables], origins=tuple(f.name for f in files))
    names = sorted({text for table in tables for text in table.labels})
    values, labels, places = list[Array](), list[int](), list[str]()
    for file, table in zip(files, tables, strict=True):
        classes = np.array([names.index(text) for text in table.labels])
        edges = [0, *(np.flatnonzero(np.diff(classes)) + 1).tolist(), len(classes)]
        values += [table.values[start:end] for start, end in pairwise(edges)]
        labels += classes[edges[:-1]].tolist()
        places += [f"{file.name}, rows {start} to {end - 1}" for start, end in pairwise(edges)]
    return Series(values, np.array(labels, np.int64), tuple(names), origins=tuple(places))


def renamed(series: Series, names: Sequence[str]) -> Series:
    """The same classes, numbered by their places among more names."""
    assert series.labels is not None
    places = np.array([names.index(name) if name in names else -1 for name in series.names])
    labels = places[series.labels]
    assert (labels >= 0).all(), "classes that examples have are among the names"
    return replace(series, labels=labels, names=tuple(names))


def windows(
    values: Float[Array, "n C"], length: int, stride: int = 1
) -> Float[Array, "windows length C"]:
    """All windows of a length, a stride apart, as views of the series."""
    if length < 1 or stride < 1:
        raise ImpossibleSetting(f"expected length and stride from 1, got {length} and {stride}")
    if len(values) < length:
        raise WrongLength(f"a series of {len(values)} rows has no window of {length}; shorten it")
    return sliding_window_view(values, length, axis=0)[::stride].swapaxes(1, 2)


def cut(series: Series, length: int, stride: int | None = None) -> Series:
    """Every series as windows, one after the other or a stride apart; short ones stay whole."""
    cuts = [
        [values] if len(values) <= length else list(windows(values, length, stride or length))
        for values in series.values
    ]
    rows = np.repeat(np.arange(len(cuts)), [len(some) for some in cuts])
    return series.of([window for some in cuts for window in some], rows)


def split(series: Series, share: float) -> tuple[Series, Series]:
    """Every series but for the last share of its time, and that share where it is a time step."""
    cuts = [(values, max(1, round(len(values) * (1 - share)))) for values in series.values]
    later = np.flatnonzero([end < len(values) for values, end in cuts])
    if not len(later):
        longest = max(len(values) for values in series.values)
        raise ImpossibleSetting(
            f"a share of {share} of {longest} time steps is none; name others to validate on as "
            f"valid, or set split higher"
        )
    before, after = [values[:end] for values, end in cuts], [values[end:] for values, end in cuts]
    everyone = np.arange(len(cuts))
    return series.of(before, everyone), series.of(after, everyone).chosen(later)


@dataclass(frozen=True, eq=False, kw_only=True)
class PaddedSeries(TwoParts[Series]):
    """Series padded to the model's length, scaled as the training part or as it is said."""

    context: int
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        first = self.training.values[0].shape[1]
        for name, part in (("training", self.training), ("validation", self.validation)):
            for number, values in enumerate(part.values):
                if values.shape[1] != first:
                    raise UnusableData(
                        f"series {number} of the {name} part has {values.shape[1]} channels, "
                        f"the first one has {first}"
                    )

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


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledSeries(PaddedSeries):
    """Series with their classes: ``series``, which steps are ``real``, and ``labels``."""

    def examples(self, part: Series, rows: Int[Array, " batch"], random: Generator) -> Batch:
        assert part.labels is not None
        series, known = self.padded(part, rows)
        return {"series": series, "real": known.any(axis=2), "labels": part.labels[rows]}


@dataclass(frozen=True, eq=False, kw_only=True)
class TargetedSeries(PaddedSeries):
    """Series with a number each: ``series``, which steps are ``real``, and z-scored ``targets``."""

    target_scaling: Scaling

    def __post_init__(self) -> None:
        super().__post_init__()
        require_targets(self.training, self.validation)

    def examples(self, part: Series, rows: Int[Array, " batch"], random: Generator) -> Batch:
        assert part.targets is not None
        series, known = self.padded(part, rows)
        real = np.asarray(known.any(axis=2))
        targets = self.target_scaling.apply(part.targets[rows, None])
        return {"series": series, "real": real, "targets": targets}


def require_targets(training: Series, validation: Series) -> None:
    """Refuse parts without numbers to regress to."""
    for name, part in (("training", training), ("validation", validation)):
        if part.targets is None:
            raise UnusableData(
                f"the {name} part has no targets; expected a .ts file that says @targetLabel true, "
                f"with a number at the end of each line"
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedSeries(PaddedSeries):
    """Series to be restored: ``series`` with zeros where ``masked``, ``target``, and ``real``."""

    ratio: float = 0.15
    mean_length: float = 3

    def examples(self, part: Series, rows: Int[Array, " batch"], random: Generator) -> Batch:
        target, known = self.padded(part, rows)
        batch, n, C = target.shape
        masked = known & geometric_masks(random, batch, n, C, self.ratio, self.mean_length)
        if not masked.any():  # a mean over no value would be no number
            masked[tuple(random.choice(np.argwhere(known)))] = True
        series = np.where(masked, np.float32(0), target)
        return {"series": series, "target": target, "masked": masked, "real": known.any(axis=2)}
