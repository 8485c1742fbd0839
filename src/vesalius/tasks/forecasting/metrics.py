"""Forecasts: the mean squared and absolute error of each channel, over every window."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vesalius.metrics.predictions import WORST, Metrics, Predictions, more
from vesalius.views.shown import Part, Table


@dataclass(frozen=True)
class ChannelRow:
    """One channel, in the scaled values that the model reads."""

    name: str
    mean_squared_error: float
    mean_absolute_error: float


@dataclass(frozen=True, repr=False)
class ForecastMetrics(Metrics):
    """Errors by channel."""

    rows: tuple[ChannelRow, ...]

    def numbers(self) -> dict[str, float]:
        many = len(self.rows)
        return {
            "mean_squared_error": sum(row.mean_squared_error for row in self.rows) / many,
            "mean_absolute_error": sum(row.mean_absolute_error for row in self.rows) / many,
        }

    def __repr__(self) -> str:
        return f"ForecastMetrics: {', '.join(f'{k} {v:.4f}' for k, v in self.numbers().items())}"

    def tables(self) -> Iterator[Part]:
        worst = sorted(self.rows, key=lambda row: -row.mean_squared_error)
        rows = [
            (r.name, f"{r.mean_squared_error:.4f}", f"{r.mean_absolute_error:.4f}")
            for r in worst[:WORST]
        ]
        heads = ("channel", "mean squared error", "mean absolute error")
        yield Table(heads, rows, right=(1, 2))
        yield from more(len(worst), "channels")

    def to_json(self) -> dict[str, Any]:
        return {**self.numbers(), "channels": [vars(row) for row in self.rows]}


@dataclass(frozen=True, eq=False)
class ForecastPredictions(Predictions):
    """Forecasts of many windows, of which the errors by channel are kept."""

    heads = ()

    rows: tuple[ChannelRow, ...]

    def metrics(self) -> ForecastMetrics:
        return ForecastMetrics(self.rows)
