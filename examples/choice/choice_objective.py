"""Multiple choice: its data, loss, metrics, and a baseline that counts the words in common.

A table has a text, its endings with | between, and the right one. Each ending is read behind the
text; the head gives one score, and the scores of a text's endings are compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vesalius.data import splits
from vesalius.data.batches import Batch, TwoParts
from vesalius.data.settings import Data
from vesalius.data.tables import Table, read_table
from vesalius.data.vocabularies import word_pieces_of
from vesalius.equations import softmax
from vesalius.errors import UnusableData
from vesalius.families.config import setting
from vesalius.generation import forward
from vesalius.metrics.baseline import Baseline
from vesalius.metrics.predictions import Metrics, Predictions, Row, Share
from vesalius.preparation import Preparation
from vesalius.tasks.labelling.encoding import encoded, padded
from vesalius.tasks.objective import BATCH, SEED, HeldOut, Objective, Source

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

SETTINGS = ("text", "label", "separator")
ABSENT = -1e9
"""The score of an ending that a text with fewer endings does not have."""


@dataclass(frozen=True, kw_only=True)
class ChoiceData(Data):
    """Texts with endings, in the columns of a table."""

    kind = "choices"

    corpus: str = setting("", "", "a .csv, .tsv, .jsonl or .json file")
    split: float = setting(0.1, "", "share to validate on", least=0, below=1)
    text: str = setting("text", "", "column of the texts")
    endings: str = setting("endings", "", "column of their endings")
    label: str = setting("label", "", "column of the right endings")
    separator: str = setting("|", "", "between the endings of a cell")
    tokenizer: str = setting("word-pieces", "", "word-pieces to learn; not for init")
    vocabulary: int = setting(8192, "|V|", "tokens to learn at most")


@dataclass(frozen=True)
class Example:
    text: str
    endings: tuple[str, ...]
    right: int


def read_examples(table: Table, data: ChoiceData) -> list[Example]:
    examples = []
    columns = [table.cells(name) for name in (data.text, data.endings, data.label)]
    for row, (text, cell, label) in enumerate(zip(*columns, strict=True)):
        endings = [ending.strip() for ending in str(cell).split(data.separator)]
        if not text or len(endings) < 2 or endings.count(str(label).strip()) != 1:
            raise UnusableData(
                f"{table.where(row)}: expected a text, two endings or more, and one of them as "
                f"{data.label!r}, got {cell!r} and {label!r}"
            )
        examples.append(Example(text, tuple(endings), endings.index(str(label).strip())))
    return examples


@dataclass(frozen=True, eq=False, kw_only=True)
class Choices(TwoParts[list[Example]]):
    """``ids`` are texts x endings x tokens; endings that a text lacks are not ``there``."""

    tokenizer: Any
    context: int
    most: int

    def examples(self, part: list[Example], rows: Any, random: Any) -> Batch:
        some = [part[row] for row in rows]
        # In the place of an ending that is not there stands the first one.
        endings = [[*e.endings, *[e.endings[0]] * (self.most - len(e.endings))] for e in some]
        firsts = [e.text for e in some for _ in range(self.most)]
        seconds = [ending for several in endings for ending in several]
        read, _ = encoded(self.tokenizer, firsts, seconds, self.context)
        longest = max(len(row.ids) for row in read)
        batch = {
            "ids": padded([row.ids for row in read], longest),
            "segments": padded([row.segments for row in read], longest),
            "real": padded([[1] * len(row.ids) for row in read], longest) > 0,
        }
        batch = {name: a.reshape(len(some), self.most, -1) for name, a in batch.items()}
        batch["there"] = np.arange(self.most) < np.array([[len(e.endings)] for e in some])
        return {**batch, "labels": np.array([e.right for e in some])}


class Choice(Objective):
    """−Σ log p(ending), a softmax over the scores of a text's endings."""

    data = ChoiceData

    def source(self, recipe: Any, tokenizer: Any, progress: Any, read: Any = None) -> Source:
        data = recipe.data
        table = read or read_table(data.corpus)
        examples = read_examples(table, data)
        split = splits.split_of(Path(data.corpus), data.split, recipe.seed)
        train, valid = (
            [examples[i] for i in rows] for rows in splits.rows(range(len(examples)), split)
        )
        texts = [text for e in train for text in (e.text, *e.endings)]
        pieces = tokenizer or word_pieces_of(data.tokenizer, data.vocabulary, texts, progress)
        return Source(
            {"vocabulary": pieces.rows, "labels": 1},
            lambda config, batch: choices(train, valid, pieces, config, batch, recipe.seed),
            hashlib.sha256(repr(train).encode()).hexdigest(),
            pieces,
            Preparation(
                task=self.name, **self.changed(data, SETTINGS), **self.remembered(recipe, split)
            ),
        )

    def held_out(self, model: Any, corpus: str, progress: Any) -> HeldOut:
        known = model.preprocessing
        examples = read_examples(
            read_table(corpus), ChoiceData(corpus=corpus, **known.settings(SETTINGS))
        )
        which = "all"
        if splits.same(Path(corpus), known.held_out):
            examples = [examples[i] for i in splits.rows(range(len(examples)), known.held_out)[1]]
            which = f"the {len(examples)} texts that training held out"
        batches = choices(examples, examples, model.tokenizer, model.config, BATCH, SEED)
        return HeldOut(self, batches, part=which, examples=examples)

    def scores(self, network: Module, batch: dict[str, Tensor]) -> Tensor:
        many = batch["there"].shape
        ids, segments, real = (batch[name].flatten(0, 1) for name in ("ids", "segments", "real"))
        scores: Tensor = network(ids, segments, real).labels.float().reshape(many)
        return scores.masked_fill(~batch["there"], ABSENT)

    def sums(self, network: Module, batch: dict[str, Tensor], state: Any) -> Any:
        scores = self.scores(network, batch)
        return self.cross_entropy("choice", scores, batch["labels"], network.training), state

    def terms(self, batch: Batch) -> dict[str, int]:
        return self.counted("choice", len(batch["labels"]))

    def measured(
        self, model: Any, batches: Iterable[Batch], held_out: HeldOut
    ) -> tuple[dict[str, float], Predictions]:
        scores, labels = self.outputs(model, batches, self.scores)
        nats, right = forward.score(scores, labels)
        means = {"choice": nats / len(labels), "choice accuracy": right / len(labels)}
        return means, ChoicePredictions(held_out.examples, softmax(scores, axis=1))

    def baselines(self, model: Any, held_out: HeldOut, progress: Any) -> list[Baseline]:
        right = [closest(e) == e.right for e in held_out.examples]
        about = "the ending with most words of the text"
        return [Baseline("words in common", about, {"accuracy": Share(np.mean(right))})]


