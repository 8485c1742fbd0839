"""The verb that opens the explorer."""

import json

import click

from vesalius.cli.options import complete_models, json_option


@click.command()
@click.argument("model", required=False, shell_complete=complete_models)
@click.option("--port", type=click.IntRange(0, 65535), help="Else the next that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help="A name of the loopback.")
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
@json_option
def explore(
    model: str | None, port: int | None, host: str, no_browser: bool, as_json: bool
) -> None:
    """A page on this machine that takes a run apart: every number, and what a cut changes.

    MODEL is the one to begin with; the specimens are there as well. Ctrl-C ends it.

    Example: vesalius explore gpt
    """
    from vesalius.explorer.serving import explorer

    found = explorer(model, host, port)
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        click.echo(f"The explorer is at {found.address}\nCtrl-C ends it.")
    found.run(browser=not no_browser)
