"""Verbs that ask a model at work: how a number was made, what it is owed to, what it depends on."""

from pathlib import Path
from typing import Any

import click

from vesalius.cli import terminal
from vesalius.cli.options import complete_models, extra_option, json_option, load

target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    help="A word or class as the model writes it, twice for a difference; else the likeliest.",
)
position_option = click.option(
    "--position",
    type=int,
    help="The token after which words are read. [default: the last, or [MASK]]",
)
plot_option = click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a picture to this file, .svg or .png.",
)


def target_of(targets: tuple[str, ...]) -> Any:
    """None, one word or several."""
    return (targets[0] if len(targets) == 1 else targets) if targets else None


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
    terminal.show_result(found, as_json)


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("text")
@target_option
@position_option
@click.option("--neurons", is_flag=True, help="Tell feedforward networks by neuron.")
@click.option("--sources", metavar="HEAD", help="Tell a head, as P[3,4], by the tokens it read.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Parts told.")
@plot_option
@extra_option
@json_option
def attribute(
    model: str,
    text: str,
    targets: tuple[str, ...],
    position: int | None,
    neurons: bool,
    sources: str | None,
    top: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """A logit as an exact sum of parts: heads, networks, biases, known as direct logit attribution.

    TEXT is what MODEL reads; for images and series it is a file.

    Example: vesalius attribute gpt "He shook his" --target " head"
    """
    from vesalius.analyses.attribution import attribute as run
    from vesalius.dissection import dissect

    trace = dissect(load(model), text)
    found = run(trace, target_of(targets), position, neurons=neurons, sources=sources)
    if plot is not None:
        found.plot(plot)
    if as_json:
        return terminal.show_json(found.to_json())
    return terminal.show(found.first(top))
