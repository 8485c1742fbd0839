"""How numbers are made: every recorded step of every family has a rule, and its terms make it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from analyses.lively import FAMILIES, given, specimen, trace

import vesalius as vs
from vesalius.analyses.unfolding import Curve, unfold
from vesalius.equations.rules import Made
from vesalius.errors import ImpossibleSetting, UnknownStep, WrongKind, WrongLength

FEW, MANY = 1, pytest.param(32, marks=pytest.mark.slow)
"""Cells of each step that are looked at."""


def cells(value, seed, many):
    rng = np.random.default_rng(seed)
    for _ in range(min(many, value.size)):
        yield tuple(int(rng.integers(n)) for n in value.shape)


@pytest.mark.parametrize("many", [FEW, MANY])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_terms_of_every_step_sum_to_its_value(name, many):
    for seed, step in enumerate(trace(name).steps):
        for at in cells(np.asarray(step.value), seed, many):
            found = unfold(trace(name), step.name, *at, top=2)
            assert found.agrees, (found, found.difference, found.bound)


@pytest.mark.parametrize("many", [FEW, MANY])
@pytest.mark.parametrize("name", FAMILIES)
def test_in_double_precision_they_do_so_within_a_millionth_of_a_millionth(name, many):
    for seed, step in enumerate(trace(name, double=True).steps):
        for at in cells(np.asarray(step.value), seed, many):
            found = unfold(trace(name, double=True), step.name, *at, top=2)
            assert found.agrees, (found, found.difference, found.bound)


def squared_from(found, x):
    return (x - found.notes["mean"]) ** 2


@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_term_shows_multiplies_to_it(name):
    """Numbers that a term is made of, and what is done to them: nothing is left unsaid."""
    for seed, step in enumerate(trace(name).steps):
        (at,) = cells(np.asarray(step.value), seed, 1)
        found = unfold(trace(name), step.name, *at, top=4)
        through = {
            "": lambda x: x,
            "tanh(·)": np.tanh,
            "(1 − ·)": lambda x: 1 - x,
            "(· − μ)²": partial(squared_from, found),
        }
        for term in found.terms:
            product = np.prod([through[factor.function](factor.value) for factor in term.factors])
            assert product == pytest.approx(term.value, rel=1e-12) or np.isinf(term.value), found


def test_a_score_names_the_factor_of_its_products():
    found, d_k = unfold(trace("gpt"), "mu[3,3]", 2, 1), trace("gpt")["q[3,3]"].shape[1]
    factor = found.terms[0].factors[-1]
    assert (factor.kind, factor.name, factor.value) == ("constant", "1/√d_k", 1 / d_k**0.5)
    assert str(found.terms[0]).endswith(" · 1/√d_k")
    assert r"\sqrt{d_k}" in found.equation.latex
    assert "/ √d_k" in found.equation.plain
    assert "E17" in [erratum.number for erratum in found.equation.errata]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_value_that_is_not_the_sum_of_its_terms_is_found_out(name):
    """A hundredth of the step's largest number is far beyond what rounding can do."""
    wrong = vs.dissect(specimen(name), given(name))
    for seed, step in enumerate(wrong.steps):
        value = np.asarray(step.value)
        (at,) = cells(value, seed, 1)
        found = unfold(wrong, step.name, *at)
        more = 0.01 * float(np.abs(value[np.isfinite(value)]).max())
        if not more or not np.isfinite(found.value):
            continue
        spoilt = replace(found, value=found.value + more)
        assert found.agrees
        assert not spoilt.agrees, (spoilt, spoilt.difference, spoilt.bound)
        assert "rounding does not explain" in "\n".join(map(str, spoilt.view()))


def test_the_largest_terms_come_first_and_the_others_are_one_sum():
    found = unfold(trace("gpt"), "Z", 769, 2, top=3)
    everything = unfold(trace("gpt"), "Z", 769, 2, top=10_000)
    assert (found.count, len(found.terms), found.others) == (256, 3, 253)
    assert [t.value for t in found.terms] == [t.value for t in everything.terms[:3]]
    assert found.rest == pytest.approx(sum(t.value for t in everything.terms[3:]), rel=1e-12)
    sizes = [abs(t.value) for t in everything.terms]
    assert sizes == sorted(sizes, reverse=True)


def test_an_activation_is_told_as_a_curve_that_the_number_stands_on():
    for name, step, at, function in (
        ("lstm", "p[2,3]", (3,), lambda x: 1 / (1 + np.exp(-x))),
        ("lstm", "q[2,3]", (3,), np.tanh),
        (
            "gpt",
            "F[2]",
            (7, 1),
            lambda x: x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))) / 2,
        ),
    ):
        found = unfold(trace(name), step, *at)
        x = np.linspace(-found.curve.reach, found.curve.reach, len(found.curve.values))
        assert (
            np.abs(found.curve.values - function(x)).max() <= 0.00005 + 1e-9
        )  # rounded to be drawn
        assert abs(found.total) < found.curve.reach
        assert found.to_json()["curve"]["values"] == found.curve.values
    for step in ("Z", "Y_hat", "H_bar[1]"):  # a sum, a softmax, a normalisation
        assert unfold(trace("gpt"), step, 1, 1).curve is None


