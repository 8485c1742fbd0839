"""The verb that draws the paper's figures."""

import re
from pathlib import Path
from typing import Any

import click

from vesalius.cli import terminal
from vesalius.cli.options import (
    complete_models,
    extra_option,
    ids_of,
    ignore_extra,
    input_of,
    json_option,
    load,
)
from vesalius.views.shown import Table


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("part", required=False)
@click.option("--text", help="What MODEL reads, for a figure with its numbers; a file for images.")
@click.option("--ids", help="Token ids in place of a text, as in '31 41 59'.")
@click.option("--position", type=int, help="Token position, counted from 0. Default: the last.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write, .svg or .png. Default: print the SVG.",
)
@click.option(
    "--theme",
    type=click.Choice(["light", "dark"]),
    default="light",
    show_default=True,
    help="Its colours.",
)
@click.option("--list", "listed", is_flag=True, help="Which parts of MODEL can be drawn.")
@extra_option
@json_option
def figure(
    model: str,
    part: str | None,
    text: str | None,
    ids: str | None,
    position: int | None,
    out: Path | None,
    theme: str,
    listed: bool,
    as_json: bool,
) -> None:
    """Draw MODEL, or a PART of it, as the paper does. A configuration suffices; weights are not
    needed.

    PART is block, attention, head, network, layer, tokens, input, parameters and the like, with a
    layer and a head as in head[3,4], or the number of a figure of the paper. With --text attention
    and gates have their numbers.

    Example: vesalius figure gpt "head[3,4]" --text "He shook his" --out head.svg
    """
    from vesalius.figures import figure as run

    if listed:
        return _list(model, as_json)
    if text is not None and ids is not None:
        raise click.UsageError("expected --text or --ids, one of them")
    given: Any = text if ids is None else ids_of(ids)
    source: Any = model
    if given is not None and ignore_extra():
        source = load(model)
    if text is not None and re.fullmatch(r"[\d\s,]+", text):  # ids, where texts cannot be read
        given = input_of(load(model), text)
    found = run(source, part, given, position=position, theme=theme)
    if out is not None:
        found.save(out)
    if as_json:
        told = found.to_json()
        return terminal.show_json({**told, "out": str(out)} if out is not None else told)
    return click.echo(f"{out}: {found.title}" if out is not None else found.svg.rstrip())


def _list(model: str, as_json: bool) -> None:
    from vesalius.figures import parts_of

    found: list[dict[str, Any]] = parts_of(model)
    if as_json:
        return terminal.show_json(found)
    rows = [
        (
            f"{one['part']}[{one['place']}]" if one["place"] else one["part"],
            ", ".join(one["figures"]),
            one["shows"],
            one["text"],
        )
        for one in found
    ]
    return terminal.show(Table(("part", "figures", "shows", "text"), rows, prose=(2,)))
