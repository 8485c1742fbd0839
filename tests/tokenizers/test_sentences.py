"""Sentences: hard cases by hand, and what holds for any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vesalius.tokenizers import sentences

CASES = {
    "titles": "Mr. Smith met Dr. Brown.| Mrs. Hall, of St. Ives, did not.",
    "no titles": "Sleep well, hon.| Tom was a gen.| Bob was not.",
    "initials": "J. R. R. Tolkien wrote it.| George W. Bush did not.",
    "the pronoun": "You left before I.| Tom stayed.",
    "connectors": "Some animals, e.g. Felis catus, purr.| Others (cf. Lynx), i.e. Big ones, howl.",
    "decimals": "Pi is 3.14159 or so.| It costs $1.50.| That was in 1984.| Then came 1985.",
    "quotes": '"I know."| "You do?" he asked.| “Yes.”| (She smiled.)| \'No!\'| They left.',
    "ellipses": "I thought... maybe not.| Well...| He left.| And… she too.",
    "exclamations": "What?!| Really!!| Stop! cried nobody.| Go.",
    "countries": "The U.S. Army left the U.S.| It was over.| A Ph.D. Student came.",
    "hours": "They met at 5 p.m. Tuesday.| At 6 a.m.| The sun rose.",
    "numbers": "See Fig. 3 and No. 5 on p. 7.| He said no.| Yes, he did.",
    "lists": "1. Wash the pan.| 2. Dry it.| IV. Put it away.\n|\na. On the shelf.",
    "companies": "Acme Inc. Chairman Bob Roe Jr. spoke, etc.| He was brief.",
    "empty lines": "A heading\n|\nThe text begins here and\ngoes on.| It ends",
    "one line": "No stop at all",
    "addresses": "Look at www.example.com now.| Version 2.0.1 is out.",
    "lower case, which starts no sentence": "The approx. figure is known. iPhones are not.",
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_sentences_end_where_a_reader_would_end_them(case):
    found = [sentence.text for sentence in sentences(case.replace("|", ""))]
    assert found == [part.strip() for part in case.split("|")]


@given(st.text() | st.text(alphabet="aB.!? \n\"'…I1"))
def test_sentences_are_slices_with_white_space_between(text):
    found = sentences(text)
    at = 0
    for sentence in found:
        assert text[sentence.start : sentence.end] == sentence.text == sentence.text.strip()
        assert not text[at : sentence.start].strip()
        assert sentence.text
        at = sentence.end
    assert not text[at:].strip()
