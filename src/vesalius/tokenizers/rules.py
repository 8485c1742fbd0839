"""Tokenisation by rules: the five ways of Table 7, white space, characters, and words with offsets.

Each way adds one rule to the way before it. Rules know no words, so they err where a dictionary
would not ("during" is no form of "dur"); vocabularies learned from data are in ``training``.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from unicodedata import category

from vesalius import arguments

NAMES = ("New York",)
"""Names of several words that are one token."""
SUFFIXES = ("ing", "ed", "est")
EXPANSIONS = {
    "'m": "am",
    "n't": "not",
    "'re": "are",
    "'ve": "have",
    "'ll": "will",
    "'d": "would",  # or had: without grammar the commoner of the two
}
STEMS = {"ca": "can", "wo": "will", "sha": "shall", "ai": "is"}
"""What is left of a verb where its n't is split off, and the verb."""

LETTERS = r"[\w\u0300-\u036f]+"  # with accents that are characters of their own
WORD = re.compile(
    r"(?:[^\W\d_]\.){2,}(?!\w)"  # U.S., e.g.
    rf"|{LETTERS}(?:(?:['’-]|(?<=\d)[.,:](?=\d)){LETTERS})*"  # I'm, well-known, 1,000.5, 12:30
    r"|([^\w\s])\1*"  # ., ..., --, !!
)
CONTRACTION = re.compile(r"(?:n['’]t|['’](?:m|re|ve|ll|d|s))\Z", re.IGNORECASE)


class Span(NamedTuple):
    """A piece of a text, and where it is: ``text`` is the whole text's ``[start:end]``."""

    text: str
    start: int
    end: int


def words(text: str) -> list[Span]:
    """Words, numbers and punctuation; every character but white space is in exactly one."""
    matches = WORD.finditer(arguments.text("text", text))
    return [Span(match[0], *match.span()) for match in matches]


def tokens(text: str) -> list[Span]:
    """Words as treebanks have them: contractions are apart, as in I · 'm and ca · n't."""
    found = []
    for word in words(text):
        start = word.start
        for part in _contracted(word.text):
            found.append(Span(part, start, start + len(part)))
            start += len(part)
    return found


def split_off_punctuation(text: str) -> list[str]:
    """The 1st way: I'm · looking · for · a · job · in · New · York · ."""
    return [word.text for word in words(text)]


def split_contractions(text: str) -> list[str]:
    """The 2nd way: I · 'm · looking · ..."""
    return [part for word in split_off_punctuation(text) for part in _contracted(word)]


def expand_contractions(text: str, names: Sequence[str] = NAMES) -> list[str]:
    """The 3rd way, which keeps names together too: I · am · ... · New York · ."""
    return list(_expanded(_joined(split_contractions(text), names)))


def drop_punctuation(text: str, names: Sequence[str] = NAMES) -> list[str]:
    """The 4th way: the 3rd without tokens that are punctuation and nothing else."""
    tokens = expand_contractions(text, names)
    return [t for t in tokens if not all(category(character)[0] == "P" for character in t)]


def strip_suffixes(
    text: str, names: Sequence[str] = NAMES, suffixes: Sequence[str] = SUFFIXES
) -> list[str]:
    """The 5th way: I · am · look · ##ing · ..."""
    tokens = drop_punctuation(text, names)
    return [part for t in tokens for part in ([t] if t in names else _stemmed(t, suffixes))]


WAYS: tuple[Callable[[str], list[str]], ...] = (
    split_off_punctuation,
    split_contractions,
    expand_contractions,
    drop_punctuation,
    strip_suffixes,
)
"""The five ways of Table 7, in its order."""

RULES: dict[str, Callable[[str], list[str]]] = {
    "spaces": lambda text: arguments.text("text", text).split(),
    "characters": lambda text: list(arguments.text("text", text)),
    "punctuation": split_off_punctuation,
    "contractions": split_contractions,
    "expansions": expand_contractions,
    "no-punctuation": drop_punctuation,
    "suffixes": strip_suffixes,
}
"""Every rule by the name that the command line has for it."""


def _contracted(word: str) -> list[str]:
    """can't is ca · n't, and shouldn't've is should · n't · 've."""
    ends, at = [], len(word)
    while match := CONTRACTION.search(word, max(1, at - 3), at):
        ends.append(match[0])
        at = match.start()
    return [word[:at], *reversed(ends)]


def _joined(tokens: list[str], names: Sequence[str]) -> list[str]:
    """Tokens of a name joined to one, the longest name first."""
    parts = sorted(((split_contractions(name), name) for name in names), key=lambda p: -len(p[0]))
    joined, at = [], 0
    while at < len(tokens):
        found = (p for p in parts if p[0] and tokens[at : at + len(p[0])] == p[0])
        part, token = next(found, ([tokens[at]], tokens[at]))
        joined.append(token)
        at += len(part)
    return joined


def _expanded(tokens: list[str]) -> Iterator[str]:
    for token, following in pairwise([*tokens, ""]):
        table = STEMS if _plain(following) == "n't" else EXPANSIONS
        word = table.get(_plain(token))
        yield _in_the_case_of(token, word) if word else token


def _plain(token: str) -> str:
    return token.replace("’", "'").lower()


def _in_the_case_of(token: str, word: str) -> str:
    if token.isupper() and len(token) > 1:
        return word.upper()
    return word[0].upper() + word[1:] if token[0].isupper() else word


def _stemmed(token: str, suffixes: Sequence[str]) -> list[str]:
    """A word as stem and suffix, where the stem has three letters and a vowel among them."""
    for suffix in sorted(suffixes, key=len, reverse=True):
        stem, end = token[: -len(suffix)], token[-len(suffix) :]
        voiced = not set("aeiouy").isdisjoint(stem.lower())
        if end.lower() == suffix and stem.isalpha() and len(stem) > 2 and voiced:
            return [stem, f"##{end}"]
    return [token]
