"""Questions with their paragraphs as a model reads them, in windows where a paragraph is long.

A window is [CLS] question [SEP] a part of the paragraph [SEP]. Its answer is a span of tokens, or
[CLS] where it holds none whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from numpy.random import Generator

from vesalius.data.batches import Batch, Bucketed, Rows
from vesalius.errors import EmptySequence, ImpossibleSetting, WrongKind
from vesalius.tasks.answering.data import Question
from vesalius.tasks.tagging.alignment import padded
from vesalius.tokenizers import Encoded, Tokenizer

LEAST = 8
"""Tokens of a paragraph that a window holds at least."""


@dataclass(frozen=True, eq=False)
class Passage:
    """One window."""

    ids: Int[Array, " n"]
    before: int
    """Tokens before the paragraph's: [CLS], the question and [SEP]."""
    offsets: list[tuple[int, int]]
    """The characters of the paragraph's tokens."""
    begins: Bool[Array, " m_and_one"]
    """Which of the paragraph's tokens, and of the one after them, begin a word."""
    question: int = 0
    start: int = 0
    end: int = 0
    """The first and the last token of the answer; 0, which is [CLS], for none."""

    @property
    def segments(self) -> Int[Array, " n"]:
        kinds = np.zeros(len(self.ids), np.int64)
        kinds[self.before :] = 1
        return kinds

    @property
    def allowed(self) -> Bool[Array, " n"]:
        """Where an answer may start and end: in the paragraph, or nowhere, which is [CLS]."""
        found = np.arange(len(self.ids)) >= self.before
        found[0], found[-1] = True, False
        return found


