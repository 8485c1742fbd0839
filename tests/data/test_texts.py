"""Texts in portions: nothing is lost, nothing is cut that a tokenizer would not cut itself."""

import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vesalius.data import stories, texts
from vesalius.data.texts import FileTexts, Part, StoryTexts, read_texts, split
from vesalius.errors import BrokenFile, EmptyCorpus
from vesalius.tokenizers import (
    read_byte_pairs,
    read_word_pieces,
    train_byte_pairs,
    train_word_pieces,
    train_words,
)

SAMPLE = (
    "It was raining.  But\n\nI'll take my\tumbrella; café, 雨が降る。 don't 42 well-known isn't it?"
)
words = ["a", "It", "'s", "'", "42", ".", "!", "é", "雨", "🌧", "İ", "Σ", "ß", "[SEP]"]
spaces = [" ", "  ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u2003", "\u2028", "\u3000", "\u1680"]
others = [*"\f\v\x1c\x1f\x85\0\x07", "\u0301", "\u200b", "\ufeff", "\u180e"]
pieces = st.sampled_from([*words, *spaces, *others])
odd = st.lists(pieces, min_size=1, max_size=40).map("".join)


def with_one_end(text):
    """As Python reads lines: whatever ends them is one sign."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.fixture
def small_portions(monkeypatch):
    monkeypatch.setattr(texts, "PORTION", 5)


@pytest.fixture(scope="module")
def tokenizers():
    words = [SAMPLE] * 3
    found = {
        "bytes": train_byte_pairs(words, 300),
        "pieces": train_word_pieces(words, 200),
        "cased": train_word_pieces(words, 200, lowercase=False),
        "words": train_words(words, 40),
    }
    if "VESALIUS_DATA" in os.environ:
        vocabularies = Path(os.environ["VESALIUS_DATA"]) / "vocab"
        pairs = ("gpt2_encoder.json", "gpt2_vocab.bpe")
        found["gpt2"] = read_byte_pairs(*(vocabularies / name for name in pairs))
        found["bert"] = read_word_pieces(vocabularies / "bert_uncased_vocab.txt")
    return found


def written(folder, text, name="text.txt"):
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def portions(file):
    return list(read_texts(file).portions())


same_file = settings(max_examples=300)


@same_file
@given(odd)
def test_portions_joined_are_the_file_and_only_the_last_ends_it(small_portions, tmp_path, text):
    found = portions(written(tmp_path, text))
    assert "".join(part for part, _ in found) == with_one_end(text)
    assert [ends for _, ends in found] == [False] * (len(found) - 1) + [True]
    assert all(part for part, _ in found)


@same_file
@given(odd)
def test_tokenizers_cut_portions_as_they_cut_the_whole(small_portions, tmp_path, tokenizers, text):
    found = [part for part, _ in portions(written(tmp_path, text))]
    for name, tokenizer in tokenizers.items():
        together = [i for ids in tokenizer.encode_many(found, framed=False) for i in ids]
        assert together == tokenizer.encode_many([with_one_end(text)], framed=False)[0], name


def test_a_tokenizer_that_puts_a_space_before_texts_puts_none_between_portions(
    monkeypatch, tmp_path
):
    from vesalius.tokenizers import Tokenizer, kinds

    plain = train_byte_pairs([SAMPLE], 300)
    spaced = Tokenizer(kinds.byte_pairs(plain._inner.get_vocab(), [], prefix_space=True))
    monkeypatch.setattr(texts, "PORTION", 12)
    text = "It was\nit and\tit was\nnot\nit was\tand\nit"
    found = [part for part, _ in portions(written(tmp_path, text))]
    assert len(found) > 2
    together = [i for part in found for i in spaced.encode(part)]
    assert together == spaced.encode(text)


def test_texts_are_read_in_many_portions_in_any_script(small_portions, tmp_path):
    for text in ("a b " * 50, "你好。\n" * 50, "да\n" * 50, "a\r\n" * 50):
        assert len(portions(written(tmp_path, text))) >= len(text.encode()) // 20


def test_files_end_documents(tmp_path, small_portions):
    for name, text in {"b.txt": "two of them", "a.md": "one", "sub/c.text": "three 3"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        written(tmp_path, text, name)
    written(tmp_path, "", "empty.txt")
    written(tmp_path, b"\xff", "picture.png")
    documents, document = [], ""
    for part, ends in portions(tmp_path):
        document += part
        if ends:
            documents.append(document)
            document = ""
    assert documents == ["one", "two of them", "three 3"]
    assert document == ""


@same_file
@given(st.lists(odd | st.just(""), min_size=1, max_size=3), st.floats(0.01, 0.99))
@example(["🌧"], 0.875)
@example(["a🌧"], 0.5)
@example(["a", "🌧"], 0.25)
@example(["🌧", "a"], 0.75)
@example(["a", "🌧", ""], 0.25)
@example(["", "🌧"], 0.5)
def test_a_split_of_two_characters_or_more_has_two_parts_which_are_the_whole(
    tmp_path, documents, share
):
    for number, text in enumerate(documents):
        written(tmp_path, text, f"{number}.txt")
    whole = FileTexts(
        tuple(
            Part(tmp_path / f"{n}.txt", 0, len(text.encode())) for n, text in enumerate(documents)
        )
    )
    if len("".join(documents)) < 2:
        with pytest.raises(EmptyCorpus):
            split(whole, share)
        return
    first, second = split(whole, share)
    assert first.size() > 0
    assert second.size() > 0
    cut = [part.file.read_bytes()[part.start : part.end] for part in (*first.parts, *second.parts)]
    assert b"".join(cut).decode() == "".join(documents)
    for some in (first, second):
        list(some.portions())  # no character is cut


def test_a_split_is_at_the_end_of_a_line(tmp_path):
    lines = "".join(f"line {n}\n" for n in range(100))
    first, second = split(read_texts(written(tmp_path, lines)), 0.25)
    (before, _), (after, _) = *first.portions(), *second.portions()
    assert before.endswith("\n")
    assert after.startswith("line 7")
    assert abs(len(after) - len(lines) / 4) < 9


def test_a_split_that_falls_on_the_beginning_of_a_line_stays_there(tmp_path):
    first, second = split(read_texts(written(tmp_path, "four\n" * 4)), 0.5)
    assert [*first.portions(), *second.portions()] == [("four\nfour\n", True)] * 2


def test_a_long_line_is_split_between_words(tmp_path, monkeypatch):
    first, second = split(read_texts(written(tmp_path, "rainy days " * 20 + "\n")), 0.3)
    assert 50 < second.size() < 75
    assert next(second.portions())[0].startswith((" rainy", " days"))
    monkeypatch.setattr(texts, "REACH", 4)
    text = "x" * 50 + " " + "é" * 50 + "\n" + "y" * 50
    first, second = split(read_texts(written(tmp_path, text)), 0.5)
    assert next(first.portions())[0] + next(second.portions())[0] == text
    assert next(second.portions())[0].startswith("é")


@pytest.mark.parametrize("text", ["x", "é", "🌧"])
def test_a_single_character_is_not_split(tmp_path, text):
    with pytest.raises(EmptyCorpus, match="too few to train on some and validate on others"):
        split(read_texts(written(tmp_path, text)), 0.1)


@pytest.mark.parametrize(
    ("data", "at", "byte"),
    [
        (b"fine \xff not", 5, "ff"),
        (b"a longer text, fine up to here \xe9 and on", 31, "e9"),
        (b"fine and then half a char \xe9\x9b", 26, "e9"),
        (b"1234\xe9\x9b 890", 4, "e9"),  # begins in one portion and breaks in the next
        ("é".encode() * 9 + b"\x80", 18, "80"),
    ],
)
def test_what_is_not_utf8_is_refused_with_its_place(small_portions, tmp_path, data, at, byte):
    file = written(tmp_path, data)
    with pytest.raises(BrokenFile, match=f"text.txt is not UTF-8: byte 0x{byte} at offset {at};"):
        portions(file)
    with pytest.raises(BrokenFile, match=f"at offset {at};"):
        list(FileTexts((Part(file, 2, len(data)),)).portions())


def test_a_file_that_shrinks_is_noticed(small_portions, tmp_path):
    file = written(tmp_path, "some words and some more\n" * 5000)
    reading = read_texts(file).portions()
    next(reading)
    written(tmp_path, "")
    with pytest.raises(BrokenFile, match="became shorter"):
        list(reading)


@pytest.mark.parametrize("name", ["missing", "", "x" * 5000, "with\0zero"])
def test_a_path_that_is_not_there_is_named(name):
    with pytest.raises(BrokenFile, match="there is no file or folder '"):
        read_texts(name)


def test_folders_and_files_with_nothing_to_learn_from_are_named(tmp_path):
    with pytest.raises(EmptyCorpus, match=r"holds no text files; expected \.txt, \.md, \.text"):
        read_texts(tmp_path)
    with pytest.raises(EmptyCorpus, match=r"text\.txt is empty"):
        read_texts(written(tmp_path, ""))
    written(tmp_path, "", "other.txt")
    with pytest.raises(EmptyCorpus, match=r"other\.txt and 1 more is empty"):
        read_texts(tmp_path)


def test_reading_takes_memory_for_a_portion_and_not_for_the_file(tmp_path):
    file = written(tmp_path, "rain and more rain, " * 500_000)
    tracemalloc.start()
    total = sum(len(part) for part, _ in read_texts(file).portions())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 10_000_000
    assert peak < 8 * texts.PORTION


def test_a_file_without_white_space_is_read_in_one_piece_and_in_linear_time(tmp_path, monkeypatch):
    """Appending portions to what was read would copy 64 GB here."""
    monkeypatch.setattr(texts, "PORTION", 1 << 12)
    file = written(tmp_path, b"x" * (1 << 25))
    began = time.process_time()
    (text, ends), *rest = portions(file)
    assert time.process_time() - began < 5
    assert (len(text), ends, rest) == (1 << 25, True, [])


def test_stories_are_documents_and_reach_the_words_asked_for():
    corpus = StoryTexts(words=500, seed=4)
    found = list(corpus.portions())
    assert all(ends for _, ends in found)
    words = [stories.as_words(text) for text, _ in found]
    assert sum(map(len, words)) >= 500 > sum(map(len, words[:-1]))
    assert words == [stories.stream(d) for d in stories.stories(4, len(found))]


def test_keys_tell_corpora_apart(tmp_path):
    file = written(tmp_path, "some text\n")
    keys = {read_texts(file).key(), StoryTexts(500, 4).key(), StoryTexts(500, 5).key()}
    keys |= {part.key() for part in split(read_texts(written(tmp_path, "a\nb\n")), 0.5)}
    keys |= {StoryTexts(501, 4).key(), read_texts(written(tmp_path, "other text\n")).key()}
    assert len(keys) == 7
    os.utime(file, ns=(0, 0))
    assert read_texts(file).key() in keys  # of the same content


@pytest.mark.parametrize("portion", [1, 2, 3, 5, 1000])
def test_all_ends_of_lines_are_read_as_one(portion, tmp_path, monkeypatch):
    """Wherever a portion ends, between the two signs of Windows' line ends among others."""
    monkeypatch.setattr(texts, "PORTION", portion)
    file = tmp_path / "text.txt"
    file.write_bytes("one\r\ntwo é\r\n\r\nthree\rfour\n".encode())
    read = "".join(text for text, _ in texts.read_texts(file).portions())
    assert read == "one\ntwo é\n\nthree\nfour\n"
