"""Tags of words: a table for each tag, and of IOB2 the entities of each type, strictly."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vesalius.metrics.classes import ClassMetrics, class_metrics
from vesalius.metrics.predictions import WORST, Metrics, Predictions, Row, Share, more
from vesalius.tasks.tagging.data import Tagged
from vesalius.tasks.tagging.entities import entities, entity_scores, is_iob2
from vesalius.views.shown import Part, Table


@dataclass(frozen=True)
class TypeRow:
    """Entities of one type: found where type, first and last word are right."""

    name: str
    precision: float
    recall: float
    f1: float
    entities: int


@dataclass(frozen=True, repr=False)
class TagMetrics(Metrics):
    """What predicted tags came to, beside the true ones."""

    words: ClassMetrics
    """The tags of all words."""
    entity: dict[str, float]
    """Precision, recall and F1 over entities; empty where tags are not IOB2's."""
    types: tuple[TypeRow, ...]
    drawn = True

    def numbers(self) -> dict[str, float]:
        found = {f"entity_{name}": value for name, value in self.entity.items()}
        return {"accuracy": Share(self.words.accuracy), "macro_f1": self.words.macro_f1, **found}

    def __repr__(self) -> str:
        return f"TagMetrics: {', '.join(f'{k} {v:.4f}' for k, v in self.numbers().items())}"

    def tables(self) -> Iterator[Part]:
        if not self.types:
            yield from self.words.tables()
            return
        worst = sorted(self.types, key=lambda row: (row.f1, -row.entities))
        rows = [
            (r.name, *(f"{v:.4f}" for v in (r.precision, r.recall, r.f1)), f"{r.entities:,}")
            for r in worst[:WORST]
        ]
        yield Table(("type", "precision", "recall", "F1", "entities"), rows, right=(1, 2, 3, 4))
        yield from more(len(worst), "types")

    def to_json(self) -> dict[str, Any]:
        tags = self.words.to_json()
        told = {"tags": tags["classes"], "confusion": tags["confusion"]}
        types = {"types": [vars(row) for row in self.types]} if self.types else {}
        return {**self.numbers(), **told, **types}

    def picture(self) -> str:
        return self.words.picture()


@dataclass(frozen=True, eq=False)
class TagPredictions(Predictions):
    """The tags of sentences."""

    heads = ("sentence", "word", "truth", "prediction", "probability", "line")

    part: Tagged
    names: Sequence[str]
    predicted: Sequence[Sequence[str]]
    probabilities: Sequence[Sequence[float]]
    """Of the predicted tags."""

    def metrics(self) -> TagMetrics:
        places = {name: number for number, name in enumerate(self.names)}
        true = [sentence.tags for sentence in self.part.sentences]
        truth, found = (
            np.array([places[tag] for tags in some for tag in tags])
            for some in (true, self.predicted)
        )
        certain = np.zeros((len(truth), len(self.names)))
        certain[np.arange(len(found)), found] = [p for some in self.probabilities for p in some]
        words = class_metrics(truth, certain, self.names)
        if not is_iob2(self.names):
            return TagMetrics(words, {}, ())
        return TagMetrics(words, entity_scores(self.predicted, true), self._types(true))

    def _types(self, true: Sequence[Sequence[str]]) -> tuple[TypeRow, ...]:
        given, wanted, shared = Counter[str](), Counter[str](), Counter[str]()
        for ours, theirs in zip(self.predicted, true, strict=True):
            found, expected = set(entities(ours)), set(entities(theirs))
            for counter, some in ((given, found), (wanted, expected), (shared, found & expected)):
                counter.update(span.kind for span in some)
        return tuple(
            TypeRow(
                kind,
                shared[kind] / max(1, given[kind]),
                shared[kind] / max(1, wanted[kind]),
                2 * shared[kind] / max(1, given[kind] + wanted[kind]),
                wanted[kind],
            )
            for kind in sorted({*given, *wanted})
        )

    def errors(self) -> list[Row]:
        found: list[tuple[float, Row]] = []
        for sentence, tags, odds in zip(
            self.part.sentences, self.predicted, self.probabilities, strict=True
        ):
            lines = sentence.lines or ("",) * len(tags)
            for at, (tag, p) in enumerate(zip(tags, odds, strict=True)):
                if tag != sentence.tags[at]:
                    told = (" ".join(sentence.words), sentence.words[at], sentence.tags[at], tag)
                    found.append((p, (*told, f"{p:.6f}", lines[at])))
        return [row for _, row in sorted(found, key=lambda pair: -pair[0])]
