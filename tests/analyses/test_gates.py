"""Gates over time: a unit's memory is the sum of what was written and kept, edited or not."""

import numpy as np
import pytest

import vesalius as vs
from vesalius.errors import UnknownSetting, WrongKind, WrongLength

TEXT = "“Where have you been?” said the old man, and he shook his head"


@pytest.fixture(scope="module")
def trace():
    return vs.dissect("lstm", TEXT)


def alone(trace, layer, unit, token, last):
    """What is left of one token's writing, by the recurrence itself with all others silent."""
    c = 0.0
    for i in range(1, last + 2):
        d = float(trace[f"d[{layer},{i}]"][unit]) if i == token + 1 else 0.0
        c = c * float(trace[f"p[{layer},{i}]"][unit]) + d
    return c


def test_a_memory_is_the_sum_of_what_each_token_wrote_and_the_gates_kept(trace):
    for layer, unit, last in ((2, 31, 15), (1, 7, 9), (2, 37, 0)):
        found = vs.gates(trace, layer).written(unit, last)
        expected = [alone(trace, layer, unit, token, last) for token in range(last + 1)]
        assert found.shares == pytest.approx(expected, abs=1e-9)
        assert found.value == trace[f"c[{layer},{last + 1}]"][unit]
        assert found.total == pytest.approx(found.value, abs=1e-5)
    assert vs.gates(trace).written(31).ranked()[0] == 14


EDITS = (
    {"c[2,*](31)": vs.zero},
    {"p[2,*](31)": 1.0},
    {"c[2,5](31)": 3.0},
    {"k[2,5](31)": 3.0},
    {"d[2,5]": 1.0, "c[2,9]": vs.scale(2.0)},
)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: ", ".join(edit))
def test_what_an_edit_put_there_is_written_there(edit):
    edited = vs.dissect("lstm", TEXT, edit=edit)
    found = vs.gates(edited).written(31)
    assert found.total == pytest.approx(edited["c[2,16]"][31], abs=1e-5)
    assert vs.attribute(edited).difference == pytest.approx(0, abs=1e-4)


def test_units_are_ordered_and_those_that_are_on_throughout_are_found(trace):
    found = vs.gates(trace, 1)
    for by in ("index", "hold", "similarity"):
        assert sorted(found.order(by)) == list(range(256))
    most = np.abs(found["c"]).argmax(axis=1)[found.order("hold")]
    assert (np.diff(most) >= 0).all()
    course = found["c"] - found["c"].mean(axis=1, keepdims=True)
    course /= np.linalg.norm(course, axis=1, keepdims=True)
    alike = course[found.order("similarity")]
    beside = (alike[1:] * alike[:-1]).sum(axis=1)
    assert np.mean(beside) > np.mean(course[::2] @ course[1::2].T) + 0.2
    for symbol in ("p", "c"):
        on = dict(found.on(symbol, 3, 8))
        for unit in range(256):
            part = [float(trace[f"{symbol}[1,{i}]"][unit]) for i in range(4, 10)]
            throughout = min(part) >= 0.5 or max(part) <= -0.5
            assert (unit in on) == throughout
            assert not throughout or on[unit] == min(map(abs, part))


def test_an_rnn_tells_its_state_and_what_it_is_made_of():
    trace = vs.dissect("rnn", "He shook his")
    for layer in (1, 2):
        found = vs.gates(trace, layer)
        assert list(found.values) == ["Uh", "Wh", "h"]
        assert np.tanh(found["Uh"] + found["Wh"]) == pytest.approx(found["h"], abs=1e-5)
        assert (found["Uh"][:, 0] == 0).all()
    with pytest.raises(WrongKind, match="written anew at every token"):
        found.written(3)
    held = vs.dissect("rnn", "He shook his", edit={"h[2,*](69)": vs.zero})
    assert vs.attribute(held).difference == pytest.approx(0, abs=1e-4)


def test_what_has_no_gates_or_is_out_of_range_is_said(trace):
    with pytest.raises(WrongKind, match="gpt2 has no gates"):
        vs.gates(vs.dissect("gpt", "He"))
    for wrong in (lambda: vs.gates(trace, 3), lambda: vs.gates(trace).written(256)):
        with pytest.raises(WrongLength, match="expected a"):
            wrong()
    with pytest.raises(WrongLength, match="0 to 15"):
        vs.gates(trace).on("p", 3, 16)
    with pytest.raises(UnknownSetting, match="symbol"):
        vs.gates(trace)["z"]


def test_gates_show_themselves(trace):
    found = vs.gates(trace)
    assert "256 units over 16 tokens" in repr(found)
    assert "unit 31" in found.written(31).picture()
    assert found.picture().startswith("<svg")
    told = found.written(31).to_json()
    assert told["sum"] == pytest.approx(told["value"], abs=1e-5)
    assert found.to_json()["memory"] == "c"
