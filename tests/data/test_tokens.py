"""Token files: the ids that the tokenizer gives, made once, and the places where things begin."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vesalius.checkpoints.files import SAVING
from vesalius.data import texts, tokens
from vesalius.data.texts import StoryTexts, read_texts
from vesalius.data.tokens import tokenised
from vesalius.errors import EmptyCorpus
from vesalius.tokenizers import (
    sentences,
    train_byte_pairs,
    train_characters,
    train_word_pieces,
    train_words,
)

WORDS = ["It", "rains", "café", "Mr", "i.e", "雨", "42", "a", "e.g"]
ENDS = [". ", "! ", "\n\n", " ", "  \n", ", ", "; ", ".\n", "?"]
ALL = "".join(f"{word}{end}" for word in WORDS for end in ENDS)
TOKENIZERS = {
    "bytes": train_byte_pairs([ALL], 300),
    "pieces": train_word_pieces([ALL], 90),
    "words": train_words([ALL], 12),
    "characters": train_characters([ALL, "\t\f\a"]),
}
every = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS.keys())
pieces = st.sampled_from([*WORDS, *ENDS, *ENDS, "\t", "\f", "\a", "\a\n\n"])
documents = st.lists(st.lists(pieces, max_size=30).map("".join), min_size=1, max_size=4)


class Counting:
    """A tokenizer that is a word's length, or a failure where it should not be asked."""

    special, rows = {}, 100

    def __init__(self, name="lengths", fails=False):
        self.name, self.fails, self.asked = name, fails, 0

    def digest(self):
        return self.name

    def encode_many(self, texts, framed):
        assert not self.fails, "asked to encode"
        self.asked += 1
        return [[len(word) for word in text.split()] for text in texts]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(texts, "PORTION", 7)
    monkeypatch.setattr(tokens, "AT_ONCE", 20)


def folder_of(folder, documents):
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for number, text in enumerate(documents):
        (folder / f"{number}.txt").write_bytes(text.encode())
    return folder


def ended(tokenizer):
    return [tokenizer.special[name] for name in ("<|endoftext|>",) if name in tokenizer.special]


in_a_folder = settings(max_examples=50)


@every
@in_a_folder
@given(documents)
def test_ids_are_those_of_whole_documents_each_with_its_end(small, tmp_path, tokenizer, documents):
    texts = folder_of(tmp_path / "texts", documents)
    expected, begins = [], []
    for text in filter(None, documents):
        ids = tokenizer.encode_many([text], framed=False)[0] + ended(tokenizer)
        begins += [len(expected)] if ids else []
        expected += ids
    if not expected:
        with pytest.raises(EmptyCorpus):
            tokenised(read_texts(texts), tokenizer, tmp_path)
        return
    made = tokenised(read_texts(texts), tokenizer, tmp_path)
    assert made.ids.tolist() == expected
    assert made.documents.tolist() == begins
    assert made.sentences is None
    assert made.bytes == sum(len(text.encode()) for text in documents)
    assert made.digest == hashlib.sha256(np.array(expected, np.uint16).tobytes()).hexdigest()


@every
@in_a_folder
@given(documents)
def test_sentences_are_those_of_whole_documents(small, tmp_path, tokenizer, documents):
    texts = folder_of(tmp_path / "texts", documents)
    expected, begins, documents_begin = [], [], []
    for text in filter(None, documents):
        before = len(expected)
        for sentence in sentences(text):
            ids = tokenizer.encode_many([sentence.text], framed=False)[0]
            begins += [len(expected)] if ids else []
            expected += ids
        expected += ended(tokenizer)
        documents_begin += [before] if len(expected) > before else []
    if not expected:
        return
    made = tokenised(read_texts(texts), tokenizer, tmp_path, by_sentence=True)
    assert made.ids.tolist() == expected
    assert made.sentences.tolist() == begins
    assert made.documents.tolist() == documents_begin


