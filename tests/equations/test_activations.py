"""Activation functions, the multiplicative gate and the softmax (4.2, 5.1 to 5.3)."""

import math

import numpy as np
import pytest
from agreement import agree
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import special, stats

from vesalius.equations import (
    ACTIVATIONS,
    gelu,
    gelu_tanh,
    log_softmax,
    multiplicative_gate,
    relu,
    sigmoid,
    softmax,
    tanh,
)

AXIS = np.linspace(-5, 5, 10_001)


def matrices(largest):
    shapes = array_shapes(min_dims=2, max_dims=2, max_side=6)
    return arrays(np.float64, shapes, elements=st.floats(-largest, largest))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_work_entry_by_entry_whatever_the_shape(name, rng):
    X = rng.normal(size=(2, 3, 4))
    flat = [ACTIVATIONS[name](np.array([x]))[0] for x in X.ravel()]
    agree(ACTIVATIONS[name](X).ravel(), flat)


@pytest.mark.parametrize("function", [*ACTIVATIONS.values(), softmax, log_softmax])
def test_single_precision_stays_single(function, rng):
    X = rng.normal(size=(5, 4))
    single = function(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, function(X), rtol=1e-5, atol=1e-6)


def test_the_sigmoid_of_the_logarithm_of_odds_is_their_probability():
    odds = np.array([1.0, 3.0, 1 / 3, 9.0])
    agree(sigmoid(np.log(odds)), [0.5, 0.75, 0.25, 0.9])


@given(x=matrices(700))
def test_the_sigmoid_is_scipys_even_where_it_almost_vanishes(x):
    # An exponent near 700 is rounded by up to 1e-13, which its exponential keeps as relative error.
    np.testing.assert_allclose(sigmoid(x), special.expit(x), rtol=1e-12)


@given(x=matrices(50))
def test_the_sigmoid_of_the_opposite_is_the_complement(x):
    agree(sigmoid(-x), 1 - sigmoid(x))


def test_the_sigmoid_overflows_on_neither_side():
    assert sigmoid(np.array([-1000.0, 1000.0])).tolist() == [0, 1]
    assert sigmoid(np.array([-1000.0, 1000.0], dtype=np.float32)).tolist() == [0, 1]


def test_relu_cuts_what_is_negative():
    assert relu(np.array([-2.0, -1e-300, 0.0, 0.5, 3.0])).tolist() == [0, 0, 0, 0.5, 3]


def test_gelu_weighs_a_number_by_the_probability_of_a_smaller_one():
    agree(gelu(AXIS), AXIS * stats.norm.cdf(AXIS))
    # Tables of the normal distribution give P(X ≤ 1) = 0.8413 and P(X ≤ −2) = 0.02275.
    np.testing.assert_allclose(gelu(np.array([1.0, -2.0])), [0.8413, -0.0455], atol=5e-5)


def test_the_two_forms_of_gelu_are_close_but_not_the_same():
    furthest = np.abs(gelu(AXIS) - gelu_tanh(AXIS)).max()
    assert 4.6e-4 < furthest < 4.8e-4


@pytest.mark.parametrize("form", [gelu, gelu_tanh])
@given(x=matrices(100))
def test_gelu_of_a_number_and_of_its_opposite_differ_by_the_number(form, x):
    np.testing.assert_allclose(form(x) - form(-x), x, rtol=1e-14, atol=1e-300)


def test_the_hyperbolic_tangent_is_a_stretched_sigmoid():
    agree(tanh(AXIS), 2 * special.expit(2 * AXIS) - 1)
    agree(tanh(np.log([2.0, 3.0])), [0.6, 0.8])


