"""Masks have the shares and lengths they are said to have, and tokens are replaced as BERT's are.

Tolerances are five standard errors of what is estimated, which are known exactly.
"""

import math

import numpy as np
import pytest

from vesalius.data.masking import (
    IGNORED,
    even_masks,
    geometric_masks,
    mask_tokens,
)
from vesalius.errors import ImpossibleSetting, VesaliusError

MASK, FIRST, VOCABULARY = 3, 10, 1000


def close_to_share(count, total, share):
    """Whether so many of a total are what draws with this probability give, to five errors."""
    return abs(count / total - share) < 5 * math.sqrt(share * (1 - share) / total)


def segments(masked):
    """The lengths of the masked and of the unmasked segments of one channel."""
    change = np.flatnonzero(np.diff(masked)) + 1
    lengths, states = np.diff(change), masked[change[:-1]]  # the first and last are cut: left out
    return lengths[states], lengths[~states]


SETTINGS = [(0.15, 3), (0.15, 5), (0.5, 2), (0.75, 4)]


@pytest.mark.parametrize(("ratio", "mean_length"), SETTINGS)
def test_segments_of_a_series_are_geometric_with_the_means_said(rng, ratio, mean_length):
    masked = geometric_masks(rng, 1, 40_000, 1, ratio, mean_length)[0, :, 0]
    unmasked_mean = mean_length * (1 - ratio) / ratio
    for lengths, mean in zip(segments(masked), (mean_length, unmasked_mean), strict=True):
        stop = 1 / mean
        deviation = math.sqrt(1 - stop) / stop
        assert abs(lengths.mean() - mean) < 5 * deviation / math.sqrt(len(lengths))
        for length in (1, 2):  # the shape, not the mean alone
            share = stop * (1 - stop) ** (length - 1)
            assert close_to_share((lengths == length).sum(), len(lengths), share)


@pytest.mark.parametrize(("ratio", "mean_length"), SETTINGS)
def test_the_share_of_masked_steps_is_the_ratio(rng, ratio, mean_length):
    batch, length, channels = 100, 50, 8
    masked = geometric_masks(rng, batch, length, channels, ratio, mean_length)
    assert masked.shape == (batch, length, channels)
    assert masked.dtype == bool
    # The variance of a mean over steps whose correlation falls by the same factor at every step.
    factor = 1 - 1 / mean_length - ratio / (1 - ratio) / mean_length
    lags = np.arange(1, length)
    inflation = 1 + 2 * ((1 - lags / length) * factor**lags).sum()
    error = math.sqrt(ratio * (1 - ratio) * inflation / masked.size)
    assert abs(masked.mean() - ratio) < 5 * error


def test_a_series_starts_masked_as_often_as_it_goes_on(rng):
    first = geometric_masks(rng, 2000, 1, 10)
    assert close_to_share(first.sum(), first.size, 0.15)


def test_channels_and_series_are_masked_each_on_its_own(rng):
    both = 0.15**2
    for one, other in (((0, 0), (0, 1)), ((0, 0), (1, 0))):
        masks = geometric_masks(rng, 2, 40_000, 2)[:, ::40]  # far enough apart to be independent
        together = masks[one[0], :, one[1]] & masks[other[0], :, other[1]]
        assert close_to_share(together.sum(), together.size, both)


def test_masks_that_cannot_be_are_refused(rng):
    with pytest.raises(VesaliusError, match="ratio between 0 and 1"):
        geometric_masks(rng, 1, 10, 1, ratio=1)
    with pytest.raises(VesaliusError, match=r"mean length of at least 9"):
        geometric_masks(rng, 1, 10, 1, ratio=0.9, mean_length=2)


def test_even_masks_have_the_same_number_in_every_row_at_any_place(rng):
    masked = even_masks(rng, 4000, 16, 0.3)
    assert (masked.sum(axis=1) == 5).all()  # round(4.8)
    for place in range(16):
        assert close_to_share(masked[:, place].sum(), 4000, 5 / 16)
    together = masked[:, 0] & masked[:, 1]
    assert close_to_share(together.sum(), 4000, 5 / 16 * 4 / 15)


