"""Do the equations, the network and the field's own implementation agree? Step by step.

All run on the same input, in single and in double precision; what they share is compared by the
paper's symbols, and the first step that parts is named.
"""

import importlib
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vesalius import arguments
from vesalius.checkpoints import others
from vesalius.dissection import dissect
from vesalius.equations.parameters import Array
from vesalius.errors import SequenceTooLong, WrongKind, WrongLength
from vesalius.extras import require
from vesalius.families import configs, family_of
from vesalius.families.configs import Config
from vesalius.model import Model, ModelLike, loaded
from vesalius.views import Part, Shown, Table

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
"""Relative to the largest number of a step: a wrong GELU is 4.7e-4 away, a rounding 6e-8 or 1e-16.

Single precision is given room for the sums of large models."""

LENGTH = 12
"""Tokens of the input, unless said."""
PEERS = ("equations", "transformers", "keras")

KERAS_SETTINGS: dict[type[Config], dict[str, Any]] = {
    configs.GPT2: {
        "activation": "gelu_tanh",
        "epsilon": 1e-5,
        "variant": 2,
        "positions": "learned",
        "causal": True,
        "tied": True,
        "attention_bias": True,
    },
    configs.Bert: {"activation": "gelu_tanh", "epsilon": 1e-12, "attention_bias": True},
}
"""What KerasHub's backbones have built in; with anything else a model is another one."""


@dataclass(frozen=True)
class Agreement:
    """How far one step is from its counterpart, relative to its largest number."""

    step: str
    peer: str
    distance: dict[str, float]
    """By precision."""

    @property
    def fine(self) -> bool:
        return all(far <= TOLERANCE[dtype] for dtype, far in self.distance.items())

    def to_json(self) -> dict[str, Any]:
        return {"step": self.step, "peer": self.peer, **self.distance, "agrees": self.fine}


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """The agreement of every step that is shared."""

    rows: tuple[Agreement, ...]

    @property
    def first_divergence(self) -> Agreement | None:
        return next((row for row in self.rows if not row.fine), None)

    def to_json(self) -> dict[str, Any]:
        first = self.first_divergence
        return {
            "agrees": first is None,
            "first_divergence": first.to_json() if first else None,
            "steps": [row.to_json() for row in self.rows],
        }

    @property
    def verdict(self) -> str:
        first = self.first_divergence
        if first is None:
            return f"All {len(self.rows)} steps agree."
        return f"First divergence: {first.step} against {first.peer}."

    def __repr__(self) -> str:
        """The verdict, and how far the furthest step is in each precision."""
        lines = [self.verdict]
        for dtype, tolerance in TOLERANCE.items():
            rows = [row for row in self.rows if dtype in row.distance]
            if rows:
                worst = max(rows, key=lambda row: row.distance[dtype])
                lines.append(
                    f"  {dtype}: {worst.distance[dtype]:.1e} at most, in {worst.step} against "
                    f"{worst.peer}; allowed is {tolerance:.0e}"
                )
        return "\n".join(lines)

    def view(self) -> Iterator[Part]:
        rows = []
        for row in self.rows:
            far = (f"{row.distance[d]:.1e}" if d in row.distance else "" for d in TOLERANCE)
            rows.append((row.step, row.peer, *far, "" if row.fine else "parts"))
        heads = ("step", "equations against", *TOLERANCE, "")
        yield Table(heads, rows, right=(2, 3))
        yield self.verdict


def verify(
    model: ModelLike, against: str = "equations", length: int | None = None, seed: int = 0
) -> Verification:
    """Run the equations, the network and, if asked, a peer on the same random input.

    That has ``length`` tokens: 12 unless said, or as many as the model reads where those are fewer.
    """
    if against not in PEERS:
        raise WrongKind(f"cannot verify against {against!r}; expected one of {', '.join(PEERS)}")
    model = loaded(model)
    length = None if length is None else arguments.whole("length", length, least=1)
    given = example(model, length, arguments.whole("seed", seed, least=0))
    steps: dict[str, dict[str, dict[str, Array]]] = {}
    for dtype in TOLERANCE:
        cast = Model(model.config, {k: v.astype(dtype) for k, v in model.state.items()})
        trace = dissect(cast, given.astype(dtype) if given.dtype.kind == "f" else given)
        runs = {"equations": {step.name: step.value for step in trace.steps}}
        runs["network"] = network_steps(cast, given)
        if against == "transformers":
            runs[against] = transformers_steps(model, given, dtype)
        if against == "keras" and dtype == "float32":
            runs[against] = keras_steps(model, given, dtype)
        steps[dtype] = runs
    return _compare(steps)


