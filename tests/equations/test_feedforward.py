"""The feedforward language model (4.2, 5.1): equations 3 to 6 and 23."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from agreement import agree
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as any_array
from scipy import special

from vesalius.equations import (
    ACTIVATIONS,
    Dense,
    OneHot,
    concatenate,
    dense,
    distribution,
    feedforward_layer,
    feedforward_lm,
    feedforward_logits,
    feedforward_network,
    logits_of_vector,
    relu,
    sigmoid,
    tanh,
)
from vesalius.errors import (
    EmptySequence,
    NotFinite,
    TokenOutOfRange,
    VesaliusError,
    WrongLength,
)
from vesalius.families import configuration, random_parameters

PYTORCH = {relu: torch.nn.ReLU(), sigmoid: torch.nn.Sigmoid(), tanh: torch.nn.Tanh()}
SMALL = configuration(
    "ffnn", vocabulary=11, context=3, embedding=4, layers=2, hidden=5, output_bias=True
)
WINDOW = [7, 0, 10]


def linear(W, b=None):
    """PyTorch's layer with our weights."""
    layer = torch.nn.Linear(W.shape[1], W.shape[0], bias=b is not None).double()
    weights = {"weight": W} if b is None else {"weight": W, "bias": b}
    layer.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    return layer.requires_grad_(False)


def pytorch_lm(theta):
    layers = [torch.nn.Embedding.from_pretrained(torch.tensor(theta.E.T)), torch.nn.Flatten(0)]
    for Phi_l in theta.Phi:
        layers += [linear(Phi_l.W, Phi_l.b), PYTORCH[Phi_l.g]]
    return torch.nn.Sequential(*layers, linear(theta.U, theta.b_U), torch.nn.Softmax(dim=-1))


def random_dense(rng, d_out, d_in, g=None):
    return Dense(W=rng.normal(size=(d_out, d_in)), b=rng.normal(size=d_out), g=g)


def test_a_dense_layer_multiplies_then_adds_then_bends():
    layer = Dense(W=np.array([[1.0, 2.0], [3.0, 4.0]]), b=np.array([10.0, -20.0]))
    x = np.array([5.0, -1.0])
    assert dense(layer, x).tolist() == [13, -9]
    assert dense(dataclasses.replace(layer, g=relu), x).tolist() == [13, 0]


def test_a_dense_layer_adds_its_bias_to_every_column():
    layer = Dense(W=np.array([[1.0, 2.0], [3.0, 4.0]]), b=np.array([10.0, -20.0]))
    X = np.array([[5.0, 0.0, 1.0], [-1.0, 0.0, 1.0]])
    assert dense(layer, X).tolist() == [[13, 10, 13], [-9, -20, -13]]


@given(rows=st.integers(1, 5), columns=st.integers(1, 5), n=st.integers(1, 5))
def test_a_dense_layer_is_pytorchs_linear_on_rows_where_ours_has_columns(rows, columns, n):
    rng = np.random.default_rng([rows, columns, n])
    layer, X = random_dense(rng, rows, columns), rng.normal(size=(columns, n))
    theirs = linear(layer.W, layer.b)(torch.tensor(X.T)).T
    agree(dense(layer, X), theirs)


@pytest.mark.proves(23)
def test_a_layer_of_the_network_worked_by_hand():
    layer = Dense(
        W=np.array([[1.0, 0.0, -1.0], [0.5, 0.5, 0.5]]),
        b=np.array([math.log(3) - 1, -2.0]),
        g=sigmoid,
    )
    h = feedforward_layer(layer, np.array([4.0, -3.0, 3.0]))
    agree(h, [0.75, 0.5])


@pytest.mark.proves(23)
@pytest.mark.parametrize("g", PYTORCH)
def test_a_layer_of_the_network_is_pytorchs(g, rng):
    layer, h = random_dense(rng, 4, 6, g), rng.normal(size=6)
    theirs = PYTORCH[g](linear(layer.W, layer.b)(torch.tensor(h)))
    agree(feedforward_layer(layer, h), theirs)


