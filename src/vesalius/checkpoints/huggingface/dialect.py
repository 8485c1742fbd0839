"""How Hugging Face writes a family: its words in config.json, its classes, its tensors' names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vesalius.checkpoints.layout import Shape
from vesalius.checkpoints.tables import Row, both
from vesalius.errors import UnknownConfiguration
from vesalius.families.config import Config
from vesalius.families.family import OwnConfig

Settings = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One ``model_type``."""

    model_type: str
    config: type[Config]
    settings: dict[str, str]
    """Our setting: their key in config.json."""
    fixed: Settings
    """Keys that must have this value, or be absent: what else they could mean is not built."""
    defaults: Settings = field(default_factory=dict)
    """What their configurations have for an absent key, where that is not our default."""
    dropouts: tuple[str, ...]
    """Keys of further dropouts, which we have one for."""
    prefix: str
    marks: tuple[str, ...]
    """Their names that tell the family where config.json does not."""
    classes: dict[str, Settings]
    """Their classes, and what each has besides the backbone."""
    bare: str
    """The class whose tensors have no prefix."""
    rows: Callable[[OwnConfig], list[Row]]
    tied: dict[str, str] = field(default_factory=dict)
    """Their names that repeat another tensor of theirs."""
    ignored: str = r"(?!)"
    """Their names that hold no parameters, as a pattern."""
    advice: dict[str, str] = field(default_factory=dict)
    """What to say of a tensor of theirs that does not fit, by a pattern of its name."""
    heads: Callable[[Mapping[str, Any], Mapping[str, Shape]], Settings]
    """Settings of ours that follow from config.json and from what the file holds."""
    fits: Callable[[OwnConfig], bool] = lambda config: True
    """Whether a configuration of ours is written in this dialect."""
    sayable: Callable[[OwnConfig], dict[str, bool]] = lambda config: {}
    """What their configurations may have no words for, and whether they have here."""
    class_of: Callable[[OwnConfig], str]
    """The class of theirs that a configuration of ours is."""
    written: Callable[[OwnConfig], Settings] = lambda config: {}
    """Further keys of config.json."""
    kept: Settings = field(default_factory=dict)
    """Keys that are written unless the config.json that the model came with has them."""
    outputs: Callable[[OwnConfig], dict[str, str]]
    """What their model gives: the paper's symbol of it."""
    last_normalised: bool = False
    """Whether the last of their hidden states is the one after the final normalisation."""


def require_fixed(theirs: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Refuse keys of config.json that have another value than the one that can be read."""
    for key, value in fixed.items():
        if theirs.get(key, value) != value:
            raise UnknownConfiguration(
                f"config.json says {key} = {theirs[key]!r}; only {value!r} can be read"
            )


ENCODER = {
    "layers": "num_hidden_layers",
    "embedding": "hidden_size",
    "heads": "num_attention_heads",
    "feedforward": "intermediate_size",
    "epsilon": "layer_norm_eps",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
}


def encoder_blocks(attention: str) -> list[Row]:
    layer = "encoder.layer.{l}"
    return [
        *both("blocks.{l}.attention.query", f"{layer}.attention.{attention}.query"),
        *both("blocks.{l}.attention.key", f"{layer}.attention.{attention}.key"),
        *both("blocks.{l}.attention.value", f"{layer}.attention.{attention}.value"),
        *both("blocks.{l}.attention.output", f"{layer}.attention.output.dense"),
        *both("blocks.{l}.feedforward.inner", f"{layer}.intermediate.dense"),
        *both("blocks.{l}.feedforward.outer", f"{layer}.output.dense"),
    ]


def promised_by(theirs: Mapping[str, Any], classes: Mapping[str, Settings]) -> Settings:
    """What the classes that config.json names have besides the backbone."""
    named = theirs.get("architectures") or []
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise UnknownConfiguration(f"config.json says architectures {named!r}; expected names")
    return {key: has for name in named for key, has in classes.get(name, {}).items()}


def labels_of(
    theirs: Mapping[str, Any],
    shapes: Mapping[str, Shape],
    promised: Mapping[str, Any],
    *heads: str,
) -> int:
    """How many labels one of these heads gives, by the file or by config.json."""
    names = theirs.get("id2label") or {}
    if not isinstance(names, dict):
        raise UnknownConfiguration(f"config.json says id2label {names!r}; expected an object")
    held: Shape = next(filter(None, (shapes.get(f"{name}.weight") for name in heads)), (0,))
    if "labelled" not in promised:
        return held[0]
    return held[0] or len(names) or theirs.get("num_labels", 2)
