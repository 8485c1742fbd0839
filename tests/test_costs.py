"""Costs by formula, against PyTorch's own counter and what autograd really keeps."""

import math

import numpy as np
import peers
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from vesalius import cost
from vesalius.errors import ImpossibleSetting, SequenceTooLong
from vesalius.families import configuration
from vesalius.families.activations import ACTIVATIONS
from vesalius.models import activations as networks

F = torch.nn.functional
BLOCKS = {"layers": 2, "embedding": 24, "heads": 3, "feedforward": 40}


def counted_by_pytorch(run, loss=None):
    """Operations of ``run``, and with the backward pass of ``loss`` of its result."""
    with FlopCounterMode(display=False) as counter:
        result = run()
        if loss is not None:
            loss(result).backward()
    return counter.get_total_flops()


def check(config, run, loss, length, batch):
    ours = cost(config, length, batch)
    assert counted_by_pytorch(run) == ours.forward
    assert counted_by_pytorch(run, loss) == ours.training_step


@pytest.mark.parametrize(("length", "batch"), [(1, 1), (7, 1), (5, 3)])
def test_gpt2_costs_what_pytorch_counts(length, batch):
    config = configuration("gpt2", **BLOCKS, vocabulary=50, context=7)
    model = peers.empty_gpt2(config, attention="eager")
    ids = torch.randint(50, (batch, length))
    check(config, lambda: model(ids).logits, torch.Tensor.sum, length, batch)


@pytest.mark.parametrize("family", ["gpt2", "transformer", "rnn", "lstm"])
def test_a_label_head_costs_what_pytorch_counts(family):
    bare = configuration(family, vocabulary=50, embedding=24)
    headed = bare.change(labels=5)
    states = torch.randn(3, 24, requires_grad=True)
    head = torch.nn.Linear(24, 5, bias=False)
    a, b = cost(bare, 7, 3), cost(headed, 7, 3)
    assert b.forward - a.forward == counted_by_pytorch(lambda: head(states))
    assert b.training_step - a.training_step == counted_by_pytorch(
        lambda: head(states), torch.Tensor.sum
    )


@pytest.mark.parametrize(("length", "batch"), [(7, 1), (5, 3)])
def test_bert_with_both_heads_costs_what_pytorch_counts(length, batch):
    config = configuration("bert", **BLOCKS, vocabulary=50, context=7, mlm_head=True, nsp_head=True)
    model = peers.empty_bert(config, attention="eager")
    ids = torch.randint(50, (batch, length))

    def loss(result):
        return result.prediction_logits.sum() + result.seq_relationship_logits.sum()

    check(config, lambda: model(ids), loss, length, batch)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_vision_transformer_costs_what_pytorch_counts(batch):
    config = configuration("vit", **BLOCKS, image=8, patch=2, channels=3, classes=5)
    model = peers.empty_vit(config, attention="eager")
    pixels = torch.randn(batch, 3, 8, 8)
    check(config, lambda: model(pixels).logits, torch.Tensor.sum, None, batch)


@pytest.mark.parametrize("normalisation", ["batch", "layer"])
def test_the_time_series_transformer_costs_what_pytorch_counts(normalisation):
    config = configuration(
        "tst", **BLOCKS, channels=4, context=6, outputs=5, normalisation=normalisation
    )
    model = peers.TST(config)
    series, real = torch.randn(3, 6, 4), torch.ones(3, 6, dtype=torch.bool)
    check(config, lambda: model(series, real)[1], torch.Tensor.sum, None, 3)


def test_patchtst_costs_what_pytorch_counts():
    lengths = {"context": 9, "patch": 4, "stride": 2, "horizon": 5, "end_padding": False}
    config = configuration("patchtst", **BLOCKS, channels=4, variant=2, **lengths)
    model = peers.empty_patchtst(config)
    series = torch.randn(3, 9, 4)
    check(config, lambda: model(series).prediction_outputs, torch.Tensor.sum, None, 3)


