"""What a verb may ask of a model before it begins: its family, its tokenizer, its context."""

from vesalius.errors import SequenceTooLong, WrongKind, listed
from vesalius.families import FAMILIES, family_of
from vesalius.model import Model
from vesalius.tokenizers import Tokenizer


def require_served(model: Model, verb: str) -> None:
    """Refuse a model of a family that a verb is not for, and say what it is for."""
    verbs = family_of(model.config).verbs
    if verb in verbs:
        return
    fitting = [family.name for family in FAMILIES.values() if verb in family.verbs]
    assert fitting, f"no family serves {verb}"
    raise WrongKind(
        f"{verb} needs a model of {listed(fitting, 'or')}, this is {model.family}, "
        f"which serves {listed(verbs, 'and')}"
    )


def tokenizer_of(model: Model) -> Tokenizer:
    """The model's tokenizer, without which it reads no text."""
    if model.tokenizer is None:
        raise WrongKind(
            "this model has no tokenizer, so texts cannot be given to it; expected tokenizer.json "
            "or vocabulary files in its folder"
        )
    return model.tokenizer


def context_of(model: Model) -> int | None:
    """The longest sequence that the model reads; None where there is no such."""
    return model.config.context


def require_fits(model: Model, count: int, what: str, remedy: str) -> None:
    """Refuse more tokens than the model has positions for."""
    context = context_of(model)
    if context is not None and count > context:
        raise SequenceTooLong(f"{what} has {count} tokens, the model reads {context}; {remedy}")


def predicts_next(model: Model) -> bool:
    """Whether it predicts the next token: of a text, or of a picture."""
    family = family_of(model.config)
    pixels = family.reads == "pixels" and model.config.causal
    return family.predicts_text or pixels
