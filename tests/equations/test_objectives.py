"""What the models are trained on (3.3, 3.4, 4.6, 6.2): equations 1, 14 to 22 and 61 to 67."""

import itertools
import math

import numpy as np
import pytest
import torch
from agreement import agree
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as any_array
from scipy import special, stats

from vesalius.equations import (
    Dense,
    arrays,
    autoregressive_loss,
    autoregressive_loss_of_states,
    corpus_loss,
    corrupt,
    corrupt_as_bert,
    cross_entropy,
    cross_entropy_of_class,
    estimated_masked,
    estimated_next,
    feedforward_loss,
    gradient_step,
    masked_cross_entropy,
    masked_cross_entropy_of_class,
    masked_loss,
    recurrent_loss,
    tanh,
    transformer_loss,
    true_class,
    true_masked,
    true_next,
)
from vesalius.errors import EmptySequence, TokenOutOfRange, WrongLength
from vesalius.families import configuration, random_parameters

BIT = math.log(2)
SHARES = any_array(np.float64, 6, elements=st.floats(1e-3, 1)).map(lambda p: p / p.sum())
LOGITS = any_array(np.float64, (5, 4), elements=st.floats(-30, 30))
CLASSES = any_array(np.int64, 4, elements=st.integers(0, 4))
CHOSEN = any_array(np.bool_, 4)
SENTENCE = "I knew it was going to rain but I forgot to take my umbrella"
CORRUPTED = "I knew it [MASK] [MASK] to rain but I [MASK] to take my umbrella"


def pytorch_loss(Z, c, **options):
    """PyTorch's cross entropy, which takes logits row by row."""
    return torch.nn.functional.cross_entropy(
        torch.tensor(Z.T), torch.tensor(c), reduction="sum", **options
    ).item()


@pytest.mark.proves(1)
def test_the_loss_of_a_corpus_worked_by_hand():
    table = {(): [0.5, 0.5], (0,): [0.75, 0.25], (1,): [0.125, 0.875]}
    loss = corpus_loss(lambda context: np.array(table[tuple(context)]), [0, 1, 0], n=1)
    # 1/2, then 1/4 after 0, then 1/8 after 1.
    agree(loss, 6 * BIT)


@pytest.mark.proves(1)
def test_every_token_of_a_corpus_is_predicted_from_at_most_n_before_it():
    asked = []

    def p(context):
        asked.append(list(context))
        return np.full(8, 1 / 8)

    loss = corpus_loss(p, [3, 1, 4, 1, 5], n=2)
    assert asked == [[], [3], [3, 1], [1, 4], [4, 1]]
    agree(loss, 5 * 3 * BIT)


@pytest.mark.proves(1)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_probabilities_of_all_corpora_of_one_length_sum_to_one(n):
    def p(context):
        return special.softmax(np.random.default_rng([7, *context]).normal(size=3))

    total = sum(math.exp(-corpus_loss(p, C, n)) for C in itertools.product(range(3), repeat=4))
    agree(total, 1)


def test_a_corpus_of_no_tokens_is_refused():
    with pytest.raises(EmptySequence, match="at least one token"):
        corpus_loss(lambda context: np.ones(1), [], n=3)


@pytest.mark.proves(14)
def test_the_estimate_asks_the_model_for_every_word_after_the_first_i():
    table = {(2,): [0.2, 0.3, 0.5], (2, 0): [0.6, 0.3, 0.1]}

    def p(j, context):
        return table[tuple(context)][j]

    assert estimated_next(p, [2, 0, 1], i=1, V=3).tolist() == [0.2, 0.3, 0.5]
    assert estimated_next(p, [2, 0, 1], i=2, V=3).tolist() == [0.6, 0.3, 0.1]


@pytest.mark.proves(15)
def test_the_truth_after_i_words_is_the_next_word():
    w = [2, 0, 3]
    assert true_next(w, 0, V=4).tolist() == [0, 0, 1, 0]
    assert true_next(w, 1, V=4).tolist() == [1, 0, 0, 0]
    assert true_next(w, 2, V=4).tolist() == [0, 0, 0, 1]


