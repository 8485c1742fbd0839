"""Words as vectors (Section 2): one-hot vectors, embeddings, positions."""

import math

import numpy as np
import pytest
from agreement import agree

from vesalius.equations import OneHot, embed, one_hot, positions, sinusoidal_positions
from vesalius.errors import EmptySequence, SequenceTooLong, TokenOutOfRange


@pytest.mark.proves(2)
def test_embedding_selects_the_columns_that_multiplying_by_one_hot_vectors_gives(rng):
    E = rng.normal(size=(3, 5))
    Omega = OneHot([4, 0, 4], 5)
    written_out = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 1.0]])
    np.testing.assert_array_equal(np.asarray(Omega), written_out)
    np.testing.assert_array_equal(embed(E, Omega), embed(E, written_out))
    np.testing.assert_array_equal(embed(E, Omega), np.stack([E[:, 4], E[:, 0], E[:, 4]], axis=1))


@pytest.mark.proves(2)
def test_embedding_takes_one_vector_too(rng):
    E = rng.normal(size=(3, 5))
    np.testing.assert_array_equal(embed(E, one_hot(2, 5)), E[:, 2])


def test_one_hot_columns_keep_the_precision_of_the_matrix(rng):
    E = rng.normal(size=(3, 5)).astype(np.float32)
    assert embed(E, OneHot([1], 5)).dtype == np.float32


def test_sinusoidal_positions_are_sines_and_cosines_of_falling_frequency():
    Lambda = sinusoidal_positions(6, 4)
    for p in range(4):
        for i in range(3):
            angle = p / 10000 ** (2 * i / 6)
            assert Lambda[2 * i, p] == pytest.approx(math.sin(angle), abs=1e-15)
            assert Lambda[2 * i + 1, p] == pytest.approx(math.cos(angle), abs=1e-15)


def test_sinusoidal_positions_of_an_odd_dimension_end_with_a_sine():
    agree(sinusoidal_positions(5, 3)[4], np.sin(np.arange(3) / 10000**0.8))


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([], EmptySequence, "at least one token"),
        ([0, 5], TokenOutOfRange, "token id 5 at position 1 .* expected 0 to 4"),
        ([-1], TokenOutOfRange, "token id -1"),
        ([0.5], TokenOutOfRange, "whole token ids, got float64"),
        ([[1]], TokenOutOfRange, r"of shape \(1, 1\)"),
    ],
)
def test_tokens_that_are_none_are_refused(ids, error, message):
    with pytest.raises(error, match=message):
        OneHot(ids, 5)


def test_a_sequence_longer_than_the_positions_is_refused(rng):
    with pytest.raises(SequenceTooLong, match="5 positions, the model 4"):
        positions(rng.normal(size=(2, 4)), rng.normal(size=(2, 5)))


@pytest.mark.proves(2)
def test_one_hot_vectors_of_another_vocabulary_are_refused(rng):
    E = rng.normal(size=(3, 5))
    embed(E, OneHot([4], 5))
    with pytest.raises(TokenOutOfRange, match="of 20 words, the embedding of 5"):
        embed(E, OneHot([4], 20))
