"""ViT."""

from collections.abc import Mapping
from typing import Any

from vesalius.checkpoints.huggingface import dialect
from vesalius.checkpoints.layout import Shape
from vesalius.checkpoints.tables import ENTRY, ROW, Row, both, kernel, restoring, restoring_bias
from vesalius.families.vit import ViTConfig

CLASSES: dict[str, dict[str, Any]] = {
    "ViTModel": {},
    "ViTForImageClassification": {"labelled": "image"},
    "ViTForMaskedImageModeling": {"masked_patch_head": True},
}


def rows(config: ViTConfig) -> list[Row]:
    projection = "embeddings.patch_embeddings.projection"
    return [
        Row("projection.weight", f"{projection}.weight", kernel(config.patch)),
        Row("projection.bias", f"{projection}.bias"),
        Row("class_token", "embeddings.cls_token", ENTRY),
        Row("positions.weight", "embeddings.position_embeddings", ROW),
        *dialect.encoder_blocks("attention"),
        *both("blocks.{l}.attention_norm", "encoder.layer.{l}.layernorm_before"),
        *both("blocks.{l}.feedforward_norm", "encoder.layer.{l}.layernorm_after"),
        *both("norm", "layernorm"),
        *both("pooler", "pooler.dense"),
        *both("class_head", "classifier"),
        Row("mask_token", "embeddings.mask_token", ENTRY),
        Row("patch_head.weight", "decoder.0.weight", restoring(config.patch)),
        Row("patch_head.bias", "decoder.0.bias", restoring_bias(config.patch)),
    ]


def heads(theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """The heads that the class promises, and the heads that the file holds."""
    promised = dialect.promised_by(theirs, CLASSES)
    pooler = "pooler.dense.weight" in shapes
    if pooler:
        dialect.require_fixed(theirs, {"pooler_act": "tanh"})
    return {
        "pooler": pooler,
        "classes": dialect.labels_of(theirs, shapes, promised, "classifier"),
        "masked_patch_head": "masked_patch_head" in promised or "decoder.0.weight" in shapes,
    }


def class_of(config: ViTConfig) -> str:
    if config.masked_patch_head:
        return "ViTForMaskedImageModeling"
    return "ViTForImageClassification" if config.classes else "ViTModel"


VIT = dialect.Dialect(
    model_type="vit",
    config=ViTConfig,
    settings={
        **dialect.ENCODER,
        "image": "image_size",
        "patch": "patch_size",
        "channels": "num_channels",
        "qkv_bias": "qkv_bias",
    },
    fixed={},
    dropouts=("attention_probs_dropout_prob",),
    prefix="vit.",
    marks=("embeddings.cls_token", "embeddings.patch_embeddings.projection.weight"),
    classes=CLASSES,
    bare="ViTModel",
    rows=rows,
    advice={
        r"embeddings\.mask_token": "of masked image modelling, whose decoder is not here",
        r".*\.attention\.attention\.(query|key|value)\.bias": "qkv_bias = false in config.json "
        "says that there is none",
        r"(cls|distillation)_classifier\..*|embeddings\.distillation_token": "of DeiT, "
        "which is not read",
    },
    heads=heads,
    sayable=lambda config: {
        "vit with two of classes, pooler and masked-patch head": [
            bool(config.classes),
            config.pooler,
            config.masked_patch_head,
        ].count(True)
        < 2
    },
    class_of=class_of,
    written=lambda config: {"encoder_stride": config.patch} if config.masked_patch_head else {},
    outputs=lambda config: {"logits": "z", "pooler_output": "h_C"},
)