def _compare(steps: dict[str, dict[str, dict[str, Array]]]) -> Verification:
    first = next(iter(steps.values()))
    rows = []
    for name in first["equations"]:
        for peer in first:
            if peer == "equations" or name not in first[peer]:
                continue
            distance = {
                dtype: _distance(runs["equations"][name], runs[peer][name])
                for dtype, runs in steps.items()
                if name in runs.get(peer, ())
            }
            rows.append(Agreement(name, peer, distance))
    return Verification(tuple(rows))


def _distance(ours: Array, theirs: Array) -> float:
    if ours.shape != theirs.shape:
        return float("inf")
    largest = np.abs(theirs).max(initial=0) or 1.0
    return float(np.abs(ours.astype(np.float64) - theirs).max(initial=0) / largest)


def example(model: Model, length: int | None, seed: int) -> Any:
    """An input that the model can read: tokens, an image or a series."""
    rng, config = np.random.default_rng(seed), model.config
    fixed: tuple[int, ...] = ()
    match config:
        case configs.ViT():
            fixed = (config.image, config.image, config.channels)
        case configs.TST():
            fixed = (config.channels, config.context)
        case configs.Feedforward():
            fixed = (config.context,)
    if fixed and length not in (None, fixed[-1] if len(fixed) < 3 else None):
        shape = " x ".join(map(str, fixed))
        raise WrongLength(
            f"{model.family} reads {shape} at once, got length {length}; leave it out"
        )
    if len(fixed) > 1:
        return rng.normal(size=fixed)
    most = config.symbols().get("n_max", math.inf)
    if length is not None and length > most:
        raise SequenceTooLong(f"the model reads {most} tokens, got length {length}; shorten it")
    count = fixed[0] if fixed else min(length or LENGTH, most)
    return rng.integers(config.symbols()["V"], size=count)


def network_steps(model: Model, given: Array) -> dict[str, Array]:
    """What the network computes, by the paper's symbols; watched from outside."""
    network, heads = model.network, model.config.symbols().get("M", 1)
    import torch

    found: dict[str, Array] = {}
    hooks = []

    def watch(module: Any, record: Callable[[Array], None]) -> None:
        hooks.append(
            module.register_forward_hook(lambda _m, _i, out: record(out[0].detach().numpy().T))
        )

    for l, block in enumerate(getattr(network, "blocks", ()), 1):
        for letter in ("query", "key", "value"):
            watch(getattr(block.attention, letter), _split(found, letter[0], l, heads))
        for letter, part in {"A": block.attention, "D": block.feedforward, "H": block}.items():
            watch(part, partial(found.__setitem__, f"{letter}[{l}]"))
    try:
        with torch.no_grad():
            result = network(_tensor(model, given))
    finally:
        for hook in hooks:
            hook.remove()
    return found | _outputs(model, result)


def _split(found: dict[str, Array], letter: str, l: int, heads: int) -> Callable[[Array], None]:
    def record(array: Array) -> None:
        for m, rows in enumerate(np.split(array, heads), 1):
            found[f"{letter}[{l},{m}]"] = rows.T

    return record


def _tensor(model: Model, given: Array) -> Any:
    import torch

    dtype = next(iter(model.state.values())).dtype
    if isinstance(model.config, configs.ViT):
        return torch.tensor(given.transpose(2, 0, 1)[None].astype(dtype))
    if isinstance(model.config, configs.TST):
        return torch.tensor(given.T[None].astype(dtype))
    return torch.tensor(given[None])


