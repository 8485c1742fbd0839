"""Texts whose lines were broken to a width: the lines of each paragraph, joined again.

A model that learns from broken lines predicts line ends where nobody writes any. The rule looks at
one paragraph at a time, that is at the lines between two empty lines:

1. A line is joined to the next one if it is full: the next line's first word would have made it
   longer than four fifths of the text's width. A text in which half of the lines are shorter than
   that was not broken to a width, and stays as it is.
2. An indented line stays as it is, and so does the line before it. This keeps tables, letterheads
   and most verse.
3. If all lines of a paragraph begin with a capital or a digit, and there are four or more or one
   is not full, all stay: verse and lists.
4. A line that opens with a quotation mark stays after a line that closes with one: dialogue.

A line that ends in a dash or hyphen, with no space before it, is joined without a space.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

RULE = 1
"""Counted up when the rule changes, so that token files are made again."""
FULL = 0.8
"""Share of the width that a full line exceeds together with the word after it."""
INDENTED = 2
"""Spaces that indent a line; a single one is often left over from typesetting."""
LONGEST = 1 << 16
"""Characters of a paragraph; a longer one is passed on as it is."""

_CAPITAL = re.compile(r"[\W_]*[A-Z0-9]")
_DASH = re.compile(r"[^\s-][-\u2010-\u2015]+$")
_OPENS = re.compile(r" ?[\"'“‘«]")
_CLOSES = re.compile(r"[\"'”’»]$")
_EMPTY = re.compile(r"((?:^|\n)(?:[ \t]*(?:\n|$))+)")


class Shape(NamedTuple):
    """How the lines of a text are set."""

    width: int
    """Nine tenths of the lines that another line follows are no longer than this; 0: no width."""
    margin: int
    """Spaces that most lines begin with."""


def text_shape(lines: Iterable[str]) -> Shape:
    lengths, margins = Counter[int](), Counter[int]()
    before = 0
    for line in lines:
        length = len(line.rstrip())
        if before and length:
            lengths[before] += 1
        if length:
            margins[length - len(line.strip())] += 1
        before = length
    if not lengths:
        return Shape(0, 0)
    margin = max(margins, key=margins.__getitem__)
    half, width = (_quantile(lengths, share) for share in (0.5, 0.9))
    return Shape(width if half - margin > FULL * (width - margin) else 0, margin)


def _quantile(counts: Counter[int], share: float) -> int:
    """The least value that this share of all does not exceed."""
    sums = accumulate(counts[value] for value in sorted(counts))
    rank = share * counts.total()
    return next(value for value, sum_ in zip(sorted(counts), sums, strict=True) if sum_ >= rank)


def join_lines(paragraph: list[str], shape: Shape) -> str:
    """The lines of a paragraph, joined where they were broken to the width."""
    lines = [_without_margin(line.rstrip(), shape.margin) for line in paragraph]
    full = [_is_full(line, after, shape) for line, after in pairwise(lines)]
    if (len(lines) > 3 or not all(full)) and all(map(_CAPITAL.match, lines)):
        return "\n".join(lines)
    pieces = lines[:1]
    for (line, after), joins in zip(pairwise(lines), full, strict=True):
        if not joins or (_CLOSES.search(line) and _OPENS.match(after)):
            pieces += "\n", after
        else:
            pieces += "" if _DASH.search(line) else " ", after.lstrip()
    return "".join(pieces)


def _without_margin(line: str, margin: int) -> str:
    return line[margin:] if line[:margin].isspace() else line


def _is_full(line: str, after: str, shape: Shape) -> bool:
    indent = " " * INDENTED
    if line.startswith(indent) or after.startswith(indent):
        return False
    first = after.split(maxsplit=1)
    if not first:  # a line of separators that Unicode takes for white space
        return False
    return len(line) + 1 + len(first[0]) > FULL * (shape.width - shape.margin)


def join_portions(portions: Iterable[tuple[str, bool]], shape: Shape) -> Iterator[tuple[str, bool]]:
    """Portions of a document with the lines of its paragraphs joined; they end between paragraphs.

    The second of each pair says whether the document ends with the portion.
    """
    waiting = ""
    for text, ends in portions:
        waiting += text
        cut = len(waiting) if ends else _last_paragraph(waiting)
        if ends or cut:
            yield join_paragraphs(waiting[:cut], shape), ends
            waiting = waiting[cut:]


def _last_paragraph(text: str) -> int:
    """Where the empty line before the last paragraph begins, unless that is too long."""
    cut = max(text.rfind("\n\n"), 0)
    return cut if len(text) - cut <= LONGEST else len(text)


def join_paragraphs(text: str, shape: Shape) -> str:
    """A text with the lines of each paragraph joined, and all empty lines as they are."""
    if not shape.width:
        return text
    pieces = _EMPTY.split(text)
    for index in range(0, len(pieces), 2):
        if pieces[index]:
            pieces[index] = join_lines(pieces[index].split("\n"), shape)
    return "".join(pieces)
