"""The labels of texts by a model that was fine-tuned for them, with names and probabilities.

PyTorch is not needed: the states come from ``generation.forward``, as in embedding and filling.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from vesalius import arguments
from vesalius.arguments import Progress
from vesalius.capabilities import context_of, tokenizer_of
from vesalius.data.inputs import label_kind, label_names
from vesalius.data.tables import is_table, read_table
from vesalius.equations import sigmoid, softmax
from vesalius.equations.parameters import Array
from vesalius.errors import EmptySequence, WrongKind
from vesalius.families import family_of
from vesalius.generation.forward import hidden_states
from vesalius.model import Model
from vesalius.tasks.labelling.encoding import encoded
from vesalius.tasks.labelling.metrics import GIVEN
from vesalius.views.shown import Part, Shown, Table, counted, noted

Text = str | tuple[str, str]
"""A text, or a pair of texts."""


@dataclass(frozen=True)
class Candidate:
    """One label, and how likely it is."""

    number: int
    name: str
    probability: float


@dataclass(frozen=True, repr=False)
class Labels(Shown):
    """Several labels of a text, each with a probability of its own, the likeliest first."""

    source: str
    candidates: tuple[Candidate, ...]
    prepared: str
    hint: str = ""
    """What may be wrong with the input."""

    @property
    def names(self) -> list[str]:
        """The labels that are likelier than not."""
        return [c.name for c in self.candidates if c.probability > GIVEN]

    def __str__(self) -> str:
        return ", ".join(self.names)

    def __repr__(self) -> str:
        best = ", ".join(f"{c.name} {c.probability:.4f}" for c in self.candidates[:3])
        return f"Labels: {best}"

    def told(self, top: int | None = None) -> list[str]:
        """The labels that are given, in words."""
        given = [f"{c.name} {c.probability:.4f}" for c in self.candidates if c.probability > GIVEN]
        return given[:top] or ["none"]

    def view(self, top: int | None = None) -> Iterator[Part]:
        rows = [
            (c.name, f"{c.probability:.4f}", "given" if c.probability > GIVEN else "")
            for c in self.candidates[:top]
        ]
        yield Table(("label", "probability", ""), rows, right=(1,), title=self.source)
        yield from input_lines(self)

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        shown = [asdict(candidate) for candidate in self.candidates[:top]]
        about = {"source": self.source, "labels": self.names}
        return {**about, "candidates": shown, "prepared": self.prepared, "hint": self.hint}


@dataclass(frozen=True, repr=False)
class Value(Shown):
    """A number for a text or a series, in the units that training had."""

    source: str
    value: float
    prepared: str
    hint: str = ""
    """What may be wrong with the input."""

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"Value: {self.value:.6g}"

    def told(self, top: int | None = None) -> list[str]:
        return [f"{self.value:.4f}"]

    def view(self, top: int | None = None) -> Iterator[Part]:
        yield Table(
            ("input", "value"), [(self.source, f"{self.value:.4f}")], right=(1,), prose=(0,)
        )
        yield from input_lines(self)

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        return asdict(self)


def input_lines(result: Any) -> Iterator[str]:
    """How the input of a result was read, and what may be wrong with it."""
    yield f"input: {result.prepared}"
    yield from noted(result.hint)


class How(NamedTuple):
    """How a text was read, and what may be wrong with it."""

    prepared: str
    hint: str


def label_logits(
    model: Model, texts: Sequence[Text], progress: Progress | None = None
) -> tuple[Array, list[How]]:
    """The logits of texts' labels (texts x labels), and in words how each was read."""
    read = family_of(model.config).label_logits
    if not label_kind(model) or read is None:
        raise WrongKind(
            f"this {model.family} has no head that labels texts; expected one that was fine-tuned "
            f"for that, as `vesalius finetune` does"
        )
    if not texts:
        raise EmptySequence("expected a text, got none")
    tokenizer = tokenizer_of(model)
    pairs = [isinstance(text, tuple) for text in texts]
    if any(pairs) and not all(pairs):
        raise WrongKind("expected texts, or pairs of texts; got some of each")
    if _reads_pairs(model) and not any(pairs):
        raise WrongKind("this model was trained on pairs of texts; expected those, got single ones")
    firsts = [arguments.text("a text", t[0] if isinstance(t, tuple) else t) for t in texts]
    seconds = [arguments.text("a second text", t[1]) for t in texts if isinstance(t, tuple)]
    room = model.preprocessing.length or context_of(model)
    whole, _ = encoded(tokenizer, firsts, seconds or None)
    rows, _ = encoded(tokenizer, firsts, seconds or None, room)
    told = [
        How(
            counted(len(row.ids), "token") + ("" if row == full else f", cut from {len(full.ids)}"),
            tokenizer.note_unknown(row.ids),
        )
        for row, full in zip(rows, whole, strict=True)
    ]
    segments = None
    if (kinds := model.config.symbols().get("segments", 0)) > 0:
        segments = [np.minimum(row.segments, kinds - 1) for row in rows]
    states = hidden_states(model, [row.ids for row in rows], segments=segments, progress=progress)
    logits: Array = read(model, states).astype(np.float64)
    return logits, told


def _reads_pairs(model: Model) -> bool:
    """Whether a model was trained on pairs of texts."""
    return bool(model.preprocessing.second)


def as_read(model: Model, given: Sequence[str]) -> list[Text]:
    """Texts in a row as a model reads them: one by one, or two and two."""
    if not _reads_pairs(model):
        return list(given)
    if len(given) % 2:
        raise WrongKind(
            f"this model was trained on pairs of texts; expected the two of a pair one after the "
            f"other, got {counted(len(given), 'text')}"
        )
    return list(zip(given[::2], given[1::2], strict=True))


def texts_of(
    model: Model, file: str, column: str | None, lines: Callable[[str], list[str]]
) -> list[Text]:
    """The texts of a table, in the columns that training had unless one is said; else of lines."""
    if not is_table(file):
        if column is not None:
            raise WrongKind(f"{file} has lines, not columns; expected a .csv, .tsv or .jsonl file")
        return list(lines(file))
    table, kept = read_table(file), model.preprocessing
    texts = [str(cell) for cell in table.cells(column or kept.text or "text")]
    if not kept.second:
        return list(texts)
    return list(zip(texts, map(str, table.cells(kept.second)), strict=True))


def probabilities(model: Model, logits: Array) -> Array:
    """Of classes that add up to one, or of labels each by itself."""
    odds: Array = softmax(logits, axis=-1) if label_kind(model) == "classes" else sigmoid(logits)
    return odds


def ranked(model: Model, odds: Array) -> tuple[Candidate, ...]:
    """The labels of one text, the likeliest first."""
    names = label_names(model)
    best = np.argsort(-odds, kind="stable")
    return tuple(Candidate(int(i), names[i], float(odds[i])) for i in best)


def value_of(model: Model, logit: float) -> float:
    """A value in the units that training had; as it is where they are not known."""
    mean, std = model.preprocessing.target_mean, model.preprocessing.target_std
    return float(logit * (1.0 if std is None else std) + (mean or 0.0))


def named(text: Text) -> str:
    """A text, or two in one line."""
    return " / ".join(text) if isinstance(text, tuple) else text
