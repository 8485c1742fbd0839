"""What crosses to another process, as from ``Pool.map``: models, networks, traces and analyses."""

import copy
import multiprocessing
import pickle
from multiprocessing.pool import MaybeEncodingError

import numpy as np
import pytest
import torch
from sent import MADE, TEXT, edited_without_a_name, made
from strategies import IDS, filled, given_to, small

import vesalius as vs
from vesalius.equations import REGISTRY
from vesalius.errors import CannotBePickled
from vesalius.families import FAMILIES
from vesalius.models.activations import ACTIVATIONS
from vesalius.traces.trace import Trace


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


def told(result):
    """All that a result says, to compare two."""
    return result.to_json() if hasattr(result, "to_json") else result


@pytest.mark.parametrize("name", MADE)
def test_every_result_arrives_with_all_that_it_says(name):
    result = made(name)
    arrived = sent(result)
    assert type(arrived) is type(result)
    assert told(arrived) == told(result)
    for step in result if isinstance(result, Trace) else ():
        assert np.array_equal(arrived[step], result[step])


def test_a_gradient_arrives_with_its_values():
    gradient = vs.gradient("gpt", TEXT)
    assert np.array_equal(sent(gradient)["H[1]"], gradient["H[1]"])


@pytest.fixture(scope="module")
def pool():
    """Another process, which starts from nothing."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield pool


FROM_A_POOL = ["trace with means", "lens", "attribution", "patching", "difference", "generation"]


def test_a_pool_maps_results(pool):
    for name, arrived in zip(FROM_A_POOL, pool.map(made, FROM_A_POOL), strict=True):
        assert told(arrived) == told(made(name))


CLEAR = (
    r"its edit of h\[1,\*\] is edited_without_a_name\.<locals>\.<lambda>: pickle sends functions "
    r"by name; expected one that a module defines by def, or vs\.zero.*trace\.save\(file\) keeps"
)


def test_an_edit_that_cannot_be_sent_is_named(pool):
    trace = edited_without_a_name("He shook")
    for result in (trace, vs.lens(trace)):
        with pytest.raises(CannotBePickled, match=CLEAR):
            pickle.dumps(result)
    with pytest.raises(MaybeEncodingError, match=CLEAR):
        pool.map(edited_without_a_name, ["He shook"])


def by_value(trace):
    return pickle.loads(pytest.importorskip("cloudpickle").dumps(trace))


@pytest.mark.parametrize("pass_on", [copy.copy, copy.deepcopy, by_value])
def test_it_is_copied_and_sent_by_those_who_can(pass_on):
    trace = edited_without_a_name("He shook")
    assert np.array_equal(pass_on(trace)["h[1,2]"], trace["h[1,2]"])


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
