"""Verbs of models that were fine-tuned on words and spans: tags, and answers to questions."""

import os
from typing import Any

import click

from vesalius.cli import terminal
from vesalius.cli.options import TEXTS, complete_models, extra_option, json_option, load, text_of


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("text", required=False)
@click.option("--file", type=TEXTS, help="A text in place of TEXT; '-' is stdin.")
@click.option("--words", is_flag=True, help="Take TEXT as words of one sentence, apart by spaces.")
@extra_option
@json_option
def tag(model: str, text: str | None, file: str | None, words: bool, as_json: bool) -> None:
    """Tag every word of TEXT, with a BERT trained on tags. Of tags of names, the spans are shown.

    TEXT is cut into sentences and words by rules, contractions apart.

    Example: vesalius tag my-tagger "Ada Lovelace lived in London."
    """
    from vesalius.tasks.tagging.use import tag as run

    if (text is None) == (file is None):
        raise click.UsageError("expected TEXT, or --file, one of them")
    given: Any = text if file is None else text_of(file)
    terminal.show_result(run(load(model), given.split() if words else given), as_json)


@click.command()
@click.argument("model", shell_complete=complete_models)
@click.argument("question")
@click.option(
    "--context", required=True, help="What holds the answer: a text, a file, or '-' for stdin."
)
@click.option("--top", type=click.IntRange(1), default=3, show_default=True, help="Answers.")
@click.option(
    "--stride",
    type=click.IntRange(1),
    help="Tokens between windows of a long text; as in training.",
)
@click.option(
    "--longest", type=click.IntRange(1), default=30, show_default=True, help="Tokens of an answer."
)
@extra_option
@json_option
def answer(
    model: str,
    question: str,
    context: str,
    top: int,
    stride: int | None,
    longest: int,
    as_json: bool,
) -> None:
    """Answer QUESTION by a span of a text. MODEL is a BERT that was trained on answers.

    Example: vesalius answer my-reader "Where did she live?" --context chapter.txt
    """
    from vesalius.tasks.answering.use import answer as run

    read = text_of(context) if context == "-" or os.path.isfile(context) else context
    terminal.show_result(run(load(model), question, read, top, stride, longest), as_json)
