"""Every erratum: the paper as printed, the code, and what practice says."""

import ast
import importlib
import math
import re
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    GPTNeoXConfig,
    LlamaConfig,
    LlamaForCausalLM,
    OpenAIGPTConfig,
    OpenAIGPTModel,
    ViTConfig,
    ViTForImageClassification,
)

import vesalius
from vesalius import configuration, cost, count, random_parameters, tracing
from vesalius import equations as eq
from vesalius.equations import REGISTRY, errata, numbered
from vesalius.equations.glossary import GLOSSARY, IN_PLACE
from vesalius.errors import EmptySequence, SequenceTooLong, WrongLength
from vesalius.families import FAMILIES, names
from vesalius.tokenizers import WAYS

DOCS = Path(__file__).parents[1] / "docs"


def gpt2(**changes):
    settings = {"vocabulary": 7, "context": 6, "layers": 2, "embedding": 8, "heads": 2, **changes}
    return random_parameters(configuration("gpt2", **settings), seed=5)


def bert(**changes):
    settings = {"vocabulary": 7, "context": 6, "layers": 2, "embedding": 8, "heads": 2, **changes}
    return random_parameters(configuration("bert", mlm_head=True, **settings), seed=6)


def randomised(model):
    """The model with all its parameters random: initial biases of zero would hide mistakes."""
    torch.manual_seed(7)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def hugging_face_gpt2():
    settings = {"vocab_size": 11, "n_positions": 8, "n_embd": 8, "n_layer": 2, "n_head": 2}
    return randomised(GPT2LMHeadModel(GPT2Config(**settings, bos_token_id=0, eos_token_id=0)))


