"""Recipes: all that a training run is told, read from TOML and checked.

A recipe names a family or a model to start from, an objective, its data, and how to train. An
unknown key is refused, and the nearest known one named; ``--set training.steps=100`` changes one.
"""

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vesalius import arguments
from vesalius.checkpoints.plain import replacing, require_end
from vesalius.errors import (
    BrokenFile,
    ImpossibleSetting,
    UnknownSetting,
    WrongKind,
    listed,
    nearest,
)
from vesalius.families import configuration, family_of
from vesalius.families.config import Config
from vesalius.machine import quick_bfloat16
from vesalius.tasks import all_tasks, task_named
from vesalius.tasks.objective import Objective
from vesalius.training.recipes import recipe_file
from vesalius.training.settings import Recipe, Training
from vesalius.training.strategies import SETTINGS, STRATEGIES, Strategy, strategy_named

UNSET = ("none", "open")
"""What takes a setting away; recipes of the first versions said "open"."""
INCONSEQUENTIAL = (
    *("save_every", "keep", "log_every", "sample_every", "prompt"),
    *("snapshots", "tensorboard", "parallel"),
)
"""Settings that may change when a run goes on: its numbers do not depend on them."""
WHOLE = {
    "title": "what people call it",
    "family": "a family or a named size, in place of init",
    "init": "a model to start from, in place of random weights",
    "strategy": f"how that model is trained: {listed(STRATEGIES, 'or')}",
    "objective": "what the model is trained towards",
    "seed": "what random numbers follow from, from 0 on",
    "model": "settings of the family; the rest follows from the data",
}
"""The keys of a recipe outside its sections."""
KEYS = (*WHOLE, "data", "training")


def keys() -> list[dict[str, Any]]:
    """Every key of a recipe with its meaning, default and limits, as JSON."""
    rows: list[dict[str, Any]] = [
        {"section": "", "key": key, "meaning": meaning, "default": 0 if key == "seed" else None}
        | {"least": None, "below": None, "choices": None}
        for key, meaning in WHOLE.items()
    ]
    kinds = (task.learns.data for task in all_tasks())
    sections: dict[str, type[Config]] = {f"data, {one.title or one.kind}": one for one in kinds}
    for section, kind in {**sections, "training": Training}.items():
        for field in dataclasses.fields(kind):
            rule, number = field.metadata, type(field.default) in (int, float)
            limits = {name: rule[name] if number else None for name in ("least", "below")}
            limits["below"] = None if limits["below"] == math.inf else limits["below"]
            about = {"section": section, "key": field.name, "meaning": rule["meaning"]}
            rows.append({**about, "default": field.default, **limits, "choices": rule["choices"]})
    return rows


def read_recipe(file: str | Path, changes: Mapping[str, str] | None = None) -> Recipe:
    """A recipe from a TOML file, or of the package by name, with some of its settings changed."""
    file = recipe_file(file)
    require_end(file)
    try:
        written = tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad TOML, too deep, too long
        raise BrokenFile(f"{file} is not TOML: {error}") from error
    return recipe(written, changes)


def recipe(written: Mapping[str, Any], changes: Mapping[str, str] | None = None) -> Recipe:
    """A recipe from what its file says; None is as if nothing were written."""
    written = changed(written, changes)
    for key in written:
        if key not in KEYS:
            raise UnknownSetting(f"a recipe has no {key!r}; {nearest(key, KEYS)}")
    tables = {key: _table(key, written.get(key)) for key in ("model", "data", "training")}
    for key in ("title", "family", "init", "strategy", "objective"):
        if not isinstance(written.get(key), str | None):
            raise ImpossibleSetting(f"{key} must be text, got {written[key]!r}")
    seed = 0 if written.get("seed") is None else written["seed"]
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ImpossibleSetting(f"seed must be a whole number from 0 to 2^63 - 1, got {seed!r}")
    objective = task_named(written.get("objective")).learns
    strategy = strategy_named(written.get("strategy"))
    read = Recipe(
        family=written.get("family"),
        init=written.get("init"),
        objective=objective.name,
        data=_section("data", objective.data, tables["data"]),
        training=strategy.trains(_section("training", Training, tables["training"])),
        model={name: value for name, value in tables["model"].items() if value is not None},
        seed=seed,
        title=written.get("title") or "",
        strategy=written.get("strategy"),
    )
    _require_family(read, objective.families, tables["model"])
    _require_possible(read.training, objective)
    _require_strategy(read, objective, strategy)
    return read


