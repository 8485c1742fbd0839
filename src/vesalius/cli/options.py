"""Options that several verbs share."""

from typing import Any

import click

from vesalius.errors import ImpossibleSetting

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


class Settings(click.ParamType[tuple[str, str]]):
    """``name=value``, as ``--set`` takes it."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        name, sign, text = value.partition("=")
        if not sign or not name or not text:
            raise ImpossibleSetting(f"--set takes name=value, as in heads=8; got {value!r}")
        return name.strip(), text.strip()
