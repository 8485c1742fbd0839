"""The verb that looks at a folder before anything is done with it."""

import click

from vesalius.cli import terminal
from vesalius.cli.options import complete_models, json_option


@click.command()
@click.argument("folder", shell_complete=complete_models)
@click.option("--no-values", is_flag=True, help="Headers alone: no search for NaN and copies.")
@json_option
def inspect(folder: str, no_values: bool, as_json: bool) -> None:
    """What FOLDER holds: files, tensors and what each is, tokenizer, fit to its config.json.

    Nothing is unpickled, and a broken folder is told as far as it goes. Exit code 0 if it is a
    whole model, 1 if not.

    Example: vesalius inspect ./from-a-colleague
    """
    from vesalius.inspection import inspect as run

    found = run(folder, values=not no_values)
    if as_json:
        terminal.show_json(found.to_json())
    else:
        terminal.show(*found.view())
    if found.problems:
        raise click.exceptions.Exit(1)
