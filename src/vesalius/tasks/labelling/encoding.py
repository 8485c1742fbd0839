"""Labelled texts as tokens: read once, cut by rule to what a model reads, padded batch by batch.

A text that is too long loses its end, of a pair the longer one; [CLS] and [SEP] stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array
from numpy.random import Generator

from vesalius.data.batches import Batch, Bucketed, Rows
from vesalius.errors import EmptySequence, ImpossibleSetting
from vesalius.preparation import Scaling
from vesalius.tasks.labelling.data import LabelledTexts, class_weights
from vesalius.tokenizers import Tokenizer
from vesalius.tokenizers.kinds import END_OF_TEXT


class Row(NamedTuple):
    """The tokens of a text, or of two, and which of them each is of."""

    ids: list[int]
    segments: list[int]


@dataclass(frozen=True, eq=False)
class Frame:
    """What a tokenizer puts around a text, and between two.

    BERT's has [CLS] before and [SEP] behind each; others have nothing around a text, and between
    two the token that ends texts, if there is one.
    """

    before: list[int]
    behind: list[int]
    between: list[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Frame":
        before, behind = tokenizer.frame
        special = tokenizer.special
        end = [special[END_OF_TEXT]] if END_OF_TEXT in special else []
        return cls(before, behind, behind or end)

    def row(self, first: list[int], second: list[int] | None, length: int | None) -> Row:
        """One text or two, framed, of at most ``length`` tokens."""
        if second is None:
            ids = [*self.before, *first[: self._room(length, 1)], *self.behind]
            return Row(ids, [0] * len(ids))
        one, other = _shared(len(first), len(second), self._room(length, 2))
        a = [*self.before, *first[:one], *self.between]
        b = [*second[:other], *self.behind]
        return Row([*a, *b], [0] * len(a) + [1] * len(b))

    def _room(self, length: int | None, texts: int) -> int | None:
        """The tokens of texts that fit."""
        if length is None:
            return None
        between = len(self.between) if texts > 1 else 0
        room = length - len(self.before) - between - len(self.behind)
        if room < texts:
            least = length - room + texts
            raise ImpossibleSetting(f"[data] length must be at least {least} here, got {length}")
        return room


def _shared(first: int, second: int, room: int | None) -> tuple[int, int]:
    """How much of two texts fits: tokens are taken from the longer one, of equals the second."""
    if room is None or first + second <= room:
        return first, second
    half = room // 2
    if second <= half:
        return room - second, second
    if first <= room - half:
        return first, room - first
    return room - half, half


def encoded(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    seconds: Sequence[str] | None = None,
    length: int | None = None,
) -> tuple[list[Row], int]:
    """Texts as a model reads them, and how many of them had to be cut."""
    firsts = _pieces(tokenizer, texts)
    frame = Frame.of(tokenizer)
    others = [None] * len(firsts) if seconds is None else _pieces(tokenizer, seconds)
    pairs = list(zip(firsts, others, strict=True))
    rows = [frame.row(first, second, length) for first, second in pairs]
    whole = (frame.row(first, second, None) for first, second in pairs)
    cut = sum(len(row.ids) < len(full.ids) for row, full in zip(rows, whole, strict=True))
    return rows, cut


def _pieces(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    rows = tokenizer.encode_many(texts, framed=False)
    for number, row in enumerate(rows):
        if not row:
            raise EmptySequence(
                f"text {number + 1} of {len(rows)} has no tokens: {texts[number][:40]!r}; "
                f"expected some words"
            )
    return rows


@dataclass(frozen=True, eq=False)
class Encoded(Rows[Row]):
    """Texts as tokens, with their labels."""

    labels: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledBatches(Bucketed[Encoded]):
    """``ids`` padded to the longest of a batch, which are ``real``, and ``labels``.

    ``segments`` are there for models that tell two texts apart, ``weights`` where classes are
    balanced, which is for training only. Values are scaled.
    """

    segments: int = 0
    weights: Array | None = None
    scaling: Scaling | None = None
    notes: tuple[str, ...] = ()
    """What was done to the texts that whoever trains should know."""

    def examples(self, part: Encoded, rows: Int[Array, " batch"], random: Generator) -> Batch:
        some = [part.rows[row] for row in rows]
        longest = max(len(row.ids) for row in some)
        batch = {"ids": padded([row.ids for row in some], longest)}
        batch["real"] = padded([[1] * len(row.ids) for row in some], longest) > 0
        if self.segments:
            kinds = padded([row.segments for row in some], longest)
            batch["segments"] = np.minimum(kinds, self.segments - 1)
        labels = part.labels[rows]
        if self.scaling is not None:
            labels = self.scaling.apply(labels[:, None])
        batch["labels"] = labels
        if self.weights is not None:
            batch["weights"] = self._weights(labels)
        return batch

    def _weights(self, labels: Array) -> Array:
        assert self.weights is not None
        if labels.ndim == 1:
            return np.asarray(self.weights[labels])
        return np.asarray(np.where(labels > 0, self.weights[1], self.weights[0]))


def padded(rows: Sequence[Sequence[int]], longest: int) -> Int[Array, "batch n"]:
    """Rows of numbers behind which stand zeros."""
    found = np.zeros((len(rows), longest), np.int64)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


def batches(
    training: LabelledTexts,
    validation: LabelledTexts,
    tokenizer: Tokenizer,
    *,
    length: int | None,
    segments: int,
    batch: int,
    seed: int,
    balance: bool = False,
    scaling: Scaling | None = None,
) -> LabelledBatches:
    """Both parts as tokens of at most a length."""
    parts, cut = list[Encoded](), 0
    for part in (training, validation):
        rows, shortened = encoded(tokenizer, part.texts, part.seconds, length)
        parts.append(Encoded(rows, part.labels))
        cut += shortened
    total = len(training) + len(validation)
    note = f"{cut:,} of {total:,} texts are longer than {length} tokens; their ends are cut off"
    return LabelledBatches(
        training=parts[0],
        validation=parts[1],
        batch=batch,
        seed=seed,
        segments=segments,
        weights=class_weights(training) if balance else None,
        scaling=scaling,
        notes=(note,) if cut else (),
    )