def hugging_face_bert(kind):
    settings = {"vocab_size": 11, "max_position_embeddings": 8, "hidden_size": 8}
    settings |= {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    return randomised(kind(BertConfig(**settings)))


def size_on_paper(kind, config):
    """How many parameters a PyTorch model has, without making them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in kind(config).parameters())


def norm(module):
    return eq.Norm(alpha=module.weight.numpy(), beta=module.bias.numpy(), epsilon=module.eps)


def attention(module):
    """PyTorch's multi-head attention as the paper's Γ: a head is a slice of the stacked rows."""
    W, b = (
        stacked.numpy().reshape(3, module.num_heads, module.head_dim, -1)
        for stacked in (module.in_proj_weight, module.in_proj_bias)
    )
    heads = tuple(
        eq.Head(
            **{f"W_{letter}": W[i, m].T for i, letter in enumerate("QKV")},
            **{f"b_{letter}": b[i, m, :, 0] for i, letter in enumerate("QKV")},
        )
        for m in range(module.num_heads)
    )
    out = module.out_proj
    return eq.Attention(Psi=heads, W_O=out.weight.numpy().T, b_O=out.bias.numpy())


def without_biases(Gamma):
    heads = tuple(replace(Psi_m, b_Q=None, b_K=None, b_V=None) for Psi_m in Gamma.Psi)
    return replace(Gamma, Psi=heads, b_O=None)


def block(layer, order):
    Pi = eq.Feedforward(
        W_1=layer.linear1.weight.numpy(),
        b_1=layer.linear1.bias.numpy(),
        W_2=layer.linear2.weight.numpy(),
        b_2=layer.linear2.bias.numpy(),
        g=eq.gelu,
    )
    Gamma = attention(layer.self_attn)
    return eq.Block(Gamma=Gamma, Xi_1=norm(layer.norm1), Pi=Pi, Xi_2=norm(layer.norm2), order=order)


def encoder_layer(norm_first):
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 16, activation="gelu", batch_first=True, norm_first=norm_first
    )
    return randomised(layer).requires_grad_(False)


def differ(a, b):
    return not np.allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.erratum("E1")
def test_as_printed_the_matrix_of_1_1_repeats_an_entry_and_a_column(rng):
    X = rng.normal(size=(3, 4))
    entries = X.copy()
    entries[1, -1] = X[0, -1]
    assert differ(entries, X)
    assert differ(np.column_stack([X[:, 0], X[:, 0], *X.T[2:]]), X)
    np.testing.assert_array_equal(eq.embed(X, eq.OneHot(range(4), 4)), X)


@pytest.mark.erratum("E1")
def test_layers_stand_in_square_brackets():
    with tracing() as steps:
        eq.transformer_lm(gpt2(), eq.OneHot([1, 2], 7))
    assert {"H[0]", "H[1]", "H[2]"} <= set(steps.names())


@pytest.mark.erratum("E2")
def test_letters_of_the_paper_mean_several_things():
    twice = {letter for section in IN_PLACE.values() for letter in section if letter in GLOSSARY}
    assert {"U", "C", "P", "q", "k", "v", "p", "c"} <= twice
    theta = random_parameters(configuration("rnn", vocabulary=7, embedding=3, tied=False), seed=1)
    assert theta.U.shape == (7, 3)
    assert theta.Phi[0].U.shape == (3, 3)


@pytest.mark.erratum("E2")
def test_table_4_and_table_5_call_different_numbers_eta_8():
    d_e = 768
    of_table_4 = eq.block_parameters(d_e, M=12, d_k=64, d_v=64, d_f=3072, zeta=1)
    assert of_table_4 != d_e * (d_e + 1)
    rows = count("bert", mlm_head=True, nsp_head=True).rows
    symbols = [row.symbol for row in rows if row.symbol]
    assert len(symbols) == len(set(symbols))


@pytest.mark.erratum("E3")
def test_no_model_answers_the_first_context_of_1():
    theta = gpt2()
    C = [3, 1, 4, 1, 5]

    def model(context):
        return eq.transformer_lm(theta, eq.OneHot(context, 7))[:, -1]

    with pytest.raises(EmptySequence):
        eq.corpus_loss(model, C, 6)
    uniform = np.full(7, 1 / 7)
    with_a_start = eq.corpus_loss(lambda context: model(context) if context else uniform, C, 6)
    Y_hat = eq.transformer_lm(theta, eq.OneHot(C[:-1], 7))
    without_it = eq.transformer_loss(np.array(C[1:]), Y_hat)
    assert with_a_start == pytest.approx(without_it + math.log(7))


@pytest.mark.erratum("E3")
def test_a_feedforward_model_refuses_all_contexts_of_1_but_the_full_ones():
    config = configuration("ffnn", vocabulary=7, context=3, embedding=4, hidden=5)
    theta = random_parameters(config, seed=1)
    for length in (1, 2):
        with pytest.raises(WrongLength, match="exactly 3 tokens"):
            eq.feedforward_lm(theta, eq.OneHot([1] * length, 7))
    assert eq.feedforward_lm(theta, eq.OneHot([1] * 3, 7)).sum() == pytest.approx(1)


@pytest.mark.erratum("E3")
def test_the_windows_of_1_give_another_loss_than_the_blocks_of_20(rng):
    theta, n = gpt2(), 4
    C = rng.integers(7, size=13).tolist()

    def window(context):
        if len(context) == 0:
            return np.ones(7)
        return eq.transformer_lm(theta, eq.OneHot(context, 7))[:, -1]

    def blocks(tokens):
        starts = range(0, len(tokens) - 1, n)
        parts = [(tokens[i : i + n], tokens[i + 1 : i + n + 1]) for i in starts]
        return sum(
            eq.transformer_loss(np.array(after), eq.transformer_lm(theta, eq.OneHot(before, 7)))
            for before, after in parts
        )

    assert eq.corpus_loss(window, C[: n + 1], n) == pytest.approx(blocks(C[: n + 1]))
    assert differ(eq.corpus_loss(window, C, n), blocks(C))


@pytest.mark.erratum("E4")
def test_bert_keeps_a_tenth_of_the_chosen_tokens_and_replaces_a_tenth_by_random_words(rng):
    V, mask = 30522, 103
    w = rng.integers(1000, V, size=200_000)
    m = rng.random(len(w)) < 0.15
    as_printed = eq.corrupt(w, m, mask)
    assert (as_printed[m] == mask).all()
    as_bert = eq.corrupt_as_bert(w, m, mask, V, rng)
    np.testing.assert_array_equal(as_bert[~m], w[~m])
    masked, kept = as_bert[m] == mask, as_bert[m] == w[m]
    shares = [masked.mean(), kept.mean(), (~masked & ~kept).mean()]
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.01)
    defaults = DataCollatorForLanguageModeling.__dataclass_fields__
    assert defaults["mask_replace_prob"].default == 0.8
    assert defaults["random_replace_prob"].default == 0.1


@pytest.mark.erratum("E5")
def test_as_printed_the_distributions_of_10_are_rows_that_stand_in_one_line(rng):
    Z = rng.normal(size=(5, 3))
    y_hat = [eq.distribution(z) for z in Z.T]
    as_printed = np.hstack([row[None, :] for row in y_hat])
    assert as_printed.shape == (1, 15)
    with_transposes = np.hstack([row[None, :].T for row in y_hat])
    np.testing.assert_array_equal(eq.distributions(Z), with_transposes)


@pytest.mark.erratum("E5")
def test_the_softmax_runs_down_columns_in_10_and_along_rows_in_28(rng):
    Psi = eq.Head(**{f"W_{letter}": rng.normal(size=(8, 4)) for letter in "QKV"})
    X, S = rng.normal(size=(8, 5)), eq.attention_mask(5, causal=True)
    q, k, v = eq.query_key_value(Psi, X)
    assert q.shape == (5, 4)
    down_columns = eq.softmax(S + q @ k.T / 2, axis=0) @ v
    by_torch = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), is_causal=True).numpy()
    np.testing.assert_allclose(eq.self_attention(Psi, X, S), by_torch)
    assert differ(down_columns, by_torch)
    np.testing.assert_allclose(eq.distributions(X).sum(axis=0), 1)


@pytest.mark.erratum("E6")
def test_as_printed_the_softmax_of_large_logits_is_no_number():
    z = np.array([1000.0, 999.0, 0.0])
    with np.errstate(all="ignore"):
        as_printed = np.exp(z) / np.exp(z).sum()
        limits = np.exp([709.0, 710.0]), np.exp(np.array([88, 89], dtype=np.float32))
    assert np.isnan(as_printed[:2]).all()
    assert np.isinf(limits).tolist() == [[False, True], [False, True]]
    np.testing.assert_allclose(eq.distribution(z), torch.softmax(torch.tensor(z), 0).numpy())


@pytest.mark.erratum("E6")
def test_as_printed_the_loss_of_62_is_infinite_where_the_code_gives_a_number():
    z = np.array([0.0, 800.0])
    with np.errstate(all="ignore"):
        as_printed = -np.log(np.exp(z[0]) / np.exp(z).sum())
    assert as_printed == np.inf
    loss = eq.autoregressive_loss_of_states(np.eye(2), z[:, None], np.array([0]))
    assert loss == F.cross_entropy(torch.tensor(z[None]), torch.tensor([0])).item() == 800


@pytest.mark.erratum("E7")
def test_a_sequence_shorter_than_the_positions_takes_the_first_of_them(rng):
    Lambda, X = rng.normal(size=(8, 6)), rng.normal(size=(8, 3))
    with pytest.raises(ValueError, match="broadcast"):
        Lambda + X
    np.testing.assert_array_equal(eq.positions(Lambda, X), Lambda[:, :3])
    with pytest.raises(SequenceTooLong):
        eq.positions(X, Lambda)
    assert eq.positions(None, rng.normal(size=(8, 1000))).shape == (8, 1000)


@pytest.mark.erratum("E7")
def test_the_beginning_of_a_sequence_has_the_same_distributions_alone():
    theta, ids = gpt2(), [1, 2, 3, 4, 5, 6]
    whole = eq.transformer_lm(theta, eq.OneHot(ids, 7))
    np.testing.assert_allclose(eq.transformer_lm(theta, eq.OneHot(ids[:3], 7)), whole[:, :3])
    model = hugging_face_gpt2()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :3]
        assert torch.allclose(model(torch.tensor([ids[:3]])).logits[0], logits)


@pytest.mark.erratum("E8")
def test_12_and_41_take_the_same_arguments_in_opposite_orders(rng):
    cell = randomised(torch.nn.RNNCell(4, 4)).requires_grad_(False)
    b = (cell.bias_ih + cell.bias_hh).numpy()
    Phi = eq.Elman(W=cell.weight_ih.numpy(), U=cell.weight_hh.numpy(), b=b, g=eq.tanh)
    below, before = rng.normal(size=(2, 4))
    by_torch = cell(torch.tensor(below), torch.tensor(before)).numpy()
    np.testing.assert_allclose(eq.elman(Phi, below, before), by_torch)
    np.testing.assert_allclose(eq.recurrent_layer(Phi, before, below), by_torch)
    assert differ(eq.elman(Phi, before, below), by_torch)


@pytest.mark.erratum("E9")
def test_not_all_transformers_tie_their_embeddings():
    assert GPT2Config().tie_word_embeddings
    for config in (LlamaConfig(), GPTJConfig(), GPTNeoXConfig()):
        assert not config.tie_word_embeddings
    settings = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1}
    small = LlamaConfig(**settings, num_attention_heads=2, intermediate_size=16)
    with torch.device("meta"):
        model = LlamaForCausalLM(small)
    assert model.lm_head.weight is not model.model.embed_tokens.weight
    tied, untied = count("gpt2"), count("gpt2", tied=False)
    assert untied.total - tied.total == 768 * 50257


@pytest.mark.erratum("E9")
def test_tying_saves_parameters_and_no_operations():
    tied, untied = cost("gpt2"), cost("gpt2", tied=False)
    assert (tied.forward, tied.training_step) == (untied.forward, untied.training_step)
    logits = next(row for row in tied.rows if row.equation == "9")
    assert logits.forward == 2 * 1024 * 768 * 50257


@pytest.mark.erratum("E10")
@given(st.floats(0.001, 0.999))
def test_the_loss_is_least_at_the_shares_of_the_continuations_and_not_zero_there(share):
    corpus = [[0, 1], [0, 1], [0, 1], [0, 2]]
    truths = [eq.true_next(w, 1, 3) for w in corpus]
    assert differ(truths[0], truths[3])

    def loss(p):
        return sum(eq.cross_entropy(y, np.array([0, p, 1 - p])) for y in truths)

    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert loss(0.75) == pytest.approx(4 * entropy)
    assert loss(share) >= loss(0.75) - 1e-12


@pytest.mark.erratum("E11")
def test_the_cross_entropy_of_16_changes_when_its_arguments_are_exchanged():
    y, y_hat = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.3, 0.5])
    assert differ(eq.cross_entropy(y, y_hat), eq.cross_entropy(y_hat, y))
    assert eq.masked_cross_entropy(y_hat, y) == eq.cross_entropy(y, y_hat)
    with np.errstate(divide="ignore"):
        assert eq.cross_entropy(y_hat, eq.true_class(1, 3)) == np.inf
    assert eq.cross_entropy(eq.true_class(1, 3), y_hat) == pytest.approx(-math.log(0.3))
    c = np.array([1])
    assert eq.autoregressive_loss(y_hat[:, None], c) == eq.transformer_loss(c, y_hat[:, None])


@pytest.mark.erratum("E11")
def test_the_cross_entropy_grows_as_distributions_part():
    y = eq.true_class(0, 2)
    losses = [eq.cross_entropy(y, np.array([p, 1 - p])) for p in (1.0, 0.9, 0.5, 0.1)]
    assert losses == sorted(losses)
    assert losses[0] == 0


@pytest.mark.erratum("E12")
@pytest.mark.parametrize(
    "loss", [eq.cross_entropy_of_class, eq.feedforward_loss, eq.recurrent_loss]
)
def test_as_printed_the_losses_of_17_19_and_21_are_always_zero(loss, rng):
    for c in range(5):
        y, z = eq.true_class(c, 5), rng.normal(size=5)
        assert -np.log(y[c]) == 0
        by_torch = F.cross_entropy(torch.tensor(z), torch.tensor(c)).item()
        assert by_torch > 0
        assert loss(c, eq.distribution(z)) == pytest.approx(by_torch)


@pytest.mark.erratum("E13")
def test_training_divides_the_sum_of_20_by_the_number_of_tokens(rng):
    Z, c = rng.normal(size=(11, 4)), rng.integers(11, size=4)
    total = eq.transformer_loss(c, eq.distributions(Z))
    assert total == pytest.approx(4 * F.cross_entropy(torch.tensor(Z.T), torch.tensor(c)).item())
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        found = hugging_face_gpt2()(ids, labels=ids)
    Y_hat = eq.distributions(found.logits[0, :-1].numpy().T)
    assert eq.transformer_loss(ids[0, 1:].numpy(), Y_hat) == pytest.approx(4 * found.loss.item())


@pytest.mark.erratum("E13")
def test_bert_is_trained_on_the_mean_of_67_and_the_loss_of_the_next_sentence():
    model = hugging_face_bert(BertForPreTraining)
    c, m = np.array([1, 2, 3, 4, 5]), np.array([False, True, False, True, True])
    labels = torch.tensor(np.where(m, c, -100)[None])
    with torch.no_grad():
        found = model(torch.tensor(c[None]), labels=labels, next_sentence_label=torch.tensor([1]))
    words = eq.masked_loss(found.prediction_logits[0].numpy().T, c, m)
    y_hat = eq.distribution(found.seq_relationship_logits[0].numpy())
    pair = eq.cross_entropy_of_class(1, y_hat)
    assert found.loss.item() == pytest.approx(words / 3 + pair)
    assert differ(found.loss.item(), words + pair)


@pytest.mark.erratum("E14")
def test_shuffled_inputs_of_a_transformer_give_shuffled_outputs_not_the_same(rng):
    Phi, H, order = gpt2().Phi, rng.normal(size=(8, 5)), np.array([3, 0, 4, 2, 1])
    S = eq.attention_mask(5, causal=False)
    outputs = eq.transformer_network(Phi, H, S)
    shuffled = eq.transformer_network(Phi, H[:, order], S)
    assert differ(shuffled, outputs)
    np.testing.assert_allclose(shuffled, outputs[:, order])


@pytest.mark.erratum("E14")
def test_a_causal_transformer_knows_the_order_without_positions(rng):
    Phi, H, order = gpt2().Phi, rng.normal(size=(8, 5)), np.array([3, 0, 2, 1, 4])
    S = eq.attention_mask(5, causal=True)
    for layers, order_is_lost in ((1, True), (2, False)):
        last = eq.transformer_network(Phi[:layers], H, S)[:, -1]
        shuffled = eq.transformer_network(Phi[:layers], H[:, order], S)
        assert np.allclose(shuffled[:, -1], last) == order_is_lost
        assert differ(shuffled, eq.transformer_network(Phi[:layers], H, S)[:, order])


@pytest.mark.erratum("E15")
def test_a_sigmoid_layer_is_a_tanh_layer_only_with_the_output_bias_that_4_lacks():
    config = configuration("ffnn", vocabulary=7, context=3, embedding=4, hidden=5)
    assert config.activation == "tanh"
    theta, Omega = random_parameters(config, seed=1), eq.OneHot([1, 2, 3], 7)
    (Phi_1,) = theta.Phi
    as_printed = replace(theta, Phi=(replace(Phi_1, g=eq.sigmoid),))
    assert differ(eq.feedforward_logits(as_printed, Omega), eq.feedforward_logits(theta, Omega))
    # sigma(x) = (1 + tanh(x / 2)) / 2
    halved = eq.Dense(W=Phi_1.W / 2, b=Phi_1.b / 2, g=eq.tanh)
    same = replace(theta, Phi=(halved,), U=theta.U / 2, b_U=theta.U.sum(axis=1) / 2)
    np.testing.assert_allclose(eq.feedforward_lm(same, Omega), eq.feedforward_lm(as_printed, Omega))


@pytest.mark.erratum("E15")
def test_the_count_published_for_the_feedforward_model_has_an_output_bias():
    V, n, m, h = 16383, 5, 30, 100  # n counts the predicted word, m is the embedding dimension
    published = V * (1 + n * m + h) + h * (1 + (n - 1) * m)
    direct_connections = V * (n - 1) * m
    assert count("bengio-2003").total == published - direct_connections
    assert count("bengio-2003", output_bias=False).total == published - direct_connections - V


@pytest.mark.erratum("E16")
def test_biases_of_attention_are_counted_in_40_and_stand_in_no_equation(rng):
    module = randomised(torch.nn.MultiheadAttention(8, 2, batch_first=True)).requires_grad_(False)
    Gamma, X, S = attention(module), rng.normal(size=(8, 5)), np.zeros((5, 5))
    x = torch.tensor(X.T[None])
    by_torch = module(x, x, x, need_weights=False)[0][0].numpy().T
    np.testing.assert_allclose(eq.multi_head_attention(Gamma, X, S), by_torch)
    assert differ(eq.multi_head_attention(without_biases(Gamma), X, S), by_torch)
    assert count("gpt2").total - count("gpt2", attention_bias=False).total == 12 * 4 * 768


@pytest.mark.erratum("E16")
def test_the_bias_of_the_keys_changes_nothing(rng):
    Psi, X, S = gpt2().Phi[0].Gamma.Psi[0], rng.normal(size=(8, 5)), np.zeros((5, 5))
    before = eq.self_attention(Psi, X, S)
    moved = rng.normal(size=Psi.b_K.shape)
    np.testing.assert_allclose(eq.self_attention(replace(Psi, b_K=moved), X, S), before)
    assert differ(eq.self_attention(replace(Psi, b_Q=moved), X, S), before)


@pytest.mark.erratum("E17")
def test_as_printed_the_scores_of_25_are_not_those_of_28(rng):
    Psi = eq.Head(**{f"W_{letter}": rng.normal(size=(8, 4)) for letter in "QKV"})
    X, S = rng.normal(size=(8, 6)), np.zeros((6, 6))
    q, k, v = eq.query_key_value(Psi, X)
    by_torch = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v))).numpy()
    np.testing.assert_allclose(eq.self_attention(Psi, X, S), by_torch)
    assert differ(eq.attended_values(eq.attention_scores(q, k, S), v), by_torch)
    scaled = eq.attention_scores(q, k, S, scale=1 / math.sqrt(4))
    np.testing.assert_allclose(eq.attended_values(scaled, v), by_torch)


@pytest.mark.erratum("E17")
def test_as_printed_the_sum_of_26_leaves_out_what_comes_after_the_fourth_token(rng):
    mu, v = eq.softmax(rng.normal(size=(6, 6)), axis=-1), rng.normal(size=(6, 4))
    assert (mu[:, :4].sum(axis=1) < 1).all()
    assert differ(mu[:, :4] @ v[:4], eq.attended_values(mu, v))
    W_O = rng.normal(size=(4, 8))
    A = eq.project_all_heads(eq.Attention(Psi=(), W_O=W_O), mu @ v)
    for i in range(6):
        np.testing.assert_allclose(eq.project_heads(W_O, (mu @ v)[i]), A[:, i])


@pytest.mark.erratum("E18")
def test_neither_mask_of_29_keeps_padding_from_being_attended_to():
    theta, real = bert(), np.array([True, True, True, False, False])
    alone = eq.bert_states(theta, eq.OneHot([1, 2, 3], 7))
    padded = eq.OneHot([1, 2, 3, 0, 0], 7)
    assert differ(eq.bert_states(theta, padded)[:, :3], alone)
    np.testing.assert_allclose(eq.bert_states(theta, padded, real=real)[:, :3], alone)
    model, ids = hugging_face_bert(BertModel), torch.tensor([[1, 2, 3, 0, 0]])
    with torch.no_grad():
        by_itself = model(ids[:, :3]).last_hidden_state
        masked = model(ids, attention_mask=torch.tensor(real[None])).last_hidden_state
    assert torch.allclose(masked[:, :3], by_itself)


@pytest.mark.erratum("E18")
def test_a_row_of_nothing_but_minus_infinity_has_no_softmax():
    with np.errstate(invalid="ignore"):
        assert np.isnan(eq.softmax(np.full(3, -np.inf))).all()
    with pytest.raises(WrongLength, match="nothing but padding"):
        eq.padding_mask(np.array([False, False]))


@pytest.mark.erratum("E19")
@pytest.mark.parametrize(("order", "other"), [("post", "pre"), ("pre", "post")])
def test_both_orders_of_figure_14_are_those_of_pytorch(order, other, rng):
    layer, H, S = encoder_layer(order == "pre"), rng.normal(size=(8, 5)), np.zeros((5, 5))
    by_torch = layer(torch.tensor(H.T[None]))[0].numpy().T
    np.testing.assert_allclose(eq.transformer_block(block(layer, order), H, S), by_torch)
    assert differ(eq.transformer_block(block(layer, other), H, S), by_torch)


@pytest.mark.erratum("E19")
def test_gpt2_starts_from_7_and_normalises_before_attention():
    model, ids, seen = hugging_face_gpt2(), torch.tensor([[3, 1, 4]]), []
    first = model.transformer.h[0].ln_1
    first.register_forward_hook(lambda module, given, normed: seen.extend([given[0], normed]))
    with torch.no_grad():
        model(ids)
        E, Lambda = (
            part.weight.numpy().T for part in (model.transformer.wte, model.transformer.wpe)
        )
    H_0, H_bar = (states[0].numpy().T for states in seen)
    X = eq.embed(E, eq.OneHot(ids[0].numpy(), 11))
    np.testing.assert_allclose(eq.add_positions(eq.positions(Lambda, X), X), H_0)
    first.requires_grad_(False)
    np.testing.assert_allclose(eq.before_attention(norm(first), H_0), H_bar)


@pytest.mark.erratum("E19")
def test_a_block_of_bert_and_one_of_gpt2_differ_where_no_mask_can_matter(rng):
    layer, H, S = encoder_layer(False), rng.normal(size=(8, 1)), eq.attention_mask(1, causal=True)
    np.testing.assert_array_equal(S, eq.attention_mask(1, causal=False))
    like_bert, like_gpt2 = (block(layer, bert().Phi[0].order), block(layer, gpt2().order))
    assert differ(eq.transformer_block(like_bert, H, S), eq.transformer_block(like_gpt2, H, S))


@pytest.mark.erratum("E20")
def test_as_printed_the_norm_of_a_constant_column_is_no_number():
    x, beta = np.full(4, 3.0), np.array([1.0, 2.0, 3.0, 4.0])
    with np.errstate(invalid="ignore"):
        assert np.isnan((x - x.mean()) / x.std()).all()
    Xi = eq.Norm(alpha=np.ones(4), beta=beta, epsilon=1e-5)
    np.testing.assert_array_equal(eq.layer_norm(Xi, x), beta)
    by_torch = F.layer_norm(torch.tensor(x), (4,), bias=torch.tensor(beta), eps=1e-5)
    np.testing.assert_array_equal(by_torch.numpy(), beta)


@pytest.mark.erratum("E20")
def test_every_published_model_has_an_epsilon():
    assert configuration("gpt2").epsilon == GPT2Config().layer_norm_epsilon == 1e-5
    assert configuration("bert").epsilon == BertConfig().layer_norm_eps == 1e-12
    assert configuration("vit").epsilon == ViTConfig().layer_norm_eps == 1e-12


@pytest.mark.erratum("E20")
def test_a_sum_to_another_d_than_d_e_does_not_give_unit_variance(rng):
    x, d = rng.normal(size=8), 4
    centred = x - x.mean()
    as_printed = centred / np.sqrt((centred[:d] ** 2).sum() / 8)
    Xi = eq.Norm(alpha=np.ones(8), beta=np.zeros(8), epsilon=0.0)
    assert differ(as_printed.var(), 1)
    assert eq.layer_norm(Xi, x).var() == pytest.approx(1)


@pytest.mark.erratum("E21")
def test_the_two_forms_of_gelu_differ_and_each_model_has_its_own():
    x = np.linspace(-6, 6, 120_001)
    exact, approximate = eq.gelu(x), eq.gelu_tanh(x)
    assert np.abs(exact - approximate).max() == pytest.approx(4.73e-4, rel=1e-2)
    np.testing.assert_allclose(exact, F.gelu(torch.tensor(x)).numpy(), atol=1e-12)
    by_torch = F.gelu(torch.tensor(x), approximate="tanh").numpy()
    np.testing.assert_allclose(approximate, by_torch, atol=1e-12)
    assert (BertConfig().hidden_act, configuration("bert").activation) == ("gelu", "gelu")
    assert GPT2Config().activation_function == "gelu_new"
    assert configuration("gpt2").activation == "gelu_tanh"


@pytest.mark.erratum("E22")
def test_the_first_gpt_normalises_after_each_sublayer_and_has_no_norm_of_embeddings():
    config = OpenAIGPTConfig(vocab_size=11, n_positions=8, n_embd=8, n_layer=3, n_head=2)
    model, seen = randomised(OpenAIGPTModel(config)), []
    norms = [module for name, module in model.named_modules() if ".ln_" in name]
    assert len(norms) == 2 * 3
    norms[-1].register_forward_hook(lambda module, given, normed: seen.append(normed))
    with torch.no_grad():
        assert torch.equal(model(torch.tensor([[1, 2, 3]])).last_hidden_state, seen[0])
    settings = {"vocabulary": 11, "context": 8, "embedding": 8, "layers": 3, "heads": 2}
    theta = random_parameters(configuration("transformer", **settings), seed=1)
    gains = [name for name, _ in eq.arrays(theta) if name.endswith("alpha")]
    assert len(gains) == 2 * 3 + 1
    assert "Xi_e.alpha" in gains


@pytest.mark.erratum("E22")
def test_the_scaling_of_vaswani_et_al_gives_another_input_than_39(rng):
    Lambda, X = eq.sinusoidal_positions(8, 5), rng.normal(size=(8, 5))
    Xi = eq.Norm(alpha=np.ones(8), beta=np.zeros(8), epsilon=1e-5)
    as_published = eq.add_positions(Lambda, math.sqrt(8) * X)
    assert differ(eq.normalise_embeddings(Xi, Lambda, X), as_published)
    assert differ(eq.normalise_embeddings(Xi, Lambda, X), eq.layer_norm(Xi, as_published))


@pytest.mark.erratum("E23")
def test_mikolovs_input_matrix_is_the_product_of_w_and_e(rng):
    E, before, omega = rng.normal(size=(4, 7)), rng.normal(size=4), eq.one_hot(2, 7)
    weights = {name: rng.normal(size=(4, 4)) for name in "WU"}
    Phi = eq.Elman(**weights, b=np.zeros(4), g=eq.sigmoid)
    in_one = replace(Phi, W=Phi.W @ E)
    two_steps = eq.elman(Phi, eq.embed(E, omega), before)
    np.testing.assert_allclose(two_steps, eq.elman(in_one, omega, before))
    V, h = 10_000, 200
    published = V * h + h * h + h * V
    assert count("mikolov-2010").total == published + h * h + h


@pytest.mark.erratum("E24")
@pytest.mark.parametrize(("d_i", "d_o"), [(5, 5), (3, 5)])
def test_pytorch_counts_each_bias_of_a_recurrent_layer_twice(d_i, d_o):
    elman = size_on_paper(lambda sizes: torch.nn.RNN(*sizes), (d_i, d_o))
    lstm = size_on_paper(lambda sizes: torch.nn.LSTM(*sizes), (d_i, d_o))
    settings = {"vocabulary": 7, "embedding": d_i, "hidden": d_o, "layers": 1, "tied": False}
    layers = [
        next(row.count for row in count(family, **settings).rows if row.symbol.startswith("Φ"))
        for family in ("rnn", "lstm")
    ]
    assert layers == [elman - d_o, lstm - 4 * d_o]
    assert layers[1] == eq.lstm_parameters(d_i, d_o)
    assert (layers[0] == eq.elman_parameters(d_o)) == (d_i == d_o)


@pytest.mark.erratum("E24")
def test_the_two_biases_of_pytorch_act_as_their_sum(rng):
    layer = randomised(torch.nn.RNN(3, 5)).requires_grad_(False)
    Phi = eq.Elman(
        W=layer.weight_ih_l0.numpy(),
        U=layer.weight_hh_l0.numpy(),
        b=(layer.bias_ih_l0 + layer.bias_hh_l0).numpy(),
        g=eq.tanh,
    )
    X = rng.normal(size=(3, 4))
    by_torch = layer(torch.tensor(X.T))[0].numpy().T
    np.testing.assert_allclose(eq.recurrent_states((Phi,), X), by_torch)


@pytest.mark.erratum("E25")
def test_segment_encodings_are_two_columns_and_not_n():
    theta = bert()
    assert theta.Lambda_s.shape == (8, 2)
    assert hugging_face_bert(BertModel).embeddings.token_type_embeddings.weight.shape == (2, 8)
    ids, segments = [1, 2, 3, 4, 5], [0, 0, 0, 1, 1]
    with tracing("H[0]") as steps:
        eq.bert_states(theta, eq.OneHot(ids, 7), segments)
    H = theta.Lambda_s[:, segments] + theta.Lambda_p[:, :5] + theta.E[:, ids]
    np.testing.assert_allclose(steps["H[0]"], eq.layer_norm(theta.Xi_e, H))
    row = next(row for row in count("bert").rows if row.symbol == "Λˢ")
    assert row.count == 2 * 768 != 512 * 768


@pytest.mark.erratum("E26")
def test_60_counts_a_pooler_that_hugging_faces_masked_model_lacks():
    sizes = {"d_e": 768, "n": 512, "L": 12, "M": 12, "d_k": 64, "d_v": 64, "d_f": 3072, "zeta": 1}
    as_printed = eq.bert_parameters(V=30522, **sizes)
    assert as_printed == count("bert", mlm_head=True).total == 110_104_890
    without_pooler = count("bert", mlm_head=True, pooler=False).total
    assert without_pooler == size_on_paper(BertForMaskedLM, BertConfig()) == 109_514_298
    assert as_printed - without_pooler == 768 * 769
    assert count("bert").total == size_on_paper(BertModel, BertConfig()) == 109_482_240
    assert size_on_paper(BertForPreTraining, BertConfig()) == as_printed + 2 * 769


@pytest.mark.erratum("E27")
def test_the_probability_of_62_is_given_the_first_token():
    theta, V = gpt2(vocabulary=3), 3

    def probability(w):
        Y_hat = eq.transformer_lm(theta, eq.OneHot(w[:-1], V))
        return math.exp(-eq.autoregressive_loss(Y_hat, np.array(w[1:])))

    p = {w: probability(w) for w in product(range(V), repeat=3)}
    assert sum(p.values()) == pytest.approx(V)
    for first in range(V):
        assert sum(p[w] for w in p if w[0] == first) == pytest.approx(1)
    of_the_output = np.mean([p[first, 1, 2] for first in range(V)])
    assert differ(-math.log(of_the_output), -math.log(p[0, 1, 2]))


@pytest.mark.erratum("E27")
def test_the_states_of_62_are_those_after_the_final_norm_in_gpt2():
    model, ids, seen = hugging_face_gpt2(), torch.tensor([[3, 1, 4, 1, 5]]), []
    final = model.transformer.ln_f
    final.register_forward_hook(lambda module, given, normed: seen.extend([given[0], normed]))
    with torch.no_grad():
        loss = 4 * model(ids, labels=ids).loss.item()
    of_the_blocks, after_the_norm = (states[0, :-1].numpy().T for states in seen)
    E, c = model.transformer.wte.weight.detach().numpy().T, ids[0, 1:].numpy()
    assert eq.autoregressive_loss_of_states(E, after_the_norm, c) == pytest.approx(loss)
    assert differ(eq.autoregressive_loss_of_states(E, of_the_blocks, c), loss)


@pytest.mark.erratum("E27")
def test_the_final_norm_stands_between_the_blocks_and_the_logits_in_variant_2():
    theta, Omega = gpt2(), eq.OneHot([1, 2, 3], 7)
    with tracing("H[2]") as steps:
        states = eq.transformer_states(theta, Omega)
    np.testing.assert_allclose(states, eq.layer_norm(theta.Xi_e, steps["H[2]"]))
    assert differ(states, steps["H[2]"])


@pytest.mark.erratum("E28")
def test_two_masked_places_of_a_sequence_have_different_distributions():
    mask, S_c = 6, [1, 6, 3, 6, 5]
    Y_hat = eq.masked_lm(bert(), eq.OneHot(S_c, 7))
    second, fourth = (
        eq.estimated_masked(lambda j, i, _: Y_hat[j, i - 1], S_c, i, 7) for i in (2, 4)
    )
    assert S_c[1] == S_c[3] == mask
    assert differ(second, fourth)
    np.testing.assert_array_equal(second, Y_hat[:, 1])


@pytest.mark.erratum("E29")
def test_the_last_form_of_67_leaves_out_the_head_and_its_bias():
    model = hugging_face_bert(BertForMaskedLM)
    c, m = np.array([1, 2, 3, 4, 5]), np.array([False, True, False, True, True])
    ids, labels = (torch.tensor(x[None]) for x in (eq.corrupt(c, m, 10), np.where(m, c, -100)))
    with torch.no_grad():
        found = model(ids, labels=labels, output_hidden_states=True)
    E = model.bert.embeddings.word_embeddings.weight.detach().numpy().T
    H = found.hidden_states[-1][0].numpy().T
    loss = 3 * found.loss.item()
    assert eq.masked_loss(found.logits[0].numpy().T, c, m) == pytest.approx(loss)
    assert differ(eq.masked_loss(E.T @ H, c, m), loss)


@pytest.mark.erratum("E29")
def test_read_as_the_input_x_i_of_67_would_ask_for_the_mask_itself():
    theta, mask = bert(), 6
    c, m = np.array([1, 2, 3, 4]), np.array([False, True, False, True])
    S_c = eq.corrupt(c, m, mask)
    Z = eq.bert_mlm_logits(theta, eq.bert_states(theta, eq.OneHot(S_c, 7)))
    as_printed = eq.masked_loss(Z, S_c, m)
    assert as_printed == pytest.approx(-np.log(eq.distributions(Z)[mask, m]).sum())
    assert differ(as_printed, eq.masked_loss(Z, c, m))


@pytest.mark.erratum("E30")
def test_vit_has_a_class_token_one_more_position_a_bias_and_the_norms_of_variant_2():
    settings = {"num_hidden_layers": 1, "num_labels": 1000}
    with torch.device("meta"):
        model = ViTForImageClassification(ViTConfig(**settings))
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert shapes["vit.embeddings.cls_token"] == (1, 1, 768)
    assert shapes["vit.embeddings.position_embeddings"] == (1, 14 * 14 + 1, 768)
    assert shapes["vit.embeddings.patch_embeddings.projection.bias"] == (768,)
    assert [name for name in shapes if "norm" in name and ".layers." not in name] == [
        "vit.layernorm.weight",
        "vit.layernorm.bias",
    ]
    theta = configuration("vit", layers=1).symbols()
    assert (theta["n"], theta["order"]) == (197, "pre")
    assert count("vit", layers=1).total == sum(map(math.prod, shapes.values()))
    assert configuration("bert").symbols()["order"] == "post"


@pytest.mark.erratum("E30")
def test_the_class_token_and_the_bias_change_what_enters_the_transformer(rng):
    config = configuration("vit", image=4, patch=2, layers=1, embedding=8, heads=2, classes=3)
    theta, Omega = random_parameters(config, seed=1), rng.normal(size=(12, 4))
    with tracing("H[0]") as steps:
        eq.vit_states(theta, Omega)
    assert steps["H[0]"].shape == (8, 5)
    X = theta.E @ Omega
    assert differ(steps["H[0]"][:, 1:], theta.Lambda[:, 1:] + X)
    np.testing.assert_allclose(steps["H[0]"][:, 1:], theta.Lambda[:, 1:] + X + theta.b_e[:, None])


@pytest.mark.erratum("E31")
def test_no_one_way_of_counting_gives_86_307_and_632_million():
    models = ("vit-base-patch16-224", "vit-large-patch16-224", "vit-huge-patch14-224")
    with_head = [round(count(name).total / 1e6) for name in models]
    without_head = [round(count(name, classes=0).total / 1e6) for name in models]
    assert with_head == [87, 304, 632]
    assert without_head == [86, 303, 631]
    large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
    large |= {"intermediate_size": 4096, "num_labels": 1000}
    for patch, total in ((16, 304_326_632), (32, 306_535_400)):
        config = ViTConfig(**large, patch_size=patch)
        assert size_on_paper(ViTForImageClassification, config) == total
        assert count(f"vit-large-patch{patch}-224").total == total


@pytest.mark.erratum("E32")
def test_channels_are_z_scored_and_not_the_vectors_of_the_time_steps(rng):
    Omega = rng.normal(3, 2, size=(4, 50))
    as_printed = ((Omega - Omega.mean(axis=0)) / Omega.std(axis=0)).mean(axis=1)
    assert differ(as_printed, 0)
    np.testing.assert_allclose(eq.z_score(Omega).mean(axis=1), 0, atol=1e-12)
    one_channel = Omega[:1]
    assert (one_channel - one_channel.mean(axis=0) == 0).all()
    assert eq.z_score(one_channel).std() == pytest.approx(1)


@pytest.mark.erratum("E32")
def test_tst_scales_its_projection_activates_its_output_and_zeroes_padding(rng):
    config = configuration("tst", channels=3, context=5, embedding=8, heads=2)
    theta = replace(random_parameters(config, seed=1), Phi=())
    Omega = rng.normal(size=(3, 5))
    X = theta.E @ Omega + theta.b_e[:, None]
    as_published = F.gelu(torch.tensor(math.sqrt(8) * X + theta.Lambda)).numpy()
    np.testing.assert_allclose(eq.tst_states(theta, Omega), as_published)
    assert differ(eq.tst_states(theta, Omega), X + theta.Lambda)
    as_published[:, 3:] = 0
    z = theta.Pi_Y.W @ as_published.T.ravel() + theta.Pi_Y.b
    np.testing.assert_allclose(eq.tst_outputs(theta, Omega[:, :3]), z)
    assert count("tst", context=58).total - count("tst").total == 29 * 64 * (9 + 1)


@pytest.mark.erratum("E32")
def test_batch_normalisation_uses_what_was_gathered_in_training(rng):
    module = torch.nn.BatchNorm1d(8).double()
    module(torch.tensor(rng.normal(2, 3, size=(64, 8))))
    module.eval().requires_grad_(False)
    statistics = {"mean": module.running_mean.numpy(), "variance": module.running_var.numpy()}
    X = rng.normal(size=(8, 5))
    by_torch = module(torch.tensor(X.T)).numpy().T
    Xi = norm(module)
    gathered = replace(Xi, **statistics, normalisation="batch")
    np.testing.assert_allclose(eq.normalise(gathered, X), by_torch)
    assert differ(eq.normalise(Xi, X), by_torch)


@pytest.mark.erratum("E33")
def test_a_mask_that_is_added_hides_nothing_and_one_that_is_multiplied_hides_what_it_should(rng):
    M = np.array([[True, False, True, True], [False, True, True, False]])
    Omega = rng.normal(size=(2, 4))
    other = np.where(M, Omega, rng.normal(size=(2, 4)))
    assert differ(Omega + M, other + M)
    np.testing.assert_array_equal(eq.mask_series(M, Omega), eq.mask_series(M, other))
    np.testing.assert_array_equal(eq.mask_series(M, Omega)[M], Omega[M])
    assert (eq.mask_series(M, Omega)[~M] == 0).all()


@pytest.mark.erratum("E33")
def test_a_channel_can_be_masked_before_the_projection_only(rng):
    E, Omega = rng.normal(size=(8, 2)), rng.normal(size=(2, 4))
    M = np.ones((2, 4), dtype=bool)
    M[0, 1] = False
    change = eq.project(E, np.zeros(8), eq.mask_series(M, Omega)) - E @ Omega
    assert (change[:, 1] != 0).all()
    np.testing.assert_allclose(change[:, [0, 2, 3]], 0, atol=1e-12)


@pytest.mark.erratum("E34")
def test_bert_has_not_30_000_words():
    sizes = {"uncased": 30522, "cased": 28996}
    assert BertConfig().vocab_size == sizes["uncased"]
    rounded = count("bert-base-uncased", vocabulary=30_000, mlm_head=True).total
    for case, V in sizes.items():
        exact = count(f"bert-base-{case}", mlm_head=True)
        assert exact.config.vocabulary == V
        assert exact.total - rounded == {"uncased": 401_418, "cased": -772_076}[case]


@pytest.mark.erratum("E35")
def test_words_that_are_alike_need_not_occur_together_and_words_that_do_need_not_be_alike():
    subjects, verbs = ("cat", "dog"), ("sleeps", "eats", "runs")
    corpus = [("the", subject, verb) for subject in subjects for verb in verbs]
    words = sorted({word for sentence in corpus for word in sentence})
    together = {(a, b): sum({a, b} <= {*s} for s in corpus) for a, b in product(words, repeat=2)}

    def neighbours(word):
        """How often each word stands right before it, and right after it."""
        pairs = [pair for s in corpus for pair in pairwise(s)]
        return np.array([pairs.count(pair) for w in words for pair in ((w, word), (word, w))])

    def alike(a, b):
        x, y = neighbours(a), neighbours(b)
        return x @ y / np.linalg.norm(x) / np.linalg.norm(y)

    assert together["cat", "dog"] == 0
    assert alike("cat", "dog") == pytest.approx(1)
    assert together["the", "cat"] == 3
    assert alike("the", "cat") == 0


@pytest.mark.erratum("E36")
def test_the_result_of_every_head_is_one_matrix_and_not_the_set_of_all(rng):
    Gamma, X, S = gpt2().Phi[0].Gamma, rng.normal(size=(8, 5)), np.zeros((5, 5))
    results = [eq.self_attention(Psi_m, X, S) for Psi_m in Gamma.Psi]
    assert [P_m.shape for P_m in results] == [(5, 4), (5, 4)]
    assert differ(*results)
    A = eq.project_all_heads(Gamma, np.hstack(results))
    np.testing.assert_allclose(A, eq.multi_head_attention(Gamma, X, S))


@pytest.mark.erratum("E37")
def test_vit_large_is_less_than_half_of_the_very_large_version():
    large, huge = (count(f"vit-{name}-224").total for name in ("large-patch16", "huge-patch14"))
    assert large < huge / 2


@pytest.mark.erratum("E38")
def test_the_first_way_of_table_7_has_the_token_of_the_sentence():
    tokens = WAYS[0]("I'm looking for a job in New York.")
    assert tokens[0] == "I'm"
    assert "I'am" not in tokens


def test_every_erratum_has_a_test_and_every_marked_test_an_erratum():
    marks = {
        call.args[0].value
        for call in ast.walk(ast.parse(Path(__file__).read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.erratum"
    }
    numbers = [erratum.number for erratum in errata.entries()]
    assert sorted(numbers, key=lambda n: int(n[1:])) == [f"E{i + 1}" for i in range(len(numbers))]
    assert marks == set(numbers)


@pytest.mark.parametrize("erratum", errata.entries(), ids=lambda erratum: erratum.number)
def test_every_erratum_says_its_kind_the_paper_practice_and_the_code(erratum):
    assert erratum.kind in errata.KINDS
    assert erratum.paper
    assert erratum.practice
    settings = {name for family in FAMILIES.values() for name in family.config.settings()}
    known = {*dir(eq), *vesalius.__all__, *settings, *names()}
    mentioned = set(re.findall(r"`([^`]+)`", erratum.code))
    assert mentioned
    for name in mentioned - known:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("erratum", errata.entries(), ids=lambda erratum: erratum.number)
def test_every_erratum_is_shown_with_the_equations_that_its_place_names(erratum):
    named = {int(number) for number in re.findall(r"\((\d+)\)", erratum.place)}
    assert named <= {number for number in erratum.equations if isinstance(number, int)}
    for key in erratum.equations:
        entry = eq.find(key)
        assert erratum in entry.errata
        assert erratum.title in [told["title"] for told in entry.to_json()["errata"]]
        assert entry.number == key or (entry.number is None and entry.name == key)


def test_the_page_of_equations_links_each_erratum_to_where_it_stands():
    anchors = set(re.findall(r'<a id="(e\d+)"></a>', (DOCS / "errata.md").read_text()))
    page = (DOCS / "equations.md").read_text()
    for entry in REGISTRY.values():
        place = page.split(f"\n### {entry.label} {entry.title}\n")[1].split("\n### ")[0]
        linked = re.findall(r"\(errata\.md#(e\d+)\)", place)
        assert linked == [erratum.number.lower() for erratum in entry.errata]
        assert set(linked) <= anchors
    assert "E17" in [erratum.number for erratum in numbered()[24].errata]
