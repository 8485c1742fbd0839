"""The status line claims what was computed: a run's outputs by the network, or by the engine."""

from dataclasses import replace

import numpy as np
import pytest

import vesalius as vs
from vesalius.equations import Step, Steps
from vesalius.explorer import agreement
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.reading import Asked
from vesalius.explorer.runs import Runs
from vesalius.explorer.streaming import Stop, Stopped
from vesalius.machine.cancellation import cancelled_by

TEXTS = {
    "gpt": Asked(text="He shook his"),
    "ffnn": Asked(text="He shook his head and said to the"),
    "lstm": Asked(text="He shook his"),
    "bert": Asked(text="He shook his head.", second="Then he went.", masks=(4,)),
}


@pytest.fixture(scope="module")
def runs():
    return Runs(Catalogue())


def other(run):
    """The same run, had its equations given something else."""
    steps = Steps()
    for step in run.trace.steps:
        more = 0.01 * (step.symbol in ("Z", "z"))
        steps.append(Step(step.symbol, step.place, step.equation, step.value + more))
    return replace(run, trace=run.trace.with_steps(steps))


@pytest.mark.parametrize("model", TEXTS)
def test_without_pytorch_texts_are_checked_by_the_engine(runs, monkeypatch, model):
    monkeypatch.setattr(agreement, "find_spec", lambda name: None)
    run = runs.make(model, TEXTS[model])
    found = agreement.checked(run)
    assert (found["peer"], found["agrees"]) == ("engine", True)
    assert 0 <= found["difference"] < 1e-4
    found = agreement.checked(other(run))
    assert not found["agrees"]
    assert found["difference"] == pytest.approx(0.01, abs=1e-4)


def test_nothing_is_claimed_where_nothing_can_be_compared(runs, monkeypatch):
    monkeypatch.setattr(agreement, "find_spec", lambda name: None)
    run = runs.make("vit", Asked(example=4))
    found = agreement._answer(run)
    assert found["peer"] is None
    assert "PyTorch brings one" in found["why"]


def test_the_network_reads_the_same_in_a_process_that_ends_with_its_asker(runs):
    run = runs.make("bert", TEXTS["bert"])
    theirs = agreement._apart(run)
    trace = vs.dissect("bert", ("He shook his [MASK].", "Then he went."))
    assert set(theirs) == {"h_C", "Z", "z_C"}
    for name, value in theirs.items():
        np.testing.assert_allclose(value, trace[name], rtol=0, atol=1e-4)
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped), cancelled_by(stop):
        agreement._apart(run)
