"""Images and series without a network: logistic regression of pixels, and the nearest neighbour."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from vesalius.baselines.baseline import Baseline, chosen, fitting
from vesalius.data.images import Images
from vesalius.data.series import PaddedSeries, Series
from vesalius.equations.parameters import Array
from vesalius.errors import UnusableData
from vesalius.extras import require
from vesalius.metrics.classes import ClassPredictions
from vesalius.metrics.values import ValuePredictions
from vesalius.preparation import Scaling

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


def nearest_series(
    training: Series, part: Series, scaling: Scaling, names: Sequence[str] | None = None
) -> list[Baseline]:
    """The class of the nearest training series, or its number where there are no classes.

    Distances are Euclidean, of z-scored values; short series are filled with the mean at their end.
    """
    require("sklearn")
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    given, asked = _rows(training, part, scaling)
    about = f"the nearest of {len(training):,} training series, Euclidean"
    if names is None:
        assert training.targets is not None
        assert part.targets is not None
        found = KNeighborsRegressor(1).fit(given, training.targets).predict(asked)
        numbers = ValuePredictions(part.origins, part.targets, found).metrics().numbers()
    else:
        assert training.labels is not None
        assert part.labels is not None
        fitted = KNeighborsClassifier(1).fit(given, training.labels)
        odds = np.zeros((len(part), len(names)))
        odds[:, fitted.classes_] = fitted.predict_proba(asked)
        numbers = ClassPredictions(part.origins, names, part.labels, odds).metrics().numbers()
        del numbers["calibration_error"]  # one neighbour is always certain
    return [Baseline("1-NN", about, numbers)]


def _rows(
    training: Series, part: Series, scaling: Scaling
) -> tuple[Float[Array, "series nC"], Float[Array, "others nC"]]:
    longest = max(len(values) for some in (training, part) for values in some.values)
    padded = PaddedSeries(
        training=training, validation=part, batch=1, context=longest, scaling=scaling
    )
    given, asked = (
        padded.padded(some, np.arange(len(some)))[0].reshape(len(some), -1)
        for some in (training, part)
    )
    return given, asked
