"""What an analysis is about: the logit of a word or class, the difference of two, a value.

A target is a weighted sum of cells of one step. Written by people it is a word (``" head"``), an
id, a class, two of these for their difference, or a cell of a step: ``"Omega_hat(3, 7)"``, or
``("Omega_hat", 3, 7)``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.capabilities import predicts_next
from vesalius.data.inputs import label_names
from vesalius.equations import softmax
from vesalius.equations.parameters import Array
from vesalius.errors import TokenOutOfRange, UnknownStep, WrongKind, WrongLength, nearest
from vesalius.traces.trace import Trace
from vesalius.views.shown import short

OUTPUTS = ("Z", "z", "Omega_hat", "z_C")
"""The steps that targets are cells of, the first that a model has."""
CELL = re.compile(r"\s*(\w+(?:\[[\d,\s]+\])?)\(([-\d\s,]+)\)\s*")
Wanted = str | int | Sequence[str | int] | None
"""How people write a target."""


@dataclass(frozen=True)
class Target:
    """A weighted sum of cells of one step."""

    step: str
    cells: tuple[tuple[tuple[int, ...], float], ...]
    label: str
    likelihood: bool
    """Whether the step's columns are logits, so that cells have a probability."""

    def of(self, value: Array) -> float:
        """The target in a value of its step."""
        return float(sum(weight * float(value[cell]) for cell, weight in self.cells))

    def probability(self, value: Array) -> float | None:
        """The probability of the target, or the difference of two; None where there is none."""
        if not self.likelihood:
            return None
        column = self.column
        odds = softmax(np.asarray(value if value.ndim == 1 else value[:, column], np.float64))
        return float(sum(weight * odds[cell[0]] for cell, weight in self.cells))

    @property
    def noun(self) -> str:
        """What its number is called."""
        return "logit" if self.likelihood else "value"

    @property
    def column(self) -> int:
        """The position that it is read at; 0 for a vector."""
        return self.cells[0][0][1] if len(self.cells[0][0]) > 1 else 0

    def to_json(self) -> dict[str, Any]:
        cells = [{"at": list(cell), "weight": weight} for cell, weight in self.cells]
        return {"step": self.step, "cells": cells, "label": self.label}


def find(trace: Trace, wanted: Wanted = None, position: int | None = None) -> Target:
    """The target that is meant, in this trace; the likeliest word or class unless one is said.

    ``position`` is the token that words are read after, or at which for masked models: the last
    by default, and the one that is masked; of tags the last word, of answers where they start. A
    masked model that is given no mask reads the first word.
    """
    if isinstance(wanted, str) and wanted not in labels(trace):
        wanted = _written(wanted)
    if isinstance(wanted, tuple | list) and wanted and _is_step(trace, wanted[0]):
        return _cell(trace, str(wanted[0]), wanted[1:])
    step = output_of(trace)
    if step is None:
        raise WrongKind(f"this {trace.family} has no head whose outputs could be a target")
    value = trace[step]
    column = column_of(trace, value, position)
    if step == "Omega_hat":
        raise WrongKind(
            f"{trace.family} gives values; a target is one of them, as Omega_hat(0, 0): "
            f"row and column of {value.shape[0]} x {value.shape[1]}, counted from 0"
        )
    several = isinstance(wanted, tuple | list)
    names = list(wanted) if several else [wanted]  # type: ignore[arg-type]
    if len(names) > 2 and isinstance(names[0], str):
        known = trace.steps.passed
        raise UnknownStep(
            f"a target is one word or class, two to compare, or a cell of a step; "
            f"no step is called {names[0]!r}: {nearest(names[0], known)}"
        )
    if not 1 <= len(names) <= 2:
        raise WrongKind(f"a target is one word or class, or two to compare; got {len(names)}")
    rows = [_row(trace, name, value if value.ndim == 1 else value[:, column]) for name in names]
    at = () if value.ndim == 1 else (column,)
    cells = tuple(((row, *at), sign) for row, sign in zip(rows, (1.0, -1.0), strict=False))
    label = " minus ".join(_label(trace, row) for row in rows)
    likely = step != "z" or trace.tells_odds
    return Target(step, cells, label, likelihood=likely)


def output_of(trace: Trace) -> str | None:
    """The step that targets are cells of; None where the model has no head."""
    if trace.tells_labels:
        return "z"
    return next((name for name in OUTPUTS if name in trace.steps.passed), None)


def words(trace: Trace) -> bool:
    """Whether the model's outputs are words."""
    told = "Y_hat" in trace.steps.passed or "y_hat" in trace.steps.passed
    return told and not trace.tells_labels


