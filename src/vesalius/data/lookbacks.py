"""What a forecast is made from, by number: windows of a series, in its own units and times."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.data.timelines import Timeline, Windows, brief
from vesalius.machine.properties import cached_property


@dataclass(frozen=True, eq=False)
class LookBacks:
    """The windows of a part of a series, one for each time step that a forecast can begin with."""

    timeline: Timeline
    windows: Windows
    """Of the timeline's values, as they are."""

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, number: int) -> tuple[Float[Array, "C tau"], Float[Array, "C T"]]:
        """The look-back of a window, and what followed."""
        past, future = self.windows.rows(np.array([number]))
        return past[0].T, future[0].T

    def times(self, number: int) -> tuple[str, ...]:
        """When the steps of the look-back and of the horizon were; empty where nothing says it."""
        start = self._start(number)
        windows = self.windows
        return self._brief[start - windows.context : start + windows.horizon]

    def when(self, number: int) -> str:
        """The first time step that is forecast."""
        start = self._start(number)
        return self._brief[start] if self._brief else f"step {start + 1}"

    @cached_property
    def _brief(self) -> tuple[str, ...]:
        return brief(self.timeline.times)

    def _start(self, number: int) -> int:
        return max(self.windows.first, self.windows.context) + number
