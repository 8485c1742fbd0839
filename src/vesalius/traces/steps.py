"""How the steps of a trace are told: a line for each, what each kind is once, and values in a grid.

Grids are plain lines that fit a width; rows and columns that stand for tokens are named by them.
What does not fit is left out, and said to be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vesalius.equations import Step
from vesalius.equations.parameters import Array
from vesalius.views.shown import Part, Shaded, Table

ROWS = 16
"""Rows of a grid."""
GRIDS = 12
"""Steps whose values are drawn."""
NAME = 12
"""Characters of a token beside its row."""
ATTENTION = ("mu", "S")
"""Symbols of which rows are queries, and columns keys."""
LETTERS = {"layer": "l", "head": "m", "time": "i"}


@dataclass(frozen=True)
class Summary:
    """One step in numbers."""

    equation: str
    symbol: str
    name: str
    shape: tuple[int, ...]
    norm: float
    least: float
    most: float
    masked: float = 0.0
    """The share of minus infinity, which norm, least and most leave out."""

    def to_json(self) -> dict[str, Any]:
        return self.__dict__.copy()


def summary_of(step: Step) -> Summary:
    value = np.asarray(step.value, dtype=np.float64)
    finite = value[np.isfinite(value)]  # masks hold minus infinity
    least, most = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
    return Summary(
        step.equation.name,
        step.symbol,
        step.name,
        value.shape,
        float(np.linalg.norm(finite)),
        float(least),
        float(most),
        float(np.isneginf(value).mean()) if value.size else 0.0,
    )


def overview(steps: Sequence[tuple[Step, Summary]]) -> Iterator[Part]:
    """A row for each step, and below it what each symbol is, said once."""
    rows = []
    for step, summary in steps:
        shape = " × ".join(map(str, summary.shape)) or "1"
        norm, least = f"{summary.norm:.4g}", f"{summary.least:.4g}"
        if summary.masked:
            norm, least = f"{summary.masked:.0%} masked", "-inf"
        rows.append((step.equation.label, summary.name, shape, norm, least, f"{summary.most:.4g}"))
    yield Table(("", "step", "shape", "norm", "least", "most"), rows, right=(3, 4, 5))
    kinds: dict[str, list[Step]] = {}
    for step, _ in steps:
        kinds.setdefault(step.equation.name, []).append(step)
    told = [
        (of[0].equation.label, ", ".join(_kinds(of)), of[0].equation.title) for of in kinds.values()
    ]
    yield Table(("", "step", "what it is"), told, prose=(2,))


def _kinds(steps: Sequence[Step]) -> dict[str, None]:
    """What the steps of an equation are called wherever they are: mu[l,m]; H[0], if only there."""
    layers = {step.place.get("layer") for step in steps}
    letters = LETTERS | ({"layer": "0"} if layers == {0} else {})
    names: dict[str, None] = {}
    for step in steps:
        place = ",".join(letters[axis] for axis in step.place)
        names[f"{step.symbol}[{place}]" if place else step.symbol] = None
    return names


def grids(steps: Sequence[Step], tokens: Sequence[str], width: int) -> Iterator[str]:
    """The values of steps, as far as they fit."""
    for step in steps[:GRIDS]:
        yield from grid(step, tokens, width)
    if len(steps) > GRIDS:
        yield f"The values of {len(steps) - GRIDS} more steps are left out; name fewer with --only."


def grid(step: Step, tokens: Sequence[str], width: int) -> list[str]:
    """One step's values with their axes, in lines of a width."""
    value = np.asarray(step.value)
    title = f"{step.name} {step.equation.label}"
    if value.ndim == 0:
        return [f"{title} = {value.item():.6g}", ""]
    if value.ndim == 1:
        return [f"{title}, {len(value)} numbers", *_vector(value, width), ""]
    n = len(tokens)
    if step.symbol in ATTENTION and value.shape == (n, n):
        blank = "; what is exactly 0 is blank" if step.symbol != "S" else ""
        axes = f"rows are queries, columns are keys{blank}"
        return [f"{title}: {axes}", *_attention(value, tokens, width, "" if blank else "0")]
    by_row = "head" in step.place and len(value) == n
    rows = tokens if by_row else ()
    columns = tokens if not by_row and value.shape[1] == n else ()
    axes = "a row for each token" if by_row else "a column for each token" if columns else "values"
    return [f"{title}: {axes}", *_matrix(value, rows, columns, width)]