@pytest.mark.proves(3)
def test_the_network_applies_its_layers_in_order_each_with_its_own_activation(rng):
    widths, bends = [6, 5, 3, 4], [tanh, relu, sigmoid]
    Phi = tuple(
        random_dense(rng, d_out, d_in, g)
        for d_in, d_out, g in zip(widths[:-1], widths[1:], bends, strict=True)
    )
    h = rng.normal(size=6)
    theirs = torch.nn.Sequential(
        *(part for Phi_l in Phi for part in (linear(Phi_l.W, Phi_l.b), PYTORCH[Phi_l.g]))
    )(torch.tensor(h))
    agree(feedforward_network(Phi, h), theirs)


def test_a_layer_without_an_activation_is_refused_since_23_has_one(rng):
    with pytest.raises(VesaliusError, match="expected a layer with an activation g"):
        feedforward_layer(random_dense(rng, 4, 6), rng.normal(size=6))


@pytest.mark.proves(3)
def test_layers_without_activation_multiply_into_one_matrix():
    Phi = (
        Dense(W=np.array([[1.0, 2.0], [0.0, 1.0]]), b=np.zeros(2), g=ACTIVATIONS["linear"]),
        Dense(W=np.array([[3.0, 0.0], [1.0, 1.0]]), b=np.zeros(2), g=ACTIVATIONS["linear"]),
    )
    product = np.array([[3.0, 6.0], [1.0, 3.0]])
    for column, h in enumerate(np.eye(2)):
        assert feedforward_network(Phi, h).tolist() == product[:, column].tolist()


@pytest.mark.proves(4)
def test_logits_compare_the_state_with_every_output_embedding():
    U, h = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -3.0]]), np.array([5.0, 7.0])
    assert logits_of_vector(U, h).tolist() == [5, 7, -11]
    assert logits_of_vector(U, h, np.array([0.5, 0.0, -1.0])).tolist() == [5.5, 7, -12]


@pytest.mark.proves(4)
@pytest.mark.parametrize("biased", [True, False])
def test_logits_are_a_linear_layer_of_pytorch(biased, rng):
    U, h, b_U = rng.normal(size=(9, 4)), rng.normal(size=4), rng.normal(size=9) if biased else None
    theirs = linear(U, b_U)(torch.tensor(h))
    agree(logits_of_vector(U, h, b_U), theirs)


@pytest.mark.proves(5)
def test_logits_that_are_logarithms_of_shares_give_the_shares():
    agree(distribution(np.log([2.0, 6.0, 12.0])), [0.1, 0.3, 0.6])


@pytest.mark.proves(5)
@given(z=any_array(np.float64, 7, elements=st.floats(-30, 30)))
def test_the_distribution_is_scipys_softmax_and_keeps_the_order_of_the_logits(z):
    y_hat = distribution(z)
    agree(y_hat, special.softmax(z))
    agree(y_hat.sum(), 1)
    # The exponentials of neighbouring numbers may be rounded past each other.
    assert (np.diff(y_hat[np.argsort(z)]) >= -1e-15).all()


def test_the_network_reads_the_embeddings_one_after_the_other():
    assert concatenate(np.array([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])).tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.proves(6)
@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("output_bias", [True, False])
def test_the_model_is_the_same_model_in_pytorch(activation, layers, output_bias):
    config = SMALL.change(activation=activation, layers=layers, output_bias=output_bias)
    theta = random_parameters(config, seed=layers)
    theirs = pytorch_lm(theta)(torch.tensor(WINDOW))
    agree(feedforward_lm(theta, OneHot(WINDOW, 11)), theirs)


