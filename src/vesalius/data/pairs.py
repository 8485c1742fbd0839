"""What BERT learns from: sentence pairs of documents, with some of their tokens masked (6.2).

A row is [CLS] A [SEP] B [SEP], or [CLS] A [SEP]. B follows A in the text, or comes from another
document; that is what next-sentence prediction is to tell.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy import ndarray as Array

from vesalius.data.batches import Batch, generator
from vesalius.data.masking import mask_tokens
from vesalius.data.tokens import Tokens
from vesalius.errors import EmptyCorpus, WrongKind
from vesalius.tokenizers import Tokenizer

VALIDATION = 0x5EA1ED  # a key of its own, apart from all steps


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

    def __post_init__(self) -> None:
        missing = [name for name in ("[CLS]", "[SEP]", "[MASK]", "[PAD]") if name not in self.marks]
        if missing:
            raise WrongKind(
                f"the tokenizer has no {', '.join(missing)}; masked text needs BERT's, word-pieces"
            )
        for tokens, purpose in ((self.tokens, "to train on"), (self.held_out, "to validate on")):
            assert tokens.sentences is not None, "masked text is tokenised by sentence"
            if len(tokens.sentences) < 2 or (self.pairs and len(tokens.documents) < 2):
                raise EmptyCorpus(
                    f"the text {purpose} has {len(tokens.documents)} documents and "
                    f"{len(tokens.sentences)} sentences; sentence pairs need two documents"
                )

    def train(self, step: int) -> Batch:
        return self._rows(self.tokens, self.batch, generator(self.seed, step))

    def valid(self, most: int | None = None) -> Iterator[Batch]:
        """Rows from anywhere; all together as long as the text, if no number is given."""
        count = len(self.held_out.ids) // self.length + 1
        count = count if most is None else min(most, count)
        for start in range(0, count, self.batch):
            rows = min(self.batch, count - start)
            yield self._rows(self.held_out, rows, generator(self.seed, VALIDATION, start))

    @cached_property
    def marks(self) -> dict[str, int]:
        return self.tokenizer.special

    @cached_property
    def _ordinary(self) -> Array:
        """The tokens that a random one is drawn from."""
        special = set(self.marks.values())
        return np.array([i for i in range(self.tokenizer.rows) if i not in special])

    @cached_property
    def _continues(self) -> Array:
        """Which tokens go on with a word."""
        return np.array([self.tokenizer.continues(i) for i in range(self.tokenizer.rows)])

    def _rows(self, tokens: Tokens, rows: int, rng: np.random.Generator) -> Batch:
        ids = np.full((rows, self.length), self.marks["[PAD]"])
        segments, follows = np.zeros_like(ids), np.zeros(rows, np.int64)
        lengths = np.zeros(rows, np.int64)
        for row in range(rows):
            first, second, follows[row] = self._texts(tokens, rng)
            a, b = len(first) + 2, len(first) + 2 + len(second) + bool(len(second))
            ids[row, 0], ids[row, 1 : a - 1], ids[row, a - 1] = self._cls, first, self._sep
            if len(second):
                ids[row, a : b - 1], ids[row, b - 1] = second, self._sep
            segments[row, a:b] = 1
            lengths[row] = b
        real = np.arange(self.length) < lengths[:, None]
        candidates = real & (ids != self._cls) & (ids != self._sep)
        words = np.cumsum(~self._continues[ids], axis=1) if self.whole_words else None
        masked, targets = mask_tokens(
            rng,
            ids,
            candidates,
            self.marks["[MASK]"],
            self._ordinary,
            ratio=self.ratio,
            bert=not self.plain,
            words=words,
        )
        batch = {"ids": masked, "segments": segments, "real": real, "targets": targets}
        return batch | ({"next": follows} if self.pairs else {})

    @property
    def _cls(self) -> int:
        return self.marks["[CLS]"]

    @property
    def _sep(self) -> int:
        return self.marks["[SEP]"]

    def _texts(self, tokens: Tokens, rng: np.random.Generator) -> tuple[Array, Array, int]:
        """Two texts and whether the second is a random one; or one text and nothing."""
        starts = tokens.sentences
        assert starts is not None
        at = int(rng.integers(len(starts)))
        document = int(np.searchsorted(tokens.documents, starts[at], side="right")) - 1
        end = self._end(tokens, document)
        if not self.pairs:
            return tokens.ids[starts[at] : min(end, starts[at] + self.length - 2)], _NONE, 0
        room = self.length - 3
        half = int(rng.integers(room // 4, room - room // 4))  # about so long is A
        cut = int(np.searchsorted(starts, starts[at] + half))
        cut = max(at + 1, cut)
        other = rng.random() < 0.5
        if cut >= len(starts) or starts[cut] >= end:  # A reaches the end of the document
            other = True
        stop = min(end, int(starts[cut]) if cut < len(starts) else end)
        first = tokens.ids[starts[at] : min(stop, starts[at] + room - room // 4)]
        begin, limit = self._elsewhere(tokens, document, rng) if other else (int(starts[cut]), end)
        return first, tokens.ids[begin : min(limit, begin + room - len(first))], int(other)

    def _elsewhere(
        self, tokens: Tokens, document: int, rng: np.random.Generator
    ) -> tuple[int, int]:
        """Where a random sentence of another document begins, and where that document ends."""
        assert tokens.sentences is not None
        own = (tokens.documents[document], self._end(tokens, document))
        while True:
            begin = int(tokens.sentences[rng.integers(len(tokens.sentences))])
            if not own[0] <= begin < own[1]:
                other = int(np.searchsorted(tokens.documents, begin, side="right")) - 1
                return begin, self._end(tokens, other)

    @staticmethod
    def _end(tokens: Tokens, document: int) -> int:
        ends = tokens.documents[document + 1 : document + 2]
        return int(ends[0]) if len(ends) else len(tokens.ids)


_NONE = np.empty(0, np.int64)
