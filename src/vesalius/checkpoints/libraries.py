"""The layouts of Keras, nanoGPT, timm and others: their tensors' names and shapes beside ours.

Keras gives the heads of attention an axis of their own; nanoGPT, timm and the TST of its authors
(mvts_transformer) fuse queries, keys and values along the rows. Hugging Face's layouts are in
``huggingface``; what a library computes with its arrays is left to ``peers``.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vesalius.checkpoints import layout, tables
from vesalius.checkpoints.tables import ENTRY, ROW, TRANSPOSED, Row, Transform, both, kernel
from vesalius.equations.parameters import Array
from vesalius.errors import UnknownConfiguration
from vesalius.families import FAMILIES, family_of
from vesalius.families.bert import BertConfig
from vesalius.families.config import Config
from vesalius.families.family import OwnConfig
from vesalius.families.gpt2 import GPT2Config
from vesalius.families.tst import TSTConfig
from vesalius.families.vit import ViTConfig


@dataclass(frozen=True)
class Dialect:
    """How one library lays out one family."""

    rows: Callable[[OwnConfig], list[Row]]
    tied: Mapping[str, str] = field(default_factory=dict)
    """Their names that repeat another tensor of theirs."""
    ignored: str = r"(?!)"
    """Their names that hold no parameters, as a pattern."""
    any_width: bool = False
    """Whether heads may be wider or narrower than embedding / heads; all of one width."""


def third_of_rows(k: int) -> Transform:
    """The k-th third of the fused queries, keys and values."""
    return Transform(
        f"{('first', 'second', 'last')[k]} third of the rows",
        lambda a: a[k * (len(a) // 3) : (k + 1) * (len(a) // 3)],
        lambda a: a,
        part=k,
        axis=0,
    )


def heads_out(heads: int) -> Transform:
    """A kernel from the embedding to all heads: d_e x M x d_k there."""
    return Transform(
        "heads joined, transposed",
        lambda a: a.reshape(len(a), -1).T,
        lambda a: a.T.reshape(a.shape[1], heads, -1),
    )


def heads_in(heads: int) -> Transform:
    """A kernel from all heads to the embedding: M x d_v x d_e there."""
    return Transform(
        "heads joined, transposed",
        lambda a: a.reshape(-1, a.shape[-1]).T,
        lambda a: a.T.reshape(heads, -1, len(a)),
    )


def heads_bias(heads: int) -> Transform:
    """A bias of all heads: M x d_k there."""
    return Transform("heads joined", lambda a: a.reshape(-1), lambda a: a.reshape(heads, -1))


MIDDLE = Transform("without its middle axis", lambda a: a[:, 0], lambda a: a[:, None])


# ------------------------------------------------------------------------------------------ Keras


def _dense(ours: str, theirs: str) -> list[Row]:
    kernel_row = Row(f"{ours}.weight", f"{theirs}/kernel", TRANSPOSED)
    return [kernel_row, Row(f"{ours}.bias", f"{theirs}/bias")]


def _norm(ours: str, theirs: str) -> list[Row]:
    return [Row(f"{ours}.weight", f"{theirs}/gamma"), Row(f"{ours}.bias", f"{theirs}/beta")]


def _keras_blocks(heads: int, attention: str) -> list[Row]:
    ours, theirs = "blocks.{l}", "transformer_layer_{l}"
    rows = []
    for name in ("query", "key", "value"):
        inner, outer = f"{ours}.attention.{name}", f"{theirs}/{attention}/{name}"
        rows.append(Row(f"{inner}.weight", f"{outer}/kernel", heads_out(heads)))
        rows.append(Row(f"{inner}.bias", f"{outer}/bias", heads_bias(heads)))
    inner, outer = f"{ours}.attention.output", f"{theirs}/{attention}/attention_output"
    return [
        *rows,
        Row(f"{inner}.weight", f"{outer}/kernel", heads_in(heads)),
        Row(f"{inner}.bias", f"{outer}/bias"),
        *_norm(f"{ours}.attention_norm", f"{theirs}/self_attention_layer_norm"),
        *_dense(f"{ours}.feedforward.inner", f"{theirs}/feedforward_intermediate_dense"),
        *_dense(f"{ours}.feedforward.outer", f"{theirs}/feedforward_output_dense"),
        *_norm(f"{ours}.feedforward_norm", f"{theirs}/feedforward_layer_norm"),
    ]


def _keras_gpt2(config: GPT2Config) -> list[Row]:
    return [
        Row("embedding.weight", "token_embedding/embeddings"),
        Row("positions.weight", "position_embedding/embeddings"),
        *_keras_blocks(config.heads, "self_attention"),
        *_norm("norm", "layer_norm"),
    ]


def _keras_bert(config: BertConfig) -> list[Row]:
    return [
        Row("embedding.weight", "token_embedding/embeddings"),
        Row("positions.weight", "position_embedding/embeddings"),
        Row("segments.weight", "segment_embedding/embeddings"),
        *_norm("norm", "embeddings_layer_norm"),
        *_keras_blocks(config.heads, "self_attention_layer"),
        *_dense("pooler", "pooled_dense"),
        *_dense("mlm_head.dense", "mlm_head/intermediate_dense"),
        *_norm("mlm_head.norm", "mlm_head/intermediate_layer_norm"),
        Row("mlm_head.bias", "mlm_head/output_bias"),
    ]


# -------------------------------------------------------------------------------- nanoGPT and timm


def _fused(theirs: str) -> list[Row]:
    return [
        Row(f"blocks.{{l}}.attention.{name}.{kind}", f"{theirs}.{kind}", third_of_rows(k))
        for k, name in enumerate(("query", "key", "value"))
        for kind in ("weight", "bias")
    ]


def _nanogpt(config: GPT2Config) -> list[Row]:
    layer = "transformer.h.{l}"
    return [
        Row("embedding.weight", "transformer.wte.weight"),
        Row("positions.weight", "transformer.wpe.weight"),
        *_fused(f"{layer}.attn.c_attn"),
        *both("blocks.{l}.attention.output", f"{layer}.attn.c_proj"),
        *both("blocks.{l}.attention_norm", f"{layer}.ln_1"),
        *both("blocks.{l}.feedforward.inner", f"{layer}.mlp.c_fc"),
        *both("blocks.{l}.feedforward.outer", f"{layer}.mlp.c_proj"),
        *both("blocks.{l}.feedforward_norm", f"{layer}.ln_2"),
        *both("norm", "transformer.ln_f"),
    ]


def _timm(config: ViTConfig) -> list[Row]:
    return [
        Row("projection.weight", "patch_embed.proj.weight", kernel(config.patch)),
        Row("projection.bias", "patch_embed.proj.bias"),
        Row("class_token", "cls_token", ENTRY),
        Row("positions.weight", "pos_embed", ROW),
        *_fused("blocks.{l}.attn.qkv"),
        *both("blocks.{l}.attention.output", "blocks.{l}.attn.proj"),
        *both("blocks.{l}.attention_norm", "blocks.{l}.norm1"),
        *both("blocks.{l}.feedforward.inner", "blocks.{l}.mlp.fc1"),
        *both("blocks.{l}.feedforward.outer", "blocks.{l}.mlp.fc2"),
        *both("blocks.{l}.feedforward_norm", "blocks.{l}.norm2"),
        *both("norm", "norm"),
        *both("class_head", "head"),
    ]


def _mvts(config: TSTConfig) -> list[Row]:
    layer = "transformer_encoder.layers.{l}"
    rows = [
        Row(f"blocks.{{l}}.attention.{n}.{kind}", f"{layer}.self_attn.in_proj_{kind}", at)
        for n, at in zip(("query", "key", "value"), map(third_of_rows, range(3)), strict=True)
        for kind in ("weight", "bias")
    ]
    for ours, theirs in (("attention_norm", "norm1"), ("feedforward_norm", "norm2")):
        kinds = ("weight", "bias", "running_mean", "running_var")
        rows += [Row(f"blocks.{{l}}.{ours}.{kind}", f"{layer}.{theirs}.{kind}") for kind in kinds]
    return [
        *both("projection", "project_inp"),
        Row("positions.weight", "pos_enc.pe", MIDDLE),
        *rows,
        *both("blocks.{l}.attention.output", f"{layer}.self_attn.out_proj"),
        *both("blocks.{l}.feedforward.inner", f"{layer}.linear1"),
        *both("blocks.{l}.feedforward.outer", f"{layer}.linear2"),
        *both("output", "output_layer"),
    ]


# ---------------------------------------------------------------------------------- single layers


KERAS_RECURRENT = Dialect(
    lambda config: [
        Row("layers.{l}.input.weight", "kernel", TRANSPOSED),
        Row("layers.{l}.recurrent.weight", "recurrent_kernel", TRANSPOSED),
        Row("layers.{l}.input.bias", "bias"),
    ]
)
TORCH_DENSE = Dialect(lambda config: [*both("layers.{l}", "{l}"), *both("output", "output")])
KERAS_DENSE = Dialect(
    lambda config: [*_dense("layers.{l}", "dense_{l}"), *_dense("output", "output")]
)


# -------------------------------------------------------------------------------------- one table


KERAS_GPT2, KERAS_BERT = Dialect(_keras_gpt2), Dialect(_keras_bert)
NANOGPT = Dialect(
    _nanogpt,
    {"lm_head.weight": "transformer.wte.weight"},
    r"transformer\.h\.\d+\.attn\.bias",  # the causal mask, a buffer
)
TIMM = Dialect(_timm)
MVTS = Dialect(_mvts, {}, r".*\.num_batches_tracked")


def dialect(library: str, config: Config) -> Dialect:
    """How a library lays out a configuration, or an error that says what it has no place for."""
    family, s = family_of(config), config.symbols()
    if library not in family.libraries:
        known = ", ".join(row.name for row in FAMILIES.values() if library in row.libraries)
        raise UnknownConfiguration(
            f"there is no table of {library} for {family.name}; there is for {known}"
        )
    found: Dialect = family.libraries[library].get()
    if found.any_width and s["d_k"] != s["d_v"]:
        raise UnknownConfiguration(
            f"{library} has keys and values of one width, got {s['d_k']} and {s['d_v']}"
        )
    attends = "M" in s
    if attends and not found.any_width and not s["M"] * s["d_k"] == s["Md_v"] == s["d_e"]:
        raise UnknownConfiguration(
            f"{library} has key and value of embedding / heads = {s['d_e']} / {s['M']} only, "
            f"got {s['d_k']} and {s['d_v']}"
        )
    if attends and not s["zeta"]:
        raise UnknownConfiguration(f"{library}'s table has attention with biases; this has none")
    placed = {row.ours for row in tables.spread(found.rows(config), config)}
    if left := sorted(set(layout.shapes(config)) - placed):
        raise UnknownConfiguration(f"{library} has no place for {', '.join(left)}")
    return found


def read_state(
    library: str, config: Config, tensors: Mapping[str, Array], ignore_extra: bool = False
) -> dict[str, Array]:
    """Our state as views of their tensors."""
    return read_by(dialect(library, config), config, tensors, ignore_extra)


def read_by(
    theirs: Dialect,
    config: Config,
    tensors: Mapping[str, Array],
    ignore_extra: bool = False,
    described: str = "config.json",
) -> dict[str, Array]:
    """The same by a table that may have a file's own names; ``described`` names it in errors."""
    kept = {k: v for k, v in tensors.items() if not re.fullmatch(theirs.ignored, k)}
    return tables.read_state(
        config,
        theirs.rows(config),
        kept,
        theirs.tied,
        ignore_extra=ignore_extra,
        described=described,
    )


def write_state(library: str, config: Config, state: Mapping[str, Array]) -> dict[str, Array]:
    """Their tensors from our state; what is tied is not repeated."""
    return tables.write_state(config, dialect(library, config).rows(config), state)
