"""What heads do: their shares of attention are counted right, and effects are those of edits."""

import json

import numpy as np
import pytest
from analyses.circuits import brackets, induction
from analyses.lively import given, specimen, trace

import vesalius as vs
from vesalius.analyses.heads import heads
from vesalius.analyses.targets import find
from vesalius.errors import EmptySequence, ImpossibleSetting, UnknownSetting, WrongKind

REPEATED = "He shook his head, and he shook his"


def test_the_heads_of_a_known_circuit_come_first():
    circuit = induction()
    found = heads(circuit.model, circuit.inputs)
    previous, inducing = circuit.parts
    assert found.sorted_by("previous")[0].name == previous
    assert found.sorted_by("induction")[0].name == inducing
    assert found.sorted_by("effect")[0].name == inducing
    assert {head.name for head in found.sorted_by()[:2]} == set(circuit.parts)
    assert found.table["previous"][0, 0] == pytest.approx(1, abs=1e-5)
    assert found.table["induction"][1, 1] == pytest.approx(1, abs=1e-5)
    assert found.table["entropy"][0, 0] == pytest.approx(0, abs=1e-5)
    assert all(head.scores["effect"] == 0 for head in found.sorted_by("effect")[2:])


def test_the_counting_head_attends_to_all_alike():
    circuit = brackets()
    found = heads(circuit.model, [circuit.inputs[0]])
    n = len(circuit.inputs[0])
    alike = np.mean([np.log(i) for i in range(1, n + 1)])
    assert found.table["entropy"][0, 0] == pytest.approx(alike, rel=1e-5)
    assert found.sorted_by("effect")[0].name == circuit.parts[0]


def test_shares_are_averaged_over_the_queries_that_have_such_a_position():
    ids = [3, 5, 3, 3, 5, 7]
    model = vs.create("gpt2", layers=2, embedding=12, heads=3, vocabulary=9, context=9)
    found = heads(model, [ids, [1, 2]], effects=False)
    assert found.queries == {
        "entropy": 8,
        "previous": 6,
        "first": 6,
        "duplicate": 3,
        "induction": 3,
    }
    one, two = (vs.dissect(model, text)["mu[2,3]"] for text in (ids, [1, 2]))
    share = {
        "previous": [*(one[i, i - 1] for i in range(1, 6)), two[1, 0]],
        "first": [*(one[i, 0] for i in range(1, 6)), two[1, 0]],
        "duplicate": [one[2, 0], one[3, 0] + one[3, 2], one[4, 1]],
        "induction": [one[2, 1], one[3, 1], one[4, 2]],
    }
    rows = [row[row > 0] for mu in (one, two) for row in mu.astype(np.float64)]
    entropies = [-(row * np.log(row)).sum() for row in rows]
    assert found.table["entropy"][1, 2] == pytest.approx(np.mean(entropies), rel=1e-5)
    for name, values in share.items():
        assert found.table[name][1, 2] == pytest.approx(np.mean(values), rel=1e-5), name


@pytest.mark.parametrize("name", ["gpt", "igpt", "bert", "vit", "tst"])
def test_effects_are_those_of_editing_the_head_to_zero(name):
    model, before = specimen(name), trace(name)
    found, target = heads(model, given(name)), find(trace(name))
    for l, m in ((1, 2), (2, 1), (3, 4)):
        after = vs.dissect(model, given(name), edit={f"P[{l},{m}]": np.zeros_like})
        change = target.of(after[target.step]) - target.of(before[target.step])
        odds = target.probability(after[target.step]) - target.probability(before[target.step])
        assert found.table["effect"][l - 1, m - 1] == pytest.approx(change, abs=2e-5)
        assert found.table["effect_probability"][l - 1, m - 1] == pytest.approx(odds, abs=2e-5)


def test_a_target_may_be_said_and_two_compared():
    one, two = (heads(specimen("gpt"), REPEATED, target=t) for t in (" head", " hand"))
    both = heads(specimen("gpt"), REPEATED, target=(" head", " hand"))
    np.testing.assert_allclose(
        both.table["effect"], one.table["effect"] - two.table["effect"], atol=1e-5
    )
    assert both.targets == ["' head' minus ' hand'"]


def test_values_have_effects_but_no_probabilities():
    sizes = {"layers": 1, "embedding": 8, "heads": 2, "channels": 1, "context": 5}
    model = vs.create("tst", head="series", **sizes)
    series = np.random.default_rng(0).standard_normal((1, 5))
    found = heads(model, series, target=("Omega_hat", 0, 2))
    after = vs.dissect(model, series, edit={"P[1,2]": np.zeros_like})["Omega_hat"][0, 2]
    before = vs.dissect(model, series)["Omega_hat"][0, 2]
    assert found.table["effect"][0, 1] == pytest.approx(after - before, abs=1e-6)
    assert "effect_probability" not in found.table
    with pytest.raises(WrongKind, match="effects=False, or --no-effects, leaves effects out"):
        heads(model, series)
    assert "effect" not in heads(model, series, effects=False).table


def test_padding_is_not_attended_from():
    found = heads(specimen("tst"), given("tst"), effects=False)
    assert found.queries["entropy"] == 20
    assert found.queries["previous"] == 19


