"""Hugging Face's names: the tables of GPT-2, ImageGPT, BERT and ViT, and what their classes have.

GPT-2's matrices are stored transposed there, with queries, keys and values fused. What is done with
the tables is in ``huggingface``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vesalius.checkpoints.tables import (
    ENTRY,
    ROW,
    TRANSPOSED,
    Row,
    both,
    kernel,
    restoring,
    restoring_bias,
    third,
)
from vesalius.families import configs
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
        Row("mask_token", "embeddings.mask_token", ENTRY),
        Row("patch_head.weight", "decoder.0.weight", restoring(config.patch)),
        Row("patch_head.bias", "decoder.0.bias", restoring_bias(config.patch)),
    ]


ENCODER = {
    "layers": "num_hidden_layers",
    "embedding": "hidden_size",
    "heads": "num_attention_heads",
    "feedforward": "intermediate_size",
    "epsilon": "layer_norm_eps",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
}


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
    marks: tuple[str, ...]
    """Their names that tell the family where config.json does not."""
    rows: Callable[[Any], list[Row]]
    tied: dict[str, str]
    """Their names that repeat another tensor of theirs."""
    ignored: str
    """Their names that hold no parameters, as a pattern."""
    advice: dict[str, str] = field(default_factory=dict)
    """What to say of a tensor of theirs that does not fit, by a pattern of its name."""
    built_in: dict[str, Any] = field(default_factory=dict)
    """Settings of ours that all models of theirs have."""


DIALECTS: dict[str, Dialect] = {
    "gpt2": Dialect(
        configs.GPT2,
        {**DECODER, "tied": "tie_word_embeddings"},
        PLAIN_ATTENTION,
        ("embd_pdrop", "attn_pdrop"),
        "transformer.",
        ("wte.weight", "wpe.weight", "h.0.attn.c_attn.weight", "ln_f.bias"),
        _gpt2,
        {"lm_head.weight": "wte.weight"},
        r"h\.\d+\.attn\.(bias|masked_bias)",
        {
            r"lm_head\.weight": "the output matrix: tie_word_embeddings = false in config.json "
            "says that it is a matrix of its own, true that it is the embedding; "
            "a GPT2Model has none, a GPT2LMHeadModel does",
            r"score\.weight": "the head of GPT2ForSequenceClassification, which gpt2 lacks here",
            r"classifier\..*": "the head of GPT2ForTokenClassification, which gpt2 lacks here",
            r"qa_outputs\..*": "the head of GPT2ForQuestionAnswering, which gpt2 lacks here",
            r"multiple_choice_head\..*": "the head of GPT2DoubleHeadsModel, which gpt2 lacks here",
        },
    ),
    "imagegpt": Dialect(
        configs.ImageGPT,
        DECODER,
        {**PLAIN_ATTENTION, "tie_word_embeddings": False},
        ("embd_pdrop", "attn_pdrop"),
        "transformer.",
        ("wte.weight", "wpe.weight", "h.0.attn.c_attn.weight"),
        _gpt2,
        {},
        r"h\.\d+\.attn\.(bias|masked_bias)",
        {
            r"lm_head\.weight": "the output matrix: an ImageGPTModel has none, an "
            "ImageGPTForCausalImageModeling does",
            r"score\.weight": "the head of ImageGPTForImageClassification, which igpt lacks here",
        },
        {"normalisation": "rms", "tied": False, "start_predicted": False},
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
        ("embeddings.word_embeddings.weight", "embeddings.token_type_embeddings.weight"),
        _bert,
        {
            "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        r"embeddings\.position_ids",
    ),
    "vit": Dialect(
        configs.ViT,
        {
            **ENCODER,
            "image": "image_size",
            "patch": "patch_size",
            "channels": "num_channels",
            "qkv_bias": "qkv_bias",
        },
        {"pooler_act": "tanh"},
        ("attention_probs_dropout_prob",),
        "vit.",
        ("embeddings.cls_token", "embeddings.patch_embeddings.projection.weight"),
        _vit,
        {},
        r"(?!)",
        {
            r"embeddings\.mask_token": "of masked image modelling, whose decoder is not here",
            r"(cls|distillation)_classifier\..*|embeddings\.distillation_token": "of DeiT, "
            "which is not read",
        },
    ),
}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "GPT2Model": {},
    "GPT2LMHeadModel": {},
    "ImageGPTModel": {},
    "ImageGPTForCausalImageModeling": {},
    "BertModel": {"pooler": True},
    "BertForPreTraining": {"pooler": True, "mlm_head": True, "nsp_head": True},
    "BertForMaskedLM": {"mlm_head": True},
    "BertForNextSentencePrediction": {"pooler": True, "nsp_head": True},
    "BertForSequenceClassification": {"pooler": True, "labelled": "sequence"},
    "BertForTokenClassification": {"labelled": "tokens"},
    "BertForQuestionAnswering": {"labelled": "span"},
    "ViTModel": {},
    "ViTForImageClassification": {"labelled": "image"},
    "ViTForMaskedImageModeling": {"masked_patch_head": True},
}
"""What each of their classes has besides the backbone."""
