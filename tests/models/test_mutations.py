"""A network or an equation that is wrong in one place is found out, and the place is named."""

import dataclasses
import importlib
import math

import numpy as np
import pytest
import torch
from strategies import filled, small

from vesalius.checkpoints import huggingface, layout
from vesalius.equations import activations, attention
from vesalius.equations import transformer as transformer_equations
from vesalius.families import FAMILIES
from vesalius.models import activations as networks
from vesalius.models import bert, blocks, recurrent, transformer
from vesalius.verification.agreement import verify


def first_divergence(config, against="equations"):
    """The name of the first step that parts, or None."""
    found = verify(filled(config), against).first_divergence
    return found and found.step


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_mistake_nothing_diverges(family):
    assert first_divergence(small(family)) is None


def test_a_wrong_gelu_is_found_out(monkeypatch):
    tanh_form = networks.ACTIVATIONS["gelu_tanh"]
    monkeypatch.setitem(networks.ACTIVATIONS, "gelu", tanh_form)
    assert first_divergence(small("bert")) == "F[1]"


def test_a_wrong_gelu_in_the_equations_is_found_out(monkeypatch):
    monkeypatch.setitem(activations.ACTIVATIONS, "gelu", activations.gelu_tanh)
    assert first_divergence(small("bert")) == "F[1]"


def test_a_wrong_gelu_in_the_mlm_head_alone_is_found_out(monkeypatch):
    right = bert.MaskedHead.__init__

    def init(self, config):
        right(self, config)
        self.activation = networks.ACTIVATIONS["gelu_tanh"]

    monkeypatch.setattr(bert.MaskedHead, "__init__", init)
    assert first_divergence(small("bert")) == "H_M"


def test_scores_that_are_not_scaled_are_found_out(monkeypatch):
    right = torch.nn.functional.scaled_dot_product_attention

    def wrong(*qkv, **settings):
        return right(*qkv, **settings, scale=1.0)

    monkeypatch.setattr(blocks.F, "scaled_dot_product_attention", wrong)
    for family in ("gpt2", "transformer", "bert", "vit", "tst"):
        assert first_divergence(small(family)) == "P[1,1]"


def test_scores_that_are_not_scaled_in_the_equations_are_found_out(monkeypatch):
    right = attention.attention_scores
    monkeypatch.setattr(attention, "attention_scores", lambda q, k, S, scale: right(q, k, S))
    assert first_divergence(small("gpt2")) == "mu[1,1]"


def test_a_scale_by_the_width_of_the_values_is_found_out(monkeypatch):
    right = torch.nn.functional.scaled_dot_product_attention

    def wrong(q, k, v, **settings):
        return right(q, k, v, **settings, scale=1 / math.sqrt(v.shape[-1]))

    monkeypatch.setattr(blocks.F, "scaled_dot_product_attention", wrong)
    assert first_divergence(small("gpt2")) is None
    assert first_divergence(small("gpt2", key=3)) == "P[1,1]"


def test_a_causal_mask_that_is_forgotten_is_found_out(monkeypatch):
    right = torch.nn.functional.scaled_dot_product_attention

    def wrong(*qkv, is_causal, **settings):
        return right(*qkv, **settings)

    monkeypatch.setattr(blocks.F, "scaled_dot_product_attention", wrong)
    assert first_divergence(small("gpt2")) == "P[1,1]"
    assert first_divergence(small("bert")) is None


@pytest.mark.parametrize("order", ["PRQS", "RPSQ", "RQPS", "SPQR"])
def test_gates_in_another_order_are_found_out(monkeypatch, order):
    names = {"W": "input.weight", "U": "recurrent.weight", "b": "input.bias"}
    rows = [
        layout.Row(f"Phi[l].{kind}_{letter}", f"layers.{{l}}.{name}", layout.gate(k))
        for k, letter in enumerate(order)
        for kind, name in names.items()
    ]
    right = {row.symbol: row for row in layout.LSTM}
    wrong = list((right | {row.symbol: row for row in rows}).values())
    monkeypatch.setattr(layout, "LSTM", wrong)
    assert first_divergence(small("lstm")) == "Z"


def test_a_state_that_is_not_carried_is_found_out(monkeypatch):
    right = recurrent.LSTMNetwork.run

    def wrong(self, x, state):
        outputs = [right(self, x[:, i : i + 1], state) for i in range(x.shape[1])]
        return torch.cat([x for x, _ in outputs], dim=1), outputs[-1][1]

    monkeypatch.setattr(recurrent.LSTMNetwork, "run", wrong)
    assert first_divergence(small("lstm")) == "Z"