def labels(trace: Trace) -> list[str]:
    """What the rows of the logits z are called; none where these are words, or nobody knows."""
    if trace.class_names:
        return trace.class_names
    if trace.model is None or output_of(trace) != "z" or words(trace):
        return []
    if len(trace["z"]) == 1:
        return ["value"]
    if trace.labelled == "span":
        return ["start", "end"]
    return label_names(trace.model)


def _written(wanted: str) -> Wanted:
    """A cell as its label has it, ``Omega_hat(3, 7)``; else the word."""
    found = CELL.fullmatch(wanted)
    try:
        return (found[1], *map(int, found[2].replace(",", " ").split())) if found else wanted
    except ValueError:  # of a lone sign
        return wanted


def _is_step(trace: Trace, name: Any) -> bool:
    return isinstance(name, str) and name in trace.steps.passed


def _cell(trace: Trace, step: str, at: Sequence[Any]) -> Target:
    value = trace[step]
    cell = tuple(arguments.whole("a cell's index", k) for k in at)
    if len(cell) != value.ndim or not all(
        -n <= k < n for k, n in zip(cell, value.shape, strict=True)
    ):
        wanted = " x ".join(map(str, value.shape))
        raise WrongLength(
            f"{step} is {wanted}; expected {value.ndim} indices below these, counted from 0, "
            f"got {', '.join(map(str, cell)) or 'none'}"
        )
    cell = tuple(k % n for k, n in zip(cell, value.shape, strict=True))
    label = f"{step}({', '.join(map(str, cell))})"
    return Target(step, ((cell, 1.0),), label, likelihood=step in ("Z", "z_C"))


def column_of(trace: Trace, value: Array, position: int | None) -> int:
    """The column that is meant by a position; without one, where the model's answer is."""
    if value.ndim == 1:
        if position is not None:
            raise WrongKind(f"this {trace.family} has one output, whatever the position")
        return 0
    n = int(value.shape[1])
    if position is None:
        return _answered(trace, value)
    position = arguments.whole("position", position)
    if not -n <= position < n:
        raise WrongLength(f"position must be below {n}, counted from 0, got {position}")
    return position % n


def _answered(trace: Trace, value: Array) -> int:
    """The first mask; of tags the last word, of spans the likeliest start; else the last token.

    Models of masks have nothing to say after the last token; without a mask they read the first
    word.
    """
    tokenizer = trace.model.tokenizer if trace.model else None
    special = {} if tokenizer is None else tokenizer.special
    if (mask := special.get("[MASK]")) in trace.ids:
        return trace.ids.index(mask)
    last = int(value.shape[1]) - 1
    labelled = trace.labelled in ("tokens", "span")
    if not labelled and (trace.model is None or not special or predicts_next(trace.model)):
        return last
    words = [i for i, token in enumerate(trace.ids) if token not in special.values()] or [last]
    if trace.labelled == "tokens":
        return words[-1]
    if not labelled:
        return words[0]
    segments = trace.graph.segments or [0] * len(trace.ids)
    text = [i for i in words if segments[i] == segments[words[-1]]]
    return max(text, key=lambda i: float(value[0, i]))


def _row(trace: Trace, wanted: Any, column: Array) -> int:
    """The row of a word, class or id."""
    if wanted is None:
        return int(np.argmax(column))
    if isinstance(wanted, str):
        if named := labels(trace):
            if wanted not in named:
                raise UnknownStep(f"there is no class {wanted!r}; {nearest(wanted, named)}")
            return named.index(wanted)
        if trace.model is None:
            raise WrongKind(
                f"a trace read from a file has no tokenizer to read {wanted!r} by; say which model "
                f"made it: read_trace(file, model=...)"
            )
        tokenizer = trace.model.tokenizer
        if tokenizer is None:
            raise WrongKind(f"there is no tokenizer to read {wanted!r} by; give the token's id")
        ids = tokenizer.encode_many([wanted], framed=False)[0]
        if len(ids) != 1:
            pieces = " ".join(repr(tokenizer.piece(i)) for i in ids)
            hint = f". A word inside a text begins with its space, as in {' ' + wanted!r}"
            raise TokenOutOfRange(
                f"a target is one token; {wanted!r} is {len(ids)}: {pieces}"
                f"{'' if wanted.startswith(' ') else hint}"
            )
        return int(ids[0])
    row = arguments.whole("a target", wanted)
    if not 0 <= row < len(column):
        what = "classes" if labels(trace) else "the vocabulary"
        raise TokenOutOfRange(f"target {row} is outside {what}; expected 0 to {len(column) - 1}")
    return row


def _label(trace: Trace, row: int) -> str:
    if named := labels(trace):
        return named[row]
    tokenizer = trace.model.tokenizer if trace.model else None
    return short(tokenizer.piece(row), 40) if tokenizer and words(trace) else str(row)
