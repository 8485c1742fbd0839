"""The verb that compares: two models, two texts, or the same with steps cut."""

import re
from pathlib import Path

import click

from vesalius.cli import terminal
from vesalius.cli.analyses import plot_option, show_drawn
from vesalius.cli.options import complete_models, extra_option, input_of, json_option, load


@click.command()
@click.argument("a", shell_complete=complete_models)
@click.argument("b", shell_complete=complete_models)
@click.argument("text", required=False)
@click.option("--text-b", metavar="TEXT", help="What B reads, if that is another text.")
@click.option(
    "--cut-a",
    multiple=True,
    metavar="STEP",
    help="Set a step of A to zero, as P[3,4], or to a value, as P[3,4]=1.",
)
@click.option("--cut-b", multiple=True, metavar="STEP", help="The same of B.")
@click.option("--number", metavar="CELL", help="One number of both alone, as 'mu[3,4](2, 1)'.")
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
    text_b: str | None,
    cut_a: tuple[str, ...],
    cut_b: tuple[str, ...],
    number: str | None,
    dtype: str,
    tolerance: float,
    top: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare the parameters of models A and B, and their runs. With a TEXT, what the difference
    does to it.

    With a TEXT: the first step that diverges, KL divergences in nats, words gained and lost. B may
    read another text, and steps of either may be cut.

    Example: vesalius diff gpt gpt "He shook his" --text-b "He opened his"
    """
    from vesalius.analyses.differences import diff as run
    from vesalius.traces.edits import notation

    first = load(a)
    second = first if a == b else load(b)
    found = run(
        first,
        second,
        None if text is None else input_of(first, text),
        notation.read(cut_a),
        notation.read(cut_b),
        dtype,
        text_b=None if text_b is None else input_of(second, text_b),
        tolerance=tolerance,
        top=top,
    )
    if number is None:
        show_drawn(found, plot, as_json)
        return
    cell = re.fullmatch(r"\s*(\w+(?:\[[\d,]+\])?)\(([\d\s,]*)\)\s*", number)
    if cell is None:
        raise click.UsageError(f"--number takes a cell, as 'mu[3,4](2, 1)'; got {number!r}")
    at = map(int, cell[2].replace(",", " ").split())
    terminal.show_result(found.at(cell[1], *at), as_json)
