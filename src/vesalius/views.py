"""What a result shows of itself: lines and tables, said once.

``terminal`` prints them, and here they become HTML for notebooks, which needs no script, no other
file and no colour of its own, so that it is readable on light and on dark.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True)
class Cell:
    """A cell with more to it than its text."""

    text: str
    below: str = ""
    """A second line, fainter."""
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under heads. Columns in ``right`` are aligned there; those in ``prose`` may wrap."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    right: Sequence[int] = ()
    prose: Sequence[int] = ()
    title: str = ""


Part = Table | str
"""A table, or a line of text."""


class Shown:
    """Something that says in ``view`` what is to be seen of it; notebooks show that."""

    def view(self) -> Iterable[Part]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html(*self.view())


STYLE = """
.vesalius { font: 13px/1.45 system-ui, sans-serif; max-height: 42em; overflow: auto }
.vesalius table { border-collapse: collapse; margin: .4em 0 .8em; font-size: inherit }
.vesalius caption { text-align: left; font-weight: 600; padding: .2em .6em .4em }
.vesalius th, .vesalius td { text-align: left; vertical-align: top; padding: .15em .6em;
  border: 0; background: none; color: inherit; white-space: pre }
.vesalius .prose { white-space: pre-wrap; max-width: 32em }
.vesalius th { font-weight: 600; border-bottom: 1px solid rgba(128, 128, 128, .6) }
.vesalius tr + tr td { border-top: 1px solid rgba(128, 128, 128, .18) }
.vesalius .right { text-align: right; font-variant-numeric: tabular-nums }
.vesalius small { display: block; font-size: 92%; opacity: .65 }
.vesalius p { margin: .3em .6em; white-space: pre-wrap }
"""


def html(*parts: Part) -> str:
    """Tables and lines as one piece of HTML; whatever they hold is escaped."""
    shown = (_table(part) if isinstance(part, Table) else _line(part) for part in parts)
    return f'<div class="vesalius"><style>{STYLE}</style>{"".join(shown)}</div>'


def _line(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(table: Table) -> str:
    title = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    heads = "".join(_cell(table, "th", i, head) for i, head in enumerate(table.heads))
    head = f"<thead><tr>{heads}</tr></thead>" if any(table.heads) else ""
    rows = "".join(
        f"<tr>{''.join(_cell(table, 'td', i, cell) for i, cell in enumerate(row))}</tr>"
        for row in table.rows
    )
    return f"<table>{title}{head}<tbody>{rows}</tbody></table>"


def _cell(table: Table, tag: str, column: int, given: Any) -> str:
    cell = given if isinstance(given, Cell) else Cell(str(given))
    text = f"<b>{escape(cell.text)}</b>" if cell.bold else escape(cell.text)
    below = f"<small>{escape(cell.below)}</small>" if cell.below else ""
    kinds = " ".join(name for name in ("right", "prose") if column in getattr(table, name))
    opening = f'<{tag} class="{kinds}">' if kinds else f"<{tag}>"
    return f"{opening}{text}{below}</{tag}>"
