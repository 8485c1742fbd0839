"""What a logit is owed to: parts that sum to it, for every family and kind of target."""

import math
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from analyses.lively import FAMILIES, specimen, trace

import vesalius as vs
from vesalius.analyses.attribution import attribute
from vesalius.errors import (
    ImpossibleSetting,
    NotFinite,
    TokenOutOfRange,
    UnknownStep,
    WrongKind,
    WrongLength,
)


@pytest.mark.parametrize("neurons", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_parts_sum_to_the_target_in_double_precision(name, neurons):
    found = attribute(trace(name, double=True), neurons=neurons)
    assert abs(found.difference) < 1e-10
    assert found.value == trace(name, double=True)[found.target.step][found.target.cells[0][0]]


@pytest.mark.parametrize("name", FAMILIES)
def test_rounding_alone_parts_them_and_more_than_that_is_found_out(name):
    found = attribute(trace(name))
    assert found.agrees
    assert "rounding allows" in "\n".join(map(str, found.view()))
    spoilt = replace(found, value=1.01 * found.value)
    assert not spoilt.agrees
    assert "which rounding does not explain" in "\n".join(map(str, spoilt.view()))


def long_text(tokens):
    return [100 + 7 * k % 900 for k in range(tokens)]


@pytest.mark.parametrize("tokens", [20, 120, 300, 1000])
@pytest.mark.parametrize("name", ["rnn", "lstm"])
def test_parts_of_long_texts_sum_to_the_target(name, tokens):
    """Within a ten-thousandth of the values, where the bound allows a hundredth."""
    found = attribute(vs.dissect(specimen(name), long_text(tokens)))
    assert found.agrees
    assert abs(found.difference) < 1e-4 * found.scale


def test_earlier_time_steps_are_one_part_where_each_for_itself_they_would_cancel():
    """In double precision the way back is longer, and goes through the same parts."""
    text = long_text(120)
    found, double = (attribute(vs.dissect(specimen("rnn", d), text)) for d in (False, True))
    (name,) = found.together
    start = int(name.removeprefix("h[2,").removesuffix("]"))
    single = {part.name: part.share for part in double.parts}
    assert 80 < start < 115
    assert {f"h[1,{t}]" for t in range(start + 1, 121)} < {part.name for part in found.parts}
    for part in found.parts:
        if part.name != name:
            assert part.share == pytest.approx(single[part.name], abs=0.01)
    assert max(abs(share) for share in single.values()) > 1e6
    assert double.agrees
    (what,) = (part.what for part in found.parts if part.name == name)
    assert what == f"all that came in up to time step {start}"
    assert list(found.view())[-1].startswith(f"from {name} the way back ends: earlier time")
    assert found.to_json()["together"] == [name]


def test_where_states_are_averaged_each_from_some_time_step_back_is_a_part():
    sizes = {"vocabulary": 50, "embedding": 32, "layers": 2, "labels": 3, "pooling": "mean"}
    model, rng = vs.create("rnn", **sizes), np.random.default_rng(0)
    for array in model.state.values():
        array[:] = 0.25 * rng.standard_normal(array.shape)
    found = attribute(vs.dissect(model, [k % 50 for k in range(200)]))
    assert found.agrees
    last = len(found.together)
    assert found.together == [f"h[2,{t}]" for t in range(last, 0, -1)]
    assert f"from h[2,{last}] and {last - 1} states before it" in list(found.view())[-1]


@pytest.mark.parametrize("name", FAMILIES)
def test_short_texts_have_a_part_for_each_time_step(name):
    assert not attribute(trace(name)).together


def cancelling(strength, kind):
    """An rnn in which pairs of equal states cancel, whose parts grow ``strength`` times a step."""
    model = vs.load("rnn")
    model.state = {key: array.astype(kind) for key, array in model.state.items()}
    model.state["layers.1.input.weight"][:] = 0
    model.state["layers.1.input.bias"][:] = 0.001
    pair = np.array([[1, -1], [-1, 1]], kind)
    model.state["layers.1.recurrent.weight"][:] = np.kron(np.eye(128, dtype=kind), strength * pair)
    return vs.dissect(model, [100] * 16)


def test_parts_that_grow_at_once_are_the_state_alone():
    assert [part.name for part in attribute(cancelling(1e30, "f4")).parts] == ["h[2,16]"]


def test_parts_that_cancel_beyond_all_precision_are_called_no_exact_sum():
    found = attribute(cancelling(1e30, "f4"), ("h[2,4]", 0))
    assert (found.precise, found.agrees) == (False, False)
    assert found.to_json()["agrees"] is False
    assert re.match(
        r"the parts are no exact sum: they cancel, .* none of its digits are certain; weights in "
        r"float64 \(vesalius convert --dtype float64\) bring nine more",
        list(found.view())[-2],
    )


def test_parts_that_grow_beyond_all_numbers_are_refused():
    with pytest.raises(NotFinite, match=r"not finite numbers on the way back to h\[2,3\]: weights"):
        attribute(cancelling(1.5e308, "f8"), ("h[2,4]", 0))


def test_a_target_that_is_no_number_is_refused():
    model = vs.load("gpt")
    model.state["norm.bias"][:] = np.float32(3e38)
    with np.errstate(all="ignore"):
        found = vs.dissect(model, [100] * 4)
        word = int(np.flatnonzero(~np.isfinite(found["Z"][:, -1]))[0])
        with pytest.raises(NotFinite, match="not finite numbers on the way back to Z"):
            attribute(found, (word, word))


@pytest.mark.parametrize("name", FAMILIES)
def test_so_do_those_of_a_difference_of_two(name):
    found = attribute(trace(name, double=True), (3, 5))
    one, two = (attribute(trace(name, double=True), row) for row in (3, 5))
    assert abs(found.difference) < 1e-10
    assert found.value == pytest.approx(one.value - two.value, abs=1e-12)
    for part in found.parts:
        assert part.share == pytest.approx(one[part.name] - two[part.name], abs=1e-12)


def test_a_word_compared_with_itself_is_owed_to_nothing():
    found = attribute(trace("gpt"), (1, 1))
    assert (found.value, found.total, found.agrees) == (0, 0, True)


@pytest.mark.parametrize("settings", [{"variant": 1}, {"variant": 2}, {"tied": False}])
@pytest.mark.parametrize("family", ["transformer", "gpt2"])
def test_both_variants_and_untied_outputs(family, settings):
    sizes = {"layers": 2, "embedding": 16, "heads": 2, "vocabulary": 20, "context": 8}
    model = vs.create(family, **{**sizes, **settings})
    model.state = {key: array.astype(np.float64) for key, array in model.state.items()}
    for position in range(4):
        found = attribute(vs.dissect(model, [1, 5, 3, 5]), 7, position, neurons=True)
        assert abs(found.difference) < 1e-10


def test_a_word_is_owed_to_heads_and_layers_the_largest_share_first():
    found, row = attribute(trace("gpt"), " head"), specimen("gpt").tokenizer.id_of(" head")
    assert found.value == pytest.approx(trace("gpt")["Z"][row, -1])
    assert found.probability == pytest.approx(trace("gpt")["Y_hat"][row, -1])
    assert len(found) == 27
    blocks = {f"P[{l},{m}]" for l in range(1, 5) for m in range(1, 5)}
    assert blocks | {f"D[{l}]" for l in range(1, 5)} <= {part.name for part in found.parts}
    sizes = [abs(part.share) for part in found.parts]
    assert sizes == sorted(sizes, reverse=True)


def test_a_head_by_the_tokens_that_it_read():
    whole, split = attribute(trace("gpt")), attribute(trace("gpt"), sources="P[3,4]")
    tokens = [part for part in split.parts if part.name.startswith("P[3,4]:")]
    assert len(tokens) == 3
    assert math.fsum(part.share for part in tokens) == pytest.approx(whole["P[3,4]"], rel=1e-6)
    read = {f"head 4 of layer 3, from {token!r}" for token in ("He", " shook", " his")}
    assert {part.what for part in tokens} == read


def test_a_recurrent_network_by_time_step():
    """The top layer's context is what each step added, as far as the gates have kept it."""
    model, steps = specimen("lstm", double=True), trace("lstm", double=True)
    found = attribute(steps)
    row = found.target.cells[0][0][0]
    seen = model.parameters.E[:, row] if model.parameters.U is None else model.parameters.U[row]
    c, s = steps["c[2,3]"], steps["s[2,3]"]
    kept = np.ones_like(c)
    for i in (3, 2, 1):
        carried = steps[f"d[2,{i}]"] * kept * s * np.tanh(c) / c
        assert found[f"d[2,{i}]"] == pytest.approx(seen @ carried, abs=1e-12)
        kept = kept * steps[f"p[2,{i}]"]


def test_a_window_by_its_places():
    names = {part.name for part in attribute(trace("ffnn")).parts}
    assert {f"X:{i}" for i in range(1, 9)} <= names


def test_what_was_cut_has_no_share():
    cut = vs.dissect("gpt", "He shook his", edit={"P[3,4]": lambda P: 0 * P})
    found = attribute(cut, " head")
    assert found["P[3,4]"] == 0
    assert abs(found.difference) < 1e-5


def test_values_and_classes_are_targets_too():
    for name, target in (("vit", ("z", 3)), ("tst", "4"), ("bert", ("z_C", 1))):
        found = attribute(trace(name, double=True), target)
        assert abs(found.difference) < 1e-10


def test_pictures_and_json(tmp_path):
    found = attribute(trace("gpt"))
    for name in ("a.svg", "a.png"):
        found.plot(tmp_path / name)
    assert (tmp_path / "a.svg").read_text().startswith("<svg ")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg " in found._repr_html_()
    said = found.to_json()
    assert math.fsum(part["share"] for part in said["parts"]) == said["sum"]
    with pytest.raises(WrongKind, match=r"saved as \.svg or \.png, got"):
        found.plot(tmp_path / "a.pdf")


@pytest.mark.parametrize("affine", [False, True])
def test_a_forecast_is_a_sum_of_parts(affine):
    sizes = {"layers": 2, "embedding": 8, "heads": 2, "channels": 3, "patch": 4, "stride": 4}
    model = vs.create("patchtst", **sizes, context=12, horizon=5, affine=affine)
    model.state = {key: array.astype(np.float64) for key, array in model.state.items()}
    series = 40 + np.random.default_rng(1).standard_normal((3, 12)).cumsum(axis=1)
    trace = vs.dissect(model, series)
    found = attribute(trace, ("Omega_hat", 1, 2))
    assert abs(found.difference) < 1e-10
    assert found.target == attribute(trace, found.target.label).target  # Omega_hat(1, 2)
    with pytest.raises(WrongKind, match=r"one of them, as Omega_hat\(0, 0\): row and col.* 3 x 5"):
        attribute(trace)
    assert found["mu_r"] == pytest.approx(series[1].mean())
    names = {part.name for part in found.parts}
    assert {"P[1,1]", "P[2,2]", "D[1]", "D[2]"} <= names
    assert {name for name in names if name[:2] == "X:"} == {f"X:{i}" for i in range(5, 9)}


@pytest.mark.parametrize("value", ["gpt", {}, None])
@pytest.mark.parametrize("ask", [attribute, vs.lens, vs.gates, partial(vs.unfold, step="Z")])
def test_what_is_no_trace_is_told_so(ask, value):
    with pytest.raises(ImpossibleSetting, match=r"trace must be a trace, as vs\.dissect\(model, t"):
        ask(value)


def test_words_need_the_model_of_a_saved_trace(tmp_path):
    trace("gpt").save(tmp_path / "a.safetensors")
    with pytest.raises(
        WrongKind, match=r"no tokenizer to read ' head' by.*read_trace\(file, model="
    ):
        attribute(vs.read_trace(tmp_path / "a.safetensors"), " head")


def test_one_part_more_is_told_itself():
    found = attribute(trace("gpt"))
    assert found.first(len(found) - 1) == found.first(len(found)) == found
    assert found.first(len(found) - 2).parts[-1].name == "2 others"


def test_targets_that_are_none():
    gpt = trace("gpt")
    with pytest.raises(TokenOutOfRange, match="a target is one token; 'xyzzy' is 4"):
        attribute(gpt, "xyzzy")
    with pytest.raises(TokenOutOfRange, match="target 9999 is outside the vocabulary"):
        attribute(gpt, 9999)
    with pytest.raises(WrongLength, match="position must be below 3"):
        attribute(gpt, " head", 3)
    with pytest.raises(WrongKind, match="one word or class, or two"):
        attribute(gpt, (1, 2, 3))
    with pytest.raises(UnknownStep, match="there is no class 'Hat'"):
        attribute(trace("vit"), "Hat")
    with pytest.raises(WrongKind, match="this vit has one output, whatever the position"):
        attribute(trace("vit"), position=2)
    with pytest.raises(UnknownStep, match=r"no step 'P\[9,9\]' was recorded"):
        attribute(gpt, sources="P[9,9]")
    with pytest.raises(WrongKind, match=r"sources is a head, as P\[3,4\].*; got 'D\[1\]'"):
        attribute(gpt, sources="D[1]")
    with pytest.raises(UnknownStep, match=r"no step is called 'h\[2\]': did you mean H\[2\]\?$"):
        attribute(gpt, ("h[2]", 0, 0))
    with pytest.raises(UnknownStep, match=r"no step is called 'h\[2\]': did you mean H\[2\]\?$"):
        attribute(gpt, "h[2](0, 0)")
    with pytest.raises(TokenOutOfRange, match=r"' xyzzy' is .*'y'$"):
        attribute(gpt, " xyzzy")  # which has its space
    with pytest.raises(WrongLength, match="Z is 4096 x 3; expected 2 indices"):
        attribute(gpt, ("Z", 1))
