"""Split conformal intervals of forecasts: made of validation's errors, kept with the model.

For each time step of the horizon and each channel, an interval reaches as far to either side as the
share ``level`` of validation's errors do. That it holds this share of what follows is certain where
errors are exchangeable; windows overlap and series drift, so that it is a good guess.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.errors import ImpossibleSetting
from vesalius.preparation import Preparation

LEVELS = (0.5, 0.8, 0.9, 0.95)
"""The shares that models keep intervals for."""


def conformal(sizes: Float[Array, "windows horizon C"]) -> dict[str, Any]:
    """Half the width of every interval, from the sizes of errors.

    Of m errors the ⌈(m + 1) level⌉-th is taken; where there are too few, the largest.
    """
    ordered = np.sort(sizes, axis=0)
    many = len(ordered)
    ranks = {level: min(many, int(np.ceil((many + 1) * level))) for level in LEVELS}
    return {
        str(level): [[float(f"{size:.4g}") for size in row] for row in ordered[rank - 1].tolist()]
        for level, rank in ranks.items()
    }


def half_width(
    kept: Preparation, level: float, horizon: int, channels: int
) -> Float[Array, "horizon C"] | None:
    """Half the width of a model's intervals, in scaled units; None where it keeps none."""
    intervals = kept.intervals
    if not intervals:
        return None
    found = intervals.get(str(level)) if isinstance(intervals, Mapping) else None
    if found is None:
        raise ImpossibleSetting(
            f"the model keeps no interval of level {level}; it has {', '.join(intervals)}"
        )
    try:
        widths = np.array(found, np.float64)
    except (TypeError, ValueError):
        widths = np.zeros(0)
    if widths.ndim != 2 or len(widths) < horizon or widths.shape[1] != channels:
        raise kept.unfitting(f"intervals of {horizon} time steps and {channels} channels", "none")
    return widths[:horizon]
