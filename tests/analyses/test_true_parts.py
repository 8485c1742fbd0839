"""Analyses of models whose circuits are known: the true parts come first."""

import numpy as np
import pytest
from analyses.circuits import brackets, counter, induction

import vesalius as vs


@pytest.mark.parametrize("k", range(5))
def test_ablation_finds_both_heads_of_induction_and_no_other(k):
    circuit = induction()
    found = vs.ablate(circuit.model, circuit.inputs[k], "P[*,*]", circuit.targets[k])
    assert {name for name, _ in found.ranked()[:2]} == set(circuit.parts)
    idle = [abs(float(found.effects[at])) for _, at in found.ranked()[2:]]
    assert max(idle) < 1e-5
    assert found.clean_probability > 0.99
    assert all(found.probabilities[at] < 0.5 for _, at in found.ranked()[:2])


@pytest.mark.parametrize("k", range(5))
def test_attribution_credits_the_head_that_writes_the_answer(k):
    """The previous-token head adds nothing itself: it is read by the induction head."""
    circuit = induction()
    trace = vs.dissect(circuit.model, circuit.inputs[k])
    others = [i for i in range(1, 9) if i not in (circuit.targets[k], circuit.inputs[k][-1])]
    found = vs.attribute(trace, (circuit.targets[k], others[0]))
    assert found.parts[0].name == "P[2,2]"
    assert found.parts[0].share > 0.9 * found.value
    split = vs.attribute(trace, circuit.targets[k], sources="P[2,2]")
    place = circuit.inputs[k].index(circuit.targets[k])
    sources = [part for part in split.parts if part.name.startswith("P[2,2]:")]
    assert sources[0].name == f"P[2,2]:{place + 1}"


def test_patching_follows_the_answer_from_the_earlier_token_to_the_last():
    """Another word after the earlier occurrence: what decides is at it, then at the end."""
    circuit = induction()
    clean, target = circuit.inputs[0], circuit.targets[0]
    place = clean.index(target)
    wrong = next(i for i in range(1, 9) if i not in (target, clean[-1]))
    corrupted = [wrong if i == place else token for i, token in enumerate(clean)]
    found = vs.patch(circuit.model, clean, corrupted, "H[*]", target)
    carried = found.normalised.argmax(axis=1).tolist()
    assert carried[0] == place
    assert carried[-1] == len(clean) - 1
    assert found.normalised[0, place] == pytest.approx(1, abs=1e-3)
    assert found.normalised[-1, -1] == pytest.approx(1, abs=1e-3)


def test_the_bracket_counter_is_its_one_head():
    circuit = brackets()
    for ids, target in list(zip(circuit.inputs, circuit.targets, strict=True))[:10]:
        found = vs.ablate(circuit.model, ids, "P[*,*]", target)
        assert found.ranked()[0][0] == "P[1,1]"
        told = vs.attribute(vs.dissect(circuit.model, ids), (2, 3))
        balance = sum(1 if i == 0 else -1 for i in ids)
        assert balance == 0 or told.parts[0].name == "P[1,1]"
        assert balance == 0 or np.sign(told["P[1,1]"]) == np.sign(balance)


def test_the_counting_lstm_adds_one_at_every_step():
    circuit = counter()
    for ids in circuit.inputs[:10]:
        trace = vs.dissect(circuit.model, ids)
        told = vs.attribute(trace, (2, 3))
        signs = [np.sign(told[f"d[1,{i}]"]) for i in range(1, len(ids) + 1)]
        assert signs == [1 if token == 0 else -1 for token in ids] or told.value == 0
        shares = [abs(told[f"d[1,{i}]"]) for i in range(1, len(ids) + 1)]
        assert max(shares) == pytest.approx(min(shares), rel=1e-2) or told.value == 0


def test_cutting_the_counting_unit_matters_and_the_idle_one_not():
    circuit = counter()
    ids, target = circuit.inputs[0], circuit.targets[0]
    clean = vs.dissect(circuit.model, ids)["Y_hat"][target, -1]
    n = len(ids)
    counting = vs.dissect(circuit.model, ids, edit={f"c[1,{n}](0)": 0.0})["Y_hat"][target, -1]
    idle = vs.dissect(circuit.model, ids, edit={f"c[1,{n}](1)": 0.0})["Y_hat"][target, -1]
    assert abs(idle - clean) < 1e-6
    assert target == 4 or clean - counting > 0.5


def test_patching_the_bracket_counter_names_its_head_at_the_last_token():
    """One bracket turned around: what the head reads at the end brings the answer back, alone."""
    circuit = brackets()
    clean = [0, 1, 0, 1, 0]
    for k, token in enumerate(clean):
        corrupted = [*clean[:k], 1 - token, *clean[k + 1 :]]
        found = vs.patch(circuit.model, clean, corrupted, "P[*,*]", (2, 3))
        (row, column), *others = found.ranked()
        assert (found.steps[row], column) == ("P[1,1]", len(clean) - 1)
        if k < len(clean) - 1:
            assert found.normalised[row, column] == pytest.approx(1, abs=1e-5)
        assert all(abs(found.effects[at]) < 1e-5 for at in others)


@pytest.mark.parametrize("ids", [[0, 0, 1, 0], [1, 1, 0], [0, 0, 0, 1, 1]])
def test_ablation_and_patching_find_the_unit_that_counts(ids):
    circuit, n = counter(), len(ids)
    target = 2 if ids.count(0) > ids.count(1) else 3
    units = [f"c[1,{n}]({unit})" for unit in (0, 1)]
    cut = vs.ablate(circuit.model, ids, units, target)
    assert cut.ranked()[0][0] == units[0]
    assert cut.effects[1] == 0
    assert cut.probabilities[0] < 0.5 < cut.clean_probability
    for k, token in enumerate(ids):
        corrupted = [*ids[:k], 1 - token, *ids[k + 1 :]]
        found = vs.patch(circuit.model, ids, corrupted, "c, d", (2, 3))
        carried = dict(zip(found.steps, found.normalised, strict=True))
        added, counted = [int(i == k) for i in range(n)], [int(i >= k) for i in range(n)]
        np.testing.assert_allclose(carried["d[1]"], added, atol=1e-5)
        np.testing.assert_allclose(carried["c[1]"], counted, atol=1e-5)