def _vector(value: Array, width: int) -> Iterator[str]:
    cells = [f"{x:.4g}" for x in value[: ROWS * width]]
    wide = max(map(len, cells), default=1) + 2
    label = len(str(len(value))) + 3
    each = max(1, (width - label) // wide)
    for start in range(0, min(len(cells), each * ROWS), each):
        row = "".join(f"{cell:>{wide}}" for cell in cells[start : start + each])
        yield f"{start + 1:>{label - 1}} {row}"
    if len(value) > each * ROWS:
        yield f"The first {each * ROWS} of {len(value)}; --save writes all."


def _attention(value: Array, tokens: Sequence[str], width: int, zero: str) -> Iterator[str]:
    """Shares with three digits where all keys fit, else in percent."""
    label = _label_width(tokens)
    exact = len(tokens) * 6 + label <= width
    wide = 6 if exact else 4
    shown = min(len(tokens), ROWS if exact else ROWS + 6, (width - label) // wide)
    heads = [_cut(token, 5) if exact else str(i) for i, token in enumerate(tokens, 1)]
    yield " " * label + "".join(f"{head:>{wide}}" for head in heads[:shown])
    for i in range(shown):
        cells = (_share(x, exact, zero) for x in value[i, :shown])
        row = "".join(f"{cell:>{wide}}" for cell in cells)
        line = Shaded(f"{_row_label(i, tokens, label)}{row}".rstrip())
        ends = [(label + wide * j, label + wide * (j + 1)) for j in range(shown)]
        of = zip(ends, value[i], strict=False)
        line.shares = [(*place, float(x)) for place, x in of if 0 < x <= 1]
        yield line
    if not exact:
        yield "Shares are in percent; columns are numbered as the rows."
    if shown < len(tokens):
        yield f"The first {shown} of {len(tokens)} tokens; --save writes all."
    yield ""


def _share(x: float, exact: bool, zero: str) -> str:
    if x == 0 or np.isneginf(x):
        return zero if x == 0 else "-inf" if exact else "-∞"
    return f"{x:.3f}" if exact else f"{100 * x:.0f}" if x >= 0.005 else "·"


def _matrix(value: Array, rows: Sequence[str], columns: Sequence[str], width: int) -> Iterator[str]:
    shown = value[:ROWS, : width // 4]
    cells = [[f"{x:.4g}" for x in row] for row in shown]
    wide = max((len(cell) for row in cells for cell in row), default=1) + 2
    label = _label_width(rows) if rows else len(str(len(value))) + 2
    many = max(1, min(value.shape[1], (width - label) // wide))
    heads = [_cut(columns[j], wide - 1) if columns else str(j + 1) for j in range(many)]
    yield " " * label + "".join(f"{head:>{wide}}" for head in heads)
    for i, row in enumerate(cells):
        name = _row_label(i, rows, label) if rows else f"{i + 1:>{label - 1}} "
        yield name + "".join(f"{cell:>{wide}}" for cell in row[:many])
    if len(cells) < len(value) or many < value.shape[1]:
        yield (
            f"The first {len(cells)} of {len(value)} rows and {many} of {value.shape[1]} columns; "
            f"--save writes all."
        )
    yield ""


def _label_width(tokens: Sequence[str]) -> int:
    return len(str(len(tokens))) + 2 + min(NAME, max(len(_plain(token)) for token in tokens))


def _row_label(i: int, tokens: Sequence[str], width: int) -> str:
    number = len(str(len(tokens)))
    return f"{i + 1:>{number}} {_cut(tokens[i], width - number - 2):{width - number - 1}}"


def _plain(token: str) -> str:
    """A token that takes one line and can be seen: a space at its start is a dot."""
    shown = "".join(c if c.isprintable() else "�" if c != "\n" else "⏎" for c in token)
    return f"·{shown[1:]}" if shown.startswith(" ") else shown or "·"


def _cut(token: str, most: int) -> str:
    text = _plain(token)
    return text if len(text) <= most else f"{text[: max(1, most - 1)]}…"
