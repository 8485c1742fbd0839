"""Self-attention (5.2): equations 24 to 31."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from agreement import agree
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax as scipy_softmax

from vesalius.equations import Attention as AttentionSet
from vesalius.equations import (
    Head,
    attended_values,
    attention_mask,
    attention_scores,
    multi_head_attention,
    padding_mask,
    project_all_heads,
    project_heads,
    query_key_value,
    self_attention,
)
from vesalius.errors import WrongLength

NEVER = -np.inf


def random_attention(rng, d_e=6, d_k=4, d_v=3, M=2, biased=True):
    def array(*shape):
        return rng.normal(size=shape)

    biases = {"b_Q": array(d_k), "b_K": array(d_k), "b_V": array(d_v)} if biased else {}
    heads = tuple(
        Head(W_Q=array(d_e, d_k), W_K=array(d_e, d_k), W_V=array(d_e, d_v), **biases)
        for _ in range(M)
    )
    return AttentionSet(Psi=heads, W_O=array(M * d_v, d_e), b_O=array(d_e) if biased else None)


@pytest.mark.proves(24)
def test_query_key_and_value_are_rows_made_of_the_token():
    head = Head(
        W_Q=np.array([[1.0, 2.0], [3.0, 4.0]]),
        W_K=np.array([[0.0, 1.0], [1.0, 0.0]]),
        W_V=np.array([[1.0], [-1.0]]),
    )
    q, k, v = query_key_value(head, np.array([10.0, 1.0]))
    assert q.tolist() == [13.0, 24.0]
    assert k.tolist() == [1.0, 10.0]
    assert v.tolist() == [9.0]


@pytest.mark.proves(24)
def test_optional_biases_are_added_to_query_key_and_value(rng):
    head = random_attention(rng).Psi[0]
    plain = dataclasses.replace(head, b_Q=None, b_K=None, b_V=None)
    X = rng.normal(size=(6, 5))
    for with_bias, without, bias in zip(
        query_key_value(head, X),
        query_key_value(plain, X),
        (head.b_Q, head.b_K, head.b_V),
        strict=True,
    ):
        agree(with_bias - without, np.tile(bias, (5, 1)))


@pytest.mark.proves(25)
def test_scores_of_the_papers_example_leave_the_fourth_token_out(rng):
    q, k = rng.normal(size=4), rng.normal(size=(4, 4))
    mu = attention_scores(q, k, np.array([0, 0, 0, NEVER]))
    agree(mu[:3], scipy_softmax([q @ k[0], q @ k[1], q @ k[2]]))
    assert mu[3] == 0


@pytest.mark.proves(26)
def test_values_are_weighted_by_scores():
    mu = np.array([0.5, 0.25, 0.25, 0.0])
    v = np.array([[4.0, 0.0], [8.0, 4.0], [0.0, -4.0], [99.0, 99.0]])
    assert attended_values(mu, v).tolist() == [4.0, 0.0]


@pytest.mark.proves(27, 30)
def test_heads_side_by_side_are_brought_back_token_by_token(rng):
    Gamma = random_attention(rng)
    P = rng.normal(size=(5, 6))
    A = project_all_heads(Gamma, P)
    by_hand = np.einsum("np,pe->en", P, Gamma.W_O) + Gamma.b_O[:, None]
    agree(A, by_hand)
    for i in range(5):
        a = project_heads(Gamma.W_O, P[i])
        agree(a, A[:, i] - Gamma.b_O)


@pytest.mark.proves(28)
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention_is_the_one_line_of_the_paper(rng, causal):
    head = random_attention(rng, biased=False).Psi[0]
    X, S = rng.normal(size=(6, 5)), attention_mask(5, causal)
    scores = S + X.T @ head.W_Q @ head.W_K.T @ X / math.sqrt(4)
    expected = scipy_softmax(scores, axis=1) @ X.T @ head.W_V
    agree(self_attention(head, X, S), expected)


@pytest.mark.proves(28)
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention_is_pytorchs_scaled_dot_product(rng, causal):
    head = random_attention(rng).Psi[0]
    X = rng.normal(size=(6, 5))
    q, k, v = (
        torch.nn.functional.linear(torch.tensor(X.T), torch.tensor(W.T), torch.tensor(b))
        for W, b in ((head.W_Q, head.b_Q), (head.W_K, head.b_K), (head.W_V, head.b_V))
    )
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    agree(self_attention(head, X, attention_mask(5, causal)), expected.numpy())


@pytest.mark.proves(29)
def test_the_mask_stands_as_printed():
    assert attention_mask(3, causal=True).tolist() == [[0, NEVER, NEVER], [0, 0, NEVER], [0, 0, 0]]
    assert attention_mask(2, causal=False).tolist() == [[0, 0], [0, 0]]


@pytest.mark.proves(29, 31)
def test_under_the_causal_mask_no_token_depends_on_a_later_one(rng):
    Gamma, X = random_attention(rng), rng.normal(size=(6, 5))
    changed = X.copy()
    changed[:, 3:] += 1
    S = attention_mask(5, causal=True)
    before, after = multi_head_attention(Gamma, X, S), multi_head_attention(Gamma, changed, S)
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert not np.allclose(before[:, 3:], after[:, 3:])


def test_padding_is_attended_to_by_nobody(rng):
    Gamma, X = random_attention(rng), rng.normal(size=(6, 5))
    real = np.array([True, True, False, True, False])
    padded = multi_head_attention(Gamma, X, padding_mask(real))
    alone = multi_head_attention(Gamma, X[:, real], attention_mask(3, causal=False))
    agree(padded[:, real], alone)


def test_nothing_but_padding_is_refused():
    with pytest.raises(WrongLength, match="nothing but padding"):
        padding_mask(np.array([False, False]))


@pytest.mark.proves(31)
@pytest.mark.parametrize("causal", [True, False])
def test_multi_head_attention_is_pytorchs(rng, causal):
    M, d = 3, 4  # PyTorch's layer has one width for all and shares it out among the heads
    Gamma = random_attention(rng, d_e=M * d, d_k=d, d_v=d, M=M)
    layer = torch.nn.MultiheadAttention(M * d, M, dtype=torch.float64, batch_first=True)
    stacked = [np.hstack([getattr(psi, W) for psi in Gamma.Psi]).T for W in ("W_Q", "W_K", "W_V")]
    biases = [np.hstack([getattr(psi, b) for psi in Gamma.Psi]) for b in ("b_Q", "b_K", "b_V")]
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.tensor(np.vstack(stacked)))
        layer.in_proj_bias.copy_(torch.tensor(np.hstack(biases)))
        layer.out_proj.weight.copy_(torch.tensor(Gamma.W_O.T))
        layer.out_proj.bias.copy_(torch.tensor(Gamma.b_O))
    X, S = rng.normal(size=(M * d, 5)), attention_mask(5, causal)
    x = torch.tensor(X.T)[None]
    expected, _ = layer(x, x, x, attn_mask=torch.tensor(S))
    A = multi_head_attention(Gamma, X, S)
    agree(A, expected[0].detach().numpy().T)


@pytest.mark.proves(31)
@given(*(st.integers(1, 5) for _ in range(5)), st.booleans())
def test_all_dimensions_of_attention_are_independent(d_e, d_k, d_v, M, n, biased):
    rng = np.random.default_rng(0)
    Gamma, X = random_attention(rng, d_e, d_k, d_v, M, biased), rng.normal(size=(d_e, n))
    assert multi_head_attention(Gamma, X, attention_mask(n, True)).shape == (d_e, n)
