"""Recurrent language models (4.4, 5.3): equations 12, 13, 41 and 43 to 48."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from agreement import agree
from hypothesis import given
from hypothesis import strategies as st

from vesalius.equations import (
    LSTM,
    Elman,
    OneHot,
    add_gate,
    candidate,
    context,
    elman,
    find,
    forget_gate,
    initial_state,
    lstm,
    output_gate,
    recurrent_layer,
    recurrent_lm,
    recurrent_logits,
    recurrent_states,
    relu,
    tanh,
)
from vesalius.errors import EmptySequence, NotFinite, TokenOutOfRange
from vesalius.families import configuration, random_parameters

V = 11
IDS = [3, 0, 10, 3, 7, 1]
UNTIED = {"embedding": 4, "hidden": 6, "tied": False, "output_bias": True}
TIED = {"embedding": 5, "tied": True, "output_bias": False}
SEEDS = st.integers(0, 2**32 - 1)
SHUT, OPEN = -1000.0, 1000.0


def small(family, **options):
    return configuration(family, vocabulary=V, layers=2, **options)


def filled(module, weights):
    """A module of PyTorch with all of its weights given."""
    module = module.double().requires_grad_(False)
    module.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    return module


def known_as():
    """What other works call the letters of an LSTM, by the name."""
    symbols = [symbol for number in range(44, 49) for symbol in find(number).symbols]
    return {symbol.known_as: symbol.name for symbol in symbols if symbol.known_as}


PYTORCH = ("input gate i", "forget gate f", "candidate", "output gate o")
"""The gates in the order in which PyTorch stacks them."""


def pytorch_weights(Phi_l):
    """One layer's weights as PyTorch stacks them, with two biases; gates go by their names."""
    if isinstance(Phi_l, Elman):
        W, U, b = Phi_l.W, Phi_l.U, Phi_l.b
    else:
        gates = [known_as()[name].upper() for name in PYTORCH]
        W, U, b = (
            np.concatenate([getattr(Phi_l, f"{array}_{gate}") for gate in gates]) for array in "WUb"
        )
    return {"weight_ih": W, "weight_hh": U, "bias_ih": b, "bias_hh": np.zeros_like(b)}


def pytorch_states(module, Phi, X, start=None):
    """What PyTorch's recurrent network of all layers gives at every time step."""
    stacked = {
        f"{name}_l{l}": array
        for l, Phi_l in enumerate(Phi)
        for name, array in pytorch_weights(Phi_l).items()
    }
    outputs, _ = filled(module, stacked)(torch.tensor(X.T), start)
    return outputs.T.numpy()


def pytorch_embeddings(theta, ids):
    table = torch.nn.Embedding.from_pretrained(torch.tensor(theta.E.T))
    return table(torch.tensor(ids)).T.numpy()


def pytorch_distributions(theta, H):
    U = torch.tensor(theta.E.T if theta.U is None else theta.U)
    b_U = None if theta.b_U is None else torch.tensor(theta.b_U)
    return torch.nn.functional.linear(torch.tensor(H.T), U, b_U).softmax(dim=-1).T.numpy()


def pytorch_lm(module, theta, ids):
    """The whole model of PyTorch: embedding, recurrent network, output layer, softmax."""
    H = pytorch_states(module, theta.Phi, pytorch_embeddings(theta, ids))
    return pytorch_distributions(theta, H)


def pytorch_cell(Phi_l, below, before, c_before):
    """One time step of PyTorch's LSTM: h and c."""
    d_o, d_i = Phi_l.W_Q.shape
    cell = filled(torch.nn.LSTMCell(d_i, d_o), pytorch_weights(Phi_l))
    h, c = cell(torch.tensor(below), (torch.tensor(before), torch.tensor(c_before)))
    return h.numpy(), c.numpy()


def random_elman(rng, g, d_o=4, d_i=3):
    return Elman(
        W=rng.normal(size=(d_o, d_i)), U=rng.normal(size=(d_o, d_o)), b=rng.normal(size=d_o), g=g
    )


def random_lstm(rng, d_o=4, d_i=3):
    shapes = {"W": (d_o, d_i), "U": (d_o, d_o), "b": (d_o,)}
    return LSTM(**{f"{x}_{gate}": rng.normal(size=shapes[x]) for gate in "QPRS" for x in "WUb"})


