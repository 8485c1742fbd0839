"""Verbs that have a model read: classes, what masks stand for, what follows, what is alike."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from vesalius.cli import terminal
from vesalius.cli.options import TEXTS, complete_models, extra_option, json_option, lines_of, load
from vesalius.views.shown import Table, counted


def what_option(default: str | None, kinds: list[str], text: str) -> Callable[[Any], Any]:
    return click.option(
        "--what", type=click.Choice(kinds), default=default, show_default=True, help=text
    )


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("given", metavar="[TEXT|FILE]...", nargs=-1)
@click.option("--file", type=TEXTS, help="Texts, one a line, or a table; '-' is stdin.")
@click.option("--text", "column", help="Column of a table's texts; as in training by default.")
@click.option(
    "--top", type=click.IntRange(1), default=5, show_default=True, help="Classes of each."
)
@click.option("--raw", is_flag=True, help="Read FILE as it is: do not scale as in training.")
@click.option("--invert", is_flag=True, help="Turn an image's dark into bright.")
@extra_option
@json_option
def classify(
    model: str,
    given: tuple[str, ...],
    file: str | None,
    column: str | None,
    top: int,
    raw: bool,
    invert: bool,
    as_json: bool,
) -> None:
    """Classify TEXTs, or the images or series in FILEs. Every class is given its probability by
    MODEL.

    A model of texts that `vesalius finetune` made tells classes, several labels, or a value; one of
    pairs reads its TEXTs two by two. A vit reads .png, .jpg and .npy, a tst .ts, .csv and .npy;
    one that was trained on values tells those.
    Numbers are scaled as in training. Images of another size are resized, bilinear, to the model's;
    colours become grey where it reads grey. What was done is said.

    Example: vesalius classify vit shoe.png --top 3
    """
    from vesalius.data.inputs import reads_arrays
    from vesalius.tasks.classification import classify as run
    from vesalius.tasks.labelling.use import Value, as_read, texts_of

    loaded = load(model)
    if bool(given) == (file is not None):
        raise click.UsageError("expected TEXT or FILE, or --file with texts, one of them")
    if not reads_arrays(loaded):
        if file is None:
            texts: Any = as_read(loaded, given)
        else:
            texts = texts_of(loaded, file, column, lines_of)
        results: Any = run(loaded, texts, raw, invert)
        if as_json:
            return terminal.show_json([result.to_json(top) for result in results])
        return terminal.show_labels(results, top)
    if file is not None:
        raise click.UsageError("--file is for models of texts; name files of images or series")
    results = run(loaded, list(given), raw, invert)
    if as_json:
        return terminal.show_json([result.to_json(top) for result in results])
    if all(isinstance(result, Value) for result in results):
        return terminal.show_values(results)
    return terminal.show_classifications(results, top)


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("text")
@click.option(
    "--top", type=click.IntRange(1), default=5, show_default=True, help="Candidates for each mask."
)
@extra_option
@json_option
def fill(model: str, text: str, top: int, as_json: bool) -> None:
    """Fill every [MASK] in TEXT, with the BERT MODEL.

    Example: vesalius fill bert "[MASK] opened her eyes."
    """
    from vesalius.tasks.language.filling import fill as run

    terminal.show_result(run(load(model), text, top), as_json)


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("first")
@click.argument("second")
@extra_option
@json_option
def next_sentence(model: str, first: str, second: str, as_json: bool) -> None:
    """Judge whether the text SECOND follows FIRST. MODEL is a BERT with an NSP head.

    Example: vesalius next-sentence bert "It began to rain." "He opened his umbrella."
    """
    from vesalius.tasks.language.filling import next_sentence as run

    terminal.show_result(run(load(model), first, second), as_json)


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option("--file", type=TEXTS, help="Texts in place of TEXT, one a line; '-' is stdin.")
@what_option(
    "mean",
    ["mean", "cls", "tokens", "static"],
    "The mean of the tokens' states, that of [CLS], all of them, or the mean of columns of E.",
)
@click.option(
    "--layer",
    type=click.IntRange(0),
    help="States after this layer; by default, the states that the logits are read from.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the vectors to this file, .npy or .safetensors.",
)
@click.option(
    "--batch", type=click.IntRange(1), default=32, show_default=True, help="Texts at once."
)
@click.option("--truncate", is_flag=True, help="Cut texts that are longer than the context.")
@extra_option
@json_option
def embed(
    model: str,
    texts: tuple[str, ...],
    file: str | None,
    what: str,
    layer: int | None,
    out: Path | None,
    batch: int,
    truncate: bool,
    as_json: bool,
) -> None:
    """Turn TEXTs into vectors.

    In .safetensors the vectors are called "vectors"; those of tokens "0", "1", … by text.

    Example: vesalius embed gpt "The rain fell." "It was wet." --out vectors.npy
    """
    from vesalius.tasks.embedding import embed as run
    from vesalius.tasks.embedding import require_saveable

    if bool(texts) == (file is not None):
        raise click.UsageError("expected TEXT, or --file, one of them")
    if out is not None:
        require_saveable(out, what)
    given = list(texts) if file is None else lines_of(file)
    loaded = load(model)
    with terminal.counting("embedding") as progress:
        found = run(loaded, given, what, layer, batch, progress, truncate=truncate)
    if out is None:
        return terminal.show_result(found, as_json)
    found.save(out)
    count, width = len(found.texts), found.vectors[0].shape[-1]
    if as_json:
        about = {"out": str(out), "what": found.what, "layer": found.layer}
        return terminal.show_json({**about, "texts": count, "width": width, "hint": found.hint})
    noted = f"; {found.hint}" if found.hint else ""
    return click.echo(f"{out}: {what} of {counted(count, 'text')}, {width} numbers a vector{noted}")


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("query")
@click.option("--among", type=TEXTS, help="Texts to compare with, one a line; '-' is stdin.")
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="How many.")
@click.option(
    "--distance",
    type=click.Choice(["cosine", "euclidean"]),
    default="cosine",
    show_default=True,
    help="Of the cosine the highest is nearest, of the Euclidean distance the lowest.",
)
@what_option(
    None,
    ["mean", "cls", "static"],
    "What texts are compared by, as in embed; mean, or static of ffnn, by default.",
)
@click.option("--truncate", is_flag=True, help="Cut texts that are longer than the context.")
@extra_option
@json_option
def similar(
    model: str,
    query: str,
    among: str | None,
    top: int,
    distance: str,
    what: str | None,
    truncate: bool,
    as_json: bool,
) -> None:
    """Find the words, or the texts of a file, nearest to QUERY. Words are those of MODEL's
    vocabulary.

    Words are compared by their columns of E. Of tokenizers such as GPT-2's, the space before a word
    is part of it.

    Example: vesalius similar gpt " king"
    """
    from vesalius.tasks.embedding import similar as run

    texts = None if among is None else lines_of(among)
    loaded = load(model)
    with terminal.counting("embedding") as progress:
        found = run(loaded, query, texts, top, distance, what, truncate=truncate, progress=progress)
    if as_json:
        return terminal.show_json([neighbour.to_json() for neighbour in found])
    shown = [(repr(n.text) if texts is None else n.text, f"{n.score:.4f}") for n in found]
    heads, prose = ("word" if texts is None else "text", distance), () if texts is None else (0,)
    return terminal.show(Table(heads, shown, right=(1,), prose=prose, title=repr(query)))
