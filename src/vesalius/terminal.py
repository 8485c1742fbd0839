"""How results look in a terminal: tables, numbers, and JSON for machines."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from vesalius.classification import Classification
    from vesalius.counting import Cost, Count
    from vesalius.data.registry import File, Progress
    from vesalius.dissection import Trace
    from vesalius.equations import Equation
    from vesalius.evaluation import Evaluation, Measures
    from vesalius.specimens import Card
    from vesalius.verification import Verification


COLOURS = ("bright_cyan", "bright_yellow", "bright_green", "bright_magenta")
"""Of neighbouring tokens."""


def setting_value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "open", True: "true", False: "false"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


def setting_meaning(row: dict[str, Any]) -> str:
    choices = ", ".join(map(str, row["choices"] or ()))
    return f"{row['meaning']}: {choices}" if choices else str(row["meaning"])


def show_equation(entry: "Equation") -> None:
    from rich.text import Text

    symbols = [(s.name, s.shape.replace(" × ", "×"), s.meaning) for s in entry.symbols]
    file, line = entry.source
    show(
        Text(f"{entry.label} {entry.title}", style="bold"),
        Text(f"Section {entry.section} · {file}:{line} · {entry.name}()", style="dim"),
        Text(f"\n{indent(entry.plain, '    ')}\n", style="bold cyan"),
        table(("symbol", "shape", "meaning"), symbols),
        *([Text(f"\n{entry.remarks}")] if entry.remarks else []),
        Text(f"\nLaTeX: {entry.latex}", style="dim"),
    )


def show_count(counted: "Count") -> None:
    from rich.text import Text

    from vesalius.families import FAMILIES

    rows: list[tuple[Any, ...]] = []
    for row in counted.rows:
        formula = Text(row.formula)
        if row.numbers not in ("", row.formula):
            formula.append(f"\n= {row.numbers}", style="dim")
        share = f"{100 * row.share:.1f} %"
        times = f"× {row.times}" if row.times > 1 else ""
        name = "  " * row.depth + row.name
        rows.append((row.symbol, name, formula, f"{row.count:,}", times, share))
    total = Text(f"{counted.total:,}", style="bold")
    rows.append(("θ", Text("total", style="bold"), counted.formula, total))
    heads = ("", "component", "formula", "parameters", "", "share")
    family = FAMILIES[counted.family]
    title = f"{counted.name}: {family.title} (Section {family.sections})"
    sizes = ", ".join(f"{name} {bytes_of(size)}" for name, size in counted.bytes.items())
    lines = [Text(f"\n{sizes}")]
    if counted.checkpoint is not None:
        lines += [Text(), *map(Text, counted.checkpoint.lines(counted.total))]
    if counted.also:
        lines.append(Text("\nCounted differently, the same model has:"))
    lines += [Text(f"{number:>13,}  {what}") for what, number in counted.also.items()]
    show(table(heads, rows, right=(3, 4, 5), title=title), *lines)


def show_trace(trace: "Trace", top: int, everything: bool, saved: str | None) -> None:
    from vesalius.steps import grids

    values = grids(trace.steps, trace.tokens(), width()) if everything else ()
    parts = [*trace.told(everything), *values, *trace.outcome(top)]
    if saved:
        parts.append(f"Saved {len(trace.steps)} steps to {saved}")
    show(*map(_drawn, parts))


def show_classifications(results: "list[Classification]", top: int, alone: int) -> None:
    """A table of candidates for each; a row for each where there are many."""
    parts: list[Any] = []
    if len(results) <= alone:
        for result in results:
            rows = [(c.name, f"{c.probability:.4f}") for c in result.candidates[:top]]
            heads = ("class", "probability")
            parts += [table(heads, rows, right=(1,), title=result.source), *_about(result)]
    else:
        files = {result.source.rpartition(", ")[0] for result in results}
        file = f"{files.pop()}, " if len(files) == 1 else ""
        many: list[tuple[str, ...]] = []
        labelled = all(result.label is not None for result in results)
        for result in results:
            best = (f"{c.name} {c.probability:.4f}" for c in result.candidates[:top])
            said = (str(result.label),) if labelled else ()
            many.append((result.source.removeprefix(file), *said, ", ".join(best)))
        heads = ("input", *(("says",) if labelled else ()), "classes")
        parts += [table(heads, many, title=file.removesuffix(", ")), *_about(results[0])]
    if known := [result.right for result in results if result.right is not None]:
        share = sum(known) / len(known)
        parts.append(f"{sum(known):,} of {len(known):,} are what their files say: {share:.2%}.")
    show(*map(_drawn, parts))


def _about(result: "Classification") -> list[str]:
    hint = [f"Note: {result.hint}."] if result.hint else []
    return [f"Input: {result.prepared}.", *hint]


def _drawn(part: Any) -> Any:
    from rich.text import Text

    from vesalius.views import Table as View

    if isinstance(part, str):
        return Text(part)
    if isinstance(part, View):
        return table(part.heads, map(tuple, part.rows), right=tuple(part.right), title=part.title)
    return part


def width() -> int:
    """Characters of a line: the terminal's, or 120 in a pipe unless COLUMNS says it."""
    from rich.console import Console

    terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console().width if terminal or "COLUMNS" in os.environ else 120


