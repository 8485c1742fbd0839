"""The logit lens: the last depth is the model itself, and the others are read in the same way."""

import json

import numpy as np
import pytest
from analyses.circuits import brackets, induction
from analyses.lively import FAMILIES, given, specimen, trace

import vesalius as vs
from vesalius.analyses.lens import lens
from vesalius.data.inputs import Input
from vesalius.equations import softmax
from vesalius.errors import ImpossibleSetting, UnknownStep, WrongKind, WrongLength
from vesalius.views.shown import Cell, Table


def output_of(found):
    """What the model itself says: probabilities, or values."""
    for name in ("Y_hat", "y_hat", "z", "Omega_hat"):
        if name in found:
            return softmax(found[name]) if name == "z" and found.class_names else found[name]
    raise AssertionError(name)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_last_depth_is_the_models_own_output(name):
    found, own = lens(trace(name)), output_of(trace(name))
    np.testing.assert_allclose(found.distribution(found.depths[-1]), own, atol=1e-6)
    np.testing.assert_allclose(trace(name).read_out(trace(name).graph.layers), own, atol=1e-6)
    columns = own if own.ndim == 2 else own[:, None]
    best = [[candidate.id for candidate in row] for row in found.likeliest[-1]]
    assert best == [[int(k)] for k in columns.argmax(axis=0)]
    np.testing.assert_allclose(found.probabilities[-1, :, 0], columns.max(axis=0), atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_depth_is_a_distribution_of_its_own(name):
    found = lens(trace(name), top=3)
    for depth in found.depths:
        odds = found.distribution(depth)
        assert odds.shape == output_of(trace(name)).shape
        np.testing.assert_allclose(odds.sum(axis=0), 1, atol=1e-4)
        if depth != found.depths[-1]:
            assert not np.allclose(odds, output_of(trace(name)))
    assert found.probabilities.shape == (len(found.depths), len(found.tokens), 3)


def test_depths_go_through_attention_and_feedforward_network():
    assert lens(trace("gpt")).depths[:4] == ["H[0]", "C[1]", "H[1]", "C[2]"]
    assert lens(trace("lstm")).depths == ["X", "h[1]", "h[2]"]
    assert lens(trace("ffnn")).depths == ["h[1]"]


@pytest.mark.parametrize(
    ("family", "settings", "shape"),
    [
        ("vit", {"classes": 0, "masked_patch_head": True}, (4, 4)),
        ("tst", {"head": "series", "outputs": 2}, (1, 5)),
        ("tst", {"head": "regression", "outputs": 2}, (2,)),
    ],
)
def test_models_that_give_values_are_read_too(family, settings, shape):
    sizes = {"layers": 2, "embedding": 8, "heads": 2, "channels": 1}
    of = {"image": 4, "patch": 2} if family == "vit" else {"context": 7}
    model = vs.create(family, **sizes, **of, **settings)
    rng = np.random.default_rng(1)
    read = rng.standard_normal((4, 4, 1) if family == "vit" else (1, 5))
    found = vs.dissect(model, read)
    cell = ("Omega_hat", 0, 1) if len(shape) == 2 else ("z", 1)
    looked = lens(found, target=cell)
    assert found.read_out(2).shape == shape
    np.testing.assert_allclose(found.read_out(2), output_of(found), atol=1e-6)
    assert looked.likeliest == []
    assert (looked.distances[-1] == 0).all()
    assert (looked.distances[:-1] > 0).all()
    assert looked.course.ranks is None
    assert looked.course.values[-1] == output_of(found)[cell[1:]]
    assert json.loads(json.dumps(looked.to_json()))["distances"] == looked.distances.tolist()
    assert "distance from the" in looked.picture()


@pytest.mark.parametrize("affine", [False, True])
def test_a_forecast_is_read_at_the_level_of_its_series(affine):
    sizes = {"layers": 2, "embedding": 8, "heads": 2, "channels": 3, "patch": 4, "stride": 4}
    model = vs.create("patchtst", **sizes, context=12, horizon=5, affine=affine)
    series = 40 + np.random.default_rng(1).standard_normal((3, 12)).cumsum(axis=1)
    found = vs.dissect(model, series)
    np.testing.assert_allclose(found.read_out(2), found["Omega_hat"], rtol=1e-6)
    looked = lens(found, target=("Omega_hat", 1, 2))
    assert looked.depths == ["H[0]", "C[1]", "H[1]", "C[2]", "H[2]"]
    assert looked.tokens == ["+1", "+2", "+3", "+4", "+5"]
    assert looked.course.values[-1] == found["Omega_hat"][1, 2]
    assert (looked.distances[-1] == 0).all()
    assert (looked.distances[:-1] > 0).all()
    np.testing.assert_allclose(looked.distribution("C[1]").mean(), 40, atol=5)
    # states that are put after the last layer give what was read of them before it
    for depth in ("H[0]", "C[1]", "H[1]"):
        moved = vs.dissect(model, series, edit={"H[2]": found[depth]})["Omega_hat"]
        np.testing.assert_allclose(looked.distribution(depth), moved, rtol=1e-6)


def test_a_series_with_gaps_and_padding_is_read_as_the_model_reads_it():
    model = vs.create("tst", layers=1, embedding=8, heads=2, channels=2, context=6, outputs=3)
    values = np.array([[1, 0, 3, 2], [2, 0, 1, 2]], np.float32)
    found = vs.dissect(model, Input(values, (), real=np.array([True, False, True, True])))
    np.testing.assert_allclose(found.read_out(1), softmax(found["z"]), atol=1e-6)


def test_the_answer_appears_with_the_induction_head_in_layer_2():
    circuit = induction()
    for ids, target in zip(circuit.inputs[:5], circuit.targets, strict=False):
        found = lens(vs.dissect(circuit.model, ids), target=target)
        before, after = found.course.probabilities[:3], found.course.probabilities[3:]
        assert found.depths == ["H[0]", "C[1]", "H[1]", "C[2]", "H[2]"]
        assert (before < 0.01).all()
        assert (after > 0.99).all()
        assert found.course.ranks[3:] == [1, 1]


def test_variant_1_is_read_without_another_normalisation():
    circuit = brackets()
    found = vs.dissect(circuit.model, circuit.inputs[0])
    np.testing.assert_array_equal(found.read_out("H[1]"), found["Y_hat"])
    U = circuit.model.parameters.U
    np.testing.assert_array_equal(found.read_out("C[1]"), softmax(U @ found["C[1]"]))


def test_a_target_has_logit_probability_and_rank_by_depth():
    found = lens(trace("gpt"), target=" head")
    row = found.course.target.cells[0][0][0]
    for k, depth in enumerate(found.depths):
        odds = found.distribution(depth)[:, -1]
        assert found.course.probabilities[k] == pytest.approx(odds[row], rel=1e-4)
        assert found.course.ranks[k] == 1 + int((odds > odds[row]).sum())
    assert found.course.values[-1] == trace("gpt")["Z"][row, -1]
    two = lens(trace("gpt"), target=(" head", " hand"))
    one = lens(trace("gpt"), target=" hand")
    assert two.course.ranks is None
    np.testing.assert_allclose(two.course.values, found.course.values - one.course.values)


def test_a_masked_model_is_read_at_its_mask():
    found = lens(trace("bert"), target="door")
    assert found.course.target.column == trace("bert").ids.index(
        specimen("bert").tokenizer.special["[MASK]"]
    )


def test_one_position_alone():
    all_, one = lens(trace("gpt")), lens(trace("gpt"), target=" his", position=1)
    assert (one.tokens, one.positions) == ([" shook"], [1])
    assert [row[1] for row in all_.likeliest] == [row[0] for row in one.likeliest]
    assert one.course.target.column == 1


def test_edits_are_seen():
    plain = lens(trace("gpt"))
    edited = vs.dissect(specimen("gpt"), given("gpt"), edit={"P[3,4]": np.zeros_like})
    found = lens(edited)
    for depth in found.depths:
        same = np.array_equal(found.distribution(depth), plain.distribution(depth))
        assert same is (depth in ("H[0]", "C[1]", "H[1]", "C[2]", "H[2]"))
    behind = vs.dissect(specimen("gpt"), given("gpt"), edit={"H_e": lambda H: 0 * H})
    np.testing.assert_allclose(lens(behind).distribution("H[4]"), behind["Y_hat"], atol=1e-6)


def test_a_saved_trace_is_read_with_its_model(tmp_path):
    trace("gpt").save(tmp_path / "t.safetensors")
    again = vs.read_trace(tmp_path / "t.safetensors", model=specimen("gpt"))
    mine, theirs = (lens(t, target=" head") for t in (again, trace("gpt")))
    np.testing.assert_allclose(mine.probabilities, theirs.probabilities, rtol=1e-4)
    assert mine.course.ranks == theirs.course.ranks
    assert mine.tokens == theirs.tokens


def test_widths_that_do_not_fit_are_left_out_or_refused():
    model = vs.create("lstm", vocabulary=9, embedding=4, hidden=6, layers=2, tied=False)
    found = vs.dissect(model, [1, 2, 3])
    assert lens(found).depths == ["h[1]", "h[2]"]
    with pytest.raises(WrongLength, match="reads 6 numbers, these states have 4; layers 1 to 2"):
        found.read_out(0)


def test_what_cannot_be_read_is_refused():
    bare = vs.create("vit", image=4, patch=2, classes=0, layers=1, embedding=8, heads=2)
    with pytest.raises(WrongKind, match="neither a class head nor a masked-patch head"):
        lens(vs.dissect(bare, np.zeros((4, 4, 3)) + 0.5))
    with pytest.raises(WrongKind, match=r"the lens reads Z at every depth; A\[1\] is none of it"):
        lens(trace("gpt"), target=("A[1]", 0, 0))
    with pytest.raises(ImpossibleSetting, match="top must be at least 1"):
        lens(trace("gpt"), top=0)
    with pytest.raises(WrongLength, match="position must be below 3"):
        lens(trace("gpt"), position=3)
    with pytest.raises(WrongKind, match="one output"):
        lens(trace("vit"), position=1)
    with pytest.raises(UnknownStep, match=r"there is no depth 'H\[9\]'"):
        lens(trace("gpt")).distribution("H[9]")
    with pytest.raises(UnknownStep, match=r"C\[1\]"):
        lens(vs.dissect(specimen("gpt"), "He shook his", only="H"))


def test_unlikely_words_are_faint_and_wide_tables_are_cut():
    found = lens(trace("gpt"), target=" head")
    first, *tables = list(found.view())
    assert "logit lens of gpt2" in first
    cells = [cell for row in tables[0].rows for cell in row[1:]]
    odds = found.probabilities[:, :, 0].ravel()
    assert [cell.faint for cell in cells] == [bool(p < 0.1) for p in odds]
    assert tables[-1].heads == ["depth", "logit", "probability", "rank"]
    long = lens(vs.dissect(specimen("gpt"), "It was dark, and he opened the door. " * 5))
    cut = [part for part in long.view() if isinstance(part, Table)]
    assert sum(len(table.heads) - 1 for table in cut) == 32
    for table in cut:
        texts = [max(len(getattr(r[k], "text", r[k])) for r in table.rows) for k in range(1, 3)]
        assert sum(texts) < 100
    assert isinstance(cut[0].rows[0][1], Cell)


def test_pages_and_pictures(tmp_path):
    found = lens(trace("gpt"))
    page = found._repr_html_()
    assert 'class="faint"' in page
    assert page.count("<svg ") == 1
    best = trace("gpt").likeliest(1)[0][1]
    assert best.replace(" ", "·") in found.picture()
    found.plot(tmp_path / "lens.png")
    assert (tmp_path / "lens.png").read_bytes().startswith(b"\x89PNG")
    assert repr(found).startswith("Lens of gpt2: H[0] to H[4], 3 tokens\n  at the last: ")
    told = json.loads(json.dumps(found.to_json()))
    assert told["likeliest"][-1][-1][0]["name"] == best