@pytest.mark.proves(64)
def test_the_truth_at_a_masked_position_is_the_word_that_stood_there():
    w = [2, 0, 3]
    assert true_masked(w, 1, V=4).tolist() == [0, 0, 1, 0]
    assert true_masked(w, 2, V=4).tolist() == [1, 0, 0, 0]
    assert true_masked(w, 3, V=4).tolist() == [0, 0, 0, 1]


@pytest.mark.proves(16, 65)
@given(y=SHARES, y_hat=SHARES)
def test_cross_entropy_is_the_entropy_and_the_divergence_together(y, y_hat):
    expected = stats.entropy(y) + stats.entropy(y, y_hat)
    agree(cross_entropy(y, y_hat), expected)
    agree(masked_cross_entropy(y_hat, y), expected)


@pytest.mark.proves(16, 65)
def test_cross_entropy_is_weighted_by_the_truth_and_takes_the_logarithm_of_the_estimate():
    y, y_hat = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.125, 0.625])
    agree(cross_entropy(y, y_hat), 2.5 * BIT)
    agree(masked_cross_entropy(y_hat, y), 2.5 * BIT)


@pytest.mark.proves(16)
def test_words_of_no_probability_cost_nothing_if_they_do_not_come():
    certain = np.array([0.0, 1.0, 0.0])
    assert cross_entropy(certain, certain) == 0


@pytest.mark.proves(17, 19, 21, 66)
def test_a_word_estimated_at_an_eighth_costs_three_bits():
    y_hat = np.array([0.5, 0.25, 0.125, 0.125])
    costs = [1, 2, 3, 3]
    for c, bits in enumerate(costs):
        agree(cross_entropy_of_class(c, y_hat) / BIT, bits)
        agree(feedforward_loss(c, y_hat) / BIT, bits)
        agree(recurrent_loss(c, y_hat) / BIT, bits)
        agree(masked_cross_entropy_of_class(y_hat, c) / BIT, bits)


@pytest.mark.proves(17, 19, 21, 66)
@given(z=any_array(np.float64, 6, elements=st.floats(-30, 30)), c=st.integers(0, 5))
def test_the_loss_of_one_word_is_pytorchs_cross_entropy(z, c):
    y_hat, theirs = special.softmax(z), pytorch_loss(z[:, None], np.array([c]))
    agree(cross_entropy_of_class(c, y_hat), theirs)
    agree(feedforward_loss(c, y_hat), theirs)
    agree(recurrent_loss(c, y_hat), theirs)
    agree(masked_cross_entropy_of_class(y_hat, c), theirs)


@pytest.mark.proves(16, 17, 18)
@given(y_hat=SHARES, c=st.integers(0, 5))
def test_cross_entropy_with_a_one_hot_truth_is_that_of_its_class(y_hat, c):
    whole = cross_entropy(true_class(c, 6), y_hat)
    agree(cross_entropy_of_class(c, y_hat), whole)


@pytest.mark.proves(18)
def test_the_truth_by_class_is_one_at_the_class_and_nought_elsewhere():
    assert true_class(1, 4).tolist() == [0, 1, 0, 0]
    theirs = torch.nn.functional.one_hot(torch.arange(4), 4).numpy()
    np.testing.assert_array_equal([true_class(c, 4) for c in range(4)], theirs)


def test_a_class_outside_the_vocabulary_is_refused():
    with pytest.raises(TokenOutOfRange, match="token id 4"):
        true_class(4, 4)


@pytest.mark.proves(20, 61)
def test_the_loss_of_a_sequence_worked_by_hand():
    Y_hat = np.array([[0.5, 0.25, 0.0], [0.25, 0.25, 0.875], [0.25, 0.5, 0.125]])
    c = np.array([1, 2, 2])
    # Two bits, one bit and three bits.
    agree(transformer_loss(c, Y_hat), 6 * BIT)
    agree(autoregressive_loss(Y_hat, c), 6 * BIT)


@pytest.mark.proves(20, 61)
@given(Z=LOGITS, c=CLASSES)
def test_the_loss_of_a_sequence_is_pytorchs_cross_entropy(Z, c):
    Y_hat, theirs = special.softmax(Z, axis=0), pytorch_loss(Z, c)
    agree(transformer_loss(c, Y_hat), theirs)
    agree(autoregressive_loss(Y_hat, c), theirs)


