"""Verbs between text and tokens."""

from pathlib import Path

import click

from vesalius.cli import terminal
from vesalius.cli.options import (
    TEXTS,
    complete_models,
    extra_option,
    json_option,
    load,
    text_of,
)


@click.command()
@click.argument("model", required=False, shell_complete=complete_models)
@click.argument("text", required=False)
@click.option("--rule", help="A rule of Table 7 in place of a MODEL, as in 'suffixes'.")
@click.option("--file", type=TEXTS, help="A file in place of TEXT; '-' is stdin.")
@json_option
def tokenize(
    model: str | None, text: str | None, rule: str | None, file: str | None, as_json: bool
) -> None:
    """Show the tokens of TEXT, by MODEL's tokenizer or a rule.

    MODEL is a specimen, a model's folder, a Hugging Face name, or a tokenizer's file. The TEXT - is
    standard input.

    Example: vesalius tokenize --rule suffixes "I'm looking for a job in New York."
    """
    from vesalius.errors import NotACheckpoint, UnknownSetting, nearest
    from vesalius.model import folder_of
    from vesalius.tokenizers import RULES, read_tokenizer

    if rule is not None:
        if rule not in RULES:
            raise UnknownSetting(f"unknown rule {rule!r}; {nearest(rule, RULES)}")
        if text is not None or (model is None) == (file is None):
            raise click.UsageError("--rule takes one TEXT, or --file, and no MODEL")
        tokens = RULES[rule](_given(model, file))
        return terminal.show_json(tokens) if as_json else click.echo(" · ".join(tokens))
    if model is None or (text is None) == (file is None):
        raise click.UsageError("expected MODEL and TEXT, or --file, or --rule in place of MODEL")
    text = _given(text, file)
    tokenizer = read_tokenizer(Path(model) if Path(model).is_file() else folder_of(model))
    if tokenizer is None:
        raise NotACheckpoint(f"{model} holds no tokenizer; expected tokenizer.json or vocab files")
    rows = tokenizer.to_json(text)
    if as_json:
        return terminal.show_json(rows)
    return terminal.show_tokens(text, rows)


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("text", required=False)
@click.option("--file", type=TEXTS, help="A text file in place of TEXT; '-' is stdin.")
@click.option(
    "--stride",
    type=click.IntRange(1),
    help="Tokens that a transformer's window moves on by; half its context by default.",
)
@extra_option
@json_option
def surprisal(
    model: str, text: str | None, file: str | None, stride: int | None, as_json: bool
) -> None:
    """Show how surprising MODEL finds each token of TEXT.

    Every token has its probability given those before it, its surprisal in bits, and its rank among
    all tokens, 1 for the likeliest. The TEXT - is standard input.

    Example: vesalius surprisal gpt "He shook his head"
    """
    from vesalius.analyses.surprisal import surprisal as run

    if (text is None) == (file is None):
        raise click.UsageError("expected TEXT or --file, one of them")
    terminal.show_result(run(load(model), _given(text, file), stride), as_json)


def _given(text: str | None, file: str | None) -> str:
    """A text as it was given: itself, in a file, or on standard input."""
    if file is None and text != "-":
        assert text is not None
        return text
    return text_of(file or "-")


TOKENS = 8192
"""What a vocabulary has at most, unless it is said."""


@click.group()
def tokenizer() -> None:
    """Train a tokenizer of your own.

    Example: vesalius tokenizer train book.txt --size 4096 --out ./pieces
    """


@tokenizer.command("train")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--kind",
    type=click.Choice(["byte-pairs", "word-pieces", "characters"]),
    default="byte-pairs",
    show_default=True,
    help="What the tokens are.",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    help="Tokens at most; 8192 by default, and all characters.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@json_option
def train_tokenizer(
    files: tuple[Path, ...], kind: str, size: int | None, out: Path, as_json: bool
) -> None:
    """Learn the vocabulary of a tokenizer from text FILES.

    Example: vesalius tokenizer train book.txt --kind word-pieces --size 4096 --out ./pieces
    """
    from vesalius import tokenizers
    from vesalius.checkpoints.exchanging import free_folder

    with free_folder(out) as stage:  # before the work begins
        texts = tokenizers.read_texts(files)
        learnt = {
            "byte-pairs": lambda: tokenizers.train_byte_pairs(texts, size or TOKENS),
            "word-pieces": lambda: tokenizers.train_word_pieces(texts, size or TOKENS),
            "characters": lambda: tokenizers.train_characters(texts, size),
        }[kind]()
        learnt.save(stage)
    if as_json:
        return terminal.show_json({"kind": kind, "size": learnt.size, "folder": str(out)})
    return click.echo(f"{out}: {kind}, {learnt.size:,} tokens")
