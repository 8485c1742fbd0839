"""What differs between two models is named: the layer, the head, the first step, the words."""

import json

import numpy as np
import pytest
from analyses.lively import FAMILIES, given, specimen

import vesalius as vs
from vesalius.analyses.alignment import Alignment
from vesalius.errors import ImpossibleSetting, UnknownStep, WrongKind
from vesalius.generation.quantisation import rounded
from vesalius.model import Model

SMALL = {"layers": 3, "embedding": 12, "heads": 3, "vocabulary": 17, "context": 8}
IDS = [3, 1, 4, 1, 5]


def copy(model, **changes):
    """Another model with arrays of its own."""
    state = {name: array.copy() for name, array in model.state.items()}
    return Model(model.config, state | changes, model.tokenizer)


def with_head_moved(model, l, m, rng, other=None):
    """A copy of a model with the weights of one head perturbed, l and m from one.

    ``other`` is a copy to be used again: its sets, which tests check at length, are made once.
    """
    other, wide = copy(model) if other is None else other, 4
    for name, array in model.state.items():
        other.state[name][...] = array
    rows = slice((m - 1) * wide, m * wide)
    for part in ("query", "key", "value"):
        weight = other.state[f"blocks.{l - 1}.attention.{part}.weight"]
        weight[rows] += 0.01 * rng.normal(size=weight[rows].shape)
    output = other.state[f"blocks.{l - 1}.attention.output.weight"]
    output[:, rows] += 0.01 * rng.normal(size=output[:, rows].shape)
    return other


def test_a_head_that_moved_is_named_a_hundred_times_of_a_hundred():
    model, rng = vs.create("gpt2", **SMALL), np.random.default_rng(0)
    other = copy(model)
    for _ in range(100):
        l, m = (int(rng.integers(3)) + 1 for _ in "lm")
        found = vs.diff(model, with_head_moved(model, l, m, rng, other))
        assert found.moved[0].place == {"layer": l, "head": m}
        assert {one.kind for one in found.moved} == {"W_Q", "W_K", "W_V", "W_O"}
        assert {tuple(one.place.values()) for one in found.moved} == {(l, m)}