@pytest.mark.parametrize(
    ("family", "step"),
    # Attention reads H[0] as it is in variant 1 and normalised in variant 2.
    [("transformer", "q[1,1]"), ("gpt2", "H_bar[1]"), ("bert", "q[1,1]"), ("vit", "H_bar[1]")],
)
def test_the_other_variant_is_found_out(monkeypatch, family, step):
    right = blocks.Block.__init__

    def init(self, config):
        right(self, config)
        self.norm_first = not self.norm_first

    monkeypatch.setattr(blocks.Block, "__init__", init)
    assert first_divergence(small(family)) == step


@pytest.mark.parametrize(
    ("family", "wrong", "step"),
    # BERT's is 1e-12; in variant 1 the feedforward network is the first to read a normalisation.
    [("bert", 1e-5, "H[0]"), ("gpt2", 1e-12, "H_bar[1]"), ("vit", 1e-6, "H_bar[1]")],
)
def test_a_wrong_epsilon_is_found_out(monkeypatch, family, wrong, step):
    monkeypatch.setattr(
        blocks, "normalisation", lambda config: torch.nn.LayerNorm(config.embedding, eps=wrong)
    )
    assert first_divergence(small(family)) == step


def test_a_final_normalisation_that_is_missing_is_found_out(monkeypatch):
    right = transformer.TransformerNetwork.__init__

    def init(self, config):
        right(self, config)
        self.norm.register_forward_hook(lambda _module, inputs, _output: inputs[0])

    monkeypatch.setattr(transformer.TransformerNetwork, "__init__", init)
    assert first_divergence(small("gpt2")) == "H_e"


def test_a_final_normalisation_that_is_missing_in_the_equations_is_found_out(monkeypatch):
    monkeypatch.setattr(transformer_equations, "normalise_output", lambda Xi_e, H: H)
    assert first_divergence(small("gpt2")) == "Z"


def swapped(rows, *names):
    """The table with two names exchanged."""
    first, second = (f".{name}." for name in names)

    def swap(name):
        return second.join(part.replace(second, first) for part in name.split(first))

    return [dataclasses.replace(row, name=swap(row.name)) for row in rows]


@pytest.mark.parametrize(
    ("names", "step"),
    [(("key", "value"), "k[1,1]"), (("query", "key"), "q[1,1]"), (("query", "value"), "q[1,1]")],
)
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_matrices_that_are_swapped_in_the_layout_are_found_out(monkeypatch, family, names, step):
    config = small(family)
    lazy = FAMILIES[family].layout
    monkeypatch.setattr(layout, lazy.place.partition(":")[2], swapped(lazy.get(), *names))
    assert first_divergence(config) == step


@pytest.mark.parametrize("family", ["gpt2", "bert", "vit"])
def test_matrices_that_are_swapped_on_the_way_to_transformers_are_found_out(monkeypatch, family):
    config, dialect = small(family), huggingface.dialects()[family]
    swap = {"key": "value", "value": "key"}

    def rows(config):
        return [
            dataclasses.replace(row, ours=".".join(swap.get(p, p) for p in row.ours.split(".")))
            for row in dialect.rows(config)
        ]

    assert first_divergence(config, "transformers") is None
    module = importlib.import_module(f"vesalius.checkpoints.huggingface.{family}")
    monkeypatch.setattr(module, family.upper(), dataclasses.replace(dialect, rows=rows))
    assert first_divergence(config, "transformers") == "mu[1,1]"


def test_one_number_that_is_off_is_found_out(monkeypatch):
    """Parameters of the equations that differ from the network's in a single place."""
    right = layout.letters

    def letters(config, state):
        theta = right(config, state)
        b_2 = theta.Phi[1].Pi.b_2 + np.eye(12)[3].astype(theta.E.dtype) * 1e-4
        Pi = dataclasses.replace(theta.Phi[1].Pi, b_2=b_2)
        block = dataclasses.replace(theta.Phi[1], Pi=Pi)
        return dataclasses.replace(theta, Phi=(theta.Phi[0], block))

    monkeypatch.setattr(layout, "letters", letters)
    assert first_divergence(small("gpt2")) == "D[2]"
