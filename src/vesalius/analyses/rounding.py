"""Whether terms make a value: how far rounding alone can bring their sum from what is stored.

Roundings are as often up as down, so those of a sum of n products grow with √n: the sum is off by
a few √n ε times the sizes of its terms, where ε is the precision of the stored numbers (2⁻²³ in
float32). Beyond ``FEW`` of them no chance is left: what differs by more is not that sum.
"""

import math
from typing import Any

import numpy as np

FEW = 8


def precision(values: Any) -> float:
    """The distance from 1 to the next number of this kind; 0 where all are whole."""
    kind = np.asarray(values).dtype
    return float(np.finfo(kind).eps) if np.issubdtype(kind, np.floating) else 0.0


def bound(count: int, sizes: float, epsilon: float) -> float:
    """How far rounding can move a sum of so many terms; 0 where one is infinite."""
    most = FEW * math.sqrt(count) * epsilon * sizes
    return most if math.isfinite(most) else 0.0


def agrees(difference: float, most: float) -> bool:
    """Whether rounding alone explains a difference."""
    return abs(difference) <= most


def verdict(difference: float, most: float) -> str:
    """The difference from the stored value, and whether it is within the bound."""
    told = f"minus the stored value {difference:.1e}"
    if agrees(difference, most):
        return f"{told}; rounding allows {most:.0e}"
    return f"{told}, which rounding does not explain: it allows {most:.0e}"
