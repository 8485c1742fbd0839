"""Verbs that train models, and that say how good they are."""

import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from vesalius.cli import options, terminal
from vesalius.errors import BrokenFile


@click.command()
@click.argument("name", required=False, shell_complete=options.complete_recipes)
@click.option("--keys", "by_key", is_flag=True, help="Every key: meaning, default, limits.")
@options.json_option
def recipes(name: str | None, by_key: bool, as_json: bool) -> None:
    """The recipes that come with Vesalius; with NAME, one of them as it is written.

    `vesalius train NAME` trains by it. A recipe of your own can begin as a copy of one.

    Example: vesalius recipes stories-gpt
    """
    from vesalius.data.registry import corpus, whereabouts
    from vesalius.recipes import recipe_file
    from vesalius.recipes import recipes as shipped

    if by_key:
        from vesalius.training.settings import keys

        return terminal.show_json(keys()) if as_json else terminal.show_keys(keys())
    if name is not None:
        file = recipe_file(name)
        text = options.text_of(str(file))
        if not as_json:
            return click.echo(text, nl=False)
        try:
            return terminal.show_json(tomllib.loads(text))
        except (ValueError, RecursionError) as error:
            raise BrokenFile(f"{file} is not TOML: {error}") from error
    rows = [
        {**known.to_json(), "where": whereabouts(corpus(known.corpus))}
        for known in shipped().values()
    ]
    return terminal.show_json(rows) if as_json else terminal.show_recipes(rows)


@click.command()
@click.argument("recipe", type=click.Path(path_type=Path), shell_complete=options.complete_recipes)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of the run; runs/NAME unless said."
)
@click.option("--resume", is_flag=True, help="Go on where the run stopped, or to more steps.")
@click.option(
    "--set",
    "changes",
    type=options.Settings(),
    multiple=True,
    help="Change a setting, as in training.steps=200; the value none takes it away.",
)
@options.json_option
def train(
    recipe: Path,
    out: Path | None,
    resume: bool,
    changes: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Train a model by RECIPE, a name that `vesalius recipes` lists or a TOML file.

    The run's folder gets checkpoints, metrics, curves and, at the end, the model. Ctrl-C and
    SIGTERM save and leave. Under torchrun, processes share the work.

    Example: vesalius train stories-gpt --set training.steps=200
    """
    from vesalius.cli.display import display
    from vesalius.training import read_recipe
    from vesalius.training import train as run
    from vesalius.training.processes import Processes

    read = read_recipe(recipe, dict(changes))
    folder = out or Path("runs") / recipe.stem
    first = Processes(read.training.parallel).first  # of several processes one speaks
    with display(quiet=as_json or not first) as (callback, progress):
        outcome = run(read, folder, resume=resume, callbacks=[callback], progress=progress)
    done = outcome.reason in ("finished", "patience")
    if as_json and first:
        terminal.show_json({**outcome.__dict__, "folder": str(outcome.folder)})
    elif first and done:
        click.echo(f"{outcome.folder / 'model'}: {outcome.reason} at step {outcome.step}")
    elif first:
        click.echo(f"{outcome.reason}: saved at step {outcome.step}; go on with --resume")
    if not done:
        sys.exit(143 if outcome.reason == "SIGTERM" else 130)


@click.command()
@click.argument("model", shell_complete=options.complete_models)
@click.argument("corpus", shell_complete=options.complete_corpora)
@click.option(
    "--stride",
    type=click.IntRange(1),
    help="Tokens that a transformer's window moves on by; half its context unless said.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "int8"]),
    default="float32",
    show_default=True,
    help="int8: with weights rounded as generation in bytes does it.",
)
@options.extra_option
@options.json_option
def evaluate(model: str, corpus: str, stride: int | None, dtype: str, as_json: bool) -> None:
    """How good MODEL is on CORPUS: a file, a folder, a name, or - for standard input.

    For models of the next token, perplexity, bits per byte and accuracy; on "stories", whose
    probabilities are known, the distance to the best possible model too. For others what they have
    heads for: masked tokens and next sentences, classes, pixels, masked values. Of a corpus by
    name, the part that recipes validate on.

    Example: vesalius evaluate runs/stories-gpt/model stories
    """
    from vesalius.evaluation import evaluate as run

    if corpus == "-":
        with TemporaryDirectory() as folder:
            file = Path(folder) / "input.txt"
            file.write_text(options.text_of("-"), encoding="utf-8")
            result = run(options.load(model), file, stride, dtype=dtype)
        result = replace(result, corpus="standard input")
    else:
        result = run(options.load(model), corpus, stride, dtype=dtype)
    terminal.show_result(result, as_json)
