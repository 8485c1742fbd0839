"""What BERT learns from: sentence pairs of documents, with some of their tokens masked (6.2).

A row is [CLS] A [SEP] B [SEP], or [CLS] A [SEP]. B follows A in the text, or comes from another
document; that is what next-sentence prediction is to tell, and only the words tell it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy import ndarray as Array

from vesalius.data.batches import Batch, generator
from vesalius.data.masking import mask_tokens
from vesalius.data.tokens import Tokens
from vesalius.errors import EmptyCorpus, ImpossibleSetting, WrongKind
from vesalius.machine.properties import cached_property
from vesalius.tokenizers import Tokenizer

VALIDATION = 0x5EA1ED  # a key of its own, apart from all steps
FRAME = ("[CLS]", "[SEP]", "[MASK]", "[PAD]")


class Spans(NamedTuple):
    """Stretches of a text, one for each row: where they begin, and how many tokens they have."""

    begin: Array
    length: Array


@dataclass(frozen=True)
class Sentences:
    """A text by sentence, from which stretches are drawn.

    A seam is a place where a sentence of a document ends and its next one begins.
    """

    tokens: Tokens

    @property
    def starts(self) -> Array:
        assert self.tokens.sentences is not None, "masked text is tokenised by sentence"
        return self.tokens.sentences

    @cached_property
    def ends(self) -> Array:
        """Where each document ends."""
        return np.append(self.tokens.documents[1:], len(self.tokens.ids))

    @cached_property
    def seams(self) -> Array:
        return np.setdiff1d(self.starts, self.tokens.documents, assume_unique=True)

    @cached_property
    def counts(self) -> Array:
        """How many seams each document has; those of a document follow each other."""
        return np.bincount(self.document(self.seams), minlength=len(self.ends))

    @cached_property
    def totals(self) -> tuple[Array, Array]:
        """Up to each document: seams, and twos of a seam of its own and one of another's."""
        others = len(self.seams) - self.counts
        return np.cumsum(self.counts), np.cumsum(self.counts * others)

    def document(self, places: Array) -> Array:
        """The numbers of the documents that hold some places."""
        return np.searchsorted(self.tokens.documents, places, side="right") - 1

    def spans(self, rng: np.random.Generator, rows: int, room: int) -> Spans:
        """From a sentence on, as much of its document as there is room for."""
        begin = self.starts[rng.integers(len(self.starts), size=rows)]
        return Spans(begin, np.minimum(room, self.ends[self.document(begin)] - begin))

    def pairs(self, rng: np.random.Generator, rows: int, room: int) -> tuple[Spans, Spans, Array]:
        """A, B, and whether B is from elsewhere.

        Two seams are drawn, A ends at the first, and a coin says at which of them B begins. All
        else is the same for both sides of the coin, so that lengths and ends tell nothing: B goes
        on as far as both documents could, and stops short of the nearer end.
        """
        here, there = self._seams(rng, rows)
        most = rng.integers(max(1, room // 4), max(2, room - room // 4), size=rows)
        first = self._before(here, most)
        left = np.minimum(*(self.ends[self.document(seam)] - seam for seam in (here, there)))
        short = np.maximum(1, left * rng.uniform(0.75, 1, size=rows)).astype(np.int64)
        limit = room - first.length
        elsewhere = rng.random(rows) < 0.5
        second = Spans(np.where(elsewhere, there, here), np.where(left < limit, short, limit))
        return first, second, elsewhere.astype(np.int64)

    def _seams(self, rng: np.random.Generator, rows: int) -> tuple[Array, Array]:
        """Two seams of different documents, all such twos equally likely."""
        seams, twos = self.totals
        document = np.searchsorted(twos, rng.integers(twos[-1], size=rows), side="right")
        own = self.counts[document]
        begin = seams[document] - own
        there = rng.integers(len(self.seams) - own)
        there += np.where(there >= begin, own, 0)  # past those of the first one's document
        return self.seams[begin + rng.integers(own)], self.seams[there]

    def _before(self, seam: Array, most: Array) -> Spans:
        """The sentences before a seam, of ``most`` tokens in all; or the end of the last one."""
        earliest = np.maximum(seam - most, self.tokens.documents[self.document(seam)])
        begin = self.starts[np.searchsorted(self.starts, earliest)]
        begin = np.where(begin < seam, begin, earliest)
        return Spans(begin, seam - begin)


@dataclass(frozen=True)
class MaskedText:
    """ids, segments, real, targets: batch x n; and next: batch, 0 where B follows A, else 1."""

    tokens: Tokens
    held_out: Tokens
    tokenizer: Tokenizer
    length: int
    batch: int
    seed: int
    pairs: bool = True
    ratio: float = 0.15
    plain: bool = False
    """The paper's masking, where each chosen token becomes [MASK]; else BERT's 80/10/10."""
    whole_words: bool = False
    notes: tuple[str, ...] = ()
    """What of the text is not read as it is."""

    def __post_init__(self) -> None:
        missing = [name for name in FRAME if name not in self.marks]
        if missing:
            raise WrongKind(
                f"the tokenizer has no {', '.join(missing)}; masked text needs BERT's, word-pieces"
            )
        least = 5 if self.pairs else 3
        if self.length < least:
            raise ImpossibleSetting(
                f"a row of {self.length} tokens has no room for text and its [CLS] and [SEP]; "
                f"expected {least} at least"
            )
        if self.pairs:
            _require_pairs(self._training, "to train on")
            _require_pairs(self._validation, "to validate on")

    def train(self, step: int) -> Batch:
        return self._rows(self._training, self.batch, generator(self.seed, step))

    def valid(self, most: int | None = None) -> Iterator[Batch]:
        """Rows from anywhere; all together as long as the text, if no number is given."""
        count = len(self.held_out.ids) // self.length + 1
        count = count if most is None else min(most, count)
        for start in range(0, count, self.batch):
            rows = min(self.batch, count - start)
            yield self._rows(self._validation, rows, generator(self.seed, VALIDATION, start))

    @cached_property
    def marks(self) -> dict[str, int]:
        return self.tokenizer.special

    @cached_property
    def _training(self) -> Sentences:
        return Sentences(self.tokens)

    @cached_property
    def _validation(self) -> Sentences:
        return Sentences(self.held_out)

    @cached_property
    def _ordinary(self) -> Array:
        """The tokens that a random one is drawn from."""
        return np.setdiff1d(np.arange(self.tokenizer.rows), list(self.marks.values()))

    @cached_property
    def _continues(self) -> Array:
        """Which tokens go on with a word."""
        return np.array([self.tokenizer.continues(i) for i in range(self.tokenizer.rows)])

    def _rows(self, text: Sentences, rows: int, rng: np.random.Generator) -> Batch:
        if self.pairs:
            first, second, elsewhere = text.pairs(rng, rows, self.length - 3)
            ids, segments, real = self._framed(text.tokens.ids, first, second)
        else:
            ids, segments, real = self._framed(
                text.tokens.ids, text.spans(rng, rows, self.length - 2)
            )
        masked, targets = mask_tokens(
            rng,
            ids,
            candidates=~np.isin(ids, [self.marks[name] for name in FRAME]),
            mask_id=self.marks["[MASK]"],
            replacements=self._ordinary,
            ratio=self.ratio,
            bert=not self.plain,
            words=np.cumsum(~self._continues[ids], axis=1) - 1 if self.whole_words else None,
        )
        batch = {"ids": masked, "segments": segments, "real": real, "targets": targets}
        return {**batch, "next": elsewhere} if self.pairs else batch

    def _framed(
        self, text: Array, first: Spans, second: Spans | None = None
    ) -> tuple[Array, Array, Array]:
        """The rows' ids; the segment of each place; and whether there is anything in it."""
        place = np.arange(self.length)
        ids = np.full((len(first.begin), self.length), self.marks["[SEP]"])
        ids[:, 0] = self.marks["[CLS]"]
        end = np.ones((len(ids), 1), np.int64)
        segments = np.zeros_like(ids)
        for segment, span in enumerate((first, second) if second is not None else (first,)):
            begin, end = end, end + span.length[:, None] + 1
            segments[(begin <= place) & (place < end)] = segment
            inside = (begin <= place) & (place < end - 1)
            ids[inside] = text[(span.begin[:, None] + place - begin)[inside]]
        real = place < end
        return np.where(real, ids, self.marks["[PAD]"]), segments, real


def _require_pairs(text: Sentences, purpose: str) -> None:
    if np.count_nonzero(text.counts) < 2:
        raise EmptyCorpus(
            f"sentence pairs need two documents of two sentences each, but the text {purpose} has "
            f"{np.count_nonzero(text.counts)} such of {len(text.ends)}; every file is a document: "
            f"give a folder of them, or train on masked tokens alone, by the objective mlm"
        )
