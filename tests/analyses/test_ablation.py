"""Ablation and activation patching: what a full pass with the same edit gives, for every family."""

import json
from functools import partial

import numpy as np
import pytest
from analyses.lively import FAMILIES, given, specimen, trace
from PIL import Image

import vesalius as vs
from vesalius.analyses import targets
from vesalius.analyses.ablation import ablate
from vesalius.analyses.patching import patch
from vesalius.analyses.replaying import Replay
from vesalius.equations import tracing
from vesalius.errors import TokenOutOfRange, UnknownStep, WrongKind, WrongLength
from vesalius.traces.dissection import read, trace_of

TEXT = "He shook his"
GPT = partial(specimen, "gpt")


def aims(name):
    """The default target, and a cell of a step somewhere inside."""
    inner = {"ffnn": "h[1]", "rnn": "h[1,2]", "lstm": "c[1,2]"}.get(name, "C[2]")
    cell = (inner, 3) if trace(name)[inner].ndim == 1 else (inner, 3, 1)
    return [None, cell]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_replay_is_a_full_pass_to_the_last_bit(name):
    model, rng = specimen(name), np.random.default_rng(5)
    reading = read(model, given(name))
    clean = trace_of(reading)
    names = [n for n in clean.names() if n != "S"]
    for aim in aims(name):
        replay = Replay(reading, clean, targets.find(clean, aim))
        for step in rng.choice(names, min(5, len(names)), replace=False).tolist():
            change = {step: np.asarray(clean[step] * 1.5 + 0.01, clean[step].dtype)}
            found = replay.steps(change, clean.graph.dependents(change))
            full = vs.dissect(model, given(name), edit=change)
            for operand in replay.awaited | set(found):
                np.testing.assert_array_equal(full[operand], found.get(operand, clean[operand]))
            # behind them rules make the target's column, in sums of another order
            (value,), _ = replay.read([replay.outcome(change)])
            size = float(np.abs(full[replay.target.step]).max())
            assert value == pytest.approx(
                replay.target.of(full[replay.target.step]), abs=2e-5 * size
            )


@pytest.mark.parametrize("name", FAMILIES)
def test_the_effect_of_a_step_is_that_of_an_edit(name):
    model = specimen(name)
    steps = {"ffnn": "h[*]", "rnn": "h[*,*]", "lstm": "p[*,*]"}.get(name, "P[1,*]")
    found = ablate(model, given(name), steps)
    clean = trace(name)
    assert found.clean == pytest.approx(found.target.of(clean[found.target.step]), abs=1e-4)
    for at, step in np.ndenumerate(found.names):
        full = vs.dissect(model, given(name), edit={step: vs.zero})[found.target.step]
        assert found.values[at] == pytest.approx(found.target.of(full), abs=2e-4)
        if found.probabilities is not None:
            odds = found.target.probability(full)
            assert found.probabilities[at] == pytest.approx(odds, abs=1e-5)


def test_every_head_is_told_by_what_the_target_would_be_without_it():
    found, row = vs.ablate(GPT(), TEXT, target=" head"), GPT().tokenizer.id_of(" head")
    clean, cut = trace("gpt"), vs.dissect(GPT(), TEXT, edit={"P[3,4]": vs.zero})
    assert found.clean == pytest.approx(clean["Z"][row, -1])
    assert found.clean_probability == pytest.approx(clean["Y_hat"][row, -1])
    assert found.effects.shape == (4, 4)
    assert found.axes == ("layer", "head")
    assert found.names[2, 3] == "P[3,4]"
    assert found.probabilities[2, 3] == pytest.approx(cut["Y_hat"][row, -1], abs=1e-5)
    name, at = found.ranked()[0]
    assert (name, abs(found.effects[at])) == (found.names[at], np.abs(found.effects).max())


