"""Files that an earlier version saved are still read, and still give the same numbers."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import vesalius as vs
from vesalius.traces.trace import read_trace
from vesalius.training.recipe import recipe

SAVED = Path(__file__).parent / "saved"
EXPECTED = json.loads((SAVED / "expected.json").read_text())
TOLERANCE = 2e-6
"""Of the largest number: other processors add float32 in another order."""


def random_input(model):
    """The input with which the expected numbers were made."""
    config, rng = model.config, np.random.default_rng(5)
    if model.family == "vit":
        return rng.integers(0, 256, (config.image, config.image, config.channels))
    if model.family in ("tst", "patchtst"):
        return rng.standard_normal((config.channels, config.context))
    count = config.context if model.family == "ffnn" else 6
    return [int(i) for i in rng.integers(0, config.vocabulary, min(count, 6))]


def agree(ours, theirs):
    theirs = np.asarray(theirs)
    return np.allclose(ours, theirs, rtol=0, atol=TOLERANCE * max(1, np.abs(theirs).max()))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_saved_model_gives_the_numbers_it_gave(name):
    model, expected = vs.load(SAVED / name), EXPECTED[name]
    trace = vs.dissect(model, random_input(model))
    assert vs.count(model).total == expected["parameters"]
    assert trace.steps[-1].name == expected["last"]
    assert agree(trace.steps[-1].value, expected["value"])


@pytest.mark.parametrize("name", EXPECTED)
def test_a_saved_model_is_saved_again_as_it_was(name, tmp_path):
    vs.load(SAVED / name).save(tmp_path / "again")
    before = {file.name for file in (SAVED / name).iterdir()}
    assert {file.name for file in (tmp_path / "again").iterdir()} == before
    for file in before - {"model.safetensors"}:
        old, new = ((folder / file).read_text() for folder in (SAVED / name, tmp_path / "again"))
        old, new = json.loads(old), json.loads(new)
        assert new.items() >= old.items() if file == "config.json" else new == old


@pytest.mark.parametrize("name", ["lstm", "gpt2"])
def test_a_saved_trace_is_read(name):
    trace = read_trace(SAVED / f"{name}.trace.safetensors")
    model = vs.load(SAVED / name)
    again = vs.dissect(model, random_input(model))
    assert [step.name for step in trace.steps] == [step.name for step in again.steps]
    assert agree(trace.steps[-1].value, again.steps[-1].value)


def test_a_run_that_an_earlier_version_began_is_resumed(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(SAVED / "run", run)
    position = json.loads((run / "checkpoints" / "step-00000002" / "position.json").read_text())
    vs.train(recipe(position["recipe"]), run, resume=True)
    model, expected = vs.load(run / "model"), EXPECTED["lstm"]
    value = vs.dissect(model, random_input(model)).steps[-1].value
    assert np.allclose(value, expected["value"], atol=1e-5)  # training adds up what rounding does