def test_the_gate_lets_through_what_its_control_says():
    v, shut, half, open_ = np.array([2.0, -8.0]), -1000.0, 0.0, 1000.0
    assert multiplicative_gate(v, np.array([shut, shut])).tolist() == [0, 0]
    assert multiplicative_gate(v, np.array([half, half])).tolist() == [1, -4]
    assert multiplicative_gate(v, np.array([open_, shut])).tolist() == [2, 0]
    three_quarters = np.full(2, math.log(3))
    agree(multiplicative_gate(v, three_quarters), [1.5, -6])


def test_the_gate_multiplies_by_the_sigmoid_of_its_control(rng):
    v, x = rng.normal(size=(2, 20))
    agree(multiplicative_gate(v, x), v * special.expit(x))


def test_softmax_shares_in_proportion_to_exponentials():
    z = np.log([1.0, 2.0, 3.0])
    agree(softmax(z), [1 / 6, 1 / 3, 1 / 2])


@pytest.mark.parametrize("axis", [0, 1, -1])
@given(Z=matrices(300))
def test_softmax_and_its_logarithm_are_scipys_along_either_axis(axis, Z):
    # Exponents up to 600 are rounded by up to 1e-13, which the exponential keeps.
    theirs = special.softmax(Z, axis=axis)
    np.testing.assert_allclose(softmax(Z, axis=axis), theirs, rtol=1e-12, atol=1e-300)
    theirs = special.log_softmax(Z, axis=axis)
    np.testing.assert_allclose(log_softmax(Z, axis=axis), theirs, rtol=1e-12, atol=1e-12)


def test_softmax_of_a_vocabulary_keeps_the_digits_of_single_precision(rng):
    Z = rng.normal(0, 3, (50257, 7)).astype(np.float32)
    found, logs = softmax(Z), log_softmax(Z)
    assert (found.dtype, logs.dtype) == (np.float32, np.float32)
    # z - max is rounded at a size of 30: 30 * 2^-24 of its exponential, and of its logarithm
    exact = special.log_softmax(Z.astype(np.float64), axis=0)
    np.testing.assert_allclose(found, np.exp(exact), rtol=30 * 2.0**-24 + 2.0**-21)
    np.testing.assert_allclose(logs, exact, rtol=0, atol=4 * 30 * 2.0**-24)


def test_softmax_normalises_columns_unless_told_otherwise(rng):
    Z = rng.normal(size=(3, 4))
    agree(softmax(Z).sum(axis=0), np.ones(4))
    agree(np.exp(log_softmax(Z)).sum(axis=0), np.ones(4))
    agree(softmax(Z, axis=1).sum(axis=1), np.ones(3))


@given(Z=matrices(10), shift=st.floats(-1e3, 1e3))
def test_softmax_does_not_see_what_is_added_to_all_entries(Z, shift):
    # Z + shift is itself rounded by up to 1e-13.
    np.testing.assert_allclose(softmax(Z + shift), softmax(Z), rtol=1e-12)
    agree(log_softmax(Z + shift), log_softmax(Z))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_of_enormous_entries_is_finite(dtype):
    z = np.array([1e4, 1e4, -1e4], dtype=dtype)
    assert softmax(z).tolist() == [0.5, 0.5, 0]
    assert softmax(-z).tolist() == [0, 0, 1]
    logarithms = [-math.log(2), -math.log(2), -2e4 - math.log(2)]
    np.testing.assert_allclose(log_softmax(z), logarithms, rtol=1e-6)


def test_softmax_gives_nothing_to_entries_of_minus_infinity():
    z = np.array([-np.inf, math.log(3), 0, -np.inf])
    agree(softmax(z), [0, 0.75, 0.25, 0])
    logarithms = [-np.inf, math.log(0.75), math.log(0.25), -np.inf]
    np.testing.assert_allclose(log_softmax(z), logarithms, rtol=1e-12)


def test_the_logarithm_of_softmax_is_finite_where_softmax_rounds_to_zero():
    z = np.array([0.0, -1000.0])
    assert softmax(z)[1] == 0
    assert log_softmax(z).tolist() == [0, -1000]
