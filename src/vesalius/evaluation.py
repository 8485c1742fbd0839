"""How good a model is on a corpus: what its heads were trained towards, measured.

Models of the next token predict every token of a text. A transformer sees at least ``context -
stride`` tokens before each, a recurrent network all of them, a window model its window. For the
stories, whose probabilities are known, the distance to the best possible model is told. All other
models are validated as in training.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray as Array

from vesalius import arguments
from vesalius.arguments import Progress, silent
from vesalius.capabilities import context_of
from vesalius.data import parts, stories
from vesalius.data.batches import Batch, Batches
from vesalius.data.texts import Texts
from vesalius.errors import EmptyCorpus, ImpossibleSetting, MissingExtra, VesaliusError, WrongKind
from vesalius.families import family_of
from vesalius.generation import forward
from vesalius.metrics.baseline import Baseline
from vesalius.metrics.predictions import Metrics, Predictions, shown, words
from vesalius.model import Model, ModelLike, loaded
from vesalius.tasks import all_tasks, task_named
from vesalius.tasks.language.objective import corpus_tokens, perplexity
from vesalius.tasks.objective import BATCH, Objective
from vesalius.tokenizers.kinds import END_OF_TEXT
from vesalius.views.pictures import Pictured
from vesalius.views.shown import Shown, Table, in_lines

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
    notes: tuple[str, ...] = ()
    """What of the text was not read as it is."""

    @property
    def distance(self) -> float | None:
        """Nats per word above the floor."""
        if self.nats_per_word is None or self.floor is None:
            return None
        return self.nats_per_word - self.floor

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "notes": list(self.notes), "distance": self.distance}

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
        yield from self.notes
        yield _measured(self.part)


@dataclass(frozen=True, repr=False)
class Measures(Pictured):
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
    baselines: tuple[Baseline, ...] = ()
    """What simple methods came to on the same examples."""
    notes: tuple[str, ...] = ()
    """What could not be measured, and why; what was not read as it is."""
    metrics: Metrics | None = field(default=None, compare=False)
    """By class, label, tag or channel; who is taken for whom."""
    predictions: Predictions | None = field(default=None, compare=False)
    """What the model said of each example."""

    def to_json(self) -> dict[str, Any]:
        about = {"corpus": self.corpus, "part": self.part, "objective": self.objective}
        tables = {} if self.metrics is None else self.metrics.to_json()
        more: dict[str, Any] = {} if self.unknown is None else {"unknown": self.unknown}
        if self.baselines:
            more["baselines"] = [baseline.to_json() for baseline in self.baselines]
        if self.notes:
            more["notes"] = list(self.notes)
        told: dict[str, Any] = {**about, "examples": self.examples, **self.numbers}
        return {**told, **more, **{key: v for key, v in tables.items() if key not in told}}

    __repr__ = in_lines

    def view(self) -> Iterator[Table | str]:
        yield self.objective
        others = [baseline.numbers for baseline in self.baselines]
        apart = tuple(f"_of_the_{b.name.replace(' ', '_')}" for b in self.baselines)
        rows = [("examples", f"{self.examples:,}", *("" for _ in others))]
        for name in {**self.numbers, **{k: 0.0 for some in others for k in some}}:
            if name.endswith(apart):  # in a column of its own
                continue
            cells = (shown(some[name]) if name in some else "" for some in (self.numbers, *others))
            rows.append((words(name), *cells))
        if self.unknown:
            rows.append(("unknown tokens", f"{self.unknown:,}", *("" for _ in others)))
        heads = (
            self.corpus,
            *(("the model", *(b.name for b in self.baselines)) if others else ("",)),
        )
        yield Table(heads, rows, right=range(1, len(heads)), prose=(0,))
        yield from (f"{baseline.name}: {baseline.about}" for baseline in self.baselines)
        if self.metrics is not None:
            yield from self.metrics.tables()
        yield from self.notes
        yield _measured(self.part)

    def picture(self) -> str:
        """The confusion matrix of classes or tags."""
        if self.metrics is None or not self.metrics.drawn:
            why = f" ({'; '.join(self.notes)})" if self.notes else ""
            raise WrongKind(f"there is a picture of classes and of tags, not of this{why}")
        return self.metrics.picture()

    def write_errors(self, file: str | os.PathLike[str]) -> int:
        """Write wrong answers as CSV, the most certain first; how many there are."""
        if self.predictions is None or not self.predictions.heads:
            raise WrongKind(
                f"there is no list of errors of {self.objective}; expected a model that tells "
                f"classes, labels, values, tags or answers"
            )
        return self.predictions.write_errors(arguments.path("file", file))

    def _repr_html_(self) -> str:
        drawn = self.metrics is not None and self.metrics.drawn
        return super()._repr_html_() if drawn else Shown._repr_html_(self)


def _measured(part: str) -> str:
    return f"measured on {'all of it' if part == 'all' else part}"


def evaluate(
    model: ModelLike,
    corpus: str | os.PathLike[str],
    stride: int | None = None,
    progress: Progress | None = None,
    dtype: str = "float32",
    baseline: bool = False,
    join_lines: bool = False,
) -> Evaluation | Measures:
    """Evaluate a model on a file, a folder, a corpus by name, or the stories.

    Of a file or folder that the model was trained on, the part is measured that was held out.
    ``baseline`` adds simple methods, fitted on what the model was trained on and measured on the
    same examples. ``dtype`` "int8" is for what generation in bytes costs: the weights are rounded
    likewise. ``join_lines`` joins the lines of paragraphs that were broken to a width.
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
    labelled = any(o.labels_of(corpus) and o.serves(model) for o in _possible(model))
    if family_of(model.config).predicts_text and not labelled:
        if baseline:
            raise WrongKind("there is no simple method to compare models of the next token with")
        return _every_token(model, corpus, stride, progress or silent, join_lines)
    if join_lines:
        raise WrongKind(f"join_lines is for models of the next token, not for {model.family}")
    if stride is not None:
        raise WrongKind(f"stride is for models of the next token, not for {model.family}")
    return _measures(model, corpus, bool(baseline), progress or silent)


