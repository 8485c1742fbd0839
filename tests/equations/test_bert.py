"""BERT with its two heads (6.1): equations 51 to 59."""

import numpy as np
import peers
import pytest
import torch
from agreement import agree
from scipy.special import softmax as scipy_softmax

from vesalius.equations import (
    Dense,
    Norm,
    OneHot,
    bert_mlm_logits,
    bert_pooled,
    bert_states,
    bert_transformer,
    gelu,
    gelu_tanh,
    masked_lm,
    mlm_dense,
    mlm_logits,
    mlm_norm,
    next_sentence,
    normalise_bert_embeddings,
    nsp_distribution,
    pool,
    sentence_pair,
)
from vesalius.errors import TokenOutOfRange, VesaliusError, WrongLength
from vesalius.families import configuration, random_parameters

CONFIG = configuration(
    "bert",
    layers=2,
    embedding=12,
    heads=3,
    feedforward=20,
    vocabulary=17,
    context=9,
    mlm_head=True,
    nsp_head=True,
)
IDS, SEGMENTS = [1, 5, 6, 2, 9, 10, 2], [0, 0, 0, 0, 1, 1, 1]


@pytest.fixture(scope="module")
def theta():
    return random_parameters(CONFIG, 0)


@pytest.fixture(scope="module")
def peer(theta):
    return peers.bert(theta, CONFIG)


def run(peer, ids, segments, real=None):
    attention_mask = None if real is None else torch.tensor([real.tolist()], dtype=torch.long)
    with torch.no_grad():
        return peer(
            torch.tensor([ids]),
            token_type_ids=torch.tensor([segments]),
            attention_mask=attention_mask,
            output_hidden_states=True,
        )


def test_a_sentence_pair_has_its_special_tokens_and_segments():
    ids, segments = sentence_pair(101, 102, [7, 8], [9])
    assert ids.tolist() == [101, 7, 8, 102, 9, 102]
    assert segments.tolist() == [0, 0, 0, 0, 1, 1]
    ids, segments = sentence_pair(101, 102, [7, 8])
    assert ids.tolist() == [101, 7, 8, 102]
    assert segments.tolist() == [0, 0, 0, 0]


@pytest.mark.proves(51)
def test_the_input_is_words_positions_and_segments_normalised(theta, peer):
    X = theta.E[:, IDS]
    Lambda_s, Lambda_p = theta.Lambda_s[:, SEGMENTS], theta.Lambda_p[:, :7]
    H = normalise_bert_embeddings(theta.Xi_e, Lambda_s, Lambda_p, X)
    expected = run(peer, IDS, SEGMENTS).hidden_states[0][0].numpy().T
    agree(H, expected)


@pytest.mark.proves(52)
def test_the_backbone_is_transformers_at_its_end(theta, peer):
    expected = run(peer, IDS, SEGMENTS).hidden_states
    H = bert_transformer(theta.Phi, expected[0][0].numpy().T)
    agree(H, expected[-1][0].numpy().T)


@pytest.mark.proves(53, 54, 55)
def test_the_mlm_head_is_dense_then_normalised_then_tied(rng):
    Pi_M = Dense(W=rng.normal(size=(6, 6)), b=rng.normal(size=6), g=gelu)
    Xi_m = Norm(alpha=rng.normal(size=6), beta=rng.normal(size=6), epsilon=1e-12)
    E, b_E, H = rng.normal(size=(6, 9)), rng.normal(size=9), rng.normal(size=(6, 4))
    F = torch.nn.functional
    h_M = F.gelu(F.linear(torch.tensor(H.T), torch.tensor(Pi_M.W), torch.tensor(Pi_M.b)))
    h_O = F.layer_norm(h_M, (6,), torch.tensor(Xi_m.alpha), torch.tensor(Xi_m.beta), 1e-12)
    z = F.linear(h_O, torch.tensor(E.T), torch.tensor(b_E))
    H_M = mlm_dense(Pi_M, H)
    H_O = mlm_norm(Xi_m, H_M)
    agree(H_M, h_M.numpy().T)
    agree(H_O, h_O.numpy().T)
    agree(mlm_logits(E, b_E, H_O), z.numpy().T)