def test_a_text_without_stops_is_cut_somewhere(small, tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "SENTENCE", 50)
    texts = folder_of(tmp_path / "texts", ["rain and " * 100 + "Rain. It rains."])
    made = tokenised(read_texts(texts), Counting(), tmp_path, by_sentence=True)
    assert made.ids.tolist() == [4, 3] * 100 + [5, 2, 6]
    assert made.sentences[-1] == 201
    assert 10 < max(b - a for a, b in pairwise(made.sentences)) < 20


def test_wide_vocabularies_have_wide_ids(tmp_path):
    class Wide(Counting):
        rows = (1 << 16) + 1

        def encode_many(self, texts, framed):
            return [[self.rows - 1] for _ in texts]

    made = tokenised(StoryTexts(10, 1), Wide("wide"), tmp_path)
    assert made.ids.dtype == np.uint32
    assert set(made.ids.tolist()) == {1 << 16}
    assert tokenised(StoryTexts(10, 1), Counting(), tmp_path).ids.dtype == np.uint16


def test_a_token_file_is_made_once(tmp_path):
    first = tokenised(StoryTexts(100, 1), Counting(), tmp_path)
    again = tokenised(StoryTexts(100, 1), Counting(fails=True), tmp_path)
    np.testing.assert_array_equal(first.ids, again.ids)
    np.testing.assert_array_equal(first.documents, again.documents)
    assert (first.bytes, first.digest) == (again.bytes, again.digest)


def test_whatever_it_depends_on_makes_another(tmp_path):
    texts = folder_of(tmp_path / "texts", ["Some rain. More rain."])
    file = texts / "0.txt"

    def made(tokenizer, **how):
        assert tokenised(read_texts(texts), tokenizer, tmp_path, **how)
        return tokenizer.asked == 1

    assert made(Counting())
    assert not made(Counting())
    assert made(Counting("another"))
    assert made(Counting(), by_sentence=True)
    os.utime(file, ns=(1, 1))
    file.rename(texts / "other.txt")
    assert not made(Counting())  # neither its name nor its time is what it says
    (texts / "other.txt").write_text("More rain. Some rain.")
    os.utime(texts / "other.txt", ns=(1, 1))
    assert made(Counting())
    assert not made(Counting())


@pytest.mark.parametrize("by_sentence", [False, True])
def test_progress_is_told_in_bytes_and_reaches_the_total(small, tmp_path, by_sentence):
    told, texts = [], folder_of(tmp_path / "texts", ["Rain, café. Rain " * 9, "", "雨 \n"])
    total = sum(len(file.read_bytes()) for file in texts.iterdir())
    tokenised(read_texts(texts), Counting(), tmp_path, by_sentence, lambda *news: told.append(news))
    assert len(told) > 9
    assert all(a < b for (_, a, _), (_, b, _) in pairwise(told))
    assert {(what, of) for what, _, of in told} == {(f"tokens of {read_texts(texts).name}", total)}
    assert told[-1][1:] == (total, total)


def test_what_is_told_is_written_already(small, tmp_path):
    """Portions are read ahead of those that are encoded."""
    texts, tokenizer = folder_of(tmp_path / "texts", ["rain and more " * 50]), Counting()
    asked = []
    tokenised(
        read_texts(texts), tokenizer, tmp_path, False, lambda *_: asked.append(tokenizer.asked)
    )
    assert asked[0] == 1


def test_stories_have_no_total_beforehand(tmp_path):
    told = []
    made = tokenised(StoryTexts(300, 1), Counting(), tmp_path, False, lambda *n: told.append(n))
    assert told[-1] == ("tokens of 300 words of stories", made.bytes, None)


@pytest.mark.parametrize("by_sentence", [False, True])
def test_memory_is_for_what_is_encoded_at_once(tmp_path, monkeypatch, by_sentence):
    monkeypatch.setattr(texts, "PORTION", 1 << 12)
    monkeypatch.setattr(tokens, "AT_ONCE", 1 << 14)
    folder = folder_of(tmp_path / "texts", ["It rains on. " * 50_000])
    tracemalloc.start()
    made = tokenised(read_texts(folder), Counting(), tmp_path, by_sentence)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(made.ids) == 150_000
    kept = 4 * made.sentences.nbytes if by_sentence else 0
    assert peak < kept + 700_000


