"""How results look in a terminal: tables, numbers, and JSON for machines."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from vesalius.errors import CONTROL, printable
from vesalius.views.shown import Cell, Shaded, Shown, Table, bytes_of, shown_value

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from vesalius.arguments import Progress
    from vesalius.equations import Equation, Erratum
    from vesalius.specimens import Card
    from vesalius.tasks.classification import Classification
    from vesalius.tasks.labelling.use import Labels, Value
    from vesalius.traces.trace import Trace


COLOURS = ("bright_cyan", "bright_yellow", "bright_green", "bright_magenta")
"""Of neighbouring tokens."""
SHADES = ("#8d9299", "#7f95b0", "#6a98c8", "#4f9ae0", "#2f9bff")
"""Of shares, small to large: of one brightness, so that they can be told on light and on dark."""
HIDDEN = f"[{''.join(chr(code) for code in CONTROL if code >= 127)}]"
"""Characters that JSON may hold as they are, and a terminal obeys."""
ALONE = 4
"""The most classified inputs that have a table of candidates each; more have a row each."""


def setting_meaning(row: dict[str, Any]) -> str:
    choices = ", ".join(map(str, row["choices"] or ()))
    return f"{row['meaning']}: {choices}" if choices else str(row["meaning"])


def show_equation(entry: "Equation") -> None:
    from rich.text import Text

    symbols = [(s.name, s.shape.replace(" × ", "×"), s.meaning) for s in entry.symbols]
    file, line = entry.source
    show(
        Text(f"{entry.label} {entry.title}", style="bold"),
        Text(f"{entry.home} · {file}:{line} · {entry.name}()", style="dim"),
        Text(f"\n{indent(entry.plain, '    ')}", style="bold cyan"),
        Table(("symbol", "shape", "meaning"), symbols, prose=(2,)),
        *([Text(f"{entry.remarks}\n")] if entry.remarks else []),
        *_errata(entry),
        Text(f"LaTeX: {entry.latex}", style="dim"),
    )


def _errata(entry: "Equation") -> "Iterator[str]":
    """Where paper and practice part ways, by title, and how to read more."""
    for erratum in entry.errata:
        yield f"Erratum {erratum.number}, {erratum.kind}: {erratum.title}"
    if entry.errata:
        yield f"Read one with: vesalius equations {entry.errata[0].number}\n"


def show_erratum(erratum: "Erratum") -> None:
    from rich.text import Text

    about = ", ".join(f"({e})" if isinstance(e, int) else f"{e}()" for e in erratum.equations)
    show(
        Text(f"{erratum.number} {erratum.place}: {erratum.title}", style="bold"),
        Text(f"{erratum.kind}{f' · shown with {about}' if about else ''}\n", style="dim"),
        *(
            Text.assemble((f"{name}  ", "bold"), text.replace("`", ""), "\n")
            for name, text in (
                ("Paper", erratum.paper),
                ("Practice", erratum.practice),
                ("Code", erratum.code),
            )
        ),
    )


def show_trace(trace: "Trace", top: int, everything: bool, saved: str | None) -> None:
    from vesalius.traces.steps import grids

    values = grids(trace.steps, trace.tokens(), width()) if everything else ()
    parts = [*trace.told(everything), *values, *trace.outcome(top)]
    if saved:
        parts.append(f"Saved {len(trace.steps)} steps to {saved}")
    show(*parts)


def show_classifications(results: "list[Classification]", top: int) -> None:
    """A table of candidates for each; a row for each where there are many."""
    parts: list[object] = []
    if len(results) <= ALONE:
        for result in results:
            rows = [(c.name, f"{c.probability:.4f}") for c in result.candidates[:top]]
            heads = ("class", "probability")
            parts += [Table(heads, rows, right=(1,), title=result.source), *_about(result)]
    else:
        file = _common_file(results)
        many: list[tuple[str, ...]] = []
        labelled = all(result.label is not None for result in results)
        for result in results:
            best = (f"{c.name} {c.probability:.4f}" for c in result.candidates[:top])
            said = (str(result.label),) if labelled else ()
            many.append((result.source.removeprefix(file), *said, ", ".join(best)))
        heads = ("input", *(("truth",) if labelled else ()), "classes")
        listed = Table(heads, many, prose=(len(heads) - 1,), title=file.removesuffix(", "))
        alike = len({result.prepared for result in results}) == 1
        parts += [listed, *_about(results[0], "Input" if alike else "Input, of the first")]
    if known := [result.right for result in results if result.right is not None]:
        share = sum(known) / len(known)
        parts.append(f"{sum(known):,} of {len(known):,} are what their files say: {share:.2%}.")
    show(*parts)


def show_values(results: "list[Value]") -> None:
    """A row for each series."""
    file = _common_file(results)
    rows = [(result.source.removeprefix(file), f"{result.value:.4f}") for result in results]
    table = Table(("input", "value"), rows, right=(1,), title=file.removesuffix(", "))
    show(table, f"Input: {results[0].prepared}.")


def _common_file(results: "Sequence[Classification | Value]") -> str:
    """The file that all are of, as their sources begin; empty where there are several."""
    files = {result.source.rpartition(", ")[0] for result in results}
    return f"{file}, " if len(files) == 1 and (file := files.pop()) else ""


def show_labels(results: "Sequence[Classification | Labels | Value]", top: int) -> None:
    """What is told of texts: a table for each, or a row for each where there are many."""
    if len(results) <= ALONE:
        show(*(part for result in results for part in (*result.view(top), "")))
        return
    hinted = any(result.hint for result in results)
    rows = [
        (result.source, ", ".join(result.told(top)), *((result.hint,) if hinted else ()))
        for result in results
    ]
    show(Table(("text", "told", *(("note",) if hinted else ())), rows, prose=(0, 1, 2)))


def _about(result: "Classification", what: str = "Input") -> list[str]:
    hint = [f"Note: {result.hint}."] if result.hint else []
    return [f"{what}: {result.prepared}.", *hint]


def width() -> int:
    """Characters of a line: the terminal's, or 120 in a pipe unless COLUMNS says it."""
    from rich.console import Console

    terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console().width if terminal or "COLUMNS" in os.environ else 120


