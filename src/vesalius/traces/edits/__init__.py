"""Edits as a language: which steps of a forward pass, which of their cells, and what instead.

``{"P[2,*]": zero, "H[3]@5": from_trace(other), "F[1](37, :)": scale(2.0)}``: ``selection`` reads
the keys, ``ready`` holds the edits that are made here; a value may be a function, a number or an
array too. Whatever is without effect is an error.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.equations.tracing import fitted
from vesalius.errors import UnknownStep, WrongKind, WrongLength, nearest
from vesalius.traces.edits.selection import Selection, Where
from vesalius.traces.edits.values import Edit, Run, edit_of


class Edits:
    """What is edited on the way of one forward pass, in the order in which it was said."""

    def __init__(self, edit: Any, n: int, run: Run) -> None:
        if not isinstance(edit, Mapping):
            raise WrongKind(
                f"edit takes what to put in the place of steps, by their names, {{'A[3]': f}}; "
                f"got {edit!r}"
            )
        self.n, self._met = n, set[str]()
        """How many tokens there are, and the patterns that have had an effect."""
        chosen = {text: (Selection(text), edit_of(value)) for text, value in edit.items()}
        self._edits = {
            text: (selection, change.bound([selection.pattern.symbol], run))
            for text, (selection, change) in chosen.items()
        }
        self._seen: set[str] = set()

    def edited(self, symbol: str, place: dict[str, int], value: Any) -> Any:
        for text, (selection, change) in self._edits.items():
            if not selection.pattern(symbol, place):
                continue
            self._seen.add(text)
            where = selection.where(symbol, place, np.shape(value), self.n)
            if where is not None:
                self._met.add(text)
                value = replaced(value, where, change)
        return value

    def finish(self, passed: Collection[str]) -> None:
        for text, (selection, _) in self._edits.items():
            if text not in self._seen:
                raise UnknownStep(
                    f"there is no step {selection.steps} to edit; "
                    f"{nearest(selection.steps, passed)}"
                )
            if text not in self._met:
                raise WrongLength(f"{text!r} is of another time than its position: nothing matches")


def replaced(value: Array, where: Where, change: Edit) -> Array:
    """A step's value with the cells that are meant replaced."""
    part = np.array(value[where.index])  # a copy, which functions may write to
    given = fitted(where.step, part, change(part, where))
    whole = np.array(value)  # in the same order of memory, on which the last bits depend
    whole[where.index or ...] = given
    return whole
