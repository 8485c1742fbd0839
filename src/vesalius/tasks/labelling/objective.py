"""Objectives of labelled texts: their class, several labels at once, or a value (6.1).

The head reads what its family says: (57) of [CLS] in bert, the last token's state in language
models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy import ndarray as Array

from vesalius import tokenizers
from vesalius.arguments import Progress
from vesalius.data.batches import Batch
from vesalius.data.inputs import label_kind, label_names
from vesalius.data.tables import read_table
from vesalius.equations import sigmoid
from vesalius.errors import BrokenFile, ImpossibleSetting, WrongKind
from vesalius.families import family_of
from vesalius.families.config import Config, Setting
from vesalius.generation import forward
from vesalius.metrics.baseline import Baseline
from vesalius.metrics.predictions import Predictions
from vesalius.model import Model, folder_of
from vesalius.preparation import Preparation, Scaling
from vesalius.tasks.labelling import encoding
from vesalius.tasks.labelling.baseline import by_words
from vesalius.tasks.labelling.data import (
    LabelledData,
    LabelledTexts,
    held_out_part,
    is_labelled,
    kept_split,
    labelled_parts,
    training_file,
)
from vesalius.tasks.labelling.metrics import LabelPredictions
from vesalius.tasks.objective import (
    BATCH,
    SEED,
    HeldOut,
    Objective,
    Source,
    ValueObjective,
    classified,
)
from vesalius.tokenizers import Tokenizer
from vesalius.training.settings import Recipe

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from vesalius.tasks.objective import State, Sums

KEPT = ("text", "second", "label", "separator", "group", "length")
"""Settings of the data that a model keeps, for whoever evaluates it or has it label texts."""


@dataclass(frozen=True, kw_only=True)
class LabelledObjective(Objective):
    """Texts of a table, and a label head."""

    data = LabelledData
    kind: ClassVar[str]
    """What is told: classes, labels or values."""

    def source(
        self, recipe: Recipe, tokenizer: Tokenizer | None, progress: Progress, read: Any = None
    ) -> Source:
        data: LabelledData = recipe.data  # type: ignore[assignment]
        if data.balance and self.kind == "values":
            raise ImpossibleSetting("[data] balance is for classes and labels, not for values")
        training, validation, split = labelled_parts(data, self.kind, recipe.seed, read)
        reads = tokenizer or _tokenizer(data, training)
        kept = Preparation(
            labels=self.kind,
            **self.kept(training),
            **{name: getattr(data, name) for name in KEPT},
            **self.remembered(recipe, split),
        )
        common: dict[str, Any] = {"seed": recipe.seed, "balance": data.balance}
        common["scaling"] = self.scaling(kept)
        digest = hashlib.sha256(training.labels.tobytes())
        for text in (*training.texts, *(training.seconds or ())):
            digest.update(f"{len(text)}:{text}".encode())
        return Source(
            {"vocabulary": reads.rows, "labels": max(1, len(training.names))},
            lambda config, batch: _batches(
                training, validation, reads, config, data.length, {**common, "batch": batch}
            ),
            digest.hexdigest(),
            reads,
            kept,
        )

    def kept(self, training: LabelledTexts) -> dict[str, Any]:
        """What a model keeps of its labels."""
        return {"names": list(training.names)}

    def scaling(self, kept: Preparation) -> Scaling | None:
        """The scaling of values."""
        return None

    def serves(self, model: Model) -> bool:
        return model.family in self.families and label_kind(model) == self.kind

    def required(self, config: Config, said: Mapping[str, Any] = {}) -> dict[str, Setting]:
        """A head that reads the mean has no use for a pooler."""
        found = super().required(config, said)
        mean = said.get("pooling", getattr(config, "pooling", "")) == "mean"
        return found | {"pooler": False} if mean and "pooler" in found else found

    def labels_of(self, corpus: str) -> bool:
        return is_labelled(corpus)

    def held_out(self, model: Model, corpus: str, progress: Progress) -> HeldOut:
        if model.tokenizer is None:
            raise WrongKind("the model has no tokenizer, so texts cannot be given to it")
        kept = model.preprocessing
        data = LabelledData(corpus=corpus, **kept.settings(KEPT))
        names = label_names(model) if self.kind != "values" else None
        part, which = held_out_part(data, self.kind, names, kept.held_out or {})
        common: dict[str, Any] = {"batch": BATCH, "seed": SEED, "scaling": self.scaling(kept)}
        made = _batches(part, part, model.tokenizer, model.config, data.length, common)
        tokens = sum(len(row.ids) for row in made.validation.rows)
        return HeldOut(self, made, tokens, part=which, examples=part)

    def baselines(self, model: Model, held_out: HeldOut, progress: Progress) -> list[Baseline]:
        data, seed = self.trained_on(model)
        table = read_table(training_file(data.corpus))
        self.require_unchanged(model, kept_split(data, seed, table), data.corpus)
        training, *_ = labelled_parts(data, self.kind, seed, table)
        progress("a baseline of counted words", 0, None)
        return by_words(self.kind, training, held_out.examples, seed)

    # Its losses --------------------------------------------------------------

    def sums(self, network: Module, batch: dict[str, Tensor], state: State) -> tuple[Sums, State]:
        kinds = {"segments": batch["segments"]} if "segments" in batch else {}
        logits = network(batch["ids"], real=batch["real"], **kinds).labels.float()
        return self.loss(logits, batch, network.training), state

    def loss(self, logits: Tensor, batch: dict[str, Tensor], training: bool) -> Sums:
        raise AssertionError("every objective has its own")

    def measured(
        self, model: Model, batches: Iterable[Batch], held_out: HeldOut
    ) -> tuple[dict[str, float], Predictions | None]:
        """The same means without PyTorch."""
        read = family_of(model.config).label_logits
        assert read is not None, "the table of families says what labels texts"
        made = forward.running(model, held_out.tokens)
        logits, labels = list[Array](), list[Array]()
        for batch in batches:
            real = batch["real"]
            rows, kinds = (
                [row[there] for row, there in zip(batch[name], real, strict=True)]
                for name in ("ids", "segments" if "segments" in batch else "ids")
            )
            segments = kinds if "segments" in batch else None
            states = forward.hidden_states(model, rows, segments=segments, made=made)
            logits.append(read(model, states).astype(np.float64))
            labels.append(batch["labels"])
        found, wanted = np.concatenate(logits), np.concatenate(labels)
        return self.judged(model, found, wanted, held_out.examples.inputs)

    def judged(
        self, model: Model, logits: Array, labels: Array, inputs: Sequence[str]
    ) -> tuple[dict[str, float], Predictions]:
        """The means of all texts, and the answers beside the truth."""
        raise AssertionError("every objective has its own")


class TextClasses(LabelledObjective):
    """−Σ log p(class), where balanced each with the weight of its class."""

    kind = fitted = "classes"

    def loss(self, logits: Tensor, batch: dict[str, Tensor], training: bool) -> Sums:
        from torch.nn import functional as F

        if not (training and "weights" in batch):
            return self.cross_entropy("classes", logits, batch["labels"], training)
        each = F.cross_entropy(logits, batch["labels"], reduction="none")
        return {"classes": (each * batch["weights"]).sum()}

    def terms(self, batch: Batch) -> dict[str, int]:
        return self.counted("classes", len(batch["labels"]))

    def judged(
        self, model: Model, logits: Array, labels: Array, inputs: Sequence[str]
    ) -> tuple[dict[str, float], Predictions]:
        return classified(model, logits, labels, inputs)


class TextLabels(LabelledObjective):
    """−Σ log p over every label of every text, given or not; a text is right if all are."""

    kind = "labels"

    def loss(self, logits: Tensor, batch: dict[str, Tensor], training: bool) -> Sums:
        from torch.nn import functional as F

        weights = batch.get("weights") if training else None
        loss = F.binary_cross_entropy_with_logits(
            logits, batch["labels"].to(logits.dtype), weights, reduction="sum"
        )
        if training:
            return {"labels": loss}
        right = ((logits > 0) == (batch["labels"] > 0)).all(dim=1).sum()
        return {"labels": loss, "labels accuracy": right}

    def terms(self, batch: Batch) -> dict[str, int]:
        return {"labels": batch["labels"].size, "labels accuracy": len(batch["labels"])}

    def judged(
        self, model: Model, logits: Array, labels: Array, inputs: Sequence[str]
    ) -> tuple[dict[str, float], Predictions]:
        nats = np.logaddexp(0, np.where(labels > 0, -logits, logits))
        right = ((logits > 0) == (labels > 0)).all(axis=1)
        means = {"labels": float(nats.mean()), "labels accuracy": float(right.mean())}
        return means, LabelPredictions(inputs, label_names(model), labels > 0, sigmoid(logits))


class TextValues(ValueObjective, LabelledObjective):
    """A value for each text."""

    kind = "values"

    def kept(self, training: LabelledTexts) -> dict[str, Any]:
        return self.scaling_of(training.labels)

    def scaling(self, kept: Preparation) -> Scaling | None:
        return kept.target_scaling

    def loss(self, logits: Tensor, batch: dict[str, Tensor], training: bool) -> Sums:
        return self.answered(logits, batch["labels"])

    def judged(
        self, model: Model, logits: Array, labels: Array, inputs: Sequence[str]
    ) -> tuple[dict[str, float], Predictions]:
        return self.compared(model, logits, labels, inputs)


def _batches(
    training: LabelledTexts,
    validation: LabelledTexts,
    tokenizer: Tokenizer,
    config: Config,
    length: int | None,
    common: Mapping[str, Any],
) -> encoding.LabelledBatches:
    """Both parts as tokens that the model has room for."""
    context = config.context
    if length is not None and context is not None and length > context:
        raise ImpossibleSetting(
            f"[data] length is {length}, but the model's context {context}; leave it out to follow"
        )
    segments: int = config.symbols().get("segments", 0)
    if training.seconds is not None and segments == 1:
        raise WrongKind("this model has one segment, so it cannot tell two texts apart")
    room = length or context
    return encoding.batches(
        training, validation, tokenizer, length=room, segments=segments, **common
    )


def _tokenizer(data: LabelledData, training: LabelledTexts) -> Tokenizer:
    """For a model that starts from nothing: learnt from the texts, or that of another model."""
    texts = [*training.texts, *(training.seconds or ())]
    learners = {
        "byte-pairs": lambda: tokenizers.train_byte_pairs(texts, data.vocabulary),
        "word-pieces": lambda: tokenizers.train_word_pieces(texts, data.vocabulary),
        "words": lambda: tokenizers.train_words(texts, data.vocabulary),
        "characters": lambda: tokenizers.train_characters(texts),
    }
    if data.tokenizer in learners:
        return learners[data.tokenizer]()
    found = tokenizers.read_tokenizer(folder_of(data.tokenizer))
    if found is None:
        raise BrokenFile(
            f"{data.tokenizer!r} holds no tokenizer; expected a model that does, or one of "
            f"{', '.join(learners)} to learn"
        )
    return found


SETTINGS: dict[str, Setting] = {"labelled": "sequence", "pooler": True}
ALONE: dict[str, Setting] = {"mlm_head": False, "nsp_head": False}
"""Heads that would no longer fit the states beneath them."""
HEADS = ("pooler", "label_head")


CLASSES = TextClasses(
    name="text-classes",
    title="the class of a text",
    losses=("classes",),
    settings=SETTINGS,
    defaults=ALONE,
    heads=HEADS,
)
LABELS = TextLabels(
    name="text-labels",
    title="several labels of a text at once",
    losses=("labels",),
    settings=SETTINGS,
    defaults=ALONE,
    heads=HEADS,
)
VALUES = TextValues(
    name="text-values",
    title="a number for a text, by squared error",
    losses=("values",),
    settings=SETTINGS,
    defaults=ALONE,
    heads=HEADS,
)
