"""How good a model is on a corpus: what its heads were trained towards, measured.

Models of the next token predict every token of a text. A transformer sees at least ``context -
stride`` tokens before each, a recurrent network all of them, a window model its window. For the
stories, whose probabilities are known, the distance to the best possible model is told. All other
models are validated as in training.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray as Array

from vesalius import arguments
from vesalius.arguments import Progress, silent
from vesalius.capabilities import context_of
from vesalius.data import stories
from vesalius.data.batches import Batch, Batches
from vesalius.data.texts import Texts
from vesalius.errors import EmptyCorpus, ImpossibleSetting, WrongKind
from vesalius.families import family_of
from vesalius.generation import forward
from vesalius.model import Model, ModelLike, loaded
from vesalius.tokenizers.kinds import END_OF_TEXT
from vesalius.training.objectives import OBJECTIVES, Objective
from vesalius.training.objectives.objective import BATCH
from vesalius.training.objectives.text import corpus_tokens, perplexity
from vesalius.views import Shown, Table, in_lines

if TYPE_CHECKING:
    from vesalius.generation.engines.sessions import Engine

LOGITS = 1 << 26
"""Logits that a transformer gives at once, at most, unless a single row has more."""
STEP = 64
"""Tokens that a recurrent network reads at once."""


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """What an evaluation gave."""

    corpus: str
    part: str
    """What of the corpus was measured."""
    tokens: int
    loss: float
    """Nats per token."""
    perplexity: float
    accuracy: float
    """Share of tokens that were the likeliest."""
    bits_per_byte: float
    nats_per_word: float | None = None
    """Of stories: signs and ends of stories are words too."""
    floor: float | None = None
    """Of stories: the nats per word of the grammar itself, on the same text."""
    unknown: int = 0
    """Tokens that stand for words which the vocabulary lacks. Where there are any, the text is
    easier than it was, and is not compared with the grammar."""

    @property
    def distance(self) -> float | None:
        """Nats per word above the floor."""
        if self.nats_per_word is None or self.floor is None:
            return None
        return self.nats_per_word - self.floor

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "distance": self.distance}

    __repr__ = in_lines

    def view(self) -> Iterator[Table | str]:
        rows = [
            ("tokens", f"{self.tokens:,}"),
            ("nats per token", f"{self.loss:.4f}"),
            ("perplexity", f"{self.perplexity:,.2f}"),
            ("likeliest token right", f"{self.accuracy:.2%}"),
            ("bits per byte", f"{self.bits_per_byte:.4f}"),
        ]
        if self.unknown:
            share = self.unknown / self.tokens
            rows.insert(1, ("of them unknown words", f"{self.unknown:,} ({share:.2%})"))
        if self.distance is not None:
            rows += [
                ("nats per word", f"{self.nats_per_word:.4f}"),
                ("of the grammar itself", f"{self.floor:.4f}"),
                ("distance to the floor", f"{self.distance:.4f}"),
            ]
        yield Table((self.corpus, ""), rows, right=(1,))
        yield _measured(self.part)


@dataclass(frozen=True, repr=False)
class Measures(Shown):
    """What an evaluation of another model than of the next token gave."""

    corpus: str
    part: str
    """What of the corpus was measured."""
    objective: str
    """What was asked of the model."""
    examples: int
    numbers: dict[str, float]
    unknown: int | None = None
    """Of texts: tokens that stand for words which the vocabulary lacks."""

    def to_json(self) -> dict[str, Any]:
        about = {"corpus": self.corpus, "part": self.part, "objective": self.objective}
        unknown = {} if self.unknown is None else {"unknown": self.unknown}
        return {**about, "examples": self.examples, **self.numbers, **unknown}

    __repr__ = in_lines

    def view(self) -> Iterator[Table | str]:
        rows = [("examples", f"{self.examples:,}")]
        for name, number in self.numbers.items():
            shown = f"{number:,}" if isinstance(number, int) else f"{number:,.4f}"
            shown = f"{number:.2%}" if name.endswith("accuracy") else shown
            rows.append((name.replace("_", " "), shown))
        if self.unknown:
            rows.append(("unknown tokens", f"{self.unknown:,}"))
        yield self.objective
        yield Table((self.corpus, ""), rows, right=(1,))
        yield _measured(self.part)


def _measured(part: str) -> str:
    return f"measured on {'all of it' if part == 'all' else part}"


def evaluate(
    model: ModelLike,
    corpus: str | os.PathLike[str],
    stride: int | None = None,
    progress: Progress | None = None,
    dtype: str = "float32",
) -> Evaluation | Measures:
    """Evaluate a model on a file, a folder, a corpus by name, or the stories.

    ``dtype`` "int8" is for what generation in bytes costs: the weights are rounded likewise.
    """
    model = loaded(model)
    if dtype == "int8":
        from vesalius.generation.quantisation import rounded

        model = rounded(model)
    elif dtype != "float32":
        raise ImpossibleSetting(f"dtype must be float32 or int8, got {dtype!r}")
    stride = None if stride is None else arguments.whole("stride", stride, least=1)
    corpus = arguments.path("corpus", corpus)
    arguments.callback("progress", progress)
    labelled = any(o.labels_of(corpus) and o.serves(model) for o in OBJECTIVES.values())
    if family_of(model.config).predicts_text and not labelled:
        return _every_token(model, corpus, stride, progress or silent)
    if stride is not None:
        raise WrongKind(f"stride is for models of the next token, not for {model.family}")
    return _measures(model, corpus, progress or silent)


# Models of the next token -------------------------------------------------------


def _every_token(model: Model, corpus: str, stride: int | None, progress: Progress) -> Evaluation:
    if not getattr(model.config, "causal", True):
        raise WrongKind("the model sees the tokens that it would have to predict: causal is false")
    texts, part, tokens = corpus_tokens(model, corpus, False, progress)
    assert model.tokenizer is not None
    special = model.tokenizer.special
    before = [special[END_OF_TEXT]] if END_OF_TEXT in special else []
    ids = np.concatenate([np.array(before, np.int64), tokens.ids])
    if len(ids) < 2:
        raise EmptyCorpus(f"{texts.name} has one token, and nothing before it; expected two")
    nats, right, count = _score(model, ids, stride)
    given = 0 if before else len(model.tokenizer.bytes_of(int(ids[0])))
    unknown = int((tokens.ids == special.get("[UNK]", -1)).sum())
    words, floor = _known(texts) if corpus == "stories" and not unknown else (None, None)
    return Evaluation(
        corpus=corpus,
        part=part,
        tokens=count,
        loss=nats / count,
        perplexity=perplexity(nats / count),
        accuracy=right / count,
        bits_per_byte=nats / math.log(2) / max(1, tokens.bytes - given),
        nats_per_word=nats / words if words else None,
        floor=floor,
        unknown=unknown,
    )


def _known(texts: Texts) -> tuple[int, float]:
    """The words of stories, and the nats per word that the grammar gives them."""
    words = [word for text, _ in texts.portions() for word in stories.as_words(text)]
    return len(words), float(-stories.log_probabilities(words).mean())


def _score(model: Model, ids: Array, stride: int | None) -> tuple[float, int, int]:
    """Nats of all tokens but the first, how many of them were likeliest, and how many there are."""
    nats, right, count = 0.0, 0, 0
    for states, targets in _states(model, ids, stride):
        for start in range(0, len(targets), at_once(model)):
            part = slice(start, start + at_once(model))
            some = forward.score(forward.logits(model, states[part]), targets[part])
            nats, right = nats + some[0], right + some[1]
        count += len(targets)
    assert count == len(ids) - 1, "every token is predicted once"
    return nats, right, count


def at_once(model: Model) -> int:
    """Rows of logits that fit into the memory for them."""
    words: int = model.config.vocabulary  # type: ignore[attr-defined]
    return max(1, LOGITS // words)


def _states(model: Model, ids: Array, stride: int | None) -> Iterator[tuple[Array, Array]]:
    """States, and the tokens that they are to predict."""
    family, context = family_of(model.config), context_of(model)
    if family.window or family.carries_state or context is None:
        return by_stream(forward.running(model, len(ids)), ids, context)
    windows = strided(len(ids) - 1, context, stride)
    made = forward.running(model, sum(w.end - w.start for w in windows))
    return by_window(made, ids, windows)


class Window(NamedTuple):
    """Tokens of one forward pass; up to ``known``, the window before has predicted them."""

    start: int
    known: int
    end: int


def strided(last: int, context: int, stride: int | None) -> list[Window]:
    """Windows that predict every token up to the last, each with some context before it."""
    stride = min(stride or max(1, context // 2), context)
    # A window predicts the tokens up to its end that the one before it did not reach.
    ends = [*range(context, last, stride), last]
    return [Window(max(0, end - context), known, end) for known, end in pairwise([0, *ends])]


def by_window(made: "Engine", ids: Array, windows: list[Window]) -> Iterator[tuple[Array, Array]]:
    for i in range(0, len(windows), BATCH):
        some = windows[i : i + BATCH]
        session = made.session(len(some), max(w.end - w.start for w in some))
        for slot, w in enumerate(some):
            (states,) = session.extend([slot], [ids[w.start : w.end]])
            yield states[w.known - w.start :], ids[w.known + 1 : w.end + 1]


def by_stream(made: "Engine", ids: Array, window: int | None) -> Iterator[tuple[Array, Array]]:
    """Several streams at once where the text is long; their beginnings lack what came before.

    A window model sees no further back than its window, before which the first token is repeated.
    """
    streams = BATCH if window is None and len(ids) > 100 * BATCH * STEP else 1
    length = math.ceil((len(ids) - 1) / streams)
    rows = [ids[i * length : (i + 1) * length + 1] for i in range(streams)]
    session, slots = made.session(streams, length), range(streams)
    if window is not None and window > 1:
        session.extend(slots, [np.full(window - 1, ids[0])])
    step = STEP if window is None else STEP * BATCH
    for start in range(0, length, step):
        parts = [row[start : start + step + 1] for row in rows]
        states = session.extend(slots, [part[:-1] for part in parts])
        yield np.concatenate(states), np.concatenate([part[1:] for part in parts])


# Other models -------------------------------------------------------------------


def _measures(model: Model, corpus: str, progress: Progress) -> Measures:
    """The means over a corpus of all that the model has heads for."""
    measured, examples = list[str](), 0
    unknown: int | None = None
    numbers: dict[str, float] = {}
    for objective in _objectives(model, corpus):
        held_out = objective.held_out(model, corpus, progress)
        served, counted = held_out.objective, list[int]()
        given = _counted(model, held_out.batches, counted)
        means = served.measured(model, given, held_out.tokens)
        measured.append(served.title)
        numbers |= served.report(means, model.preprocessing)
        examples, unknown = sum(counted), held_out.unknown
    part = held_out.part or objective.evaluated_part(corpus)
    return Measures(corpus, part, "; ".join(measured), examples, numbers, unknown)


def _objectives(model: Model, corpus: str) -> list[Objective]:
    """The objectives whose heads a model has; mlm is left out where mlm+nsp is among them.

    Of a model with heads for labels and for words, a table is for the labels.
    """
    fitting = [objective for objective in OBJECTIVES.values() if objective.serves(model)]
    fitting = [objective for objective in fitting if objective.labels_of(corpus)] or fitting
    if not fitting:
        heads = [OBJECTIVES[name].title for name in family_of(model.config).objectives]
        raise WrongKind(
            f"this {model.family} has no head that can be evaluated; expected one for "
            f"{', or '.join(heads)}"
        )
    return [o for o in fitting if not any(set(o.losses) < set(other.losses) for other in fitting)]


def _counted(model: Model, batches: Batches, counted: list[int]) -> Iterator[Batch]:
    """All batches in the model's precision; their sizes are noted."""
    wide = model.dtype == "float64"
    for batch in batches.valid():
        counted.append(len(next(iter(batch.values()))))
        yield {
            k: a.astype("float64") if wide and a.dtype.kind == "f" else a for k, a in batch.items()
        }
