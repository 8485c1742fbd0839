"""Sentence pairs with masks: rows as BERT reads them, and labels that only the words give away."""

import time
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published import published

from vesalius.data.masking import IGNORED
from vesalius.data.texts import StoryTexts, read_texts
from vesalius.data.tokens import Tokens, tokenised
from vesalius.errors import EmptyCorpus, ImpossibleSetting, WrongKind
from vesalius.tasks.language.pairs import MaskedText
from vesalius.tokenizers import read_word_pieces, train_byte_pairs, train_word_pieces

PAD, UNK, CLS, SEP, MASK = range(5)
FIRST = 5


class Places:
    """A tokenizer of texts in which every token is its place; each third goes on with a word."""

    rows = 1 << 17

    @property
    def special(self):
        return {"[PAD]": PAD, "[UNK]": UNK, "[CLS]": CLS, "[SEP]": SEP, "[MASK]": MASK}

    def continues(self, id_):
        return id_ >= FIRST and id_ % 3 == 0


def text_of(documents):
    """Tokens of documents that are given as the lengths of their sentences."""
    lengths = [length for document in documents for length in document]
    starts = np.cumsum([0, *lengths])
    firsts = np.cumsum([0, *map(len, documents)])[:-1]
    ids = np.arange(starts[-1], dtype=np.uint32) + FIRST
    return Tokens(ids, starts[firsts], starts[:-1], len(ids), "")


def masked(documents, length, batch=8, seed=1, **how):
    text = text_of(documents)
    return MaskedText(text, text, Places(), length, batch, seed, **how)


def restored(batch):
    return np.where(batch["targets"] == IGNORED, batch["ids"], batch["targets"])


def stretches(batch):
    """The places of A and of B in the text, of each row."""
    for row, segments, real in zip(restored(batch), batch["segments"], batch["real"], strict=True):
        b = segments == 1
        yield row[real & ~b][1:-1] - FIRST, row[b][:-1] - FIRST


def many(data, steps):
    """A, B and the label of many rows."""
    for batch in map(data.train, range(steps)):
        yield from zip(*zip(*stretches(batch), strict=True), batch["next"], strict=True)


corpora = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=7), min_size=2, max_size=6)


@settings(max_examples=60)
@given(corpora, st.integers(5, 40), st.integers(0, 2**32))
def test_rows_are_two_stretches_in_their_frame(documents, length, seed):
    text = text_of(documents)
    starts, begins = set(text.sentences.tolist()), text.documents
    if sum(len(document) > 1 for document in documents) < 2:
        with pytest.raises(EmptyCorpus, match="two documents of two sentences each"):
            masked(documents, length)
        return
    data = masked(documents, length, seed=seed)
    for batch in (data.train(0), *data.valid(20)):
        assert {k: v.dtype for k, v in batch.items()} == {
            **dict.fromkeys(("ids", "segments", "targets", "next"), np.int64),
            "real": np.bool_,
        }
        rows = restored(batch)
        assert rows.shape == (len(batch["next"]), length)
        assert (rows[:, 0] == CLS).all()
        assert ((rows == PAD) == ~batch["real"]).all()
        assert ((rows == SEP).sum(axis=1) == 2).all()
        assert (np.diff(batch["real"].astype(int), axis=1) <= 0).all()
        for segments, row, real in zip(batch["segments"], rows, batch["real"], strict=True):
            first, second = np.flatnonzero(row == SEP)
            assert segments.tolist() == [int(first < place <= second) for place in range(length)]
            assert second == real.sum() - 1
        for a, b, label in zip(*zip(*stretches(batch), strict=True), batch["next"], strict=True):
            assert min(len(a), len(b)) > 0
            assert (np.diff(a) == 1).all()
            assert (np.diff(b) == 1).all()
            of_a, of_b = (np.searchsorted(begins, s, side="right") - 1 for s in (a, b))
            assert len(set(of_a)) == len(set(of_b)) == 1
            assert a[-1] + 1 in starts
            assert a[0] in starts or not starts & set(a.tolist())  # the end of a long sentence
            assert b[0] in starts
            assert b[0] not in begins
            if label:
                assert of_a[0] != of_b[0]
            else:
                assert b[0] == a[-1] + 1


