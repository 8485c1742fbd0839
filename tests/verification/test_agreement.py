"""Verification: equations, networks and Transformers agree step by step, or it says where not."""

import json

import numpy as np
import pytest
import torch
from strategies import SMALL, filled, small

from vesalius.errors import ImpossibleSetting, UnknownConfiguration, VesaliusError, WrongKind
from vesalius.families import FAMILIES
from vesalius.model import Model, create
from vesalius.verification.agreement import TOLERANCE, Agreement, Verification, example, verify

BLOCK = ["q[1,1]", "k[1,1]", "v[1,1]", "q[1,3]", "A[1]", "D[1]", "H[1]", "A[2]", "D[2]", "H[2]"]
SHARED = {
    "ffnn": ["z"],
    "rnn": ["Z"],
    "lstm": ["Z"],
    "transformer": [*BLOCK, "Z"],
    "gpt2": [*BLOCK, "Z"],
    "igpt": [*BLOCK, "Z"],
    "bert": [*BLOCK, "Z", "h_C", "z_C"],
    "vit": [*BLOCK, "H_e", "z"],
    "tst": [*BLOCK, "z"],
    "patchtst": [*BLOCK, "Omega_hat"],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_equations_and_network_agree_at_every_step_that_they_share(family):
    found = verify(filled(small(family)))
    assert found.first_divergence is None
    steps = [row.step for row in found.rows if row.peer == "network"]
    assert set(SHARED[family]) <= set(steps)
    assert [step for step in steps if step in SHARED[family]] == SHARED[family]
    for row in found.rows:
        assert row.distance.keys() == TOLERANCE.keys()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_was_just_created_agrees(family):
    assert verify(create(family, **SMALL[family])).first_divergence is None


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("gpt2", {"key": 5, "value": 3, "tied": False}),
        ("transformer", {"variant": 2, "causal": False, "activation": "gelu_tanh"}),
        ("rnn", {"activation": "sigmoid"}),
        ("lstm", {"hidden": 5, "tied": False, "output_bias": True}),
        ("gpt2", {"labels": 3}),
        ("lstm", {"labels": 3}),
        ("bert", {"labels": 3, "labelled": "sequence"}),
        ("bert", {"labels": 3, "labelled": "tokens"}),
        ("bert", {"labels": 2, "labelled": "span", "pooler": False, "nsp_head": False}),
        ("bert", {"mlm_head": False, "nsp_head": False}),
        ("vit", {"classes": 0}),
        ("vit", {"pooler": True, "masked_patch_head": True}),
        ("tst", {"head": "series", "normalisation": "layer", "positions": "sinusoidal"}),
        ("tst", {"head": "regression"}),
        ("patchtst", {"affine": True, "end_padding": False, "variant": 2}),
        ("patchtst", {"normalisation": "layer", "positions": "sinusoidal", "context": 9}),
    ],
)
def test_other_configurations_agree_too(family, changes):
    assert verify(filled(small(family, **changes))).first_divergence is None


TRANSFORMERS = [
    ("gpt2", {}, {"H[0]", "H[1]", "H_e", "mu[1,1]", "mu[2,3]", "Z"}),
    ("gpt2", {"tied": False, "activation": "gelu"}, {"H[1]", "Z"}),
    ("gpt2", {"labels": 3}, {"H[1]", "z"}),
    ("igpt", {}, {"H[1]", "Z"}),
    (
        "igpt",
        {"normalisation": "rms", "tied": False, "start_predicted": False},
        {"H[1]", "mu[1,1]", "Z"},
    ),
    ("bert", {}, {"H[0]", "H[1]", "H[2]", "mu[1,1]", "Z", "z_C"}),
    ("bert", {"pooler": False, "nsp_head": False}, {"H[2]", "Z"}),
    ("bert", {"mlm_head": False, "nsp_head": False}, {"H[2]", "h_C"}),
    ("bert", {"mlm_head": False}, {"H[2]", "z_C"}),
    ("bert", {"mlm_head": False, "nsp_head": False, "labels": 3}, {"H[2]", "z"}),
    (
        "bert",
        {"mlm_head": False, "nsp_head": False, "pooler": False, "labels": 3, "labelled": "tokens"},
        {"H[2]", "z"},
    ),
    (
        "bert",
        {"mlm_head": False, "nsp_head": False, "pooler": False, "labels": 2, "labelled": "span"},
        {"H[2]", "z"},
    ),
    ("bert", {"mlm_head": False, "nsp_head": False, "pooler": False}, {"H[0]", "H[2]", "mu[1,1]"}),
    ("vit", {}, {"H[0]", "H[2]", "mu[1,1]", "z"}),
    ("vit", {"classes": 0, "pooler": True}, {"H[2]"}),
    ("patchtst", {"end_padding": False}, {"H[0]", "H[1]", "mu[1,1]", "Omega_hat"}),
    (
        "patchtst",
        {"end_padding": False, "variant": 2, "normalisation": "layer", "context": 10},
        {"H[1]", "mu[2,3]", "Omega_hat"},
    ),
]


