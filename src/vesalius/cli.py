"""The command line: ``vesalius models``, ``equations``, ``count``.

Verbs read their arguments, call the library and show what it gives, as a table or with ``--json``.
Exit codes: 0, 2 for bad input, 3 for trouble in the environment; an error is one line.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from vesalius import __version__
from vesalius.errors import ImpossibleSetting, VesaliusError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from vesalius.counting import Cost, Count
    from vesalius.equations import Equation

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


class Settings(click.ParamType[tuple[str, str]]):
    """``name=value``, as ``--set`` takes it."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        name, sign, text = value.partition("=")
        if not sign or not name or not text:
            raise ImpossibleSetting(f"--set takes name=value, as in heads=8; got {value!r}")
        return name.strip(), text.strip()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="vesalius %(version)s")
def cli() -> None:
    """The executable anatomy of neural language models.

    Example: vesalius count gpt2
    """


@cli.command()
@click.argument("model", required=False)
@json_option
def models(model: str | None, as_json: bool) -> None:
    """What there is: every named size; with MODEL its settings, which --set can change.

    Example: vesalius models gpt2
    """
    from vesalius.counting import count
    from vesalius.families import FAMILIES, SIZES, configuration, names

    if model:
        config = configuration(model)
        rows = [
            {"name": name, "symbol": rule["symbol"], "value": getattr(config, name)}
            | {"meaning": rule["meaning"], "choices": rule["choices"]}
            for name, rule in config.settings().items()
        ]
        if as_json:
            return _print_json(rows)
        shown = [(r["name"], r["symbol"], _value(r["value"]), _meaning(r)) for r in rows]
        return _print(_table(("setting", "symbol", "value", "meaning"), shown, title=model))
    found: list[dict[str, Any]] = []
    for name in names():
        counted = count(name)
        source = SIZES[name].source if name in SIZES else "the family's defaults"
        numbers = {"family": counted.family, "parameters": counted.total}
        found.append({"name": name, **numbers, "source": source})
    if as_json:
        return _print_json(found)
    listed = [
        (m["name"], FAMILIES[m["family"]].title, f"{m['parameters']:,}", m["source"]) for m in found
    ]
    return _print(_table(("model", "family", "parameters", "source"), listed, right=(2,)))


def _value(value: Any) -> str:
    if type(value) is int:
        return f"{value:,}"
    return {None: "open", True: "true", False: "false"}.get(value, str(value))


def _meaning(row: dict[str, Any]) -> str:
    choices = ", ".join(map(str, row["choices"] or ()))
    return f"{row['meaning']}: {choices}" if choices else str(row["meaning"])


@cli.command()
@click.argument("number", required=False)
@click.option("--all", "everything", is_flag=True, help="Formulas without a number too.")
@json_option
def equations(number: str | None, everything: bool, as_json: bool) -> None:
    """The paper's equations; with NUMBER (or a function's name) one of them in full.

    Example: vesalius equations 28
    """
    from vesalius import equations as eq

    if number is not None:
        entry = eq.find(number)
        return _print_json(entry.to_json()) if as_json else _show_equation(entry)
    found = eq.numbered() + (eq.unnumbered() if everything else [])
    if as_json:
        return _print_json([entry.to_json() for entry in found])
    rows = [(e.label, e.section, e.title, e.plain.split("\n")[0]) for e in found]
    return _print(_table(("", "section", "title", "formula"), rows, right=(0,)))


def _show_equation(entry: "Equation") -> None:
    from rich.text import Text

    symbols = [(s.name, s.shape.replace(" × ", "×"), s.meaning) for s in entry.symbols]
    file, line = entry.source
    _print(
        Text(f"{entry.label} {entry.title}", style="bold"),
        Text(f"Section {entry.section} · {file}:{line} · {entry.name}()", style="dim"),
        Text(f"\n{indent(entry.plain, '    ')}\n", style="bold cyan"),
        _table(("symbol", "shape", "meaning"), symbols),
        *([Text(f"\n{entry.remarks}")] if entry.remarks else []),
        Text(f"\nLaTeX: {entry.latex}", style="dim"),
    )