def show_verification(result: "Verification") -> None:
    from rich.text import Text

    rows = []
    for row in result.rows:
        numbers = tuple(
            f"{row.distance[dtype]:.1e}" if dtype in row.distance else ""
            for dtype in ("float32", "float64")
        )
        rows.append((row.step, row.peer, *numbers, "" if row.fine else "parts"))
    first = result.first_divergence
    verdict = (
        f"All {len(rows)} steps agree."
        if first is None
        else f"First divergence: {first.step} against {first.peer}."
    )
    heads = ("step", "equations against", "float32", "float64", "")
    show(table(heads, rows, right=(2, 3)), Text(verdict, style="bold"))


def show_evaluation(result: "Evaluation | Measures") -> None:
    from vesalius.evaluation import Measures

    if isinstance(result, Measures):
        rows = [("examples", f"{result.examples:,}")]
        for name, number in result.numbers.items():
            shown = f"{number:.2%}" if name.endswith("accuracy") else f"{number:,.4f}"
            rows.append((name.replace("_", " "), shown))
        show(result.objective, table((result.corpus, ""), rows, right=(1,)))
        return
    rows = [
        ("tokens", f"{result.tokens:,}"),
        ("nats a token", f"{result.loss:.4f}"),
        ("perplexity", f"{result.perplexity:,.2f}"),
        ("likeliest token right", f"{result.accuracy:.2%}"),
        ("bits a byte", f"{result.bits_per_byte:.4f}"),
    ]
    if result.unknown:
        share = result.unknown / result.tokens
        rows.insert(1, ("of them unknown words", f"{result.unknown:,} ({share:.2%})"))
    if result.distance is not None:
        rows += [
            ("nats a word", f"{result.nats_per_word:.4f}"),
            ("of the grammar itself", f"{result.floor:.4f}"),
            ("distance to the floor", f"{result.distance:.4f}"),
        ]
    show(table((result.corpus, ""), rows, right=(1,)))


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
    show(painted, table(("id", "token", "bytes", "from", "to"), cells, right=(0, 3, 4)))


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
    show(table(heads, rows, right=(2, 4, 5)))


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
    recipe = {key: card.recipe[key] for key in ("model", "data", "training")}
    said = [
        (f"[{part}]", ", ".join(f"{k} {v}" for k, v in how.items() if v is not None))
        for part, how in recipe.items()
    ]
    show(Text(card.title, style="bold"), table(("", ""), rows), table(("recipe", ""), said))


