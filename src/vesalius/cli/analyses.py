"""Verbs that ask a model at work: how a number was made, what it is owed to, what it depends on."""

import click

from vesalius.cli import terminal
from vesalius.cli.options import complete_models, extra_option, json_option, load


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("text")
@click.argument("step")
@click.argument("at", metavar="[ROW [COLUMN]]", type=int, nargs=-1)
@click.option(
    "--top", type=click.IntRange(0), default=12, show_default=True, help="Terms told one by one."
)
@extra_option
@json_option
def unfold(model: str, text: str, step: str, at: tuple[int, ...], top: int, as_json: bool) -> None:
    """How one number was made: the terms of STEP at ROW and COLUMN, counted from 0.

    TEXT is what MODEL reads; for images and series it is a file.

    Example: vesalius unfold gpt "He shook his" "mu[3,4]" 2 1
    """
    from vesalius.analyses.unfolding import unfold as run
    from vesalius.dissection import dissect

    found = run(dissect(load(model), text), step, *at, top=top)
    if as_json:
        return terminal.show_json(found.to_json())
    return terminal.show(found)