@pytest.mark.parametrize("ratio", [0, 0.02, 0.99, 1, -0.5])
def test_even_masks_of_nothing_or_of_everything_are_refused(rng, ratio):
    with pytest.raises(ImpossibleSetting, match=f"a ratio of {ratio} masks"):
        even_masks(rng, 2, 16, ratio)


@pytest.fixture
def texts(rng):
    """Ids of 40 rows of different lengths, and which of them may be chosen."""
    ids = rng.integers(FIRST, VOCABULARY, (40, 128))
    lengths = rng.integers(5, 129, 40)
    candidates = np.arange(128) < lengths[:, None] - 1
    candidates[:, 0] = False
    return ids, candidates


@pytest.mark.parametrize("bert", [True, False])
def test_as_many_candidates_are_chosen_as_the_ratio_says(rng, texts, bert):
    ids, candidates = texts
    masked, targets = mask_tokens(rng, ids, candidates, MASK, VOCABULARY, bert=bert)
    chosen = targets != IGNORED
    expected = [max(1, round(0.15 * count)) for count in candidates.sum(axis=1).tolist()]
    assert chosen.sum(axis=1).tolist() == expected
    assert not (chosen & ~candidates).any()
    assert (targets[chosen] == ids[chosen]).all()
    assert (masked[~chosen] == ids[~chosen]).all()
    assert masked.dtype == targets.dtype == np.int64


def test_one_is_chosen_of_few_and_none_of_none(rng):
    candidates = np.array([[False, True, False, False], [False] * 4])
    masked, targets = mask_tokens(rng, np.full((2, 4), 7), candidates, MASK, 9, bert=False)
    assert masked.tolist() == [[7, MASK, 7, 7], [7] * 4]
    assert targets.tolist() == [[IGNORED, 7, IGNORED, IGNORED], [IGNORED] * 4]


def test_every_candidate_is_chosen_equally_often(rng):
    ids = np.full((5000, 20), 7)
    candidates = np.arange(20) >= 4
    _, targets = mask_tokens(rng, ids, np.tile(candidates, (5000, 1)), MASK, 9, ratio=0.25)
    for count in (targets != IGNORED).sum(axis=0)[4:]:
        assert close_to_share(count, 5000, 4 / 16)


def test_bert_masks_80_replaces_10_and_leaves_10_of_100(rng):
    ids = rng.integers(FIRST, VOCABULARY, (500, 128))
    others = np.arange(VOCABULARY, VOCABULARY + 50)  # none that the texts hold
    masked, targets = mask_tokens(rng, ids, np.ones_like(ids, bool), MASK, others)
    came = masked[targets != IGNORED]
    assert close_to_share((came == MASK).sum(), len(came), 0.8)
    assert close_to_share((came >= VOCABULARY).sum(), len(came), 0.1)
    assert close_to_share((came == targets[targets != IGNORED]).sum(), len(came), 0.1)
    replaced = came[came >= VOCABULARY]
    for other in others:
        assert close_to_share((replaced == other).sum(), len(replaced), 1 / 50)


def test_plain_masking_masks_all_that_is_chosen(rng, texts):
    ids, candidates = texts
    masked, targets = mask_tokens(rng, ids, candidates, MASK, VOCABULARY, bert=False)
    assert (masked[targets != IGNORED] == MASK).all()


def test_a_number_of_replacements_means_all_ids_below_it(rng):
    ids = np.full((400, 100), FIRST)
    masked, _ = mask_tokens(rng, ids, np.ones_like(ids, bool), MASK, 8)
    assert set(masked[(masked != MASK) & (masked != FIRST)].tolist()) == set(range(8)) - {MASK}