def changed(written: Mapping[str, Any], changes: Mapping[str, str] | None) -> dict[str, Any]:
    """What a file says after what ``--set`` changes."""
    said = {key: dict(v) if isinstance(v, Mapping) else v for key, v in written.items()}
    for change, text in (changes or {}).items():
        _change(said, change, text)
    return said


def write_recipe(written: Mapping[str, Any], file: Path) -> None:
    """A recipe as a TOML file: keys, then tables; what is None is left out."""
    lines = []
    for heading, table in [("", written), *((k, v) for k, v in written.items() if _is_table(v))]:
        lines += ["", f"[{heading}]"] if heading else []
        # What JSON writes of texts, numbers and truth is TOML too.
        plain = {key: value for key, value in table.items() if not _is_table(value)}
        lines += [f"{key} = {json.dumps(v)}" for key, v in plain.items() if v is not None]
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as place:
        place.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _table(key: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict | None):
        raise ImpossibleSetting(f"[{key}] must be a table of settings, got {table!r}")
    return table or {}


def _section(name: str, kind: type[Config], written: Mapping[str, Any]) -> Any:
    _require_known(name, kind, written)
    try:
        return kind(**{key: value for key, value in written.items() if value is not None})
    except ImpossibleSetting as error:
        raise ImpossibleSetting(f"[{name}] {error}") from error


def _require_known(name: str, kind: type[Config], written: Mapping[str, Any]) -> None:
    for key in written:
        if key not in kind.settings():
            raise UnknownSetting(f"[{name}] has no {key!r}; {nearest(key, kind.settings())}")


def _require_family(read: Recipe, families: tuple[str, ...], written: Mapping[str, Any]) -> None:
    """What can be told of the model before its data: its family, and each setting on its own."""
    if read.family is None:
        if read.init is None:
            raise ImpossibleSetting("a recipe says its family, or a model to start from as init")
        return
    default = configuration(read.family)
    family = family_of(default).name
    if family not in families:
        raise WrongKind(f"{read.objective} is for {', '.join(families)}, not {family}")
    _require_known("model", type(default), written)
    for key, value in read.model.items():
        try:
            default._check(key, value, default.settings()[key])
        except ImpossibleSetting as error:
            raise ImpossibleSetting(f"[model] {error}") from error


def _require_possible(settings: Training, objective: Objective) -> None:
    """Refuse now what would fail after steps of work, or never end."""
    if settings.sample_every and not objective.writes_text:
        raise WrongKind(f"[training] sample_every is for next-token, not for {objective.name}")
    if settings.precision == "bfloat16" and not quick_bfloat16():
        raise ImpossibleSetting(
            "[training] precision is bfloat16, but this processor has no instructions for it, "
            "and each product would take up to hundreds of times as long; set it to float32"
        )


def _require_strategy(read: Recipe, objective: Objective, strategy: type[Strategy]) -> None:
    """Refuse a strategy without a model to start from, and settings that it would not read."""
    if read.strategy is not None and read.init is None:
        raise ImpossibleSetting(
            f"strategy {read.strategy} trains a model that is there; say which as init, "
            f"or leave strategy out"
        )
    for name, served in SETTINGS.items():
        value = getattr(read.training, name)
        if strategy.name not in served and value != getattr(Training(), name):
            raise ImpossibleSetting(
                f"[training] {name} is for strategy {' or '.join(served)}, not for {strategy.name}"
            )
    strategy.require(read.training, objective)


def _change(written: dict[str, Any], change: str, text: str) -> None:
    """What ``--set section.name=text`` does; the value "none" takes a setting away."""
    section, _, name = arguments.text("each change", change).rpartition(".")
    if section and written.get(section) is None:
        written[section] = {}
    table = written[section] if section else written
    if not isinstance(table, dict):
        raise UnknownSetting(f"a recipe has no {change!r}; {nearest(change, KEYS)}")
    table[name] = None if text.lower() in UNSET else _value(text)


def _value(text: str) -> Any:
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text  # a word without quotation marks
    return read["value"] if len(read) == 1 else text


def differences(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> str:
    """What differs between two recipes, setting by setting, if it changes a run's numbers."""
    found = []
    for key in sorted({*before, *now} - {"title", *INCONSEQUENTIAL}):
        was, is_ = before.get(key), now.get(key)
        if isinstance(was, Mapping) and isinstance(is_, Mapping):
            found.append(differences(was, is_, f"{path}{key}."))
        elif was != is_:
            found.append(f"{path}{key} was {was!r}, is {is_!r}")
    return "; ".join(text for text in found if text)
