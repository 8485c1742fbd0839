"""The engine in NumPy: the compiled ones compute what it does, and it serves where Numba cannot."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from lively import MODELS, error, lively

import vesalius
from vesalius import machine
from vesalius.errors import CannotCompile, TokenOutOfRange
from vesalius.generation import engines
from vesalius.generation.engines import engine
from vesalius.generation.engines.compiled import PREFILL_TOKENS, CompiledEngine
from vesalius.generation.engines.reference import ReferenceEngine

IDS = np.random.default_rng(8).integers(0, 101, 160)
PROMPTS = [IDS[:5], IDS[5:6], IDS[6 : PREFILL_TOKENS + 10]]
STEPS = 10


@pytest.fixture(params=MODELS, ids=MODELS.keys())
def model(request):
    return lively(*MODELS[request.param])


def logits(made, prompts=PROMPTS):
    """After each prompt, then after ten more tokens of each, and of a copy that gets others."""
    session = made.session(4, PREFILL_TOKENS + 4 + STEPS)
    slots = [2, 0, 3]
    yield session.prefill(slots, prompts).copy()
    session.copy(2, 1)
    for i in range(STEPS):
        yield session.step([1, *slots], IDS[4 * i : 4 * i + 4]).copy()
    yield session.prefill([0], [IDS[:3]]).copy()  # a slot begins anew


def test_compiled_engines_give_the_logits_of_the_reference(model):
    compiled = engine(model, threads=1)
    assert isinstance(compiled, CompiledEngine)
    pairs = zip(logits(compiled), logits(ReferenceEngine(model)), strict=True)
    for got, wanted in pairs:
        assert got.shape == wanted.shape
        assert error(got, wanted) < 1e-5


def test_a_copy_and_its_source_do_not_change_each_other(model):
    session = ReferenceEngine(model).session(2, 20)
    session.prefill([0], [IDS[:4]])
    session.copy(0, 1)
    one = session.step([0], [7])
    session.step([0], [9])
    assert (session.step([1], [7]) == one).all()


@pytest.mark.parametrize("name", ["gpt2", "lstm", "ffnn"])
def test_the_reference_refuses_ids_outside_the_vocabulary(name):
    session = ReferenceEngine(lively(*MODELS[name])).session(1, 9)
    with pytest.raises(TokenOutOfRange, match="from 0 to 100"):
        session.prefill([0], [[3, -1]])
    with pytest.raises(TokenOutOfRange, match="from 0 to 100"):
        session.step([0], [101])


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import vesalius as vs
for name in ("gpt", "lstm", "rnn", "ffnn"):
    print(repr(vs.generate(name, "He shook his", 5, temperature=0).text))
    print(repr(vs.generate(name, ["It was", "She"], 6, samples=2, seed=3)[3].text))
try:
    vs.generate("gpt", "He shook his", 5, dtype="int8")
except vs.errors.CannotCompile as error:
    print(error)
"""


def test_without_numba_texts_are_the_same_and_that_is_said_once():
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *texts, refused = done.stdout.splitlines()
    wanted = []
    for name in ("gpt", "lstm", "rnn", "ffnn"):
        model = vesalius.load(name)
        wanted.append(vesalius.generate(model, "He shook his", 5, temperature=0).text)
        wanted.append(vesalius.generate(model, ["It was", "She"], 6, samples=2, seed=3)[3].text)
    assert texts == [repr(text) for text in wanted]
    (said,) = done.stderr.splitlines()
    assert said.startswith("kernels cannot be compiled here (import of numba halted")
    assert said.endswith("plain NumPy is used, which is slower")
    assert refused.startswith(
        "int8 needs compiled kernels; kernels cannot be compiled here (import"
    )
    assert refused.endswith("take dtype float32")


@pytest.fixture
def _nothing_compiles(monkeypatch):
    def fails(self, kernel, *arguments):
        raise RuntimeError("LLVM has no such instruction\nand says more")

    monkeypatch.setattr(CompiledEngine, "compile", fails)
    machine.warn_once.cache_clear()
    yield
    machine.warn_once.cache_clear()


@pytest.mark.usefixtures("_nothing_compiles")
def test_where_compiling_fails_the_reference_decodes(caplog):
    models = [lively(*MODELS[name]) for name in ("gpt2", "rnn")]
    assert all(isinstance(engine(model, threads=1), ReferenceEngine) for model in models)
    assert engine(models[0], threads=1) is engine(models[0], threads=1)
    (record,) = caplog.records
    assert record.name == "vesalius"
    assert record.message.startswith(
        "kernels cannot be compiled here (LLVM has no such instruction)"
    )
    with pytest.raises(CannotCompile, match="int8 needs compiled kernels"):
        engine(models[0], "int8")


def test_a_family_may_do_without_kernels(monkeypatch, caplog):
    row = replace(engines.family_of(lively(*MODELS["rnn"]).config), engine=None)
    monkeypatch.setattr(engines, "family_of", lambda config: row)
    assert isinstance(engine(lively(*MODELS["rnn"])), ReferenceEngine)
    assert not caplog.records
    with pytest.raises(CannotCompile, match="int8 needs compiled kernels; rnn has no compiled"):
        engine(lively(*MODELS["rnn"]), "int8")


@pytest.mark.parametrize("context", [2, 3, 8])
def test_the_reference_slides_as_compiled_engines_do(context, request):
    settings = {"layers": 1, "embedding": 8, "heads": 2, "vocabulary": 30, "context": context}

    def ids():
        model = vesalius.create("gpt2", seed=2, **settings)
        for name, array in model.state.items():
            model.state[name] = array * (10 if array.ndim == 2 else 1)  # or it says one thing
        return vesalius.generate(model, [3, 1], 30, temperature=0, slide=True, threads=1).ids

    wanted = ids()
    request.getfixturevalue("_nothing_compiles")
    assert ids() == wanted