def random_step(seed):
    """A layer of 4 units on 3 inputs, its input, its output before and its context before."""
    rng = np.random.default_rng(seed)
    return random_lstm(rng), rng.normal(size=3), rng.normal(size=4), rng.normal(size=4)


# One unit on two inputs: below it x = (1, 2), before it h = 3. What each gate sees of them is
# −1 (Q), 0 (P), 3 (R) and 5 (S); the biases bring that to log 2, log 3, −log 3 and log 4.
BY_HAND = LSTM(
    W_Q=np.array([[0.1, 0.2]]),
    U_Q=np.array([[-0.5]]),
    b_Q=np.array([1 + math.log(2)]),
    W_P=np.array([[1.0, 1.0]]),
    U_P=np.array([[-1.0]]),
    b_P=np.array([math.log(3)]),
    W_R=np.array([[2.0, -1.0]]),
    U_R=np.array([[1.0]]),
    b_R=np.array([-3 - math.log(3)]),
    W_S=np.array([[0.0, 1.0]]),
    U_S=np.array([[1.0]]),
    b_S=np.array([-5 + math.log(4)]),
)
BELOW, BEFORE = np.array([1.0, 2.0]), np.array([3.0])


@pytest.mark.proves(41)
def test_an_elman_step_worked_by_hand():
    layer = Elman(
        W=np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]),
        U=np.array([[0.0, 1.0], [-1.0, 0.0]]),
        b=np.array([100.0, -1000.0]),
        g=relu,
    )
    below, before = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0])
    assert elman(layer, below, before).tolist() == [127, 0]
    assert elman(dataclasses.replace(layer, b=np.zeros(2)), below, before).tolist() == [27, 0]


@pytest.mark.proves(12, 41)
@pytest.mark.parametrize("g", [tanh, relu])
@given(seed=SEEDS)
def test_an_elman_step_is_that_of_pytorchs_cell(g, seed):
    rng = np.random.default_rng(seed)
    layer, below, before = random_elman(rng, g), rng.normal(size=3), rng.normal(size=4)
    cell = filled(torch.nn.RNNCell(3, 4, nonlinearity=g.__name__), pytorch_weights(layer))
    theirs = cell(torch.tensor(below), torch.tensor(before))
    agree(elman(layer, below, before), theirs)
    agree(recurrent_layer(layer, before, below), theirs)


@pytest.mark.proves(12)
def test_a_recurrent_layer_takes_what_was_before_first_and_what_is_below_second():
    layer = Elman(W=np.array([[1.0]]), U=np.array([[10.0]]), b=np.array([0.0]), g=relu)
    assert recurrent_layer(layer, np.array([2.0]), np.array([3.0])).tolist() == [23]


@pytest.mark.proves(44)
def test_the_candidate_worked_by_hand():
    # tanh(log 2) = (2 − 1/2) / (2 + 1/2)
    agree(candidate(BY_HAND, BELOW, BEFORE), [0.6])


@pytest.mark.proves(44)
@given(seed=SEEDS)
def test_the_candidate_is_the_step_of_an_elman_layer(seed):
    layer, below, before, _ = random_step(seed)
    weights = pytorch_weights(Elman(W=layer.W_Q, U=layer.U_Q, b=layer.b_Q, g=tanh))
    theirs = filled(torch.nn.RNNCell(3, 4), weights)(torch.tensor(below), torch.tensor(before))
    agree(candidate(layer, below, before), theirs)


@pytest.mark.proves(45)
def test_the_forget_gate_worked_by_hand():
    p, k = forget_gate(BY_HAND, BELOW, BEFORE, np.array([8.0]))
    agree(p, [0.75])
    agree(k, [6])


@pytest.mark.proves(45)
@given(seed=SEEDS)
def test_what_is_kept_is_the_context_of_pytorchs_cell_whose_add_gate_is_shut(seed):
    layer, below, before, c_before = random_step(seed)
    shut = dataclasses.replace(layer, b_R=np.full(4, SHUT))
    p, k = forget_gate(layer, below, before, c_before)
    kept = pytorch_cell(shut, below, before, c_before)[1]
    agree(k, kept)
    kept_of_ones = pytorch_cell(shut, below, before, np.ones(4))[1]
    agree(p, kept_of_ones)


@pytest.mark.proves(46)
def test_the_add_gate_worked_by_hand():
    r, d = add_gate(BY_HAND, BELOW, BEFORE, np.array([0.6]))
    agree(r, [0.25])
    agree(d, [0.15])


