"""Classes: accuracy, macro F1, calibration, a table for each class, and who is taken for whom."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from vesalius.equations.parameters import Array
from vesalius.errors import WrongLength
from vesalius.machine import require
from vesalius.metrics.predictions import WORST, Metrics, Predictions, Row, Share, more
from vesalius.views import pictures
from vesalius.views.shown import Part, Table

BINS = 15
"""Of the calibration error: confidences in equal steps from 0 to 1."""
DRAWN = 20
"""Classes of a confusion matrix that is drawn; of more, those with the most errors."""

LONGEST = 34
"""Letters of a name that tables and pictures show; JSON has it whole."""
NARROW = 6
"""Letters of a name that fits above a column; where one is longer, columns have numbers."""


@dataclass(frozen=True)
class ClassRow:
    """One class among the others."""

    name: str
    precision: float
    recall: float
    f1: float
    examples: int
    mistaken_for: str
    """The class that its errors went to most often; empty where it has none."""


@dataclass(frozen=True, repr=False)
class ClassMetrics(Metrics):
    """What predicted classes came to, beside the true ones."""

    names: tuple[str, ...]
    confusion: Array
    """How often the class of a row was taken for that of a column."""
    accuracy: float
    macro_f1: float
    """The mean F1 of all classes, each with the same weight."""
    calibration_error: float
    """How far confidences are from the shares of right answers (expected calibration error)."""
    rows: tuple[ClassRow, ...]
    drawn = True

    @property
    def examples(self) -> int:
        return int(self.confusion.sum())

    def numbers(self) -> dict[str, float]:
        return {
            "accuracy": Share(self.accuracy),
            "macro_f1": self.macro_f1,
            "calibration_error": self.calibration_error,
        }

    def __repr__(self) -> str:
        return (
            f"ClassMetrics: {self.accuracy:.2%} of {self.examples:,} right, "
            f"macro F1 {self.macro_f1:.4f}, calibration error {self.calibration_error:.4f}"
        )

    def view(self) -> Iterator[Part]:
        yield repr(self).partition(": ")[2]
        yield from self.tables()

    def tables(self) -> Iterator[Part]:
        worst = sorted(self.rows, key=lambda row: (row.f1, -row.examples))
        rows = [
            (
                _cut(r.name),
                *(f"{score:.4f}" for score in (r.precision, r.recall, r.f1)),
                f"{r.examples:,}",
                f"→ {_cut(r.mistaken_for)}" if r.mistaken_for else "",
            )
            for r in worst[:WORST]
        ]
        heads = ("class", "precision", "recall", "F1", "examples", "mistaken for")
        yield Table(heads, rows, right=(1, 2, 3, 4), beneath=(5,))
        yield from more(len(worst), "classes")

    def to_json(self) -> dict[str, Any]:
        return {
            **self.numbers(),
            "examples": self.examples,
            "classes": [vars(row) for row in self.rows],
            "confusion": self.confusion.tolist(),
        }

    def picture(self) -> str:
        """The confusion matrix, of the classes with the most errors where there are many."""
        wrong = self.confusion - np.diag(np.diag(self.confusion))
        errors = wrong.sum(0) + wrong.sum(1)
        shown = np.sort(np.argsort(-errors, kind="stable")[:DRAWN])
        names = [self.names[i] for i in shown]
        columns, rows = names, names
        if max(map(len, names)) > NARROW:
            columns = [str(number) for number in range(1, len(names) + 1)]
            rows = [f"{_cut(name)}  {number}" for name, number in zip(names, columns, strict=True)]
        title = "true class (row) and predicted class (column)"
        if len(names) < len(self.names):
            title += f": the {len(names)} of {len(self.names)} classes with the most errors"
        counts = self.confusion[np.ix_(shown, shown)].astype(float)
        counts[counts == 0] = np.nan
        words = [["" if np.isnan(v) else f"{v:.0f}" for v in row] for row in counts]
        axes, room = ("true", "predicted"), LONGEST + 4
        return pictures.grid(counts, rows, columns, title, axes, False, words, room=room)


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


@dataclass(frozen=True, eq=False)
class ClassPredictions(Predictions):
    """The probabilities of classes."""

    inputs: Sequence[str]
    names: Sequence[str]
    truth: Int[Array, " examples"]
    probabilities: Float[Array, "examples classes"]

    def metrics(self) -> ClassMetrics:
        return class_metrics(self.truth, self.probabilities, self.names)

    def errors(self) -> list[Row]:
        predicted, certain = self.probabilities.argmax(1), self.probabilities.max(1)
        wrong = np.flatnonzero(predicted != self.truth)
        wrong = wrong[np.argsort(-certain[wrong], kind="stable")]
        return [
            (
                self.inputs[i],
                self.names[self.truth[i]],
                self.names[predicted[i]],
                f"{certain[i]:.6f}",
            )
            for i in wrong.tolist()
        ]


def class_metrics(truth: Array, probabilities: Array, names: Sequence[str]) -> ClassMetrics:
    """The metrics of examples x classes of probabilities, where ``truth`` holds classes' numbers.

    Macro F1 is the mean over the classes that occur: in the truth, or among the predictions.
    """
    require("sklearn")
    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

    truth, probabilities = np.asarray(truth), np.asarray(probabilities)
    if probabilities.shape != (len(truth), len(names)):
        raise WrongLength(
            f"expected probabilities of {len(truth)} examples x {len(names)} classes, "
            f"got {' x '.join(map(str, probabilities.shape))}"
        )
    predicted, numbers = probabilities.argmax(1), np.arange(len(names))
    counts = confusion_matrix(truth, predicted, labels=numbers)
    scores = precision_recall_fscore_support(truth, predicted, labels=numbers, zero_division=0)
    rows = tuple(
        ClassRow(name, float(p), float(r), float(f), int(many), _mistaken(counts[i], i, names))
        for i, (name, p, r, f, many) in enumerate(zip(names, *scores, strict=True))
    )
    return ClassMetrics(
        tuple(names),
        counts,
        float(accuracy_score(truth, predicted)),
        float(np.mean(scores[2][np.union1d(truth, predicted)])),
        calibration_error(probabilities.max(1), predicted == truth),
        rows,
    )


def _mistaken(counts: Array, true: int, names: Sequence[str]) -> str:
    others = np.where(np.arange(len(counts)) == true, 0, counts)
    return names[int(others.argmax())] if others.any() else ""


def calibration_error(confidence: Array, right: Array) -> float:
    """Expected calibration error: the mean gap of confidence and accuracy over equal bins."""
    confidence = np.asarray(confidence, np.float64)
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    gaps = np.bincount(bins, np.asarray(right, np.float64) - confidence, BINS)
    return float(np.abs(gaps).sum() / max(1, len(confidence)))
