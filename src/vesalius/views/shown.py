"""What a result shows of itself: lines and tables, said once.

The command line prints them. Here they become HTML for notebooks, without scripts or other files;
the page's colours are variables in it. A page with scripts reads JSON in their place:
``Trace.to_json`` and its like.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from vesalius.views.colours import variables


@dataclass(frozen=True)
class Cell:
    """A cell with more to it than its text."""

    text: str
    below: str = ""
    """A second line, fainter."""
    bold: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under heads. Columns in ``right`` are right-aligned, columns in ``prose`` may wrap, and
    columns in ``beneath`` go below their row in a narrow terminal."""

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    right: Sequence[int] = ()
    prose: Sequence[int] = ()
    beneath: Sequence[int] = ()
    title: str = ""


Part = Table | str
"""A table, or a line of text."""


class Shaded(str):
    """A line in which some numbers are shares of one, so that a terminal can shade them."""

    __slots__ = ("shares",)

    shares: list[tuple[int, int, float]]
    """Where a number's cell begins and ends, and the share."""


class Shown:
    """A result with a ``view`` of lines and tables, which terminals and notebooks show."""

    def view(self) -> Iterable[Part]:
        raise AssertionError("every result says its own")

    def _repr_html_(self) -> str:
        return html(*self.view())


STYLE = f"""
{variables(".vesalius")}
.vesalius {{ font: 13px/1.45 -apple-system, "Segoe UI", Roboto, "Noto Sans",
  "Liberation Sans", Arial, system-ui, sans-serif; max-height: 64em; overflow: auto }}
.vesalius table {{ border-collapse: collapse; margin: .4em 0 .8em; font-size: inherit;
  color: inherit }}
.vesalius caption {{ text-align: left; white-space: nowrap; font-weight: 600; padding: .3em .6em }}
.vesalius th, .vesalius td {{ text-align: left; vertical-align: top; padding: .15em .6em;
  border: 0; background: none; color: inherit; white-space: pre }}
.vesalius .prose {{ white-space: pre-wrap; max-width: 32em }}
.vesalius th {{ font-weight: 600; border-bottom: 1px solid rgb(var(--v-soft)) }}
.vesalius tr + tr td {{ border-top: 1px solid rgba(var(--v-edge), .5) }}
.vesalius .right {{ text-align: right; font-variant-numeric: tabular-nums }}
.vesalius small {{ display: block; font-size: 92%; opacity: .65 }}
.vesalius .faint {{ opacity: .55 }}
.vesalius p {{ margin: .3em .6em; white-space: pre-wrap }}
"""


def html(*parts: Part) -> str:
    """Tables and lines as one piece of HTML; whatever they hold is escaped."""
    shown = (_table(p) if isinstance(p, Table) else f"<p>{escape(p)}</p>" for p in parts)
    return f'<div class="vesalius"><style>{STYLE}</style>{"".join(shown)}</div>'


def in_lines(shown: Shown) -> str:
    """A small view as plain text, for a repr: a line for each row."""
    lines = []
    for part in shown.view():
        if not isinstance(part, Table):
            lines.append(part)
            continue
        lines += [text for text in (part.title, "  ".join(filter(None, part.heads))) if text]
        rows = [[str(cell) for cell in row] for row in part.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        formats = [f"{'>' if i in part.right else '<'}{w}" for i, w in enumerate(widths)]
        for row in rows:
            lines.append(f"  {'  '.join(map(format, row, formats))}".rstrip())
    return "\n".join(lines)


def counted(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def noted(hint: str) -> list[str]:
    """The line with what may be wrong with an input, if anything may be."""
    return [f"note: {hint}"] if hint else []


def short(value: object, most: int) -> str:
    """The beginning of a value's repr."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown_value(value: object) -> str:
    """A setting's value for people."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(table: Table) -> str:
    title = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    heads = "".join(_cell(table, "th", i, head) for i, head in enumerate(table.heads))
    head = f"<thead><tr>{heads}</tr></thead>" if any(table.heads) else ""
    rows = "".join(
        f"<tr>{''.join(_cell(table, 'td', i, cell) for i, cell in enumerate(row))}</tr>"
        for row in table.rows
    )
    return f"<table>{title}{head}<tbody>{rows}</tbody></table>"


def _cell(table: Table, tag: str, column: int, given: object) -> str:
    cell = given if isinstance(given, Cell) else Cell(str(given))
    text = f"<b>{escape(cell.text)}</b>" if cell.bold else escape(cell.text)
    text = f'<span class="faint">{text}</span>' if cell.faint else text
    below = f"<small>{escape(cell.below)}</small>" if cell.below else ""
    kinds = " ".join(name for name in ("right", "prose") if column in getattr(table, name))
    opening = f'<{tag} class="{kinds}">' if kinds else f"<{tag}>"
    return f"{opening}{text}{below}</{tag}>"


def bytes_of(size: int) -> str:
    """A size in the unit that suits it, to four digits."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min((len(str(size)) - 1) // 3, len(units) - 1)
    whole, rest = divmod(size, 1000**power)
    number = f"{whole:,}" if whole >= 1000 else f"{whole + rest / 1000**power:.4g}"
    return f"{number} {units[power]}"
