"""What training asks of data: the batch of any step, and batches to validate on.

A training batch is a function of the seed and the step alone. Nothing has to be remembered to go on
after a stop, and several processes that share a batch agree on what it is.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy import ndarray as Array

Batch = dict[str, Array]
"""Arrays by name, all with the examples along their first axis."""


class Batches(Protocol):
    """Data in the form that one objective needs."""

    def train(self, step: int) -> Batch:
        """The batch of a step, counted from 0."""

    def valid(self, most: int | None = None) -> Iterator[Batch]:
        """The validation part once, or so many examples of it at most; always the same."""


def generator(*key: int) -> np.random.Generator:
    """Random numbers that belong to a key, such as a seed and a step."""
    return np.random.default_rng(key)


def shuffled(count: int, batch: int, step: int, seed: int) -> Array:
    """Which of ``count`` examples are in the batch of a step, all of them once an epoch.

    Examples that do not fill a batch at the end of an epoch wait for another order.
    """
    batch = min(batch, count)
    epoch, position = divmod(step, count // batch)
    order = _order(count, epoch, seed)
    return order[position * batch : (position + 1) * batch]


def spread(count: int, most: int | None) -> Array:
    """Which of ``count`` examples to look at, if at ``most`` of them."""
    if most is None or count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.int64)


@lru_cache(maxsize=2)
def _order(count: int, epoch: int, seed: int) -> Array:
    return generator(seed, epoch).permutation(count)