@pytest.mark.parametrize(
    ("name", "steps", "axes", "shape"),
    [
        ("gpt", "H", ("layer",), (5,)),
        ("gpt", "H_e", ("step",), (1,)),
        ("gpt", "A, D", ("step", "layer"), (2, 4)),
        ("gpt", ["X", "A[2]"], ("step",), (2,)),
        ("gpt", "mu[*,4]", ("layer", "head"), (4, 1)),
        ("lstm", "c", ("layer", "time"), (2, 3)),
        ("lstm", "c[*,*]@1", ("layer", "time"), (2, 1)),
    ],
)
def test_effects_stand_in_a_grid_of_places(name, steps, axes, shape):
    found = ablate(specimen(name), given(name), steps)
    assert (found.axes, found.effects.shape) == (axes, shape)
    assert tuple(map(len, found.ticks)) == shape


def test_one_position_and_other_edits():
    found = ablate(GPT(), TEXT, "H[2]@1", edit=vs.mean(["He opened his"]))
    edit = {"H[2]@1": vs.mean(["He opened his"])}
    full = vs.dissect(GPT(), TEXT, edit=edit)["Z"]
    assert found.values[0] == pytest.approx(found.target.of(full), abs=1e-4)
    assert found.edit == "mean of 1 text"


def test_several_positions_and_cells_of_a_step_are_told_each():
    names = ["H[2]@1", "H[2]@2", "H[2](7, :)", "H[2]"]
    found = ablate(GPT(), TEXT, names, " head")
    assert (found.axes, found.names.tolist()) == (("step",), names)
    for name, value in zip(names, found.values, strict=True):
        full = vs.dissect(GPT(), TEXT, edit={name: vs.zero})["Z"]
        assert value == pytest.approx(found.target.of(full), abs=2e-5)
    assert ablate(GPT(), TEXT, "H[*]@1").names.tolist() == [f"H[{l}]@1" for l in range(5)]
    assert len(ablate(GPT(), TEXT, "P[3,*], P[*,4]").ranked()) == 7


def test_a_step_that_the_target_does_not_depend_on_changes_nothing():
    found = ablate("bert", "He shook his [MASK].", "h_C, z_C, H[4]@0", target="head")
    assert found.effects[:2].tolist() == [0, 0]
    assert ablate(GPT(), TEXT, "Z", target=" head").values.tolist() == [0]
    assert ablate(GPT(), TEXT, "Y_hat").effects.tolist() == [0]


def test_progress_counts_to_its_end_and_a_failure_ends_all():
    seen = []
    ablate(GPT(), TEXT, progress=lambda *what: seen.append(what))
    assert seen[-1] == ("ablations", 16, 16)
    assert [done for _, done, _ in seen] == list(range(1, 17))
    with pytest.raises(WrongLength, match=r"the edit of P\[1,1\] gives shape"):
        ablate(GPT(), TEXT, edit=lambda P: P[:1])


def test_an_ablation_is_shown_as_table_picture_and_json(tmp_path):
    found = ablate(GPT(), TEXT)
    shown = found._repr_html_()
    assert shown.index("</table>") < shown.index("<svg")
    assert "P[3,4]" in shown
    assert json.loads(json.dumps(found.to_json()))["steps"][11]["step"] == "P[3,4]"
    found.plot(tmp_path / "a.svg")
    found.plot(tmp_path / "a.png")
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    drawn = Image.open(tmp_path / "a.png")
    assert drawn.format == "PNG"
    assert drawn.convert("RGBA").getpixel((0, 0)) == (255, 255, 255, 255)
    name, at = found.ranked()[0]
    assert f"largest: {name} {found.effects[at]:+.4g}" in repr(found)
    with pytest.raises(WrongKind, match=r"saved as .svg or .png"):
        found.plot(tmp_path / "a.pdf")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"steps": "P[9,9]"}, UnknownStep, r"there is no step P\[9,9\]; did you mean P\["),
        ({"steps": "H[1]@7"}, WrongLength, r"position 7 of H\[1\] is not among the 3 tokens"),
        ({"steps": []}, UnknownStep, "steps names none"),
        ({"steps": 3}, WrongKind, "steps are said by name"),
        ({"target": "no such words"}, TokenOutOfRange, "a target is one token"),
        ({"target": ("Z", 1, 9)}, WrongLength, "Z is 4096 x 3; expected 2 indices"),
        ({"position": 3}, WrongLength, "position must be below 3"),
        ({"edit": "zero"}, WrongKind, "an edit is a function, a number"),
    ],
)
def test_what_cannot_be_ablated_says_why(changes, error, message):
    with pytest.raises(error, match=message):
        ablate(GPT(), TEXT, **changes)