@pytest.mark.parametrize(
    ("family", "cell"), [("rnn", torch.nn.RNNCell), ("lstm", torch.nn.LSTMCell)]
)
@pytest.mark.parametrize("layers", [1, 3])
def test_recurrent_models_cost_what_pytorch_counts(family, cell, layers):
    config = configuration(family, layers=layers, embedding=6, hidden=10, vocabulary=50, tied=False)
    E, U = torch.nn.Embedding(50, 6), torch.nn.Linear(10, 50, bias=False)
    cells = [cell(6 if l == 0 else 10, 10) for l in range(layers)]
    ids = torch.randint(50, (7,))

    def run():
        inputs = E(ids)
        for layer in cells:
            zero = torch.zeros(10)
            state = zero if family == "rnn" else (zero, zero)
            outputs = []
            for x in inputs:
                state = layer(x, state)
                outputs.append(state if family == "rnn" else state[0])
            inputs = torch.stack(outputs)
        return U(inputs)

    check(config, run, torch.Tensor.sum, 7, 1)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_feedforward_model_costs_what_pytorch_counts(layers):
    config = configuration("ffnn", layers=layers, embedding=6, hidden=10, vocabulary=50, context=4)
    E, U = torch.nn.Embedding(50, 6), torch.nn.Linear(10, 50, bias=False)
    dense = [torch.nn.Linear(24 if l == 0 else 10, 10) for l in range(layers)]
    ids = torch.randint(50, (3, 4))

    def run():
        h = E(ids).flatten(1)
        for layer in dense:
            h = torch.tanh(layer(h))
        return U(h)

    check(config, run, torch.Tensor.sum, 4, 3)


def plain_block(config, variant, weights, x, mask):
    """A transformer block in plain PyTorch, attention unfused, all widths independent."""
    s = config.symbols()
    M, d_k, d_v, d_e = s["M"], s["d_k"], s["d_v"], s["d_e"]
    norms = [lambda t, w=w: F.layer_norm(t, (d_e,), w[0], w[1]) for w in weights["norms"]]

    def attend(h):
        n = len(h)
        q = (h @ weights["q"]).view(n, M, d_k).transpose(0, 1)
        k = (h @ weights["k"]).view(n, M, d_k).transpose(0, 1)
        v = (h @ weights["v"]).view(n, M, d_v).transpose(0, 1)
        mu = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(d_k) + mask, dim=-1)
        return (mu @ v).transpose(0, 1).reshape(n, M * d_v) @ weights["o"]

    def feed(h):
        return networks.ACTIVATIONS[config.activation](h @ weights["1"]) @ weights["2"]

    if variant == 1:
        x = norms[0](x + attend(x))
        return norms[1](x + feed(x))
    x = x + attend(norms[0](x))
    return x + feed(norms[1](x))


def plain_language_model(config):
    """A whole language model of such blocks: its loss, and its parameters."""
    parameters = []
    s = config.symbols()
    d_e, d_f, keys, values = s["d_e"], s["d_f"], s["M"] * s["d_k"], s["Md_v"]

    def parameter(*shape):
        parameters.append(torch.randn(*shape, requires_grad=True))
        return parameters[-1]

    E, Lambda, Xi_e = parameter(s["V"], d_e), parameter(s["n"], d_e), parameter(2, d_e)
    layers = [
        {
            "q": parameter(d_e, keys),
            "k": parameter(d_e, keys),
            "v": parameter(d_e, values),
            "o": parameter(values, d_e),
            "1": parameter(d_e, d_f),
            "2": parameter(d_f, d_e),
            "norms": [(parameter(d_e), parameter(d_e)) for _ in range(2)],
        }
        for _ in range(config.layers)
    ]

    def loss(ids, targets):
        n = len(ids)
        mask = torch.full((n, n), -torch.inf).triu(1)
        x = E[ids] + Lambda[:n]
        if config.variant == 1:
            x = F.layer_norm(x, (d_e,), Xi_e[0], Xi_e[1])
        for weights in layers:
            x = plain_block(config, config.variant, weights, x, mask)
        if config.variant == 2:
            x = F.layer_norm(x, (d_e,), Xi_e[0], Xi_e[1])
        return F.cross_entropy(x @ E.T, targets)

    return loss, parameters


