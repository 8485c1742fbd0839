"""Hugging Face's checkpoints of GPT-2, BERT and ViT, in both directions.

GPT-2's matrices are stored transposed there, with queries, keys and values fused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vesalius.checkpoints import tables
from vesalius.checkpoints.layout import Shape
from vesalius.checkpoints.tables import ENTRY, ROW, TRANSPOSED, Row, both, kernel, third
from vesalius.equations.parameters import Array
from vesalius.errors import CheckpointMismatch, UnknownConfiguration
from vesalius.families import configs
from vesalius.families.activations import ACTIVATIONS, BY_THEIR_NAME, TRAINED
from vesalius.families.configs import Config


def _gpt2(config: configs.GPT2) -> list[Row]:
    def transposed(ours: str, theirs: str) -> list[Row]:
        weight = Row(f"blocks.{{l}}.{ours}.weight", f"h.{{l}}.{theirs}.weight", TRANSPOSED)
        return [weight, Row(f"blocks.{{l}}.{ours}.bias", f"h.{{l}}.{theirs}.bias")]

    fused = [
        Row(f"blocks.{{l}}.attention.{name}.{kind}", f"h.{{l}}.attn.c_attn.{kind}", third(k, kind))
        for k, name in enumerate(("query", "key", "value"))
        for kind in ("weight", "bias")
    ]
    return [
        Row("embedding.weight", "wte.weight"),
        Row("positions.weight", "wpe.weight"),
        *fused,
        *transposed("attention.output", "attn.c_proj"),
        *both("blocks.{l}.attention_norm", "h.{l}.ln_1"),
        *transposed("feedforward.inner", "mlp.c_fc"),
        *transposed("feedforward.outer", "mlp.c_proj"),
        *both("blocks.{l}.feedforward_norm", "h.{l}.ln_2"),
        *both("norm", "ln_f"),
        Row("output.weight", "lm_head.weight"),
    ]


def _encoder_blocks(attention: str) -> list[Row]:
    layer = "encoder.layer.{l}"
    return [
        *both("blocks.{l}.attention.query", f"{layer}.attention.{attention}.query"),
        *both("blocks.{l}.attention.key", f"{layer}.attention.{attention}.key"),
        *both("blocks.{l}.attention.value", f"{layer}.attention.{attention}.value"),
        *both("blocks.{l}.attention.output", f"{layer}.attention.output.dense"),
        *both("blocks.{l}.feedforward.inner", f"{layer}.intermediate.dense"),
        *both("blocks.{l}.feedforward.outer", f"{layer}.output.dense"),
    ]


def _bert(config: configs.Bert) -> list[Row]:
    head = "qa_outputs" if config.labelled == "span" else "classifier"
    return [
        Row("embedding.weight", "embeddings.word_embeddings.weight"),
        Row("positions.weight", "embeddings.position_embeddings.weight"),
        Row("segments.weight", "embeddings.token_type_embeddings.weight"),
        *both("norm", "embeddings.LayerNorm"),
        *_encoder_blocks("self"),
        *both("blocks.{l}.attention_norm", "encoder.layer.{l}.attention.output.LayerNorm"),
        *both("blocks.{l}.feedforward_norm", "encoder.layer.{l}.output.LayerNorm"),
        *both("pooler", "pooler.dense"),
        *both("mlm_head.dense", "cls.predictions.transform.dense"),
        *both("mlm_head.norm", "cls.predictions.transform.LayerNorm"),
        Row("mlm_head.bias", "cls.predictions.bias"),
        *both("nsp_head", "cls.seq_relationship"),
        *both("label_head", head),
    ]


def _vit(config: configs.ViT) -> list[Row]:
    projection = "embeddings.patch_embeddings.projection"
    return [
        Row("projection.weight", f"{projection}.weight", kernel(config.patch)),
        Row("projection.bias", f"{projection}.bias"),
        Row("class_token", "embeddings.cls_token", ENTRY),
        Row("positions.weight", "embeddings.position_embeddings", ROW),
        *_encoder_blocks("attention"),
        *both("blocks.{l}.attention_norm", "encoder.layer.{l}.layernorm_before"),
        *both("blocks.{l}.feedforward_norm", "encoder.layer.{l}.layernorm_after"),
        *both("norm", "layernorm"),
        *both("pooler", "pooler.dense"),
        *both("class_head", "classifier"),
    ]


# ------------------------------------------------------------------ configurations, both directions

ENCODER = {
    "layers": "num_hidden_layers",
    "embedding": "hidden_size",
    "heads": "num_attention_heads",
    "feedforward": "intermediate_size",
    "epsilon": "layer_norm_eps",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
}


@dataclass(frozen=True)
class Dialect:
    """How Hugging Face writes one family."""

    config: type[Config]
    settings: dict[str, str]
    """Our setting: their key in config.json."""
    fixed: dict[str, Any]
    """Keys that must have this value, or be absent: what else they could mean is not built."""
    dropouts: tuple[str, ...]
    """Keys of further dropouts, which we have one for."""
    prefix: str
    rows: Callable[[Any], list[Row]]
    tied: dict[str, str]
    """Their names that repeat another tensor of theirs."""
    ignored: str
    """Their names that hold no parameters, as a pattern."""
    advice: dict[str, str] = field(default_factory=dict)
    """What to say where one of their tensors is missing."""


DIALECTS: dict[str, Dialect] = {
    "gpt2": Dialect(
        configs.GPT2,
        {
            "vocabulary": "vocab_size",
            "context": "n_positions",
            "layers": "n_layer",
            "embedding": "n_embd",
            "heads": "n_head",
            "feedforward": "n_inner",
            "epsilon": "layer_norm_epsilon",
            "activation": "activation_function",
            "dropout": "resid_pdrop",
            "tied": "tie_word_embeddings",
        },
        {
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "add_cross_attention": False,
        },
        ("embd_pdrop", "attn_pdrop"),
        "transformer.",
        _gpt2,
        {"lm_head.weight": "wte.weight"},
        r"h\.\d+\.attn\.(bias|masked_bias)",
        {
            "lm_head.weight": " (the output matrix: a GPT2Model has none, and in config.json "
            "tie_word_embeddings = false says that it is not the embedding; "
            "save the model as GPT2LMHeadModel, or say true there if it is)"
        },
    ),
    "bert": Dialect(
        configs.Bert,
        {
            **ENCODER,
            "vocabulary": "vocab_size",
            "context": "max_position_embeddings",
            "segments": "type_vocab_size",
        },
        {
            "is_decoder": False,
            "add_cross_attention": False,
            "position_embedding_type": "absolute",
            "tie_word_embeddings": True,
        },
        ("attention_probs_dropout_prob",),
        "bert.",
        _bert,
        {
            "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        r"embeddings\.position_ids",
    ),
    "vit": Dialect(
        configs.ViT,
        {**ENCODER, "image": "image_size", "patch": "patch_size", "channels": "num_channels"},
        {"qkv_bias": True, "pooler_act": "tanh"},
        ("attention_probs_dropout_prob",),
        "vit.",
        _vit,
        {},
        r"(?!)",
    ),
}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "GPT2Model": {},
    "GPT2LMHeadModel": {},
    "BertModel": {"pooler": True},
    "BertForPreTraining": {"pooler": True, "mlm_head": True, "nsp_head": True},
    "BertForMaskedLM": {"mlm_head": True},
    "BertForNextSentencePrediction": {"pooler": True, "nsp_head": True},
    "BertForSequenceClassification": {"pooler": True, "labelled": "sequence"},
    "BertForTokenClassification": {"labelled": "tokens"},
    "BertForQuestionAnswering": {"labelled": "span"},
    "ViTModel": {},
    "ViTForImageClassification": {"labelled": "image"},
}
"""What each of their classes has besides the backbone."""


def read_config(theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Config:
    """Our configuration from their config.json and the shapes of what the file holds."""
    kind = theirs.get("model_type")
    if not isinstance(kind, str) or kind not in DIALECTS:
        known = ", ".join(DIALECTS)
        raise UnknownConfiguration(f"config.json says model_type {kind!r}; known are {known}")
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


def _activation(key: str, name: Any) -> str:
    """Our name of an activation of theirs."""
    if isinstance(name, str) and name in BY_THEIR_NAME:
        return BY_THEIR_NAME[name]
    known = ", ".join(BY_THEIR_NAME)
    why = ", which has parameters of its own" if name in TRAINED else ""
    raise UnknownConfiguration(f"config.json says {key} = {name!r}{why}; known are {known}")


def _heads(kind: str, theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """Which heads there are: those that the class promises and those that the file holds."""
    if kind == "gpt2":
        return {}
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
        return {"pooler": pooler, "classes": labels}
    guess = "span" if "qa_outputs" in held else "sequence" if pooler else "tokens"
    return {
        "pooler": pooler,
        "mlm_head": promised.get("mlm_head", False) or "cls.predictions.transform.dense" in held,
        "nsp_head": promised.get("nsp_head", False) or "cls.seq_relationship" in held,
        "labels": labels,
        "labelled": promised.get("labelled", guess),
    }


def write_config(config: Config, origin: Mapping[str, Any]) -> dict[str, Any]:
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
    if kind == "gpt2":
        kept = {"bos_token_id": None, "eos_token_id": None} | kept
    if labels and len(kept.get("id2label") or ()) != labels:
        theirs["id2label"] = {str(i): f"LABEL_{i}" for i in range(labels)}
        theirs["label2id"] = {f"LABEL_{i}": i for i in range(labels)}
    return {**kept, "model_type": kind, "architectures": [architecture], **dialect.fixed, **theirs}


def _dialect(config: Config) -> tuple[str, Dialect]:
    for kind, dialect in DIALECTS.items():
        if dialect.config is type(config):
            return kind, dialect
    raise UnknownConfiguration(
        f"Hugging Face has no layout for {type(config).__name__}; it has {', '.join(DIALECTS)}"
    )


def _require_sayable(config: Any) -> None:
    """Refuse what their configurations have no words for."""
    s, ours = config.symbols(), config.to_json()
    equal_widths = s["M"] * s["d_k"] == s["Md_v"] == s["d_e"]
    said = {
        "key and value other than embedding / heads": equal_widths,
        "attention without biases": config.attention_bias,
        "gpt2 of variant 1": not isinstance(config, configs.GPT2) or config.variant == 2,
        "sinusoidal positions": ours.get("positions", "learned") == "learned",
        "gpt2 without its causal mask": ours.get("causal", True),
        "a masked-patch head": not ours.get("masked_patch_head", False),
        "vit with both classes and pooler": not (ours.get("classes") and ours["pooler"]),
    }
    if unsaid := [what for what, sayable in said.items() if not sayable]:
        raise UnknownConfiguration(f"Hugging Face's layout cannot say: {', '.join(unsaid)}")


def _architecture(config: Any) -> str:
    if isinstance(config, configs.GPT2):
        return "GPT2LMHeadModel"
    if isinstance(config, configs.ViT):
        return "ViTForImageClassification" if config.classes else "ViTModel"
    heads = {name for name in ("pooler", "mlm_head", "nsp_head") if getattr(config, name)}
    for name, has in ARCHITECTURES.items():
        theirs = {head for head in ("pooler", "mlm_head", "nsp_head") if has.get(head)}
        labelled = config.labelled if config.labels else None
        if name.startswith("Bert") and theirs == heads and has.get("labelled") == labelled:
            return name
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


def read_state(config: Config, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Our state as views of their tensors."""
    _, dialect = _dialect(config)
    theirs = _plain(dialect, tensors)
    return tables.read_state(config, dialect.rows(config), theirs, dialect.tied, dialect.advice)


def write_state(config: Config, state: Mapping[str, Array]) -> dict[str, Array]:
    """Their tensors from our state, with the prefix of the class that is written."""
    _, dialect = _dialect(config)
    bare = _architecture(config) in ("GPT2Model", "BertModel", "ViTModel")
    heads = ("lm_head.", "cls.", "classifier.", "qa_outputs.")
    return {
        name if bare or name.startswith(heads) else dialect.prefix + name: array
        for name, array in tables.write_state(config, dialect.rows(config), state).items()
    }
