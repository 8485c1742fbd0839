"""What BERT's two heads say of a text: which words its masks stand for (56), and whether one text
follows another (59). Training the heads is left to ``training``, measuring them to ``evaluation``.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.capabilities import require_fits, require_served, tokenizer_of
from vesalius.equations import softmax
from vesalius.equations.parameters import Array
from vesalius.errors import EmptySequence, UnusableData, WrongKind
from vesalius.generation.forward import hidden_states, mlm_logits, nsp_logits
from vesalius.model import Model, ModelLike, loaded
from vesalius.tokenizers import Encoded, Tokenizer
from vesalius.views.shown import Part, Shown, Table, noted

MASK = "[MASK]"


@dataclass(frozen=True)
class Candidate:
    """A token that may stand in the place of a mask."""

    token: str
    id: int
    probability: float


@dataclass(frozen=True)
class Filled:
    """One mask: its place among the tokens, and the likeliest candidates, best first."""

    position: int
    candidates: list[Candidate]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Filling(Shown):
    """All masks of a text in their order, and the text with the best candidate in each."""

    text: str
    masks: list[Filled]
    hint: str = ""
    """What may be wrong with the text."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        lines = [
            f"[MASK] {number}: "
            + ", ".join(f"{c.token!r} {c.probability:.1%}" for c in mask.candidates[:5])
            for number, mask in enumerate(self.masks, 1)
        ]
        return "\n  ".join([self.text, *lines, *noted(self.hint)])

    def view(self) -> Iterator[Part]:
        yield self.text
        for number, mask in enumerate(self.masks, 1):
            rows = [(c.id, repr(c.token), f"{c.probability:.4f}") for c in mask.candidates]
            title = f"[MASK] {number}, token {mask.position}"
            yield Table(("id", "token", "probability"), rows, right=(0, 2), title=title)
        yield from noted(self.hint)


@dataclass(frozen=True)
class NextSentence(Shown):
    """Two probabilities that add up to one: the second text follows the first, or is not from
    there."""

    follows: float
    elsewhere: float
    hint: str = ""
    """What may be wrong with the texts."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def view(self) -> Iterator[Part]:
        rows = [
            ("it follows", f"{self.follows:.4f}"),
            ("it is from elsewhere", f"{self.elsewhere:.4f}"),
        ]
        yield Table(("the second text", "probability"), rows, right=(1,))
        yield from noted(self.hint)


def fill(model: ModelLike, text: str, top: int = 5) -> Filling:
    """The ``top`` likeliest tokens for every [MASK] of a text.

    All masks are predicted in one pass, each as if the others stayed masked. Probabilities are
    those of (56) over the whole vocabulary.
    """
    model = loaded(model)
    require_served(model, "fill")
    text, top = arguments.text("text", text), arguments.whole("top", top, least=1)
    _require_head(model, "mlm_head", "masked tokens", "BertForMaskedLM")
    tokenizer = tokenizer_of(model)
    mask = tokenizer.special.get(MASK)
    if mask is None:
        raise WrongKind(f"the model's tokenizer has no {MASK}; expected BERT's, word-pieces")
    encoded = tokenizer.encode_with_offsets(text)
    masked = np.array(encoded.ids) == mask
    if not masked.any():
        raise UnusableData(f"there is no {MASK} in {_short(text)}; write it where a word is wanted")
    states = _states(model, encoded, "the text")
    probabilities = _probabilities(mlm_logits(model, states[masked]))
    masks = [
        Filled(int(place), _best(tokenizer, row, top))
        for place, row in zip(np.flatnonzero(masked), probabilities, strict=True)
    ]
    hint = tokenizer.note_unknown(encoded.ids)
    return Filling(_replaced(text, encoded, masks, tokenizer), masks, hint)


def next_sentence(model: ModelLike, first: str, second: str) -> NextSentence:
    """Whether the second text follows the first, by (59).

    Of the two logits the first means that it does, as in Hugging Face's models and in training.
    """
    model = loaded(model)
    require_served(model, "next-sentence")
    _require_head(model, "nsp_head", "next sentences", "BertForNextSentencePrediction")
    if model.config.symbols()["segments"] < 2:
        raise WrongKind("this bert has one segment, so it cannot tell two texts apart")
    tokenizer = tokenizer_of(model)
    for which, text in (("first", first), ("second", second)):
        arguments.text(which, text)
        if not tokenizer.encode_many([text], framed=False)[0]:
            raise EmptySequence(f"the {which} text is empty; expected some words")
    pair = tokenizer.encode_pair(first, second)
    states = _states(model, pair, "the pair of texts")
    ((follows, elsewhere),) = _probabilities(nsp_logits(model, states[:1]))
    return NextSentence(float(follows), float(elsewhere), tokenizer.note_unknown(pair.ids))


def _states(model: Model, encoded: Encoded, what: str) -> Array:
    """The states of every token."""
    require_fits(model, len(encoded.ids), what, "shorten it")
    return hidden_states(model, [encoded.ids], segments=[encoded.segments])[0]


def _probabilities(logits: Array) -> Array:
    """The softmax of (56) and (58), in double precision."""
    probabilities: Array = softmax(logits.astype(np.float64), axis=-1)
    return probabilities


def _require_head(model: Model, head: str, purpose: str, named: str) -> None:
    if not getattr(model.config, head):
        raise WrongKind(
            f"this bert has no head for {purpose}; expected one that was trained for them, such as "
            f"{named} or BertForPreTraining"
        )


def _best(tokenizer: Tokenizer, probabilities: Array, top: int) -> list[Candidate]:
    best = np.argsort(-probabilities, kind="stable")[:top]
    return [Candidate(tokenizer.piece(int(i)), int(i), float(probabilities[i])) for i in best]


def _replaced(text: str, encoded: Encoded, masks: list[Filled], tokenizer: Tokenizer) -> str:
    """The text with the best candidates; one that goes on with a word is joined to it."""
    written, done = "", 0
    for mask in masks:
        start, end = encoded.offsets[mask.position]
        best = mask.candidates[0]
        written += text[done:start]
        if tokenizer.continues(best.id):
            written = written.rstrip() + best.token.removeprefix("##")
        else:
            written += best.token
        done = end
    return written + text[done:]


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