@pytest.mark.parametrize("times", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_and_so_it_is_by_the_first_step_that_diverges(times):
    model, rng = vs.create("gpt2", **SMALL), np.random.default_rng(1)
    for _ in range(times):
        l, m = (int(rng.integers(3)) + 1 for _ in "lm")
        found = vs.diff(model, with_head_moved(model, l, m, rng), IDS)
        assert found.first_divergence.name == f"q[{l},{m}]"
        assert found.first_divergence.place == {"layer": l, "head": m}


def test_distances_are_relative_norms_in_the_papers_letters():
    a, b = vs.create("gpt2", **SMALL), vs.create("gpt2", seed=1, **SMALL)
    found = {(one.name, one.place.get("head")): one for one in vs.diff(a, b).parameters}
    ours, theirs = a.parameters.Phi[1].Gamma, b.parameters.Phi[1].Gamma
    for name, head, x, y in (
        ("Phi[2].Gamma.Psi[3].W_K", 3, ours.Psi[2].W_K, theirs.Psi[2].W_K),
        ("Phi[2].Gamma.W_O", 2, ours.W_O[4:8], theirs.W_O[4:8]),
        ("E", None, a.parameters.E, b.parameters.E),
    ):
        expected = np.linalg.norm(y - x) / np.linalg.norm(x)
        assert found[name, head].relative == pytest.approx(expected, rel=1e-5)
    assert found["Phi[1].Xi_1.beta", None].relative == 0
    moved = vs.diff(a, b).moved
    assert [one.relative for one in moved] == sorted((o.relative for o in moved), reverse=True)


def test_a_copy_differs_in_nothing():
    model = specimen("gpt")
    other = copy(model)
    other.state = {name: np.asfortranarray(array) for name, array in other.state.items()}
    found = vs.diff(model, other, "He shook his head")
    assert (found.moved, found.first_divergence) == ([], None)
    assert found.mean_kl < 1e-9
    assert not any(one.gained or one.lost for one in found.outcomes)
    assert "no parameter differs, of 152 arrays" in repr(found)
    assert "no step diverges" in repr(found)
    assert "All parameters are the same" in vs.diff(model, other).picture()


def test_int8_is_what_generation_computes_with():
    model = specimen("gpt")
    found, bytes_ = vs.diff(model, model, given("gpt"), dtype_b="int8"), rounded(model)
    kinds = {one.kind for one in found.moved}
    assert kinds == {"W_Q", "W_K", "W_V", "W_O", "W_1", "W_2", "U"}
    output = next(one for one in found.parameters if one.name == "U")
    expected = np.linalg.norm(bytes_.parameters.U - model.parameters.E.T)
    assert output.difference == pytest.approx(expected, rel=1e-4)
    assert found.first_divergence.name == "q[1,1]"
    assert 0 < found.mean_kl < 0.01
    half = vs.diff("bert", "bert", dtype_b="float16")
    assert half.moved == []  # its file holds no more
    assert vs.diff(vs.create("rnn", vocabulary=9), vs.create("rnn", vocabulary=9)).moved == []
    new = vs.create("gpt2", **SMALL)
    assert 0 < vs.diff(new, new, dtype_b="float16").moved[0].relative < 2**-11
    with pytest.raises(ImpossibleSetting, match="dtype_b must be one of float32, float16, int8"):
        vs.diff("gpt", "gpt", dtype_b="int4")


def test_divergences_are_of_both_directions_in_nats():
    a, b = vs.create("gpt2", **SMALL), vs.create("gpt2", seed=1, **SMALL)
    found = vs.diff(a, b, IDS, top=3)
    p, q = (vs.dissect(model, IDS)["Y_hat"].astype(float) for model in (a, b))
    for one in found.outcomes:
        x, y = p[:, one.position], q[:, one.position]
        assert one.kl == pytest.approx((x * np.log(x / y)).sum(), rel=1e-3)
        assert one.reverse_kl == pytest.approx((y * np.log(y / x)).sum(), rel=1e-3)
        before, after = (set(map(str, np.argsort(-z)[:3])) for z in (x, y))
        assert (set(one.gained), set(one.lost)) == (after - before, before - after)


def test_edits_are_compared_where_they_are_made():
    silent = {"P[2,3]": lambda P: 0 * P}
    found = vs.diff("gpt", "gpt", "He shook his", edit_b=silent)
    assert found.moved == []
    assert found.first_divergence.name == "P[2,3]"
    assert found.first_divergence.relative == 1
    after = [step.name for step in found.steps if step.relative > 0]
    assert after[:2] == ["P[2,3]", "A[2]"]
    assert "How far steps are apart" in found.picture()
    with pytest.raises(WrongKind, match="edits change steps, which need a text"):
        vs.diff("gpt", "gpt", edit_a=silent)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_compared(name):
    model = specimen(name)
    other = copy(model)
    first = next(iter(other.state))
    other.state[first] = other.state[first] * np.float32(1.25)
    other.preprocessing = model.preprocessing
    found = vs.diff(model, other, given(name))
    assert [one.relative for one in found.moved] == [pytest.approx(0.25, rel=1e-5)]
    assert found.first_divergence is not None
    assert found.mean_kl > 0
    json.dumps(found.to_json(), allow_nan=False)
    assert "<svg" in found._repr_html_()


def test_what_cannot_be_compared_is_said():
    deep, flat = vs.create("gpt2", **SMALL), vs.create("gpt2", **{**SMALL, "layers": 2})
    found = vs.diff(deep, flat, IDS)
    assert any("only a has 28 parameters: Phi[3].Gamma.Psi[1].W_Q" in note for note in found.notes)
    assert any("only a has" in note and "steps: H_bar[3]" in note for note in found.notes)
    wide = vs.create("gpt2", **{**SMALL, "vocabulary": 19})
    notes = vs.diff(deep, wide, IDS).notes
    assert "not compared: 1 parameters have other shapes in b: E" in notes
    assert "not compared: distributions, which are over other words or positions" in notes
    others = vs.diff(deep, vs.create("lstm", vocabulary=17, embedding=12))
    assert {one.name for one in others.parameters} == {"E"}


def test_texts_are_for_models_of_the_same_words():
    with pytest.raises(WrongKind, match="the models have different tokenizers"):
        vs.diff("gpt", "bert", "He shook his")
    assert any("the tokenizers differ" in note for note in vs.diff("gpt", "bert").notes)
    with pytest.raises(WrongKind, match="gpt2 reads text and vit reads images"):
        vs.diff("gpt", "vit", "He shook his")
    with pytest.raises(WrongKind, match="neither model has a tokenizer; give token ids"):
        vs.diff(vs.create("gpt2", **SMALL), vs.create("gpt2", **SMALL), "He shook his")


def test_arrays_that_were_zero_are_as_far_as_they_got():
    model = vs.create("gpt2", **SMALL)
    name = "blocks.1.attention.query.bias"
    found = vs.diff(model, copy(model, **{name: np.ones(12, np.float32)}))
    assert [(one.name, one.relative) for one in found.moved] == [
        (f"Phi[2].Gamma.Psi[{m}].b_Q", 1.0) for m in (1, 2, 3)
    ]


def test_a_picture_has_layers_and_the_kinds_that_moved(tmp_path):
    model = vs.create("gpt2", **SMALL)
    found = vs.diff(model, with_head_moved(model, 2, 1, np.random.default_rng(0)))
    found.plot(tmp_path / "diff.svg")
    drawn = (tmp_path / "diff.svg").read_text()
    assert "layer 3 · W_Q: 0<" in drawn
    assert "W_1" not in drawn


@pytest.mark.parametrize("name", ["gpt", "lstm"])
def test_two_texts_are_compared_where_their_tokens_agree(name):
    model, longer = specimen(name), "He slowly shook his"
    even = vs.diff(model, model, "He shook his", text_b="He opened his")
    a, b = (vs.dissect(model, text) for text in ("He shook his", "He opened his"))
    far = {one.name: one for one in even.steps}
    assert even.notes == []
    assert list(far) == list(a)
    for step in far:
        with np.errstate(invalid="ignore"):
            change = np.where(a[step] == b[step], 0, b[step] - a[step]).astype(float)
        assert far[step].difference == pytest.approx(np.linalg.norm(change), rel=1e-5)
    found = vs.diff(model, model, "He shook his", text_b=longer)
    assert found.notes == ["a has 3 tokens and b 4: 3 of each belong together and are compared"]
    assert [one.position for one in found.outcomes] == [0, 1, 2]
    b = vs.dissect(model, longer)
    p, q = (np.log(t["Y_hat"][:, i].astype(float)) for t, i in ((a, 1), (b, 2)))
    assert found.outcomes[1].kl == pytest.approx(np.exp(p) @ (p - q), rel=1e-4)
    step, at, there = ("mu[3,4]", (2, 1), (3, 2)) if name == "gpt" else ("c[2,3]", (7,), (7,))
    one = found.at(step, *at)
    value = b[step][there] if name == "gpt" else b["c[2,4]"][7]
    assert (one.a, one.b, one.difference) == (a[step][at], value, value - a[step][at])
    assert one.at_b == there
    laid = Alignment(a, b).difference(a.graph.step("Z"))[:, :]
    assert np.array_equal(laid, b["Z"][:, [0, 2, 3]] - a["Z"])
    laid = Alignment(b, a).difference(b.graph.step("Z"))[3:5, 0:3]
    assert np.isnan(laid[:, 1]).all()  # "slowly", which a has not
    assert np.array_equal(laid[:, 2], a["Z"][3:5, 1] - b["Z"][3:5, 2])
    with pytest.raises(UnknownStep, match="b has no counterpart of Z"):
        vs.diff(model, model, longer, text_b="He shook his").at("Z", 0, 1)
    with pytest.raises(WrongKind, match="text_b is for b"):
        vs.diff(model, model, text_b=longer)


@pytest.mark.parametrize(
    ("a", "b", "pairs"),
    [
        ([5, 6, 7], [8, 9, 7], {0: 0, 1: 1, 2: 2}),  # place by place
        ([1, 2, 3], [1, 9, 2, 3], {0: 0, 1: 2, 2: 3}),
        ([1, 2, 3, 4, 5, 1], [1, 6, 3, 7, 5, 8, 1], {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6}),
        ([1, 2, 3], [1, 4, 5, 6, 3], {0: 0, 2: 4}),  # one against three
        ([1, 2], [3, 4, 5], {1: 2}),
    ],
)
def test_tokens_belong_together_in_order(a, b, pairs):
    model = specimen("gpt")
    both = Alignment(*(vs.dissect(model, ids, only=["X"]) for ids in (a, b)))
    assert both.pairs == pairs
