"""Linear models of features by scikit-learn, as the weights of a head that reads the features.

Features are standardised before the fit, and the penalty is the one with the lowest loss on the
validation part. Both are folded into the weights: W z + b with z = (x − μ) / σ is a map of x too.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.errors import UnusableData

PENALTIES = tuple(10.0**power for power in range(4, -4, -1))
"""Weights of ½ ‖W‖² beside the sum of losses: 1/C of logistic regression."""
LBFGS: dict[str, Any] = {"max_iter": 1000, "tol": 1e-6}
"""When a fit ends: at the largest number of iterations, or once the mean loss has no slope."""
ROUGH: dict[str, Any] = {"max_iter": 100, "tol": 1e-4, "warm_start": True}
"""The same while penalties are compared, each beginning where the one before ended."""
UNSEEN = -100.0
"""The logit of a class that no example to train on has."""


@dataclass(frozen=True)
class Part:
    """Examples as the head reads them, and their answers."""

    features: Float[Array, "N d"]
    answers: Array


@dataclass(frozen=True)
class Fit:
    """A linear map of features as they are, and the penalty that it was found with."""

    weight: Float[Array, "outputs d"]
    bias: Float[Array, " outputs"]
    penalty: float


@dataclass(frozen=True)
class Standard:
    """Features at zero mean, where the head has a bias, and unit deviation."""

    mean: Float[Array, " d"]
    std: Float[Array, " d"]

    @classmethod
    def of(cls, features: Float[Array, "N d"], centred: bool) -> Standard:
        wide = features.astype(np.float64)
        mean, std = wide.mean(axis=0), wide.std(axis=0)
        # What hardly varies is not blown up, or single precision could not undo it.
        std = np.where(std > 1e-5 * np.abs(wide).max(initial=1e-30), std, 1.0)
        return cls(mean if centred else np.zeros_like(mean), std)

    def apply(self, features: Float[Array, "N d"]) -> Float[Array, "N d"]:
        return np.asarray((features - self.mean) / self.std)

    def folded(self, weight: Array, bias: Array, penalty: float) -> Fit:
        """The map of features as they came, from one of standardised features."""
        unscaled = weight / self.std
        return Fit(unscaled, bias - unscaled @ self.mean, penalty)


_loss: Callable[[tuple[Any, ...]], float] = operator.itemgetter(0)


def _best(
    train: Part,
    valid: Part,
    biased: bool,
    fit: Callable[..., Any],
    loss: Any,
    rough: Callable[..., Any] | None = None,
) -> Fit:
    """The fit whose penalty gives the lowest validation loss; of equals the largest penalty.

    Where fits take long, ``rough`` ones are compared.

    Weaker penalties take longest; none is tried after two that were worse than the best.
    """
    standard = Standard.of(train.features, biased)
    z, held_out = standard.apply(train.features), standard.apply(valid.features)
    tried = []
    with warnings.catch_warnings():  # a fit that was cut short is judged like the others
        warnings.filterwarnings("ignore", "lbfgs failed to converge")
        for penalty in PENALTIES:
            weight, bias = (rough or fit)(z, penalty)
            tried.append((loss(held_out @ weight.T + bias), weight, bias, penalty))
            if min(tried[-2:], key=_loss)[0] > min(tried, key=_loss)[0]:
                break
        _, weight, bias, penalty = min(tried, key=_loss)
        if rough is not None:
            weight, bias = fit(z, penalty)
    return standard.folded(weight, bias, penalty)


def logistic(train: Part, valid: Part, outputs: int, biased: bool) -> Fit:
    """Classes, by multinomial logistic regression."""
    from sklearn.linear_model import LogisticRegression

    there = np.unique(train.answers)
    if len(there) < 2:
        raise UnusableData(
            f"all {len(train.answers):,} examples to train on have one class; expected two at least"
        )

    def fit(z: Array, penalty: float, solver: Any = None) -> tuple[Array, Array]:
        solver = solver or LogisticRegression(fit_intercept=biased, **LBFGS)
        solver.set_params(C=1 / penalty).fit(z, train.answers)
        found, offset = solver.coef_, np.broadcast_to(solver.intercept_, len(solver.coef_))
        if len(there) == 2:  # one row, for the second class against the first
            found, offset = np.concatenate([-found, found]) / 2, np.append(-offset, offset) / 2
        weight, bias = np.zeros((outputs, z.shape[1])), np.full(outputs, UNSEEN if biased else 0.0)
        weight[there], bias[there] = found, offset
        return weight, bias

    known = np.isin(valid.answers, there)

    def loss(logits: Array) -> float:
        rows, answers = logits[known], valid.answers[known]
        top = rows.max(axis=1)
        total = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
        return float((total - rows[np.arange(len(rows)), answers]).sum())

    searching = LogisticRegression(fit_intercept=biased, **ROUGH)
    return _best(train, valid, biased, fit, loss, partial(fit, solver=searching))


def ridge(train: Part, valid: Part, outputs: int, biased: bool) -> Fit:
    """Values, by ridge regression."""
    from sklearn.linear_model import Ridge

    def fit(z: Array, penalty: float) -> tuple[Array, Array]:
        solver = Ridge(alpha=penalty, fit_intercept=biased).fit(z, train.answers)
        return solver.coef_.reshape(outputs, -1), np.broadcast_to(solver.intercept_, outputs)

    def loss(found: Array) -> float:
        return float(np.square(found - valid.answers).sum())

    return _best(train, valid, biased, fit, loss)


FITS: dict[str, Callable[[Part, Part, int, bool], Fit]] = {"classes": logistic, "values": ridge}
"""By what an objective's answers are."""
