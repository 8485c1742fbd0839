"""The objective of forecasts: the mean square error of scaled values (P.13)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray as Array
from numpy.random import Generator

from vesalius.arguments import Progress
from vesalius.data import timelines
from vesalius.data.batches import Batch, Batches, TwoParts
from vesalius.data.settings import ForecastData
from vesalius.families.family import OwnConfig
from vesalius.metrics.baseline import Baseline
from vesalius.metrics.predictions import Predictions
from vesalius.model import Model
from vesalius.preparation import Preparation, Scaling
from vesalius.tasks.forecasting.baseline import by_past, last_value
from vesalius.tasks.forecasting.intervals import conformal, half_width
from vesalius.tasks.forecasting.metrics import ChannelRow, ForecastPredictions
from vesalius.tasks.objective import HeldOut, Objective, Source, tensors
from vesalius.tokenizers import Tokenizer
from vesalius.training.settings import Recipe

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from vesalius.tasks.objective import State, Sums

KEPT = ("borders", "split", "test")
AT_ONCE = 64
ERRORS = ("squared error", "absolute error")


@dataclass(frozen=True, eq=False, kw_only=True)
class ForecastWindows(TwoParts[timelines.Windows]):
    """Windows as ``past`` and ``future``, scaled."""

    def examples(self, part: timelines.Windows, rows: Array, random: Generator) -> Batch:
        past, future = part.rows(rows)
        return {"past": past, "future": future}


class Forecast(Objective):
    """Σ (ŷ − y)² over all channels and time steps of the horizon."""

    data = ForecastData

    def source(
        self, recipe: Recipe, tokenizer: Tokenizer | None, progress: Progress, read: Any = None
    ) -> Source:
        data: ForecastData = recipe.data  # type: ignore[assignment]
        timeline = timelines.read_timeline(data.corpus)
        scaling = Scaling.of([timeline.values[: timelines.borders(len(timeline), data)[0]]])

        def batches(config: OwnConfig, batch: int) -> Batches:
            lengths = (config.context, config.horizon)
            train, valid, _ = timelines.scaled_parts(timeline, data, scaling, *lengths)
            return ForecastWindows(training=train, validation=valid, batch=batch, seed=recipe.seed)

        kept = Preparation(
            **scaling.to_json(),
            channels=list(timeline.names),
            batch=recipe.training.batch,
            **self.changed(data, KEPT),
            **self.remembered(recipe, {}),
        )
        digest = hashlib.sha256(timeline.values.tobytes()).hexdigest()
        return Source({"channels": len(timeline.names)}, batches, digest, preprocessing=kept)

    def held_out(self, model: Model, corpus: str, progress: Progress) -> HeldOut:
        kept, config = self.preprocessing_of(model), model.config
        lengths: tuple[int, int] = (config.longest, config.horizon)  # type: ignore[attr-defined]
        channels: int = config.channels  # type: ignore[attr-defined]
        data = ForecastData(corpus=corpus, **kept.settings(KEPT))
        names = kept.channel_names(channels)
        timeline = timelines.read_timeline(corpus)
        timeline = timelines.fitted(timeline, channels, names, corpus)
        scaling = kept.scaling(channels)
        *_, test = timelines.scaled_parts(timeline, data, scaling, *lengths)
        common: dict[str, Any] = {"training": test, "validation": test, "batch": AT_ONCE}
        part = "its last part, which no recipe trains on; every window, values scaled"
        return HeldOut(self, ForecastWindows(**common), part=part, examples=test)

    def baselines(self, model: Model, held_out: HeldOut, progress: Progress) -> list[Baseline]:
        """Methods of scaled values, fitted on the windows that the model was trained on."""
        data, _ = self.trained_on(model)
        test: timelines.Windows = held_out.examples
        timeline = timelines.read_timeline(data.corpus)
        scaling = model.preprocessing.scaling(len(timeline.names))
        lengths = (test.context, test.horizon)
        train, valid, _ = timelines.scaled_parts(timeline, data, scaling, *lengths)
        progress("DLinear", 0, None)
        return by_past(train, valid, test)

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        error = network(batch["past"]) - batch["future"]
        return dict(zip(ERRORS, (error.square().sum(), error.abs().sum()), strict=True)), state

    def terms(self, batch: Batch) -> dict[str, int]:
        return dict.fromkeys(ERRORS, batch["future"].size)

    def measured(
        self, model: Model, batches: Iterable[Batch], held_out: HeldOut
    ) -> tuple[dict[str, float], Predictions | None]:
        """Errors over every window, and without those of the last batch that is not full."""
        kept = model.preprocessing
        found: dict[str, list[Array]] = {}
        by_channel = np.zeros((2, held_out.examples.values.shape[1]))
        for batch, forecast in _forecasts(model, batches):
            future = batch["future"]
            many = future.shape[1]
            off = forecast.astype(np.float64) - future
            by_channel += (off**2).mean(axis=1).sum(axis=0), np.abs(off).mean(axis=1).sum(axis=0)
            each_window = errors("", forecast, future)
            each_window |= errors("last value ", last_value(batch["past"], many), future)
            if (widths := half_width(kept, 0.9, many, future.shape[2])) is not None:
                each_window["within"] = (abs(forecast - future) <= widths).mean(axis=(1, 2))
            for name, each in each_window.items():
                found.setdefault(name, []).append(each)
        whole = {name: np.concatenate(each) for name, each in found.items()}
        full = len(whole["squared error"]) // (kept.batch or 1) * (kept.batch or 1)
        some = {f"published {name}": whole[name][:full] for name in ERRORS if full}
        means = {name: float(each.mean()) for name, each in {**whole, **some}.items()}
        names = kept.channels or [f"channel {c + 1}" for c in range(by_channel.shape[1])]
        columns = (by_channel / len(held_out.examples)).T.tolist()
        rows = (ChannelRow(str(name), *two) for name, two in zip(names, columns, strict=True))
        return means, ForecastPredictions(tuple(rows))

    def report(self, means: Mapping[str, float], kept: Preparation) -> dict[str, float]:
        names = {
            "squared error": "mean_squared_error",
            "absolute error": "mean_absolute_error",
            "published squared error": "mean_squared_error_of_full_batches",
            "published absolute error": "mean_absolute_error_of_full_batches",
            "last value squared error": "mean_squared_error_of_the_last_value",
            "last value absolute error": "mean_absolute_error_of_the_last_value",
            "within": "share_within_the_90_percent_interval",
        }
        return {names[name]: means[name] for name in names if name in means}

    def calibrated(self, model: Model, batches: Batches) -> dict[str, Any]:
        """Intervals from the errors on the validation part."""
        found = _forecasts(model, batches.valid())
        return {"intervals": conformal(np.concatenate([abs(y - b["future"]) for b, y in found]))}


def errors(name: str, forecast: Array, future: Array) -> dict[str, Array]:
    """The mean squared and absolute error of every window."""
    error = forecast.astype(np.float64) - future
    of_windows = ((error**2).mean(axis=(1, 2)), np.abs(error).mean(axis=(1, 2)))
    return {f"{name}{kind}": each for kind, each in zip(ERRORS, of_windows, strict=True)}


def _forecasts(model: Model, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Array]]:
    import torch

    network = model.network.eval()
    for batch in batches:
        with torch.no_grad():
            given = tensors({"past": batch["past"]}, slice(None), torch.device("cpu"))
            yield batch, network(given["past"]).numpy()


FORECAST = Forecast(
    name="forecast",
    title="the time steps that follow, by squared error",
    losses=ERRORS[:1],
)
