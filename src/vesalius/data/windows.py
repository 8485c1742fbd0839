"""Windows of a token file, from which the next token is to be predicted (19 to 21).

``Windows`` begin anywhere and know nothing of each other. ``Streams`` follow the text, so that a
recurrent network can carry its state from one window to the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy import ndarray as Array

from vesalius.data.batches import Batch, generator, spread
from vesalius.data.tokens import Tokens
from vesalius.errors import EmptyCorpus


@dataclass(frozen=True)
class Windows:
    """{"ids": batch x window, "targets": batch x window}; or, by ffnn, "targets": batch.

    Validation goes through the text once, and predicts each token but the first ones.
    """

    tokens: Tokens
    held_out: Tokens
    window: int
    batch: int
    seed: int
    single: bool = False
    """Whether only the token after the window is predicted, as by ffnn."""

    def __post_init__(self) -> None:
        require_length(self.tokens, self.window, "to train on")
        require_length(self.held_out, self.window, "to validate on")

    def train(self, step: int) -> Batch:
        starts = generator(self.seed, step).integers(
            len(self.tokens.ids) - self.window, size=self.batch
        )
        return self._batch(self.tokens.ids, starts)

    def valid(self, most: int | None = None) -> Iterator[Batch]:
        ids = self.held_out.ids
        starts = np.arange(0, len(ids) - self.window, 1 if self.single else self.window)
        starts = starts[spread(len(starts), most)]
        for i in range(0, len(starts), self.batch):
            yield self._batch(ids, starts[i : i + self.batch])

    def _batch(self, ids: Array, starts: Array) -> Batch:
        batch = _cut(ids, starts, self.window)
        return {**batch, "targets": batch["targets"][:, -1]} if self.single else batch


@dataclass(frozen=True)
class Streams:
    """ids, targets: batch x window, and fresh: batch. Each row goes on where it was a step before.

    Where a row is fresh, it begins anew.
    """

    tokens: Tokens
    held_out: Tokens
    window: int
    batch: int
    seed: int

    def __post_init__(self) -> None:
        for tokens, purpose in ((self.tokens, "to train on"), (self.held_out, "to validate on")):
            require_length(tokens, self.window, purpose, self.batch)

    def train(self, step: int) -> Batch:
        ids, streams = self.tokens.ids, self.batch
        # An epoch begins at another place each time, so that windows are cut at other words.
        spare = min(self.window, len(ids) - streams * (self.window + 1))
        length = (len(ids) - spare) // streams
        epoch, position = divmod(step, (length - 1) // self.window)
        offset = int(generator(self.seed, epoch).integers(spare + 1))
        starts = offset + np.arange(streams) * length + position * self.window
        fresh = np.full(streams, position == 0)
        return {**_cut(ids, starts, self.window), "fresh": fresh}

    def valid(self, most: int | None = None) -> Iterator[Batch]:
        """One stream for each row of a batch, from its beginning."""
        ids = self.held_out.ids
        length = len(ids) // self.batch
        windows = (length - 1) // self.window
        if most is not None:
            windows = min(windows, max(1, most // self.batch))
        for position in range(windows):
            starts = np.arange(self.batch) * length + position * self.window
            fresh = np.full(self.batch, position == 0)
            yield {**_cut(ids, starts, self.window), "fresh": fresh}


def require_length(tokens: Tokens, window: int, purpose: str, streams: int = 1) -> None:
    wanted = streams * (window + 1)
    if len(tokens.ids) < wanted:
        rows = f", {streams} times" if streams > 1 else ""
        raise EmptyCorpus(
            f"the text {purpose} has {len(tokens.ids):,} tokens, but a window of {window} and the "
            f"token after it need {window + 1:,}{rows}; give more text, or shorten the window"
        )


def _cut(ids: Array, starts: Array, window: int) -> Batch:
    rows = ids[starts[:, None] + np.arange(window + 1)].astype(np.int64)
    return {"ids": rows[:, :-1], "targets": rows[:, 1:]}
