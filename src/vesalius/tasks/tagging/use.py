"""A tag for every word of a text, by a BERT that was fine-tuned for it; of IOB2, the entities.

Training such a model is left to ``training``, measuring it to ``evaluation``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.capabilities import require_served, tokenizer_of
from vesalius.data.inputs import label_names
from vesalius.equations import softmax
from vesalius.equations.parameters import Array
from vesalius.errors import EmptySequence, WrongKind
from vesalius.generation.forward import hidden_states, token_logits
from vesalius.model import Model, ModelLike, loaded
from vesalius.tasks.tagging.alignment import Aligner
from vesalius.tasks.tagging.entities import entities, is_iob2
from vesalius.tokenizers import rules
from vesalius.tokenizers.sentences import sentences
from vesalius.views.shown import Part, Shown, Table, noted


@dataclass(frozen=True)
class TaggedWord:
    """A word with its likeliest tag; of a text, the characters from start to end."""

    word: str
    tag: str
    probability: float
    sentence: int
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Entity:
    """Words that are one entity: from the first, up to the last, which is not among them."""

    kind: str
    text: str
    first: int
    last: int
    probability: float
    """The least of its words'."""


@dataclass(frozen=True, repr=False)
class Tagging(Shown):
    """All words of a text in their order."""

    words: list[TaggedWord]
    entities: list[Entity] | None
    """None where tags are not IOB2's."""
    hint: str = ""
    """What may be wrong with the text."""

    @property
    def tags(self) -> list[str]:
        return [word.tag for word in self.words]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        tagged = " ".join(f"{word.word}/{word.tag}" for word in self.words)
        return "\n  ".join([tagged, *noted(self.hint)])

    def view(self) -> Iterator[Part]:
        rows = [(word.word, word.tag, f"{word.probability:.4f}") for word in self.words]
        yield Table(("word", "tag", "probability"), rows, right=(2,))
        if self.entities is not None:
            found = [(one.text, one.kind, f"{one.probability:.4f}") for one in self.entities]
            if found:
                yield Table(("entity", "kind", "probability"), found, right=(2,), prose=(0,))
            else:
                yield "no entities"
        yield from noted(self.hint)


def tag(model: ModelLike, text: str | Sequence[str]) -> Tagging:
    """The tags of a text, or of a sentence that is given as a list of words.

    A text is cut into sentences and words by rules, contractions apart. A sentence longer than the
    model's context is read in windows that overlap; every word gets a tag.
    """
    model = loaded(model)
    require_served(model, "tag")
    config: Any = model.config
    if not config.labels or config.labelled != "tokens":
        raise WrongKind(
            f"this {model.family} has no head for tags of words; expected one that was trained for "
            f"them by the objective tags, such as BertForTokenClassification"
        )
    spans = _spans(text)
    words = [[span.text for span in sentence] for sentence in spans]
    probabilities = _probabilities(model, words)
    names, tagged, found = label_names(model), list[TaggedWord](), list[Entity]()
    for number, (sentence, rows) in enumerate(zip(spans, probabilities, strict=True)):
        best = rows.argmax(axis=1)
        first = len(tagged)
        for span, place, row in zip(sentence, best, rows, strict=True):
            at = (span.start, span.end) if isinstance(text, str) else (None, None)
            tagged.append(TaggedWord(span.text, names[place], float(row[place]), number, *at))
        for kind, start, end in entities([names[place] for place in best]):
            some = tagged[first + start : first + end]
            whole = _joined(text, some)
            least = min(word.probability for word in some)
            found.append(Entity(kind, whole, first + start, first + end, least))
    tokenizer = tokenizer_of(model)
    pieces = tokenizer.encode_many((word for sentence in words for word in sentence), framed=False)
    hint = tokenizer.note_unknown(id_ for ids in pieces for id_ in ids)
    return Tagging(tagged, found if is_iob2(names) else None, hint)


def _spans(text: str | Sequence[str]) -> list[list[rules.Span]]:
    """Sentences of words; of a list of words, one."""
    if not isinstance(text, str):
        listed = [rules.Span(word, 0, 0) for word in arguments.texts("text", text)]
        if not listed or not all(span.text.strip() for span in listed):
            raise EmptySequence("a word is empty, or there is none; expected words")
        return [listed]
    found = [
        [rules.Span(t, s.start + a, s.start + b) for t, a, b in rules.tokens(s.text)]
        for s in sentences(text)
    ]
    found = [sentence for sentence in found if sentence]
    if not found:
        raise EmptySequence("the text is empty; expected some words")
    return found


def _joined(text: str | Sequence[str], words: Sequence[TaggedWord]) -> str:
    if isinstance(text, str):
        return text[words[0].start : words[-1].end]
    return " ".join(word.word for word in words)


def _probabilities(model: Model, words: Sequence[Sequence[str]]) -> list[Array]:
    """Of every sentence, words x tags, each read from a word's first piece."""
    config: Any = model.config
    case = bool(model.preprocessing.case)
    aligner = Aligner(tokenizer_of(model), config.context, case, config.segments)
    rows = aligner.rows(words)
    states = hidden_states(
        model, [row.ids for row in rows], segments=[row.segments for row in rows]
    )
    found: list[list[Array]] = [[] for _ in words]
    for row, some in zip(rows, states, strict=True):
        logits = token_logits(model, some[row.places])
        found[row.sentence].append(softmax(logits.astype(np.float64), axis=-1))
    return [np.concatenate(parts) for parts in found]
