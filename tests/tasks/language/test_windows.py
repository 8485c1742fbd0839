"""Windows and streams of a text: what is asked of a place is what comes next, for every token."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vesalius.data.batches import shuffled, spread
from vesalius.data.masking import IGNORED
from vesalius.data.tokens import Tokens
from vesalius.errors import EmptyCorpus
from vesalius.tasks.language.windows import Streams, Windows

quick = settings(max_examples=100)


def counted(length):
    """A text in which every token is its own place."""
    return Tokens(np.arange(length, dtype=np.uint16), np.zeros(1, np.int64), None, length, "")


def same(first, second):
    return first.keys() == second.keys() and all((first[k] == second[k]).all() for k in first)


@st.composite
def shapes(draw):
    """Window, batch and a length of text that is enough for streams of them."""
    window, batch = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    return window, batch, draw(st.integers(batch * (window + 1), 150))


@pytest.mark.parametrize("kind", [Windows, Streams])
def test_the_batch_of_a_step_follows_from_seed_and_step_alone(kind):
    made = [kind(counted(500), counted(90), window=7, batch=4, seed=s) for s in (1, 1, 2)]
    first = [made[0].train(step) for step in range(40)]
    assert all(same(made[1].train(step), first[step]) for step in reversed(range(40)))
    assert not all(same(made[2].train(step), first[step]) for step in range(40))
    assert not same(first[0], first[1])
    valid = [list(one.valid()) for one in made]
    assert all(map(same, valid[0], valid[1]))
    assert all(map(same, valid[0], valid[2]))


@quick
@given(shapes(), st.booleans())
def test_windows_lie_in_the_text_and_targets_are_one_further(shape, single):
    window, batch, length = shape
    data = Windows(counted(length), counted(length), window, batch, seed=3, single=single)
    for step in range(5):
        given = data.train(step)
        ids, targets = given["ids"], given["targets"]
        assert ids.shape == (batch, window)
        assert ids.dtype == targets.dtype == np.int64
        assert (ids[:, 1:] == ids[:, :-1] + 1).all()
        assert (targets == (ids[:, -1] + 1 if single else ids + 1)).all()


@pytest.mark.parametrize(("kind", "single"), [(Windows, False), (Windows, True), (Streams, False)])
def test_every_token_has_its_turn(kind, single):
    for length in (20, 23, 31, 64):
        data = kind(counted(length), counted(length), 4, 3, 0, *([single] if single else []))
        seen = [data.train(step) for step in range(300)]
        first = 4 if single else 1
        assert {int(t) for b in seen for t in b["targets"].flat} == {*range(first, length)}
        assert {int(t) for b in seen for t in b["ids"].flat} == {*range(length - 1)}


def test_windows_begin_everywhere_equally_often():
    data = Windows(counted(12), counted(12), window=2, batch=100, seed=0)
    starts = np.concatenate([data.train(step)["ids"][:, 0] for step in range(100)])
    often = np.bincount(starts, minlength=10)
    assert len(often) == 10
    assert abs(often - 1000).max() < 6 * np.sqrt(1000)


@quick
@given(shapes())
def test_validation_predicts_each_token_once_in_order(shape):
    window, batch, length = shape
    data = Windows(counted(length), counted(length), window, batch, seed=3)
    given = list(data.valid())
    ids = np.concatenate([b["ids"] for b in given])
    targets = np.concatenate([b["targets"] for b in given])
    asked = targets != IGNORED
    assert targets[asked].tolist() == list(range(1, length))
    assert (ids[asked] == targets[asked] - 1).all()
    assert all(len(b["ids"]) <= batch for b in given)


@quick
@given(shapes())
def test_validation_of_a_single_token_has_every_whole_window_once(shape):
    window, batch, length = shape
    data = Windows(counted(length), counted(length), window, batch, seed=3, single=True)
    ids = np.concatenate([b["ids"] for b in data.valid()])
    targets = np.concatenate([b["targets"] for b in data.valid()])
    assert targets.tolist() == list(range(window, length))
    assert (ids == np.arange(len(ids))[:, None] + np.arange(window)).all()


def test_validation_on_some_examples_is_spread_over_the_text():
    data = Windows(counted(1001), counted(1001), window=10, batch=4, seed=3)
    some = list(data.valid(most=11))
    assert [len(b["ids"]) for b in some] == [4, 4, 3]
    starts = np.concatenate([b["ids"][:, 0] for b in some])
    assert starts[0] == 0
    assert starts[-1] == 990
    assert 80 <= np.diff(starts).min() <= np.diff(starts).max() <= 110


@quick
@given(shapes())
def test_streams_go_on_where_they_were_and_begin_anew_with_an_epoch(shape):
    window, batch, length = shape
    data = Streams(counted(length), counted(length), window, batch, seed=3)
    given = [data.train(step) for step in range(40)]
    assert given[0]["fresh"].all()
    for before, after in pairwise(given):
        on = after["ids"][:, 0] == before["targets"][:, -1]
        assert on.all() or after["fresh"].all()
    epochs = np.flatnonzero([b["fresh"][0] for b in given])
    assert len(set(np.diff(epochs))) <= 1
    for batch_ in given:
        assert batch_["fresh"].shape == (batch,)
        assert batch_["fresh"].all() == batch_["fresh"].any()
        assert (batch_["targets"] == batch_["ids"] + 1).all()


@quick
@given(shapes())
def test_an_epoch_of_streams_reads_one_stretch_without_gaps_and_all_but_little(shape):
    window, batch, length = shape
    data = Streams(counted(length), counted(length), window, batch, seed=3)
    begun, seen = 0, []
    for step in range(1000):
        given = data.train(step)
        begun += given["fresh"][0]
        if begun == 2:
            break
        seen += given["targets"].ravel().tolist()
    assert sorted(seen) == list(range(min(seen), max(seen) + 1))
    assert length - 1 - len(seen) < (batch + 1) * window


def test_epochs_of_streams_begin_at_different_places():
    data = Streams(counted(200), counted(200), window=5, batch=3, seed=3)
    starts = {int(b["ids"][0, 0]) for b in map(data.train, range(300)) if b["fresh"][0]}
    assert len(starts) > 5


@quick
@given(shapes())
def test_validation_of_streams_predicts_each_token_once(shape):
    window, batch, length = shape
    data = Streams(counted(length), counted(length), window, batch, seed=3)
    given = list(data.valid())
    ids, targets = (np.concatenate([b[k] for b in given], axis=1) for k in ("ids", "targets"))
    asked = targets != IGNORED
    assert targets[asked].tolist() == list(range(1, length))  # row after row
    assert (ids[asked] == targets[asked] - 1).all()
    assert [b["fresh"].all() for b in given] == [True] + [False] * (len(given) - 1)


def test_streams_are_validated_on_no_more_than_asked():
    data = Streams(counted(1000), counted(1000), window=5, batch=4, seed=3)
    assert len(list(data.valid(most=12))) == 3
    assert len(list(data.valid(most=1))) == 1


@pytest.mark.parametrize("single", [False, True])
def test_a_text_that_is_too_short_for_a_window_is_refused(single):
    Windows(counted(9), counted(9), window=8, batch=4, seed=0, single=single).train(0)
    with pytest.raises(
        EmptyCorpus, match=r"to train on has 8 tokens, but a window of 8 .* need 9;"
    ):
        Windows(counted(8), counted(9), window=8, batch=4, seed=0, single=single)
    with pytest.raises(EmptyCorpus, match="to validate on has 8 tokens"):
        Windows(counted(9), counted(8), window=8, batch=4, seed=0, single=single)


def test_a_text_that_is_too_short_for_its_streams_is_refused():
    Streams(counted(36), counted(36), window=8, batch=4, seed=0).train(0)
    with pytest.raises(EmptyCorpus, match=r"need 9, 4 times; give more text, or shorten"):
        Streams(counted(35), counted(36), window=8, batch=4, seed=0)
    with pytest.raises(EmptyCorpus, match="to validate on has 35 tokens"):
        Streams(counted(36), counted(35), window=8, batch=4, seed=0)


@quick
@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 3))
def test_every_epoch_of_shuffled_examples_has_each_at_most_once(count, batch, seed):
    steps = count // min(batch, count)
    for epoch in range(3):
        rows = [shuffled(count, batch, epoch * steps + i, seed).tolist() for i in range(steps)]
        together = list(chain(*rows))
        assert len(set(together)) == len(together) > count - min(batch, count)
        assert set(together) <= set(range(count))


@quick
@given(st.integers(1, 300), st.integers(1, 300))
def test_spread_examples_are_different_and_reach_both_ends(count, most):
    rows = spread(count, most)
    assert len(rows) == min(count, most)
    assert (np.diff(rows) > 0).all()
    assert rows[0] == 0
    assert rows[-1] == count - 1 or most == 1
    assert spread(count, None).tolist() == list(range(count))
