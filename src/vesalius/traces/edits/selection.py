"""Which steps of a forward pass an edit is about, and which of their cells.

``"P[2,*]"``, ``"H[3]@5"``, ``"F[1](37, :)"``: a pattern of steps as ``only`` takes it, with a token
position after ``@`` or cells in parentheses as NumPy indexes them, counted from 0.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vesalius.equations.tracing import Pattern, Steps, name
from vesalius.errors import UnknownStep, WrongKind, WrongLength, nearest
from vesalius.views.shown import counted

FORMS = "A[3], P[2,*], P[2,1]@5 for a token, H[2](:, 5) for cells"
Index = tuple[Any, ...]


def token_axis(symbol: str, place: Mapping[str, int], shape: Sequence[int], n: int) -> Index | None:
    """The axis of a step that has a place for each of n tokens, and the first token there.

    Heads and the mask have a row a token, all else a column. A ViT's patches lack the class token.
    Steps of one time, and vectors, have no such axis.
    """
    if len(shape) != 2 or "time" in place:
        return None
    if "head" in place or symbol == "S":
        return (0, 0) if shape[0] == n else None
    return (1, n - shape[1]) if shape[1] in (n, n - 1) else None


@dataclass(frozen=True)
class Where:
    """The cells of a step that an edit is about."""

    symbol: str
    place: dict[str, int]
    shape: tuple[int, ...]
    """Of the whole step."""
    index: Index
    n: int
    """Tokens of the text."""
    position: int | slice | None = None
    """The token position, where one was said."""

    @property
    def step(self) -> str:
        return name(self.symbol, self.place)

    @property
    def label(self) -> str:
        """The step, with the token position or the cells where they were said."""
        if self.position is not None and "time" not in self.place:
            return f"{self.step}@{told(self.position)}"
        return f"{self.step}({', '.join(map(told, self.index))})" if self.index else self.step

    @property
    def axis(self) -> Index | None:
        return token_axis(self.symbol, self.place, self.shape, self.n)

    def at(self, position: int | slice) -> Index | None:
        """The index of a token position; None where the step is of another time."""
        if "time" in self.place:
            return (
                () if self.place["time"] - 1 in positions_of(position, self.n, self.step) else None
            )
        if self.axis is None:
            raise WrongLength(
                f"{self.step} has no token positions: it is {by(self.shape)}, for {self.n} tokens"
            )
        axis, first = self.axis
        rows = [k - first for k in positions_of(position, self.n, self.step) if k >= first]
        if not rows:
            raise WrongLength(f"{self.step} has no column for the class token, position 0")
        at = rows[0] if isinstance(position, int) else rows
        return (at,) if axis == 0 else (slice(None), at)


def positions_of(position: int | slice, n: int, step: str) -> list[int]:
    if isinstance(position, slice):
        found = list(range(n)[position])
    else:
        found = [position % n] if -n <= position < n else []
    if not found:
        raise WrongLength(
            f"position {told(position)} of {step} is not among the {counted(n, 'token')}; "
            f"expected 0 to {n - 1}, or -1 for the last"
        )
    return found


def by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def told(index: Any) -> str:
    if isinstance(index, slice):
        ends = ("" if k is None else str(k) for k in (index.start, index.stop, index.step))
        return ":".join(ends).removesuffix(":") if index.step is None else ":".join(ends)
    return "..." if index is Ellipsis else str(index)


class Selection:
    """A pattern of steps, with a token position or cells if there are any."""

    def __init__(self, text: Any) -> None:
        if not isinstance(text, str):
            raise WrongKind(f"edit takes the names of steps, as in {FORMS}; got {text!r}")
        match = re.fullmatch(r"([^@()]*)(?:@([^@()]*)|\(([^@()]*)\))?\s*", text)
        if match is None:
            raise UnknownStep(f"cannot read {text!r} as steps to edit; expected the form {FORMS}")
        steps, position, cells = match.groups()
        self.text, self.steps = text, steps.strip()
        if not self.steps:
            raise UnknownStep(f"there is no step {text!r} to edit; expected the form {FORMS}")
        self.pattern = Pattern(steps)
        self.position = None if position is None else self._index(position)
        self.cells = None if cells is None else tuple(map(self._index, cells.split(",")))
        if self.position is Ellipsis or (self.cells or ()).count(Ellipsis) > 1:
            raise UnknownStep(f"cannot read the '...' in {text!r}; expected the form {FORMS}")

    def _index(self, text: str) -> Any:
        """A whole number, a slice or ``...``, as NumPy reads them."""
        text = text.strip()
        if text == "...":
            return Ellipsis
        if re.fullmatch(r"[+-]?\d{1,9}", text):
            return int(text)
        if re.fullmatch(r"([+-]?\d{1,9})?(\s*:\s*([+-]?\d{1,9})?){1,2}", text):
            ends = [int(part) if part.strip() else None for part in text.split(":")]
            if len(ends) < 3 or ends[2] != 0:
                return slice(*ends)
        raise UnknownStep(
            f"cannot read the index {text!r} of {self.text!r}; expected a whole number or a slice "
            f"from 0, as in {FORMS}"
        )

    def where(self, symbol: str, place: dict[str, int], shape: Index, n: int) -> Where | None:
        """The cells of a step that are meant, or None where it is not."""
        if not self.pattern(symbol, place):
            return None
        whole = Where(symbol, place, shape, (), n)
        if self.position is not None:
            index = whole.at(self.position)
            found = Where(symbol, place, shape, index or (), n, self.position)
            return None if index is None else found
        if self.cells is None:
            return whole
        index = self.cells
        if len(index) - index.count(Ellipsis) > len(shape):
            raise WrongLength(
                f"{self.text!r} has {len(index)} indices; {whole.step} is {by(shape)}"
            )
        try:
            size = np.broadcast_to(np.int8(0), shape)[index].size
        except IndexError:
            size = 0
        if not size:
            cells = ", ".join(map(told, index))
            raise WrongLength(f"{whole.step} is {by(shape)}, and has no cells at ({cells})")
        return Where(symbol, place, shape, index, n)


def selections(steps: Any) -> list[Selection]:
    """Patterns that stand side by side, ``"A, P[3,*]@5"``, or one by one in a list."""
    if isinstance(steps, str):
        steps = re.split(r",(?![^\[(]*[\])])", steps)  # not at commas inside brackets
    if not isinstance(steps, Iterable):
        raise WrongKind(f"steps are said by name, as in {FORMS}; got {steps!r}")
    if not (found := [Selection(text) for text in steps]):
        raise UnknownStep(f"steps names none; expected some, as in {FORMS}")
    return found


def chosen(steps: Any, recorded: Steps, n: int) -> list[tuple[Any, Where]]:
    """The steps of a trace that are meant, and their cells; none is an error."""
    found: dict[str, tuple[Any, Where]] = {}
    for selection in selections(steps):
        met = [step for step in recorded if selection.pattern(step.symbol, step.place)]
        if not met:
            hint = nearest(selection.steps, recorded.names())
            known = dict.fromkeys(step.symbol for step in recorded)
            if selection.pattern.symbol not in known and hint.endswith("?"):
                hint += f" This model has {', '.join(known)}"
            raise UnknownStep(f"there is no step {selection.steps}; {hint}")
        places = [selection.where(s.symbol, s.place, np.shape(s.value), n) for s in met]
        if not any(places):
            raise WrongLength(f"{selection.text!r} is of another time than its position")
        found |= {w.label: (s, w) for s, w in zip(met, places, strict=True) if w is not None}
    return list(found.values())
