"""Answers to questions: exact match and F1 as SQuAD compares them, and which were wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vesalius.metrics.predictions import Metrics, Predictions, Row, Share
from vesalius.tasks.answering.data import Question, compared, exact, f1


@dataclass(frozen=True, repr=False)
class SpanMetrics(Metrics):
    """What answers came to, each against the nearest true one."""

    exact_match: float
    f1: float

    def numbers(self) -> dict[str, float]:
        return {"exact_match": Share(self.exact_match), "f1": self.f1}

    def __repr__(self) -> str:
        return f"SpanMetrics: exact match {self.exact_match:.4f}, F1 {self.f1:.4f}"

    def to_json(self) -> dict[str, Any]:
        return self.numbers()


@dataclass(frozen=True, eq=False)
class SpanPredictions(Predictions):
    """Answers as texts; an empty one says that there is none."""

    heads = ("input", "truth", "prediction", "probability", "f1", "id")

    questions: Sequence[Question]
    said: Sequence[str]
    probabilities: Sequence[float]

    def metrics(self) -> SpanMetrics:
        return SpanMetrics(**compared(self.said, (asked.answers for asked in self.questions)))

    def errors(self) -> list[Row]:
        found: list[tuple[float, Row]] = []
        for asked, said, p in zip(self.questions, self.said, self.probabilities, strict=True):
            truths = asked.answers or ("",)
            if not any(exact(said, truth) for truth in truths):
                shared = max(f1(said, truth) for truth in truths)
                told = (asked.text, "|".join(dict.fromkeys(truths)), said, f"{p:.6f}")
                found.append((p, (*told, f"{shared:.4f}", asked.id)))
        return [row for _, row in sorted(found, key=lambda pair: -pair[0])]
