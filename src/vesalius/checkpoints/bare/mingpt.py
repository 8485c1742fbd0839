"""minGPT's two layouts: that of 2022, with GPT-2's names, and the first, of 2020.

The output matrix is its own in both. The first has the erf form of GELU, the later one the tanh
form. Neither file says how many heads there are; the later one's config.json may.
"""

from collections.abc import Mapping
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
from vesalius.checkpoints.libraries import NANOGPT, Dialect
from vesalius.checkpoints.tables import ROW, Row, both
from vesalius.equations.parameters import Array
from vesalius.families.gpt2 import GPT2Config

HEADS = {
    **dict.fromkeys(("openai-gpt", "gpt2"), 12),
    "gpt2-medium": 16,
    "gpt2-large": 20,
    "gpt2-xl": 25,
    "gopher-44m": 16,
    "gpt-mini": 6,
    "gpt-micro": 4,
    "gpt-nano": 3,
}
"""By minGPT's model_type."""


def _first(config: GPT2Config) -> list[Row]:
    layer = "blocks.{l}"
    return [
        Row("embedding.weight", "tok_emb.weight"),
        Row("positions.weight", "pos_emb", ROW),
        *(
            row
            for name in ("query", "key", "value")
            for row in both(f"{layer}.attention.{name}", f"{layer}.attn.{name}")
        ),
        *both(f"{layer}.attention.output", f"{layer}.attn.proj"),
        *both(f"{layer}.attention_norm", f"{layer}.ln1"),
        *both(f"{layer}.feedforward.inner", f"{layer}.mlp.0"),
        *both(f"{layer}.feedforward.outer", f"{layer}.mlp.2"),
        *both(f"{layer}.feedforward_norm", f"{layer}.ln2"),
        *both("norm", "ln_f"),
        Row("output.weight", "head.weight"),
    ]


DIALECT = Dialect(
    lambda config: [*NANOGPT.rows(config), Row("output.weight", "lm_head.weight")],
    NANOGPT.tied,
    NANOGPT.ignored,
)
FIRST_DIALECT = Dialect(
    _first, {"head.weight": "tok_emb.weight"}, r"blocks\.\d+\.attn\.mask"
)  # the causal mask, a buffer


def _fits(shapes: Shapes) -> bool:
    """As nn.Linear has them: a Conv1D, as in Hugging Face's files, would be d x 3d."""
    fused = shapes.get("transformer.h.0.attn.c_attn.weight", ())
    return "lm_head.weight" in shapes and len(fused) == 2 and fused[0] == 3 * fused[1]


def _fits_first(shapes: Shapes) -> bool:
    return {"tok_emb.weight", "pos_emb", "blocks.0.attn.query.weight"} <= set(shapes)


def _settings(
    layout: Layout,
    said: Mapping[str, Any],
    activation: str,
    measured: Mapping[str, Any],
) -> dict[str, Any]:
    if "model_type" in said and "heads" not in said:
        said = {**said, "heads": HEADS[choice(said, "model_type", HEADS)]}
    layout.require(said, "heads")
    return {"activation": said.get("activation", activation), "heads": whole(said, "heads")} | {
        **measured
    }


def _read(arrays: dict[str, Array], said: Mapping[str, Any]) -> Reading:
    words, width = sizes(arrays, "transformer.wte.weight", 2)
    tied = np.array_equal(arrays["lm_head.weight"], arrays["transformer.wte.weight"])
    if tied:  # nanoGPT's weights alone look the same, and have the other form of GELU
        LAYOUT.require(said, "activation")
    measured = {
        "vocabulary": words,
        "embedding": width,
        "context": sizes(arrays, "transformer.wpe.weight", 2)[0],
        "layers": layers(arrays, r"transformer\.h\.(\d+)\."),
        "feedforward": sizes(arrays, "transformer.h.0.mlp.c_fc.weight", 2)[0],
        "tied": tied,
    }
    return Reading("gpt2", _settings(LAYOUT, said, "gelu_tanh", measured), arrays, DIALECT)


def _read_first(arrays: dict[str, Array], said: Mapping[str, Any]) -> Reading:
    words, width = sizes(arrays, "tok_emb.weight", 2)
    sizes(arrays, "head.weight", 2)
    measured = {
        "vocabulary": words,
        "embedding": width,
        "context": sizes(arrays, "pos_emb", 3)[1],
        "layers": layers(arrays, r"blocks\.(\d+)\."),
        "feedforward": sizes(arrays, "blocks.0.mlp.0.weight", 2)[0],
        "tied": np.array_equal(arrays["head.weight"], arrays["tok_emb.weight"]),
    }
    settings = _settings(FIRST_LAYOUT, said, "gelu", measured)
    return Reading("gpt2", settings, arrays, FIRST_DIALECT)


SETTINGS = {
    "heads": Setting("the number of attention heads", 12),
    "model_type": Setting("minGPT's name of a size, which says the heads", "gpt2"),
    "activation": Setting("gelu_tanh as in minGPT since 2022, gelu as in nanoGPT", "gelu_tanh"),
}
ALIASES = {"n_head": "heads"}
LAYOUT = Layout("minGPT", _fits, SETTINGS, _read, ALIASES)
FIRST_LAYOUT = Layout("minGPT as it was until 2022", _fits_first, SETTINGS, _read_first, ALIASES)
