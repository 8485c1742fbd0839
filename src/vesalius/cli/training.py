"""Verbs that train models, and that say how good they are."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from vesalius.cli import options, terminal
from vesalius.errors import BrokenFile, WrongKind
from vesalius.views.shown import counted


@click.command()
@click.argument("name", required=False, shell_complete=options.complete_recipes)
@click.option("--keys", "by_key", is_flag=True, help="Every key: meaning, default, limits.")
@options.json_option
def recipes(name: str | None, by_key: bool, as_json: bool) -> None:
    """List the recipes that come with Vesalius; show one. With NAME, that one is shown as it is
    written.

    `vesalius train NAME` trains by it. A recipe of your own can begin as a copy of one.

    Example: vesalius recipes stories-gpt
    """
    import tomllib

    from vesalius.data.registry import corpus, whereabouts
    from vesalius.training.recipes import recipe_file
    from vesalius.training.recipes import recipes as shipped

    if by_key:
        from vesalius.training.recipe import keys

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
    "--out", type=click.Path(path_type=Path), help="Folder of the run; runs/NAME by default."
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
    """Train a model by RECIPE: a name, or a TOML file. `vesalius recipes` lists the names.

    The run's folder gets checkpoints, metrics, curves and, at the end, the model. Ctrl-C, SIGTERM
    and a closed terminal save and leave. Under torchrun, processes share the work.

    Example: vesalius train stories-gpt --set training.steps=200
    """
    from vesalius.cli.display import display
    from vesalius.training import read_recipe
    from vesalius.training import train as run
    from vesalius.training.processes import Processes
    from vesalius.training.signals import exit_code

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
        sys.exit(exit_code(outcome.reason))


@click.command()
@click.argument("backbone", shell_complete=options.complete_models)
@click.argument("data", shell_complete=options.complete_corpora)
@click.option("--text", help="Column of the texts; text by default. Of words, its number.")
@click.option(
    "--label",
    help="Column of the labels, or columns of 0 and 1 with commas between; label by default. "
    "Of tags, its number; the last by default.",
)
@click.option("--second", help="Column of second texts, for pairs.")
@click.option("--group", help="Column of groups, which are never on both sides of the split.")
@click.option("--valid", help="Data to validate on; a tenth of DATA by default.")
@click.option("--task", help="What is asked, where DATA leave it open; an error lists the names.")
@click.option("--strategy", default="finetune", show_default=True, help="What is trained.")
@click.option(
    "--epochs", type=float, help="Times that each example is seen; the task's by default."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--seeds", type=click.IntRange(1), help="Repeat for this many seeds; tell mean and spread."
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the model.")
@click.option("--resume", is_flag=True, help="Go on where the run stopped.")
@click.option(
    "--set",
    "changes",
    type=options.Settings(),
    multiple=True,
    help="Change a setting of the recipe, as in training.steps=200 or data.examples=10.",
)
@options.json_option
def finetune(
    backbone: str,
    data: str,
    changes: tuple[tuple[str, str], ...],
    as_json: bool,
    **settings: Any,
) -> None:
    """Fine-tune BACKBONE on DATA: a file, a folder or a corpus.

    BACKBONE is a specimen, a folder or a Hugging Face name; family:patchtst and the like start from
    nothing. The task follows from DATA:

    \b
    .csv, .tsv, .jsonl, .json  texts with labels: classes, labels, values
    .txt, folder of .txt       a text to go on with: gpt2, lstm, bert, …
    .conll, .tsv               a word and its tag a row: tags (bert)
    SQuAD's .json              questions on paragraphs: answers (bert)
    folder of .png or .jpg     a sub-folder for each class; IDX, .npz (vit)
    .ts, folder of .ts         series with classes or numbers (tst)
    .csv, .npy                 a series along time: forecast (patchtst)

    The recipe that is written to the folder trains the same model again.

    Example: vesalius finetune bert banking77 --label category --out my-model
    """
    from vesalius.cli.display import display
    from vesalius.finetuning import FineTuned
    from vesalius.finetuning import finetune as run
    from vesalius.training.signals import exit_code

    with display(quiet=as_json) as (callback, progress):
        found = run(
            backbone,
            data,
            changes=dict(changes),
            callbacks=[callback],
            progress=progress,
            **settings,
        )
    if isinstance(found, FineTuned):  # what the display has said is not said again
        notes = tuple(note for note in found.notes if note not in callback.said)
        found = replace(found, notes=notes)
    terminal.show_result(found, as_json)
    if not found.done:
        sys.exit(exit_code(found.reason))


@click.command()
@click.argument("model", shell_complete=options.complete_models)
@click.argument("corpus", shell_complete=options.complete_corpora)
@click.option(
    "--stride",
    type=click.IntRange(1),
    help="Tokens that a transformer's window moves on by; half its context by default.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "int8"]),
    default="float32",
    show_default=True,
    help="int8: with weights rounded as generation in bytes does it.",
)
@click.option(
    "--join-lines",
    is_flag=True,
    help="Join the lines of paragraphs that were broken to a width.",
)
@click.option(
    "--baseline",
    is_flag=True,
    help="Also a simple method, fitted on what MODEL was trained on, such as TF-IDF.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    help="Write the confusion matrix of classes or tags, as .svg or .png.",
)
@click.option(
    "--errors",
    type=click.Path(path_type=Path),
    help="Write wrong answers as .csv, the most certain first.",
)
@options.extra_option
@options.json_option
def evaluate(
    model: str,
    corpus: str,
    stride: int | None,
    dtype: str,
    join_lines: bool,
    baseline: bool,
    plot: Path | None,
    errors: Path | None,
    as_json: bool,
) -> None:
    """Measure how good MODEL is on CORPUS. CORPUS is a file, a folder, a name, or - for standard
    input.

    For models of the next token, perplexity, bits per byte and accuracy; on "stories", whose
    probabilities are known, the distance to the best possible model too. For others what they have
    heads for: masked tokens and next sentences, classes, labels, values, tags, answers, forecasts,
    pixels, masked values. Of a corpus by name, the part is measured that recipes validate on; of a
    file that MODEL was trained on, the part that was held out.

    Example: vesalius evaluate runs/stories-gpt/model stories
    """
    from tempfile import TemporaryDirectory

    from vesalius.evaluation import Evaluation
    from vesalius.evaluation import evaluate as run

    asked: dict[str, Any] = {"stride": stride, "dtype": dtype, "baseline": baseline}
    asked["join_lines"] = join_lines
    if corpus == "-":
        with TemporaryDirectory() as folder:
            file = Path(folder) / "input.txt"
            file.write_text(options.text_of("-"), encoding="utf-8")
            result = run(options.load(model), file, **asked)
        result = replace(result, corpus="standard input")
    else:
        result = run(options.load(model), corpus, **asked)
    listed = ""
    if not isinstance(result, Evaluation):
        if plot is not None:
            result.plot(plot)
        if errors is not None:
            listed = f"{counted(result.write_errors(errors), 'row')} in {errors}"
    elif plot is not None or errors is not None:
        raise WrongKind("--plot and --errors are not for models of the next token")
    terminal.show_result(result, as_json)
    if listed and not as_json:
        click.echo(listed)
