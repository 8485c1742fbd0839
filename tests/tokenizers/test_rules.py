"""Tokenisation by rules: Table 7 as the page and the paper have it, and sense on other text."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vesalius.tokenizers import RULES, WAYS, words
from vesalius.tokenizers.rules import (
    drop_punctuation,
    expand_contractions,
    split_contractions,
    split_off_punctuation,
    strip_suffixes,
)

SENTENCE = "I'm looking for a job in New York."
PAGE = (Path(__file__).parents[2] / "docs" / "words.md").read_text()
TABLE = PAGE.split("## Table 7")[1].split("\n## ")[0]
ROWS = [re.split(r"\s*\|\s*", row)[1:3] for row in TABLE.splitlines() if row.startswith("|")][2:]


def without_space(text):
    return "".join(text.split())


@pytest.mark.parametrize(("number", "tokens"), ROWS)
def test_each_way_gives_its_row_of_table_7(number, tokens):
    assert WAYS[int(number) - 1](SENTENCE) == tokens.split(" · ")


def test_table_7_has_as_many_ways_as_there_are():
    assert [int(number) for number, _ in ROWS] == [1, 2, 3, 4, 5]
    assert len(WAYS) == 5
    assert set(WAYS) < set(RULES.values())


@given(st.text())
def test_every_character_but_white_space_is_in_exactly_one_word(text):
    found = words(text)
    assert all(text[word.start : word.end] == word.text for word in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert without_space("".join(word.text for word in found)) == without_space(text)
    assert not any(character.isspace() for word in found for character in word.text)


@given(st.text(alphabet="aIcnts'’.,- \n\tN5") | st.text())
def test_splitting_loses_no_character(text):
    assert "".join(split_off_punctuation(text)) == without_space(text)
    assert "".join(split_contractions(text)) == without_space(text)
    stripped = strip_suffixes(text, names=())
    assert "".join(t.removeprefix("##") for t in stripped) == "".join(drop_punctuation(text, ()))
    assert "".join(RULES["spaces"](text)) == without_space(text)
    assert "".join(RULES["characters"](text)) == text


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("text", ["", " \n\t "])
def test_no_text_has_no_words(rule, text):
    assert [token for token in rule(text) if not token.isspace()] == []


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("3.14 and 1,000,000 at 12:30.", "3.14|and|1,000,000|at|12:30|."),
        ("a well-known 3.5km run", "a|well-known|3.5km|run"),
        ("Wait... what?!", "Wait|...|what|?|!"),
        ("the U.S. and e.g. Rome", "the|U.S.|and|e.g.|Rome"),
        ("'quoted' (so) [there]", "'|quoted|'|(|so|)|[|there|]"),
        ("nai\u0308ve, na\u00efve", "nai\u0308ve|,|na\u00efve"),
        ("don't--stop", "don't|--|stop"),
        ("chapter,5 verse:7", "chapter|,|5|verse|:|7"),
    ],
)
def test_words_numbers_and_punctuation_come_apart(text, tokens):
    assert split_off_punctuation(text) == tokens.split("|")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("they've, we'll, you're", "they|have|,|we|will|,|you|are"),
        ("She'd say it's John's", "She|would|say|it|'s|John|'s"),
        ("can't won't shan't don't", "can|not|will|not|shall|not|do|not"),
        ("Can't WON'T I’m I'LL", "Can|not|WILL|NOT|I|am|I|WILL"),
        ("shouldn't've", "should|not|have"),
        ("O'Neill's o'clock", "O'Neill|'s|o'clock"),
    ],
)
def test_contractions_are_expanded_by_the_table(text, tokens):
    assert expand_contractions(text) == tokens.split("|")


def test_names_given_are_one_token_the_longest_first():
    names = ("New York", "New York City", "Land's End", "Beijing")
    text = "New York City isn't New York's Land's End; Beijing is reading."
    assert expand_contractions(text, names)[:5] == ["New York City", "is", "not", "New York", "'s"]
    assert strip_suffixes(text, names)[5:] == ["Land's End", "Beijing", "is", "read", "##ing"]
    assert expand_contractions("New. York", names) == ["New", ".", "York"]


def test_a_suffix_comes_off_where_a_stem_is_left():
    text = "looking LOOKING king string going walked need strongest best"
    assert " ".join(strip_suffixes(text)) == (
        "look ##ing LOOK ##ING king string going walk ##ed need strong ##est best"
    )
    assert strip_suffixes("faster", suffixes=("er",)) == ["fast", "##er"]


def test_only_punctuation_is_dropped():
    tokens = drop_punctuation("It costs $5 -- 3 + 4 = 7, 'yes'!")
    assert " ".join(tokens) == "It costs $ 5 3 + 4 = 7 yes"
