"""The verb that opens the explorer."""

import json
from pathlib import Path

import click

from vesalius.cli.options import complete_models, json_option

RUNS = Path("runs")
"""Where training leaves its runs unless it is told otherwise."""


@click.command()
@click.argument("model", required=False, shell_complete=complete_models)
@click.option("--port", type=click.IntRange(0, 65535), help="Else the next that is free.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="A name of the loopback, or with --expose an address of this machine.",
)
@click.option("--expose", is_flag=True, help="Answer on the network, to whoever has the token.")
@click.option(
    "--runs",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of training runs, whose curves and checkpoints are shown; runs/ if there is one.",
)
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
@json_option
def explore(
    model: str | None,
    port: int | None,
    host: str,
    expose: bool,
    runs: Path | None,
    no_browser: bool,
    as_json: bool,
) -> None:
    """Open a page on this machine that takes a run apart. It shows every number, and what a cut
    changes.

    MODEL is the one to begin with; the specimens are there as well. Ctrl-C ends it.

    Example: vesalius explore gpt
    """
    from vesalius.explorer.server import explorer

    runs = runs or (RUNS if RUNS.is_dir() else None)
    found = explorer(model, host, port, runs=runs, expose=expose)
    if found.exposed is not None:
        click.echo(
            f"warning: whoever reaches {host} and has this address may use the page; it travels "
            f"unencrypted, so do this only in a network that you trust",
            err=True,
        )
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        click.echo(f"The explorer is at {found.address}\nCtrl-C ends it.")
    found.run(browser=not no_browser)