@pytest.mark.proves(20, 21)
@given(Z=LOGITS, c=CLASSES)
def test_the_losses_of_all_time_steps_sum_to_that_of_the_sequence(Z, c):
    Y_hat = special.softmax(Z, axis=0)
    steps = math.fsum(recurrent_loss(int(c[i]), Y_hat[:, i]) for i in range(4))
    agree(transformer_loss(c, Y_hat), steps)


@pytest.mark.proves(22)
def test_a_step_of_gradient_descent_worked_by_hand():
    theta = Dense(W=np.array([[1.0, 2.0]]), b=np.array([3.0]), g=tanh)
    gradient = Dense(W=np.array([[8.0, -8.0]]), b=np.array([1.0]), g=tanh)
    after = gradient_step(theta, gradient, 0.125)
    assert after.W.tolist() == [[0, 3]]
    assert after.b.tolist() == [2.875]
    assert after.g is tanh
    assert theta.W.tolist() == [[1, 2]]


@pytest.mark.proves(22)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_of_gradient_descent_moves_every_array_as_pytorchs_does(dtype):
    config = configuration("lstm", vocabulary=7, embedding=3, layers=2, output_bias=True)
    theta, gradient = (random_parameters(config, seed, dtype) for seed in (1, 2))
    theirs = {name: torch.nn.Parameter(torch.tensor(array)) for name, array in arrays(theta)}
    for name, slope in arrays(gradient):
        theirs[name].grad = torch.tensor(slope)
    torch.optim.SGD(theirs.values(), lr=0.03).step()
    after = dict(arrays(gradient_step(theta, gradient, 0.03)))
    assert after.keys() == theirs.keys()
    for name, array in after.items():
        assert array.dtype == dtype
        agree(array, theirs[name].detach(), within=1e-12 if dtype == "float64" else 1e-6)


@pytest.mark.proves(62)
def test_the_loss_of_states_worked_by_hand():
    E = np.array([[math.log(2), 0.0, 0.0], [0.0, math.log(3), 0.0]])
    H = np.array([[1.0, 2.0], [0.0, 1.0]])
    # Numerators 2 : 1 : 1 after the first token and 4 : 3 : 1 after the second.
    loss = autoregressive_loss_of_states(E, H, np.array([0, 2]))
    agree(loss, math.log(2) + math.log(8))


@pytest.mark.proves(62)
@pytest.mark.parametrize("scale", [1, 1000])
def test_the_loss_of_states_is_pytorchs_even_where_probabilities_round_to_zero(scale, rng):
    E, H, c = rng.normal(size=(3, 8)), scale * rng.normal(size=(3, 6)), rng.integers(8, size=6)
    theirs = torch.nn.functional.cross_entropy(
        torch.nn.functional.linear(torch.tensor(H.T), torch.tensor(E.T)),
        torch.tensor(c),
        reduction="sum",
    ).item()
    agree(autoregressive_loss_of_states(E, H, c), theirs)


@pytest.mark.proves(63)
def test_the_masked_estimate_asks_for_every_word_at_its_position_in_the_corrupted_sequence():
    S_c, asked = [2, 9, 1, 9], []

    def p(j, i, sequence):
        asked.append(sequence)
        return {2: [0.2, 0.3, 0.5], 4: [0.6, 0.3, 0.1]}[i][j]

    assert estimated_masked(p, S_c, 2, V=3).tolist() == [0.2, 0.3, 0.5]
    assert estimated_masked(p, S_c, 4, V=3).tolist() == [0.6, 0.3, 0.1]
    assert asked == 6 * [[2, 9, 1, 9]]


@pytest.mark.proves(67)
def test_the_masked_loss_worked_by_hand():
    Z = np.log([[4.0, 5.0, 1.0], [2.0, 5.0, 1.0], [2.0, 6.0, 2.0]])
    c = np.array([1, 2, 0])
    # Two bits at the first token, two at the third; the second was not masked.
    loss = masked_loss(Z, c, np.array([True, False, True]))
    agree(loss, 4 * BIT)


