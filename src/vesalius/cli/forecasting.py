"""The verb that has a model forecast."""

from pathlib import Path

import click

from vesalius.cli import terminal
from vesalius.cli.options import complete_models, extra_option, json_option, load


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("file")
@click.option("--horizon", type=click.IntRange(1), help="Time steps; the model's by default.")
@click.option(
    "--level",
    type=float,
    default=0.9,
    show_default=True,
    help="Share of what follows that intervals are to hold: 0.5, 0.8, 0.9 or 0.95.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write unique_id, ds, y, lower, upper to this .csv file.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw it to a file, .svg or .png.",
)
@click.option("--raw", is_flag=True, help="Read FILE as it is: do not scale as in training.")
@extra_option
@json_option
def forecast(
    model: str,
    file: str,
    horizon: int | None,
    level: float,
    out: Path | None,
    plot: Path | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Forecast what follows the series in FILE, with intervals.

    FILE is a .csv, wide with a column of dates or long with unique_id, ds and y, a .npy array of
    channels x time, or a corpus by name. Its last values are what the forecast is made from.

    Example: vesalius forecast my-model etth1 --horizon 24 --out next-day.csv
    """
    from vesalius.tasks.forecasting.use import forecast as run

    found = run(load(model), file, horizon, level, raw=raw)
    if out is not None:
        found.save(out)
    if plot is not None:
        found.plot(plot)
    terminal.show_result(found, as_json)
