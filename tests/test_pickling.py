"""What crosses to another process, as from ``Pool.map``: models, networks, traces and analyses."""

import copy
import pickle

import numpy as np
import pytest
import torch
from strategies import IDS, filled, given_to, small

import vesalius as vs
from vesalius.equations import REGISTRY
from vesalius.families import FAMILIES
from vesalius.models.activations import ACTIVATIONS


def sent(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_trace_arrives_with_its_values_its_equations_and_its_model(family):
    config = small(family)
    model = filled(config)
    _ = model.network, model.parameters  # made already, which must not be in the way
    trace = vs.dissect(model, given_to(config))
    arrived = sent(trace)
    assert arrived.names() == trace.names()
    for step, other in zip(trace.steps, arrived.steps, strict=True):
        assert np.array_equal(step.value, other.value)
        assert other.equation is step.equation
    last = trace.names()[-1]
    cell = (0,) * trace[last].ndim
    assert vs.unfold(arrived, last, *cell) == vs.unfold(trace, last, *cell)


def test_a_trace_of_one_step_arrives():
    trace = vs.dissect(filled(small("gpt2")), IDS, only="H[1]")
    assert np.array_equal(sent(trace)["H[1]"], trace["H[1]"])


def test_what_analyses_give_arrives():
    model = filled(small("gpt2"))
    trace = vs.dissect(model, IDS)
    gradient = vs.gradient(model, IDS)
    results = (vs.unfold(trace, "H[1]", 0, 0), vs.lens(trace), vs.attribute(trace), gradient)
    for result in results:
        assert sent(result).to_json() == result.to_json()
    assert np.array_equal(sent(gradient)["H[1]"], gradient["H[1]"])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_network_arrives_and_computes_the_same(family):
    network = filled(small(family)).network
    arrived = sent(network).state_dict()
    assert all(torch.equal(value, arrived[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_of_a_network_can_be_sent(name):
    assert sent(ACTIVATIONS[name]) is ACTIVATIONS[name]


@pytest.mark.parametrize("pass_on", [sent, copy.deepcopy])
def test_a_model_that_was_sent_or_copied_is_one_object_as_before(pass_on):
    model = filled(small("gpt2"))
    before = vs.dissect(model, IDS)["Z"]
    network = model.network
    arrived = pass_on(model)
    assert arrived.network is not network
    arrived.state["embedding.weight"][:] = 0
    assert not arrived.network.state_dict()["embedding.weight"].any()
    assert not vs.dissect(arrived, IDS)["X"].any()
    assert np.array_equal(vs.dissect(model, IDS)["Z"], before)


def test_every_equation_is_sent_by_its_name():
    for equation in REGISTRY.values():
        assert sent(equation) is equation
