"""A trace that keeps states alone gives what a whole one gives."""

import gc

import numpy as np
import pytest

import vesalius as vs
from vesalius.analyses import long_traces
from vesalius.analyses.long_traces import LongTrace
from vesalius.machine.cancellation import cancelled_by

TEXTS = {
    "gpt": "He shook his head and said to the",
    "bert": ("He shook his [MASK].", "Then he went home."),
}


def zero(value):
    return 0 * value


def alike(long, whole):
    """Equal to the last bit; what follows the last layer is read by columns, which rounds."""
    last = list(whole).index(f"H[{whole.graph.layers}]")
    assert list(long) == list(whole)
    for k, name in enumerate(whole):
        assert long.graph.step(name).shape == whole[name].shape
        value = np.asarray(long[name])
        if k > last:
            assert np.allclose(value, whole[name], atol=1e-5)
        else:
            assert np.array_equal(value, whole[name]), name


@pytest.mark.parametrize("name", TEXTS)
def test_a_long_trace_is_the_whole_one_with_and_without_cuts(name, monkeypatch):
    monkeypatch.setattr(long_traces, "BYTES", 0)  # a layer is computed anew for every step
    monkeypatch.setattr(long_traces, "COLUMNS", 4)
    model = vs.load(name)
    whole = vs.dissect(model, TEXTS[name])
    seen = []
    long = LongTrace(model, TEXTS[name], layered=lambda l, H: seen.append((l, H)))
    alike(long, whole)
    assert [l for l, _ in seen] == [0, 1, 2, 3, 4]
    assert all(np.array_equal(H, whole[f"H[{l}]"]) for l, H in seen)
    kept = [s.name for s in long.steps if not isinstance(s, long_traces.Recomputed)]
    assert not [step for step in kept if step.startswith(("mu", "q", "k", "v", "F", "H_bar"))]
    if name == "gpt":
        odds = [whole["Y_hat"][token, i] for i, token in enumerate(whole.ids[1:])]
        assert np.allclose(long.followed, odds, atol=1e-6)
    cuts = ["D[2]", "P[3,4]"]
    cut = vs.dissect(model, TEXTS[name], edit=dict.fromkeys(cuts, zero))
    found = LongTrace(model, TEXTS[name], cuts, long)
    alike(found, cut)
    computed = [step for step in long.steps if step.name not in ("X", "S")]
    assert found.again == sum(step.place.get("layer", 2) >= 2 for step in computed)


def test_numbers_of_a_long_trace_unfold_and_add_up():
    model = vs.load("gpt")
    whole = vs.dissect(model, TEXTS["gpt"])
    long = LongTrace(model, whole.ids)
    parts = {part.name: part.share for part in vs.attribute(whole).parts}
    assert {part.name: part.share for part in vs.attribute(long).parts} == pytest.approx(parts)
    for name, at in (("mu[3,4]", (2, 1)), ("Y_hat", (5, 2)), ("F[2]", (3, 1))):
        one, other = (vs.unfold(trace, name, *at) for trace in (long, whole))
        assert one.value == pytest.approx(other.value, abs=1e-6)
        assert one.difference == pytest.approx(0, abs=1e-5)


def test_one_cut_more_or_less_is_read_at_one_column():
    model, cuts = vs.load("gpt"), {"P[2,1]", "P[3,4]", "D[4]"}
    ids = vs.dissect(model, TEXTS["gpt"]).ids
    long = LongTrace(model, ids, cuts)
    for name in ("P[3,4]", "P[3,1]", "D[2]"):
        wanted = vs.dissect(model, ids, edit=dict.fromkeys(cuts ^ {name}, zero))["Z"][:, 4]
        assert np.allclose(long.column_with(name, "Z", 4), wanted, atol=1e-4)


def test_what_watches_can_end_it_at_any_step_and_nothing_is_left_behind():
    class Enough(Exception):
        pass

    steps = []

    def watch():
        steps.append(1)
        if len(steps) == 20:
            raise Enough

    model = vs.load("gpt")
    with pytest.raises(Enough), cancelled_by(watch):
        LongTrace(model, [1, 2, 3])
    assert len(steps) == 20
    LongTrace(model, [1, 2, 3])["mu[1,1]"]
    gc.collect()
    assert not long_traces._LAYERS._kept


def test_only_transformers_with_many_numbers_are_long():
    gpt = vs.load("gpt")
    assert not long_traces.is_long(gpt, 256)
    assert long_traces.is_long(gpt, 4096)
    assert not long_traces.is_long(vs.load("lstm"), 1 << 20)
