"""Verbs that ask a model at work: how a number was made, what it is owed to, what it depends on."""

import re
from typing import Any

import click

from vesalius.cli import terminal
from vesalius.cli.options import complete_models, extra_option, json_option, load

plot_option = click.option(
    "--plot", type=click.Path(dir_okay=False), help="Draw a picture to a file, .svg or .png."
)


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


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("text")
@click.option(
    "--target",
    "targets",
    multiple=True,
    help="A word, a class or a cell, as in 'Omega_hat(3, 7)'; twice for a difference of two.  "
    "[default: the likeliest]",
)
@click.option(
    "--position",
    type=int,
    help="The token after which words are read, from 0.  [default: the last]",
)
@plot_option
@extra_option
@json_option
def gradient(
    model: str,
    text: str,
    targets: tuple[str, ...],
    position: int | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """The gradient of a logit or value at every step, and the saliency of every token.

    TEXT is what MODEL reads; for images and series it is a file. Needs PyTorch.

    Example: vesalius gradient gpt "He shook his" --target " head"
    """
    from vesalius.analyses.gradients import gradient as run

    found = run(load(model), text, _target(targets), position)
    if plot is not None:
        found.plot(plot)
    if as_json:
        return terminal.show_json(found.to_json())
    return terminal.show(found)


@click.command()
@click.argument("a", shell_complete=complete_models)
@click.argument("b", shell_complete=complete_models)
@click.argument("text", required=False)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16", "int8"]),
    default="float32",
    show_default=True,
    help="Round the weights of B; int8 as generation does it.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=1e-5,
    show_default=True,
    help="Relative norm of a difference from which on a step diverges.",
)
@click.option(
    "--top", type=click.IntRange(1), default=10, show_default=True, help="Words of a position."
)
@plot_option
@extra_option
@json_option
def diff(
    a: str,
    b: str,
    text: str | None,
    dtype: str,
    tolerance: float,
    top: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """Which parameters of model B moved from those of A, and what that does to a TEXT.

    With a TEXT: the first step that diverges, KL divergences in nats, words gained and lost.

    Example: vesalius diff gpt gpt "He shook his" --dtype int8
    """
    from vesalius.analyses.differences import diff as run

    first = load(a)
    second = first if a == b else load(b)
    found = run(first, second, text, dtype_b=dtype, tolerance=tolerance, top=top)
    if plot is not None:
        found.plot(plot)
    if as_json:
        return terminal.show_json(found.to_json())
    return terminal.show(found)


def _target(said: tuple[str, ...]) -> Any:
    """A word or class, two of them, or a cell of a step."""
    if len(said) != 1:
        return said or None
    cell = re.fullmatch(r"\s*([\w\[\],]+)\(([\d\s,]+)\)\s*", said[0])
    if cell is None:
        return said[0]
    return cell[1], *map(int, cell[2].replace(",", " ").split())