def test_a_family_without_heads_says_what_it_has():
    with pytest.raises(
        UnknownStep, match=r"no step P\[\*,\*\]; .* This model has X, q, p, k, r, d, c"
    ):
        ablate(specimen("lstm"), TEXT)
    with pytest.raises(UnknownStep, match=r"no step P\[\*,\*\]; .*has X, h, Z, Y_hat$"):
        ablate(specimen("rnn"), TEXT)


def test_a_target_that_the_family_has_not():
    with pytest.raises(WrongKind, match="this ffnn has one output, whatever the position"):
        ablate(specimen("ffnn"), given("ffnn"), "h[*]", position=1)
    with pytest.raises(WrongKind, match="there is no tokenizer to read"):
        ablate(specimen("igpt"), given("igpt"), target="red")


# ---------------------------------------------------------------------------------------- patching


def test_a_patch_brings_the_clean_answer_back():
    found = vs.patch(GPT(), TEXT, "He opened his")
    assert found.target.label == "' head'"
    assert found.clean == vs.attribute(trace("gpt")).value
    assert found.clean_probability == vs.attribute(trace("gpt")).probability
    assert found.steps == tuple(f"H[{l}]" for l in range(5))
    assert found.positions == ("0", "1", "2")
    shares = found.normalised
    assert (shares[:, 0] == 0).all(), "what is the same before the difference changes nothing"
    assert shares[0, 1] == pytest.approx(1, abs=1e-4)
    assert shares[4, 2] == pytest.approx(1, abs=1e-4)
    assert shares[4, 1] == 0, "the last layer's other positions are not read"


@pytest.mark.parametrize("name", ["gpt", "lstm", "rnn"])
def test_the_effect_of_a_patch_is_that_of_an_edit(name):
    steps = "P[*,1]" if name == "gpt" else "h"
    found = patch(name, TEXT, "He opened his", steps)
    clean = vs.dissect(name, TEXT)
    for i, step in enumerate(found.steps):
        for j, position in enumerate(found.positions):
            key = step if name == "gpt" else step.replace("]", ",*]")
            edit = {f"{key}@{position}": vs.from_trace(clean)}
            full = vs.dissect(name, "He opened his", edit=edit)["Z"]
            assert found.values[i, j] == pytest.approx(found.target.of(full), abs=2e-4)


@pytest.mark.parametrize("name", ["vit", "tst", "ffnn", "bert", "igpt"])
def test_images_and_series_are_patched_too(name):
    clean = given(name)
    corrupted = {"bert": "She opened the [MASK] and looked in.", "igpt": [4, 2, 3, 4, 3, 2]}.get(
        name
    )
    if name == "ffnn":
        corrupted = [5, *clean[1:]]
    elif corrupted is None:
        corrupted = clean.copy()
        corrupted[2:9, 4:9] = clean[4:11, 5:10]
    steps = {"vit": "X_0, H[0], H_e", "ffnn": "X, h", "tst": "X, H[1]"}.get(name, "X, H[1]")
    found = patch(specimen(name), clean, corrupted, steps)
    row = found.normalised[0]
    assert np.isfinite(found.values).any()
    assert found.clean != found.corrupted
    if name == "vit":
        assert np.isnan(row[0]), "the class token is no patch"
    if name == "ffnn":
        assert found.positions[-1] == "all"
        assert found.normalised[-1, -1] == pytest.approx(1, abs=1e-3)


def test_a_step_as_a_whole_and_some_positions():
    whole = patch(GPT(), TEXT, "He opened his", "H, mu[1,*]", positions="all")
    assert whole.positions == ("all",)
    assert whole.normalised[:5, 0] == pytest.approx(1, abs=1e-4)
    some = patch(GPT(), TEXT, "He opened his", positions=[1, -1])
    every = patch(GPT(), TEXT, "He opened his")
    assert some.positions == ("1", "2")
    np.testing.assert_allclose(some.values, every.values[:, 1:], atol=1e-4)


