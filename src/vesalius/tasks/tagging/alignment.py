"""Words and the pieces that a tokenizer makes of them, in windows that a model can read.

The first piece of a word stands for it; the others are only read. A sentence longer than the
context is read in windows that overlap, and each of its words counts in one of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array
from numpy.random import Generator

from vesalius.data.batches import Batch, Bucketed, Rows
from vesalius.data.masking import IGNORED
from vesalius.errors import ImpossibleSetting, WrongKind
from vesalius.tokenizers import Tokenizer


class Window(NamedTuple):
    """The words from start to stop are read; those from first to last count."""

    start: int
    first: int
    last: int
    stop: int


def windows(lengths: Sequence[int], room: int) -> list[Window]:
    """Windows over words of some lengths in pieces, at most ``room`` pieces in each.

    Two neighbours share half a window; of the words that they share, the former half counts in the
    former. Each word counts once.
    """
    ends = list(accumulate(lengths, initial=0))
    spans, start = list[tuple[int, int]](), 0
    while True:
        stop = bisect_right(ends, ends[start] + room) - 1
        spans.append((start, stop))
        if stop >= len(lengths):
            break
        start = max(start + 1, bisect_left(ends, ends[stop] - room // 2))
    borders = [(later + stop + 1) // 2 for (_, stop), (later, _) in pairwise(spans)]
    firsts, lasts = [0, *borders], [*borders, len(lengths)]
    return [Window(a, f, l, b) for (a, b), f, l in zip(spans, firsts, lasts, strict=True)]


@dataclass(frozen=True, eq=False)
class Row:
    """What a model reads at once: a window of a sentence, framed."""

    ids: Int[Array, " n"]
    segments: Int[Array, " n"]
    places: Int[Array, " words"]
    """Where the first pieces of the words that count are."""
    sentence: int
    words: slice
    """The words that count."""


class Aligner:
    """Words to rows, for one tokenizer and one context.

    With ``case``, words that begin with a capital are read in segment 1: what a tokenizer that
    lowers its text takes away.
    """

    def __init__(
        self, tokenizer: Tokenizer, context: int, case: bool = False, segments: int = 2
    ) -> None:
        marks = tokenizer.special
        if not {"[CLS]", "[SEP]", "[UNK]"} <= marks.keys():
            raise WrongKind("words are tagged with BERT's tokenizer, which has [CLS] and [SEP]")
        if context < 3:
            raise ImpossibleSetting(f"tags need a context of 3 tokens, got {context}")
        if case and segments < 2:
            raise ImpossibleSetting("[data] case needs a model of two segments, this has one")
        self.tokenizer, self.case, self.room = tokenizer, case, context - 2
        self.frame, self.unknown = (marks["[CLS]"], marks["[SEP]"]), marks["[UNK]"]
        self.known: dict[str, list[int]] = {}

    def rows(self, sentences: Sequence[Sequence[str]]) -> list[Row]:
        """The rows of sentences in their order; of a long one, several."""
        new = [*{w: None for words in sentences for w in words if w not in self.known}]
        pieces = self.tokenizer.encode_many(new, framed=False)
        # A word of which nothing is left, such as a single control character, is unknown. Of one
        # that is longer than the context, its beginning is read.
        self.known |= {
            word: ids[: self.room] or [self.unknown] for word, ids in zip(new, pieces, strict=True)
        }
        return [row for number, words in enumerate(sentences) for row in self._rows(number, words)]

    def _rows(self, number: int, words: Sequence[str]) -> list[Row]:
        if not words:
            return []
        pieces = [self.known[word] for word in words]
        lengths = [len(ids) for ids in pieces]
        starts = [0, *accumulate(lengths)]
        found = []
        for start, first, last, stop in windows(lengths, self.room):
            ids = [self.frame[0], *(i for some in pieces[start:stop] for i in some), self.frame[1]]
            capital = [self.case and word[:1].isupper() for word in words[start:stop]]
            segments = [0, *np.repeat(capital, lengths[start:stop]).tolist(), 0]
            places = [1 + starts[word] - starts[start] for word in range(first, last)]
            read, kinds, at = (np.array(a, np.int64) for a in (ids, segments, places))
            found.append(Row(read, kinds, at, number, slice(first, last)))
        return found


@dataclass(frozen=True, eq=False)
class TaggedRows(Rows[Row]):
    """Rows with the tags of the words that count in them."""

    tags: list[list[int]]
    """Of every sentence."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TaggedText(Bucketed[TaggedRows]):
    """Sentences as batches: rows of similar length, padded to the longest."""

    pad: int = 0

    def examples(self, part: TaggedRows, rows: Int[Array, " batch"], random: Generator) -> Batch:
        chosen = [part.rows[row] for row in rows]
        batch = padded([row.ids for row in chosen], [row.segments for row in chosen], self.pad)
        targets = np.full(batch["ids"].shape, IGNORED)
        for target, row in zip(targets, chosen, strict=True):
            target[row.places] = part.tags[row.sentence][row.words]
        sentences = np.array([row.sentence for row in chosen])
        return {**batch, "targets": targets, "sentence": sentences}


def padded(ids: Sequence[Array], segments: Sequence[Array], pad: int) -> Batch:
    """Rows of tokens as arrays that are as long as the longest, and which tokens are real."""
    shape = len(ids), max(map(len, ids))
    found = np.full(shape, pad), np.zeros(shape, np.int64), np.zeros(shape, bool)
    for row, (some, kinds) in enumerate(zip(ids, segments, strict=True)):
        for array, values in zip(found, (some, kinds, True), strict=True):
            array[row, : len(some)] = values
    return dict(zip(("ids", "segments", "real"), found, strict=True))
