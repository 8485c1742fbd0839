"""The surprisal of every token of a text: how unlikely a model of the next token found it.

Texts are read as ``evaluate`` reads them, in windows where they are longer than the context.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.capabilities import tokenizer_of
from vesalius.errors import EmptySequence, WrongKind
from vesalius.evaluation import at_once, predicting, require_causal
from vesalius.families import FAMILIES, family_of
from vesalius.generation import forward
from vesalius.model import ModelLike, loaded
from vesalius.tokenizers.kinds import END_OF_TEXT
from vesalius.views.shown import Part, Shown, Table, counted


@dataclass(frozen=True)
class TokenSurprisal:
    """One token, and what the model gave it before it came."""

    token: str
    id: int
    start: int
    """Where it begins in the text, in characters."""
    end: int
    probability: float | None
    """None of a first token that nothing stands before."""
    bits: float | None
    """−log₂ of the probability."""
    rank: int | None
    """1 where the model found no other token likelier."""


@dataclass(frozen=True, repr=False)
class Surprisal(Shown):
    """The surprisal of every token of a text, in bits."""

    text: str
    tokens: tuple[TokenSurprisal, ...]

    @property
    def bits(self) -> float:
        """The surprisal of the whole text: the sum over its tokens."""
        return sum(token.bits for token in self.tokens if token.bits is not None)

    @property
    def perplexity(self) -> float:
        """2 to the power of the mean surprisal of the tokens that have one."""
        known = sum(token.bits is not None for token in self.tokens)
        return float(2.0 ** (self.bits / known))

    def __repr__(self) -> str:
        return f"<Surprisal: {counted(len(self.tokens), 'token')}, {self.bits:.2f} bits>"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "bits": self.bits, "perplexity": self.perplexity}

    def view(self) -> Iterator[Part]:
        rows = [
            (
                repr(one.token),
                "" if one.probability is None else f"{one.probability:.4g}",
                "" if one.bits is None else f"{one.bits:.2f}",
                "" if one.rank is None else f"{one.rank:,}",
            )
            for one in self.tokens
        ]
        yield Table(("token", "probability", "bits", "rank"), rows, right=(1, 2, 3))
        tokens = counted(len(self.tokens), "token")
        yield f"{tokens}, {self.bits:,.2f} bits, perplexity {self.perplexity:,.2f}"


def surprisal(model: ModelLike, text: str, stride: int | None = None) -> Surprisal:
    """The probability, surprisal and rank of every token of a text, given those before it.

    A text begins after the end of another where the tokenizer has a token for that, as in
    ``evaluate``; otherwise nothing is said of its first token. Of a text longer than the context,
    each token has at least ``context - stride`` tokens before it; the stride is half the context by
    default.
    """
    model = loaded(model)
    if not family_of(model.config).predicts_text:
        raise WrongKind(
            f"surprisal needs a model of the next token of a text, not {model.family}; "
            f"use {', '.join(name for name, one in FAMILIES.items() if one.predicts_text)}"
        )
    require_causal(model)
    tokenizer = tokenizer_of(model)
    stride = None if stride is None else arguments.whole("stride", stride, least=1)
    text = arguments.text("text", text)
    rows = tokenizer.to_json(text)
    before = [tokenizer.special[END_OF_TEXT]] if END_OF_TEXT in tokenizer.special else []
    ids = np.array([*before, *(row["id"] for row in rows)], dtype=np.int64)
    if len(ids) < 2:
        raise EmptySequence(f"expected a text of at least {2 - len(before)} tokens, got {text!r}")
    found: list[tuple[float, int] | None] = [] if before else [None]
    for states, targets in predicting(model, ids, stride, in_order=True):
        for start in range(0, len(targets), at_once(model)):
            part = slice(start, start + at_once(model))
            nats, ranks = forward.ranked(forward.logits(model, states[part]), targets[part])
            found += zip(nats.tolist(), ranks.tolist(), strict=True)
    return Surprisal(text, tuple(map(_token, rows, found)))


def _token(row: dict[str, Any], found: tuple[float, int] | None) -> TokenSurprisal:
    place = (row["token"], row["id"], row["start"], row["end"])
    if found is None:
        return TokenSurprisal(*place, None, None, None)
    nats, rank = found
    return TokenSurprisal(*place, math.exp(-nats), nats / math.log(2), rank)