def show_tokens(text: str, rows: list[dict[str, Any]]) -> None:
    """The text in the colours of its tokens, and what each is."""
    from rich.text import Text

    painted, cells, done = Text(), [], 0
    for i, row in enumerate(rows):
        style = f"black on {COLOURS[i % len(COLOURS)]}"
        painted.append(text[done : row["start"]])
        painted.append(text[max(done, row["start"]) : row["end"]], style=style)
        done = max(done, row["end"])
        token = Text(repr(row["token"]), style=style)
        cells.append((row["id"], token, row["bytes"], row["start"], row["end"]))
    painted.append(text[done:])
    heads = ("id", "token", "bytes", "from", "to")
    show(painted, Table(heads, cells, right=(0, 3, 4), prose=(2,)))


def show_cards(cards: "dict[str, Card]") -> None:
    heads = ("specimen", "family", "parameters", "trained on", "operations", "took", "held out")
    rows = [
        (
            name,
            card.family,
            f"{card.parameters:,}",
            card.corpus,
            f"{card.operations:.2g}",
            f"{card.seconds / 60:.0f} min",
            card.headline,
        )
        for name, card in cards.items()
    ]
    show(Table(heads, rows, right=(2, 4, 5), prose=(3, 6)))


def show_card(card: "Card") -> None:
    from rich.text import Text

    took = f"{card.seconds / 60:.0f} minutes of {card.machine}, {card.date}"
    rows = [
        ("family", f"{card.family}, {card.parameters:,} parameters"),
        ("data", f"{card.corpus}: {card.data}; {card.licence}"),
        ("training", f"{card.steps:,} steps, {card.operations:.3g} operations in products"),
        ("took", took),
        ("with", ", ".join(f"{name} {version}" for name, version in card.versions.items())),
        *card.numbers.items(),
    ]
    said = [
        (f"[{part}]", ", ".join(f"{k} {v}" for k, v in card.recipe[part].items() if v is not None))
        for part in ("model", "data", "training")
    ]
    facts, recipe = Table(("", ""), rows, prose=(1,)), Table(("recipe", ""), said, prose=(1,))
    show(Text(card.title, style="bold"), facts, recipe)


def show_recipes(recipes: list[dict[str, Any]]) -> None:
    rows = [(r["name"], r["corpus"], r["title"]) for r in recipes]
    told = "vesalius recipes NAME shows one; vesalius train NAME trains by it"
    show(Table(("name", "corpus", "what"), rows, prose=(2,)), told)


def show_keys(rows: list[dict[str, Any]]) -> None:
    """The keys of a recipe, a table for each section."""
    for section in dict.fromkeys(row["section"] for row in rows):
        of = [row for row in rows if row["section"] == section]
        cells = [(r["key"], shown_value(r["default"]), r["meaning"], limits(r)) for r in of]
        title = f"[{section.partition(',')[0]}]{section.partition(',')[2]}" if section else ""
        show(Table(("key", "default", "meaning", "limits"), cells, prose=(2, 3), title=title))


