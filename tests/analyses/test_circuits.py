"""The models that were written by hand do what they were written for, and by the parts named."""

import numpy as np
import pytest
from analyses.circuits import brackets, counter, induction

import vesalius as vs

CIRCUITS = {"induction": induction, "brackets": brackets, "counter": counter}


def said(circuit, ids, **settings):
    return vs.dissect(circuit.model, ids, **settings)["Y_hat"][:, -1]


@pytest.mark.parametrize("build", CIRCUITS.values(), ids=CIRCUITS)
@pytest.mark.parametrize("seed", [0, 1])
def test_they_are_always_right_and_sure(build, seed):
    circuit = build(count=30, seed=seed)
    for ids, target in zip(circuit.inputs, circuit.targets, strict=True):
        odds = said(circuit, ids)
        assert odds.argmax() == target, ids
        assert odds[target] > 0.99, ids


@pytest.mark.parametrize("words", [3, 20])
def test_induction_works_with_vocabularies_of_any_size(words):
    circuit = induction(words, count=10)
    odds = [said(circuit, i)[t] for i, t in zip(circuit.inputs, circuit.targets, strict=True)]
    assert min(odds) > 0.99


def test_every_prefix_of_brackets_is_told_and_every_count():
    for circuit, names in ((brackets(), (3, 2, 3)), (counter(), (3, 2, 4))):
        for ids in circuit.inputs[:10]:
            best = vs.dissect(circuit.model, ids)["Y_hat"].argmax(axis=0)
            totals = np.cumsum([1 if i == 0 else -1 for i in ids])
            fewer, more, even = names
            right = [even if t == 0 else more if t > 0 else fewer for t in totals]
            assert best.tolist() == right


@pytest.mark.parametrize("build", [induction, brackets])
def test_without_any_of_their_parts_they_fail_and_without_the_others_they_do_not(build):
    circuit = build()
    heads = [n for n in vs.dissect(circuit.model, circuit.inputs[0]) if n.startswith("P[")]
    assert set(circuit.parts) < set(heads)
    for head in heads:
        right = [
            said(circuit, ids, edit={head: np.zeros_like}).argmax() == target
            for ids, target in zip(circuit.inputs, circuit.targets, strict=True)
        ]
        assert all(right) is (head not in circuit.parts)


def test_the_context_of_the_counting_unit_is_the_count():
    circuit = counter()
    for ids in circuit.inputs[:10]:
        trace = vs.dissect(circuit.model, ids)
        counts = [float(trace[f"c[1,{i}]"][0]) for i in range(1, len(ids) + 1)]
        np.testing.assert_allclose(counts, np.cumsum([1 if i == 0 else -1 for i in ids]), atol=1e-6)