# Models of the next token -------------------------------------------------------


def _every_token(
    model: Model, corpus: str, stride: int | None, progress: Progress, join_lines: bool
) -> Evaluation:
    require_causal(model)
    texts, part, tokens = corpus_tokens(model, corpus, False, progress, join_lines)
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
        notes=parts.notes_on((corpus, texts)),
    )


def require_causal(model: Model) -> None:
    """Refuse a model that sees the tokens after the one that it would have to predict."""
    if not model.config.causal:
        raise WrongKind("the model sees the tokens that it would have to predict: causal is false")


def _known(texts: Texts) -> tuple[int, float]:
    """The words of stories, and the nats per word that the grammar gives them."""
    words = [word for text, _ in texts.portions() for word in stories.as_words(text)]
    return len(words), float(-stories.log_probabilities(words).mean())


def _score(model: Model, ids: Array, stride: int | None) -> tuple[float, int, int]:
    """Nats of all tokens but the first, how many of them were likeliest, and how many there are."""
    nats, right, count = 0.0, 0, 0
    for states, targets in predicting(model, ids, stride):
        for start in range(0, len(targets), at_once(model)):
            part = slice(start, start + at_once(model))
            some = forward.score(forward.logits(model, states[part]), targets[part])
            nats, right = nats + some[0], right + some[1]
        count += len(targets)
    assert count == len(ids) - 1, "every token is predicted once"
    return nats, right, count


def at_once(model: Model) -> int:
    """Rows of logits that fit into the memory for them."""
    words: int = model.config.vocabulary
    return max(1, LOGITS // words)


def predicting(
    model: Model, ids: Array, stride: int | None = None, in_order: bool = False
) -> Iterator[tuple[Array, Array]]:
    """States, and the tokens that they are to predict; ``in_order`` from the first to the last."""
    family, context = family_of(model.config), context_of(model)
    if family.window or family.carries_state or context is None:
        return by_stream(forward.running(model, len(ids)), ids, context, in_order)
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


def by_stream(
    made: "Engine", ids: Array, window: int | None, in_order: bool = False
) -> Iterator[tuple[Array, Array]]:
    """Several streams at once where the text is long; their beginnings lack what came before.

    A window model sees no further back than its window, before which the first token is repeated.
    """
    long = window is None and len(ids) > 100 * BATCH * STEP
    streams = BATCH if long and not in_order else 1
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


def _measures(model: Model, corpus: str, baseline: bool, progress: Progress) -> Measures:
    """The means over a corpus of all that the model has heads for."""
    measured, notes, examples = list[str](), dict[str, None](), 0
    baselines: list[Baseline] = []
    said: Predictions | None = None
    numbers: dict[str, float] = {}
    for objective in _objectives(model, corpus):
        held_out = objective.held_out(model, corpus, progress)
        served, counted = held_out.objective, list[int]()
        notes |= dict.fromkeys(held_out.notes)
        given = _counted(model, held_out.batches, counted)
        means, predictions = served.measured(model, given, held_out)
        measured.append(served.title)
        numbers |= served.report(means, model.preprocessing)
        examples, said = sum(counted), predictions or said
        if baseline:
            try:
                baselines += served.baselines(model, held_out, progress)
            except (VesaliusError, MissingExtra) as error:
                notes[f"no baseline: {error}"] = None
    metrics: Metrics | None = None
    if said is not None:
        try:
            metrics = said.metrics()
            numbers |= {name: v for name, v in metrics.numbers().items() if name not in numbers}
        except MissingExtra as error:
            notes[f"tables and further metrics: {error}"] = None
    return Measures(
        corpus,
        held_out.part,
        "; ".join(measured),
        examples,
        numbers,
        held_out.unknown,
        tuple(baselines),
        tuple(notes),
        metrics,
        said,
    )


def _objectives(model: Model, corpus: str) -> list[Objective]:
    """The objectives whose heads a model has; mlm is left out where mlm+nsp is among them.

    Of a model with heads for labels and for words, a table is for the labels.
    """
    fitting = [objective for objective in _possible(model) if objective.serves(model)]
    fitting = [objective for objective in fitting if objective.labels_of(corpus)] or fitting
    if not fitting:
        family = family_of(model.config)
        heads = [task.learns.title for task in all_tasks() if task.serves(family)]
        raise WrongKind(
            f"this {model.family} has no head that can be evaluated; expected one for "
            f"{', or '.join(heads)}"
        )
    return [o for o in fitting if not any(set(o.losses) < set(other.losses) for other in fitting)]


def _possible(model: Model) -> list[Objective]:
    """The objectives that a model may have heads for: all, unless it says its task."""
    if model.preprocessing.task is not None:
        return [task_named(model.preprocessing.task).learns]
    return [task.learns for task in all_tasks()]


def _counted(model: Model, batches: Batches, counted: list[int]) -> Iterator[Batch]:
    """All batches in the model's precision; their sizes are noted."""
    wide = model.dtype == "float64"
    for batch in batches.valid():
        counted.append(len(next(iter(batch.values()))))
        yield {
            k: a.astype("float64") if wide and a.dtype.kind == "f" else a for k, a in batch.items()
        }
