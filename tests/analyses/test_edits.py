"""Edits as a language: patterns, positions, cells; each changes what it names, or is refused."""

from contextlib import suppress
from random import Random

import numpy as np
import pytest
from analyses.lively import FAMILIES, given, specimen, trace
from fuzz.editing import Parts, check, drawn, trace_of
from hypothesis import example, settings
from hypothesis import given as drawing
from hypothesis import strategies as st
from strategies import SMALL, filled, small

import vesalius as vs
from vesalius.analyses.replaying import replayed, with_cuts
from vesalius.errors import (
    EmptyCorpus,
    ImpossibleSetting,
    UnknownStep,
    VesaliusError,
    WrongKind,
    WrongLength,
)

TEXT = "He shook his"


@settings(max_examples=300)
@example("gpt2", 0)
@drawing(st.sampled_from(list(SMALL)), st.integers(0, 2**32))
def test_a_pattern_changes_exactly_what_it_names_or_is_refused(family, seed):
    random = Random(seed)
    with suppress(VesaliusError):  # which is held against what the pattern names
        check(trace_of(family), drawn(random, trace_of(family)), run=seed % 8 == 0)


@pytest.mark.parametrize(
    ("family", "parts"),
    [
        ("gpt2", Parts("P", ("2", "*"), None, None)),
        ("gpt2", Parts("mu", ("*", "3"), None, None)),
        ("gpt2", Parts("H", (), None, None)),
        ("gpt2", Parts("P", ("2", "1"), "3", None)),
        ("gpt2", Parts("H", ("2",), "-1", None)),
        ("gpt2", Parts("F", ("1",), None, "7, :")),
        ("gpt2", Parts("H", ("2",), None, ":, 1:3")),
        ("vit", Parts("X_0", (), "1", None)),
        ("lstm", Parts("p", ("1", "*"), "2", None)),
        ("lstm", Parts("h", ("*", "*"), "1:", None)),
        ("tst", Parts("S", (), "0", None)),
    ],
)
def test_patterns_of_each_form(family, parts):
    check(trace_of(family), parts, run=True)


def logits(edit, text=TEXT):
    return vs.dissect(specimen("gpt"), text, edit=edit)["Z"]


