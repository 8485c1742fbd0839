"""English stories without end, whose probabilities are known.

They come from a small grammar that was written for this project. It tells the exact probability of
every next word, hence the loss that no model can beat. Other grammars can be made with ``Grammar``.
"""

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.data.stories import prose
from vesalius.data.stories.grammar import Document, Grammar, Sentence, Token, stream
from vesalius.data.stories.notation import END
from vesalius.data.stories.prose import read as as_words
from vesalius.errors import ImpossibleContext, UnusableGrammar


@cache
def story_grammar() -> Grammar:
    """The grammar of the stories; made once, in a tenth of a second."""
    story = _story()
    tables = {name: story["tables"].get(text, text) for name, text in story["tables"].items()}
    return Grammar(story["rules"], story["words"], tables, story["passing"])


@cache
def _story() -> dict[str, Any]:
    file = Path(__file__).with_name("story.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def stories(seed: int, count: int | None = None) -> Iterator[Document]:
    """Random documents, as many as wanted or without end; the same for the same seed.

    A document is a list of sentences, a sentence a list of words with their parts of speech.
    """
    return story_grammar().documents(seed, count)


def text(seed: int, words: int) -> str:
    """Whole stories, a paragraph each, until there are ``words`` words (signs not counted)."""
    written: list[str] = []
    missing = words
    for document in stories(seed) if words > 0 else ():
        written.append(as_text(stream(document)))
        missing -= len(written[-1].split())
        if missing <= 0:
            break
    return "\n".join(written)


def as_text(words: Sequence[str]) -> str:
    """A stream of words as English text; `as_words` is the way back."""
    return prose.write(words, {"i", *_story()["words"]["PROPN"].split()})


def next_word(context: str | Sequence[str]) -> dict[str, float]:
    """The exact probability of every word that can follow, given all of the document so far.

    The context is a list of words, or text whose last document goes on:
    ``next_word("I knew it was going to rain but I forgot to take my")``.
    """
    words = as_words(context)[:-1] if isinstance(context, str) else context
    return story_grammar().next_word(words)


def distributions(words: Sequence[str]) -> Iterator[dict[str, float]]:
    """What `next_word` says before each of the words, and after the last; in one pass."""
    return story_grammar().distributions(words)


def log_probabilities(words: Sequence[str]) -> Float[Array, " n"]:
    """log p(wᵢ | w₁ ... wᵢ₋₁) of each word of a stream, in nats; after `END` all begins anew."""
    return story_grammar().log_probabilities(words)


def log_probability(document: Document) -> float:
    """The exact log probability of a document in nats, its end included."""
    return story_grammar().log_probability(document)


def entropy() -> float:
    """The exact entropy of the stories in nats per word: the floor of every model's loss.

    Words are those of the stream: signs count, and so does the `END` of each document. For other
    tokens, divide the nats of a document, ``story_grammar().measure.nats``, by its mean number of
    tokens.
    """
    return story_grammar().measure.entropy


def perplexity_floor() -> float:
    """exp(entropy): no model's perplexity per word is lower."""
    return story_grammar().measure.perplexity


def vocabulary() -> list[str]:
    """All words: `END`, then the others in alphabetical order."""
    return story_grammar().vocabulary()


def tags() -> list[str]:
    """The parts of speech, named as in Universal Dependencies, in alphabetical order."""
    return story_grammar().tags()
