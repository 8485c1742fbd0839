"""Recording a forward pass: names, places, filters, memory."""

import numpy as np
import pytest

from vesalius.equations import OneHot, recurrent_lm, tracing, transformer_lm
from vesalius.errors import UnknownStep
from vesalius.families import configuration, random_parameters

CONFIG = configuration("gpt2", layers=3, embedding=12, heads=2, vocabulary=9, context=8)
OMEGA = OneHot([1, 2, 3], 9)


@pytest.fixture(scope="module")
def theta():
    return random_parameters(CONFIG, 0)


def test_every_step_is_recorded_in_order_under_its_symbol_and_place(theta):
    with tracing() as steps:
        Y_hat = transformer_lm(theta, OMEGA)
    head = [f"{symbol}[1,1]" for symbol in ("q", "k", "v", "mu", "P")]
    assert steps.names()[:4] == ["X", "S", "H[0]", "H_bar[1]"]
    assert steps.names()[4:9] == head
    assert steps.names()[14:20] == ["A[1]", "C[1]", "C_bar[1]", "F[1]", "D[1]", "H[1]"]
    assert steps.names()[-4:] == ["H[3]", "H_e", "Z", "Y_hat"]
    assert steps["Y_hat"] is Y_hat
    assert len(steps) == len(steps.names())  # no name is used twice


def test_recorded_values_are_those_of_the_computation(theta):
    with tracing() as steps:
        transformer_lm(theta, OMEGA)
    np.testing.assert_array_equal(steps["C[2]"], steps["H[1]"] + steps["A[2]"])
    np.testing.assert_array_equal(steps["H[2]"], steps["C[2]"] + steps["D[2]"])
    np.testing.assert_array_equal(steps["P[2,1]"], steps["mu[2,1]"] @ steps["v[2,1]"])
    assert {step.name: step.equation.number for step in steps}["A[2]"] == 30


def test_a_recurrent_network_is_recorded_by_layer_and_time():
    theta = random_parameters(configuration("lstm", embedding=4, vocabulary=9), 0)
    with tracing("c, h") as steps:
        recurrent_lm(theta, OMEGA)
    places = [f"[{l},{i}]" for l in (1, 2) for i in (1, 2, 3)]
    assert steps.names() == [f"{letter}{place}" for place in places for letter in ("c", "h")]


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("A[3]", ["A[3]"]),
        ("A", ["A[1]", "A[2]", "A[3]"]),
        ("mu[2]", ["mu[2,1]", "mu[2,2]"]),
        ("mu[*,2], Z", ["mu[1,2]", "mu[2,2]", "mu[3,2]", "Z"]),
        (["mu[3,1]", "H_e"], ["mu[3,1]", "H_e"]),
        ("nothing", []),
        ([], []),
    ],
)
def test_filters_let_only_the_steps_named_through(theta, only, names):
    with tracing(only) as steps:
        transformer_lm(theta, OMEGA)
    assert steps.names() == names


def test_a_whole_layer_can_be_asked_for(theta):
    with tracing("*[2]") as steps:
        transformer_lm(theta, OMEGA)
    assert {step.place["layer"] for step in steps} == {2}
    assert len(steps) == 2 * 5 + 7


def test_a_large_model_can_be_traced_in_the_memory_of_its_norms(theta):
    with tracing(keep=np.linalg.norm) as steps:
        Y_hat = transformer_lm(theta, OMEGA)
    assert all(np.ndim(step.value) == 0 for step in steps)
    assert steps["Y_hat"] == np.linalg.norm(Y_hat)


def test_nothing_is_recorded_outside_and_traces_nest(theta):
    with tracing("Z") as outer:
        transformer_lm(theta, OMEGA)
        with tracing("H[1]") as inner:
            transformer_lm(theta, OMEGA)
    transformer_lm(theta, OMEGA)
    assert [step.name for step in outer] == ["Z", "Z"]
    assert [step.name for step in inner] == ["H[1]"]


def test_an_unknown_step_names_the_nearest(theta):
    with tracing("A") as steps:
        transformer_lm(theta, OMEGA)
    with pytest.raises(
        UnknownStep, match=r"no step 'A\[4\]' was recorded; did you mean A\["
    ) as info:
        steps["A[4]"]
    assert isinstance(info.value, KeyError)
    with pytest.raises(UnknownStep, match=r"cannot read 'A\[x\]'"), tracing("A[x]"):
        pass
