"""Images without a network: logistic regression of pixels."""

from collections.abc import Sequence

import numpy as np

from vesalius.data.images import Images
from vesalius.errors import UnusableData
from vesalius.machine import require
from vesalius.metrics.baseline import Baseline, chosen, fitting
from vesalius.metrics.classes import ClassPredictions

STRENGTHS = (0.01, 0.1, 1.0)
"""Inverse regularisation strengths to choose from, for z-scored pixels."""
STEPS = 100
MOST = 1 << 25
"""Pixels to fit on at most: more would take minutes."""


def by_pixels(
    training: Images, part: Images, names: Sequence[str], seed: int = 0
) -> list[Baseline]:
    """Logistic regression of z-scored pixels."""
    require("sklearn")
    from sklearn.linear_model import LogisticRegression

    if training.pixels.size > MOST:
        raise UnusableData(
            f"{len(training):,} images have {training.pixels.size:,} pixels, and logistic "
            f"regression of more than {MOST:,} takes minutes"
        )
    assert training.labels is not None
    assert part.labels is not None
    labels = training.labels
    given, asked = (some.pixels.reshape(len(some), -1) / 255 for some in (training, part))
    mean, std = given.mean(axis=0), given.std() or 1.0
    given, asked = (given - mean) / std, (asked - mean) / std

    def fit(strength: float, rows: list[int] | slice) -> LogisticRegression:
        with fitting():
            return LogisticRegression(C=strength, max_iter=STEPS).fit(given[rows], labels[rows])

    def score(strength: float, train: list[int], valid: list[int]) -> float:
        return float(fit(strength, train).score(given[valid], labels[valid]))

    strength = chosen(STRENGTHS, labels.tolist(), seed, score)
    fitted = fit(strength, slice(None))
    odds = np.zeros((len(part), len(names)))
    odds[:, fitted.classes_] = fitted.predict_proba(asked)
    said = ClassPredictions(part.origins, names, part.labels, odds)
    about = f"logistic regression of them (strength {strength:g}), on {len(training):,} images"
    return [Baseline("pixels", about, said.metrics().numbers())]