def test_a_model_without_a_head_is_one_whose_head_has_no_values():
    gpt = specimen("gpt")
    without = vs.Model(gpt.config, dict(gpt.state), gpt.tokenizer)
    for name in ("weight", "bias"):
        name = f"blocks.2.attention.value.{name}"
        without.state[name] = gpt.state[name].copy()
        without.state[name][-gpt.config.embedding // gpt.config.heads :] = 0
    before, after = logits({}), logits({"P[3,4]": vs.zero})
    np.testing.assert_allclose(after, vs.dissect(without, TEXT)["Z"], atol=1e-4)
    assert np.abs(after - before).max() > 0.1


def test_a_pattern_is_all_of_its_steps():
    several = {f"P[2,{m}]": vs.zero for m in range(1, 5)}
    for one in ("P[2,*]", "P[2]", "P[2,*](:, :)", "P[2,*]@:"):
        np.testing.assert_array_equal(logits({one: vs.zero}), logits(several))


def test_a_value_is_a_function_a_number_an_array_or_an_edit():
    value = np.asarray(trace("gpt")["A[2]"])
    expected = logits({"A[2]": lambda A: 0 * A})
    for same in (
        0,
        0.0,
        np.float32(0),
        np.zeros_like(value),
        vs.zero,
        vs.scale(0.0),
        np.zeros_like,
    ):
        np.testing.assert_array_equal(logits({"A[2]": same}), expected)
    one = {"A[2](3, 1)": 2.5}
    assert vs.dissect(specimen("gpt"), TEXT, edit=one)["A[2]"][3, 1] == np.float32(2.5)


def test_a_function_is_given_the_cells_that_are_named_and_may_write_to_them():
    seen = []

    def double(column):
        seen.append(column.shape)
        column *= 2
        return column

    after = vs.dissect(specimen("gpt"), TEXT, edit={"H[2]@1": double})
    assert seen == [(256,)]
    np.testing.assert_array_equal(after["H[2]"][:, 1], 2 * trace("gpt")["H[2]"][:, 1])


def test_several_edits_of_a_step_apply_in_their_order():
    first = vs.dissect(specimen("gpt"), TEXT, edit={"A[2]": 1.0, "A[*]@0": vs.scale(3.0)})["A[2]"]
    assert (first[:, 0] == 3).all()
    assert (first[:, 1:] == 1).all()
    last = vs.dissect(specimen("gpt"), TEXT, edit={"A[*]@0": vs.scale(3.0), "A[2]": 1.0})["A[2]"]
    assert (last == 1).all()


def test_scaling_leaves_a_mask_masked():
    S = vs.dissect(specimen("gpt"), TEXT, edit={"S": vs.scale(0.0)})["S"]
    np.testing.assert_array_equal(S, trace("gpt")["S"])


def test_noise_is_the_same_for_the_same_seed_and_of_its_own_for_each_step():
    edit = {"H[0]": vs.noise(0.1), "A[1]": vs.noise(0.1)}
    one, two = (vs.dissect(specimen("gpt"), TEXT, edit=edit) for _ in range(2))
    np.testing.assert_array_equal(one["Z"], two["Z"])
    added = one["H[0]"] - trace("gpt")["H[0]"]
    assert added.std() == pytest.approx(0.1, rel=0.1)
    other = vs.dissect(specimen("gpt"), TEXT, edit={"H[0]": vs.noise(0.1, seed=1)})["H[0]"]
    assert not np.allclose(other, one["H[0]"])


def test_a_value_of_another_trace():
    clean = trace("gpt")
    corrupted = "He opened his"
    np.testing.assert_array_equal(logits({"H[2]": vs.from_trace(clean)}, corrupted), clean["Z"])
    by_key = logits({"H[2]@1": vs.from_trace(clean)}, corrupted)
    np.testing.assert_array_equal(
        logits({"H[2]": vs.from_trace(clean, positions=1)}, corrupted), by_key
    )
    np.testing.assert_array_equal(
        logits({"H[2]": vs.from_trace(clean, positions={1: -2})}, corrupted), by_key
    )
    longer = vs.dissect(specimen("gpt"), "And then he shook his")
    last = vs.dissect(specimen("gpt"), corrupted, edit={"H[4]@-1": vs.from_trace(longer)})
    np.testing.assert_array_equal(last["H[4]"][:, -1], longer["H[4]"][:, -1])
    assert last.steps.edited == {"H[4]"}


def test_a_time_step_of_another_trace():
    clean = trace("lstm")
    after = vs.dissect(specimen("lstm"), "He opened his", edit={"h[1,*]@-1": vs.from_trace(clean)})
    np.testing.assert_array_equal(after["h[1,3]"], clean["h[1,3]"])
    assert after.steps.edited == {"h[1,3]"}


def test_the_mean_is_of_each_token_where_all_texts_are_as_long():
    texts = ["He opened his", "She was not"]
    traces = [vs.dissect(specimen("gpt"), text) for text in texts]
    for step in ("H[2]", "P[3,4]", "mu[1,1]"):
        after = vs.dissect(specimen("gpt"), TEXT, edit={step: vs.mean(texts)})[step]
        expected = (traces[0][step].astype(float) + traces[1][step]) / 2
        np.testing.assert_allclose(after, expected, rtol=1e-6, atol=1e-7)


def test_the_mean_is_over_tokens_too_where_lengths_differ():
    texts = ["He opened the door.", "She"]
    traces = [vs.dissect(specimen("gpt"), text) for text in texts]
    for step, axis in (("H[2]", 1), ("P[3,4]", 0)):
        after = vs.dissect(specimen("gpt"), TEXT, edit={step: vs.mean(texts)})[step]
        every = np.concatenate([t[step].astype(float) for t in traces], axis=axis)
        mean = every.mean(axis=axis, keepdims=True)
        np.testing.assert_allclose(after, np.broadcast_to(mean, after.shape), rtol=1e-5, atol=1e-6)
    with pytest.raises(
        WrongLength, match=r"mu\[1,1\] has no mean over tokens; expected texts of 3"
    ):
        vs.dissect(specimen("gpt"), TEXT, edit={"mu[1,1]": vs.mean(texts)})


def test_the_mean_of_a_time_step():
    traces = [vs.dissect(specimen("lstm"), text) for text in ("He", "She was not")]
    after = vs.dissect(specimen("lstm"), TEXT, edit={"h[1,2]": vs.mean(["He", "She was not"])})[
        "h[1,2]"
    ]
    every = [t[name].astype(float) for t in traces for name in t if name.startswith("h[1,")]
    np.testing.assert_allclose(after, np.mean(every, axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_step_of_every_family_can_be_edited(name):
    for step in trace(name).names()[:: 1 + len(trace(name)) // 12]:
        after = vs.dissect(specimen(name), given(name), edit={step: vs.noise(0.5)})
        assert after.steps.edited == {step}
        assert not np.array_equal(after[step], trace(name)[step]) or step in ("S", "mu")


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        ({"P[9,*]": 0}, UnknownStep, r"no step P\[9,\*\] to edit; did you mean P\["),
        ({"Q": 0}, UnknownStep, "no step Q to edit; there are: "),
        ({"H[2]@3": 0}, WrongLength, r"position 3 of H\[2\] is not among the 3 tokens; expected 0"),
        ({"H[2]@5:": 0}, WrongLength, r"position 5: of H\[2\] is not among the 3 tokens"),
        ({"P[2,1]@-4": 0}, WrongLength, r"position -4 of P\[2,1\]"),
        ({"H[2](256, 0)": 0}, WrongLength, r"H\[2\] is 256 x 3, and has no cells at \(256, 0\)"),
        ({"H[2](:, 3:)": 0}, WrongLength, r"no cells at \(:, 3:\)"),
        ({"H[2](0, 0, 0)": 0}, WrongLength, r"has 3 indices; H\[2\] is 256 x 3"),
        ({"H[2](x)": 0}, UnknownStep, "cannot read the index 'x' of"),
        ({"H[2](::0)": 0}, UnknownStep, "cannot read the index '::0'"),
        ({"H[2]@1(0, 0)": 0}, UnknownStep, "cannot read .* as steps to edit; expected the form"),
        ({"H[2": 0}, UnknownStep, "cannot read 'H.2' as a step"),
        ({3: 0}, WrongKind, "edit takes the names of steps"),
        ({"A[1]": "no"}, WrongKind, "an edit is a function, a number, an array, or one of vs.zero"),
        ({"A[1]": True}, WrongKind, "an edit is a function"),
        ({"A[1]": float("nan")}, ImpossibleSetting, "an edit must be a finite number"),
        (
            {"A[1]@0": [1.0, 2.0]},
            WrongLength,
            r"edit of A\[1\] gives shape \(2,\), expected \(256,\)",
        ),
        ({"A[1]": vs.from_trace({})}, UnknownStep, r"the other trace has no A\[1\]"),
    ],
)
def test_what_cannot_be_edited_says_why(edit, error, message):
    with pytest.raises(error, match=message):
        vs.dissect(specimen("gpt"), TEXT, edit=edit)


def test_a_cut_leaves_what_was_edited_before_it_as_it_is():
    model = filled(small("vit", masked_patch_head=True))
    side = model.config.image
    image = np.random.default_rng(0).normal(size=(side, side, model.config.channels))
    hide = {"X_0": lambda X: np.where([True] + [False] * (X.shape[1] - 1), 0.5, X)}  # a patch
    masked = vs.dissect(model, image, edit=hide, raw=True)
    cut, _ = with_cuts(masked, ["X_0(0, 1)", "P[1,1]"])
    whole = vs.dissect(model, image, edit=hide | {"X_0(0, 1)": 0, "P[1,1]": 0}, raw=True)
    assert all(np.array_equal(cut[name], whole[name]) for name in whole)
    uncut = replayed(cut, ["P[1,1]"], ["X_0(0, 1)"])
    again = vs.dissect(model, image, edit=hide | {"P[1,1]": 0}, raw=True)
    assert all(np.array_equal(uncut[name], again[name]) for name in uncut.names())


def test_edits_that_cannot_be():
    with pytest.raises(EmptyCorpus, match="mean takes at least one text to average over, got none"):
        vs.mean([])
    with pytest.raises(ImpossibleSetting, match="deviation must be at least 0"):
        vs.noise(-1)
    with pytest.raises(ImpossibleSetting, match="factor must be a number"):
        vs.scale("twice")
    with pytest.raises(WrongKind, match="from_trace takes a trace"):
        vs.from_trace(3)
    with pytest.raises(WrongLength, match="positions names none"):
        vs.from_trace(trace("gpt"), positions=[])
    with pytest.raises(WrongLength, match=r"H\[2\] is 256 x 2 here and 256 x 3 in the other trace"):
        vs.dissect(specimen("gpt"), "He shook", edit={"H[2]": vs.from_trace(trace("gpt"))})
    edit = {"H[2]@1": vs.from_trace(trace("gpt"), positions=1)}
    with pytest.raises(WrongKind, match="names its own; use one of the two"):
        vs.dissect(specimen("gpt"), TEXT, edit=edit)
    with pytest.raises(WrongLength, match="h_C has no token positions: it is"):
        vs.dissect("bert", "He shook his [MASK].", edit={"h_C@0": 0})
    with pytest.raises(WrongLength, match="of another time than its position"):
        vs.dissect(specimen("lstm"), TEXT, edit={"h[1,1]@2": 0})
