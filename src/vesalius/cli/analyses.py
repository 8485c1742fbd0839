"""Verbs that ask a model at work: how a number was made, what it is owed to, what it depends on."""

from typing import TYPE_CHECKING, Any

import click

from vesalius.cli import terminal
from vesalius.cli.options import complete_models, extra_option, ids_of, json_option, load

if TYPE_CHECKING:
    from vesalius.model import Model

target_option = click.option(
    "--target", multiple=True, help="A word, class or id; twice for the difference of two."
)
plot_option = click.option(
    "--plot", metavar="FILE", type=click.Path(dir_okay=False), help="A picture, .svg or .png."
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
@target_option
@click.option("--position", type=int, help="The token that is read; all unless said, from 0.")
@click.option(
    "--top", type=click.IntRange(1), default=1, show_default=True, help="Likeliest of each depth."
)
@plot_option
@extra_option
@json_option
def lens(
    model: str,
    text: str,
    target: tuple[str, ...],
    position: int | None,
    top: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """The logit lens: what MODEL would say at every depth.

    The states of TEXT go through what follows the last layer: after attention as C[l], after the
    feedforward network as H[l]. Of a --target the rank and probability by depth are told. TEXT is a
    file for images and series, and token ids where there is no tokenizer.

    Example: vesalius lens gpt "He shook his" --target " head"
    """
    from vesalius.analyses.lens import lens as run
    from vesalius.dissection import dissect

    loaded = load(model)
    found = run(dissect(loaded, _given(loaded, text)), _wanted(loaded, target), position, top)
    if plot:
        found.plot(plot)
    return terminal.show_json(found.to_json()) if as_json else terminal.show(found)


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
    target: tuple[str, ...],
    by: str | None,
    effects: bool,
    plot: str | None,
    as_json: bool,
) -> None:
    """What every attention head of MODEL does.

    Where it looks in each TEXT, and what depends on it: previous-token heads, induction heads and
    heads that rest on the first token are told by their shares of attention, heads of a vit by the
    offset in the picture. TEXT is a file for images and series, and token ids where there is no
    tokenizer.

    Example: vesalius heads gpt "He shook his head, he shook" --by previous
    """
    from vesalius.analyses.heads import heads as run

    loaded = load(model)
    given = [_given(loaded, text) for text in texts]
    found = run(loaded, given, _wanted(loaded, target), effects)
    if plot:
        found.plot(plot)
    if as_json:
        return terminal.show_json(found.to_json(by))
    return terminal.show(*found.told(by))


def _given(model: "Model", text: str) -> Any:
    """A text or file as it is; token ids for models that read tokens and have no tokenizer."""
    from vesalius.inputs import reads_arrays

    return text if model.tokenizer is not None or reads_arrays(model) else ids_of(text)


def _wanted(model: "Model", target: tuple[str, ...]) -> Any:
    """The target as the library takes it: none, one, or two to compare."""
    from vesalius.inputs import class_names

    named = model.tokenizer is not None or class_names(model)
    each = tuple(word if named else ids_of(word)[0] for word in target)
    return each if len(each) > 1 else each[0] if each else None