def choices(
    train: list[Example], valid: list[Example], tokenizer: Any, config: Any, batch: int, seed: int
) -> Choices:
    most = max(len(e.endings) for e in (*train, *valid))
    rest = {"tokenizer": tokenizer, "context": config.context, "most": most}
    return Choices(training=train, validation=valid, batch=batch, seed=seed, **rest)


def closest(example: Example) -> int:
    """The ending that shares most words with its text; of equals the first."""
    words = set(example.text.lower().split())
    shared = [len(words & set(ending.lower().split())) for ending in example.endings]
    return shared.index(max(shared))


@dataclass(frozen=True, repr=False)
class ChoiceMetrics(Metrics):
    accuracy: float
    chance: float
    """The accuracy of a guess."""

    def numbers(self) -> dict[str, float]:
        return {"accuracy": Share(self.accuracy), "accuracy_of_a_guess": Share(self.chance)}

    def to_json(self) -> Mapping[str, Any]:
        return self.numbers()


@dataclass(frozen=True, eq=False)
class ChoicePredictions(Predictions):
    examples: Sequence[Example]
    probabilities: Any

    def metrics(self) -> ChoiceMetrics:
        right = [
            p.argmax() == e.right for e, p in zip(self.examples, self.probabilities, strict=True)
        ]
        guess = [1 / len(example.endings) for example in self.examples]
        return ChoiceMetrics(float(np.mean(right)), float(np.mean(guess)))

    def errors(self) -> list[Row]:
        both = zip(self.examples, self.probabilities, strict=True)
        wrong = [(e, int(p.argmax()), float(p.max())) for e, p in both if p.argmax() != e.right]
        wrong.sort(key=lambda one: -one[2])
        return [(e.text, e.endings[e.right], e.endings[i], f"{p:.6f}") for e, i, p in wrong]


CHOICE = Choice(
    name="multiple-choice",
    title="which ending a text has",
    losses=("choice",),
    settings={"labelled": "sequence", "pooler": True},
    defaults={"mlm_head": False, "nsp_head": False},
    heads=("pooler", "label_head"),
)
