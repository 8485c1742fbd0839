"""Labels of texts by counted words: TF-IDF and a linear model, of scikit-learn."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.machine import require
from vesalius.metrics.baseline import Baseline, chosen, fitting
from vesalius.metrics.classes import ClassPredictions
from vesalius.metrics.predictions import Predictions
from vesalius.metrics.values import ValuePredictions
from vesalius.tasks.labelling.data import LabelledTexts
from vesalius.tasks.labelling.metrics import LabelPredictions

STRENGTHS = (1.0, 10.0, 100.0)
"""Inverse regularisation strengths to choose from; 1 is scikit-learn's own."""
STEPS = 300
"""Of the solver, at most."""
LINEAR = {"classes": "logistic regression", "labels": "logistic regression", "values": "ridge"}
"""By what is told of texts: the linear model of their words."""


class Tfidf:
    """Words weighted by how rare they are, and a linear model of them.

    ``kind`` is classes, labels (several at once) or values.
    """

    def __init__(
        self, texts: Sequence[str], labels: Array, strength: float = 1.0, kind: str = "classes"
    ) -> None:
        require("sklearn")
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression, Ridge
        from sklearn.multiclass import OneVsRestClassifier

        self.kind, self.words = kind, TfidfVectorizer(sublinear_tf=True)
        self.linear: Any = LogisticRegression(C=strength, max_iter=STEPS)
        if kind == "labels":
            self.linear = OneVsRestClassifier(self.linear)
        elif kind == "values":
            self.linear = Ridge(alpha=1 / strength)
        with fitting():
            self.linear.fit(self.words.fit_transform(texts), labels)

    def values(self, texts: Sequence[str]) -> Array:
        return np.asarray(self.linear.predict(self.words.transform(texts)))

    def probabilities(self, texts: Sequence[str], classes: int) -> Array:
        """Texts x classes; a class without training examples has none."""
        found = np.zeros((len(texts), classes))
        found[:, self.linear.classes_] = self.linear.predict_proba(self.words.transform(texts))
        return found

    def predictions(self, part: LabelledTexts) -> Predictions:
        """What it says of texts, beside the truth."""
        texts = _words(part)
        if self.kind == "values":
            return ValuePredictions(part.inputs, part.labels, self.values(texts))
        odds = self.probabilities(texts, len(part.names))
        if self.kind == "labels":
            return LabelPredictions(part.inputs, part.names, part.labels > 0, odds)
        return ClassPredictions(part.inputs, part.names, part.labels, odds)


def _words(part: LabelledTexts) -> list[str]:
    if part.seconds is None:
        return part.texts
    return [f"{first} {second}" for first, second in zip(part.texts, part.seconds, strict=True)]


BEST = {"classes": "accuracy", "labels": "micro_f1", "values": "mean_squared_error"}
"""What the strength is chosen by."""


def by_words(
    kind: str, training: LabelledTexts, part: LabelledTexts, seed: int = 0
) -> list[Baseline]:
    """TF-IDF with a linear model, fitted on some texts and measured on others."""
    require("sklearn")
    texts = _words(training)

    def score(strength: float, train: list[int], valid: list[int]) -> float:
        some = training.chosen(train)
        fitted = Tfidf(_words(some), some.labels, strength, kind)
        found = fitted.predictions(training.chosen(valid)).metrics().numbers()[BEST[kind]]
        return -found if kind == "values" else found

    classes = training.labels.tolist() if kind == "classes" else [0] * len(training)
    strength = chosen(STRENGTHS, classes, seed, score)
    fitted = Tfidf(texts, training.labels, strength, kind)
    about = f"counted words and {LINEAR[kind]} (strength {strength:g}), on {len(training):,} texts"
    return [Baseline("TF-IDF", about, fitted.predictions(part).metrics().numbers())]
