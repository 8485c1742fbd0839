"""Forecasts without a network: the last value, the last season, and DLinear.

DLinear (Zeng et al. 2023) splits a look-back into a moving average and the rest, and maps each to
the horizon by one matrix that all channels share. Its loss is a sum of squares, so that the maps
are solved for, not trained; of several ridges, validation chooses.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.data.timelines import Windows
from vesalius.errors import ImpossibleSetting
from vesalius.metrics.baseline import Baseline

KERNEL = 25
"""Time steps of DLinear's moving average, as published."""
RIDGES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
"""Shares of the mean square of an input that are added for each weight."""
AT_ONCE = 512
Past = Float[Array, "batch context C"]
Method = Callable[[Array], Array]


def last_value(past: Past, horizon: int) -> Float[Array, "batch horizon C"]:
    """The last value of every channel, again and again."""
    return np.repeat(past[:, -1:], horizon, axis=1)


def last_season(past: Past, horizon: int, season: int) -> Float[Array, "batch horizon C"]:
    """The last ``season`` time steps, again and again."""
    if not 1 <= season <= past.shape[1]:
        raise ImpossibleSetting(f"season must be 1 to {past.shape[1]}, the look-back, got {season}")
    many = -(-horizon // season)
    return np.tile(past[:, -season:], (1, many, 1))[:, :horizon]


def moving_average(past: Past, kernel: int = KERNEL) -> Past:
    """The mean of a window around every time step; the ends are repeated beyond themselves."""
    before = (kernel - 1) // 2
    padded = np.pad(past, ((0, 0), (before, kernel - 1 - before), (0, 0)), mode="edge")
    sums = np.cumsum(np.pad(padded.astype(np.float64), ((0, 0), (1, 0), (0, 0))), axis=1)
    return (sums[:, kernel:] - sums[:, :-kernel]) / kernel


@dataclass(frozen=True, eq=False)
class DLinear:
    """Two maps of a look-back, one of its moving average and one of the rest, and a bias."""

    trend: Float[Array, "context horizon"]
    rest: Float[Array, "context horizon"]
    bias: Float[Array, " horizon"]
    ridge: float

    def __call__(self, past: Past) -> Float[Array, "batch horizon C"]:
        average = moving_average(past)
        found = np.einsum("btc,th->bhc", average, self.trend, optimize=True)
        found += np.einsum("btc,th->bhc", past - average, self.rest, optimize=True)
        return np.asarray(found + self.bias[:, None])


def fit_dlinear(train: Windows, valid: Windows, ridges: Iterable[float] = RIDGES) -> DLinear:
    """The maps with the least squared error on training windows, by the ridge that validates best.

    The last window of training is reached by every channel: one row of the problem each.
    """
    n = train.context
    products, targets = np.zeros((2 * n + 1, 2 * n + 1)), np.zeros((2 * n + 1, train.horizon))
    for start in range(0, len(train), AT_ONCE):
        past, future = train.rows(np.arange(start, min(start + AT_ONCE, len(train))))
        average = moving_average(past)
        both = np.concatenate([average, past - average], axis=1).transpose(0, 2, 1)
        X = np.pad(both.reshape(-1, 2 * n), ((0, 0), (0, 1)), constant_values=1.0)
        products += X.T @ X
        targets += X.T @ future.transpose(0, 2, 1).reshape(-1, train.horizon)
    weight = np.trace(products[:-1, :-1]) / (2 * n)
    found: list[tuple[float, DLinear]] = []
    for ridge in ridges:
        held = np.diag([*np.full(2 * n, ridge * weight), 0.0])
        maps = np.linalg.lstsq(products + held, targets, rcond=None)[0]
        model = DLinear(maps[:n], maps[n:-1], maps[-1], ridge)
        found.append((measure(model, valid)[0], model))
    return min(found, key=lambda pair: pair[0])[1]


def measure(method: Method, windows: Windows, first: int | None = None) -> tuple[float, float]:
    """The mean squared and the mean absolute error over all windows, or the first of them."""
    many = len(windows) if first is None else first
    squares = sizes = 0.0
    for start in range(0, many, AT_ONCE):
        rows = np.arange(start, min(start + AT_ONCE, many))
        past, future = windows.rows(rows)
        error = method(past) - future
        squares += float((error**2).mean(axis=(1, 2)).sum())
        sizes += float(np.abs(error).mean(axis=(1, 2)).sum())
    return squares / many, sizes / many


def by_past(train: Windows, valid: Windows, test: Windows) -> list[Baseline]:
    """The last value and DLinear on the windows of a test part."""
    linear = fit_dlinear(train, valid)
    about = f"two linear maps (ridge {linear.ridge:g}), on {len(train):,} windows"
    methods: list[tuple[str, str, Method]] = [
        ("last value", "the last value again and again", lambda p: last_value(p, test.horizon)),
        ("DLinear", about, linear),
    ]
    names = ("mean_squared_error", "mean_absolute_error")
    return [
        Baseline(name, about, dict(zip(names, measure(method, test), strict=True)))
        for name, about, method in methods
    ]
