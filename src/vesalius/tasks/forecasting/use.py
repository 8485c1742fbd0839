"""What follows a series, with intervals, in its own units: what ``vesalius forecast`` shows.

The forward pass is that of the equations; the look-back is the end of the series, scaled as in
training. Intervals are conformal, from the errors on the model's validation part.
"""

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius import arguments
from vesalius.capabilities import require_served
from vesalius.checkpoints.plain import replacing
from vesalius.data.inputs import RAW, SCALED, UNKNOWN
from vesalius.data.timelines import LONG, Timeline, fitted, read_timeline
from vesalius.equations.parameters import Array
from vesalius.errors import ImpossibleSetting, WrongKind, WrongLength
from vesalius.families import family_of
from vesalius.families.family import OwnConfig
from vesalius.model import Model, ModelLike, loaded
from vesalius.preparation import Scaling
from vesalius.tasks.forecasting.intervals import half_width
from vesalius.views import pictures
from vesalius.views.pictures import Pictured
from vesalius.views.shown import Part, Table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SHOWN = 6
"""Time steps of a table at either end."""
LEVEL = 0.9
SPARKS = "▁▂▃▄▅▆▇█"
MARKS = 30
"""Blocks of a line, at most, before the forecast and of it."""


@dataclass(frozen=True, repr=False, eq=False)
class Forecast(Pictured):
    """The time steps that follow a series, one row per time step and one column per channel."""

    channels: tuple[str, ...]
    times: tuple[str, ...]
    """When each row is; numbers from 1 where the series does not say its times."""
    values: Array
    level: float
    lower: Array | None
    """The ends of intervals; None where the model keeps none."""
    upper: Array | None
    past: Array
    """The look-back that the forecast was made from."""
    prepared: str
    """What was done to the series before the model read it."""

    def __repr__(self) -> str:
        steps = f"{len(self.times)} time steps, {self.times[0]} to {self.times[-1]}"
        return f"Forecast of {', '.join(self.channels)}: {steps}\n  input: {self.prepared}"

    def view(self) -> Iterator[Part]:
        shown = [*range(len(self.times))]
        if len(shown) > 2 * SHOWN + 1:
            shown = [*shown[:SHOWN], -1, *shown[-SHOWN:]]
        rows = [self._row(i) if i >= 0 else ("…", *[""] * len(self.channels)) for i in shown]
        right = tuple(range(1, len(self.channels) + 1))
        yield Table(("time", *self.channels), rows, right=right)
        wide = max(map(len, self.channels))
        for c, name in enumerate(self.channels):
            yield f"{name:<{wide}}  {self._line(c)}"
        if self.lower is not None:
            yield f"± is an interval that is to hold {self.level:.0%} of what follows"
        yield f"input: {self.prepared}"

    def _row(self, i: int) -> tuple[str, ...]:
        if self.lower is None or self.upper is None:
            return self.times[i], *(f"{value:.4g}" for value in self.values[i])
        widths = (self.upper[i] - self.lower[i]) / 2
        both = zip(self.values[i], widths, strict=True)
        return self.times[i], *(f"{value:.4g} ± {width:.2g}" for value, width in both)

    def _line(self, c: int) -> str:
        """A channel's last values and its forecast in a line of blocks, at one pace.

        Each block is a mean: single values, some time steps apart, would show waves that are not
        there.
        """
        pace = -(-len(self.times) // MARKS)
        past, future = self.past[-MARKS * pace :, c], self.values[:, c]
        past, future = _means(past[len(past) % pace :], pace), _means(future, pace)
        both = np.concatenate([past, future])
        low, reach = both.min(), np.ptp(both) or 1.0
        marks = [SPARKS[int(7.999 * (value - low) / reach)] for value in both]
        return f"{''.join(marks[: len(past)])} | {''.join(marks[len(past) :])}"

    def to_json(self) -> dict[str, Any]:
        def listed(array: Array | None) -> list[list[float]] | None:
            return None if array is None else array.tolist()

        return {
            "channels": list(self.channels),
            "times": list(self.times),
            "values": listed(self.values),
            "level": None if self.lower is None else self.level,
            "lower": listed(self.lower),
            "upper": listed(self.upper),
            "prepared": self.prepared,
        }

    def save(self, file: str | Path) -> None:
        """Write a long table: unique_id, ds, y, and lower and upper where there are intervals."""
        file = Path(file)
        if file.suffix != ".csv":
            raise WrongKind(f"a forecast is saved as .csv, got {str(file)!r}")
        ends = [] if self.lower is None or self.upper is None else [self.lower, self.upper]
        with replacing(file) as place, place.open("w", newline="", encoding="utf-8") as opened:
            writer = csv.writer(opened)
            writer.writerow([*LONG, *(["lower", "upper"] if ends else [])])
            for c, name in enumerate(self.channels):
                for i, when in enumerate(self.times):
                    numbers = (float(array[i, c]) for array in (self.values, *ends))
                    writer.writerow([name, when, *(f"{number:.7g}" for number in numbers)])

    def picture(self) -> str:
        """Every channel: the end of its past, its forecast, and the interval around it."""
        seen = self.past[-2 * len(self.times) :]
        drawn = []
        for c, name in enumerate(self.channels):
            ends = None
            if self.lower is not None and self.upper is not None:
                ends = self.lower[:, c], self.upper[:, c]
            drawn.append(pictures.forecast(seen[:, c], self.values[:, c], ends, name))
        return pictures.beside(drawn)


def _means(values: Array, pace: int) -> Array:
    """The means of so many values that follow each other; of the last as many as there are."""
    return np.array([values[i : i + pace].mean() for i in range(0, len(values), pace)])


def forecast(
    model: ModelLike,
    series: "str | os.PathLike[str] | ArrayLike",
    horizon: int | None = None,
    level: float = LEVEL,
    *,
    raw: bool = False,
) -> Forecast:
    """The time steps that follow a series, in its own units, with intervals of a ``level``.

    ``series`` is a .csv file (wide with a column of dates, or long: unique_id, ds, y), a .npy file
    or an array, channels x time; its last values are the look-back. Columns go by the names that
    training had, in any order. ``horizon`` is how many time steps, as many as the model forecasts
    by default; ``raw`` leaves the values as they are.
    """
    model = loaded(model)
    require_served(model, "forecast")
    config: OwnConfig = model.config
    most: int = config.horizon
    many = most if horizon is None else arguments.whole("horizon", horizon, least=1)
    if many > most:
        raise ImpossibleSetting(
            f"the model forecasts {most} time steps, got horizon {many}; train one with that "
            f"[model] horizon"
        )
    source = str(series) if isinstance(series, str | os.PathLike) else "the series"
    names = model.preprocessing.channel_names(config.channels)
    timeline = fitted(read_timeline(series), config.channels, names, source)
    if len(timeline) < config.context:
        raise WrongLength(
            f"the model looks back {config.context} time steps, the series has {len(timeline)}; "
            f"give a longer one"
        )
    past = timeline.values[-config.context :]
    scaled = bool(model.preprocessing) and not raw
    if not scaled:
        return _told(model, timeline, past, past, many, level, None, RAW if raw else UNKNOWN)
    scaling = model.preprocessing.scaling(config.channels)
    return _told(model, timeline, past, scaling.apply(past), many, level, scaling, SCALED)


def _told(
    model: Model,
    timeline: Timeline,
    past: Array,
    seen: Array,
    many: int,
    level: float,
    scaling: Scaling | None,
    how: str,
) -> Forecast:
    config: OwnConfig = model.config
    run = family_of(config).forecast
    assert run is not None, "what serves forecast has one"
    dtype = next(iter(model.state.values())).dtype
    values = run(model.parameters, seen.T.astype(dtype)).T[:many].astype(np.float64)
    values, lower, upper = in_units(model, values, level, scaling)
    return Forecast(
        timeline.names,
        tuple(timeline.after(many)),
        values,
        level,
        lower,
        upper,
        np.asarray(past, np.float64),
        f"the last {config.context} of {len(timeline):,} time steps, {how}",
    )


def in_units(
    model: Model, values: Array, level: float, scaling: Scaling | None
) -> tuple[Array, Array | None, Array | None]:
    """A forecast, time x channels, in the units of its series, and the ends of its intervals.

    Without ``scaling`` it is left as it is, and has none.
    """
    if scaling is None:
        return values, None, None
    widths = half_width(model.preprocessing, level, *values.shape)
    values = values * scaling.std + scaling.mean
    if widths is None:
        return values, None, None
    return values, values - widths * scaling.std, values + widths * scaling.std