def test_the_narrow_ids_of_token_files_can_be_masked(rng):
    ids = np.full((2, 20), 60_000, np.uint16)
    _, targets = mask_tokens(rng, ids, np.ones_like(ids, bool), MASK, 65_000)
    assert set(targets.ravel().tolist()) == {60_000, IGNORED}


def test_masking_is_a_function_of_the_generator(texts):
    ids, candidates = texts
    draws = [
        mask_tokens(np.random.default_rng(seed), ids, candidates, MASK, VOCABULARY)
        for seed in (1, 1, 2)
    ]
    assert all((a == b).all() for a, b in zip(draws[0], draws[1], strict=True))
    assert (draws[0][1] != draws[2][1]).any()


def word_numbers(rng, rows, places):
    """Words of one to four pieces, numbered from 0 in every row."""
    starts = rng.random((rows, places)) < 0.6
    starts[:, 0] = True
    starts[:, 4::5] = True
    return starts.cumsum(axis=1) - 1


def test_whole_words_are_chosen_and_not_more_pieces_than_wanted(rng, texts):
    ids, candidates = texts
    words = np.where(candidates, word_numbers(rng, *ids.shape), -999)  # of no word
    _, targets = mask_tokens(rng, ids, candidates, MASK, VOCABULARY, words=words)
    for row in range(len(ids)):
        chosen = set(words[row, targets[row] != IGNORED].tolist())
        pieces = np.isin(words[row], list(chosen))
        assert ((targets[row] != IGNORED) == pieces).all()
        wanted = max(1, round(0.15 * candidates[row].sum()))
        assert pieces.sum() <= wanted or len(chosen) == 1
        assert chosen


@pytest.mark.parametrize(("pieces", "expected"), [(1, 15), (2, 14), (4, 12), (20, 20), (100, 100)])
def test_words_are_taken_until_the_next_would_be_too_many(rng, pieces, expected):
    words = np.tile(np.arange(100) // pieces, (30, 1))
    ids = np.full((30, 100), 7)
    everywhere = np.ones_like(ids, bool)
    _, targets = mask_tokens(rng, ids, everywhere, MASK, VOCABULARY, words=words)
    assert ((targets != IGNORED).sum(axis=1) == expected).all()


def test_one_draw_decides_what_becomes_of_a_word(rng):
    ids = rng.integers(FIRST, VOCABULARY, (400, 100))
    words = np.tile(np.arange(100) // 2, (400, 1))
    others = np.arange(VOCABULARY, VOCABULARY + 50)
    everywhere = np.ones_like(ids, bool)
    masked, targets = mask_tokens(rng, ids, everywhere, MASK, others, words=words)
    pairs = masked.reshape(-1, 2)[(targets != IGNORED).reshape(-1, 2)[:, 0]]
    gone, other = (pairs == MASK), (pairs >= VOCABULARY)
    assert (gone[:, 0] == gone[:, 1]).all()
    assert (other[:, 0] == other[:, 1]).all()
    assert close_to_share(gone[:, 0].sum(), len(pairs), 0.8)
    assert close_to_share(other[:, 0].sum(), len(pairs), 0.1)
    replaced = pairs[other[:, 0]]
    assert (replaced[:, 0] != replaced[:, 1]).any()  # each piece by its own


def test_every_word_is_chosen_equally_often(rng):
    words = np.tile(np.arange(40) // 2, (4000, 1))
    ids = np.full(words.shape, 7)
    everywhere = np.ones_like(ids, bool)
    _, targets = mask_tokens(rng, ids, everywhere, MASK, VOCABULARY, words=words)
    for count in (targets != IGNORED).sum(axis=0):
        assert close_to_share(count, 4000, 3 / 20)


def test_a_ratio_of_nothing_is_refused(rng):
    ids = np.zeros((2, 4), int)
    with pytest.raises(ImpossibleSetting, match="above 0 and at most 1, got 0"):
        mask_tokens(rng, ids, np.ones((2, 4), bool), MASK, 9, ratio=0)
