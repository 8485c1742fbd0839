"""The engine for processors gives what the networks give, token by token."""

import tracemalloc

import numpy as np
import pytest
import torch
from lively import MODELS, error, lively

from vesalius import create, generate
from vesalius.errors import ImpossibleSetting, NotFinite, TokenOutOfRange
from vesalius.generation.engines import engine
from vesalius.generation.engines.compiled import PREFILL_TOKENS
from vesalius.generation.kernels import vectors
from vesalius.generation.quantisation import quantise, rounded

IN_PIECES = {**MODELS, "many words": ("rnn", {"vocabulary": 20_011, "embedding": 64})}
IDS = np.random.default_rng(7).integers(0, 101, PREFILL_TOKENS + 12)


@pytest.fixture(scope="module", params=MODELS, ids=MODELS.keys())
def model(request):
    return lively(*MODELS[request.param])


@torch.no_grad()
def expected(model, ids):
    """The network's logits after these tokens, without a cache."""
    if model.family == "ffnn":
        window = np.zeros(model.config.context, np.int64)
        last = ids[-len(window) :]
        window[len(window) - len(last) :] = last
        return model.network(torch.from_numpy(window)[None])[0].numpy()
    return model.network(torch.from_numpy(np.asarray(ids))[None])[0, -1].numpy()


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("int8", 5e-4)])
def test_prompts_and_steps_give_the_networks_logits(model, dtype, bound):
    """Sums in int8 are exact; what is left is the rounding of vectors to 16 bits."""
    network = model if dtype == "float32" else rounded(model)
    session = engine(model, dtype, threads=1).session(3, len(IDS))
    short, long = IDS[:6], IDS[: PREFILL_TOKENS + 4]
    assert error(session.prefill([0], [short])[0], expected(network, short)) < bound
    assert error(session.prefill([1], [long])[0], expected(network, long)) < bound
    session.copy(1, 2)
    for i in range(3):
        got = session.step([1, 0], [IDS[PREFILL_TOKENS + 4 + i], IDS[6 + i]])
        assert error(got[0], expected(network, IDS[: PREFILL_TOKENS + 5 + i])) < bound
        assert error(got[1], expected(network, IDS[: 7 + i])) < bound
    assert error(session.step([2], [5])[0], expected(network, [*long, 5])) < bound
    assert error(session.prefill([1], [short])[0], expected(network, short)) < bound


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_nan_in_any_tensor_reaches_the_logits(model, dtype):
    """Rounded to integers, NaN would be a number like any other."""
    for array in model.state.values():
        before = array.copy()
        array[...] = np.nan
        with np.errstate(invalid="ignore"):
            logits = engine(model, dtype, threads=1).session(1, 3).prefill([0], [[3, 1, 4]])
        assert np.isnan(logits).any()
        array[...] = before


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_int8_says_in_one_error_that_weights_are_not_finite(value):
    made = lively(*MODELS["gpt2"])
    made.state["embedding.weight"][:] = value
    with pytest.raises(NotFinite):
        generate(made, [3, 1, 4], 2, dtype="int8")


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 11, 12, 13, PREFILL_TOKENS, PREFILL_TOKENS + 1])
def test_prompts_of_all_lengths_fill_their_tiles(length):
    model = lively(*MODELS["other widths"])
    session = engine(model, threads=1).session(1, length + 1)
    assert error(session.prefill([0], [IDS[:length]])[0], expected(model, IDS[:length])) < 1e-5
    got = session.step([0], IDS[length : length + 1])[0]
    assert error(got, expected(model, IDS[: length + 1])) < 1e-5


def test_prompts_of_several_sequences_are_read_at_once(model):
    """Of different lengths, across the limit of tokens that prefill reads at once."""
    prompts = [IDS[:5], IDS[3:4], IDS[2 : PREFILL_TOKENS + 1], IDS[7:9], IDS[1:8]]
    session = engine(model, threads=1).session(6, PREFILL_TOKENS + 2)
    slots = [4, 0, 5, 1, 2]
    got = session.prefill(slots, prompts).copy()
    following = session.step(slots, IDS[:5])
    for i, prompt in enumerate(prompts):
        assert error(got[i], expected(model, prompt)) < 1e-5
        assert error(following[i], expected(model, [*prompt, IDS[i]])) < 1e-5


def test_prompts_fit_however_short_the_sequences_are():
    model = lively(*MODELS["gpt2"])
    for count, length in ((2, 6), (40, 4)):
        prompts = [IDS[i : i + length - i % 2] for i in range(count)]
        session = engine(model, threads=1).session(count, length + 1)
        got = session.prefill(range(count), prompts)
        for row, prompt in zip(got, prompts, strict=True):
            assert error(row, expected(model, prompt)) < 1e-5


@pytest.mark.parametrize("family", ["gpt2", "lstm"])
def test_a_vocabulary_may_be_smaller_than_a_tile(family):
    model = lively(family, {"vocabulary": 3, "layers": 1, "embedding": 24})
    session = engine(model, threads=1).session(2, 9)
    got = session.prefill([0, 1], [IDS[:5] % 3, IDS[5:9] % 3])
    assert error(got[0], expected(model, IDS[:5] % 3)) < 1e-5
    assert error(got[1], expected(model, IDS[5:9] % 3)) < 1e-5


def test_sums_of_wide_int8_rows_do_not_overflow():
    model = create("ffnn", vocabulary=7, embedding=1024, context=8, hidden=8, activation="relu")
    for name, array in model.state.items():
        model.state[name] = np.full_like(array, 1 if array.ndim == 2 else 0)
    session = engine(model, "int8", threads=1).session(2, 8)
    got = session.prefill([0, 1], [IDS[:8] % 7, IDS[8:16] % 7])
    assert got == pytest.approx(8192 * 8, rel=1e-3)


