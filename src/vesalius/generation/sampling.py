"""The sampler, from logits to the next token: penalty, temperature, truncation, draw.

The order is that of Transformers: first the repetition penalty, then temperature, top-k, top-p and
min-p. Temperature 0 is greedy: the likeliest token, the first of equals.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array

from vesalius import arguments
from vesalius.errors import ImpossibleSetting
from vesalius.machine.properties import cached_property
from vesalius.tokenizers import Tokenizer

Logits = Float[Array, " V"]
DEMANDED = ("temperature", "repetition_penalty")
"""Settings that may not be None."""


@dataclass(frozen=True)
class Sampling:
    """The settings of a sampler."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
            if (value := getattr(self, name)) is not None or name in DEMANDED:
                object.__setattr__(self, name, arguments.number(name, value))
        if self.top_k is not None:
            object.__setattr__(self, "top_k", arguments.whole("top_k", self.top_k))
        _require(self.temperature >= 0, "temperature", "0 or more", self.temperature)
        _require(self.top_k is None or self.top_k >= 1, "top_k", "1 or more", self.top_k)
        _require(self.top_p is None or 0 < self.top_p <= 1, "top_p", "in (0, 1]", self.top_p)
        _require(self.min_p is None or 0 <= self.min_p <= 1, "min_p", "in [0, 1]", self.min_p)
        penalty = self.repetition_penalty
        _require(penalty > 0, "repetition_penalty", "above 0", penalty)


@dataclass(frozen=True, eq=False)
class Draw:
    """One choice of the sampler; its steps are computed when they are looked at."""

    logits: Logits
    sampling: Sampling
    before: Int[Array, " n"]
    """The tokens so far."""
    chance: float
    """The random number that decides, uniform in [0, 1)."""

    def __repr__(self) -> str:
        odds = f"{self.probabilities[self.token]:.4f}"
        return f"Draw: token {self.token}, probability {odds}, from {self.kept.sum():,} tokens"

    def to_json(self, tokenizer: Tokenizer | None = None, most: int = 8) -> dict[str, Any]:
        """The drawn token's id, how many tokens it was drawn from, and candidates.

        Candidates are the ``most`` likeliest tokens, and the drawn one if it is not among them:
        ``id``, ``token`` (its text; the id where there is no tokenizer), ``logit``, ``tempered``
        (the logit after penalty and temperature), ``kept`` (to draw from), ``probability``.
        """
        likeliest = self.penalised.argsort()[::-1][:most].tolist()
        chosen = [*likeliest, *([self.token] if self.token not in likeliest else [])]
        rows = [
            {
                "id": i,
                "token": tokenizer.piece(i) if tokenizer else str(i),
                "logit": float(self.logits[i]),
                "tempered": float(self.tempered[i]),
                "kept": bool(self.kept[i]),
                "probability": float(self.probabilities[i]),
            }
            for i in chosen
        ]
        return {"token": self.token, "kept": int(self.kept.sum()), "candidates": rows}

    @cached_property
    def penalised(self) -> Logits:
        """Keskar et al. 2019: positive logits of earlier tokens divided, negative multiplied."""
        penalty = self.sampling.repetition_penalty
        if penalty == 1 or not len(self.before):
            return self.logits
        seen, changed = np.unique(self.before), self.logits.copy()
        logits = self.logits[seen]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            changed[seen] = np.where(logits > 0, logits / penalty, logits * penalty)
        changed[self.logits == 0] = 0  # which an infinite penalty would make NaN
        return _finite(changed)

    @cached_property
    def tempered(self) -> Float[Array, " V"]:
        """Logits divided by the temperature, in float64; unchanged where it is 0.

        Where the largest would overflow, it is subtracted first, which changes no probability.
        """
        logits, divisor = self.penalised.astype(np.float64), self.sampling.temperature or 1
        with np.errstate(over="ignore"):
            if not np.isfinite(logits.max() / divisor):
                logits -= logits.max()
            return _finite(logits / divisor)

    @cached_property
    def kept(self) -> Bool[Array, " V"]:
        """Which tokens top-k, top-p and min-p leave to draw from; one where greedy."""
        if self.sampling.temperature == 0:
            return np.arange(len(self.logits)) == self.token
        return truncated(self.tempered, self.sampling)

    @cached_property
    def probabilities(self) -> Float[Array, " V"]:
        return softmax(np.where(self.kept, self.tempered, -np.inf))

    @cached_property
    def token(self) -> int:
        if self.sampling.temperature == 0:
            return int(self.penalised.argmax())
        likely = np.flatnonzero(self.probabilities)
        sums = self.probabilities[likely].cumsum()
        return int(likely[np.searchsorted(sums[:-1], self.chance * sums[-1], side="right")])


def truncated(tempered: Logits, sampling: Sampling) -> Bool[Array, " V"]:
    """Which tokens top-k, top-p and min-p leave to draw from."""
    kept = np.ones(len(tempered), bool)
    if sampling.top_k is not None and sampling.top_k < len(tempered):
        kept &= tempered >= np.partition(tempered, -sampling.top_k)[-sampling.top_k]
    if sampling.top_p is not None and sampling.top_p < 1:
        odds = softmax(np.where(kept, tempered, -np.inf))
        order = odds.argsort(kind="stable")[::-1]
        # A token stays while likelier ones have less than top_p: the likeliest always does.
        enough = odds[order].cumsum() - odds[order] >= sampling.top_p
        kept[order[enough]] = False
    if sampling.min_p:
        odds = softmax(np.where(kept, tempered, -np.inf))
        kept &= odds >= sampling.min_p * odds.max()
    return kept


def _finite(logits: Logits) -> Logits:
    """What overflowed becomes the largest number, or the smallest."""
    most = np.finfo(logits.dtype).max
    return np.clip(logits, -most, most)


def softmax(logits: Logits) -> Float[Array, " V"]:
    with np.errstate(over="ignore"):  # of what is far below the largest
        odds = np.exp(logits - logits.max())
    return odds / odds.sum()


def _require(fits: bool, name: str, expected: str, got: object) -> None:
    if not fits:
        raise ImpossibleSetting(f"{name} should be {expected}, got {got}")