@pytest.mark.proves(46)
@given(seed=SEEDS)
def test_what_is_added_is_the_context_of_pytorchs_cell_that_starts_from_none(seed):
    layer, below, before, _ = random_step(seed)
    r, d = add_gate(layer, below, before, candidate(layer, below, before))
    added = pytorch_cell(layer, below, before, np.zeros(4))[1]
    agree(d, added)
    one = dataclasses.replace(layer, b_Q=np.full(4, OPEN))
    added_of_ones = pytorch_cell(one, below, before, np.zeros(4))[1]
    agree(r, added_of_ones)


@pytest.mark.proves(47)
def test_the_context_is_what_was_added_and_what_was_kept():
    assert context(np.array([1.0, -2.0]), np.array([10.0, 20.0])).tolist() == [11, 18]


@pytest.mark.proves(48)
def test_the_output_gate_worked_by_hand():
    s, h = output_gate(BY_HAND, BELOW, BEFORE, np.array([math.log(2)]))
    agree(s, [0.8])
    agree(h, [0.48])


@pytest.mark.proves(48)
@given(seed=SEEDS)
def test_the_output_gate_is_that_of_pytorchs_cell(seed):
    layer, below, before, c_before = random_step(seed)
    theirs, c = pytorch_cell(layer, below, before, c_before)
    s, h = output_gate(layer, below, before, c)
    agree(h, theirs)
    all_kept = dataclasses.replace(layer, b_P=np.full(4, OPEN))
    shown_of_ones = pytorch_cell(all_kept, below, before, np.full(4, 1e6))[0]
    agree(s, shown_of_ones)


@pytest.mark.proves(43)
def test_an_lstm_step_worked_by_hand():
    h, c = lstm(BY_HAND, BELOW, BEFORE, np.array([(math.log(3) - 0.15) / 0.75]))
    # tanh(log 3) = (3 − 1/3) / (3 + 1/3) = 0.8
    agree(c, [math.log(3)])
    agree(h, [0.8 * 0.8])


@pytest.mark.proves(43)
@given(seed=SEEDS)
def test_an_lstm_step_is_that_of_pytorchs_cell(seed):
    layer, below, before, c_before = random_step(seed)
    state = lstm(layer, below, before, c_before)
    h, c = pytorch_cell(layer, below, before, c_before)
    agree(state.h, h)
    agree(state.c, c)


@pytest.mark.proves(43)
def test_an_lstm_that_forgets_nothing_and_adds_nothing_remembers_for_ever(rng):
    layer = dataclasses.replace(
        random_lstm(rng), b_P=np.full(4, OPEN), b_R=np.full(4, SHUT), b_S=np.full(4, OPEN)
    )
    h, c = np.zeros(4), np.array([0.0, 0.5, -1.0, 2.0])
    for x in rng.normal(size=(50, 3)):
        h, c = lstm(layer, x, h, c)
    assert c.tolist() == [0, 0.5, -1, 2]
    np.testing.assert_allclose(h, [0, 0.46211716, -0.76159416, 0.96402758], atol=5e-9)


@pytest.mark.parametrize("family", ["rnn", "lstm"])
def test_the_first_step_starts_from_zeros_in_the_layers_own_precision(family):
    first = random_parameters(small(family, **UNTIED), 0, "float32").Phi[0]
    h, c = initial_state(first)
    assert h.tolist() == c.tolist() == [0] * 6
    assert h.dtype == c.dtype == np.float32


