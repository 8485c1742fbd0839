"""Verbs on folders and files of models: what there is, what one holds, and other layouts."""

import json
from pathlib import Path
from typing import Any

import click

from vesalius.cli import options, terminal


@click.command()
@click.argument("source", shell_complete=options.complete_models)
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "layout",
    type=click.Choice(["huggingface", "vesalius"]),
    help="Layout to write. Default: huggingface, or vesalius for a family that has no other.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32", "float16", "bfloat16"]),
    help="Precision to write; as read by default.",
)
@click.option(
    "--tokenizer",
    help="A tokenizer's file or folder, a model's name, or the .txt whose characters are tokens.",
)
@click.option(
    "--set",
    "settings",
    type=options.Settings(),
    multiple=True,
    help="State what weights alone do not say, as in heads=8.",
)
@options.extra_option
@options.json_option
def convert(
    source: str,
    target: Path,
    layout: str | None,
    dtype: str | None,
    tokenizer: str | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Write the model SOURCE to folder TARGET in another layout. It is Hugging Face's, or ours.

    SOURCE is a folder, a file, a specimen or a Hugging Face name: in Hugging Face's layout or ours,
    nanoGPT's ckpt.pt, timm's folder of a ViT, or a GPT-2 or BERT of KerasHub (.keras, .weights.h5).
    This is the one place that reads .bin and .pt files, shards too, as weights alone.

    Weights alone (.pt, .safetensors, .npz) are known by the names of their tensors: vit-pytorch's
    ViT until 0.40.2, minGPT, language models of torch.nn.LSTM or nn.RNN, and of TensorFlow's LSTM
    cells. Where they do not say something, such as the number of heads, an error asks for --set.

    nanoGPT's ckpt.pt holds no tokenizer: give --tokenizer gpt2-folder for its GPT-2 vocabulary,
    --tokenizer input.txt for the characters of that text. Its meta.pkl is not unpickled.

    Example: vesalius convert ./old-gpt2 ./new-gpt2
    """
    from vesalius.checkpoints.conversion import read_model
    from vesalius.checkpoints.plain import read_json
    from vesalius.errors import NotACheckpoint
    from vesalius.families import family_of

    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise NotACheckpoint(f"{target} is there already and not empty; give a new folder")
    said = {name: _value(text) for name, text in settings}
    model = read_model(source, options.ignore_extra(), tokenizer, said)
    family = family_of(model.config)
    layout = layout or ("huggingface" if family.huggingface else "vesalius")
    if dtype is not None:
        model.dtype = dtype
    model.save(target, layout)
    written = read_json(target / "config.json")
    done = {"source": source, "target": str(target), "layout": layout, "dtype": written["dtype"]}
    if as_json:
        return terminal.show_json({**done, "family": model.family, "tensors": len(model.state)})
    (theirs,) = written.get("architectures", [""])
    named = f"as {theirs}, in" if theirs else "in"  # pixels go as words to GPT2LMHeadModel
    click.echo(f"{target}: {model.family} {named} {layout}'s layout, {done['dtype']}")
    if model.tokenizer is None and family.reads == "text":
        click.echo("It has no tokenizer and reads token ids; --tokenizer gives it one")
    return None


def _value(text: str) -> Any:
    """A setting's value from what was typed: a number, true or false, or else a word."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@click.command()
@click.argument("folder", shell_complete=options.complete_models)
@click.option("--no-values", is_flag=True, help="Headers alone: no search for NaN and copies.")
@options.json_option
def inspect(folder: str, no_values: bool, as_json: bool) -> None:
    """Show what FOLDER holds, and whether it is a whole model. That is its files, its tensors and
    what each is, its tokenizer, and whether they fit its config.json.

    Nothing is unpickled, and a broken folder is told as far as it goes. Exit code 0 if it is a
    whole model, 2 if not.

    Example: vesalius inspect ./from-a-colleague
    """
    from vesalius.checkpoints.inspection import inspect as run

    found = run(folder, values=not no_values)
    terminal.show_result(found, as_json)
    if found.problems:
        raise click.exceptions.Exit(2)


@click.command()
@click.argument("name", required=False, shell_complete=options.complete_specimens)
@options.json_option
def specimens(name: str | None, as_json: bool) -> None:
    """List the small trained models that ship with Vesalius. With NAME, show the card of one.

    Their names work wherever a model's folder does.

    Example: vesalius specimens gpt
    """
    from vesalius import specimens as shipped

    if name is not None:
        card = shipped.card(name)
        return terminal.show_json(card.to_json()) if as_json else terminal.show_card(card)
    cards = {name: shipped.card(name) for name in shipped.specimens()}
    if as_json:
        return terminal.show_json({name: card.to_json() for name, card in cards.items()})
    return terminal.show_cards(cards)
