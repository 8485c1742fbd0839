"""Texts with labels: one of several classes, several labels at once, or a number (6.1).

They come from tables with named columns. A part for validation is split off by a seed, with each
class in its share, and never a group on both sides. Turning texts into tokens is left to
``encoding``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray as Array

from vesalius.data import parts, registry, splits
from vesalius.data.batches import generator
from vesalius.data.settings import Data
from vesalius.data.tables import Table, is_table, read_table
from vesalius.errors import ImpossibleSetting, UnusableData, nearest
from vesalius.families.config import setting
from vesalius.views.shown import counted

CHOOSING = 4  # end of a random key
TRUE, FALSE = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no", "")


@dataclass(frozen=True, kw_only=True)
class LabelledData(Data):
    """Texts with labels, in the columns of a table."""

    kind = "labelled text"

    corpus: str = setting("banking77", "", "a .csv, .tsv, .jsonl or .json file, or a name")
    valid: str | None = setting(None, "", "a table to validate on; a share of the corpus if none")
    split: float = setting(0.1, "", "share to validate on, of each class", least=0, below=1)
    text: str = setting("text", "", "column of the texts")
    second: str | None = setting(None, "", "column of second texts, for pairs")
    label: str = setting("label", "", "column of the labels, or columns of 0 and 1 with commas")
    separator: str = setting("|", "", "between several labels of a cell")
    group: str | None = setting(None, "", "column of groups, which are never on both sides")
    length: int | None = setting(None, "n", "tokens of a text at most; the model's context if none")
    examples: int | None = setting(None, "", "texts of each class to train on; all if none")
    balance: bool = setting(False, "", "whether rare classes weigh more: by inverse frequency")
    tokenizer: str = setting(
        "word-pieces", "", "without init: what to learn, or whose tokenizer to take, by its folder"
    )
    vocabulary: int = setting(8192, "|V|", "tokens to learn at most")


@dataclass(frozen=True, eq=False)
class LabelledTexts:
    """Texts, perhaps with a second one each, and what is said of them.

    ``labels`` are the numbers of classes (texts), ones where a label is given (texts x labels), or
    values (texts).
    """

    name: str
    texts: list[str]
    seconds: list[str] | None
    labels: Array
    names: tuple[str, ...]
    """What classes or labels are called; none where they are values."""
    groups: list[str] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def inputs(self) -> list[str]:
        """What is read of each example, on one line."""
        if self.seconds is None:
            return self.texts
        return [
            f"{first} | {second}" for first, second in zip(self.texts, self.seconds, strict=True)
        ]

    def chosen(self, rows: Sequence[int] | Array) -> "LabelledTexts":
        """Some of the texts, in this order."""
        picked = [int(row) for row in rows]
        return replace(
            self,
            texts=[self.texts[row] for row in picked],
            seconds=None if self.seconds is None else [self.seconds[row] for row in picked],
            labels=self.labels[picked],
            groups=None if self.groups is None else [self.groups[row] for row in picked],
        )

    def classes_of(self, row: int) -> list[int]:
        """The labels that a text has, by number; that it has none counts as one more."""
        if self.labels.ndim == 2:
            return np.flatnonzero(self.labels[row]).tolist() or [len(self.names)]
        return [int(self.labels[row])] if self.names else [0]


def read_labelled(
    table: Table,
    data: LabelledData,
    kind: str,
    names: Sequence[str] | None = None,
    role: str | None = None,
) -> LabelledTexts:
    """The texts of a table and their labels of a kind: classes, labels or values.

    ``names`` are the labels that are known already: another one is refused. Of a file with parts,
    ``role`` takes those to "train", to "valid" or to "test" on.
    """
    table = (role and table.part(role)) or table
    texts = _texts(table, data.text)
    seconds = None if data.second is None else _texts(table, data.second)
    groups = None if data.group is None else [str(cell) for cell in table.cells(data.group)]
    if kind == "values":
        return LabelledTexts(table.name, texts, seconds, _values(table, data.label), (), groups)
    given = _several(table, data) if kind == "labels" else _single(table, data.label)
    counted = Counter(label for labels in given for label in labels)
    known = tuple(sorted(counted, key=_natural)) if names is None else tuple(names)
    if kind == "labels" and "," in data.label and names is None:
        known = tuple(_columns(data.label))
    if strange := [label for label in counted if label not in set(known)]:
        raise UnusableData(
            f"{table.name} has the label {strange[0]!r} in {counted[strange[0]]:,} of "
            f"{len(table):,} texts, which the texts to train on never have; "
            f"{nearest(strange[0], known)}"
        )
    numbers = {name: number for number, name in enumerate(known)}
    if kind == "classes":
        labels = np.array([numbers[label] for (label,) in given], np.int64)
    else:
        labels = np.zeros((len(given), len(known)), np.float32)
        for row, several in enumerate(given):
            labels[row, [numbers[label] for label in several]] = 1
    return LabelledTexts(table.name, texts, seconds, labels, known, groups)


def labelled_parts(
    data: LabelledData, kind: str, seed: int, table: Table | None = None
) -> tuple[LabelledTexts, LabelledTexts, dict[str, Any]]:
    """Texts to train on and to validate on; and how one table was split, to be kept.

    ``table`` is the training file's, if it has been read.
    """
    table = table or read_table(training_file(data.corpus))
    training = read_labelled(table, data, kind, role="train")
    _require_learnable(training, kind)
    other = table if data.valid is None else read_table(data.valid)
    if _has_validation(data, table):
        known = training.names or None
        validation = read_labelled(other, data, kind, known, role="valid")
        _require_apart(training, validation)
    else:
        training, validation = split(training, data.split, seed)
    if data.examples is not None:
        training = few(training, data.examples, seed)
    return training, validation, kept_split(data, seed, table)


def kept_split(data: LabelledData, seed: int, table: Table) -> dict[str, Any]:
    """What was trained on and how it was split, as a model keeps it."""
    file = Path(table.name)
    if _has_validation(data, table):
        return splits.all_of(file)
    return splits.split_of(file, data.split, seed)


def _has_validation(data: LabelledData, table: Table) -> bool:
    return data.valid is not None or table.part("valid") is not None


def training_file(corpus: str) -> str:
    """The table of a corpus that may be trained on."""
    return corpus if parts.here(corpus) or is_table(corpus) else str(_located(corpus)[0])


def held_out_part(
    data: LabelledData, kind: str, names: Sequence[str] | None, kept: Mapping[str, Any]
) -> tuple[LabelledTexts, str]:
    """What to evaluate on, and in words which part of the corpus that is.

    All of a table, unless a part of the same was trained on; of a corpus by name, the table that no
    recipe trains on; of a file with parts, that to test on, or else to validate on.
    """
    named = not parts.here(data.corpus) and not is_table(data.corpus)
    file = str(_located(data.corpus)[-1]) if named else data.corpus
    table = read_table(file)
    for role, which in (("test", "its test part"), ("valid", "its validation part")):
        if table.part(role):
            return read_labelled(table, data, kind, names, role=role), which
    part = read_labelled(table, data, kind, names)
    if not splits.same(Path(file), kept):
        return part, "what no recipe trains on" if named else "all"
    if splits.whole(kept):
        return part, splits.SEEN
    _, part = split(part, float(kept["split"]), int(kept["seed"]))
    return part, f"the {counted(len(part), 'text')} that training held out"


def is_labelled(corpus: str) -> bool:
    """Whether a corpus is a table, or known by its name to be one."""
    known = {one.name for one in registry.corpora() if one.kind == LabelledData.kind}
    return is_table(corpus) or (corpus in known and not parts.here(corpus))


def _located(corpus: str) -> list[Path]:
    return parts.located(corpus, LabelledData.kind, lambda file: is_table(file.name))


def split(whole: LabelledTexts, share: float, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
    """A share held out by chance, each class in its share; texts of one group stay together."""
    if not share:
        raise ImpossibleSetting("[data] split must be above 0, or valid must name another table")
    classes = [whole.classes_of(row) for row in range(len(whole))]
    rest, held_out = splits.by_class(classes, share, seed, whole.groups)
    if not held_out:
        what = "texts" if whole.groups is None else "groups"
        many = len(whole if whole.groups is None else set(whole.groups))
        counts = Counter(label for given in classes for label in given)
        alone = max(counts.values(), default=0) == 1
        why = ", since each class has one alone, which is trained on" if alone else ""
        raise ImpossibleSetting(
            f"a share of {share} of {many} {what} is none{why}; give more of them, "
            f"{'' if alone else 'set split higher, '}or name another table to validate on as valid"
        )
    return whole.chosen(rest), whole.chosen(held_out)


def few(whole: LabelledTexts, examples: int, seed: int) -> LabelledTexts:
    """A number of texts of each class, by chance; all of a class that has fewer."""
    if whole.labels.ndim == 2 or not whole.names:
        raise ImpossibleSetting("[data] examples is for classes: a number of texts of each")
    random, rows = generator(seed, CHOOSING), list[int]()
    for number in range(len(whole.names)):
        rows += random.permutation(np.flatnonzero(whole.labels == number))[:examples].tolist()
    return whole.chosen(sorted(rows))


def class_weights(part: LabelledTexts) -> Array:
    """Weights by inverse frequency, whose mean over the texts is one.

    Of classes, one weight each; of several labels at once, two each: without the label, and with.
    """
    if part.labels.ndim == 2:
        given = part.labels.sum(axis=0)
        counts = np.stack([len(part) - given, given])
        return np.asarray(len(part) / (2 * np.maximum(1, counts)), np.float32)
    counts = np.bincount(part.labels, minlength=len(part.names))
    there = np.count_nonzero(counts)
    return np.asarray(len(part) / (there * np.maximum(1, counts)), np.float32)


def _texts(table: Table, column: str) -> list[str]:
    cells = table.cells(column)
    for row, cell in enumerate(cells):
        if not isinstance(cell, str):
            what = "nothing" if cell is None else f"{type(cell).__name__} {cell!r}"
            raise UnusableData(f"{table.where(row)}: expected text as {column!r}, got {what}")
        if not cell.strip():
            raise UnusableData(
                f"{table.where(row)}: the text in {column!r} is empty; expected some words, or "
                f"leave the row out"
            )
    return cells


def _single(table: Table, column: str) -> list[list[str]]:
    cells = [_label(cell) for cell in table.cells(column)]
    for row, cell in enumerate(cells):
        if not cell:
            raise UnusableData(
                f"{table.where(row)}: there is no label in {column!r}; "
                f"give one, or leave the row out"
            )
    return [[cell] for cell in cells]


def _columns(label: str) -> list[str]:
    return [name.strip() for name in label.split(",")]


def _several(table: Table, data: LabelledData) -> list[list[str]]:
    """The labels of each text: of a list, of a cell with separators, or of columns of 0 and 1."""
    if "," in data.label:
        by_column = {name: table.cells(name) for name in _columns(data.label)}
        return [
            [name for name, cells in by_column.items() if _given(table, row, name, cells[row])]
            for row in range(len(table))
        ]
    found = []
    for cell in table.cells(data.label):
        parts = cell if isinstance(cell, list) else str(cell or "").split(data.separator)
        found.append(list(dict.fromkeys(label for part in parts if (label := _label(part)))))
    return found


def _given(table: Table, row: int, column: str, cell: Any) -> bool:
    text = _label(cell).lower()
    if text not in TRUE + FALSE:
        raise UnusableData(f"{table.where(row)}: expected 0 or 1 as {column!r}, got {cell!r}")
    return text in TRUE


def _label(cell: Any) -> str:
    """A label as text; JSON may have it as a number."""
    return "" if cell is None else str(cell).strip()


def _values(table: Table, column: str) -> Array:
    found = np.zeros(len(table))
    for row, cell in enumerate(table.cells(column)):
        try:
            found[row] = float(cell) if not isinstance(cell, bool) else float("nan")
        except (TypeError, ValueError, OverflowError):
            found[row] = float("nan")
        if not np.isfinite(found[row]):
            raise UnusableData(
                f"{table.where(row)}: expected a finite number as {column!r}, got {cell!r}"
            )
    return found


def _natural(label: str) -> tuple[float, str]:
    """Numbers by their size, before words by their letters."""
    try:
        return float(label), label
    except ValueError:
        return float("inf"), label


def _require_learnable(training: LabelledTexts, kind: str) -> None:
    if kind == "values":
        if np.ptp(training.labels) == 0:
            raise UnusableData(
                f"all texts of {training.name} have the value {training.labels[0]}; "
                f"expected different ones, or there is nothing to learn"
            )
    elif len(training.names) < (2 if kind == "classes" else 1):
        what = f"one class only, {training.names[0]!r}" if training.names else "no labels"
        raise UnusableData(
            f"{training.name} has {what}; expected two or more, or there is nothing to tell apart"
        )


def _require_apart(training: LabelledTexts, validation: LabelledTexts) -> None:
    if training.groups is None or validation.groups is None:
        return
    if both := sorted(set(training.groups) & set(validation.groups)):
        raise UnusableData(
            f"{len(both):,} groups are in {training.name} and in {validation.name}, {both[0]!r} "
            f"among them; expected each on one side only"
        )
