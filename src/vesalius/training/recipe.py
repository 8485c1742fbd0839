"""Recipes: all that a training run is told, read from TOML and checked against these dataclasses.

A recipe names a family or a model to start from, an objective, its data, and how to train. Keys
that are not known are refused with the nearest one; ``--set training.steps=100`` changes one.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vesalius import arguments
from vesalius.errors import BrokenFile, ImpossibleSetting, UnknownSetting, WrongKind, nearest
from vesalius.families import configuration, family_of
from vesalius.families.config import Config, setting
from vesalius.machine import quick_bfloat16
from vesalius.recipes import recipe_file


@dataclass(frozen=True, kw_only=True)
class TextData(Config):
    """Text, and how it becomes tokens."""

    corpus: str = setting("stories", "", "a corpus by name, a text file, or a folder of them")
    valid: str | None = setting(None, "", "what to validate on; the last part if open")
    split: float = setting(0.1, "", "share to validate on where that is one text", least=0, below=1)
    words: int = setting(1_000_000, "", "words of stories to train on")
    tokenizer: str = setting(
        "byte-pairs", "", "byte-pairs, word-pieces, words or characters to learn, or a folder"
    )
    vocabulary: int = setting(8192, "|V|", "tokens to learn at most")
    window: int | None = setting(None, "n", "tokens of a window; the model's context if open")
    carried: bool = setting(True, "", "whether recurrent networks carry their state along")
    mask_ratio: float = setting(0.15, "", "share of tokens to predict", least=0, below=1)
    plain_masks: bool = setting(False, "", "each chosen token becomes [MASK]; else 80/10/10")
    whole_words: bool = setting(False, "", "whether words are masked as a whole")


@dataclass(frozen=True, kw_only=True)
class ImageData(Config):
    """Images, and what is made of them."""

    corpus: str = setting("fashion-mnist", "", "a corpus by name, an IDX file, a folder or array")
    valid: str | None = setting(None, "", "what to validate on; the last part if open")
    split: float = setting(0.1, "", "share to validate on where that is one set", least=0, below=1)
    side: int | None = setting(None, "H", "pixels to shrink to; as they are if open")
    levels: int = setting(16, "", "colours that pixels are rounded to, for igpt", least=2)
    shift: int = setting(0, "", "pixels that images to train on move either way", least=0)
    mirror: bool = setting(False, "", "whether images to train on are flipped by chance")
    mask_ratio: float = setting(0.5, "", "share of patches or pixels to restore", least=0, below=1)


@dataclass(frozen=True, kw_only=True)
class SeriesData(Config):
    """Time series."""

    corpus: str = setting(
        "japanese-vowels", "", "a corpus by name, a .ts or .csv file, or a folder of such files"
    )
    valid: str | None = setting(None, "", "what to validate on; the last part if open")
    split: float = setting(0.1, "", "share to validate on where that is one set", least=0, below=1)
    window: int | None = setting(None, "n", "time steps to cut series into; as they are if open")
    stride: int | None = setting(None, "", "time steps between windows; those of one if open")
    label: str | None = setting(None, "", "column of a .csv file that holds the classes")
    mask_ratio: float = setting(0.15, "r", "share of values to restore", least=0, below=1)
    mask_length: float = setting(3.0, "l_m", "mean length of a masked segment")


@dataclass(frozen=True, kw_only=True)
class Training(Config):
    """How to train."""

    steps: int = setting(1000, "", "updates of the parameters")
    batch: int = setting(32, "", "examples of a step, over all processes")
    accumulate: int = setting(1, "", "parts that a step's examples are gone through in")
    optimiser: str = setting("adamw", "", "how (22) is done", choices=("adamw", "adam", "sgd"))
    learning_rate: float = setting(1e-3, "μ_lr", "learning rate", least=0)
    final_rate: float = setting(0.1, "", "share of the rate at the end of cosine", least=0)
    schedule: str = setting(
        "cosine", "", "how the rate falls", choices=("cosine", "constant", "step")
    )
    step_every: int = setting(1000, "", "updates between falls, for step")
    step_factor: float = setting(0.1, "", "what the rate falls to, for step", least=0)
    warmup: int = setting(100, "", "updates over which the rate rises", least=0)
    beta1: float = setting(0.9, "", "decay of the mean gradient", least=0, below=1)
    beta2: float = setting(0.99, "", "decay of the mean square", least=0, below=1)
    momentum: float = setting(0.0, "", "of sgd", least=0, below=1)
    weight_decay: float = setting(0.1, "", "decay of matrices", least=0)
    clip: float = setting(1.0, "", "longest gradient; 0 for any", least=0)
    evaluate_every: int = setting(250, "", "steps between validations")
    validate_on: int = setting(2048, "", "examples to validate on at most while training")
    patience: int = setting(0, "", "validations without gain to stop after; 0 for none", least=0)
    save_every: int = setting(250, "", "steps between checkpoints")
    keep: int = setting(2, "", "checkpoints to keep")
    sample_every: int = setting(0, "", "steps between samples of text; 0 for none", least=0)
    prompt: str = setting("", "", "what samples of text begin with")
    log_every: int = setting(10, "", "steps between lines of metrics")
    precision: str = setting(
        "float32",
        "",
        "of products; fastest is bfloat16 where hardware does it, else float32",
        choices=("float32", "bfloat16", "fastest"),
    )
    compile: bool = setting(False, "", "whether PyTorch compiles the network")
    tensorboard: bool = setting(False, "", "whether metrics go to TensorBoard too")
    parallel: str = setting("ddp", "", "how processes share the work", choices=("ddp", "fsdp"))


@dataclass(frozen=True)
class Recipe:
    """All that a run is told."""

    family: str | None
    """A family or a named size."""
    init: str | None
    """A model to go on from, in place of random weights."""
    objective: str
    data: Config
    training: Training
    model: Mapping[str, Any]
    """Settings of the family; what is open follows from the data."""
    seed: int = 0
    title: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "model": dict(self.model)}


KEYS = ("title", "family", "init", "objective", "seed", "model", "data", "training")


def read_recipe(file: str | Path, changes: Mapping[str, str] | None = None) -> Recipe:
    """A recipe from a TOML file, or of the package by name, with some of its settings changed."""
    file = recipe_file(file)
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad TOML, too deep, too long
        raise BrokenFile(f"{file} is not TOML: {error}") from error
    return recipe(said, changes)


def recipe(said: Mapping[str, Any], changes: Mapping[str, str] | None = None) -> Recipe:
    """A recipe from what its file says; None is as if nothing were said."""
    from vesalius.training.objectives import objective_named

    said = {key: dict(v) if isinstance(v, Mapping) else v for key, v in said.items()}
    for change, text in (changes or {}).items():
        _change(said, change, text)
    for key in said:
        if key not in KEYS:
            raise UnknownSetting(f"a recipe has no {key!r}; {nearest(key, KEYS)}")
    tables = {key: _table(key, said.get(key)) for key in ("model", "data", "training")}
    for key in ("title", "family", "init", "objective"):
        if not isinstance(said.get(key), str | None):
            raise ImpossibleSetting(f"{key} must be text, got {said[key]!r}")
    seed = 0 if said.get("seed") is None else said["seed"]
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ImpossibleSetting(f"seed must be a whole number from 0 to 2^63 - 1, got {seed!r}")
    objective = objective_named(said.get("objective"))
    read = Recipe(
        family=said.get("family"),
        init=said.get("init"),
        objective=objective.name,
        data=_section("data", objective.data, tables["data"]),
        training=_section("training", Training, tables["training"]),
        model={name: value for name, value in tables["model"].items() if value is not None},
        seed=seed,
        title=said.get("title") or "",
    )
    _require_family(read, objective.families, tables["model"])
    _require_possible(read)
    return read


def _table(key: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict | None):
        raise ImpossibleSetting(f"[{key}] must be a table of settings, got {table!r}")
    return table or {}


def _section(name: str, kind: type[Config], said: Mapping[str, Any]) -> Any:
    _require_known(name, kind, said)
    try:
        return kind(**{key: value for key, value in said.items() if value is not None})
    except ImpossibleSetting as error:
        raise ImpossibleSetting(f"[{name}] {error}") from error


def _require_known(name: str, kind: type[Config], said: Mapping[str, Any]) -> None:
    for key in said:
        if key not in kind.settings():
            raise UnknownSetting(f"[{name}] has no {key!r}; {nearest(key, kind.settings())}")


def _require_family(read: Recipe, families: tuple[str, ...], said: Mapping[str, Any]) -> None:
    """What can be told of the model before its data: its family, and each setting on its own."""
    if read.family is None:
        if read.init is None:
            raise ImpossibleSetting("a recipe says its family, or a model to start from as init")
        return
    default = configuration(read.family)
    family = family_of(default).name
    if family not in families:
        raise WrongKind(f"{read.objective} is for {', '.join(families)}, not {family}")
    _require_known("model", type(default), said)
    for key, value in read.model.items():
        try:
            default._check(key, value, default.settings()[key])
        except ImpossibleSetting as error:
            raise ImpossibleSetting(f"[model] {error}") from error


def _require_possible(read: Recipe) -> None:
    """What would otherwise come out after steps of work, or not at all."""
    how = read.training
    if how.sample_every and read.objective != "next-token":
        raise WrongKind(f"[training] sample_every is for next-token, not for {read.objective}")
    if how.precision == "bfloat16" and not quick_bfloat16():
        raise ImpossibleSetting(
            "[training] precision is bfloat16, but this processor has no instructions for it, "
            "and each product would take up to hundreds of times as long; set it to float32"
        )


def _change(said: dict[str, Any], change: str, text: str) -> None:
    """What ``--set section.name=text`` does; the value "open" takes a setting away."""
    section, _, name = arguments.text("each change", change).rpartition(".")
    if section and said.get(section) is None:
        said[section] = {}
    table = said[section] if section else said
    if not isinstance(table, dict):
        raise UnknownSetting(f"a recipe has no {change!r}; {nearest(change, KEYS)}")
    table[name] = None if text == "open" else _value(text)


def _value(text: str) -> Any:
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text  # a word without quotation marks
    return read["value"] if len(read) == 1 else text
