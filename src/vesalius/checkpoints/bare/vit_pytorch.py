"""vit-pytorch's ViT, as releases 0.7.0 to 0.40.2 have it.

Releases from 1.0.0 on normalise patches before and after their projection, which no setting of ours
does. Queries, keys and values have no biases there, and heads may be of any width.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from vesalius.checkpoints.bare.reading import (
    Layout,
    Reading,
    Setting,
    Shapes,
    choice,
    layers,
    sizes,
    whole,
)
from vesalius.checkpoints.libraries import Dialect, third_of_rows
from vesalius.checkpoints.tables import ENTRY, ROW, Row, both
from vesalius.equations.parameters import Array
from vesalius.errors import UnknownConfiguration
from vesalius.families.vit import ViTConfig

LAYER = "transformer.layers.{l}"


def _rows(config: ViTConfig, residual: str = "") -> list[Row]:
    """``residual`` stands in names until 0.9.3, where a module of its own added the input."""
    attention, feedforward = (f"{LAYER}.{k}{residual}" for k in range(2))
    return [
        *both("projection", "to_patch_embedding.1"),
        Row("class_token", "cls_token", ENTRY),
        Row("positions.weight", "pos_embedding", ROW),
        *(
            Row(
                f"blocks.{{l}}.attention.{name}.weight",
                f"{attention}.fn.to_qkv.weight",
                third_of_rows(k),
            )
            for k, name in enumerate(("query", "key", "value"))
        ),
        *both("blocks.{l}.attention.output", f"{attention}.fn.to_out.0"),
        *both("blocks.{l}.attention_norm", f"{attention}.norm"),
        *both("blocks.{l}.feedforward.inner", f"{feedforward}.fn.net.0"),
        *both("blocks.{l}.feedforward.outer", f"{feedforward}.fn.net.3"),
        *both("blocks.{l}.feedforward_norm", f"{feedforward}.norm"),
        *both("norm", "mlp_head.0"),
        *both("class_head", "mlp_head.1"),
    ]


DIALECT = Dialect(_rows, any_width=True)


def _fits(shapes: Shapes) -> bool:
    patches = any(n.startswith(("to_patch_embedding.", "patch_to_embedding.")) for n in shapes)
    return patches and any(name.endswith("to_qkv.weight") for name in shapes)


def _require_expressible(arrays: Mapping[str, Array]) -> None:
    """Refuse releases that compute something else, by the tensors that tell."""
    if any(name.startswith("patch_to_embedding.") for name in arrays):
        raise UnknownConfiguration(
            "patch_to_embedding.weight is of vit-pytorch before 0.7.0, which divided scores by the "
            "root of dim until 0.6.6 and of dim_head in 0.6.7; the file does not say which. If it "
            "is of 0.6.7, rename patch_to_embedding to to_patch_embedding.1 and convert again"
        )
    if "cls_token" not in arrays or any(name.startswith("linear_head") for name in arrays):
        raise UnknownConfiguration(
            "there is no cls_token: this is a model such as vit-pytorch's SimpleViT, which takes "
            "the mean over patches at fixed positions; the vit here needs a cls_token, whose state "
            "gives the classes, and a pos_embedding"
        )
    norms = ("to_patch_embedding.1.weight", "to_patch_embedding.3.weight")
    if found := [name for name in norms if name in arrays and arrays[name].ndim == 1]:
        raise UnknownConfiguration(
            f"{' and '.join(found)}: LayerNorms around the projection of patches, which "
            f"vit-pytorch has from 1.0.0 on. The vit here would need normalisations there; they "
            f"depend on each patch, so that the projection cannot take them in. Releases 0.7.0 to "
            f"0.40.2, without them, can be read"
        )


def _sides(arrays: Mapping[str, Array], said: Mapping[str, Any]) -> dict[str, int]:
    """The sides of an image and of a patch, both squares."""
    embedding, numbers = sizes(arrays, "to_patch_embedding.1.weight", 2)
    positions = sizes(arrays, "pos_embedding", 3)[1]
    channels = whole(said, "channels") if "channels" in said else 3
    patch, across = math.isqrt(numbers // channels), math.isqrt(positions - 1)
    if patch**2 * channels != numbers:
        raise UnknownConfiguration(
            f"to_patch_embedding.1.weight reads {numbers} numbers of a patch, which is no square "
            f"of {channels} channels; state them as in --set channels=1 (settings in Python)"
        )
    if across**2 != positions - 1 or not across:
        raise UnknownConfiguration(
            f"pos_embedding has {positions - 1} patches, which are no square; expected those of a "
            f"square image, as every vit here reads"
        )
    return {"embedding": embedding, "channels": channels, "patch": patch, "image": patch * across}


def _read(arrays: dict[str, Array], said: Mapping[str, Any]) -> Reading:
    _require_expressible(arrays)
    residual = ".fn" if f"{LAYER}.0.fn.norm.weight".format(l=0) in arrays else ""
    attention = f"{LAYER}.0{residual}.fn"
    fused, width = sizes(arrays, f"{attention}.to_qkv.weight".format(l=0), 2)
    count = layers(arrays, r"transformer\.layers\.(\d+)\.")
    projected = any(".to_out." in name for name in arrays)
    # One head as wide as the model is the only case without a projection: it is the identity.
    LAYOUT.require(said, *(["heads", "pool"] if projected else ["pool"]))
    heads = whole(said, "heads") if "heads" in said else 1
    if fused % (3 * heads) or (not projected and (heads, fused) != (1, 3 * width)):
        raise UnknownConfiguration(
            f"{heads} heads do not fit {attention.format(l=0)}.to_qkv.weight, whose {fused} rows "
            f"are queries, keys and values of all heads"
            + ("" if projected else f"; without to_out there is 1 head of {width}")
        )
    if choice(said, "pool", ("cls", "mean")) == "mean":
        raise UnknownConfiguration(
            "pool = mean takes the mean over all patches, and the vit here takes the class token; "
            "only pool = cls can be converted"
        )
    if not projected:
        kind = arrays[f"{attention}.to_qkv.weight".format(l=0)].dtype
        for name in (f"{attention}.to_out.0".format(l=l) for l in range(count)):
            arrays[f"{name}.weight"] = np.eye(width, dtype=kind)
            arrays[f"{name}.bias"] = np.zeros(width, kind)
    settings = {
        **_sides(arrays, said),
        "layers": count,
        "heads": heads,
        "key": fused // (3 * heads),
        "value": fused // (3 * heads),
        "feedforward": sizes(arrays, f"{LAYER}.1{residual}.fn.net.0.weight".format(l=0), 2)[0],
        "classes": sizes(arrays, "mlp_head.1.weight", 2)[0],
        "epsilon": 1e-5,
        "activation": "gelu",
        "qkv_bias": False,
    }
    dialect = Dialect(partial(_rows, residual=residual), any_width=True)
    return Reading("vit", settings, arrays, dialect)


LAYOUT = Layout(
    "vit-pytorch's ViT",
    _fits,
    {
        "heads": Setting("the number of attention heads", 8),
        "pool": Setting("cls for the class token, vit-pytorch's default, or mean", "cls"),
        "channels": Setting("the number of colours; 3 where that makes patches square", 1),
    },
    _read,
)