@cli.command()
@click.argument("model")
@click.option("--set", "settings", type=Settings(), multiple=True, help="Change a hyperparameter.")
@click.option("--cost", "with_cost", is_flag=True, help="Operations and memory too.")
@click.option("--length", type=int, help="Sequence length of the cost; the longest unless said.")
@click.option("--batch", type=int, default=1, show_default=True, help="Sequences of the cost.")
@json_option
def count(
    model: str,
    settings: tuple[tuple[str, str], ...],
    with_cost: bool,
    length: int | None,
    batch: int,
    as_json: bool,
) -> None:
    """The parameters of MODEL by formula: the paper's tables with numbers.

    Example: vesalius count gpt2 --set heads=8 --cost --length 512
    """
    from vesalius.counting import cost_config, count_config
    from vesalius.families import configuration

    config = configuration(model)
    config = config.change(**{name: config.read(name, text) for name, text in settings})
    counted = count_config(config, model)
    costs = cost_config(config, length, batch, model) if with_cost else None
    if as_json:
        _print_json(counted.to_json() | ({"cost": costs.to_json()} if costs else {}))
    else:
        _show_count(counted)
        if costs:
            _show_cost(costs)


def _show_count(counted: "Count") -> None:
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
    sizes = ", ".join(f"{name} {_bytes(size)}" for name, size in counted.bytes.items())
    lines = [Text(f"\n{sizes}")]
    lines += [Text(f"{number:>13,}  {what}") for what, number in counted.also.items()]
    if counted.also:
        lines.insert(1, Text("\nCounted differently, the same model has:"))
    _print(_table(heads, rows, right=(3, 4, 5), title=title), *lines)


def _show_cost(costs: "Cost") -> None:
    from rich.text import Text

    rows: list[tuple[Any, ...]] = []
    for row in costs.rows:
        formula = "" if row.formula == "0" else row.formula
        times = f"× {row.times}" if row.times > 1 else ""
        numbers = (row.forward, row.forward + row.backward, row.pointwise)
        shown = tuple(f"{n:,}" if n else "" for n in numbers)
        rows.append((_label(row.equation), row.name, formula, times, *shown))
    totals = (costs.forward, costs.training_step, costs.pointwise)
    bold = tuple(Text(f"{n:,}", style="bold") for n in totals)
    rows.append(("", Text("total", style="bold"), "", "", *bold))
    heads = ("", "step", "products", "", "forward", "training step", "pointwise")
    many = f"{costs.batch} sequences" if costs.batch > 1 else "one sequence"
    title = f"Operations on {many} of {costs.length} tokens; a multiply-add is two"
    memory = [(what, _bytes(size)) for what, size in costs.memory.items()]
    memory.append(("total", _bytes(sum(costs.memory.values()))))
    lines = (
        [Text(f"\nGeneration keeps {costs.carried[0]}: {_bytes(costs.carried[1])}")]
        if costs.carried
        else []
    )
    _print(
        Text(),
        _table(heads, rows, right=(3, 4, 5, 6), title=title),
        Text(
            "\nForward and training step are matrix products; pointwise is all else in a forward "
            "pass.\n"
        ),
        _table(("memory of a training step", "float32"), memory, right=(1,)),
        *lines,
    )


def _label(equation: str) -> str:
    if equation.isdigit():
        return f"({equation})"
    return f"§{equation}" if "." in equation else f"Fig. {equation}"


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.4g} {unit}"


def _table(
    heads: Iterable[str],
    rows: Iterable[tuple[Any, ...]],
    right: tuple[int, ...] = (),
    title: str = "",
) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return table


def _console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


def _print(*things: Any) -> None:
    console = _console()
    for thing in things:
        console.print(thing)


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def main() -> None:
    """Run the command line; whatever goes wrong ends in one line and an exit code."""
    sys.exit(_guarded(lambda: cli.main(standalone_mode=False)))


def _guarded(run: Callable[[], Any]) -> int:
    try:
        run()
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), 2)
    except VesaliusError as error:
        return _fail(str(error), 2)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ImportError) as error:
        return _fail(str(error), 3)
    return 0


def _fail(message: str, code: int) -> int:
    click.echo(f"vesalius: {' '.join(message.split())}", err=True)
    return code
