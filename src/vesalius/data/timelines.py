"""Series to forecast: tables along time, their parts, and windows of look-back and horizon.

A table is wide (a column of dates, then one for each channel) or long (``unique_id, ds, y``). Parts
follow each other in time; windows to validate and test on look back into the part before, as
published. Values are scaled by the training part alone.
"""

import calendar
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

from vesalius.checkpoints.plain import require_end
from vesalius.data import parts, series
from vesalius.data.arrays import read_array
from vesalius.data.settings import ForecastData
from vesalius.errors import (
    BrokenFile,
    ImpossibleSetting,
    NotFinite,
    UnusableData,
    WrongKind,
    WrongLength,
)
from vesalius.preparation import Scaling
from vesalius.views.shown import counted

LONG = ("unique_id", "ds", "y")
"""The columns of a long table: which series, when, how much."""
MONTH = 30 * 24
PUBLISHED = {"ett-hours": 1, "ett-minutes": 4}
"""Borders of ETT as published, 12, 4 and 4 months of 30 days: rows an hour."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """One series of several channels along time, without gaps."""

    values: Float[Array, "n C"]
    names: tuple[str, ...]
    """What the channels are called."""
    times: tuple[str, ...] = ()
    """When each row was, as it was written; empty where nothing says it."""

    def __len__(self) -> int:
        return len(self.values)

    def after(self, count: int) -> list[str]:
        """The times that follow; numbers from 1 where times are unknown or keep no step."""
        read = _moments(self.times[-3:])
        try:
            known = None if read is None or len(read) < 2 else self._following(read, count)
        except (OverflowError, ValueError):  # no calendar goes beyond the year 9999
            known = None
        return [str(step) for step in range(1, count + 1)] if known is None else known

    def _following(self, read: list[Any], count: int) -> list[str]:
        step = read[-1] - read[-2]
        if isinstance(step, float):
            return [f"{read[-1] + k * step:.15g}" for k in range(1, count + 1)]
        if step.days >= 28 and all(when.day == read[-1].day for when in read):
            months = round(step.days / 30.44)
            following = [_later(read[-1], months * k) for k in range(1, count + 1)]
        else:
            following = [read[-1] + k * step for k in range(1, count + 1)]
        return _written(following, self.times)


def _later(when: datetime, months: int) -> datetime:
    year, month = divmod(when.month - 1 + months, 12)
    day = min(when.day, calendar.monthrange(when.year + year, month + 1)[1])
    return when.replace(year=when.year + year, month=month + 1, day=day)


def _written(moments: Sequence[datetime], times: Sequence[str]) -> list[str]:
    """Dates as those before them are written, with zeros before single digits or without."""
    form = _format(times[-1])
    written = [when.strftime(form) for when in moments]
    for before, after in (("[-/]", r"(?!\d)"), ("[ T]", ":")):  # of months and days, of hours
        if any(re.search(rf"(?<={before})\d{after}", time) for time in times):
            written = [re.sub(rf"(?<={before})0(?=\d{after})", "", time) for time in written]
    return written


def _format(text: str) -> str:
    if text.isdecimal():
        return "%Y%m%d"
    day = "%Y/%m/%d" if "/" in text else "%Y-%m-%d"
    between = re.search("[ T]", text)
    if between is None:
        return day
    return f"{day}{between[0]}%H:%M" + (":%S" if text.count(":") > 1 else "")


def brief(times: Sequence[str]) -> tuple[str, ...]:
    """Times without the hours, or seconds, that are zero in all of them."""
    for zero in ("[ T]00?:00(:00)?$", "(?<=:..):00$"):
        if all(re.search(zero, time) for time in times):
            return tuple(re.sub(zero, "", time) for time in times)
    return tuple(times)


def _moments(times: Sequence[str]) -> list[Any] | None:
    """Times as dates, or as numbers; None where some are neither."""
    dates = [series.moment(text) for text in times]
    if None not in dates:
        return dates
    try:
        numbers = [float(text) for text in times]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def read_timeline(source: str | os.PathLike[str] | Any) -> Timeline:
    """The series of a corpus by name, a .csv or .npy file, or an array (channels x time)."""
    if not isinstance(source, str | os.PathLike):
        return _of_array(source, "the series")
    path = Path(source)
    if not path.exists():
        (path,) = parts.located(str(source), "series", lambda file: file.suffix == ".csv")
    require_end(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _of_array(read_array(path), str(path))
    if suffix != ".csv" or not path.is_file():
        raise WrongKind(
            f"{path} cannot be read as a series along time; expected a .csv file, wide with a "
            f"column of dates or long with {', '.join(LONG)}, or a .npy file, channels x time"
        )
    if all(series.has_column(path, name) for name in LONG):
        return _read_long(path)
    table, rows = series.read_csv(path), series.read_rows(path)[1:]
    dated = len(rows[0][1]) > len(table.names)
    times = tuple(row[0].strip() for _, row in rows) if dated else ()
    _require_steady(str(path), times, _readable(str(path), times))
    return Timeline(table.values, table.names, times)


def _of_array(given: Any, name: str) -> Timeline:
    try:
        values = np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise WrongKind(f"expected an array of numbers, channels x time: {error}") from error
    values = values[None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size:
        raise WrongKind(f"{name} has shape {values.shape}; expected channels x time")
    if not np.isfinite(values).all():
        channel, step = np.argwhere(~np.isfinite(values))[0]
        raise NotFinite(
            f"{name} has a gap in channel {channel} at time step {step}: {values[channel, step]}; "
            f"fill it first"
        )
    return Timeline(values.T, _numbered(len(values)))


def _numbered(channels: int) -> tuple[str, ...]:
    """What channels are called that have no names."""
    return tuple(f"channel {c}" for c in range(1, channels + 1))


def fitted(timeline: Timeline, channels: int, names: Sequence[str], source: str) -> Timeline:
    """The series with its channels in a model's order, by the ``names`` that its training had.

    A single one may have another name: there is nothing to take it for.
    """
    found = timeline.names
    known = f": {', '.join(names)}" if names else ""
    if len(found) != channels:
        turned = "; transpose it" if len(timeline) == channels else ""
        raise WrongLength(
            f"the model reads {counted(channels, 'channel')}{known}; {source} has "
            f"{len(found)}{turned}"
        )
    if channels == 1 or not names or _numbered(channels) in (found, tuple(names)):
        return timeline
    if lacking := [name for name in names if name not in found]:
        raise UnusableData(
            f"{source} has no channel {lacking[0]!r}, but {', '.join(found)}; the model reads "
            f"{counted(channels, 'channel')}{known}; give the columns these names"
        )
    values = timeline.values[:, [found.index(name) for name in names]]
    return Timeline(values, tuple(names), timeline.times)


def _read_long(path: Path) -> Timeline:
    """A table of a row for each series and time; all series have the same times."""
    (_, first), *rows = series.read_rows(path)
    heads = [name.strip() for name in first]
    places = [heads.index(name) for name in LONG]
    found: dict[str, dict[str, float]] = {}
    for line, row in rows:
        where = f"{path}, line {line}"
        if len(row) <= max(places):
            raise BrokenFile(f"{where}: expected {', '.join(LONG)}, got {len(row)} cells")
        name, when, text = (row[place].strip() for place in places)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise NotFinite(f"{where}, column 'y': expected a number, got {text!r}; fill the gap")
        if when in found.setdefault(name, {}):
            raise UnusableData(f"{where}: {name!r} has {when} twice; expected each time once")
        found[name][when] = value
    if not found:
        raise UnusableData(f"{path} holds no rows; expected some of {', '.join(LONG)}")
    every = {when: None for one in found.values() for when in one}
    moments = dict(zip(every, _readable(str(path), tuple(every)), strict=True))
    times = sorted(every, key=moments.__getitem__)
    for name, one in found.items():
        if missing := [when for when in times if when not in one]:
            raise UnusableData(
                f"{path}: {name!r} has no value at {missing[0]}, but others have "
                f"({counted(len(missing), 'gap')}); fill it, or give each series a file of its own"
            )
    _require_steady(str(path), times, [moments[when] for when in times])
    values = np.array([[one[when] for one in found.values()] for when in times], np.float32)
    return Timeline(values, tuple(found), tuple(times))


def _readable(path: str, times: Sequence[str]) -> list[Any]:
    """Times as dates or numbers, which can be ordered; others are refused."""
    found = _moments(times)
    if found is None:
        strange = next(text for text in times if series.moment(text) is None)
        raise UnusableData(
            f"{path}: {strange!r} is not known to be a time; expected dates as in 2024-01-31, "
            f"2024-01-31 13:00 or 2024/1/31, or numbers in all rows"
        )
    if len({getattr(when, "tzinfo", None) is None for when in found}) > 1:
        raise UnusableData(f"{path}: some dates have a time zone, others none")
    return found


def _require_steady(path: str, times: Sequence[str], moments: Sequence[Any]) -> None:
    """Refuse times that do not ascend, or leave one out."""
    steps: list[Any] = [b - a for a, b in pairwise(moments)]
    for row, step in enumerate(steps):
        if step <= type(step)():
            raise UnusableData(
                f"{path}: {times[row + 1]} follows {times[row]}; expected dates that ascend"
            )
    usual: Any = median(steps) if steps else None
    for row, step in enumerate(steps):
        if step > 1.5 * usual:
            raise UnusableData(
                f"{path}: there is a gap of {step} after {times[row]}, where steps are of {usual}; "
                f"fill it first"
            )


def borders(count: int, data: ForecastData) -> tuple[int, int, int]:
    """Where the training, the validation and the test part end."""
    if data.borders in PUBLISHED:
        month = MONTH * PUBLISHED[data.borders]
        ends = (12 * month, 16 * month, 20 * month)
        if count < ends[-1]:
            raise WrongLength(
                f"[data] borders are {data.borders}, which need {ends[-1]:,} time steps; the "
                f"series has {count:,}. Leave borders out to split by shares"
            )
        return ends
    if data.split + data.test >= 1:
        raise ImpossibleSetting(
            f"[data] split {data.split} and test {data.test} leave nothing to train on"
        )
    # As published: training and test are rounded down, validation has the rest.
    train = int(round(count * (1 - data.split - data.test), 6))
    test = int(round(count * data.test, 6))
    return train, count - test, count


@dataclass(frozen=True, eq=False)
class Windows:
    """All windows whose horizon lies in one part of a series; they may look back before it."""

    name: str
    values: Float[Array, "n C"]
    first: int
    """The first row that is forecast."""
    end: int
    context: int
    horizon: int

    def __post_init__(self) -> None:
        if len(self) < 1:
            start, many = max(0, self.first - self.context), self.context + self.horizon
            raise WrongLength(
                f"the {self.name} part has {self.end - start:,} time steps to look at, fewer than "
                f"look-back and horizon, {self.context} + {self.horizon} = {many}; expected a "
                f"longer series, or a smaller [model] context or horizon"
            )

    def __len__(self) -> int:
        return max(0, self.end - max(self.first, self.context) - self.horizon + 1)

    def rows(self, rows: Int[Array, " batch"]) -> tuple[Array, Array]:
        """Look-backs and what followed: batch x context x channels, batch x horizon x channels."""
        start = max(self.first, self.context) + np.asarray(rows)[:, None]
        past = self.values[start + np.arange(-self.context, 0)]
        return past, self.values[start + np.arange(self.horizon)]


def scaled_parts(
    timeline: Timeline, data: ForecastData, scaling: Scaling, context: int, horizon: int
) -> tuple[Windows, Windows, Windows]:
    """Windows to train, to validate and to test on."""
    values, ends = scaling.apply(timeline.values), borders(len(timeline), data)
    names = ("training", "validation", "test")
    train, valid, test = (
        Windows(name, values, first, end, context, horizon)
        for name, first, end in zip(names, (0, *ends[:-1]), ends, strict=True)
    )
    return train, valid, test
