"""Classes of texts by counted words: TF-IDF and logistic regression, of scikit-learn."""

from collections.abc import Sequence

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.extras import require

STRENGTHS = (1.0, 10.0, 100.0)
"""Inverse regularisation strengths to choose from on validation; 1 is scikit-learn's own."""


class Tfidf:
    """Words weighted by how rare they are, and a linear classifier of them.

    Of several strengths, that with the best accuracy on validation is kept.
    """

    def __init__(
        self,
        texts: Sequence[str],
        labels: Array,
        valid: tuple[Sequence[str], Array] | None = None,
        strengths: Sequence[float] = STRENGTHS,
    ) -> None:
        require("sklearn")
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        self.words = TfidfVectorizer(sublinear_tf=True)
        features, best = self.words.fit_transform(texts), -1.0
        for strength in strengths if valid is not None else (1.0,):
            fitted = LogisticRegression(C=strength, max_iter=300).fit(features, labels)
            score = 0.0
            if valid is not None:
                score = fitted.score(self.words.transform(valid[0]), valid[1])
            if score > best:
                best, self.strength, self.classifier = score, strength, fitted

    def probabilities(self, texts: Sequence[str], classes: int) -> Array:
        """Texts x classes; a class without training examples has none."""
        found = np.zeros((len(texts), classes))
        found[:, self.classifier.classes_] = self.classifier.predict_proba(
            self.words.transform(texts)
        )
        return found