def test_texts_of_different_lengths_say_where_they_agree():
    with pytest.raises(WrongLength) as told:
        patch(GPT(), TEXT, "He slowly shook his")
    assert "the clean text has 3 tokens, the corrupted one 4" in str(told.value)
    assert "[] and [' slowly'] differ from position 1 on" in str(told.value)
    assert "first 1 and the last 2, which positions={0: 0, -2: -2, -1: -1} patches" in str(
        told.value
    )
    found = patch(GPT(), TEXT, "He slowly shook his", positions={-2: -2, -1: -1})
    assert found.positions == ("2", "3")
    assert found.normalised[4, 1] == pytest.approx(1, abs=1e-4)
    with pytest.raises(WrongLength, match="no token is the same from either end"):
        patch(GPT(), "Yes", "They went out")


def test_what_cannot_be_patched_says_why():
    with pytest.raises(WrongKind, match="positions are whole numbers, or 'all'"):
        patch(GPT(), TEXT, "He opened his", positions="some")
    with pytest.raises(WrongLength, match=r"position 3 of H\[0\] is not among the 3 tokens"):
        patch(GPT(), TEXT, "He opened his", positions=[3])
    with pytest.raises(WrongKind, match=r"say positions= in place of cells of H\[2\]"):
        patch(GPT(), TEXT, "He opened his", "H[2]@1")
    with pytest.raises(UnknownStep, match=r"there is no step G; "):
        patch(GPT(), TEXT, "He opened his", "G")


def test_a_patching_is_shown_as_table_picture_and_json(tmp_path):
    found = patch(GPT(), TEXT, "He opened his")
    assert "<svg" in found._repr_html_()
    assert len(json.loads(json.dumps(found.to_json()))["patches"]) == 15
    found.plot(tmp_path / "p.svg")
    step, position = found.ranked()[0]
    assert f"largest: H[{step}]@{position} {found.effects[step, position]:+.4g}" in repr(found)
    same = patch(GPT(), TEXT, TEXT)
    assert np.isnan(same.normalised).all()
    assert json.loads(json.dumps(same.to_json()))["patches"][0]["normalised"] is None
    assert "<svg" in same._repr_html_()


def test_runs_that_do_not_differ_have_nothing_to_restore():
    found = patch(GPT(), TEXT, TEXT, "H[2]")
    assert np.isnan(found.normalised).all()
    shown = found._repr_html_()
    assert "both runs have the same logit: there is nothing to restore" in shown
    assert "change of the logit" in found.picture()
    assert "nan" not in shown


def test_patches_of_every_channel_can_be_told_apart_in_a_picture():
    sizes = {"layers": 1, "embedding": 8, "heads": 2, "channels": 2, "patch": 4, "stride": 4}
    model = vs.create("patchtst", **sizes, context=16, horizon=2)
    series = np.random.default_rng(0).standard_normal((2, 16)).cumsum(axis=1)
    drawn = patch(model, series, series[:, ::-1], "H[0]", ("Omega_hat", 1, 0)).picture()
    assert all(f">{5 + k} c2 patch {k + 1}<" in drawn for k in range(5))


def test_of_many_positions_the_picture_has_those_with_the_largest_effects():
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 256, (2, 28, 28, 1))
    found = patch(specimen("vit"), first, second, "H[1]")
    drawn = found.picture()
    assert f"16 of {len(found.positions)} positions" in drawn
    assert drawn.count("<rect") <= 16
    _, position = found.ranked()[0]
    assert f">{found.positions[position]} {found.tokens[position]}<" in drawn


def test_a_pass_ends_when_all_that_is_wanted_is_there():
    reading = read(specimen("gpt"), TEXT)
    with tracing() as outer, tracing(until=["C[2]", "A[1]"]) as steps:
        reading.run()
    assert steps.names()[-1] == "C[2]" == outer.names()[-1]
    with tracing(until=["A[1]"]) as outer, tracing() as inner:
        reading.run()
    assert (inner.names()[-1], outer.names()[-1]) == ("P[1,4]", "A[1]")