def test_a_curve_reaches_as_far_as_the_sum_and_none_is_drawn_of_infinity():
    made = Made([], "tanh", activation=np.tanh)
    assert (Curve.of(made, 0.5).reach, Curve.of(made, -20.0).reach) == (4, 22)
    assert Curve.of(made, -np.inf) is None


def test_a_term_names_its_operands_and_a_weight_its_place_in_the_file():
    model, found = specimen("gpt"), unfold(trace("gpt"), "Z", 769, 2, top=1)
    weight, state = found.terms[0].factors
    assert (weight.kind, weight.name, state.kind, state.name) == ("parameter", "E", "step", "H_e")
    assert weight.value == model.parameters.E[weight.at]
    assert state.value == trace("gpt")["H_e"][state.at]
    assert found.terms[0].value == pytest.approx(weight.value * state.value, rel=1e-12)
    place = weight.location
    assert (place.name, place.tensor) == ("embedding.weight", "embedding.weight")
    stored = np.fromfile(model.folder / place.file, "<f2", count=1, offset=place.offset)
    assert stored[0] == weight.value


def test_operands_are_steps_and_parameters_by_name():
    assert trace("gpt").operands("H_bar[2]") == ["H[1]", "Phi[2].Xi_1.alpha", "Phi[2].Xi_1.beta"]
    assert trace("gpt").operands("A[3]")[1:5] == [f"P[3,{m}]" for m in range(1, 5)]
    assert trace("lstm").operands("k[1,1]") == ["p[1,1]"]
    assert trace("lstm").operands("Z")[1:] == ["h[2,1]", "h[2,2]", "h[2,3]"]
    assert trace("bert").operands("C[1]")[:2] == ["H[0]", "A[1]"]


@pytest.mark.parametrize("name", FAMILIES)
def test_what_depends_on_a_step_is_what_changes_with_it(name):
    model, before = specimen(name), trace(name)
    rng = np.random.default_rng(3)
    steps = [n for n in before.names() if n[0] not in "SO"]
    for step in rng.choice(steps, min(6, len(steps)), replace=False):
        after = vs.dissect(model, given(name), edit={str(step): lambda v: v * 1.5 + 0.01})
        changed = {n for n in before if not np.array_equal(before[n], after[n])}
        assert changed <= before.graph.dependents([str(step)])
        assert str(step) in changed


def test_a_saved_trace_keeps_its_edges_and_unfolds_with_its_model(tmp_path):
    trace("gpt").save(tmp_path / "t.safetensors")
    alone = vs.read_trace(tmp_path / "t.safetensors")
    assert alone.operands("mu[2,1]") == ["q[2,1]", "k[2,1]", "S"]
    with pytest.raises(WrongKind, match="read_trace\\(file, model="):
        unfold(alone, "F[1]", 0, 0)
    again = vs.read_trace(tmp_path / "t.safetensors", model=specimen("gpt"))
    for step, at in (("F[1]", (3, 1)), ("X", (2, 2)), ("mu[3,4]", (2, 1))):
        assert unfold(again, step, *at).to_json() == unfold(trace("gpt"), step, *at).to_json()


def test_what_was_edited_says_so():
    edited = vs.dissect("gpt", "He shook his", edit={"P[3,4]": lambda P: 0 * P})
    assert unfold(edited, "P[3,4]", 0, 0).edited
    assert not unfold(edited, "A[3]", 0, 0).edited
    assert "it is not the sum of these terms" in "\n".join(
        map(str, unfold(edited, "P[3,4]", 0, 0).view())
    )
    held = vs.dissect("lstm", "He shook his", edit={"c[2,3](5)": vs.zero})
    assert [unfold(held, "c[2,3]", unit).edited for unit in (4, 5, 6)] == [False, True, False]
    assert abs(unfold(edited, "A[3]", 0, 0).difference) < 1e-4


def test_a_cell_or_step_that_is_not_there():
    with pytest.raises(UnknownStep, match=r"no step 'mu\[9,9\]' was recorded; did you mean"):
        unfold(trace("gpt"), "mu[9,9]", 0, 0)
    for at in ((3, 0), (0,), (0, 0, 0), ()):
        with pytest.raises(WrongLength, match=r"mu\[1,1\] is 3 x 3; expected 2 indices"):
            unfold(trace("gpt"), "mu[1,1]", *at)
    with pytest.raises(ImpossibleSetting, match="a cell's index must be a whole number"):
        unfold(trace("gpt"), "mu[1,1]", 0.5, 0)


def test_operands_that_were_not_recorded_are_named():
    some = vs.dissect("gpt", "He shook his", only="Z")
    with pytest.raises(UnknownStep, match="this needs H_e, which was not recorded"):
        unfold(some, "Z", 0, 0)
