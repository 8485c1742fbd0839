"""GPT-2 and ImageGPT. Their matrices are stored transposed, with queries, keys and values fused."""

from collections.abc import Mapping
from typing import Any

from vesalius.checkpoints.huggingface.dialect import Dialect, labels_of, promised_by
from vesalius.checkpoints.layout import Shape
from vesalius.checkpoints.tables import TRANSPOSED, Row, both, third
from vesalius.families.family import OwnConfig
from vesalius.families.gpt2 import GPT2Config
from vesalius.families.igpt import ImageGPTConfig

DECODER = {
    "vocabulary": "vocab_size",
    "context": "n_positions",
    "layers": "n_layer",
    "embedding": "n_embd",
    "heads": "n_head",
    "feedforward": "n_inner",
    "epsilon": "layer_norm_epsilon",
    "activation": "activation_function",
    "dropout": "resid_pdrop",
}
PLAIN_ATTENTION = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
UNSAID = {"bos_token_id": None, "eos_token_id": None}
"""Transformers would otherwise put GPT-2's own tokens there."""


def rows(config: GPT2Config) -> list[Row]:
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
        Row("label_head.weight", "score.weight"),
    ]


CLASSES: dict[str, dict[str, Any]] = {
    "GPT2Model": {},
    "GPT2LMHeadModel": {},
    "GPT2ForSequenceClassification": {"labelled": "sequence"},
}


def heads(theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """The label head that the class promises, or that the file holds."""
    return {"labels": labels_of(theirs, shapes, promised_by(theirs, CLASSES), "score")}


def _sayable(config: GPT2Config) -> dict[str, bool]:
    return {
        "gpt2 of variant 1": config.variant == 2,
        "sinusoidal positions": config.positions == "learned",
        "gpt2 without its causal mask": config.causal,
        "pooling = mean": not config.labels or config.pooling == "last",
    }


def _gpt2_sayable(config: OwnConfig) -> dict[str, bool]:
    what = "igpt whose output does not predict the start, with layer normalisation"
    return {what: getattr(config, "start_predicted", True), **_sayable(config)}


def _image_sayable(config: ImageGPTConfig) -> dict[str, bool]:
    what = "igpt whose output is the embedding, or predicts the start, without layer normalisation"
    return {what: not (config.tied or config.start_predicted), **_sayable(config)}


GPT2 = Dialect(
    model_type="gpt2",
    config=GPT2Config,
    settings={**DECODER, "tied": "tie_word_embeddings"},
    fixed=PLAIN_ATTENTION,
    dropouts=("embd_pdrop", "attn_pdrop"),
    prefix="transformer.",
    marks=("wte.weight", "wpe.weight", "h.0.attn.c_attn.weight", "ln_f.bias"),
    classes=CLASSES,
    bare="GPT2Model",
    rows=rows,
    tied={"lm_head.weight": "wte.weight"},
    ignored=r"h\.\d+\.attn\.(bias|masked_bias)",
    advice={
        r"lm_head\.weight": "the output matrix: tie_word_embeddings = false in config.json "
        "says that it is a matrix of its own, true that it is the embedding; "
        "a GPT2Model has none, a GPT2LMHeadModel does",
        r"classifier\..*": "the head of GPT2ForTokenClassification, which gpt2 lacks here",
        r"qa_outputs\..*": "the head of GPT2ForQuestionAnswering, which gpt2 lacks here",
        r"multiple_choice_head\..*": "the head of GPT2DoubleHeadsModel, which gpt2 lacks here",
    },
    heads=heads,
    sayable=_gpt2_sayable,
    class_of=lambda config: (
        "GPT2" + ("ForSequenceClassification" if config.labels else "LMHeadModel")
    ),
    kept=UNSAID,
    outputs=lambda config: {"logits": "z" if config.labels else "Z"},
    last_normalised=True,
)

IMAGE_GPT = Dialect(
    model_type="imagegpt",
    config=ImageGPTConfig,
    settings=DECODER,
    fixed={**PLAIN_ATTENTION, "tie_word_embeddings": False},
    defaults={"activation": "quick_gelu"},
    dropouts=("embd_pdrop", "attn_pdrop"),
    prefix="transformer.",
    marks=("wte.weight", "wpe.weight", "h.0.attn.c_attn.weight"),
    classes={"ImageGPTModel": {}, "ImageGPTForCausalImageModeling": {}},
    bare="ImageGPTModel",
    rows=rows,
    ignored=r"h\.\d+\.attn\.(bias|masked_bias)",
    advice={
        r"lm_head\.weight": "the output matrix: an ImageGPTModel has none, an "
        "ImageGPTForCausalImageModeling does",
        r"score\.weight": "the head of ImageGPTForImageClassification, which igpt lacks here",
    },
    heads=lambda theirs, shapes: {"normalisation": "rms", "tied": False, "start_predicted": False},
    fits=lambda config: config.normalisation == "rms",
    sayable=_image_sayable,
    class_of=lambda config: "ImageGPTForCausalImageModeling",
    kept=UNSAID,
    outputs=lambda config: {"logits": "Z"},
    last_normalised=True,
)