@pytest.mark.parametrize("g", [None, np.tanh, gelu_tanh])
def test_the_pooler_applies_its_tanh_whatever_set_it_gets(rng, g):
    W, b, h_1 = rng.normal(size=(6, 6)), rng.normal(size=6), rng.normal(size=6)
    theirs = torch.tanh(torch.nn.functional.linear(*map(torch.tensor, (h_1, W, b))))
    agree(pool(Dense(W=W, b=b, g=g), h_1), theirs)


@pytest.mark.parametrize(("g", "approximate"), [(None, "none"), (gelu_tanh, "tanh")])
def test_the_mlm_head_applies_gelu_and_the_models_form_of_it_where_the_set_has_one(
    rng, g, approximate
):
    W, b, H = rng.normal(size=(6, 6)), rng.normal(size=6), rng.normal(size=(6, 4))
    inner = torch.nn.functional.linear(*map(torch.tensor, (H.T, W, b)))
    theirs = torch.nn.functional.gelu(inner, approximate=approximate)
    agree(mlm_dense(Dense(W=W, b=b, g=g), H), theirs.numpy().T)


@pytest.mark.proves(57, 58)
def test_pooler_and_nsp_head_by_hand():
    Pi_C = Dense(W=np.array([[1.0, 0.0], [0.0, 2.0]]), b=np.array([0.0, 1.0]))
    h_C = pool(Pi_C, np.array([0.5, -0.5]))
    assert h_C.tolist() == [np.tanh(0.5), 0.0]
    Pi_N = Dense(W=np.array([[0.0, 1.0], [0.0, -1.0]]), b=np.array([np.log(3), 0.0]))
    agree(nsp_distribution(Pi_N, h_C), [0.75, 0.25])


@pytest.mark.proves(56, 59)
@pytest.mark.parametrize("padded", [False, True])
def test_both_heads_are_transformers_bert_for_pre_training(theta, peer, padded):
    real = np.array([True] * 5 + [False] * 2) if padded else None
    Omega = OneHot(IDS, 17)
    expected = run(peer, IDS, SEGMENTS, real)
    H = bert_states(theta, Omega, SEGMENTS, real)
    keep = slice(None) if real is None else real
    mlm = expected.prediction_logits[0].numpy().T
    Z = bert_mlm_logits(theta, H)
    agree(Z[:, keep], mlm[:, keep])
    Y_hat = masked_lm(theta, Omega, SEGMENTS, real)
    agree(Y_hat[:, keep], scipy_softmax(mlm, axis=0)[:, keep])
    nsp = scipy_softmax(expected.seq_relationship_logits[0].numpy())
    agree(next_sentence(theta, Omega, SEGMENTS, real), nsp)


def test_all_tokens_are_of_the_first_segment_unless_said(theta):
    Omega = OneHot(IDS, 17)
    np.testing.assert_array_equal(bert_states(theta, Omega), bert_states(theta, Omega, [0] * 7))


def test_single_precision_stays_single(theta):
    Omega = OneHot(IDS, 17)
    H = bert_states(random_parameters(CONFIG, 0, np.float32), Omega, SEGMENTS)
    assert H.dtype == np.float32
    agree(H, bert_states(theta, Omega, SEGMENTS), within=2e-5)


def test_input_that_does_not_fit_is_refused(theta):
    with pytest.raises(WrongLength, match="expected 7 segments, one a token, got 2"):
        bert_states(theta, OneHot(IDS, 17), [0, 1])
    with pytest.raises(WrongLength, match="expected 7 real"):
        bert_states(theta, OneHot(IDS, 17), None, np.array([True]))
    with pytest.raises(TokenOutOfRange, match="token id 2 "):
        bert_states(theta, OneHot(IDS, 17), [0, 0, 0, 0, 1, 1, 2])


def test_a_head_that_is_not_there_is_named():
    bare = random_parameters(CONFIG.change(pooler=False, mlm_head=False, nsp_head=False), 0)
    Omega = OneHot(IDS, 17)
    for function, what in ((masked_lm, "MLM head"), (next_sentence, "NSP head")):
        with pytest.raises(VesaliusError, match=f"no {what}"):
            function(bare, Omega)
    with pytest.raises(VesaliusError, match="no pooler"):
        bert_pooled(bare, bert_states(bare, Omega))
