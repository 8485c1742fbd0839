"""Models that label texts are asked for labels, not for words, by every analysis."""

import numpy as np
import pytest
from strategies import filled, small

import vesalius as vs
from vesalius.analyses import long_traces
from vesalius.analyses.long_traces import LongTrace
from vesalius.analyses.targets import find
from vesalius.errors import UnknownStep

NAMES = ["sad", "glad", "mad"]
IDS = [3, 1, 4, 1, 5, 9]


def labelled(family, kind="classes", **settings):
    model = filled(small(family, labels=3, **settings))
    model.preprocessing = {"labels": kind, "names": NAMES}
    return model


MEAN = {"pooling": "mean"}
BARE = {"pooler": False, "mlm_head": False, "nsp_head": False}


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        *(("gpt2", {}), ("lstm", {}), ("bert", {}), ("gpt2", MEAN), ("lstm", MEAN)),
        *(("rnn", MEAN), ("transformer", {**MEAN, "variant": 1}), ("bert", {**MEAN, **BARE})),
    ],
)
def test_classes_are_what_a_number_is_asked_of(family, settings):
    trace = vs.dissect(labelled(family, **settings), IDS)
    assert {name for _, name, _ in trace.best(3)} == set(NAMES)
    target = find(trace, "glad")
    assert (target.step, target.cells[0][0]) == ("z", (1,))
    assert target.probability(trace["z"]) == pytest.approx(
        {name: p for _, name, p in trace.classes()}["glad"]
    )
    made = vs.unfold(trace, "z", 1)
    assert made.total == pytest.approx(trace["z"][1])
    if "h_bar" in trace:
        states = [trace[name] for name in trace.operands("h_bar")]
        whole = states[0] if len(states) == 1 else np.stack(states, axis=1)
        assert trace["h_bar"] == pytest.approx(whole.mean(axis=1))
        assert vs.unfold(trace, "h_bar", 2).total == pytest.approx(trace["h_bar"][2])
    found = vs.attribute(trace, "glad")
    assert found.total == pytest.approx(trace["z"][1])
    assert vs.lens(trace).likeliest[-1][0][0].name == trace.best(1)[0][1]
    gradient = vs.gradient(trace.model, IDS, "glad")
    assert gradient.value == pytest.approx(trace["z"][1])
    with pytest.raises(UnknownStep, match="no class 'gladd'; did you mean glad"):
        find(trace, "gladd")


def test_labels_that_are_no_classes_have_no_shares_of_one():
    for kind in ("labels", "values"):
        trace = vs.dissect(labelled("gpt2", kind), IDS)
        assert trace.best(3) == []
        assert find(trace, 1).probability(trace["z"]) is None
        assert find(trace, "glad").cells == find(trace, 1).cells
        with pytest.raises(UnknownStep, match="no class 'gladd'; did you mean glad"):
            find(trace, "gladd")


def test_tags_have_their_names_and_odds_at_every_token():
    trace = vs.dissect(labelled("bert", labelled="tokens", mlm_head=False, nsp_head=False), IDS)
    odds = np.exp(trace["z"]) / np.exp(trace["z"]).sum(axis=0)
    found = vs.attribute(trace, "mad", 4)
    assert (found.total, found.probability) == pytest.approx((trace["z"][2, 4], odds[2, 4]))
    assert find(trace, None, 1).label == NAMES[odds[:, 1].argmax()]
    last = [likeliest[0] for likeliest in vs.lens(trace).likeliest[-1]]
    assert [one.name for one in last] == [NAMES[k] for k in odds.argmax(axis=0)]
    assert [one.probability for one in last] == pytest.approx(odds.max(axis=0))


def test_the_ends_of_answers_and_a_value_have_names():
    span = {"labels": 2, "labelled": "span"}
    for settings, names in (span, ["start", "end"]), ({"labels": 1}, ["value"]):
        model = filled(small("bert", mlm_head=False, nsp_head=False, **settings))
        model.preprocessing = {"labels": "values"}
        trace = vs.dissect(model, IDS)
        for row, name in enumerate(names):
            assert find(trace, row).label == name
            assert find(trace, name).probability(trace["z"]) is None


@pytest.mark.parametrize("settings", [{}, MEAN])
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_a_long_trace_reads_what_the_head_reads(family, settings, monkeypatch):
    monkeypatch.setattr(long_traces, "COLUMNS", 2)
    model = labelled(family, **settings)
    whole = vs.dissect(model, IDS)
    long = LongTrace(model, IDS)
    np.testing.assert_allclose(long["z"], whole["z"], atol=1e-12)
    cut = vs.dissect(model, IDS, edit={"D[1]": vs.zero})
    found = long.column_with("D[1]", "z", 0)
    np.testing.assert_allclose(found, cut["z"], atol=1e-12)