class Reader:
    """Questions to passages, for one tokenizer and one context."""

    def __init__(
        self, tokenizer: Tokenizer, context: int, stride: int | None = None, question: int = 64
    ) -> None:
        marks = tokenizer.special
        if not {"[CLS]", "[SEP]"} <= marks.keys():
            raise WrongKind("questions are read by BERT's tokenizer, which has [CLS] and [SEP]")
        if context < question + 3 + LEAST:
            question = max(1, context // 2 - 3)
        if context < question + 3 + LEAST:
            raise ImpossibleSetting(
                f"a question and {LEAST} tokens of its paragraph need a longer context than "
                f"{context}"
            )
        self.tokenizer, self.context, self.stride = tokenizer, context, stride
        self.most = question
        self.first, self.between = marks["[CLS]"], marks["[SEP]"]
        self.cut = 0
        """Questions that were longer than ``most``, of which the beginning is read."""
        self._read: tuple[str, Encoded] | None = None

    def passages(self, text: str, paragraph: str, number: int = 0) -> list[Passage]:
        """The windows of a question and its paragraph."""
        (asked,) = self.tokenizer.encode_many([text], framed=False)
        encoded = self._encoded(paragraph)
        for what, ids in (("question", asked), ("paragraph", encoded.ids)):
            if not ids:
                raise EmptySequence(f"the {what} is empty; expected some words")
        self.cut += len(asked) > self.most
        head = [self.first, *asked[: self.most], self.between]
        room = self.context - len(head) - 1
        if self.stride is not None and self.stride > room:
            raise ImpossibleSetting(
                f"stride is {self.stride}, but a window holds {room} tokens of the paragraph; "
                f"some would be in none"
            )
        begins = np.array([*(not self.tokenizer.continues(i) for i in encoded.ids), True])
        found = []
        for start in starts(len(encoded.ids), room, self.stride):
            part = slice(start, start + room)
            read = np.array([*head, *encoded.ids[part], self.between], np.int64)
            some = begins[start : start + room + 1]
            found.append(Passage(read, len(head), encoded.offsets[part], some, number))
        return found

    def _encoded(self, paragraph: str) -> Encoded:
        """The paragraph's tokens; several questions in turn have the same."""
        if self._read is None or self._read[0] != paragraph:
            encoded = self.tokenizer.encode_with_offsets(paragraph, framed=False)
            self._read = paragraph, encoded
        return self._read[1]

    def all(self, questions: Sequence[Question]) -> list[Passage]:
        """The windows of all questions, with the place of the first answer of each."""
        found = []
        for number, asked in enumerate(questions):
            for passage in self.passages(asked.text, asked.paragraph, number):
                span = place(passage, asked.spans[0]) if asked.answers else None
                found.append(
                    passage if span is None else replace(passage, start=span[0], end=span[1])
                )
        return found


def starts(count: int, room: int, stride: int | None) -> list[int]:
    """Where windows begin, so that every token is in one; the last is as full as the others."""
    if count <= room:
        return [0]
    step = min(room, stride or max(1, room // 2))
    return [*range(0, count - room, step), count - room]


def place(passage: Passage, span: tuple[int, int]) -> tuple[int, int] | None:
    """The tokens that cover some characters of a paragraph; None where not all are there."""
    inside = [i for i, (a, b) in enumerate(passage.offsets) if a < span[1] and b > span[0]]
    if not inside:
        return None
    first, last = inside[0], inside[-1]
    # Tokens before and after the window may belong to the answer as well.
    whole = passage.offsets[first][0] <= span[0] or first > 0
    whole &= passage.offsets[last][1] >= span[1] or last < len(passage.offsets) - 1
    return (passage.before + first, passage.before + last) if whole else None


class Span(NamedTuple):
    """A candidate: characters of the paragraph, and how likely it is."""

    start: int
    end: int
    probability: float


class Candidates:
    """The likely answers to one question, gathered from its windows.

    Spans are of whole words, at most ``longest`` tokens. A span's probability is p(start) p(end) in
    its window, or the largest in several. That there is no answer is as likely as in the window
    that thinks it least so.
    """

    def __init__(self, longest: int) -> None:
        self.longest, self.nothing = longest, 1.0
        self._spans: dict[tuple[int, int], float] = {}

    def add(
        self, passage: Passage, starting: Float[Array, " n"], ending: Float[Array, " n"]
    ) -> None:
        """A window, by the log-probabilities that the answer starts and ends at its tokens."""
        self.nothing = min(self.nothing, float(np.exp(starting[0] + ending[0])))
        count = len(passage.offsets)
        begin, end = (logs[passage.before : passage.before + count] for logs in (starting, ending))
        apart = np.arange(count)[None, :] - np.arange(count)[:, None]
        allowed = (apart >= 0) & (apart < self.longest)
        allowed &= passage.begins[:-1, None] & passage.begins[None, 1:]
        scores = np.where(allowed, begin[:, None] + end[None, :], -np.inf)
        for flat in np.argsort(-scores, axis=None, kind="stable")[:NEAR]:
            first, last = divmod(int(flat), count)
            if allowed[first, last]:
                span = passage.offsets[first][0], passage.offsets[last][1]
                probability = float(np.exp(scores[first, last]))
                self._spans[span] = max(probability, self._spans.get(span, 0.0))

    def best(self, top: int) -> list[Span]:
        """The likeliest, best first."""
        ranked = sorted(self._spans.items(), key=lambda item: (-item[1], item[0]))
        return [Span(*place, probability) for place, probability in ranked[:top]]


NEAR = 50
"""Candidates of a window that are looked at."""


@dataclass(frozen=True, eq=False)
class Passages(Rows[Passage]):
    """Windows to learn from or to evaluate on."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedText(Bucketed[Passages]):
    """Windows as batches: rows of similar length, padded to the longest."""

    pad: int = 0

    def examples(self, part: Passages, rows: Int[Array, " batch"], random: Generator) -> Batch:
        chosen = [part.rows[row] for row in rows]
        batch = padded([row.ids for row in chosen], [row.segments for row in chosen], self.pad)
        wanted = {
            name: np.array([getattr(row, name) for row in chosen]) for name in ("start", "end")
        }
        allowed = np.zeros(batch["ids"].shape, bool)
        for places, row in zip(allowed, chosen, strict=True):
            places[: len(row.ids)] = row.allowed
        return {**batch, **wanted, "allowed": allowed, "row": np.asarray(rows)}
