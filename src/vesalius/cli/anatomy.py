"""Verbs that take models apart: list, count, dissect, and verify what they compute.

They need no training; `count`, `models` and `equations` need no weights either.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vesalius.cli import terminal
from vesalius.cli.options import (
    Settings,
    complete_models,
    extra_option,
    ids_of,
    input_of,
    json_option,
    load,
    second_of,
    second_option,
)
from vesalius.views.shown import Table, shown_value

if TYPE_CHECKING:
    from vesalius.explorer.snapshot import Given
    from vesalius.model import Model


@click.command()
@click.argument("model", required=False, shell_complete=complete_models)
@json_option
def models(model: str | None, as_json: bool) -> None:
    """List every named size; with MODEL, its settings. --set of `count` and others changes one.

    Example: vesalius models gpt2
    """
    from vesalius.counting import count, described
    from vesalius.families import FAMILIES, SIZES, names

    if model:
        config, _, _ = described(model)
        rows = config.described()
        if as_json:
            return terminal.show_json(rows)
        heads = ("setting", "symbol", "value", "meaning")
        shown = [
            (r["name"], r["symbol"], shown_value(r["value"]), terminal.setting_meaning(r))
            for r in rows
        ]
        return terminal.show(Table(heads, shown, prose=(3,), title=model))
    found: list[dict[str, Any]] = []
    for name in names():
        counted = count(name)
        source = SIZES[name].source if name in SIZES else "the family's defaults"
        numbers = {"family": counted.family, "parameters": counted.total}
        found.append({"name": name, **numbers, "source": source})
    if as_json:
        return terminal.show_json(found)
    listed = [
        (m["name"], FAMILIES[m["family"]].title, f"{m['parameters']:,}", m["source"]) for m in found
    ]
    heads = ("model", "family", "parameters", "source")
    return terminal.show(Table(heads, listed, right=(2,), prose=(1, 3)))


@click.command()
@click.argument("number", required=False)
@click.option("--all", "everything", is_flag=True, help="Formulas without a number too.")
@json_option
def equations(number: str | None, everything: bool, as_json: bool) -> None:
    """Show the paper's equations; with NUMBER, one in full. A function's name serves as well as a
    number.

    NUMBER may be an erratum's too: where the paper and practice part ways.

    Example: vesalius equations 28

    Example: vesalius equations E17
    """
    from vesalius import equations as eq

    if number is not None and re.fullmatch(r"[Ee]\d+", number):
        erratum = eq.errata.find(number)
        if as_json:
            return terminal.show_json(erratum.to_json())
        return terminal.show_erratum(erratum)
    if number is not None:
        entry = eq.find(number)
        return terminal.show_json(entry.to_json()) if as_json else terminal.show_equation(entry)
    found = eq.numbered() + (eq.unnumbered() if everything else [])
    if as_json:
        return terminal.show_json([entry.to_json() for entry in found])
    rows = [(e.label, e.section, e.title, e.plain.split("\n")[0]) for e in found]
    heads = ("", "section", "title", "formula")
    return terminal.show(Table(heads, rows, right=(0,), prose=(2, 3)))


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.option("--set", "settings", type=Settings(), multiple=True, help="Change a hyperparameter.")
@click.option("--cost", "with_cost", is_flag=True, help="Operations and memory too.")
@click.option(
    "--length",
    type=int,
    help="Tokens of the cost; the longest sequence, or one for rnn and lstm, by default.",
)
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
    """Count MODEL's parameters by formula, as the paper's tables.

    Example: vesalius count gpt2 --set heads=8 --cost --length 512
    """
    from vesalius.counting import cost, described
    from vesalius.counting import count as run

    if length is not None and not with_cost:
        raise click.UsageError("--length belongs to --cost; give both")
    config, _, _ = described(model) if settings else (None, None, None)
    changes = {name: config.read(name, text) for name, text in settings} if config else {}
    counted = run(model, **changes)
    costs = cost(model, length, batch, **changes) if with_cost else None
    if as_json:
        terminal.show_json(counted.to_json() | ({"cost": costs.to_json()} if costs else {}))
    else:
        terminal.show(counted)
        if costs:
            terminal.show("", costs)


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("text", metavar="[TEXT|FILE]", required=False)
@second_option
@click.option("--ids", help="Token ids in place of TEXT, as in '31 41 59'.")
@click.option(
    "--array",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A FILE as .npy: height x width x channels, or channels x time.",
)
@click.option("--index", type=click.IntRange(0), help="Which of several in FILE, from 0.")
@click.option("--raw", is_flag=True, help="Read FILE as it is: do not scale as in training.")
@click.option("--invert", is_flag=True, help="Turn an image's dark into bright.")
@click.option("--only", help="Steps to keep and to show with values, as in 'A[3], mu[1,*]'.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False),
    help="Write all values to this .safetensors file, and what they are to a .json beside it.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the explorer's page with this run to one file, at most 5 MB.",
)
@click.option(
    "--top",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Likeliest words or classes.",
)
@extra_option
@json_option
def dissect(
    model: str,
    text: str | None,
    ids: str | None,
    array: Path | None,
    only: str | None,
    save: str | None,
    html: Path | None,
    top: int,
    as_json: bool,
    **reading: Any,
) -> None:
    """Run MODEL on TEXT in the paper's equations: every step.

    A vit reads an image as FILE (.png, .jpg, .npy), a tst a series (.ts, .csv, .npy), scaled as in
    training. With --only the steps are shown with their values, and attention with its tokens.

    With --html a browser opens the run without a server: every step, its numbers from the outcome
    downwards, and each head and network cut. What does not fit is left out and told.

    Example: vesalius dissect ./my-gpt2 "I forgot to take my" --only "mu[1,1], Y_hat"
    """
    from vesalius.traces.dissection import dissect as run

    given = [value for value in (text, ids, array) if value is not None]
    if len(given) != 1:
        raise click.UsageError("expected TEXT or FILE, --ids or --array, one of them")
    if html is not None and only is not None:
        raise click.UsageError("--html keeps the whole run; leave --only out")
    if save and Path(save).suffix != ".safetensors":
        raise click.UsageError(f"--save takes a name that ends in .safetensors, got {save!r}")
    second_of(text)  # which goes with neither ids nor arrays
    loaded = load(model)
    read: Any = array
    if ids is not None:
        read = ids_of(ids)
    elif text is not None:
        read = input_of(loaded, text)
    trace = run(loaded, read, only, **reading)
    if save:
        trace.save(save)
    said = read if isinstance(read, str | tuple) else trace.ids
    written = None if html is None else _page(html, model, loaded, said)
    if as_json:
        told = trace.to_json(top)
        return terminal.show_json(told if written is None else {**told, "html": written})
    terminal.show_trace(trace, top, everything=only is not None, saved=save)
    if written is not None:
        left = "".join(f"\n  {sentence}" for sentence in written["left"])
        terminal.show(f"Wrote {written['file']}\n{written['bytes']:,} bytes; left out are{left}")
    return None


def _page(file: Path, name: str, model: "Model", given: "Given") -> dict[str, Any]:
    """The explorer's page with the run, in one file."""
    from vesalius.explorer.single_file import write

    with terminal.counting("writing the page") as progress:
        return write(file, name, given, model, progress=progress)


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.option("--against", default="equations", show_default=True, help="Whom to compare with.")
@click.option(
    "--length",
    type=click.IntRange(1),
    help="Tokens; 12, or as many as the model reads, by default.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random input."
)
@extra_option
@json_option
def verify(model: str, against: str, length: int | None, seed: int, as_json: bool) -> None:
    """Check that equations, network and libraries agree on MODEL. They are compared step by step.

    Against "equations" the network alone is compared with them; against "transformers" or "keras"
    that library too. Exit code 0 if all steps agree, 1 if not.

    Example: vesalius verify ./my-gpt2 --against transformers
    """
    from vesalius.verification.agreement import verify as run

    result = run(load(model), against, length, seed)
    terminal.show_result(result, as_json)
    if result.first_divergence is not None:
        raise click.exceptions.Exit(1)