@pytest.mark.proves(67)
@given(Z=LOGITS, c=CLASSES, m=CHOSEN)
def test_the_masked_loss_is_pytorchs_cross_entropy_that_ignores_the_others(Z, c, m):
    theirs = pytorch_loss(Z, np.where(m, c, -100), ignore_index=-100)
    agree(masked_loss(Z, c, m), theirs)


@pytest.mark.proves(67)
def test_the_loss_counts_only_masked_positions(rng):
    Z, c, m = rng.normal(size=(5, 4)), rng.integers(5, size=4), np.array([True, False, False, True])
    elsewhere = Z + np.where(m, 0, rng.normal(size=(5, 4)))
    assert masked_loss(elsewhere, c, m) == masked_loss(Z, c, m)
    assert masked_loss(Z, c, np.zeros(4, dtype=bool)) == 0
    assert masked_loss(Z, c, np.ones(4, dtype=bool)) > masked_loss(Z, c, m)


def test_the_papers_sentence_is_corrupted_as_the_paper_shows():
    words = SENTENCE.split()
    vocabulary = sorted({*words, "[MASK]"})
    w = np.array([vocabulary.index(word) for word in words])
    m = np.isin(np.arange(1, 15), [4, 5, 10])
    S_c = corrupt(w, m, vocabulary.index("[MASK]"))
    assert " ".join(vocabulary[j] for j in S_c) == CORRUPTED
    assert [vocabulary[j] for j in w] == words


@given(data=st.data(), n=st.integers(0, 20))
def test_tokens_that_were_not_chosen_are_never_touched(data, n):
    w = data.draw(any_array(np.int64, n, elements=st.integers(0, 9)))
    m = data.draw(any_array(np.bool_, n))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    S_c = corrupt_as_bert(w, m, mask=9, V=10, rng=rng)
    np.testing.assert_array_equal(S_c[~m], w[~m])
    assert S_c.shape == w.shape
    assert ((S_c >= 0) & (S_c < 10)).all()


def test_berts_corruption_masks_80_percent_replaces_10_and_keeps_10():
    n, V, word, mask = 200_000, 500, 7, 3
    m = np.arange(n) % 4 != 0
    S_c = corrupt_as_bert(np.full(n, word), m, mask, V, np.random.default_rng(11))
    assert (S_c[~m] == word).all()
    chosen = S_c[m]
    # A random word is the mask, or the word itself, once in V times.
    expected = {mask: 0.8 + 0.1 / V, word: 0.1 + 0.1 / V}
    for token, share in expected.items():
        deviation = math.sqrt(share * (1 - share) / len(chosen))
        assert abs((chosen == token).mean() - share) < 4 * deviation
    others = np.bincount(chosen, minlength=V)[[j for j in range(V) if j not in expected]]
    share = 0.1 * (1 - 2 / V)
    deviation = math.sqrt(share * (1 - share) / len(chosen))
    assert abs(others.sum() / len(chosen) - share) < 4 * deviation
    # All other words are equally likely: a fair draw looks this uneven once in a thousand times.
    assert stats.chisquare(others).pvalue > 1e-3


def test_berts_corruption_can_be_repeated_from_its_seed():
    w, m = np.arange(50), np.ones(50, dtype=bool)
    first, again, other = (
        corrupt_as_bert(w, m, 0, 50, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_array_equal(w, np.arange(50))


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (lambda: true_next([2, 0, 3], 3, V=4), WrongLength),
        (lambda: true_next([2, 0, 3], -1, V=4), WrongLength),
        (lambda: true_masked([2, 0, 3], 0, V=4), WrongLength),
        (lambda: cross_entropy_of_class(-1, np.array([0.5, 0.5])), TokenOutOfRange),
        (lambda: transformer_loss(np.array([2]), np.array([[0.5], [0.5]])), TokenOutOfRange),
        (lambda: masked_loss(np.zeros((2, 1)), np.array([-1]), np.array([True])), TokenOutOfRange),
    ],
)
def test_positions_and_classes_do_not_count_from_the_end(broken, error):
    with pytest.raises(error):
        broken()


def test_an_impossible_word_at_an_unmasked_position_costs_nothing():
    Z = np.array([[0.0, -np.inf], [0.0, 0.0]])
    m = np.array([True, False])
    assert masked_loss(Z, np.array([0, 0]), m) == pytest.approx(np.log(2), abs=1e-15)
