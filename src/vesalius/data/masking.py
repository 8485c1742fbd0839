"""What a model has to restore: places of a text, of an image, or of a time series, by chance.

All take a generator and draw for a whole batch at once. What masked places become in a series or an
image is left to those who mask; the tokens of a text are replaced here, as BERT's are.
"""

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray as Array
from numpy.random import Generator

from vesalius.equations.series import series_mask
from vesalius.errors import ImpossibleSetting

IGNORED = -100
"""The target of a place that nothing is asked of."""
MASKED, REPLACED = 0.8, 0.1
"""Of BERT's chosen words: these shares become [MASK] and another token, the others stay."""


def geometric_masks(
    generator: Generator,
    batch: int,
    length: int,
    channels: int,
    ratio: float = 0.15,
    mean_length: float = 3,
) -> Bool[Array, "batch length channels"]:
    """TST's masks (7.2) of each channel: segments of geometric length, ``ratio`` of all steps."""
    kept = series_mask(batch * channels, length, ratio, mean_length, generator)
    return ~kept.reshape(batch, channels, length).swapaxes(1, 2)


def even_masks(
    generator: Generator, batch: int, length: int, ratio: float
) -> Bool[Array, "batch length"]:
    """Masks of exactly round(ratio length) places in every row, all such masks equally likely."""
    count = masked_count(length, ratio)
    return generator.random((batch, length)).argsort(axis=1) < count


def masked_count(length: int, ratio: float) -> int:
    """How many of ``length`` places are masked: at least one, and not all of them."""
    count = round(ratio * length)
    if not 0 < count < length:
        raise ImpossibleSetting(
            f"a ratio of {ratio} masks {count} of {length}; expected some of them, but not all"
        )
    return count


def mask_tokens(
    generator: Generator,
    ids: Int[Array, "batch n"],
    candidates: Bool[Array, "batch n"],
    mask_id: int,
    replacements: int | Int[Array, " ordinary"],
    ratio: float = 0.15,
    bert: bool = True,
    words: Int[Array, "batch n"] | None = None,
) -> tuple[Int[Array, "batch n"], Int[Array, "batch n"]]:
    """Masked language modelling (6.1): the ids to read, and the ids to restore or ``IGNORED``.

    In every row max(1, round(ratio candidates)) of the candidates are chosen. As in BERT, 80 % of
    them become ``mask_id``, 10 % a random one of ``replacements`` (of all ids below it, if it is a
    number), and 10 % stay; if not ``bert``, all become ``mask_id`` as in section 3.4.

    ``words`` numbers the word of each place, from 0 in every row. Then whole words are
    chosen in random order, up to that number of tokens and at least one word; a single draw says
    what becomes of all pieces of a word.
    """
    words = np.broadcast_to(np.arange(ids.shape[1]), ids.shape) if words is None else words
    assert ids.shape == candidates.shape == words.shape
    if not 0 < ratio <= 1:
        raise ImpossibleSetting(f"expected a ratio above 0 and at most 1, got {ratio}")
    words = np.where(candidates, words, 0)
    chosen = _chosen_words(generator, words, candidates, ratio)
    chosen = np.take_along_axis(chosen, words, axis=1) & candidates
    masked = ids.astype(np.int64)
    targets = np.where(chosen, masked, IGNORED)
    if bert:
        fates = np.take_along_axis(generator.random(ids.shape), words, axis=1)[chosen]
        ordinary = np.arange(replacements) if isinstance(replacements, int) else replacements
        others = ordinary[generator.integers(len(ordinary), size=len(fates))]
        kept = np.where(fates < MASKED + REPLACED, others, masked[chosen])
        masked[chosen] = np.where(fates < MASKED, mask_id, kept)
    else:
        masked[chosen] = mask_id
    return masked, targets


def _chosen_words(
    generator: Generator, words: Array, candidates: Array, ratio: float
) -> Bool[Array, "batch words"]:
    """Which words are chosen; a row has no more words than places."""
    rows, places = words.shape
    numbers = (words + places * np.arange(rows)[:, None])[candidates]
    sizes = np.bincount(numbers, minlength=rows * places).reshape(rows, places)
    wanted = np.rint(ratio * candidates.sum(axis=1))
    order = np.where(sizes > 0, generator.random(sizes.shape), 1).argsort(axis=1)
    pieces = np.take_along_axis(sizes, order, axis=1).cumsum(axis=1)
    taken = pieces <= wanted[:, None]
    taken[:, 0] = True
    chosen: Array = np.empty_like(taken)
    np.put_along_axis(chosen, order, taken, axis=1)
    return chosen
