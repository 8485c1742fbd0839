"""Text arrives in whole characters, and nothing that was given out is taken back."""

import pytest

from vesalius import load
from vesalius.generation.streaming import TextStream
from vesalius.tokenizers import train_characters, train_word_pieces

TEXT = "Grüße, 日本 🎈! He said: “stop it now”."


@pytest.fixture(scope="module")
def tokenizer():
    return load("gpt").tokenizer


def pieces(tokenizer, text, stop=(), prompt=""):
    ids, before = (tokenizer.encode_many([part], framed=False)[0] for part in (text, prompt))
    stream = TextStream(tokenizer, before, stop)
    given = []
    for token in ids:
        given.append(stream.add(token))
        if stream.stopped:
            break
    return [*given, stream.end()], stream


def test_no_character_comes_in_halves(tokenizer):
    given, stream = pieces(tokenizer, TEXT)
    assert "".join(given) == stream.text == TEXT
    assert not any("�" in piece for piece in given)
    assert "" in given  # the first bytes of a character give nothing yet


def test_bytes_that_never_become_a_character_are_marked_at_the_end(tokenizer):
    stream = TextStream(tokenizer, [], ())
    half = tokenizer.encode_many(["🎈"], framed=False)[0][:1]
    assert stream.add(half[0]) == ""
    assert stream.end() == "�" == stream.text


@pytest.mark.parametrize("stop", ["stop", "“stop", "it now”", "日本", "🎈"])
def test_text_ends_before_a_stop_string_none_of_which_is_given_out(tokenizer, stop):
    given, stream = pieces(tokenizer, TEXT, [stop, "never there"])
    assert stream.stopped
    assert "".join(given) == stream.text == TEXT[: TEXT.index(stop)]


def test_what_only_looked_like_a_stop_string_is_given_out(tokenizer):
    given, stream = pieces(tokenizer, "a stork, a store", ["stop", "store is"])
    assert "".join(given) == stream.text == "a stork, a store"
    assert not stream.stopped


def test_the_first_of_several_stop_strings_counts(tokenizer):
    assert pieces(tokenizer, "one two three", ["three", "two"])[1].text == "one "
    assert len(tokenizer.encode_many([" head"], framed=False)[0]) == 1
    assert pieces(tokenizer, " head", ["ad", "he"])[1].text == " "


def test_tokens_that_are_words_get_their_spaces():
    words = train_word_pieces(["the rain fell on the river"] * 9, 60)
    given, stream = pieces(words, " fell on the river", prompt="the rain")
    assert "".join(given) == stream.text == " fell on the river"
    letters = train_characters(["abc de"])
    assert pieces(letters, "de abc", prompt="ab")[1].text == "de abc"