def test_long_documents_fill_the_row():
    data = masked([[7] * 500] * 3, length=64)
    batches = [data.train(step) for step in range(50)]
    filled = np.concatenate([batch["real"] for batch in batches]).all(axis=1)
    assert filled.mean() > 0.95
    shares = [len(a) for batch in batches for a, _ in stretches(batch)]
    assert min(shares) < 22
    assert max(shares) > 38


def drawn(counts):
    rng = np.random.default_rng(5)
    return [rng.integers(3, 15, size=count).tolist() for count in counts]


SHORT = drawn([1 + i % 12 for i in range(2000)])
UNEVEN = drawn([400, 20, 4])
LONG = drawn([300] * 5)


@pytest.mark.parametrize("documents", [SHORT, UNEVEN, LONG], ids=["short", "uneven", "long"])
def test_half_of_the_pairs_follow(documents):
    labels = np.array([label for *_, label in many(masked(documents, 48, batch=32), 250)])
    assert abs(labels.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(labels))


@pytest.mark.parametrize("length", [24, 64])
@pytest.mark.parametrize("documents", [SHORT, UNEVEN, LONG], ids=["short", "uneven", "long"])
def test_nothing_but_the_words_tells_the_label(documents, length):
    """Whatever can be seen of a row from outside, or of A or B alone, is as likely under both."""
    text = text_of(documents)
    sentence_ends = np.append(text.sentences[1:], len(text.ids)) - 1
    document_ends = np.append(text.documents[1:], len(text.ids)) - 1
    rows = list(many(masked(documents, length, batch=32), 400))
    labels = np.array([label for *_, label in rows])
    seen = {
        "A's length": [len(a) for a, _, _ in rows],
        "B's length": [len(b) for _, b, _ in rows],
        "the row's length": [len(a) + len(b) for a, b, _ in rows],
        "both lengths": [(len(a) // 3, len(b) // 3) for a, b, _ in rows],
        "how A begins": [a[0] in text.sentences for a, _, _ in rows],
        "A's document": [np.searchsorted(text.documents, a[0], side="right") for a, _, _ in rows],
        "B's document": [np.searchsorted(text.documents, b[0], side="right") for _, b, _ in rows],
    }
    if documents is not UNEVEN:  # a few short documents are known by where their sentences end
        ends = [(b[-1] in sentence_ends, b[-1] in document_ends) for _, b, _ in rows]
        seen["how B ends"] = ends
        seen["that and A's length"] = [
            (*end, len(a) // 6) for end, (a, *_) in zip(ends, rows, strict=True)
        ]
    for what, features in seen.items():
        keys = {feature: i for i, feature in enumerate(dict.fromkeys(features))}
        numbers = np.array([keys[feature] for feature in features])
        assert unlike(numbers, labels) < 5, what


def unlike(numbers, labels):
    """By how many standard deviations features differ between labels more than by chance."""
    table = np.array(
        [np.bincount(numbers[labels == l], minlength=numbers.max() + 1) for l in (0, 1)]
    )
    table = table[:, table.sum(axis=0) >= 10]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    freedom = table.shape[1] - 1
    chi = ((table - expected) ** 2 / expected).sum()
    return (chi - freedom) / np.sqrt(2 * freedom) if freedom else 0


def test_a_difference_would_be_found():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=12_800)
    assert unlike(rng.integers(20, size=12_800), labels) < 5
    assert unlike(rng.integers(20, size=12_800) + (rng.random(12_800) < 0.1) * labels, labels) > 5


def test_every_seam_has_its_turn_on_both_sides():
    documents = [[2, 3, 1], [4, 2], [1, 1, 1, 1], [9]]
    rows = list(many(masked(documents, 12, batch=32), 30))
    seams = {2, 5, 10, 13, 14, 15}
    for label in (0, 1):
        assert {int(a[-1]) + 1 for a, _, l in rows if l == label} == seams
        assert {int(b[0]) for _, b, l in rows if l == label} == seams


def test_a_batch_follows_from_seed_and_step_and_validation_is_always_the_same():
    one, same, other = (masked(LONG, 32, seed=seed) for seed in (1, 1, 2))
    for step in (3, 0):
        assert equal(one.train(step), same.train(step))
    assert not equal(one.train(0), one.train(1))
    assert not equal(one.train(0), other.train(0))
    valid = list(one.valid())
    assert all(map(equal, valid, one.valid()))
    assert all(map(equal, valid, same.valid()))
    assert sum(len(batch["ids"]) for batch in valid) == len(one.held_out.ids) // 32 + 1
    assert [len(batch["ids"]) for batch in one.valid(20)] == [8, 8, 4]
    assert all(map(equal, valid, list(one.valid(20))[:2]))


def equal(first, second):
    return first.keys() == second.keys() and all((first[k] == second[k]).all() for k in first)


def test_training_and_validation_are_different_texts():
    data = MaskedText(text_of([[5, 5]] * 9), text_of([[3] * 50] * 2), Places(), 64, 8, 1)
    assert data.train(0)["real"].sum(axis=1).max() == 12
    assert next(data.valid())["real"].all(axis=1).any()


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("ratio", [0.15, 0.4])
def test_some_of_the_words_are_masked(plain, ratio):
    data = masked(LONG, 100, batch=32, ratio=ratio, plain=plain)
    fates = []
    for batch in map(data.train, range(60)):
        ids, targets = batch["ids"], batch["targets"]
        asked = targets != IGNORED
        assert (batch["real"] | ~asked).all()
        assert (targets[asked] >= FIRST).all()
        assert (np.rint(ratio * (batch["real"].sum(axis=1) - 3)) == asked.sum(axis=1)).all()
        fates.append(
            np.where(ids == MASK, 0, np.where(ids == targets, 2, 1))[asked]  # masked, other, kept
        )
        assert (ids[asked & (ids != MASK)] >= FIRST).all()
    shares = np.bincount(np.concatenate(fates), minlength=3) / sum(map(len, fates))
    expected = [1, 0, 0] if plain else [0.8, 0.1, 0.1]
    np.testing.assert_allclose(shares, expected, atol=5 * 0.4 / np.sqrt(sum(map(len, fates))))


def test_a_word_is_replaced_by_any_other_but_not_by_a_part_of_the_frame():
    class Few(Places):
        rows = FIRST + 16

    text = text_of([[4, 4], [4, 4]])
    data = MaskedText(text, text, Few(), 11, 64, 1, ratio=0.9)
    put = set()
    for batch in map(data.train, range(40)):
        replaced = (batch["targets"] != IGNORED) & (batch["ids"] != batch["targets"])
        put |= set(batch["ids"][replaced].tolist())
    assert put == {MASK, *range(FIRST, Few.rows)}


def test_whole_words_are_masked_together():
    data, places = masked(LONG, 100, batch=32, whole_words=True), Places()
    together = apart = 0
    for batch in map(data.train, range(20)):
        rows, asked = restored(batch), batch["targets"] != IGNORED
        goes_on = np.vectorize(places.continues)(rows[:, 1:]) & (rows[:, :-1] >= FIRST)
        assert (asked[:, 1:] == asked[:, :-1])[goes_on].all()
        together += (asked[:, 1:] & asked[:, :-1])[goes_on].sum()
        apart += (asked[:, 1:] != asked[:, :-1]).sum()
    assert together > 100
    assert apart > 100


def test_frames_that_stand_in_the_text_itself_are_never_asked_for():
    text = text_of([[4, 4, 4]] * 9)
    text.ids[::2] = [SEP, MASK, PAD, CLS, UNK, 77] * 9
    data = MaskedText(text, text, Places(), 20, 32, 1, ratio=0.9, plain=True)
    targets = data.train(0)["targets"]
    assert not np.isin(targets, [SEP, MASK, PAD, CLS]).any()
    assert (targets == UNK).any()


def test_without_pairs_a_row_is_one_stretch_of_a_document():
    documents = [[3, 4], [1], [2, 2, 2], [20]]
    data = masked(documents, 9, batch=64, pairs=False)
    text = text_of(documents)
    begun, lengths = set(), set()
    for batch in (data.train(0), data.train(1), *data.valid()):
        assert "next" not in batch
        assert not batch["segments"].any()
        for row, real in zip(restored(batch), batch["real"], strict=True):
            length = real.sum()
            assert row[0] == CLS
            assert row[length - 1] == SEP
            assert (row[length:] == PAD).all()
            places = row[1 : length - 1] - FIRST
            assert (np.diff(places) == 1).all()
            assert len(set(np.searchsorted(text.documents, places, side="right"))) == 1
            begun.add(int(places[0]))
            lengths.add(len(places))
    assert begun == set(text.sentences.tolist())
    assert lengths == {7, 4, 1, 6, 2}


@pytest.mark.parametrize(
    ("documents", "found"), [([[5] * 100], "0 such of 1"), ([[9]] * 50, "0 such of 50")]
)
def test_texts_without_pairs_are_refused(documents, found):
    found = found.replace("0", "1", 1) if len(documents) == 1 else found
    with pytest.raises(EmptyCorpus, match=f"the text to train on has {found}; every file is a doc"):
        masked(documents, 32)
    with pytest.raises(EmptyCorpus, match="the text to validate on has"):
        MaskedText(text_of(LONG), text_of(documents), Places(), 32, 8, 1)
    assert masked(documents, 32, pairs=False).train(0)["real"].any()


def test_rows_without_room_are_refused():
    with pytest.raises(ImpossibleSetting, match=r"a row of 4 tokens has no room .* expected 5"):
        masked(LONG, 4)
    with pytest.raises(ImpossibleSetting, match=r"a row of 2 tokens has no room .* expected 3"):
        masked(LONG, 2, pairs=False)
    assert masked(LONG, 3, pairs=False).train(0)["real"].all()


def test_a_tokenizer_without_the_frame_is_refused():
    tokenizer = train_byte_pairs(["some text"], 300)
    with pytest.raises(WrongKind, match=r"no \[CLS\], \[SEP\], \[MASK\], \[PAD\]; .* word-pieces"):
        MaskedText(text_of(LONG), text_of(LONG), tokenizer, 32, 8, 1)


@cache
def story_pieces():
    return train_word_pieces((text for text, _ in StoryTexts(2000, 1).portions()), 300)


def test_pairs_of_stories_read_as_their_text(tmp_path):
    tokenizer = story_pieces()
    text = tokenised(StoryTexts(2000, 1), tokenizer, tmp_path, by_sentence=True)
    stories = [tokenizer.encode(story)[1:-1] for story, _ in StoryTexts(2000, 1).portions()]
    batch = MaskedText(text, text, tokenizer, 40, 16, 1).train(0)
    for row, label in zip(restored(batch), batch["next"], strict=True):
        first, second = np.flatnonzero(row == tokenizer.special["[SEP]"])
        a, b = row[1:first].tolist(), row[first + 1 : second].tolist()
        assert tokenizer.decode(a).endswith((".", '"'))
        assert any(within(a, story) for story in stories)
        assert any(within(b, story) for story in stories)
        assert any(within(a + b, story) for story in stories) == (not label)


def within(part, whole):
    return any(whole[i : i + len(part)] == part for i in range(len(whole)))


@pytest.mark.slow
def test_a_batch_takes_less_than_five_milliseconds(tmp_path):
    tokenizer = read_word_pieces(published("vocab/bert_uncased_vocab.txt"))
    text = tokenised(read_texts(published("text/classics/valid")), tokenizer, tmp_path, True)
    data = MaskedText(text, text, tokenizer, length=128, batch=32, seed=1)
    taken = []
    for step in range(20):
        began = time.thread_time()
        data.train(step)
        taken.append(time.thread_time() - began)
    assert min(taken) < 5e-3
