"""Verbs that ask a model at work: how a number was made, what it is owed to, what it depends on."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import click

from vesalius.cli import terminal
from vesalius.cli.options import (
    complete_models,
    extra_option,
    input_of,
    json_option,
    load,
    second_option,
)

if TYPE_CHECKING:
    from vesalius.model import Model
    from vesalius.traces.edits.values import Positions


class Drawn(Protocol):
    """A result that can be shown and drawn."""

    def plot(self, file: str | Path) -> None: ...


def asking(command: Callable[..., None]) -> click.Command:
    """A verb on what a MODEL does with a TEXT."""
    command = extra_option(json_option(second_option(command)))
    command = click.argument("text")(command)
    return click.command()(click.argument("model", shell_complete=complete_models)(command))


target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="WORD",
    help="A word with its space, a class, an id or a cell as Omega_hat(3, 7); twice for a "
    "difference. The likeliest by default.",
)
position_option = click.option(
    "--position", type=int, help="The token that is read, from 0; the last or [MASK] by default."
)
plot_option = click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw it to a file, .svg or .png.",
)


@asking
@click.argument("step")
@click.argument("at", metavar="[ROW [COLUMN]]", type=int, nargs=-1)
@click.option(
    "--top", type=click.IntRange(0), default=12, show_default=True, help="Terms told one by one."
)
@click.option(
    "--cut",
    "cuts",
    multiple=True,
    metavar="STEP",
    help="Set a step to zero first, as P[3,4], or to a value, as P[3,4]=1; several, one by one.",
)
def unfold(
    model: str,
    text: str,
    step: str,
    at: tuple[int, ...],
    top: int,
    cuts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the terms that a number of STEP is the sum of. ROW and COLUMN are counted from 0.

    TEXT is what MODEL reads; for images and series it is a file.

    Example: vesalius unfold gpt "He shook his" "mu[3,4]" 2 1
    """
    from vesalius.analyses.unfolding import unfold as run
    from vesalius.traces.dissection import dissect
    from vesalius.traces.edits import notation

    loaded = load(model)
    trace = dissect(loaded, input_of(loaded, text), edit=notation.read(cuts))
    found = run(trace, step, *at, top=top)
    terminal.show_result(found, as_json)


@asking
@target_option
@position_option
@click.option("--neurons", is_flag=True, help="Tell feedforward networks by neuron.")
@click.option("--sources", metavar="HEAD", help="Tell a head, as P[3,4], by the tokens it read.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Parts told.")
@plot_option
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
    """Split a logit into exact contributions of the parts. These are heads, networks and biases; it
    is known as direct logit attribution.

    TEXT is what MODEL reads; for images and series it is a file.

    Example: vesalius attribute gpt "He shook his" --target " head"
    """
    from vesalius.analyses.attribution import attribute as run
    from vesalius.traces.dissection import dissect

    loaded = load(model)
    trace = dissect(loaded, input_of(loaded, text))
    found = run(trace, _target(loaded, targets), position, neurons=neurons, sources=sources)
    show_drawn(found, plot, as_json, found.first(top))