@pytest.mark.parametrize(("family", "changes", "steps"), TRANSFORMERS)
def test_transformers_agrees_at_every_step_that_it_shows(family, changes, steps):
    found = verify(filled(small(family, **changes)), against="transformers")
    assert found.first_divergence is None
    assert steps <= {row.step for row in found.rows if row.peer == "transformers"}
    for row in found.rows:
        if row.peer == "transformers":  # its scores are shown in single precision only
            scores = row.step.startswith("mu")
            assert row.distance.keys() == ({"float32"} if scores else TOLERANCE.keys())


def test_what_transformers_does_not_have_cannot_be_verified_against_it():
    with pytest.raises(UnknownConfiguration, match="no layout for lstm"):
        verify(filled(small("lstm")), against="transformers")
    with pytest.raises(UnknownConfiguration, match="sinusoidal positions"):
        verify(filled(small("gpt2", positions="sinusoidal")), against="transformers")


def test_an_unknown_peer_is_refused():
    for peer in ("tensorflow", "", "Transformers"):
        with pytest.raises(WrongKind, match=r"expected one of .*equations.*transformers"):
            verify(filled(small("gpt2")), against=peer)


@pytest.mark.parametrize(("length", "expected"), [(None, 7), (1, 1), (4, 4), (7, 7)])
def test_the_input_is_as_long_as_asked_or_as_the_model_reads(length, expected):
    model = filled(small("gpt2", context=7))
    assert len(example(model, length, seed=1)) == expected
    assert verify(model, length=length, seed=1).first_divergence is None


def test_the_input_has_twelve_tokens_unless_said():
    assert len(example(filled(small("lstm")), None, seed=0)) == 12


@pytest.mark.parametrize(
    ("family", "length", "message"),
    [
        ("gpt2", 10, "the model reads 9 tokens, got length 10"),
        ("ffnn", 12, "ffnn reads 4 at once, got length 12"),
        ("vit", 12, "vit reads 6 x 6 x 3 at once, got length 12"),
        ("tst", 12, "tst reads 4 x 7 at once, got length 12"),
    ],
)
def test_a_length_that_the_model_does_not_read_is_refused(family, length, message):
    with pytest.raises(VesaliusError, match=message):
        verify(filled(small(family)), length=length)


@pytest.mark.parametrize("wrong", [1.5, "12", -1, True, [3]])
@pytest.mark.parametrize("name", ["length", "seed"])
def test_numbers_that_are_none_are_refused(name, wrong):
    with pytest.raises(ImpossibleSetting, match=f"{name} must be (a whole number|at least)"):
        verify(filled(small("gpt2")), **{name: wrong})


@pytest.mark.parametrize("number", [np.int64(3), np.uint8(3), torch.tensor(3)])
def test_whole_numbers_may_come_from_numpy_and_torch(number):
    found = verify(filled(small("rnn")), length=number, seed=number)
    assert found.first_divergence is None


def test_verifying_leaves_the_model_as_it_was():
    model = filled(small("bert"), dtype="float32")
    before = {name: array.copy() for name, array in model.state.items()}
    network = model.network
    verify(model, against="transformers")
    assert model.network is network
    assert not any(module._forward_hooks for module in network.modules())
    for name, array in model.state.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, before[name])


def test_a_verification_is_told_in_json():
    found = verify(filled(small("gpt2")), against="transformers")
    told = json.loads(json.dumps(found.to_json()))
    assert told["agrees"] is True
    assert told["first_divergence"] is None
    assert len(told["steps"]) == len(found.rows)
    row = next(row for row in told["steps"] if row["step"] == "Z" and row["peer"] == "network")
    assert row.keys() == {"step", "peer", "float32", "float64", "agrees"}
    assert row["agrees"] is True
    assert all(0 <= row[dtype] <= bound for dtype, bound in TOLERANCE.items())


def test_the_first_divergence_is_the_first_in_the_order_of_computation():
    fine = Agreement("A[1]", "network", {"float32": 1e-7, "float64": 1e-15})
    wrong = Agreement("D[1]", "network", {"float32": 1e-7, "float64": 1e-9})
    worse = Agreement("H[1]", "network", {"float32": 1.0, "float64": 1.0})
    found = Verification((fine, wrong, worse))
    assert found.first_divergence is wrong
    told = found.to_json()
    assert told["agrees"] is False
    assert told["first_divergence"]["step"] == "D[1]"


def test_what_cannot_be_compared_is_a_divergence():
    nothing = Agreement("Z", "network", {"float32": float("nan"), "float64": 0.0})
    assert not nothing.fine
    otherwise = Agreement("Z", "network", {"float32": float("inf"), "float64": 0.0})
    assert not otherwise.fine


def test_a_network_that_differs_in_one_weight_is_found_out(monkeypatch):
    right = Model.network.func

    def wrong(self):
        network = right(self)
        weight = network.blocks[1].feedforward.inner.weight
        weight.data = weight.data.clone()
        weight.data[3, 4] += 1e-3
        return network

    monkeypatch.setattr(Model, "network", property(wrong))
    found = verify(filled(small("gpt2"))).first_divergence
    assert (found.step, found.peer) == ("F[2]", "network")
    assert found.distance["float64"] > 1e-6
