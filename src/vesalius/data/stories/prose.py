"""Words as people write them, with capitals, spaces and paragraphs; and back without loss."""

import re
from collections.abc import Collection, Iterator, Sequence

from vesalius.data.stories.grammar import STOP
from vesalius.data.stories.notation import END

COMMA, QUOTE = ",", '"'


def write(words: Sequence[str], names: Collection[str]) -> str:
    """The text of a stream of words: a paragraph for each document, an empty line between them.

    Sentences, direct speech and names begin with a capital. Stops, commas and quotation marks
    stand where English puts them.
    """
    return "\n".join("".join(_pieces(document, names)) + "\n" for document in _documents(words))


def read(text: str) -> list[str]:
    """The stream of words of a text: lower case, each sign a word, `END` after each paragraph."""
    paragraphs = [p for p in re.split(r"\n\s*\n", text.lower()) if p.strip()]
    return [word for p in paragraphs for word in (*re.findall(r"\w+|[^\w\s]", p), END)]


def _documents(words: Sequence[str]) -> Iterator[list[str]]:
    document: list[str] = []
    for word in words:
        if word == END:
            yield document
            document = []
        else:
            document.append(word)
    if document:
        yield document


def _pieces(document: Sequence[str], names: Collection[str]) -> Iterator[str]:
    """Each word with its capital, and the space before it where there is one."""
    earlier, before, quoting = "", STOP, False
    for place, word in enumerate(document):
        opened = quoting and before == QUOTE
        attached = word in (STOP, COMMA) or opened or (quoting and word == QUOTE)
        capital = word in names or before == STOP or (opened and earlier == COMMA)
        yield (" " if place and not attached else "") + (word.capitalize() if capital else word)
        quoting ^= word == QUOTE
        earlier, before = before, word
