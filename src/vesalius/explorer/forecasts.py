"""What the page shows of a forecast: in the units of its series, with an interval and times.

The numbers of a run are scaled as the model reads them; here mean and deviation are put back.
"""

from typing import Any

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.errors import WrongKind, WrongLength
from vesalius.explorer.runs import Run
from vesalius.families import family_of
from vesalius.model import Model
from vesalius.preparation import Scaling
from vesalius.tasks.forecasting.use import LEVEL, in_units


def forecasts(model: Model) -> bool:
    """Whether a model gives the time steps that follow a series."""
    return family_of(model.config).forecast is not None


def scaling_of(model: Model) -> Scaling | None:
    """What the model's series were scaled by, channel by channel; None where nothing says it."""
    if not model.preprocessing:
        return None
    return model.preprocessing.scaling(model.config.symbols()["C"])


def told(run: Run, cell: tuple[int, ...]) -> dict[str, Any]:
    """The value at a channel and time step, its interval, and what it was scaled by."""
    channel, step = cell
    (value,), ends, scaling = *_ahead(run, channel, step), scaling_of(_model(run))
    return {
        "channel": channel,
        "step": step,
        "time": _times(run)[1][step],
        "value": float(value),
        "ends": None if ends is None else [float(end[0]) for end in ends],
        "level": LEVEL,
        "mean": 0.0 if scaling is None else float(scaling.mean[channel]),
        "std": 1.0 if scaling is None else float(scaling.std[channel]),
        "scaled": scaling is not None,
    }


def course(run: Run, channel: int) -> dict[str, Any]:
    """A channel: its look-back, the forecast with its interval, and what followed, if it is known.

    Intervals are of the model as it is: with cuts there are none.
    """
    model, given, follows = _model(run), run.trace.graph.given, run.what.follows
    if not forecasts(model) or given is None:
        raise WrongKind(f"{run.trace.family} forecasts no series")
    if not 0 <= channel < len(given):
        raise WrongLength(f"the series has channels 0 to {len(given) - 1}, got {channel}")
    scaling, past = scaling_of(model), given[channel].astype(np.float64)
    if scaling is not None:
        past = past * scaling.std[channel] + scaling.mean[channel]
    values, ends = _ahead(run, channel)
    before, after = _times(run)
    return {
        "channel": channel,
        "past": past.tolist(),
        "values": values.tolist(),
        "ends": None if ends is None else [end.tolist() for end in ends],
        "level": LEVEL,
        "follows": None if follows is None else follows[channel].astype(np.float64).tolist(),
        "before": before,
        "after": after,
    }


def in_units_of_the_series(run: Run, values: Array) -> Array:
    """Values of all channels and time steps, channels x time, as the series has them."""
    scaling = scaling_of(_model(run))
    if scaling is None:
        return values
    found: Array = values * scaling.std[:, None] + scaling.mean[:, None]
    return found


def _model(run: Run) -> Model:
    assert run.trace.model is not None
    return run.trace.model


def _ahead(
    run: Run, channel: int, step: int | None = None
) -> tuple[Array, tuple[Array, Array] | None]:
    """The forecast of a channel, or one step of it, and the ends of its intervals."""
    model = _model(run)
    scaled = run.trace["Omega_hat"].T.astype(np.float64)
    values, lower, upper = in_units(model, scaled, LEVEL, scaling_of(model))
    steps = slice(None) if step is None else slice(step, step + 1)
    if lower is None or upper is None or run.edited:
        return values[steps, channel], None
    return values[steps, channel], (lower[steps, channel], upper[steps, channel])


def _times(run: Run) -> tuple[list[str], list[str]]:
    """When the steps of the look-back and of the forecast are; numbers where nothing says it."""
    given, horizon = run.trace.graph.given, run.trace["Omega_hat"].shape[1]
    known = list(run.what.times)
    if given is None or len(known) != given.shape[1] + horizon:
        back = 0 if given is None else given.shape[1]
        return [str(k - back) for k in range(back)], [f"+{k + 1}" for k in range(horizon)]
    return known[:-horizon], known[-horizon:]