def _outputs(model: Model, result: Any) -> dict[str, Array]:
    """The network's results under the names of the equations that give them."""
    match model.config:
        case configs.Bert(labelled=labelled):
            named = {"h_C": result.pooled, "Z": result.mlm, "z_C": result.nsp, "z": result.labels}
            flat = {"h_C", "z_C", *({"z"} if labelled == "sequence" else set())}
        case configs.ViT():
            named = {"H_e": result.hidden, "h_C": result.pooled, "z": result.logits}
            named["Omega_hat"], flat = result.patches, {"h_C", "z"}
        case configs.TST(head=head):
            named, flat = (
                ({"Omega_hat": result}, set()) if head == "series" else ({"z": result}, {"z"})
            )
        case configs.Feedforward():
            named, flat = {"z": result}, {"z"}
        case _:
            named, flat = {"Z": result}, set()
    return {
        name: value[0].numpy() if name in flat else value[0].numpy().T
        for name, value in named.items()
        if value is not None
    }


def transformers_steps(model: Model, given: Array, dtype: str) -> dict[str, Array]:
    """What Transformers computes with the same weights, by the paper's symbols.

    Its eager attention rounds scores to single precision, so that in double precision the fused one
    is used, which keeps its scores to itself.
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
            out = peer(_tensor(cast, given), output_hidden_states=True, output_attentions=eager)
    found: dict[str, Array] = {}
    layers = model.config.symbols()["L"]
    for l, hidden in enumerate(out.hidden_states):
        last = l == layers and isinstance(model.config, configs.GPT2)
        found["H_e" if last else f"H[{l}]"] = hidden[0].numpy().T
    for l, attention in enumerate(out.attentions or () if eager else (), 1):
        found |= {f"mu[{l},{m}]": scores.numpy() for m, scores in enumerate(attention[0], 1)}
    columns = {"prediction_logits": "Z", "logits": "Z"}
    if isinstance(model.config, configs.ViT) or model.config.symbols().get("labels"):
        columns = {"logits": "z"}
    if getattr(out, "seq_relationship_logits", None) is not None:
        found["z_C"] = out.seq_relationship_logits[0].numpy()
    elif getattr(model.config, "nsp_head", False):
        found["z_C"], columns = out.logits[0].numpy(), {}
    if getattr(out, "pooler_output", None) is not None and isinstance(model.config, configs.Bert):
        found["h_C"] = out.pooler_output[0].numpy()
    for theirs, ours in columns.items():
        if getattr(out, theirs, None) is not None:
            found[ours] = getattr(out, theirs)[0].numpy().T
    if getattr(out, "start_logits", None) is not None:
        found["z"] = torch.stack([out.start_logits[0], out.end_logits[0]]).numpy()
    return found


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
    build = _keras_gpt2 if isinstance(model.config, configs.GPT2) else _keras_bert
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
    if type(config) not in KERAS_SETTINGS:
        known = ", ".join(family_of(kind()).name for kind in KERAS_SETTINGS)
        raise WrongKind(f"cannot verify {name} against keras; expected one of {known}")
    differences = [
        f"{setting}={theirs!r}{' (the tanh form)' if theirs == 'gelu_tanh' else ''}, not {ours!r}"
        for setting, theirs in KERAS_SETTINGS[type(config)].items()
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


def _keras_backbone(kind: Any, config: Any, dtype: str, **more: Any) -> tuple[Any, dict[str, Any]]:
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


def _keras_gpt2(keras: Any, keras_hub: Any, config: Any, dtype: str) -> tuple[Any, list[str]]:
    backbone, steps = _keras_backbone(keras_hub.models.GPT2Backbone, config, dtype)
    steps["H_e"] = backbone.output
    steps["Z"] = backbone.token_embedding(backbone.output, reverse=True)
    return keras.Model(backbone.input, list(steps.values())), list(steps)


def _keras_bert(keras: Any, keras_hub: Any, config: Any, dtype: str) -> tuple[Any, list[str]]:
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
    """Give a Keras model our weights: all of those that it has, and no others."""
    config = model.config
    if isinstance(config, configs.Bert):  # heads that Keras's backbone does not have
        config = config.change(nsp_head=False, labels=0)
    weights = others.write_state("Keras", config, model.state)
    theirs = {weight.path: weight for weight in network.weights}
    assert set(weights) == set(theirs), set(weights) ^ set(theirs)
    for path, weight in theirs.items():
        weight.assign(weights[path].astype(dtype))
