"""PyTorch's own modules with the same weights, loaded through our layout."""

import numpy as np
import pytest
import torch
from agreement import agree

from vesalius.equations import (
    OneHot,
    attention_mask,
    padding_mask,
    recurrent_logits,
    transformer_block,
)
from vesalius.families import configuration
from vesalius.model import Model
from vesalius.models.blocks import padding_mask as network_mask

VOCABULARY, WIDTH, HIDDEN = 11, 6, 5


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng():
        torch.manual_seed(2024)
        yield


def numbers(tensor):
    return tensor.detach().numpy().copy()


def recurrent_state(module, layers):
    """The state of our layout: PyTorch keeps two biases, whose sum is ours."""
    state = {
        "embedding.weight": np.random.default_rng(0).normal(size=(VOCABULARY, WIDTH)),
        "output.weight": np.random.default_rng(1).normal(size=(VOCABULARY, HIDDEN)),
    }
    for l in range(layers):
        weights = (getattr(module, f"{kind}_l{l}") for kind in ("weight_ih", "weight_hh"))
        into, recurrent = map(numbers, weights)
        biases = numbers(getattr(module, f"bias_ih_l{l}") + getattr(module, f"bias_hh_l{l}"))
        state[f"layers.{l}.input.weight"] = into
        state[f"layers.{l}.recurrent.weight"] = recurrent
        state[f"layers.{l}.input.bias"] = biases
    return state


@pytest.mark.parametrize(
    ("family", "kind", "settings"),
    [
        ("lstm", torch.nn.LSTM, {}),
        ("rnn", torch.nn.RNN, {"nonlinearity": "tanh"}),
        ("rnn", torch.nn.RNN, {"nonlinearity": "relu"}),
    ],
)
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_models_are_pytorchs(family, kind, settings, layers):
    peer = kind(WIDTH, HIDDEN, layers, batch_first=True, dtype=torch.float64, **settings)
    activation = {"activation": settings["nonlinearity"]} if settings else {}
    config = configuration(
        family,
        vocabulary=VOCABULARY,
        embedding=WIDTH,
        hidden=HIDDEN,
        layers=layers,
        tied=False,
        **activation,
    )
    model = Model(config, recurrent_state(peer, layers))
    ids = torch.randint(VOCABULARY, (3, 8))
    with torch.no_grad():
        states, final = peer(torch.tensor(model.state["embedding.weight"])[ids])
        expected = (states @ torch.tensor(model.state["output.weight"]).T).numpy()
        logits, state = model.network(ids, model.network.initial_state(len(ids)))
    agree(logits, expected)
    for ours, theirs in zip(state, final if family == "lstm" else (final,), strict=True):
        agree(ours, theirs)
    for sequence, theirs in zip(ids.numpy(), expected, strict=True):
        Z = recurrent_logits(model.parameters, OneHot(sequence, VOCABULARY))
        agree(Z, theirs.T)


def block_state(layer):
    """The state of our layout for one block of PyTorch's encoder."""
    width = layer.linear1.in_features
    parts = {
        "attention.output": layer.self_attn.out_proj,
        "attention_norm": layer.norm1,
        "feedforward.inner": layer.linear1,
        "feedforward.outer": layer.linear2,
        "feedforward_norm": layer.norm2,
    }
    state = {f"{name}.weight": part.weight for name, part in parts.items()}
    state |= {f"{name}.bias": part.bias for name, part in parts.items()}
    for k, name in enumerate(("query", "key", "value")):
        rows = slice(k * width, (k + 1) * width)
        state[f"attention.{name}.weight"] = layer.self_attn.in_proj_weight[rows]
        state[f"attention.{name}.bias"] = layer.self_attn.in_proj_bias[rows]
    return {f"blocks.0.{name}": numbers(tensor) for name, tensor in state.items()}


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masking", ["none", "padding", "causal"])
def test_a_block_is_pytorchs_encoder_layer(norm_first, activation, masking):
    layer = torch.nn.TransformerEncoderLayer(
        12,
        3,
        dim_feedforward=20,
        dropout=0,
        activation=activation,
        layer_norm_eps=1e-5,
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
    )
    for parameter in layer.parameters():  # gains and biases would be ones and zeros
        torch.nn.init.normal_(parameter, std=0.4)
    config = configuration(
        "gpt2",
        vocabulary=2,
        context=2,
        layers=1,
        embedding=12,
        heads=3,
        feedforward=20,
        activation=activation,
        variant=2 if norm_first else 1,
    )
    rest = {"embedding.weight": (2, 12), "positions.weight": (2, 12)}
    rest |= {"norm.weight": (12,), "norm.bias": (12,)}
    state = block_state(layer) | {name: np.zeros(shape) for name, shape in rest.items()}
    model = Model(config, state)
    x = torch.randn(3, 7, 12, dtype=torch.float64)
    real = torch.arange(7) < torch.tensor([[7], [4], [1]])
    padding = real if masking == "padding" else None
    S = attention_mask(7, causal=masking == "causal")
    with torch.no_grad():
        theirs = layer(
            x,
            src_mask=torch.tensor(S) if masking == "causal" else None,
            src_key_padding_mask=None if padding is None else ~padding,
        )
        ours = model.network.blocks[0](x, network_mask(padding), masking == "causal")
    agree(ours, theirs)
    for b in range(3):
        mask = S if padding is None else padding_mask(padding[b].numpy())
        agree(transformer_block(model.parameters.Phi[0], x[b].numpy().T, mask), theirs[b].T)
