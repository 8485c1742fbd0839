"""PatchTST, as PatchTSTForPrediction has it."""

from collections.abc import Mapping
from typing import Any

from vesalius.checkpoints.huggingface import dialect
from vesalius.checkpoints.layout import Shape
from vesalius.checkpoints.tables import Row, both
from vesalius.errors import UnknownConfiguration
from vesalius.families.patchtst import PatchTSTConfig

NORMS = {"batch": "batchnorm", "layer": "layernorm"}
STATISTICS = ("weight", "bias", "running_mean", "running_var")


def rows(config: PatchTSTConfig) -> list[Row]:
    layer = "encoder.layers.{l}"
    inside = ".batchnorm" if config.normalisation == "batch" else ""
    norms = {"attention_norm": "norm_sublayer1", "feedforward_norm": "norm_sublayer3"}
    return [
        *both("projection", "encoder.embedder.input_embedding"),
        Row("positions.weight", "encoder.positional_encoder.position_enc"),
        *both("blocks.{l}.attention.query", f"{layer}.self_attn.q_proj"),
        *both("blocks.{l}.attention.key", f"{layer}.self_attn.k_proj"),
        *both("blocks.{l}.attention.value", f"{layer}.self_attn.v_proj"),
        *both("blocks.{l}.attention.output", f"{layer}.self_attn.out_proj"),
        *(
            Row(f"blocks.{{l}}.{ours}.{kind}", f"{layer}.{theirs}{inside}.{kind}")
            for ours, theirs in norms.items()
            for kind in STATISTICS
        ),
        *both("blocks.{l}.feedforward.inner", f"{layer}.ff.0"),
        *both("blocks.{l}.feedforward.outer", f"{layer}.ff.3"),
        *both("output", "head.projection"),
    ]


def heads(theirs: Mapping[str, Any], shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """What our settings say in other words.

    Positions of either kind stand in the file, and are read as learned ones.
    """
    promised = theirs.get("architectures") or ["PatchTSTForPrediction"]
    if promised != ["PatchTSTForPrediction"]:
        raise UnknownConfiguration(
            f"config.json says architectures {promised!r}; "
            f"of patchtst, PatchTSTForPrediction can be read"
        )
    kind = theirs.get("norm_type", "batchnorm")
    known = {name: ours for ours, name in NORMS.items()}
    if kind not in known:
        raise UnknownConfiguration(
            f"config.json says norm_type {kind!r}; expected {' or '.join(known)}"
        )
    return {
        "normalisation": known[kind],
        "variant": 2 if theirs.get("pre_norm", True) else 1,
        "positions": "learned",
        "end_padding": False,
    }


PATCHTST = dialect.Dialect(
    model_type="patchtst",
    config=PatchTSTConfig,
    settings={
        "channels": "num_input_channels",
        "context": "context_length",
        "horizon": "prediction_length",
        "patch": "patch_length",
        "stride": "patch_stride",
        "layers": "num_hidden_layers",
        "embedding": "d_model",
        "heads": "num_attention_heads",
        "feedforward": "ffn_dim",
        "epsilon": "norm_eps",
        "activation": "activation_function",
        "dropout": "path_dropout",
        "attention_dropout": "attention_dropout",
        "head_dropout": "head_dropout",
    },
    fixed={
        "share_embedding": True,
        "share_projection": True,
        "channel_attention": False,
        "use_cls_token": False,
        "pooling_type": None,
        "scaling": "std",
        "loss": "mse",
        "bias": True,
    },
    defaults={
        "channels": 1,
        "context": 32,
        "horizon": 24,
        "patch": 1,
        "stride": 1,
        "embedding": 128,
        "feedforward": 512,
        "dropout": 0.0,
    },
    dropouts=("positional_dropout",),
    prefix="model.",
    marks=("encoder.embedder.input_embedding.weight",),
    classes={"PatchTSTForPrediction": {}},
    bare="PatchTSTModel",
    rows=rows,
    ignored=r".*\.num_batches_tracked",
    advice={
        r"head\.linear\..*": "of PatchTSTForPretraining, Classification or Regression, which are "
        "not read",
    },
    heads=heads,
    sayable=lambda config: {
        "sinusoidal positions": config.positions == "learned",
        "end_padding = true": not config.end_padding,
        "affine = true": not config.affine,
    },
    class_of=lambda config: "PatchTSTForPrediction",
    written=lambda config: {
        "norm_type": NORMS[config.normalisation],
        "pre_norm": config.variant == 2,
        "positional_encoding_type": "random",
        "ff_dropout": config.dropout,
    },
    outputs=lambda config: {"prediction_outputs": "Omega_hat"},
)