@pytest.mark.parametrize("variant", [1, 2])
def test_products_are_counted_for_any_widths(variant):
    config = configuration(
        "gpt2", layers=2, embedding=10, heads=3, key=5, value=7, feedforward=11, vocabulary=13,
        context=9, variant=variant, attention_bias=False,
    )  # fmt: skip
    loss, _ = plain_language_model(config)
    ids = torch.randint(13, (9,))
    check(config, lambda: loss(ids, ids), lambda value: value, 9, 1)


@pytest.mark.parametrize(("variant", "activation"), [(1, "gelu"), *((2, a) for a in ACTIVATIONS)])
def test_activations_are_what_autograd_keeps(variant, activation):
    config = configuration(
        "gpt2", layers=3, embedding=10, heads=2, key=5, value=7, feedforward=11, vocabulary=13,
        context=9, variant=variant, activation=activation, attention_bias=False,
    )  # fmt: skip
    loss, parameters = plain_language_model(config)
    ids = torch.randint(13, (9,))
    owned, kept = {parameter.untyped_storage().data_ptr() for parameter in parameters}, {}

    def note(tensor):
        """Each piece of memory once; the parameters' own, indices and single numbers aside."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in owned and tensor.is_floating_point() and tensor.dim() > 0:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        value = loss(ids, ids)
    assert sum(kept.values()) == cost(config, 9).memory["activations"]
    value.backward()


def test_training_memory_is_parameters_gradients_moments_and_activations():
    memory = cost("gpt2", 512, 4).memory
    P = 4 * 124_439_808
    assert (memory["parameters"], memory["gradients"], memory["Adam's moments"]) == (P, P, 2 * P)
    assert memory["activations"] == 4 * cost("gpt2", 512, 1).memory["activations"]


def test_generation_keeps_a_kv_cache_for_every_token():
    assert cost("gpt2").decode_state == ("the KV cache, for every token", 4 * 12 * 12 * 2 * 64)
    assert cost("zaremba-2014-small").decode_state == ("state and context, in all", 4 * 2 * 2 * 200)
    assert cost("bert-tiny").decode_state is None


def test_the_tied_output_product_costs_though_it_has_no_parameters():
    rows = {row.equation: row.forward for row in cost("gpt2", 10).rows}
    assert rows["9"] == 2 * 10 * 768 * 50257


def test_pointwise_operations_stand_apart_from_products():
    rows = {row.equation: row for row in cost("gpt2", 10).rows}
    assert rows["10"].forward == 0
    assert rows["10"].pointwise == 5 * 10 * 50257


@pytest.mark.parametrize(
    ("name", "length", "batch", "error", "message"),
    [
        ("gpt2", 1025, 1, SequenceTooLong, "1024 positions, got length 1025"),
        ("gpt2", 0, 1, ImpossibleSetting, "length must be at least 1"),
        ("gpt2", 5, 0, ImpossibleSetting, "batch must be at least 1"),
        ("bengio-2003", 5, 1, ImpossibleSetting, "always reads 4 tokens"),
    ],
)
def test_a_length_the_model_cannot_have_is_refused(name, length, batch, error, message):
    with pytest.raises(error, match=message):
        cost(name, length, batch)


def test_sinusoidal_positions_and_recurrent_networks_have_no_longest_sequence():
    assert cost("vaswani-base", 5000).length == 5000
    assert cost("mikolov-2010", 5000).length == 5000


@pytest.mark.parametrize("wrong", [1.5, 0, -1, "8", True, np.float64(3), [4]])
def test_only_whole_numbers_of_tokens_and_sequences_can_be_costed(wrong):
    for name in ("length", "batch"):
        with pytest.raises(ImpossibleSetting, match=f"{name} must be"):
            cost("gpt2", **{name: wrong})
        with pytest.raises(ImpossibleSetting, match=f"{name} must be a whole number, got True"):
            cost("gpt2", **{name: True})


def test_numpys_whole_numbers_are_whole_numbers():
    assert cost("gpt2", np.int64(8), np.int32(2)) == cost("gpt2", 8, 2)
