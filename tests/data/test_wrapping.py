"""Lines that were broken to a width are joined to paragraphs; all other lines stay."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vesalius import load
from vesalius.data import registry, texts, wrapping
from vesalius.data.parts import named_texts
from vesalius.data.tokens import tokenised
from vesalius.data.wrapping import Shape, join_lines, join_paragraphs, text_shape
from vesalius.errors import NotFetched

SHAPE = Shape(width=40, margin=0)


def joined(text: str, shape: Shape = SHAPE) -> str:
    return join_paragraphs(text, shape)


def test_the_lines_of_a_paragraph_become_one():
    wrapped = (
        "When the rain came down, nobody had\nthought of an umbrella for the others,\nso they ran."
    )
    assert joined(wrapped) == wrapped.replace("\n", " ")


def test_empty_lines_stay_between_paragraphs():
    text = "\n\nOne.\n\n\nIt was the third of the long evenings\nof that year.\n \n\nTwo.\n"
    assert joined(text) == text.replace("evenings\nof", "evenings of")


def test_verse_stays():
    verse = (
        "The owl and the pussy-cat went to sea\nIn a beautiful pea-green boat,\n"
        "They took some honey, and plenty of money"
    )
    assert joined(verse, Shape(width=60, margin=0)) == verse
    full = "\n".join(["A line of verse that is quite as long as"] * 4)
    assert joined(full) == full  # four lines that all begin with a capital


def test_indented_lines_and_those_before_them_stay():
    table = "    first chapter                     12\n    second chapter                    34"
    assert joined(table) == table
    letter = "My dear friend, it is a long time that we\n      have not met.\n      Yours, A."
    assert joined(letter) == letter


def test_a_short_line_ends_what_it_ends():
    text = "He had no time.\nand so he went away without another word\nto anyone."
    assert joined(text) == "He had no time.\nand so he went away without another word to anyone."


@pytest.mark.parametrize("blank", ["\u2028", "\x85", "\x1c"])
def test_a_line_of_separators_that_unicode_knows_is_joined_to_nothing(blank):
    text = f"and so he went away without another word\n{blank}\nto anyone."
    assert joined(text).split() == text.split()


def test_speeches_on_lines_of_their_own_stay():
    text = (
        "“What am I to do with all the books?”\n“Put them on the floor,” she said, and\nsat down."
    )
    assert joined(text) == text.replace("and\nsat", "and sat")


@pytest.mark.parametrize(
    ("line", "after", "whole"),
    [
        ("it was a very long and rather well-", "known story", "well-known story"),
        ("it was, as far as anybody knew--", "but who knew?", "knew--but who knew?"),
        ("it was, as far as anybody knew —", "but who knew?", "knew — but who knew?"),
    ],
)
def test_a_word_that_ends_in_a_hyphen_or_dash_meets_the_next_without_a_space(line, after, whole):
    assert joined(f"{line}\n{after}").endswith(whole)


def test_a_text_that_is_indented_as_a_whole_loses_its_margin():
    lines = ["      a paragraph whose lines all begin with", "      six spaces, as some books have"]
    shape = text_shape([*lines, ""] * 20)
    assert shape.margin == 6
    assert join_lines(lines, shape) == " ".join(line.strip() for line in lines)


def test_a_text_whose_lines_vary_was_not_broken_to_a_width():
    poem = [
        "Short.",
        "A line of some length that is long",
        "",
        "Not long.",
        "And another one, longer",
    ]
    assert text_shape(poem * 30).width == 0
    assert join_paragraphs("\n".join(poem), text_shape(poem * 30)) == "\n".join(poem)


LINES = st.lists(st.sampled_from(["", "word", "  in", "A long line of words", "“said", "x-"]))


@given(lines=LINES, width=st.integers(0, 30), margin=st.integers(0, 4))
def test_nothing_but_white_space_changes(lines, width, margin):
    text = "\n".join(lines)
    after = join_paragraphs(text, Shape(width, margin))
    assert re.sub(r"\s", "", after) == re.sub(r"\s", "", text)
    assert after.count("\n\n") == text.count("\n\n")


@given(lines=LINES, cuts=st.sets(st.integers(0, 200)))
def test_portions_are_joined_as_the_whole_is(lines, cuts):
    text = "\n".join(lines)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(edges)] or [""]
    portions = [(piece, index == len(pieces) - 1) for index, piece in enumerate(pieces)]
    shape = Shape(12, 0)
    after = list(wrapping.join_portions(portions, shape))
    assert "".join(piece for piece, _ in after) == join_paragraphs(text, shape)
    assert [ends for _, ends in after] == [False] * (len(after) - 1) + [True]


def test_a_file_is_joined_when_it_is_asked_for_and_keeps_its_own_tokens(tmp_path):
    file = tmp_path / "book.txt"
    file.write_text("It was the best of times, and it was too\nthe worst of times.\n\n" * 9)
    plain = texts.read_texts(file)
    whole = texts.join_lines(plain)
    assert "too\nthe" in "".join(text for text, _ in plain.portions())
    assert "too the" in "".join(text for text, _ in whole.portions())
    assert plain.key() != whole.key()


def test_to_bert_a_line_end_is_a_space_so_that_it_learns_the_same_from_joined_lines():
    try:
        registry.locate("classics")
    except NotFetched as error:
        pytest.skip(str(error))
    _, held_out = named_texts("classics")
    before, after = (
        tokenised(part, load("bert").tokenizer, None, by_sentence=True)
        for part in (texts.FileTexts(held_out.parts), held_out)
    )
    assert held_out.joined
    assert after.digest == before.digest
    assert after.sentences.tolist() == before.sentences.tolist()
    assert after.bytes < before.bytes  # a word broken at its hyphen


def test_nearly_all_breaks_within_the_paragraphs_of_the_classics_are_joined():
    try:
        registry.locate("classics")
    except NotFetched as error:
        pytest.skip(str(error))
    _, held_out = named_texts("classics")
    before = after = 0
    for part in held_out.parts:
        alone = texts.FileTexts((part,))
        before += _breaks("".join(text for text, _ in alone.portions()))
        after += _breaks("".join(text for text, _ in texts.join_lines(alone).portions()))
    assert before > 9000
    assert after < 0.02 * before


def _breaks(text: str) -> int:
    """Ends of lines within paragraphs."""
    return len(re.findall(r"(?<=\S)\n(?=[^\n]*\S)", text))
