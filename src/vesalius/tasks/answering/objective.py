"""The objective of answers: where in a paragraph the answer to a question begins and ends."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vesalius.arguments import Progress
from vesalius.data.batches import Batch, Batches
from vesalius.data.vocabularies import word_pieces_of
from vesalius.errors import ImpossibleSetting, WrongKind
from vesalius.families.family import OwnConfig
from vesalius.generation import forward
from vesalius.machine import warn_once
from vesalius.metrics.predictions import Predictions
from vesalius.model import Model
from vesalius.preparation import Preparation
from vesalius.tasks.answering.data import AnswerData, Question, held_out_part, training_parts
from vesalius.tasks.answering.metrics import SpanPredictions
from vesalius.tasks.answering.passages import AskedText, Candidates, Passage, Passages, Reader
from vesalius.tasks.answering.use import LONGEST, answered, span_logs
from vesalius.tasks.objective import BATCH, SEED, HeldOut, Objective, Source
from vesalius.tokenizers import Tokenizer
from vesalius.training.settings import Recipe

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from vesalius.tasks.objective import State, Sums

KEPT = ("stride", "question")
"""Settings of the data that a model's preprocessing keeps, for whoever asks or evaluates."""


@dataclass(frozen=True, kw_only=True)
class Answers(Objective):
    """−Σ log p(start) − Σ log p(end) over windows; one without the answer starts and ends at [CLS].

    Places in the question and in the padding have no probability.
    """

    data = AnswerData
    questions: tuple[Question, ...] = ()
    """Of an evaluation: what is asked, whose answers are compared as texts."""
    passages: tuple[Passage, ...] = ()

    def source(
        self, recipe: Recipe, tokenizer: Tokenizer | None, progress: Progress, read: Any = None
    ) -> Source:
        data: AnswerData = recipe.data  # type: ignore[assignment]
        train, valid, split = training_parts(data, recipe.seed)
        texts = [text for asked in train for text in (asked.text, asked.paragraph)]
        pieces = tokenizer or word_pieces_of(data.tokenizer, data.vocabulary, texts, progress)
        kept = Preparation(
            impossible=any(not asked.answers for asked in train) or None,
            **self.changed(data, KEPT),
            **self.remembered(recipe, split),
        )
        return Source(
            {"vocabulary": pieces.rows, "labels": 2},
            lambda config, batch: self.batches(
                data, config, pieces, (train, valid), batch, recipe.seed
            ),
            hashlib.sha256(repr(train).encode()).hexdigest(),
            pieces,
            kept,
            valid,
        )

    def batches(
        self,
        data: AnswerData,
        config: OwnConfig,
        tokenizer: Tokenizer,
        parts: tuple[list[Question], list[Question]],
        batch: int,
        seed: int,
    ) -> AskedText:
        if config.segments < 2:
            raise ImpossibleSetting(
                f"[model] segments is {config.segments}, but questions and texts are two"
            )
        reader = Reader(tokenizer, config.context, data.stride, data.question)
        train, valid = (Passages(reader.all(part)) for part in parts)
        if reader.cut:
            warn_once(f"{reader.cut} questions are cut to their first {reader.most} tokens")
        pad = tokenizer.special.get("[PAD]", 0)
        return AskedText(training=train, validation=valid, pad=pad, batch=batch, seed=seed)

    def held_out(self, model: Model, corpus: str, progress: Progress) -> HeldOut:
        if model.tokenizer is None:
            raise WrongKind("the model has no tokenizer, so texts cannot be given to it")
        kept = model.preprocessing
        data = AnswerData(corpus=corpus, **kept.settings(KEPT))
        part, which = held_out_part(data, kept.held_out or {})
        both = part[:1], part
        batches = self.batches(data, model.config, model.tokenizer, both, BATCH, SEED)
        return self._examined(part, batches, which)

    def validated(self, source: Source, batches: Batches) -> HeldOut:
        assert isinstance(batches, AskedText)
        return self._examined(source.validation, replace(batches, batch=BATCH, seed=SEED))

    def _examined(self, part: list[Question], batches: AskedText, which: str = "all") -> HeldOut:
        passages = tuple(batches.validation.rows)
        served = replace(self, questions=tuple(part), passages=passages)
        return HeldOut(served, batches, sum(batches.validation.lengths), part=which)

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        logits = network(batch["ids"], batch["segments"], batch["real"]).labels
        logits = logits.masked_fill(~batch["allowed"][..., None], -1e9)
        found: Sums = {}
        for place, name in enumerate(("start", "end")):
            some = logits[..., place]
            found |= self.cross_entropy(name, some, batch[name], network.training)
        return found, state

    def terms(self, batch: Batch) -> dict[str, int]:
        rows = len(batch["ids"])
        return self.counted("start", rows) | self.counted("end", rows)

    def measured(
        self, model: Model, batches: Iterable[Batch], held_out: HeldOut
    ) -> tuple[dict[str, float], Predictions | None]:
        """Losses of windows, and exact match and F1 of questions, without PyTorch."""
        made = forward.running(model, held_out.tokens)
        found = [Candidates(LONGEST) for _ in self.questions]
        sums = {"start": 0.0, "end": 0.0, "start accuracy": 0.0, "end accuracy": 0.0}
        for batch in batches:
            passages = [self.passages[row] for row in batch["row"]]
            for passage, (starting, ending) in zip(
                passages, span_logs(model, passages, made), strict=True
            ):
                found[passage.question].add(passage, starting, ending)
                for name, logs in (("start", starting), ("end", ending)):
                    wanted = getattr(passage, name)
                    sums[name] -= float(logs[wanted])
                    sums[f"{name} accuracy"] += int(logs.argmax()) == wanted
        means = {name: total / max(1, len(self.passages)) for name, total in sums.items()}
        said = [
            answered(model, asked.paragraph, some)
            for asked, some in zip(self.questions, found, strict=True)
        ]
        odds = [
            some.best(1)[0].probability if text else some.nothing
            for text, some in zip(said, found, strict=True)
        ]
        predictions = SpanPredictions(self.questions, said, odds)
        return means | predictions.metrics().numbers(), predictions

    def report(self, means: Mapping[str, float], kept: Preparation) -> dict[str, float]:
        shown = {"questions": len(self.questions), "loss": means["start"] + means["end"]}
        return shown | {name: means[name] for name in ("exact_match", "f1")}


ANSWERS = Answers(
    name="answers",
    title="where the answer to a question starts and ends",
    losses=("start", "end"),
    settings={"labelled": "span"},
    heads=("label_head",),
    defaults={"pooler": False, "mlm_head": False, "nsp_head": False},
)