def test_channels_of_a_forecaster_have_first_patches_of_their_own():
    """A patch cannot attend to another channel, so that it has no previous or first one there."""
    model = vs.create("patchtst", channels=2, context=16, patch=4, stride=4, horizon=2)
    series = np.random.default_rng(0).standard_normal((2, 16)).cumsum(axis=1)
    found = heads(model, series, effects=False)
    mu, n = vs.dissect(model, series)["mu[2,3]"], 5
    inside = [i for i in range(2 * n) if i % n]
    assert found.queries["previous"] == found.queries["first"] == len(inside)
    share = {
        "previous": [mu[i, i - 1] for i in inside],
        "first": [mu[i, i // n * n] for i in inside],
    }
    for name, values in share.items():
        assert found.table[name][1, 2] == pytest.approx(np.mean(values), rel=1e-5), name


def test_images_are_told_by_the_offset():
    model = specimen("vit")
    found = heads(model, given("vit"), effects=False)
    side, mu = 7, trace("vit")["mu[2,3]"].astype(np.float64)
    assert list(found.table) == ["entropy", "class", "itself", "offset"]
    assert found.offsets.shape == (4, 4, 13, 13)
    assert found.table["class"][1, 2] == pytest.approx(mu[1:, 0].mean())
    assert found.table["itself"][1, 2] == pytest.approx(np.diag(mu)[1:].mean())
    for dy, dx in ((0, 0), (1, 0), (-2, 3)):
        pairs = [
            mu[1 + y * side + x, 1 + (y + dy) * side + x + dx]
            for y in range(side)
            for x in range(side)
            if 0 <= y + dy < side and 0 <= x + dx < side
        ]
        assert found.offsets[1, 2, dy + 6, dx + 6] == pytest.approx(np.mean(pairs))
    best = found.sorted_by("offset")[0]
    dy, dx = best.offset
    assert found.offsets[best.layer - 1, best.head - 1, dy + 6, dx + 6] == best.scores["offset"]
    several = np.stack([given("vit"), 255 - given("vit")])
    assert heads(model, several, effects=False).texts == 2


def test_a_head_that_looks_up_has_the_offset_above():
    model = vs.create(
        "vit", image=8, patch=2, channels=1, classes=2, layers=1, embedding=16, heads=1, key=16
    )
    theta = model.parameters
    for array in (theta.E, theta.b_e, theta.x_class, theta.Lambda):
        array[...] = 0
    theta.Lambda[:16, 1:] = np.eye(16)
    head = theta.Phi[0].Gamma.Psi[0]
    head.W_Q[...], head.W_K[...] = np.eye(16, k=-4) * 100, np.eye(16)
    found = heads(model, np.zeros((8, 8, 1)) + 0.5, effects=False)
    assert found.strongest.tolist() == [[[-1, 0]]]
    assert found.table["offset"][0, 0] == pytest.approx(1)


def test_one_text_several_or_ids():
    text = "He shook his"
    ids = specimen("gpt").tokenizer.encode(text)
    each = [
        heads(specimen("gpt"), x, effects=False) for x in (text, [text], ids, [ids], [text] * 2)
    ]
    for other in each[1:]:
        np.testing.assert_allclose(other.table["previous"], each[0].table["previous"])
    assert [found.texts for found in each] == [1, 1, 1, 1, 2]


def test_a_tuple_is_a_pair_of_sentences_and_a_list_are_two_texts():
    pair = ("She opened the [MASK].", "He went out.")
    one, several = (heads(specimen("bert"), given, effects=False) for given in (pair, [*pair]))
    assert (one.texts, several.texts) == (1, 2)
    mu = vs.dissect(specimen("bert"), pair)["mu[2,3]"]
    assert one.table["first"][1, 2] == pytest.approx(mu[1:, 0].mean(), rel=1e-5)
    assert heads(specimen("gpt"), pair, effects=False).texts == 2


def test_what_has_no_heads_and_what_is_no_text():
    with pytest.raises(WrongKind, match="lstm has no attention heads; families that have: trans"):
        heads(specimen("lstm"), "He shook his")
    with pytest.raises(EmptySequence, match="at least one text"):
        heads(specimen("gpt"), [])
    with pytest.raises(ImpossibleSetting, match="texts must be a text or several"):
        heads(specimen("gpt"), 3)
    found = heads(specimen("gpt"), "He shook his", effects=False)
    with pytest.raises(UnknownSetting, match="unknown score 'inductive'"):
        found.sorted_by("inductive")


def test_effects_may_be_about_any_number_that_heads_lead_to():
    found = heads(specimen("gpt"), "He shook his", target=("A[2]", 0, 2)).table["effect"]
    assert found[:2].all()
    assert not found[2:].any()


def test_scores_without_a_query_are_none_and_come_last():
    found = heads(specimen("gpt"), "He shook his", effects=False)
    assert found.queries["induction"] == 0
    assert all(head.scores["induction"] is None for head in found.sorted_by("induction"))
    assert json.loads(json.dumps(found.to_json()))["heads"][0]["induction"] is None


def test_tables_pages_and_pictures(tmp_path):
    seen = []
    found = heads(specimen("gpt"), [REPEATED, "It was"], progress=lambda *now: seen.append(now))
    cuts = 2 * found.table["entropy"].size  # each head once in each text
    assert seen == [("heads", done, cuts) for done in range(1, cuts + 1)]
    sizes = [abs(head.scores["effect"]) for head in found.sorted_by()]
    assert sizes == sorted(sizes, reverse=True)
    _, about, table, *_ = list(found.view())
    assert about.startswith("effects are about ' head', ")
    assert [row[0] for row in table.rows] == [head.name for head in found.sorted_by("effect")]
    assert found._repr_html_().count("Previous token") == 1
    found.plot(tmp_path / "heads.svg", by="induction")
    assert "Previous token" not in (tmp_path / "heads.svg").read_text()
    once = heads(specimen("gpt"), "He shook his", effects=False)
    assert "Induction" not in once.picture()  # no token stands there twice
    assert "1 input" in repr(heads(specimen("tst"), given("tst"), effects=False))
    images = heads(specimen("vit"), given("vit"), effects=False)
    images.plot(tmp_path / "heads.png")
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")
    assert "by effect: P[" in repr(found)