def limits(row: dict[str, Any]) -> str:
    """What values a setting takes, in words."""
    if row["choices"]:
        return ", ".join(map(str, row["choices"]))
    ends = {"least": "at least", "below": "below"}
    return ", ".join(f"{word} {row[end]:g}" for end, word in ends.items() if row[end] is not None)


def show_corpora(corpora: list[dict[str, Any]]) -> None:
    rows = [
        (c["name"], c["kind"], bytes_of(c["bytes"]) if c["files"] else "", c["licence"], c["where"])
        for c in corpora
    ]
    heads = ("corpus", "kind", "size", "licence", "where")
    show(Table(heads, rows, right=(2,), prose=(3, 4)))


def show_corpus(corpus: dict[str, Any]) -> None:
    from rich.text import Text

    files = corpus["files"]
    facts = [corpus["kind"], corpus["licence"], corpus["where"]]
    if files:
        facts.insert(2, bytes_of(corpus["bytes"]))
    parts: list[object] = [
        Text(f"{corpus['name']}: {corpus['title']}", style="bold"),
        Text(" · ".join(facts)),
        Text(f"from {corpus['source']}", style="dim"),
    ]
    if files:
        rows = [(f["path"], f"{f['bytes']:,}", f["sha256"][:12], f["state"]) for f in files]
        parts += [Table(("file", "bytes", "SHA-256", ""), rows, right=(1,))]
    if here := [f["found"] for f in files if f["found"]]:
        parts.append(Text(f"here: {folder_of(here)}"))
    parts += [Text(address, style="dim") for f in files for address in f["addresses"]]
    if "entropy" in corpus:
        floor = f"{corpus['entropy']:.4f} nats per word, perplexity {corpus['perplexity']:.4f}"
        parts.append(Text(f"\nentropy: {floor}; no model's loss is lower"))
        parts.append(Text(f"vocabulary: {corpus['vocabulary']} words"))
        parts.append(Text(f"parts of speech: {', '.join(corpus['parts_of_speech'])}"))
    show(*parts)


def folder_of(paths: Iterable[str]) -> str:
    """The folder that all the files lie in or below."""
    return os.path.commonpath([os.path.dirname(path) for path in paths])


@contextmanager
def fetching() -> "Iterator[Progress]":
    """How far a download is, on stderr: a bar where somebody watches, else a line for each file."""
    if sys.stderr is None or not sys.stderr.isatty():
        told: set[str] = set()

        def say(what: str, done: int, total: int | None, /) -> None:
            if what not in told:
                told.add(what)
                click.echo(f"fetching {what}, {bytes_of(total or done)}", err=True)

        yield say
        return
    from rich import progress
    from rich.console import Console

    columns = (progress.BarColumn(), progress.DownloadColumn(), progress.TransferSpeedColumn())
    with progress.Progress("{task.description}", *columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, progress.TaskID] = {}

        def move(what: str, done: int, total: int | None, /) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        yield move


@contextmanager
def counting(doing: str) -> "Iterator[Progress]":
    """How far some work is: a bar on stderr where somebody watches; else nothing."""
    from vesalius.arguments import silent

    if sys.stderr is None or not sys.stderr.isatty():
        yield silent
        return
    from rich import progress
    from rich.console import Console

    columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    console = Console(stderr=True)
    with progress.Progress(doing, *columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, completed=done, total=total)


def show(*things: object) -> None:
    """Print results, tables and texts; a pipe's lines have 120 characters, or as COLUMNS says."""
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # which the command line knows how to end on

    console, blank = Pipe(width=width(), highlight=False), False
    for thing in things:
        for part in thing.view() if isinstance(thing, Shown) else [thing]:
            text = laid_out(part, console) if isinstance(part, Table) else _text(part)
            text.plain = printable(text.plain)  # what strangers' files call their tensors
            if blank and text.plain.startswith("\n"):
                text = text[1:]  # one empty line between two tables
            blank = text.plain.endswith("\n") or not text.plain
            # An address or a formula without spaces is left to the terminal, so that it stays one.
            whole = any(len(word) > console.width for word in text.plain.split())
            console.print(text, soft_wrap=whole)


