"""Verbs that ask a model at work: how a number was made, what it is owed to, what it depends on."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from vesalius.cli import terminal
from vesalius.cli.options import complete_models, extra_option, json_option, load

if TYPE_CHECKING:
    from vesalius.analyses.ablation import Ablation
    from vesalius.analyses.patching import Patching

target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="WORD",
    help="A word with its space, a class or a number; twice for a difference.",
)
plot_option = click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw it as .svg or .png.",
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
@click.option("--steps", default="P[*,*]", show_default=True, help="What is replaced, one by one.")
@target_option
@click.option("--position", type=int, help="The token that the target is read after, from 0.")
@plot_option
@extra_option
@json_option
def ablate(
    model: str,
    text: str,
    steps: str,
    targets: tuple[str, ...],
    position: int | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """What a word or class is worth without each step: ablation by zeros.

    All heads are switched off one by one, unless STEPS says else: 'A, D' are sublayers, 'H[2]@1' is
    a token position. The target is the likeliest word or class unless said.

    Example: vesalius ablate gpt "He shook his" --target " head"
    """
    from vesalius.analyses.ablation import ablate as run

    loaded = load(model)
    with terminal.counting("ablation") as progress:
        found = run(loaded, text, steps, _target(targets), position=position, progress=progress)
    _told(found, plot, as_json)


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("clean")
@click.argument("corrupted")
@click.option("--steps", default="H[*]", show_default=True, help="What is patched, one by one.")
@target_option
@click.option("--whole", is_flag=True, help="All token positions of a step at once.")
@plot_option
@extra_option
@json_option
def patch(
    model: str,
    clean: str,
    corrupted: str,
    steps: str,
    targets: tuple[str, ...],
    whole: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Which values of the CLEAN run bring its answer back in the CORRUPTED one.

    Each step's value at each token position is taken from the clean run in turn, which is known as
    activation patching. Both texts have the same number of tokens.

    Example: vesalius patch gpt "He shook his" "He opened his"
    """
    from vesalius.analyses.patching import patch as run

    loaded = load(model)
    positions: Literal["all"] | None = "all" if whole else None
    with terminal.counting("patching") as progress:
        found = run(loaded, clean, corrupted, steps, _target(targets), positions, progress)
    _told(found, plot, as_json)


def _target(said: tuple[str, ...]) -> str | int | list[str | int] | None:
    """A word, or an id or class where it is a whole number."""
    read: list[str | int] = [int(word) if word.isdecimal() else word for word in said]
    return None if not read else read[0] if len(read) == 1 else read


def _told(found: "Ablation | Patching", plot: Path | None, as_json: bool) -> None:
    if plot is not None:
        found.plot(plot)
    if as_json:
        return terminal.show_json(found.to_json())
    return terminal.show(found)
