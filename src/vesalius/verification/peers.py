"""The field's own implementations, run with a model's weights: Transformers and KerasHub.

What they compute is given by the paper's symbols, for ``verification`` to compare. A model is
written in their layout for that; neither library is needed for anything else.
"""

import importlib
import os
import sys
import tempfile
from functools import partial
from typing import Any

import numpy as np

from vesalius.checkpoints import huggingface, libraries
from vesalius.equations.parameters import Array
from vesalius.errors import WrongKind
from vesalius.families import family_of
from vesalius.families.config import Config
from vesalius.families.family import OwnConfig
from vesalius.machine import require
from vesalius.model import Model

AXES = {"images": (2, 0, 1), "series": (1, 0)}
"""What a network wants first: the colours of an image, the time of a series."""
KERAS_SETTINGS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "activation": "gelu_tanh",
        "epsilon": 1e-5,
        "variant": 2,
        "positions": "learned",
        "causal": True,
        "tied": True,
        "attention_bias": True,
    },
    "bert": {"activation": "gelu_tanh", "epsilon": 1e-12, "attention_bias": True},
}
"""What KerasHub's backbones have built in; with anything else a model is another one."""


def batch_of(model: Model, given: Array) -> Any:
    """One input as the only row of a batch."""
    import torch

    axes = AXES.get(family_of(model.config).reads)
    if axes is None:
        return torch.tensor(given[None])
    dtype = next(iter(model.state.values())).dtype
    return torch.tensor(given.transpose(axes)[None].astype(dtype))


def transformers_steps(model: Model, given: Array, dtype: str) -> dict[str, Array]:
    """What Transformers computes with the same weights, by the paper's symbols.

    Its eager attention rounds scores to single precision. In double precision its fused attention
    is used, which does not return scores.
    """
    require("transformers")
    require("torch")
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call] # of extra parts
    eager = dtype == "float32"
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder, layout="huggingface")
        described = transformers.AutoConfig.from_pretrained(folder)
        kind = getattr(transformers, described.architectures[0])
        peer = kind.from_pretrained(
            folder,
            dtype=getattr(torch, dtype),
            attn_implementation="sdpa" if not eager and kind._supports_sdpa else "eager",
        ).eval()
        cast = Model(model.config, {k: v[:0].astype(dtype) for k, v in model.state.items()})
        with torch.no_grad():
            out = peer(batch_of(cast, given), output_hidden_states=True, output_attentions=eager)
    dialect, layers = huggingface.dialect_of(model.config), model.config.symbols()["L"]
    found: dict[str, Array] = {}
    for l, hidden in enumerate(out.hidden_states):
        last = l == layers and dialect.last_normalised
        found["H_e" if last else f"H[{l}]"] = hidden.flatten(0, -2).numpy().T
    for l, attention in enumerate(out.attentions or () if eager else (), 1):
        heads = attention.transpose(0, 1)  # of one row, or of one for each channel
        found |= {f"mu[{l},{m}]": _diagonal(h.numpy()) for m, h in enumerate(heads, 1)}
    for theirs, symbol in dialect.outputs(model.config).items():
        if getattr(out, theirs, None) is not None:
            found[symbol] = getattr(out, theirs)[0].numpy().T
    if getattr(out, "start_logits", None) is not None:
        found["z"] = torch.stack([out.start_logits[0], out.end_logits[0]]).numpy()
    return found


def _diagonal(blocks: Array) -> Array:
    """Blocks along the diagonal of a matrix, and zeros elsewhere."""
    many, rows, columns = blocks.shape
    whole = np.zeros((many, rows, many, columns), blocks.dtype)
    whole[range(many), :, range(many)] = blocks
    return whole.reshape(many * rows, many * columns)


def keras_steps(
    model: Model,
    given: Array,
    dtype: str,
    segments: Array | None = None,
    real: Array | None = None,
) -> dict[str, Array]:
    """What KerasHub's backbone computes with the same weights, by the paper's symbols.

    BERT may be given the segment of each token, and which tokens are real. Its MLM head is run with
    the GELU and the epsilon of the backbone; KerasHub's own ``BertMaskedLM`` puts the erf form and
    1e-5 there. Except on TensorFlow, Keras rounds to single precision whatever dtype it is given.
    """
    _require_keras_settings(model.config)
    keras, keras_hub = _import_keras()
    build = {"gpt2": _keras_gpt2, "bert": _keras_bert}[model.family]
    network, outputs = build(keras, keras_hub, model.config, dtype)
    _assign(network, model, dtype)
    ids = given[None]
    tokens = {
        "token_ids": ids,
        "padding_mask": np.ones_like(ids) if real is None else real[None].astype(ids.dtype),
        "segment_ids": np.zeros_like(ids) if segments is None else segments[None],
        "mask_positions": np.arange(ids.size)[None],
    }
    results = network({name: tokens[name] for name in network.input})
    return {
        name: value[0].detach().cpu().numpy().T
        for name, value in zip(outputs, results, strict=True)
    }