def laid_out(table: Table, console: "Console") -> "Text":
    """A table that fits: prose wraps between words, or goes beneath; else a record for each row.

    Numbers and names are never split, since half of one reads like another.
    """
    from rich.cells import cell_len
    from rich.text import Text

    grid = [[_text(cell) for cell in row] for row in table.rows]
    beside, beneath = list(range(len(table.heads))), list(table.beneath)
    above = [i for i in beside if i not in beneath]
    for columns, gap, least in (beside, 3, 30), (above, 3, 30), (beside, 2, 0), (above, 2, 0):
        widths = _widths(table, grid, columns, console.width - 2 - gap * (len(columns) - 1), least)
        if widths:
            break
    else:
        return _records(table, grid)
    heads = [_text(head, "bold") for head in table.heads]
    ruled = "─" * (sum(widths.values()) + gap * (len(widths) - 1))
    lines = [_text(table.title, "italic")] if table.title else []
    lines.append(Text())
    if any(table.heads):
        lines += [*_row(heads, table, widths, gap, console), Text(f" {ruled}")]
    for row in grid:
        lines += _row(row, table, widths, gap, console)
        below = [row[i] for i in beneath if i not in widths and i < len(row) and row[i].plain]
        if below:
            flat = Text("   ").join(Text(" ").join(cell.split("\n")) for cell in below)
            longest = max(map(cell_len, flat.plain.split()), default=0)
            indent = max(1, min(1 + gap + widths[0], console.width - longest))
            for line in flat.wrap(console, console.width - indent):
                line.rstrip()
                lines.append(Text.assemble(" " * indent, line, style="dim"))
    return Text("\n").join([*lines, Text()])


def _row(
    row: "list[Text]", table: Table, widths: dict[int, int], gap: int, console: "Console"
) -> "Iterator[Text]":
    """The lines of one row; a cell's own may be several."""
    from rich.text import Text

    cells = [list(cell.wrap(console, widths[i])) for i, cell in enumerate(row) if i in widths]
    cells += [[]] * (len(widths) - len(cells))
    for parts in zip_longest(*cells, fillvalue=Text()):
        padded = []
        for part, (i, width) in zip(parts, widths.items(), strict=True):
            space = " " * max(0, width - part.cell_len)
            padded.append(Text.assemble(*((space, part) if i in table.right else (part, space))))
        line = Text(" ").append(Text(" " * gap).join(padded))
        line.rstrip()
        yield line


def _widths(
    table: Table, grid: "list[list[Text]]", columns: list[int], room: int, enough: int
) -> dict[int, int] | None:
    """What each column gets of the room: all it wants, but prose may have less.

    Never less than its longest word, nor than ``enough``; None where that does not fit.
    """
    from rich.cells import cell_len

    given, least = {}, {}
    for i in columns:
        texts = [table.heads[i], *(row[i].plain for row in grid if i < len(row))]
        given[i] = max(cell_len(line) for text in texts for line in text.split("\n"))
        longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
        least[i] = min(given[i], max(longest, enough)) if i in table.prose else given[i]
    while sum(given.values()) > room:
        widest = max(columns, key=lambda i: given[i] if given[i] > least[i] else -1)
        if given[widest] <= least[widest]:
            return None
        given[widest] -= 1
    return given


def _records(table: Table, grid: "list[list[Text]]") -> "Text":
    """Every row by itself: its heads and cells, one a line."""
    from rich.text import Text

    widest = max(map(len, table.heads))
    lines = [_text(table.title, "italic")] if table.title else []
    for row in grid:
        named = zip(table.heads, row, strict=False)
        lines += [Text(), *(Text.assemble(f" {h:{widest}}  ", c) for h, c in named if c.plain)]
    return Text("\n").join([*lines, Text()])


def _text(cell: object, style: str = "") -> "Text":
    from rich.text import Text

    if isinstance(cell, Text):
        return cell
    if isinstance(cell, Shaded):
        text = Text(cell)
        for start, end, share in cell.shares:
            if level := round(share * len(SHADES)):
                text.stylize(f"black on {SHADES[level - 1]}", start, end)
        return text
    if not isinstance(cell, Cell):
        return Text(str(cell), style=style)
    text = Text(cell.text, style="bold" if cell.bold else "dim" if cell.faint else "")
    return text.append(f"\n{cell.below}", style="dim") if cell.below else text


def show_result(result: Any, as_json: bool) -> None:
    """A result for people, or its JSON for machines."""
    if as_json:
        show_json(result.to_json())
    else:
        show(result)


def show_json(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    click.echo(re.sub(HIDDEN, lambda found: f"\\u{ord(found[0]):04x}", text))
