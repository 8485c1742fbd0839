"""Sentence tokenisation (Appendix A.1) for English prose, by rules and short lists.

A sentence ends at a stop that white space follows, unless what stands before the stop is an
abbreviation, or what comes after it starts in lower case. An empty line ends one too.
"""

import re
from collections.abc import Iterator
from itertools import chain, pairwise

from vesalius import arguments
from vesalius.tokenizers.rules import Span

STOPS = ".!?…"
CLOSING = "\"'”’»)]}*_"
OPENING = "\"'“‘«([{*_—-"


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


TITLES = _listed(
    "mr mrs ms messrs mme mlle dr prof rev hon st gen col maj capt cmdr lt sgt sen gov pres mt"
)
"""Before a name, with a capital: such a stop ends no sentence."""
CONNECTORS = _listed("e.g eg i.e ie viz cf vs v approx ca incl esp")
"""In the middle of a sentence: such a stop ends none either."""
NUMBERED = _listed("no nos fig figs eq sec ch chap vol p pp art")
"""Before a number."""
ABBREVIATIONS = _listed(
    "etc al jr sr inc ltd co corp bros dept univ ave blvd rd sq esq "
    "jan feb apr aug sept oct nov dec"
)
"""Anywhere: such a stop ends a sentence only before a word that often starts one."""
STARTERS = _listed(
    "a an the this that these those there here he she it we you they i his her its our your their "
    "my in on at by for from with to of as if when while after before since although though then "
    "but and or so yet not no yes what who why how where however one"
)
DOTTED = re.compile(r"[^\W\d_]{1,3}(?:\.[^\W\d_]{1,3})+")  # U.S, a.m, Ph.D
MARKER = re.compile(r"\d{1,3}|[A-Za-z]|[ivxIVX]+")  # of an item in a list: 1., b., iv.


def sentences(text: str) -> list[Span]:
    """The sentences of a text, each an exact slice of it; what lies between is white space."""
    return list(_sentences(arguments.text("text", text)))


def _sentences(text: str) -> Iterator[Span]:
    start = None
    for word, following in pairwise(chain(re.finditer(r"\S+", text), [None])):
        assert word is not None  # only the last is None, and it never comes first in a pair
        start = word.start() if start is None else start
        if following is not None:
            gap = text[word.end() : following.start()]
            if gap.count("\n") < 2 and not _ends(word[0], following[0], start == word.start()):
                continue
        yield Span(text[start : word.end()], start, word.end())
        start = None


def _ends(word: str, following: str, first: bool) -> bool:
    """Whether a sentence ends with this word, given the next; first if it is all there is of it."""
    body = word.rstrip(CLOSING)
    before = body.rstrip(STOPS)
    stop = body[len(before) :]
    after = following.lstrip(OPENING)
    if not stop or after[:1].islower():
        return False
    return stop != "." or not _abbreviates(before.lstrip(OPENING), after, first)


def _abbreviates(before: str, after: str, first: bool) -> bool:
    """Whether the stop after a word belongs to the word."""
    plain = before.lower()
    if plain in CONNECTORS or (plain in TITLES and before[0].isupper()):
        return True
    if plain in NUMBERED:
        return after[:1].isdigit()
    if first and MARKER.fullmatch(before):
        return True
    if len(before) == 1 and before.isupper() and before != "I":  # an initial, not the pronoun
        return True
    if plain in ABBREVIATIONS or DOTTED.fullmatch(before):
        return re.split(r"\W", after)[0].lower() not in STARTERS
    return False