def show_cost(costs: "Cost") -> None:
    from rich.text import Text

    rows: list[tuple[Any, ...]] = []
    for row in costs.rows:
        formula = "" if row.formula == "0" else row.formula
        times = f"× {row.times}" if row.times > 1 else ""
        numbers = (row.forward, row.forward + row.backward, row.pointwise)
        shown = tuple(f"{n:,}" if n else "" for n in numbers)
        rows.append((label(row.equation), row.name, formula, times, *shown))
    totals = (costs.forward, costs.training_step, costs.pointwise)
    bold = tuple(Text(f"{n:,}", style="bold") for n in totals)
    rows.append(("", Text("total", style="bold"), "", "", *bold))
    heads = ("", "step", "products", "", "forward", "training step", "pointwise")
    many = f"{costs.batch} sequences" if costs.batch > 1 else "one sequence"
    title = f"Operations on {many} of {costs.length} tokens; a multiply-add is two"
    memory = [(what, bytes_of(size)) for what, size in costs.memory.items()]
    memory.append(("total", bytes_of(sum(costs.memory.values()))))
    lines = (
        [Text(f"\nGeneration keeps {costs.carried[0]}: {bytes_of(costs.carried[1])}")]
        if costs.carried
        else []
    )
    show(
        Text(),
        table(heads, rows, right=(3, 4, 5, 6), title=title),
        Text(
            "\nForward and training step are matrix products; pointwise is all else in a forward "
            "pass.\n"
        ),
        table(("memory of a training step", "float32"), memory, right=(1,)),
        *lines,
    )


def show_recipes(recipes: list[dict[str, Any]]) -> None:
    from rich.text import Text

    show(
        table(("name", "corpus", "what"), [(r["name"], r["corpus"], r["title"]) for r in recipes]),
        Text("\nvesalius recipes NAME shows one; vesalius train NAME trains by it"),
    )


def show_corpora(corpora: list[dict[str, Any]]) -> None:
    rows = [
        (c["name"], c["kind"], bytes_of(c["bytes"]) if c["files"] else "", c["licence"], c["where"])
        for c in corpora
    ]
    show(table(("corpus", "kind", "size", "licence", "where"), rows, right=(2,)))


def show_corpus(corpus: dict[str, Any]) -> None:
    from rich.text import Text

    files = corpus["files"]
    facts = [corpus["kind"], corpus["licence"], corpus["where"]]
    if files:
        facts.insert(2, bytes_of(corpus["bytes"]))
    parts: list[Any] = [
        Text(f"{corpus['name']}: {corpus['title']}", style="bold"),
        Text(" · ".join(facts)),
        Text(f"from {corpus['source']}", style="dim"),
    ]
    if files:
        rows = [(f["path"], f"{f['bytes']:,}", f["sha256"][:12], f["state"]) for f in files]
        parts += [Text(), table(("file", "bytes", "SHA-256", ""), rows, right=(1,))]
    if here := [f["found"] for f in files if f["found"]]:
        parts.append(Text(f"here: {folder_of(here)}"))
    parts += [Text(address, style="dim") for f in files for address in f["addresses"]]
    if "entropy" in corpus:
        floor = f"{corpus['entropy']:.4f} nats a word, perplexity {corpus['perplexity']:.4f}"
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

        def say(file: "File", size: int) -> None:
            if file.path not in told:
                told.add(file.path)
                click.echo(f"fetching {file.path}, {bytes_of(file.size)}", err=True)

        yield say
        return
    from rich import progress
    from rich.console import Console

    columns = (progress.BarColumn(), progress.DownloadColumn(), progress.TransferSpeedColumn())
    with progress.Progress("{task.description}", *columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, progress.TaskID] = {}

        def move(file: "File", size: int) -> None:
            if file.path not in tasks:
                tasks[file.path] = bars.add_task(file.path, total=file.size)
            bars.update(tasks[file.path], completed=size)

        yield move


def label(equation: str) -> str:
    if equation.isdigit():
        return f"({equation})"
    return f"§{equation}" if "." in equation else f"Fig. {equation}"


def bytes_of(size: int) -> str:
    """A size in the unit that suits it, to four digits."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min((len(str(size)) - 1) // 3, len(units) - 1)
    if power == 0:
        return f"{size} bytes"
    whole, rest = divmod(size, 1000**power)
    return (
        f"{whole:,} {units[power]}"
        if whole >= 1000
        else (f"{whole + rest / 1000**power:.4g} {units[power]}")
    )


def table(
    heads: Iterable[str],
    rows: Iterable[tuple[Any, ...]],
    right: tuple[int, ...] = (),
    title: str = "",
) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        title=Text(title, style="italic") if title else None,
        title_justify="left",
        pad_edge=False,
    )
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return table


def show(*things: Any) -> None:
    """Print tables and texts; a pipe gets lines of 120 characters."""
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # which the command line knows how to end on

    terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Pipe(width=None if terminal else 120, highlight=False)
    for thing in things:
        console.print(thing)


def show_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
