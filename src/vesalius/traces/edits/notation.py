"""Edits as single words, which addresses hold: ``P[3,4]``, ``c[2,*](31)``, ``p[2,*](31)=1``.

Before the sign stand the steps and cells of ``selection``; without a value they are set to zero.
"""

import math
from collections.abc import Iterable

from vesalius.errors import WrongKind


def read(words: Iterable[str]) -> dict[str, float]:
    """The edits that are meant, as ``dissect`` takes them."""
    return dict(map(_one, words))


def _one(word: str) -> tuple[str, float]:
    steps, sign, text = word.partition("=")
    try:
        value = float(text) if sign else 0.0
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise WrongKind(
            f"cannot read the value of {word!r}; expected a finite number, as in p[2,*](31)=1"
        )
    return steps, value
