"""Several labels at once: micro and macro F1, and a table for each label."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from vesalius.equations.parameters import Array
from vesalius.machine import require
from vesalius.metrics.predictions import WORST, Metrics, Predictions, Row, more
from vesalius.views.shown import Part, Table

GIVEN = 0.5
"""A label counts as given above this probability."""


@dataclass(frozen=True)
class LabelRow:
    """One label among the others."""

    name: str
    precision: float
    recall: float
    f1: float
    examples: int


@dataclass(frozen=True, repr=False)
class LabelMetrics(Metrics):
    """What predicted labels came to, beside the true ones."""

    micro_f1: float
    """F1 over all labels of all examples together."""
    macro_f1: float
    """The mean F1 of all labels, each with the same weight."""
    rows: tuple[LabelRow, ...]

    def numbers(self) -> dict[str, float]:
        return {"micro_f1": self.micro_f1, "macro_f1": self.macro_f1}

    def __repr__(self) -> str:
        return f"LabelMetrics: micro F1 {self.micro_f1:.4f}, macro F1 {self.macro_f1:.4f}"

    def tables(self) -> Iterator[Part]:
        worst = sorted(self.rows, key=lambda row: (row.f1, -row.examples))
        rows = [
            (r.name, *(f"{v:.4f}" for v in (r.precision, r.recall, r.f1)), f"{r.examples:,}")
            for r in worst[:WORST]
        ]
        yield Table(("label", "precision", "recall", "F1", "examples"), rows, right=(1, 2, 3, 4))
        yield from more(len(worst), "labels")

    def to_json(self) -> dict[str, Any]:
        return {**self.numbers(), "labels": [vars(row) for row in self.rows]}


@dataclass(frozen=True, eq=False)
class LabelPredictions(Predictions):
    """The probabilities of labels, each by itself."""

    inputs: Sequence[str]
    names: Sequence[str]
    truth: Bool[Array, "examples labels"]
    probabilities: Float[Array, "examples labels"]

    @property
    def given(self) -> Bool[Array, "examples labels"]:
        return np.asarray(self.probabilities > GIVEN)

    def metrics(self) -> LabelMetrics:
        require("sklearn")
        from sklearn.metrics import f1_score, precision_recall_fscore_support

        truth, given = self.truth.astype(int), self.given.astype(int)
        each = precision_recall_fscore_support(truth, given, average=None, zero_division=0)
        rows = tuple(
            LabelRow(name, float(p), float(r), float(f), int(many))
            for name, p, r, f, many in zip(self.names, *each, strict=True)
        )
        micro = f1_score(truth, given, average="micro", zero_division=0)
        return LabelMetrics(float(micro), float(np.mean(each[2])), rows)

    def errors(self) -> list[Row]:
        """Examples of which any label is wrong; the probability is that of all labels together."""
        given = self.given
        certain = np.where(given, self.probabilities, 1 - self.probabilities).prod(axis=1)
        wrong = np.flatnonzero((given != self.truth).any(axis=1))
        wrong = wrong[np.argsort(-certain[wrong], kind="stable")]
        return [
            (
                self.inputs[i],
                *("|".join(compress(self.names, a[i])) for a in (self.truth, given)),
                f"{certain[i]:.6f}",
            )
            for i in wrong.tolist()
        ]
