"""How good a model is on a corpus: what its heads were trained towards, measured.

Models of the next token predict every token of a text. A transformer sees at least ``context -
stride`` tokens before each, a recurrent network all of them, a window model its window. For the
stories, whose probabilities are known, the distance to the best possible model is told. All other
models are validated as in training.
"""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray as Array

from vesalius import arguments
from vesalius.capabilities import context_of
from vesalius.data import stories
from vesalius.data.batches import Batch, Batches
from vesalius.data.masking import IGNORED
from vesalius.data.pairs import MaskedText
from vesalius.data.parts import evaluated_part, evaluation_texts
from vesalius.data.texts import Texts
from vesalius.data.tokens import Progress, Tokens, tokenised
from vesalius.errors import (
    EmptyCorpus,
    ImpossibleSetting,
    TokenOutOfRange,
    WrongKind,
)
from vesalius.extras import require
from vesalius.families import family_of
from vesalius.generation import forward
from vesalius.machine import usable_cache
from vesalius.model import PREPROCESSING, Model, ModelLike, loaded
from vesalius.tokenizers.kinds import END_OF_TEXT
from vesalius.views import Shown, Table, in_lines

if TYPE_CHECKING:
    from vesalius.training.objectives import Objective

BATCH = 16
"""Rows that are gone through at once, at most."""
LOGITS = 1 << 26
"""Logits that a transformer gives at once, at most, unless a single row has more."""
STEP = 64
"""Tokens that a recurrent network reads at once."""
SEED = 0
"""What masks and sentence pairs follow from."""


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

    def __repr__(self) -> str:
        return in_lines(self)

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

    def __repr__(self) -> str:
        return in_lines(self)

    def view(self) -> Iterator[Table | str]:
        rows = [("examples", f"{self.examples:,}")]
        for name, number in self.numbers.items():
            shown = f"{number:.2%}" if name.endswith("accuracy") else f"{number:,.4f}"
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
    if family_of(model.config).predicts_text:
        return _every_token(model, corpus, stride, progress)
    if stride is not None:
        raise WrongKind(f"stride is for models of the next token, not for {model.family}")
    return _measures(model, corpus, progress)


# Models of the next token -------------------------------------------------------


def _every_token(
    model: Model, corpus: str, stride: int | None, progress: Progress | None
) -> Evaluation:
    if not getattr(model.config, "causal", True):
        raise WrongKind("the model sees the tokens that it would have to predict: causal is false")
    texts, part, tokens = _tokens(model, corpus, False, progress)
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
        perplexity=_perplexity(nats / count),
        accuracy=right / count,
        bits_per_byte=nats / math.log(2) / max(1, tokens.bytes - given),
        nats_per_word=nats / words if words else None,
        floor=floor,
        unknown=unknown,
    )


def _tokens(
    model: Model, corpus: str, by_sentence: bool, progress: Progress | None
) -> tuple[Texts, str, Tokens]:
    """The texts of a corpus, which part of it they are, and what the tokenizer makes of them."""
    if model.tokenizer is None:
        raise WrongKind("the model has no tokenizer, so texts cannot be given to it")
    texts, part = evaluation_texts(corpus)
    tokens = tokenised(texts, model.tokenizer, usable_cache(), by_sentence, progress)
    vocabulary: int = model.config.vocabulary  # type: ignore[attr-defined]
    end = model.tokenizer.special.get(END_OF_TEXT, 0)
    # Some masked tokens become others, which may be any.
    largest = model.tokenizer.rows - 1 if by_sentence else max(end, tokens.ids.max(initial=0))
    if largest >= vocabulary:
        raise TokenOutOfRange(
            f"the model's vocabulary has {vocabulary} tokens, but its tokenizer gives "
            f"{largest} on {texts.name}; expected the tokenizer that it was trained with"
        )
    return texts, part, tokens


def _perplexity(loss: float) -> float:
    return math.exp(min(700.0, loss))


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
    """Tokens that are read together, of which those after ``known`` have not been predicted."""

    start: int
    known: int
    end: int


