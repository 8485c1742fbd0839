"""Values: the mean squared and absolute error, and the share of the variance explained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from vesalius.equations.parameters import Array
from vesalius.machine import require
from vesalius.metrics.predictions import Metrics, Predictions, Row


@dataclass(frozen=True, repr=False)
class ValueMetrics(Metrics):
    """What predicted values came to, beside the true ones, in their own units."""

    mean_squared_error: float
    mean_absolute_error: float
    r2: float
    """The share of the variance that is explained; 0 is as good as the mean of the true values."""

    def numbers(self) -> dict[str, float]:
        return {
            "mean_squared_error": self.mean_squared_error,
            "mean_absolute_error": self.mean_absolute_error,
            "r2": self.r2,
        }

    def __repr__(self) -> str:
        return (
            f"ValueMetrics: mean squared error {self.mean_squared_error:.4f}, mean absolute error "
            f"{self.mean_absolute_error:.4f}, R² {self.r2:.4f}"
        )

    def to_json(self) -> dict[str, Any]:
        return self.numbers()


@dataclass(frozen=True, eq=False)
class ValuePredictions(Predictions):
    """Numbers, in the units that they came in."""

    heads = ("input", "truth", "prediction", "error")

    inputs: Sequence[str]
    truth: Float[Array, " examples"]
    predicted: Float[Array, " examples"]

    def metrics(self) -> ValueMetrics:
        require("sklearn")
        from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

        both = self.truth, self.predicted
        explained = r2_score(*both) if len(self.truth) > 1 else float("nan")
        return ValueMetrics(
            float(mean_squared_error(*both)), float(mean_absolute_error(*both)), float(explained)
        )

    def errors(self) -> list[Row]:
        """All values, the largest errors first."""
        off = self.predicted - self.truth
        return [
            (self.inputs[i], f"{self.truth[i]:.6g}", f"{self.predicted[i]:.6g}", f"{off[i]:.6g}")
            for i in np.argsort(-np.abs(off), kind="stable").tolist()
        ]
