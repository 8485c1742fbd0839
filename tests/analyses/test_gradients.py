"""Gradients are those of autograd on the field's own models, and of finite differences."""

import json
import sys
from functools import cache

import numpy as np
import pytest
import torch
from analyses.lively import FAMILIES, given, specimen, trace
from hugging import saved

import vesalius as vs
from vesalius.data.inputs import Input
from vesalius.errors import MissingExtra, UnknownStep, WrongKind
from vesalius.verification.taps import watch

WITHOUT = {"S": "the mask is added, and what it adds is 0 or minus infinity"}
"""Steps that the target is made of and that have no gradient, with the reason."""
BY_PRODUCT = {"p": "k", "r": "d", "s": "h"}
"""Gates whose product stands in the same equation: an edit of the gate comes too late for it."""


@cache
def found(name, double=True):
    return vs.gradient(specimen(name, double), given(name))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_step_that_the_target_is_made_of_has_a_gradient_of_its_shape(name):
    g = found(name)
    made_of = {g.target.step, *g.trace.graph.sources([g.target.step])}
    assert made_of - set(g) <= set(WITHOUT)
    assert set(g) <= made_of
    assert all(g[step].shape == g.trace[step].shape for step in g)
    assert all(np.isfinite(grad).all() for grad in g.values())


@pytest.mark.parametrize("name", FAMILIES)
def test_the_tensors_that_are_watched_hold_the_values_of_the_trace(name):
    seen, expected = watch(specimen(name, double=True), trace(name, double=True)), trace(name, True)
    assert set(expected) - set(seen) <= {*WITHOUT}
    for step, watched in seen.items():
        np.testing.assert_allclose(watched.value.detach(), expected[step], rtol=1e-9, atol=1e-10)


