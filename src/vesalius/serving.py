"""Which verb serves which families, and what every verb that reads text needs of a model.

Whether a model has the head that a verb wants is left to the verb.
"""

from typing import TYPE_CHECKING

from vesalius.errors import SequenceTooLong, UnknownSetting, WrongKind, nearest
from vesalius.families import FAMILIES

if TYPE_CHECKING:
    from vesalius.model import Model
    from vesalius.tokenizers import Tokenizer

LANGUAGE = ("ffnn", "rnn", "lstm", "transformer", "gpt2")
TEXT = (*LANGUAGE, "bert")

SERVES: dict[str, tuple[str, ...]] = {
    "generate": (*LANGUAGE, "igpt"),
    "fill": ("bert",),
    "next-sentence": ("bert",),
    "classify": ("vit", "tst"),
    "embed": TEXT,
    "similar": TEXT,
    "evaluate": tuple(FAMILIES),
}
"""The families that each verb takes a model of."""


def require_served(model: "Model", verb: str) -> None:
    """Refuse a model of a family that a verb is not for, and say what it is for."""
    if verb not in SERVES:
        raise UnknownSetting(f"unknown verb {verb!r}; {nearest(verb, SERVES)}")
    if model.family in SERVES[verb]:
        return
    served = [name for name, families in SERVES.items() if model.family in families]
    raise WrongKind(
        f"{verb} needs a model of {_listed(SERVES[verb], 'or')}, this is {model.family}, "
        f"which serves {_listed(served, 'and')}"
    )


def tokenizer_of(model: "Model") -> "Tokenizer":
    """The model's tokenizer, without which it reads no text."""
    if model.tokenizer is None:
        raise WrongKind(
            "this model has no tokenizer, so texts cannot be given to it; expected tokenizer.json "
            "or vocabulary files in its folder"
        )
    return model.tokenizer


def context_of(model: "Model") -> int | None:
    """The longest sequence that the model reads; None where there is no such."""
    return getattr(model.config, "context", None)


def require_fits(model: "Model", count: int, what: str, remedy: str) -> None:
    """Refuse more tokens than the model has positions for."""
    context = context_of(model)
    if context is not None and count > context:
        raise SequenceTooLong(f"{what} has {count} tokens, the model reads {context}; {remedy}")


def _listed(names: tuple[str, ...] | list[str], word: str) -> str:
    *before, last = names
    return f"{', '.join(before)} {word} {last}" if before else last
