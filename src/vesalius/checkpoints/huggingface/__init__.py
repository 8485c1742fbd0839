"""Hugging Face's checkpoints, config.json and tensors, in both directions.

How each family is written there is its dialect, which its row of the table of families names.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vesalius.checkpoints import tables
from vesalius.checkpoints.huggingface.dialect import Dialect, require_fixed
from vesalius.checkpoints.layout import Shape
from vesalius.equations.parameters import Array
from vesalius.errors import CheckpointMismatch, UnknownConfiguration
from vesalius.families import FAMILIES, family_of
from vesalius.families.activations import ACTIVATIONS, BY_THEIR_NAME, TRAINED
from vesalius.families.config import Config
from vesalius.families.family import OwnConfig

OWN_WEIGHTS = "for weights of other code, make a model and fill it, as docs/own-weights.md shows"
"""What to do where nothing says what the tensors are."""


def dialects() -> dict[str, Dialect]:
    """All that can be read, by their model_type."""
    found = (lazy.get() for family in FAMILIES.values() for lazy in family.huggingface)
    return {dialect.model_type: dialect for dialect in found}


def read_config(theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Config:
    """Our configuration from their config.json and the shapes of what the file holds."""
    dialect = _spoken(theirs, shapes)
    require_fixed(theirs, dialect.fixed)
    found = {ours: theirs[key] for ours, key in dialect.settings.items() if key in theirs}
    if "activation" in found:
        found["activation"] = _activation(dialect.settings["activation"], found["activation"])
    heads = dialect.heads(theirs, _plain(dialect, shapes))
    try:
        return dialect.config().change(**{**dialect.defaults, **found}, **heads)
    except ValueError as error:
        named = dialect.settings.get(str(error).split()[0])
        where = f" ({named} in config.json)" if named else ""
        raise UnknownConfiguration(f"config.json cannot be used: {error}{where}") from error


def _spoken(theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Dialect:
    """By the model_type of config.json, or the class that it names, or what the file holds."""
    require_known(theirs)
    kind, known = theirs.get("model_type"), dialects()
    if kind is not None:
        return known[kind]
    classes = theirs.get("architectures")
    for name in classes if isinstance(classes, list) else ():
        for dialect in known.values():
            if str(name) in dialect.classes:
                return dialect
        raise UnknownConfiguration(
            f"config.json says architectures {classes!r} and no model_type; "
            f"known are {', '.join(known)}"
        )
    for dialect in known.values():
        if all(mark in _plain(dialect, shapes) for mark in dialect.marks):
            return dialect
    looked_at = (
        "the tensors are of no known one" if shapes else "there are no tensors to tell it by"
    )
    raise UnknownConfiguration(
        f'config.json says no model_type, and {looked_at}; add "model_type" to it if it is one of '
        f"{', '.join(known)}; {OWN_WEIGHTS}"
    )


def require_known(theirs: Mapping[str, Any]) -> None:
    """Refuse a model_type that is not read, before anything else of the model is looked at."""
    kind = theirs.get("model_type")
    if kind is not None and (not isinstance(kind, str) or kind not in dialects()):
        raise UnknownConfiguration(
            f"config.json says model_type {kind!r}; known are {', '.join(dialects())}"
        )


def _activation(key: str, name: object) -> str:
    """Our name of an activation of theirs."""
    if isinstance(name, str) and name in BY_THEIR_NAME:
        return BY_THEIR_NAME[name]
    known = ", ".join(BY_THEIR_NAME)
    why = ", which has parameters of its own" if name in TRAINED else ""
    raise UnknownConfiguration(f"config.json says {key} = {name!r}{why}; known are {known}")


def write_config(
    config: Config, origin: Mapping[str, Any], names: Sequence[str] = (), problem: str | None = None
) -> dict[str, Any]:
    """Their config.json for a configuration of ours, or an error that says why there is none.

    What else stood in the config.json that the model came with, such as special tokens, is kept.
    ``problem`` is what they call the kind of its labels, if that is known.
    """
    dialect = dialect_of(config)
    _require_sayable(dialect, config)
    ours = {**config.to_json(), "feedforward": config.symbols()["d_f"]}
    theirs = {key: ours[name] for name, key in dialect.settings.items()}
    key = dialect.settings["activation"]
    said = origin.get(key)  # of several names for the same function, the one that was there
    same = isinstance(said, str) and BY_THEIR_NAME.get(said) == theirs[key]
    theirs[key] = said if same else ACTIVATIONS[theirs[key]].theirs[0]
    theirs |= dialect.written(config)
    kept = dict(origin) if origin.get("model_type") == dialect.model_type else {}
    kept.pop("torch_dtype", None)  # the old name of dtype
    kept = {**dict.fromkeys(dialect.dropouts, ours["dropout"]), **dialect.kept, **kept}
    labels = ours.get("labels") or ours.get("classes") or 0
    if labels and len(kept.get("id2label") or ()) != labels:
        numbered = [f"LABEL_{i}" for i in range(labels)]
        said = list(map(str, names)) if len(names) == labels else numbered
        theirs["id2label"] = {str(i): name for i, name in enumerate(said)}
        theirs["label2id"] = {name: i for i, name in enumerate(said)}
    if labels and problem is not None:
        theirs["problem_type"] = problem
    about = {"model_type": dialect.model_type, "architectures": [dialect.class_of(config)]}
    return {**kept, **about, **dialect.fixed, **theirs}


def dialect_of(config: Config) -> Dialect:
    """The dialect that a configuration is written in."""
    for lazy in family_of(config).huggingface:
        dialect: Dialect = lazy.get()
        if dialect.fits(config):
            return dialect
    raise UnknownConfiguration(
        f"Hugging Face has no layout for {family_of(config).name}; it has {', '.join(dialects())}"
    )


def _require_sayable(dialect: Dialect, config: OwnConfig) -> None:
    """Refuse what their configurations have no words for."""
    s = config.symbols()
    said = {
        "key and value other than embedding / heads": s["M"] * s["d_k"] == s["Md_v"] == s["d_e"],
        "attention without biases": config.attention_bias,
        f"the activation {config.activation}": bool(ACTIVATIONS[config.activation].theirs),
        **dialect.sayable(config),
    }
    if unsaid := [what for what, sayable in said.items() if not sayable]:
        raise UnknownConfiguration(
            f"Hugging Face's layout cannot say: {', '.join(unsaid)}; keep the model in the layout "
            f"of Vesalius, or train one with settings that both have"
        )


def plain_names(dialect: Dialect, names: Iterable[str]) -> dict[str, str]:
    """Their names without prefix and old spellings; buffers have none."""
    parameters = {}
    for name, inner in tables.unwrapped(names).items():
        plain = inner.removeprefix(dialect.prefix)
        plain = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", plain))
        if not re.fullmatch(dialect.ignored, plain):
            parameters[name] = plain
    return parameters


def _plain(dialect: Dialect, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Their tensors by these names."""
    found: dict[str, Any] = {}
    for name, plain in plain_names(dialect, tensors).items():
        if plain in found:
            raise CheckpointMismatch(f"the checkpoint holds {plain} twice, once as {name}")
        found[plain] = tensors[name]
    return found


def read_state(
    config: Config, tensors: Mapping[str, Array], ignore_extra: bool = False
) -> dict[str, Array]:
    """Our state as views of their tensors."""
    dialect = dialect_of(config)
    theirs, rows = _plain(dialect, tensors), dialect.rows(config)
    return tables.read_state(config, rows, theirs, dialect.tied, dialect.advice, ignore_extra)


def write_state(config: Config, state: Mapping[str, Array]) -> dict[str, Array]:
    """Their tensors from our state, with the prefix of the class that is written."""
    dialect = dialect_of(config)
    placed = {row.ours for row in tables.spread(dialect.rows(config), config)}
    if left := sorted(set(state) - placed):
        raise UnknownConfiguration(f"Hugging Face's layout has no place for {', '.join(left)}")
    bare = dialect.class_of(config) == dialect.bare
    heads = ("lm_head.", "cls.", "classifier.", "qa_outputs.", "decoder.", "score.", "head.")
    return {
        name if bare or name.startswith(heads) else dialect.prefix + name: array
        for name, array in tables.write_state(config, dialect.rows(config), state).items()
    }
