"""What layouts of weights alone have in common: settings that must be stated, shapes, layers."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vesalius.checkpoints.layout import Shape
from vesalius.checkpoints.libraries import Dialect
from vesalius.equations.parameters import Array
from vesalius.errors import CheckpointMismatch, UnknownConfiguration, UnknownSetting, nearest

Shapes = Mapping[str, Shape]


@dataclass(frozen=True)
class Reading:
    """A model as a file holds it."""

    family: str
    settings: Mapping[str, Any]
    arrays: dict[str, Array]
    """The tensors of the file; what it leaves out and what is folded is filled in."""
    dialect: Dialect
    """The table with the names that this file has."""


@dataclass(frozen=True)
class Setting:
    """A setting that files of a layout do not say."""

    meaning: str
    example: Any


@dataclass(frozen=True)
class Layout:
    """How one program saves a model as weights alone."""

    title: str
    fits: Callable[[Shapes], bool]
    settings: Mapping[str, Setting]
    """What can be stated, by name; ``read`` asks for what it needs."""
    read: Callable[[dict[str, Array], Mapping[str, Any]], Reading]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """What the program itself calls these settings in config.json."""

    def require(self, said: Mapping[str, Any], *names: str) -> None:
        """Ask for the settings that were not stated."""
        if missing := {name: self.settings[name] for name in names if name not in said}:
            what = ", ".join(f"{name} ({s.meaning})" for name, s in missing.items())
            examples = {name: s.example for name, s in missing.items()}
            options = " ".join(f"--set {name}={value}" for name, value in examples.items())
            raise UnknownConfiguration(
                f"these are weights of {self.title}, which do not say: {what}. State it as in "
                f"{options}, settings={examples} in Python, or "
                f"{json.dumps(examples)} in a config.json beside the weights"
            )


def stated(
    layout: Layout, described: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings that were stated: by config.json, and over it by whoever converts.

    minGPT's config.json has those of the model in an object within it.
    """
    inner = described.get("model")
    merged = {**described, **(inner if isinstance(inner, dict) else {})}
    named = {layout.aliases.get(name, name): value for name, value in merged.items()}
    kept = {name: v for name, v in named.items() if name in layout.settings and v is not None}
    for name in settings:
        if name not in layout.settings:
            raise UnknownSetting(
                f"{layout.title} has no setting {name!r} that could be stated; "
                f"{nearest(name, layout.settings)}"
            )
    return kept | dict(settings)


def choice(said: Mapping[str, Any], name: str, choices: Iterable[Any]) -> Any:
    """A setting that has one of a few values."""
    known, value = list(choices), said[name]
    if value not in known:
        named = ", ".join(map(str, known))
        raise UnknownConfiguration(f"{name} must be one of {named}; got {value!r}")
    return value


def whole(said: Mapping[str, Any], name: str) -> int:
    """A setting that counts something."""
    value = said[name]
    if type(value) is not int or value < 1:
        raise UnknownConfiguration(f"{name} must be a whole number of at least 1; got {value!r}")
    return value


def sizes(arrays: Mapping[str, Array], name: str, axes: int) -> Shape:
    """The shape of a tensor from which sizes are measured."""
    if name not in arrays:
        raise CheckpointMismatch(f"missing: {name}, a tensor with {axes} axes")
    shape = arrays[name].shape
    if len(shape) != axes or 0 in shape:
        raise CheckpointMismatch(
            f"misshapen: {name} is {shape}; expected {axes} axes, none of them empty"
        )
    return shape


def literal(name: str) -> str:
    """A name of a file within a row's name, where braces stand for the layer."""
    return name.replace("{", "{{").replace("}", "}}")


def layers(names: Iterable[str], pattern: str) -> int:
    """How many layers there are, whose numbers the pattern's group finds."""
    found = (re.match(pattern, name) for name in names)
    return len({match.group(1) for match in found if match})