@asking
@click.option("--steps", default="P[*,*]", show_default=True, help="What is replaced, one by one.")
@target_option
@position_option
@plot_option
def ablate(
    model: str,
    text: str,
    steps: str,
    targets: tuple[str, ...],
    position: int | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure what each step is worth: ablation by zeros. What is measured is the logit of a word
    or class without the step.

    All heads are switched off one by one, unless STEPS says else: 'A, D' are sublayers, 'H[2]@1' is
    a token position. The target is the likeliest word or class by default.

    Example: vesalius ablate gpt "He shook his" --target " head"
    """
    from vesalius.analyses.ablation import ablate as run

    loaded = load(model)
    given, target = input_of(loaded, text), _target(loaded, targets)
    with terminal.counting("ablation") as progress:
        found = run(loaded, given, steps, target, position=position, progress=progress)
    show_drawn(found, plot, as_json)


def _positions(text: str) -> list[int] | dict[int, int]:
    """Positions, ``1, 2``, or pairs of them, ``1:2, -1:-1``, as errors of ``patch`` write them."""
    parts = [part.split(":") for part in text.strip("{} ").split(",")]
    try:
        if all(len(part) == 1 for part in parts):
            return [int(here) for (here,) in parts]
        return {int(here): int(there) for here, there in parts}
    except ValueError:
        message = f"expected positions as '1, 2', or pairs as '0:0, -1:-1', got {text!r}"
        raise click.BadParameter(message) from None


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("clean")
@click.argument("corrupted")
@click.option("--steps", default="H[*]", show_default=True, help="What is patched, one by one.")
@target_option
@click.option(
    "--positions",
    metavar="POSITIONS",
    callback=lambda context, option, text: text and _positions(text),
    help="Some of the CORRUPTED text's alone, as '1, 2'; '1:2' takes 2 of the CLEAN one.",
)
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
    positions: "Positions",
    whole: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Find values of a CLEAN run that mend a CORRUPTED one. They bring the clean run's answer back.

    Each step's value at each token position is taken from the clean run in turn, which is known as
    activation patching. Both texts have the same number of tokens, unless --positions says which
    belong together: '0:0, -1:-1' are the first and the last.

    Example: vesalius patch gpt "He shook his" "He opened his"
    """
    from vesalius.analyses.patching import patch as run

    if whole and positions is not None:
        raise click.UsageError("--whole patches all positions at once; leave --positions out.")
    loaded = load(model)
    first, second = input_of(loaded, clean), input_of(loaded, corrupted)
    target = _target(loaded, targets)
    places: Positions | Literal["all"] = "all" if whole else positions
    with terminal.counting("patching") as progress:
        found = run(loaded, first, second, steps, target, places, progress)
    show_drawn(found, plot, as_json)


@asking
@target_option
@click.option("--position", type=int, help="The token that is read; all by default, from 0.")
@click.option(
    "--top", type=click.IntRange(1), default=1, show_default=True, help="Likeliest of each depth."
)
@plot_option
def lens(
    model: str,
    text: str,
    targets: tuple[str, ...],
    position: int | None,
    top: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show what MODEL would say at every depth: the logit lens.

    The states of TEXT go through what follows the last layer: after attention as C[l], after the
    feedforward network as H[l]. Of a --target the rank and probability by depth are told. TEXT is a
    file for images and series, and token ids where there is no tokenizer.

    Example: vesalius lens gpt "He shook his" --target " head"
    """
    from vesalius.analyses.lens import lens as run
    from vesalius.traces.dissection import dissect

    loaded = load(model)
    found = run(dissect(loaded, input_of(loaded, text)), _target(loaded, targets), position, top)
    show_drawn(found, plot, as_json)


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@target_option
@click.option(
    "--by", metavar="SCORE", help="What to sort by: induction, previous, entropy, effect."
)
@click.option("--effects/--no-effects", default=True, help="Whether to cut each head once.")
@plot_option
@extra_option
@json_option
def heads(
    model: str,
    texts: tuple[str, ...],
    targets: tuple[str, ...],
    by: str | None,
    effects: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show what every attention head of MODEL does.

    Where it looks in each TEXT, and what depends on it: previous-token heads, induction heads and
    heads that rest on the first token are told by their shares of attention, heads of a vit by the
    offset in the picture. TEXT is a file for images and series, and token ids where there is no
    tokenizer.

    Example: vesalius heads gpt "He shook his head, he shook" --by previous
    """
    from vesalius.analyses.heads import heads as run

    loaded = load(model)
    given = [input_of(loaded, text) for text in texts]
    target = _target(loaded, targets)
    with terminal.counting("heads") as progress:
        found = run(loaded, given, target, effects, progress)
    if plot is not None:
        found.plot(plot, by)
    if as_json:
        return terminal.show_json(found.to_json(by))
    return terminal.show(*found.told(by))


@asking
@click.option("--layer", type=click.IntRange(1), help="The layer; the last by default.")
@click.option("--unit", type=click.IntRange(0), help="Tell where its context was written, from 0.")
@click.option("--position", type=int, default=-1, help="The token, from 0; the last by default.")
@plot_option
def gates(
    model: str,
    text: str,
    layer: int | None,
    unit: int | None,
    position: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show the units of a recurrent layer over time. With --unit, where the memory of one was
    written.

    Of an lstm all gates are told, of an rnn the state and what it is made of. The context of a
    --unit is a sum over time: what each token added, times all that was kept since.

    Example: vesalius gates lstm "He shook his" --unit 31
    """
    from vesalius.analyses.gates import gates as run
    from vesalius.traces.dissection import dissect

    loaded = load(model)
    found = run(dissect(loaded, input_of(loaded, text)), layer)
    show_drawn(found if unit is None else found.written(unit, position), plot, as_json)


@asking
@target_option
@position_option
@plot_option
def gradient(
    model: str,
    text: str,
    targets: tuple[str, ...],
    position: int | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show the gradient of a logit or value at every step. The saliency of every token is shown
    too.

    TEXT is what MODEL reads; for images and series it is a file. Needs PyTorch.

    Example: vesalius gradient gpt "He shook his" --target " head"
    """
    from vesalius.analyses.gradients import gradient as run

    loaded = load(model)
    found = run(loaded, input_of(loaded, text), _target(loaded, targets), position)
    show_drawn(found, plot, as_json)


def _target(model: "Model", said: tuple[str, ...]) -> Any:
    """The target as the library takes it: none, one, or two to compare."""
    from vesalius.data.inputs import class_names

    named = bool(class_names(model))
    each = tuple(int(word) if word.isdecimal() and not named else word for word in said)
    return each if len(each) > 1 else each[0] if each else None


def show_drawn(found: Drawn, plot: Path | None, as_json: bool, told: Any = None) -> None:
    """Draw a result where that is wanted, and show it, or as much of it as is to be told."""
    if plot is not None:
        found.plot(plot)
    terminal.show_result(found if as_json or told is None else told, as_json)
