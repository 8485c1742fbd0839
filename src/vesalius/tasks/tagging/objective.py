"""The objective of tags: a label for every word, read from its first piece."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from vesalius.arguments import Progress
from vesalius.data.batches import Batch, Batches
from vesalius.data.inputs import label_names
from vesalius.data.masking import IGNORED
from vesalius.data.vocabularies import word_pieces_of
from vesalius.equations import softmax
from vesalius.errors import WrongKind
from vesalius.families.family import OwnConfig
from vesalius.generation import forward
from vesalius.machine import warn_once
from vesalius.metrics.baseline import Baseline
from vesalius.metrics.predictions import Predictions
from vesalius.model import Model
from vesalius.preparation import Preparation
from vesalius.tasks.objective import BATCH, SEED, HeldOut, Objective, Source
from vesalius.tasks.tagging.alignment import Aligner, TaggedRows, TaggedText
from vesalius.tasks.tagging.baseline import by_dictionary
from vesalius.tasks.tagging.data import (
    Tagged,
    TaggedData,
    held_out_part,
    numbered,
    require_tags,
    training_parts,
)
from vesalius.tasks.tagging.entities import entity_scores, is_iob2
from vesalius.tasks.tagging.metrics import TagPredictions
from vesalius.tokenizers import Tokenizer
from vesalius.training.settings import Recipe
from vesalius.views.shown import counted

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from vesalius.tasks.objective import State, Sums

KEPT = ("word", "column", "case")
"""Settings of the data that a model's preprocessing keeps, for whoever tags or evaluates."""


class Tags(Objective):
    """−Σ log p(tag) over words."""

    data = TaggedData
    fitted, answers = "classes", "targets"

    def source(
        self, recipe: Recipe, tokenizer: Tokenizer | None, progress: Progress, read: Any = None
    ) -> Source:
        data: TaggedData = recipe.data  # type: ignore[assignment]
        train, valid, split = training_parts(data, recipe.seed)
        names = require_tags(train)
        texts = (" ".join(sentence.words) for sentence in train.sentences)
        pieces = tokenizer or word_pieces_of(data.tokenizer, data.vocabulary, texts, progress)
        numbers = [numbered(part, names) for part in (train, valid)]
        digest = hashlib.sha256(repr([(s.words, s.tags) for s in train.sentences]).encode())
        kept = Preparation(
            names=names, **self.changed(data, KEPT), **self.remembered(recipe, split)
        )
        return Source(
            {"vocabulary": pieces.rows, "labels": len(names)},
            lambda config, batch: self.batches(
                data, config, pieces, (train, valid), numbers, batch, recipe.seed
            ),
            digest.hexdigest(),
            pieces,
            kept,
            valid,
        )

    def batches(
        self,
        data: TaggedData,
        config: OwnConfig,
        tokenizer: Tokenizer,
        parts: tuple[Tagged, Tagged],
        numbers: list[list[list[int]]],
        batch: int,
        seed: int,
    ) -> TaggedText:
        aligner = Aligner(tokenizer, config.context, data.case, config.segments)
        made = []
        for part, tags in zip(parts, numbers, strict=True):
            rows = aligner.rows([sentence.words for sentence in part.sentences])
            long = {a.sentence for a, b in pairwise(rows) if a.sentence == b.sentence}
            if long:
                warn_once(
                    f"{part.source}: {counted(len(long), 'sentence')} longer than the model's "
                    f"context of {config.context} tokens, read in windows that overlap"
                )
            made.append(TaggedRows(rows, tags))
        pad = tokenizer.special.get("[PAD]", 0)
        return TaggedText(training=made[0], validation=made[1], pad=pad, batch=batch, seed=seed)

    def held_out(self, model: Model, corpus: str, progress: Progress) -> HeldOut:
        if model.tokenizer is None:
            raise WrongKind("the model has no tokenizer, so words cannot be given to it")
        kept = model.preprocessing
        data = TaggedData(corpus=corpus, **kept.settings(KEPT))
        part, which = held_out_part(data, kept.held_out or {})
        both, numbers = (part, part), [numbered(part, label_names(model))] * 2
        batches = self.batches(data, model.config, model.tokenizer, both, numbers, BATCH, SEED)
        return self._examined(part, batches, which)

    def validated(self, source: Source, batches: Batches) -> HeldOut:
        assert isinstance(batches, TaggedText)
        return self._examined(source.validation, replace(batches, batch=BATCH, seed=SEED))

    def _examined(self, part: Tagged, batches: TaggedText, which: str = "all") -> HeldOut:
        return HeldOut(self, batches, sum(batches.validation.lengths), part=which, examples=part)

    def baselines(self, model: Model, held_out: HeldOut, progress: Progress) -> list[Baseline]:
        data, seed = self.trained_on(model)
        training, _, split = training_parts(data, seed)
        self.require_unchanged(model, split, data.corpus)
        return by_dictionary(training, held_out.examples)

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        logits = network(batch["ids"], batch["segments"], batch["real"]).labels
        return self.cross_entropy("tags", logits, batch["targets"], network.training), state

    def terms(self, batch: Batch) -> dict[str, int]:
        return self.counted("tags", self.targets(batch))

    def measured(
        self, model: Model, batches: Iterable[Batch], held_out: HeldOut
    ) -> tuple[dict[str, float], Predictions | None]:
        """Loss and accuracy without PyTorch, and of IOB2 the entities that are found."""
        made, names = forward.running(model, held_out.tokens), label_names(model)
        part: Tagged = held_out.examples
        nats, right, words = 0.0, 0, 0
        predicted: list[list[str]] = [[] for _ in part.sentences]
        odds: list[list[float]] = [[] for _ in part.sentences]
        for batch in batches:
            read, kinds, wanted = (
                [row[real] for row, real in zip(batch[name], batch["real"], strict=True)]
                for name in ("ids", "segments", "targets")
            )
            states = forward.hidden_states(model, read, segments=kinds, made=made)
            for number, found, targets in zip(batch["sentence"], states, wanted, strict=True):
                counts = targets != IGNORED
                logits = forward.token_logits(model, found[counts])
                some = forward.score(logits, targets[counts])
                nats, right, words = nats + some[0], right + some[1], words + len(logits)
                predicted[number].extend(names[int(i)] for i in logits.argmax(axis=1))
                odds[number].extend(softmax(logits, axis=1).max(axis=1).tolist())
        means = {"tags": nats / max(1, words), "tags accuracy": right / max(1, words)}
        means["words"] = words
        if is_iob2(names):
            means |= entity_scores(predicted, (sentence.tags for sentence in part.sentences))
        return means, TagPredictions(part, names, predicted, odds)

    def report(self, means: Mapping[str, float], kept: Preparation) -> dict[str, float]:
        found = {"words": means["words"], **super().report(means, kept)}
        entities = ("precision", "recall", "f1")
        return found | {f"entity_{name}": means[name] for name in entities if name in means}


TAGS = Tags(
    name="tags",
    title="the tag of every word",
    losses=("tags",),
    settings={"labelled": "tokens"},
    heads=("label_head",),
    defaults={"pooler": False, "mlm_head": False, "nsp_head": False},
)
