"""Answers to questions, as spans of a paragraph, by a BERT that was fine-tuned for it.

Training such a model is left to ``training``, measuring it to ``evaluation``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.capabilities import require_served, tokenizer_of
from vesalius.equations.parameters import Array
from vesalius.errors import WrongKind
from vesalius.generation.engines.sessions import Engine
from vesalius.generation.forward import hidden_states, token_logits
from vesalius.model import Model, ModelLike, loaded
from vesalius.tasks.answering.data import AnswerData
from vesalius.tasks.answering.passages import Candidates, Passage, Reader
from vesalius.views.shown import Part, Shown, Table, counted, noted, short

LONGEST = 30
"""Tokens of an answer at most, as in BERT's evaluation."""


@dataclass(frozen=True)
class Answer:
    """A span of the paragraph, its characters from start to end."""

    text: str
    probability: float
    start: int
    end: int


@dataclass(frozen=True, repr=False)
class Answers(Shown):
    """The likeliest answers to a question, best first."""

    question: str
    answers: list[Answer]
    nothing: float
    """The probability that the paragraph holds no answer."""
    windows: int
    """In how many parts the paragraph was read."""
    impossible: bool = False
    """Whether the model has learnt from questions without an answer, and says that here is none."""
    cut: int = 0
    """Tokens that were read of a question that has more; else 0."""
    hint: str = ""
    """What may be wrong with the texts."""

    @property
    def text(self) -> str:
        """The best answer; empty where the model says that there is none."""
        return "" if self.impossible or not self.answers else self.answers[0].text

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        best = ", ".join(f"{short(a.text, 60)} {a.probability:.4f}" for a in self.answers[:3])
        return "\n  ".join([f"Answers: {best}; none {self.nothing:.4f}", *noted(self.hint)])

    def view(self) -> Iterator[Part]:
        rows = [(a.text, f"{a.start} to {a.end}", f"{a.probability:.4f}") for a in self.answers]
        heads = ("answer", "characters", "probability")
        yield Table(heads, rows, right=(2,), prose=(0,), title=self.question)
        said = "; the model says that there is none" if self.impossible else ""
        yield f"no answer: {self.nothing:.4f}{said}"
        if self.cut:
            yield f"of the question the first {self.cut} tokens were read; the rest is cut off"
        if self.windows > 1:
            yield f"read in {counted(self.windows, 'window')}"
        yield from noted(self.hint)


def answer(
    model: ModelLike,
    question: str,
    context: str,
    top: int = 3,
    stride: int | None = None,
    longest: int = LONGEST,
) -> Answers:
    """The ``top`` likeliest spans of a text that answer a question.

    A text longer than the model's context is read in windows that begin ``stride`` tokens apart, as
    in training by default. A span's probability is that of its start times that of its end among
    the places of its window, [CLS] for no answer among them; of several windows the largest.
    """
    model = loaded(model)
    require_served(model, "answer")
    config: Any = model.config
    if not config.labels or config.labelled != "span":
        raise WrongKind(
            f"this {model.family} has no head for answers; expected one that was trained for them "
            f"by the objective answers, such as BertForQuestionAnswering"
        )
    question, context = arguments.text("question", question), arguments.text("context", context)
    top, longest = (
        arguments.whole("top", top, least=1),
        arguments.whole("longest", longest, least=1),
    )
    kept = model.preprocessing
    stride = kept.stride if stride is None else arguments.whole("stride", stride, least=1)
    if config.segments < 2:
        raise WrongKind("this bert has one segment, so it cannot tell question and text apart")
    tokenizer = tokenizer_of(model)
    reader = Reader(tokenizer, config.context, stride, kept.question or AnswerData().question)
    passages = reader.passages(question, context)
    found = Candidates(longest)
    for passage, logs in zip(passages, span_logs(model, passages), strict=True):
        found.add(passage, *logs)
    answers = [
        Answer(context[s.start : s.end], s.probability, s.start, s.end) for s in found.best(top)
    ]
    none = not answered(model, context, found)
    cut = reader.most if reader.cut else 0
    hint = tokenizer.note_unknown(tokenizer.encode_pair(question, context).ids)
    return Answers(question, answers, found.nothing, len(passages), none, cut, hint)


def answered(model: Model, context: str, found: Candidates) -> str:
    """The best answer, or none where that is likelier and the model has learnt to say so."""
    best = found.best(1)
    impossible = bool(model.preprocessing.impossible)
    none = not best or (impossible and found.nothing > best[0].probability)
    return "" if none else context[best[0].start : best[0].end]


def span_logs(
    model: Model, passages: Sequence[Passage], made: Engine | None = None
) -> list[tuple[Array, Array]]:
    """Of every window, the log-probabilities that the answer starts and ends at each token."""
    states = hidden_states(
        model,
        [passage.ids for passage in passages],
        segments=[passage.segments for passage in passages],
        made=made,
    )
    found = []
    for passage, some in zip(passages, states, strict=True):
        logits = token_logits(model, some).astype(np.float64)
        logits[~passage.allowed] = -np.inf
        logits -= logits.max(axis=0)
        logs = logits - np.log(np.exp(logits).sum(axis=0))
        found.append((logs[:, 0], logs[:, 1]))
    return found