def test_int8_with_float32_vectors_serves_processors_without_pairs(monkeypatch):
    monkeypatch.setattr(vectors, "PAIRS", False)
    model = lively(*MODELS["gpt2"])
    session = engine(model, "int8", threads=1).session(2, 64)
    network = rounded(model)
    assert error(session.prefill([0], [IDS[:6]])[0], expected(network, IDS[:6])) < 1e-5
    assert error(session.step([0], IDS[6:7])[0], expected(network, IDS[:7])) < 1e-5


@pytest.mark.parametrize(
    "name", ["gpt2", "variant 1", "other widths", "lstm", "ffnn, deep", "ffnn, wide", "many words"]
)
@pytest.mark.parametrize(("dtype", "count"), [("float32", 2), ("int8", 2), ("float32", 3)])
def test_threads_give_the_very_same_numbers_as_one(name, dtype, count, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: count)
    model = lively(*IN_PIECES[name])
    sessions = [engine(model, dtype, threads=n).session(3, len(IDS)) for n in (1, count)]
    for _ in range(2):  # the first time is on one thread anyway
        for length in (len(IDS), 9):
            one, two = (s.prefill([0], [IDS[:length]])[0].copy() for s in sessions)
            assert (one == two).all()
        one, two = (s.prefill([2, 1], [IDS[:7], IDS[4:6]]).copy() for s in sessions)
        assert (one == two).all()
        for token in IDS[9:30]:
            one, two = (s.step([2], [token]).copy() for s in sessions)
            assert (one == two).all()
            one, two = (s.step([0, 1], [token, 4]).copy() for s in sessions)
            assert (one == two).all()


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 8, 9, 12, 13, 17])
def test_any_number_of_sequences_goes_along(rows):
    model = lively(*MODELS["gpt2"])
    session = engine(model, threads=1).session(rows, 40)
    for slot in range(rows):
        session.prefill([slot], [IDS[slot : slot + 5]])
    order = np.random.default_rng(0).permutation(rows)
    got = session.step(order, order)
    for row, slot in zip(got, order, strict=True):
        assert error(row, expected(model, [*IDS[slot : slot + 5], slot])) < 1e-5


def test_a_full_sequence_says_so():
    session = engine(lively(*MODELS["gpt2"]), threads=1).session(1, 7)
    session.prefill([0], [IDS[:6]])
    assert not session.full(0)
    session.step([0], [1])
    assert session.full(0)
    with pytest.raises(AssertionError):
        session.step([0], [1])


@pytest.mark.parametrize("ids", [[101], [-1], [0, 2**40]])
def test_ids_outside_the_vocabulary_are_refused(model, ids):
    session = engine(model, threads=1).session(1, 9)
    with pytest.raises(TokenOutOfRange, match="from 0 to 100"):
        session.prefill([0], [ids])
    session.prefill([0], [[1]])
    with pytest.raises(TokenOutOfRange, match="from 0 to 100"):
        session.step([0], ids[-1:])
    assert error(session.step([0], [2])[0], expected(model, [1, 2])) < 1e-5


def test_engines_are_made_once_and_refuse_what_they_cannot_be(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    model = lively(*MODELS["rnn"])
    assert engine(model, threads=1) is engine(model, "float32", 1)
    assert engine(model, threads=2).weights is engine(model, threads=1).weights
    assert [engine(model, threads=n).threads for n in (2, 1)] == [2, 1]
    assert engine(model, "int8", 1) is not engine(model, "float32", 1)
    with pytest.raises(ImpossibleSetting, match="one of float32, int8, got 'bfloat16'"):
        engine(model, "bfloat16")
    for threads in (0, 10_000):
        with pytest.raises(ImpossibleSetting, match=f"threads must be between 1 and .*{threads}"):
            engine(model, threads=threads)


def test_a_thousand_tokens_take_no_more_memory_than_a_hundred():
    model = lively("gpt2", {**MODELS["gpt2"][1], "context": 1100})
    session = engine(model, threads=1).session(1, 1100)
    session.prefill([0], [IDS[:2]])
    session.step([0], [0])  # which may compile
    held = []
    tracemalloc.start()
    try:
        for i in range(1000):
            session.step([0], [i % 101])
            if i in (99, 999):  # what the first steps load stays, whoever ran before
                held.append(tracemalloc.get_traced_memory())
                tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    (before, _), (after, peak) = held
    assert after - before < 7_000  # one number a token would be 7,200
    assert peak - before < 20_000


def test_a_row_is_rounded_to_its_own_scale():
    matrix = np.array([[1, -127, 3.4], [0, 0, 0], [-0.5, 0.25, 0.1]], np.float32)
    whole, scale = quantise(matrix)
    assert whole.dtype == np.int8
    assert whole.tolist() == [[1, -127, 3], [0, 0, 0], [-127, 64, 25]]
    assert np.abs(whole * scale[:, None] - matrix).max() <= scale.max() / 2


@pytest.mark.parametrize("name", ["gpt2", "lstm", "ffnn"])
def test_what_is_looked_up_or_added_stays_as_it_is(name):
    model = lively(*MODELS[name])
    changed = rounded(model)
    looked_up = {"embedding.weight", "positions.weight"}
    for key, array in model.state.items():
        same = np.array_equal(array, changed.state[key])
        assert same == (array.ndim == 1 or key in looked_up), key
    assert "output.weight" in changed.state