def test_a_corpus_without_tokens_is_refused_and_leaves_nothing(tmp_path):
    texts = folder_of(tmp_path / "texts", [" \n "])
    with pytest.raises(EmptyCorpus, match=r"0\.txt holds no tokens"):
        tokenised(read_texts(texts), Counting(), tmp_path / "cache")
    assert not [*tmp_path.glob("cache/tokens/*")]


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_tokens import Counting, StoryTexts, tokenised, tokens

class Killed(Counting):
    def encode_many(self, texts, framed):
        if self.asked:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode_many(texts, framed)

tokens.AT_ONCE = 1000
tokenised(StoryTexts(1000, 1), Killed(), Path({cache!r}))
"""


def test_a_killed_writer_leaves_no_token_file(tmp_path):
    code = KILLED.format(tests=os.path.dirname(__file__), cache=str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (left,) = (tmp_path / "tokens").iterdir()
    assert left.name.startswith(SAVING)
    assert (left / "ids.bin").exists()
    tokenizer = Counting()
    tokenised(StoryTexts(1000, 1), tokenizer, tmp_path)
    assert tokenizer.asked


def test_two_that_make_the_same_at_once_both_have_it(tmp_path):
    both = threading.Barrier(2, timeout=600)

    class Together(Counting):
        def encode_many(self, texts, framed):
            both.wait()
            return super().encode_many(texts, framed)

    found = []

    def make():
        found.append(tokenised(StoryTexts(100, 1), Together(), tmp_path))

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    np.testing.assert_array_equal(found[0].ids, found[1].ids)
    assert len(list((tmp_path / "tokens").iterdir())) == 1


@pytest.mark.parametrize("kept", [0, -2])
@pytest.mark.parametrize("name", ["ids.bin", "about.json", "documents.npy", "sentences.npy"])
def test_a_damaged_token_file_is_made_anew(tmp_path, name, kept):
    first = tokenised(StoryTexts(100, 1), Counting(), tmp_path, by_sentence=True)
    expected = np.array(first.ids)
    (file,) = tmp_path.glob(f"tokens/*/{name}")
    damaged = file.read_bytes()[:kept]
    file.unlink()  # the first ones are a view of it
    file.write_bytes(damaged)
    again = tokenised(StoryTexts(100, 1), Counting(), tmp_path, by_sentence=True)
    np.testing.assert_array_equal(again.ids, expected)
    assert again.digest == first.digest
    kept = tokenised(StoryTexts(100, 1), Counting(fails=True), tmp_path, by_sentence=True)
    np.testing.assert_array_equal(kept.sentences, first.sentences)


def test_tokens_that_cannot_be_kept_are_in_memory(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    kept = tokenised(StoryTexts(100, 1), Counting(), tmp_path, by_sentence=True)
    for cache in (tmp_path / "file" / "cache", None):
        made = tokenised(StoryTexts(100, 1), Counting(), cache, by_sentence=True)
        for part in ("ids", "documents", "sentences"):
            np.testing.assert_array_equal(getattr(made, part), getattr(kept, part))
        assert made.ids.dtype == kept.ids.dtype
        assert (made.bytes, made.digest) == (kept.bytes, kept.digest)
    assert "token files cannot be kept" in caplog.text
    assert "Not a directory" in caplog.text


def test_a_text_that_cannot_be_read_is_not_the_caches_fault(tmp_path, caplog):
    file = tmp_path / "a.txt"
    file.write_text("text")
    texts = read_texts(file)
    key = texts.key()
    file.unlink()
    gone = SimpleNamespace(name="gone", key=lambda: key, size=texts.size, portions=texts.portions)
    with pytest.raises(FileNotFoundError):
        tokenised(gone, Counting(), tmp_path / "cache")
    assert not caplog.text