def _require_keras_settings(config: Config) -> None:
    name, s = family_of(config).name, config.symbols()
    if name not in KERAS_SETTINGS:
        known = ", ".join(KERAS_SETTINGS)
        raise WrongKind(f"cannot verify {name} against keras; expected one of {known}")
    differences = [
        f"{setting}={theirs!r}{' (the tanh form)' if theirs == 'gelu_tanh' else ''}, not {ours!r}"
        for setting, theirs in KERAS_SETTINGS[name].items()
        if (ours := getattr(config, setting)) != theirs
    ]
    if not s["M"] * s["d_k"] == s["Md_v"] == s["d_e"]:
        differences.append("key and value of embedding / heads, not others")
    if differences:
        raise WrongKind(
            f"Keras's {name} is another model than this: it has {'; '.join(differences)}. "
            f"A model with Keras's settings can be compared"
        )


def _import_keras() -> tuple[Any, Any]:
    """Keras and KerasHub, on PyTorch."""
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "torch"
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    require("keras_hub")
    keras, keras_hub = map(importlib.import_module, ("keras", "keras_hub"))
    if keras.config.backend() != "torch":
        raise WrongKind(
            f"keras is already imported and runs on {keras.config.backend()}; "
            f"expected torch: set KERAS_BACKEND=torch before it is imported"
        )
    return keras, keras_hub


def _keras_backbone(
    kind: Any, config: OwnConfig, dtype: str, **more: Any
) -> tuple[Any, dict[str, Any]]:
    """A backbone of KerasHub, and what its layers give under the paper's symbols."""
    backbone = kind(
        vocabulary_size=config.vocabulary,
        num_layers=config.layers,
        num_heads=config.heads,
        hidden_dim=config.embedding,
        intermediate_dim=config.symbols()["d_f"],
        max_sequence_length=config.context,
        dropout=0,
        dtype=dtype,
        **more,
    )
    hidden = [backbone.embeddings_dropout, *backbone.transformer_layers]
    return backbone, {f"H[{l}]": layer.output for l, layer in enumerate(hidden)}


def _keras_gpt2(keras: Any, keras_hub: Any, config: OwnConfig, dtype: str) -> tuple[Any, list[str]]:
    backbone, steps = _keras_backbone(keras_hub.models.GPT2Backbone, config, dtype)
    steps["H_e"] = backbone.output
    steps["Z"] = backbone.token_embedding(backbone.output, reverse=True)
    return keras.Model(backbone.input, list(steps.values())), list(steps)


def _keras_bert(keras: Any, keras_hub: Any, config: OwnConfig, dtype: str) -> tuple[Any, list[str]]:
    backbone, steps = _keras_backbone(
        keras_hub.models.BertBackbone, config, dtype, num_segments=config.segments
    )
    inputs = dict(backbone.input)
    if config.pooler:
        steps["h_C"] = backbone.output["pooled_output"]
    if config.mlm_head:
        head = keras_hub.layers.MaskedLMHead(
            token_embedding=backbone.token_embedding,
            intermediate_activation=partial(keras.activations.gelu, approximate=True),
            layer_norm_epsilon=config.epsilon,
            dtype=dtype,
            name="mlm_head",
        )
        inputs["mask_positions"] = keras.Input((None,), dtype="int32", name="mask_positions")
        steps["Z"] = head(backbone.output["sequence_output"], inputs["mask_positions"])
    return keras.Model(inputs, list(steps.values())), list(steps)


def _assign(network: Any, model: Model, dtype: str) -> None:
    """Give a Keras model our weights: every tensor it has, and no other."""
    config = model.config
    if model.family == "bert":  # heads that Keras's backbone does not have
        config = config.change(nsp_head=False, labels=0)
    weights = libraries.write_state("Keras", config, model.state)
    theirs = {weight.path: weight for weight in network.weights}
    assert set(weights) == set(theirs), set(weights) ^ set(theirs)
    for path, weight in theirs.items():
        weight.assign(weights[path].astype(dtype))
