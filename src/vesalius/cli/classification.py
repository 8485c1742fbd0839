"""The verb that tells the classes of images and series."""

from typing import TYPE_CHECKING

import click

from vesalius.cli import terminal
from vesalius.cli.options import complete_models, extra_option, json_option, load

if TYPE_CHECKING:
    from vesalius.classification import Classification

ALONE = 4
"""The most inputs that have a table of candidates each; more have a row each."""


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--top", type=click.IntRange(1), default=5, show_default=True, help="Classes of each."
)
@click.option("--raw", is_flag=True, help="Read FILE as it is: do not scale as in training.")
@click.option("--invert", is_flag=True, help="Turn an image's dark into bright.")
@extra_option
@json_option
def classify(
    model: str, files: tuple[str, ...], top: int, raw: bool, invert: bool, as_json: bool
) -> None:
    """The classes of images or series in FILEs, by MODEL, with their probabilities.

    A vit reads .png, .jpg and .npy, a tst .ts, .csv and .npy. Values are scaled as in training.
    Images of another size are resized, bilinear, to the model's; colours become grey where it reads
    grey. What was done is said.

    Example: vesalius classify vit shoe.png --top 3
    """
    from vesalius.classification import classify as run

    results: list[Classification] = run(load(model), list(files), raw, invert)
    if as_json:
        return terminal.show_json([result.to_json(top) for result in results])
    return terminal.show_classifications(results, top, ALONE)