def strided(last: int, context: int, stride: int | None) -> list[Window]:
    """Windows that predict every token up to the last, each with some context before it."""
    stride = min(stride or max(1, context // 2), context)
    # A window predicts the tokens up to its end that the one before it did not reach.
    ends = [*range(context, last, stride), last]
    return [Window(max(0, end - context), known, end) for known, end in pairwise([0, *ends])]


def by_window(made: Any, ids: Array, windows: list[Window]) -> Iterator[tuple[Array, Array]]:
    for i in range(0, len(windows), BATCH):
        some = windows[i : i + BATCH]
        session = made.session(len(some), max(w.end - w.start for w in some))
        for slot, w in enumerate(some):
            (states,) = session.extend([slot], [ids[w.start : w.end]])
            yield states[w.known - w.start :], ids[w.known + 1 : w.end + 1]


def by_stream(made: Any, ids: Array, window: int | None) -> Iterator[tuple[Array, Array]]:
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


def _measures(model: Model, corpus: str, progress: Progress | None) -> Measures:
    """The means over a corpus of all that the model has heads for."""
    measured, examples = list[str](), 0
    unknown: int | None = None
    numbers: dict[str, float] = {}
    for objective in _objectives(model):
        served, batches = _held_out(model, objective, corpus, progress)
        counted: list[int] = []
        given = _counted(model, batches, counted)
        if isinstance(batches, MaskedText):
            unknown = int((batches.held_out.ids == batches.marks.get("[UNK]", -1)).sum())
            means = _masked_means(model, given, len(batches.held_out.ids))
        else:
            from vesalius.training.validating import validated

            means = validated(model.network, served, given)
        measured.append(served.title)
        numbers |= _named(served, means, model.preprocessing)
        examples = sum(counted)
    reads = family_of(model.config).reads
    part = evaluated_part(corpus, "images" if reads == "pixels" else reads)
    return Measures(corpus, part, "; ".join(measured), examples, numbers, unknown)


def _masked_means(model: Model, batches: Iterator[Batch], tokens: int) -> dict[str, float]:
    """The means over masked tokens, and over sentence pairs where there are any."""
    made = forward.running(model, tokens)
    sums: dict[str, list[float]] = {}
    for batch in batches:
        rows = [row[real] for row, real in zip(batch["ids"], batch["real"], strict=True)]
        kinds = [row[real] for row, real in zip(batch["segments"], batch["real"], strict=True)]
        targets = [row[real] for row, real in zip(batch["targets"], batch["real"], strict=True)]
        states = forward.hidden_states(model, rows, segments=kinds, made=made)
        wanted = np.concatenate(targets)
        asked: dict[str, tuple[Array, Array]] = {}
        if model.config.mlm_head:  # type: ignore[attr-defined]
            chosen = wanted != IGNORED
            read = np.concatenate(states)[chosen]
            asked["mlm"] = forward.mlm_logits(model, read), wanted[chosen]
        if "next" in batch and model.config.nsp_head:  # type: ignore[attr-defined]
            first = np.stack([row[0] for row in states])
            asked["nsp"] = forward.nsp_logits(model, first), batch["next"]
        for name, (logits, answers) in asked.items():
            found = (*forward.score(logits, answers), len(answers))
            sums[name] = [a + b for a, b in zip(sums.get(name, [0, 0, 0]), found, strict=True)]
    losses = {name: nats / max(1, count) for name, (nats, _, count) in sums.items()}
    right = {f"{name} accuracy": hits / max(1, n) for name, (_, hits, n) in sums.items()}
    return losses | right


def _objectives(model: Model) -> "list[Objective]":
    """What a model has all heads for; what is part of another is left to that."""
    from vesalius.training.objectives import OBJECTIVES

    parts = {name.partition(".")[0] for name in model.state}
    fitting = [
        objective
        for objective in OBJECTIVES.values()
        if objective.name in family_of(model.config).objectives
        and parts.issuperset(objective.heads)
        and all(getattr(model.config, name) == v for name, v in objective.settings.items())
    ]
    if not fitting:
        heads = [OBJECTIVES[name].title for name in family_of(model.config).objectives]
        raise WrongKind(
            f"this {model.family} has no head that can be evaluated; expected one for "
            f"{', or '.join(heads)}"
        )
    return [o for o in fitting if not any(set(o.losses) < set(other.losses) for other in fitting)]


def _held_out(
    model: Model, objective: "Objective", corpus: str, progress: Progress | None
) -> "tuple[Objective, Batches]":
    """What to ask of the model, and the examples to ask it on."""
    reads = family_of(model.config).reads
    if reads == "text":
        return _masked_text(model, objective, corpus, progress)
    require("torch")
    from vesalius.training.validating import image_examples, series_examples

    made = series_examples if reads == "series" else image_examples
    if not model.preprocessing:
        raise WrongKind(
            f"how the model's input was scaled is not known; expected {PREPROCESSING}, which "
            f"training writes beside it"
        )
    return objective, made(objective.name, corpus, model.config, model.preprocessing, BATCH, SEED)


def _masked_text(
    model: Model, objective: "Objective", corpus: str, progress: Progress | None
) -> "tuple[Objective, Batches]":
    from vesalius.training.objectives import OBJECTIVES

    _, _, tokens = _tokens(model, corpus, True, progress)
    assert model.tokenizer is not None
    context: int = model.config.context  # type: ignore[attr-defined]
    common = (tokens, tokens, model.tokenizer, context, BATCH, SEED)
    try:
        return objective, MaskedText(*common, pairs=objective.name != "mlm")
    except EmptyCorpus as error:  # a single document has no pairs, but tokens that can be masked
        if "mlm" not in objective.losses:
            raise EmptyCorpus(
                f"{corpus} has no sentence pairs, which need two documents of two sentences each; "
                f"every file is a document: give a folder of them"
            ) from error
        return OBJECTIVES["mlm"], MaskedText(*common, pairs=False)


def _counted(model: Model, batches: Batches, counted: list[int]) -> Iterator[Batch]:
    """All batches in the model's precision; their sizes are noted."""
    wide = model.dtype == "float64"
    for batch in batches.valid():
        counted.append(len(next(iter(batch.values()))))
        yield {
            k: a.astype("float64") if wide and a.dtype.kind == "f" else a for k, a in batch.items()
        }


def _named(
    objective: "Objective", means: Mapping[str, float], kept: Mapping[str, Any]
) -> dict[str, float]:
    """The numbers that people compare."""
    if objective.name == "series-values":  # in the units that the targets came in
        error = means["loss"] * kept["target_std"] ** 2
        return {"mean_squared_error": error, "root_mean_squared_error": math.sqrt(error)}
    if objective.name in ("masked-patches", "masked-series"):
        return {"mean_squared_error": means["loss"]}
    if objective.name in ("next-pixel", "masked-pixels"):
        nats = means["token"]
        bits = nats / math.log(2)
        return {"nats_per_pixel": nats, "bits_per_pixel": bits, "accuracy": means["token accuracy"]}
    named = {}
    for name in objective.losses:
        before = "next_sentence_" if name == "nsp" else ""
        named[f"{before}loss"] = means[name]
        if name == "mlm":
            named["perplexity"] = _perplexity(means[name])
        named[f"{before}accuracy"] = means[f"{name} accuracy"]
    return named
