"""Windows of a token file, from which the next token is to be predicted (19 to 21).

``Windows`` begin anywhere and know nothing of each other. ``Streams`` follow the text, so that a
recurrent network can carry its state from one window to the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy import ndarray as Array

from vesalius.data.batches import Batch, generator, spread
from vesalius.data.masking import IGNORED
from vesalius.data.tokens import Tokens
from vesalius.errors import EmptyCorpus


@dataclass(frozen=True)
class Windows:
    """{"ids": batch x window, "targets": batch x window}; or, by ffnn, "targets": batch.

    Validation goes through the text once, and predicts each token but the first, or, by ffnn, but
    the first window. Nothing is asked of places beyond the end of the text.
    """

    tokens: Tokens
    held_out: Tokens
    window: int
    batch: int
    seed: int
    single: bool = False
    """Whether only the token after the window is predicted, as by ffnn."""
    notes: tuple[str, ...] = ()
    """What of the text is not read as it is."""

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
        if self.single:
            starts = np.arange(len(ids) - self.window)
        else:
            starts = np.arange(0, len(ids) - 1, self.window)
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
    notes: tuple[str, ...] = ()
    """What of the text is not read as it is."""

    def __post_init__(self) -> None:
        for tokens, purpose in ((self.tokens, "to train on"), (self.held_out, "to validate on")):
            require_length(tokens, self.window, purpose, self.batch)

    def train(self, step: int) -> Batch:
        # Each row begins where the one before it ends. An epoch begins at another place each time,
        # so that windows are cut at other words and all of the text has its turn.
        ids, stride = self.tokens.ids, self.batch * self.window
        windows = max(1, (len(ids) - 1 - self.window) // stride)
        epoch, position = divmod(step, windows)
        offset = int(generator(self.seed, epoch).integers(len(ids) - windows * stride))
        return self._batch(ids, offset, windows * self.window, position)

    def valid(self, most: int | None = None) -> Iterator[Batch]:
        """One stream for each row of a batch, from its beginning; each token but the first once.

        Nothing is asked of places beyond the end of a row.
        """
        ids = self.held_out.ids
        length = -(-(len(ids) - 1) // self.batch)
        windows = -(-length // self.window)
        if most is not None:
            windows = min(windows, max(1, most // self.batch))
        for position in range(windows):
            yield self._batch(ids, 0, length, position)

    def _batch(self, ids: Array, offset: int, length: int, position: int) -> Batch:
        """Rows of ``length`` tokens from an offset on: the windows at one position of each."""
        begin = offset + np.arange(self.batch) * length
        batch = _cut(ids, begin + position * self.window, self.window, begin + length)
        return {**batch, "fresh": np.full(self.batch, position == 0)}


def require_length(tokens: Tokens, window: int, purpose: str, streams: int = 1) -> None:
    wanted = streams * (window + 1)
    if len(tokens.ids) < wanted:
        rows = f", {streams} times" if streams > 1 else ""
        raise EmptyCorpus(
            f"the text {purpose} has {len(tokens.ids):,} tokens, but a window of {window} and the "
            f"token after it need {window + 1:,}{rows}; give more text, or shorten the window"
        )


def _cut(ids: Array, starts: Array, window: int, ends: Array | None = None) -> Batch:
    """Windows from their starts on; targets go up to the end of the text, or to the ends given."""
    last = len(ids) - 1
    places = starts[:, None] + np.arange(window + 1)
    rows = ids[np.minimum(places, last)].astype(np.int64)
    beyond = places[:, 1:] > (last if ends is None else np.minimum(ends, last)[:, None])
    return {"ids": rows[:, :-1], "targets": np.where(beyond, IGNORED, rows[:, 1:])}
