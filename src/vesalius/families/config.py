"""What configurations are made of: settings with a default, the paper's symbol and their limits.

A configuration is frozen and checked when it is made. Optional widths stay as they were asked for;
what follows from them is in ``symbols()``.
"""

import dataclasses
import math
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from vesalius.arguments import plain
from vesalius.errors import ImpossibleSetting, UnknownSetting, nearest

Setting = int | float | str | bool | None
"""The value of a setting; None where it is left open."""
EXPECTED = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def setting(
    default: Setting,
    symbol: str,
    meaning: str,
    *,
    least: float = 1,
    below: float = math.inf,
    choices: tuple[Setting, ...] | None = None,
) -> Any:
    """A hyperparameter: its default, the paper's symbol, what it means, which values it takes."""
    metadata = {"symbol": symbol, "meaning": meaning, "least": least, "below": below}
    return dataclasses.field(default=default, metadata={**metadata, "choices": choices})


def again(parent: type, name: str, default: Setting) -> Any:
    """A parent's setting with another default."""
    metadata = {field.name: field.metadata for field in dataclasses.fields(parent)}[name]
    return dataclasses.field(default=default, metadata=metadata)


@cache
def _hints(config: Any) -> dict[str, Any]:
    return typing.get_type_hints(config)


def _kind(config: type["Config"], name: str) -> tuple[type, bool]:
    """The type of a setting, and whether it may be left open (None)."""
    hint = _hints(config)[name]  # type: ignore[arg-type] # classes can be hashed
    if isinstance(hint, types.UnionType):
        return next(h for h in typing.get_args(hint) if h is not types.NoneType), True
    return hint, False


@dataclass(frozen=True, kw_only=True)
class Config:
    """What all configurations can do; a family adds its settings."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
            self._check(field.name, getattr(self, field.name), field.metadata)

    def _check(self, name: str, value: Any, rule: Mapping[str, Any]) -> None:
        kind, optional = _kind(type(self), name)
        if value is None and optional:
            return
        if rule["choices"] is not None:
            if value not in rule["choices"] or isinstance(value, bool):
                choices = ", ".join(map(str, rule["choices"]))
                raise ImpossibleSetting(f"{name} must be one of {choices}, got {value!r}")
            return
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise ImpossibleSetting(f"{name} must be {EXPECTED[kind]}, got {value!r}")
        if kind in (bool, str):
            return
        if not value >= rule["least"]:
            raise ImpossibleSetting(f"{name} must be at least {rule['least']}, got {value}")
        if not value < rule["below"] or (kind is float and value > sys.float_info.max):
            limit = "finite" if rule["below"] == math.inf else f"below {rule['below']}"
            raise ImpossibleSetting(f"{name} must be {limit}, got {value}")

    @classmethod
    def settings(cls) -> dict[str, Mapping[str, Any]]:
        """Every setting's symbol, meaning and limits by its name."""
        return {field.name: field.metadata for field in dataclasses.fields(cls)}

    def change(self, /, **changes: Setting) -> Self:
        """The same configuration with some settings changed."""
        for name in changes:
            self._require_known(name)
        return dataclasses.replace(self, **changes)

    def _require_known(self, name: str) -> None:
        if name not in self.settings():
            raise UnknownSetting(f"unknown setting {name!r}; {nearest(name, self.settings())}")

    def read(self, name: str, text: str) -> Setting:
        """A setting's value from what was typed; the check follows when it is set."""
        self._require_known(name)
        kind, optional = _kind(type(self), name)
        if optional and text.lower() == "none":
            return None
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
        try:
            value: Setting = kind(text.replace("_", "").replace(",", "") if kind is int else text)
            return value
        except ValueError:
            return text

    def symbols(self) -> dict[str, Any]:
        """The paper's letters with their values, as shapes and formulas use them."""
        raise AssertionError("every family has its own")

    # What all families have, with the value for those that have no such setting.

    @property
    def vocabulary(self) -> int:
        """How many tokens a text is made of; 0 where no text is read."""
        return 0

    @property
    def context(self) -> int | None:
        """The longest input; None where there is no such."""
        return None

    @property
    def longest(self) -> int:
        """The context of a family that has one."""
        assert self.context is not None
        return self.context

    @property
    def unlimited(self) -> bool:
        """Whether input may be longer than ``context``, as where no position has a vector."""
        return self.context is None

    @property
    def causal(self) -> bool:
        """Whether a token sees only those before it."""
        return True

    @property
    def attends(self) -> bool:
        """Whether tokens attend to each other."""
        return False

    @property
    def tied(self) -> bool:
        """Whether input and output embeddings are one matrix."""
        return False

    @property
    def pooling(self) -> str:
        """Whose state the labels of a sequence read."""
        return "last"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def described(self) -> list[dict[str, Any]]:
        """Every setting with its symbol, value, meaning and choices, as JSON."""
        return [
            {"name": name, "symbol": rule["symbol"], "value": getattr(self, name)}
            | {"meaning": rule["meaning"], "choices": rule["choices"]}
            for name, rule in self.settings().items()
        ]