@pytest.mark.proves(6)
def test_a_model_of_one_word_worked_by_hand():
    theta = random_parameters(
        SMALL.change(vocabulary=2, context=1, embedding=1, hidden=1, layers=1), seed=0
    )
    theta = dataclasses.replace(
        theta,
        E=np.array([[0.0, 1.0]]),
        Phi=(Dense(W=np.array([[math.log(2) + 1]]), b=np.array([-1.0]), g=tanh),),
        U=np.array([[5 * math.log(3)], [0.0]]),
        b_U=np.array([0.0, 2 * math.log(3)]),
    )
    # tanh(log 2) = 3/5, so the logits are 3 log 3 and 2 log 3.
    y_hat = feedforward_lm(theta, OneHot([1], 2))
    agree(y_hat, [0.75, 0.25])


def test_the_model_knows_the_order_of_its_words():
    theta = random_parameters(SMALL, seed=5)
    there = feedforward_lm(theta, OneHot(WINDOW, 11))
    back = feedforward_lm(theta, OneHot(WINDOW[::-1], 11))
    assert np.abs(there - back).max() > 1e-3


def test_the_logits_of_the_model_are_the_logarithms_of_its_distribution_up_to_a_constant():
    theta = random_parameters(SMALL, seed=6)
    z = feedforward_logits(theta, OneHot(WINDOW, 11))
    apart = np.log(pytorch_lm(theta)(torch.tensor(WINDOW)).numpy()) - z
    agree(apart, np.full(11, apart[0]))


def test_a_model_in_single_precision_answers_in_single_precision():
    single = feedforward_lm(random_parameters(SMALL, 7, "float32"), OneHot(WINDOW, 11))
    double = feedforward_lm(random_parameters(SMALL, 7), OneHot(WINDOW, 11))
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single, double, rtol=1e-5)


@pytest.mark.parametrize("window", [[1], [1, 2], [1, 2, 3, 4]])
def test_a_window_of_another_length_is_refused(window):
    theta = random_parameters(SMALL, seed=0)
    with pytest.raises(WrongLength, match=f"exactly 3 tokens, got {len(window)}"):
        feedforward_lm(theta, OneHot(window, 11))


def test_tokens_that_the_model_does_not_know_are_refused():
    theta = random_parameters(SMALL, seed=0)
    V = theta.E.shape[1]
    with pytest.raises(TokenOutOfRange, match=r"token id 11 at position 2 .* 0 to 10"):
        feedforward_lm(theta, OneHot([0, 1, 11], V))
    with pytest.raises(EmptySequence):
        feedforward_lm(theta, OneHot([], V))


def test_enormous_parameters_are_still_numbers():
    theta = random_parameters(SMALL, seed=0)
    b_U = np.where(np.arange(11) < 3, 1e308, theta.b_U)
    y_hat = feedforward_lm(dataclasses.replace(theta, b_U=b_U), OneHot(WINDOW, 11))
    agree(y_hat, [1 / 3, 1 / 3, 1 / 3, 0, 0, 0, 0, 0, 0, 0, 0])


def test_infinities_that_cancel_are_refused_too():
    theta = random_parameters(SMALL, seed=0)
    b_U = np.array([np.inf, -np.inf, *theta.b_U[2:]])
    with pytest.raises(NotFinite, match="in the parameters b_U;"):
        feedforward_lm(dataclasses.replace(theta, b_U=b_U), OneHot(WINDOW, 11))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_parameters_that_are_no_numbers_are_refused_by_name(bad):
    theta = random_parameters(SMALL, seed=0)
    b = theta.Phi[1].b.copy()
    b[2] = bad
    second = dataclasses.replace(theta.Phi[1], b=b)
    E = np.where(np.arange(11) == 4, bad, theta.E)
    with pytest.raises(NotFinite, match=r"in the parameters Phi\[2\]\.b;"):
        feedforward_lm(dataclasses.replace(theta, Phi=(theta.Phi[0], second)), OneHot(WINDOW, 11))
    with pytest.raises(NotFinite, match=r"in the parameters E, Phi\[2\]\.b;"):
        feedforward_lm(
            dataclasses.replace(theta, E=E, Phi=(theta.Phi[0], second)), OneHot(WINDOW, 11)
        )
