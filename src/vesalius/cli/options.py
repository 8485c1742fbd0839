"""Options that several verbs share."""

from typing import Any

import click

from vesalius.errors import BrokenFile, EmptyCorpus, ImpossibleSetting

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
TEXTS = click.Path(exists=True, dir_okay=False, allow_dash=True)
"""A file of texts, for ``lines_of``."""


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
