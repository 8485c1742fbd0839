"""Series without a network: the nearest neighbour."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from vesalius.data.series import PaddedSeries, Series
from vesalius.equations.parameters import Array
from vesalius.machine import require
from vesalius.metrics.baseline import Baseline
from vesalius.metrics.classes import ClassPredictions
from vesalius.metrics.values import ValuePredictions
from vesalius.preparation import Scaling


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