def test_a_pair_of_texts_is_read_with_its_segments():
    bert = specimen("bert", double=True)
    expected = vs.dissect(bert, ("He shook his head.", "She [MASK]."))
    seen = watch(bert, expected)
    assert set(expected) - set(seen) <= {*WITHOUT}
    for step, watched in seen.items():
        np.testing.assert_allclose(watched.value.detach(), expected[step], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("cells", [1, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_are_finite_differences_through_the_equations(name, cells):
    g, rng, kinds = found(name), np.random.default_rng(5), {}
    for step in g.trace.steps:
        if step.name in g and not (name == "lstm" and step.symbol in BY_PRODUCT):
            kinds.setdefault(step.symbol, []).append(step.name)
    for names in kinds.values():
        for _ in range(cells):
            step = str(rng.choice(names))
            at = tuple(int(rng.integers(n)) for n in g[step].shape)
            slope = (changed(name, step, at, 1e-6) - changed(name, step, at, -1e-6)) / 2e-6
            rounding = 2e-9 * max(1, abs(g.value))  # of two targets, over 2e-6
            assert abs(slope - g[step][at]) <= 1e-6 * np.abs(g[step]).max() + rounding, (step, at)


def changed(name, step, at, by):
    """The target with one cell of a step changed."""

    def edit(value):
        value = value.copy()
        value[at] += by
        return value

    target = found(name).target
    edited = vs.dissect(specimen(name, True), given(name), only=target.step, edit={step: edit})
    return target.of(edited[target.step])


def test_gates_of_an_lstm_have_the_gradient_of_their_product():
    g, t = found("lstm"), trace("lstm", double=True)
    for l, i in ((1, 2), (2, 3)):
        here = f"[{l},{i}]"
        c_before, q, c = t[f"c[{l},{i - 1}]"], t[f"q{here}"], t[f"c{here}"]
        np.testing.assert_allclose(g[f"p{here}"], g[f"k{here}"] * c_before, rtol=1e-12)
        np.testing.assert_allclose(g[f"r{here}"], g[f"d{here}"] * q, rtol=1e-12)
        np.testing.assert_allclose(g[f"s{here}"], g[f"h{here}"] * np.tanh(c), rtol=1e-12)


SMALL = {"layers": 2, "embedding": 8}
TEXT = {**SMALL, "vocabulary": 11}
OTHERS = {
    "post-norm": ("transformer", {**TEXT, "heads": 2, "variant": 1, "positions": "sinusoidal"}),
    "pre-norm": ("transformer", {**TEXT, "heads": 2, "variant": 2, "tied": False}),
    "not causal": ("transformer", {**TEXT, "heads": 2, "causal": False}),
    "wide keys": ("gpt2", {**TEXT, "heads": 2, "key": 3, "value": 5}),
    "igpt": ("igpt", {**TEXT, "heads": 2}),
    "sigmoid": ("rnn", {**TEXT, "activation": "sigmoid"}),
    "relu": ("rnn", {**TEXT, "activation": "relu", "hidden": 6, "tied": False}),
    "tied lstm": ("lstm", {**TEXT, "tied": True}),
    "sentence labels": ("bert", {**TEXT, "heads": 2, "labels": 3, "mlm_head": False}),
    "token labels": (
        "bert",
        {**TEXT, "heads": 2, "labels": 3, "labelled": "tokens", "mlm_head": False},
    ),
    "classes of series": ("tst", {"head": "classes", "outputs": 3, "positions": "sinusoidal"}),
    "masked series": ("tst", {"head": "series"}),
    "forecasts": ("patchtst", {"patch": 2, "stride": 2, "horizon": 3, "affine": True}),
}


VALUES = ("masked series", "forecasts")
"""Whose targets are cells."""


@pytest.mark.parametrize("kind", OTHERS)
def test_so_it_is_in_every_form_of_a_family(kind):
    family, settings = OTHERS[kind]
    text = [3, 1, 4, 1, 5]
    if family == "tst":
        settings = {**SMALL, "heads": 2, "channels": 2, "context": 6, **settings}
        text = np.random.default_rng(0).standard_normal((2, 4))  # two time steps are padding
    if family == "patchtst":
        settings = {**SMALL, "heads": 2, "channels": 2, "context": 6, **settings}
        text = np.random.default_rng(0).standard_normal((2, 6))
    model = vs.create(family, **settings)
    rng = np.random.default_rng(1)
    model.state = {
        k: np.abs(rng.normal(size=a.shape)) if "running_var" in k else rng.normal(size=a.shape)
        for k, a in model.state.items()
    }
    g = vs.gradient(model, text, ("Omega_hat", 1, 2) if kind in VALUES else None)
    made_of = {g.target.step, *g.trace.graph.sources([g.target.step])}
    assert made_of - set(g) <= set(WITHOUT)
    instance = ("mu_r", "sigma_r", "Omega_bar", "Omega_p", "H_f", "Y_u")
    for step in (*instance, "X", "Lambda", "mu[1,2]", "h[1,2]", "H_e", "h_0", "H[1]", "h_C"):
        if step in g:
            at = tuple(n // 2 for n in g[step].shape)
            slopes = []
            for by in (1e-6, -1e-6):
                shift = np.zeros(g[step].shape)
                shift[at] = by
                edited = vs.dissect(model, text, edit={step: lambda v, s=shift: v + s})
                slopes.append(g.target.of(edited[g.target.step]) / (2 * by))
            close = 1e-6 * np.abs(g[step]).max() + 2e-9 * max(1, abs(g.value))
            assert abs(sum(slopes) - g[step][at]) <= close, step


@pytest.mark.parametrize("head", ["classes", "series"])
def test_gaps_of_a_series_are_masked_as_in_the_equations(head):
    model = vs.create("tst", **SMALL, heads=2, channels=2, context=6, head=head, outputs=3)
    model.state = {name: array.astype(np.float64) for name, array in model.state.items()}
    real = np.array([True, False, True, True, False])
    series = Input(np.random.default_rng(0).standard_normal((2, 5)), (), real=real)
    expected = vs.dissect(model, series)
    for step, watched in watch(model, expected, real).items():
        np.testing.assert_allclose(watched.value.detach(), expected[step], rtol=1e-9, atol=1e-10)
    g = vs.gradient(model, series, ("Omega_hat", 0, 2) if head == "series" else None)
    assert not g["v[1,1]"][~np.pad(real, (0, len(g["v[1,1]"]) - 5))].any()


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "BertForMaskedLM"])
def test_they_are_autograds_on_transformers_models(kind, tmp_path):
    theirs, ids = saved(tmp_path, kind), [3, 14, 15, 9, 2, 6]
    word, rival, position = 7, 11, 4
    out = theirs(torch.tensor([ids]), output_hidden_states=True)
    for hidden in out.hidden_states:
        hidden.retain_grad()
    difference = out.logits[0, position, word] - out.logits[0, position, rival]
    difference.backward()
    g = vs.gradient(vs.load(tmp_path), ids, (word, rival), position)
    for l, hidden in enumerate(out.hidden_states):
        last = kind.startswith("GPT") and l == len(out.hidden_states) - 1
        expected = hidden.grad[0].numpy().T
        far = np.abs(g["H_e" if last else f"H[{l}]"] - expected).max()
        assert far <= 1e-5 * np.abs(expected).max()
    assert g.value == pytest.approx(difference.item(), rel=1e-5)


def test_a_target_can_be_a_cell_of_any_step():
    g = vs.gradient(specimen("gpt", True), given("gpt"), ("mu[2,3]", 2, 1))
    assert g.target.label == "mu[2,3](2, 1)"
    assert g["mu[2,3]"].sum() == g["mu[2,3]"][2, 1] == 1
    assert "H[1]" in g
    with pytest.raises(
        UnknownStep, match=r"H\[2\] has no gradient: mu\[2,3\]\(2, 1\) does not depend"
    ):
        g["H[2]"]
    shares = vs.gradient(specimen("gpt", True), given("gpt"), ("Y_hat", 5, 2))
    np.testing.assert_allclose(shares["Z"][:, 2].sum(), 0, atol=1e-12)


def test_steps_that_have_none_say_so():
    with pytest.raises(UnknownStep, match="S has no gradient: ' head' does not"):
        found("gpt")["S"]
    with pytest.raises(UnknownStep, match=r"no step 'H\[9\]' was recorded; did you mean"):
        found("gpt")["H[9]"]
    with pytest.raises(WrongKind, match="S has no gradient"):
        vs.gradient("gpt", "He shook his", ("S", 0, 0))


def test_saliency_is_the_gradient_times_the_value_of_each_token():
    g = found("gpt")
    expected = (g["X"] * g.trace["X"]).sum(axis=0)
    assert [token for token, _ in g.saliency()] == g.trace.tokens()
    np.testing.assert_allclose([value for _, value in g.saliency()], expected)
    assert g.saliency("H[1]") != g.saliency()
    with pytest.raises(WrongKind, match="has no column for each token; expected a step such as X"):
        g.saliency("q[1,1]")


def test_after_an_earlier_token_the_later_ones_have_none():
    g = vs.gradient("gpt", "He shook his", position=0)
    assert g["H[1]"][:, 0].any()
    assert not g["H[1]"][:, 1:].any()
    h = vs.gradient("lstm", "He shook his", position=0)
    assert not h["h[1,3]"].any()


def test_the_models_own_network_and_weights_stay_as_they_were():
    model = vs.load("gpt")
    before, asked = model.fingerprint(), [p.requires_grad for p in model.network.parameters()]
    vs.gradient(model, "He shook his")
    assert model.fingerprint() == before
    assert [p.requires_grad for p in model.network.parameters()] == asked
    assert all(p.grad is None for p in model.network.parameters())
    with torch.no_grad():
        assert vs.gradient(model, "He shook his")["X"].any()


def test_it_tells_the_same_to_people_machines_and_notebooks(tmp_path):
    g = found("gpt")
    told = json.loads(json.dumps(g.to_json()))
    assert [step["name"] for step in told["steps"]] == g.names()
    assert told["saliency_at"] == "X"
    assert repr(g).startswith("Gradient of ' head' = ")
    assert "steps inside heads are left out" in g._repr_html_()
    assert "<svg" in g._repr_html_()
    g.plot(tmp_path / "gradient.svg")
    assert "H_e" in (tmp_path / "gradient.svg").read_text()
    for name in FAMILIES:
        assert "<svg" in found(name)._repr_html_()


def test_it_needs_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vesalius\[torch\]'"):
        vs.gradient("gpt", "He shook his")
