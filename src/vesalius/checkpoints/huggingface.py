"""Hugging Face's checkpoints, config.json and tensors, in both directions.

Their names are in ``huggingface_names``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vesalius.checkpoints import tables
from vesalius.checkpoints.huggingface_names import ARCHITECTURES, DIALECTS, Dialect
from vesalius.checkpoints.layout import Shape
from vesalius.equations.parameters import Array
from vesalius.errors import CheckpointMismatch, UnknownConfiguration
from vesalius.families import configs
from vesalius.families.activations import ACTIVATIONS, BY_THEIR_NAME, TRAINED
from vesalius.families.configs import Config


def read_config(theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Config:
    """Our configuration from their config.json and the shapes of what the file holds."""
    kind = _kind(theirs, shapes)
    dialect = DIALECTS[kind]
    for key, value in dialect.fixed.items():
        if theirs.get(key, value) != value:
            raise UnknownConfiguration(
                f"config.json says {key} = {theirs[key]!r}; only {value!r} can be read"
            )
    found = {ours: theirs[key] for ours, key in dialect.settings.items() if key in theirs}
    if "activation" in found:
        found["activation"] = _activation(dialect.settings["activation"], found["activation"])
    heads = _heads(kind, theirs, _plain(dialect, shapes))
    try:
        return dialect.config().change(**found, **heads)
    except ValueError as error:
        named = dialect.settings.get(str(error).split()[0])
        where = f" ({named} in config.json)" if named else ""
        raise UnknownConfiguration(f"config.json cannot be used: {error}{where}") from error


def _kind(theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> str:
    """The model_type of config.json, or of the class that it names, or of what the file holds."""
    kind, known = theirs.get("model_type"), ", ".join(DIALECTS)
    if kind is not None:
        if not isinstance(kind, str) or kind not in DIALECTS:
            raise UnknownConfiguration(f"config.json says model_type {kind!r}; known are {known}")
        return kind
    classes = theirs.get("architectures")
    for name in classes if isinstance(classes, list) else ():
        for kind, dialect in DIALECTS.items():
            if str(name) in ARCHITECTURES and str(name).startswith(dialect.config.__name__):
                return kind
        raise UnknownConfiguration(
            f"config.json says architectures {classes!r} and no model_type; known are {known}"
        )
    for kind, dialect in DIALECTS.items():
        if all(mark in _plain(dialect, shapes) for mark in dialect.marks):
            return kind
    raise UnknownConfiguration(
        f"config.json says no model_type, and the tensors are of no known one; "
        f'add "model_type" to it: one of {known}'
    )


def _activation(key: str, name: Any) -> str:
    """Our name of an activation of theirs."""
    if isinstance(name, str) and name in BY_THEIR_NAME:
        return BY_THEIR_NAME[name]
    known = ", ".join(BY_THEIR_NAME)
    why = ", which has parameters of its own" if name in TRAINED else ""
    raise UnknownConfiguration(f"config.json says {key} = {name!r}{why}; known are {known}")


def _heads(kind: str, theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """Which heads there are: those that the class promises and those that the file holds."""
    if issubclass(DIALECTS[kind].config, configs.Transformer):
        return DIALECTS[kind].built_in
    classes = theirs.get("architectures") or []
    labelled = theirs.get("id2label") or {}
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise UnknownConfiguration(f"config.json says architectures {classes!r}; expected names")
    if not isinstance(labelled, dict):
        raise UnknownConfiguration(f"config.json says id2label {labelled!r}; expected an object")
    promised: dict[str, Any] = {}
    for name in classes:  # a BertModel may have been made without its pooler
        promised |= {} if name == "BertModel" else ARCHITECTURES.get(name, {})
    held = {name.rpartition(".")[0] for name in shapes}
    classifier = shapes.get("qa_outputs.weight") or shapes.get("classifier.weight") or (0,)
    labels = classifier[0]
    if "labelled" in promised:
        labels = labels or len(labelled) or theirs.get("num_labels", 2)
    pooler = promised.get("pooler", False) or "pooler.dense" in held
    if kind == "vit":
        restoring = promised.get("masked_patch_head", False) or "decoder.0" in held
        return {"pooler": pooler, "classes": labels, "masked_patch_head": restoring}
    guess = "span" if "qa_outputs" in held else "sequence" if pooler else "tokens"
    return {
        "pooler": pooler,
        "mlm_head": promised.get("mlm_head", False) or "cls.predictions.transform.dense" in held,
        "nsp_head": promised.get("nsp_head", False) or "cls.seq_relationship" in held,
        "labels": labels,
        "labelled": promised.get("labelled", guess),
    }


def write_config(
    config: Config, origin: Mapping[str, Any], names: Sequence[str] = ()
) -> dict[str, Any]:
    """Their config.json for a configuration of ours, or an error that says why there is none.

    What else stood in the config.json that the model came with, such as special tokens, is kept.
    """
    kind, dialect = _dialect(config)
    _require_sayable(config)
    symbols = config.symbols()
    ours = {**config.to_json(), "feedforward": symbols["d_f"]}
    theirs = {key: ours[name] for name, key in dialect.settings.items()}
    key = dialect.settings["activation"]
    said = origin.get(key)  # of several names for the same function, the one that was there
    same = isinstance(said, str) and BY_THEIR_NAME.get(said) == theirs[key]
    theirs[key] = said if same else ACTIVATIONS[theirs[key]].theirs[0]
    architecture = _architecture(config)
    labels = getattr(config, "labels", 0) or getattr(config, "classes", 0)
    kept = dict(origin) if origin.get("model_type") == kind else {}
    kept.pop("torch_dtype", None)  # the old name of dtype
    kept = {**dict.fromkeys(dialect.dropouts, ours["dropout"]), **kept}
    if isinstance(config, configs.Transformer):
        kept = {"bos_token_id": None, "eos_token_id": None} | kept
    if ours.get("masked_patch_head"):
        theirs["encoder_stride"] = ours["patch"]
    if labels and len(kept.get("id2label") or ()) != labels:
        numbered = [f"LABEL_{i}" for i in range(labels)]
        said = list(map(str, names)) if len(names) == labels else numbered
        theirs["id2label"] = {str(i): name for i, name in enumerate(said)}
        theirs["label2id"] = {name: i for i, name in enumerate(said)}
    return {**kept, "model_type": kind, "architectures": [architecture], **dialect.fixed, **theirs}


def _dialect(config: Config) -> tuple[str, Dialect]:
    if isinstance(config, configs.ImageGPT) and config.normalisation == "layer":
        return "gpt2", DIALECTS["gpt2"]  # which it is, on pixels
    for kind, dialect in DIALECTS.items():
        if dialect.config is type(config):
            return kind, dialect
    raise UnknownConfiguration(
        f"Hugging Face has no layout for {type(config).__name__}; it has {', '.join(DIALECTS)}"
    )


def _require_sayable(config: Any) -> None:
    """Refuse what their configurations have no words for."""
    s, ours = config.symbols(), config.to_json()
    heads = [
        h for h in ("classes", "pooler", "masked_patch_head") if ours.get(h) and "image" in ours
    ]
    equal_widths = s["M"] * s["d_k"] == s["Md_v"] == s["d_e"]
    said = {
        "key and value other than embedding / heads": equal_widths,
        "attention without biases": config.attention_bias,
        "igpt whose output is the embedding, or predicts the start, without layer normalisation": (
            _dialect(config)[0] != "imagegpt" or not (config.tied or config.start_predicted)
        ),
        "igpt whose output does not predict the start, with layer normalisation": (
            _dialect(config)[0] != "gpt2" or ours.get("start_predicted", True)
        ),
        "gpt2 of variant 1": not isinstance(config, configs.GPT2) or config.variant == 2,
        "sinusoidal positions": ours.get("positions", "learned") == "learned",
        "gpt2 without its causal mask": ours.get("causal", True),
        "vit with two of classes, pooler and masked-patch head": len(heads) < 2
        or "image" not in ours,
    }
    if unsaid := [what for what, sayable in said.items() if not sayable]:
        raise UnknownConfiguration(f"Hugging Face's layout cannot say: {', '.join(unsaid)}")


def _architecture(config: Any) -> str:
    if isinstance(config, configs.GPT2):
        pixels = _dialect(config)[0] == "imagegpt"
        return "ImageGPTForCausalImageModeling" if pixels else "GPT2LMHeadModel"
    if isinstance(config, configs.ViT):
        if config.masked_patch_head:
            return "ViTForMaskedImageModeling"
        return "ViTForImageClassification" if config.classes else "ViTModel"
    return _bert_class(config)


def _bert_class(config: configs.Bert) -> str:
    """The class with the most of its parts; further ones stand in the file all the same."""
    heads = {name for name in ("pooler", "mlm_head", "nsp_head") if getattr(config, name)}
    labelled = config.labelled if config.labels else None
    fitting = {
        name: theirs
        for name, has in ARCHITECTURES.items()
        if name.startswith("Bert") and has.get("labelled") == labelled
        if (theirs := {head for head in ("pooler", "mlm_head", "nsp_head") if has.get(head)})
        <= heads
    }
    if fitting:  # words count for more than the pooler, which only the next sentence is told from
        return max(fitting, key=lambda name: (len(fitting[name]), "mlm_head" in fitting[name]))
    raise UnknownConfiguration(
        f"Hugging Face has no class for a bert with {', '.join(sorted(heads)) or 'no heads'}"
        f"{' and labels' if config.labels else ''}; "
        f"it has pooler, mlm_head and nsp_head together, or mlm_head alone, among others"
    )


def _plain(dialect: Dialect, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Their tensors without prefix, old spellings and buffers."""
    found: dict[str, Any] = {}
    for name, value in tensors.items():
        plain = name.removeprefix(dialect.prefix)
        plain = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", plain))
        if re.fullmatch(dialect.ignored, plain):
            continue
        if plain in found:
            raise CheckpointMismatch(f"the checkpoint holds {plain} twice, once as {name}")
        found[plain] = value
    return found


def read_state(
    config: Config, tensors: Mapping[str, Array], ignore_extra: bool = False
) -> dict[str, Array]:
    """Our state as views of their tensors."""
    _, dialect = _dialect(config)
    theirs, rows = _plain(dialect, tensors), dialect.rows(config)
    return tables.read_state(config, rows, theirs, dialect.tied, dialect.advice, ignore_extra)


def write_state(config: Config, state: Mapping[str, Array]) -> dict[str, Array]:
    """Their tensors from our state, with the prefix of the class that is written."""
    _, dialect = _dialect(config)
    bare = _architecture(config) in ("GPT2Model", "BertModel", "ViTModel")
    heads = ("lm_head.", "cls.", "classifier.", "qa_outputs.", "decoder.")
    return {
        name if bare or name.startswith(heads) else dialect.prefix + name: array
        for name, array in tables.write_state(config, dialect.rows(config), state).items()
    }