@pytest.mark.proves(13)
@pytest.mark.parametrize("options", [UNTIED, TIED], ids=["untied", "tied"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_an_elman_language_model_is_the_same_model_in_pytorch(activation, options):
    theta = random_parameters(small("rnn", activation=activation, **options), seed=1)
    d_e, d_o = len(theta.E), len(theta.Phi[0].b)
    theirs = pytorch_lm(torch.nn.RNN(d_e, d_o, 2, nonlinearity=activation), theta, IDS)
    agree(recurrent_lm(theta, OneHot(IDS, V)), theirs)


@pytest.mark.proves(13)
@pytest.mark.parametrize("options", [UNTIED, TIED], ids=["untied", "tied"])
def test_an_lstm_language_model_is_the_same_model_in_pytorch(options):
    theta = random_parameters(small("lstm", **options), seed=2)
    d_e, d_o = len(theta.E), len(theta.Phi[0].b_Q)
    theirs = pytorch_lm(torch.nn.LSTM(d_e, d_o, 2), theta, IDS)
    agree(recurrent_lm(theta, OneHot(IDS, V)), theirs)


@pytest.mark.proves(12, 13, 41)
@pytest.mark.parametrize("options", [UNTIED, TIED], ids=["untied", "tied"])
def test_an_elman_model_of_sigmoids_is_one_of_tangents_in_other_units(options):
    """With h = (1 + t) / 2, σ(x) = (1 + tanh(x / 2)) / 2 turns one network into the other."""
    theta = random_parameters(small("rnn", activation="sigmoid", **options), seed=6)
    first, second = theta.Phi
    in_tangents = (
        Elman(W=first.W / 2, U=first.U / 4, b=first.b / 2 + first.U.sum(axis=1) / 4, g=tanh),
        Elman(
            W=second.W / 4,
            U=second.U / 4,
            b=second.b / 2 + second.U.sum(axis=1) / 4 + second.W.sum(axis=1) / 4,
            g=tanh,
        ),
    )
    d_o, d_e = first.W.shape
    from_minus_one = -torch.ones(2, d_o, dtype=torch.float64)
    X = pytorch_embeddings(theta, IDS)
    t = pytorch_states(torch.nn.RNN(d_e, d_o, 2), in_tangents, X, from_minus_one)
    agree(recurrent_states(theta.Phi, X), (1 + t) / 2)
    theirs = pytorch_distributions(theta, (1 + t) / 2)
    agree(recurrent_lm(theta, OneHot(IDS, V)), theirs)


@pytest.mark.proves(13)
@pytest.mark.parametrize("family", ["rnn", "lstm"])
def test_a_recurrent_model_predicts_from_the_tokens_so_far_only(family):
    theta = random_parameters(small(family, **UNTIED), seed=3)
    Y_hat = recurrent_lm(theta, OneHot(IDS, V))
    agree(Y_hat.sum(axis=0), np.ones(6))
    for i in range(1, 7):
        shorter = recurrent_lm(theta, OneHot(IDS[:i], V))
        # A product of matrices may add in another order when they have fewer columns.
        agree(shorter, Y_hat[:, :i])


@pytest.mark.parametrize("family", ["rnn", "lstm"])
def test_a_recurrent_model_tells_a_token_by_what_came_before_it(family):
    theta = random_parameters(small(family, **TIED), seed=4)
    Z = recurrent_logits(theta, OneHot([3, 0, 3], V))
    assert np.abs(Z[:, 0] - Z[:, 2]).max() > 1e-3


@pytest.mark.parametrize("family", ["rnn", "lstm"])
@pytest.mark.parametrize("options", [UNTIED, TIED], ids=["untied", "tied"])
def test_a_model_in_single_precision_answers_in_single_precision(family, options):
    config = small(family, **options)
    single = recurrent_lm(random_parameters(config, 5, "float32"), OneHot(IDS, V))
    double = recurrent_lm(random_parameters(config, 5), OneHot(IDS, V))
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single, double, rtol=1e-5)


@pytest.mark.parametrize("family", ["rnn", "lstm"])
def test_tokens_that_the_model_does_not_know_are_refused(family):
    theta = random_parameters(small(family, **TIED), seed=0)
    with pytest.raises(TokenOutOfRange, match=r"token id 11 at position 1 .* 0 to 10"):
        recurrent_lm(theta, OneHot([0, 11], theta.E.shape[1]))
    with pytest.raises(EmptySequence):
        recurrent_lm(theta, OneHot([], theta.E.shape[1]))


@pytest.mark.parametrize(("family", "letter"), [("rnn", "U"), ("lstm", "U_P"), ("lstm", "b_S")])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_parameters_that_are_no_numbers_are_refused_by_name(family, letter, bad):
    theta = random_parameters(small(family, **UNTIED), seed=0)
    array = getattr(theta.Phi[1], letter).copy()
    array.flat[-1] = bad
    second = dataclasses.replace(theta.Phi[1], **{letter: array})
    with pytest.raises(NotFinite, match=rf"in the parameters Phi\[2\]\.{letter};"):
        recurrent_lm(dataclasses.replace(theta, Phi=(theta.Phi[0], second)), OneHot(IDS, V))
