"""Options that several verbs share."""

from collections.abc import Callable, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from vesalius.errors import BrokenFile, EmptyCorpus, ImpossibleSetting

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
TEXTS = click.Path(exists=True, dir_okay=False, allow_dash=True)
"""A file of texts, for ``lines_of``."""


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completes(names: Callable[[], Mapping[str, str]], kind: str) -> Completer:
    """What a shell offers: the names that begin so, with a word on each, and its own files."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        found = {name: what for name, what in names().items() if name.startswith(incomplete)}
        return [
            *(CompletionItem(name, help=what) for name, what in found.items()),
            CompletionItem(incomplete, type=kind),
        ]

    return complete


def _models() -> dict[str, str]:
    from vesalius.families import names
    from vesalius.specimens import specimens

    return dict.fromkeys(names(), "a named size") | dict.fromkeys(specimens(), "a specimen")


def _recipes() -> dict[str, str]:
    from vesalius.recipes import recipes

    return {name: known.title for name, known in recipes().items()}


def _corpora() -> dict[str, str]:
    from vesalius.data.registry import corpora

    return {known.name: known.title for known in corpora()}


complete_models = completes(_models, "dir")
complete_recipes = completes(_recipes, "file")
complete_corpora = completes(_corpora, "file")


class Settings(click.ParamType[tuple[str, str]]):
    """``name=value``, as ``--set`` takes it."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        name, sign, text = value.partition("=")
        if not sign or not name or not text:
            raise ImpossibleSetting(f"--set takes name=value, as in heads=8; got {value!r}")
        return name.strip(), text.strip()


def lines_of(file: str) -> list[str]:
    """One text a line, as \\n ends it; an empty one keeps its number, and is refused by it."""
    name = "standard input" if file == "-" else file
    with click.open_file(file, "rb") as stream:
        data = stream.read()
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")  # which Windows puts before texts
    except UnicodeDecodeError as error:
        raise BrokenFile(
            f"{name} is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        ) from error
    if not text.strip():
        raise EmptyCorpus(f"{name} holds no text; expected one a line")
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
