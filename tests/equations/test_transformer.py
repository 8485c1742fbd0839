"""The transformer and its language model (4.3, 5.2): equations 7 to 11 and 32 to 39."""

import dataclasses

import numpy as np
import peers
import pytest
import torch
from agreement import agree
from scipy.special import softmax as scipy_softmax

from vesalius.equations import (
    Norm,
    OneHot,
    add_positions,
    after_attention,
    after_feedforward,
    attention_mask,
    attention_sublayer,
    batch_norm,
    distributions,
    feedforward_sublayer,
    ffnn,
    gelu,
    layer_norm,
    logits,
    multi_head_attention,
    normalise_embeddings,
    require_finite,
    rms_norm,
    transformer_block,
    transformer_lm,
    transformer_logits,
    transformer_network,
)
from vesalius.errors import EmptySequence, NotFinite, SequenceTooLong, TokenOutOfRange
from vesalius.families import configuration, random_parameters

SMALL = {"layers": 2, "embedding": 12, "heads": 3, "feedforward": 20, "vocabulary": 17}


def pytorch_layer(block, epsilon, norm_first):
    """PyTorch's own encoder layer with the numbers of a block."""
    d_e, M = block.Gamma.W_O.shape[1], len(block.Gamma.Psi)
    layer = torch.nn.TransformerEncoderLayer(
        d_e,
        M,
        dim_feedforward=len(block.Pi.b_1),
        dropout=0,
        activation="gelu",
        layer_norm_eps=epsilon,
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
    )
    side = peers.side_by_side
    numbers = {
        layer.self_attn.in_proj_weight: np.hstack(
            [side(block.Gamma, W) for W in ("W_Q", "W_K", "W_V")]
        ).T,
        layer.self_attn.in_proj_bias: np.hstack(
            [side(block.Gamma, b) for b in ("b_Q", "b_K", "b_V")]
        ),
        layer.self_attn.out_proj.weight: block.Gamma.W_O.T,
        layer.self_attn.out_proj.bias: block.Gamma.b_O,
        layer.linear1.weight: block.Pi.W_1,
        layer.linear1.bias: block.Pi.b_1,
        layer.linear2.weight: block.Pi.W_2,
        layer.linear2.bias: block.Pi.b_2,
        layer.norm1.weight: block.Xi_1.alpha,
        layer.norm1.bias: block.Xi_1.beta,
        layer.norm2.weight: block.Xi_2.alpha,
        layer.norm2.bias: block.Xi_2.beta,
    }
    with torch.no_grad():
        for parameter, array in numbers.items():
            parameter.copy_(peers.tensor(array))
    return layer


def model(seed=0, **changes):
    config = configuration("gpt2", context=9, **{**SMALL, **changes})
    return config, random_parameters(config, seed)


@pytest.mark.proves(7)
def test_positions_are_added_to_embeddings():
    Lambda, X = np.array([[1.0, 2.0]]), np.array([[10.0, 20.0]])
    assert add_positions(Lambda, X).tolist() == [[11.0, 22.0]]


@pytest.mark.proves(35)
@pytest.mark.parametrize("epsilon", [1e-5, 1e-12, 0.1])
def test_layer_normalisation_is_pytorchs_on_every_column(rng, epsilon):
    Xi = Norm(alpha=rng.normal(size=6), beta=rng.normal(size=6), epsilon=epsilon)
    X = rng.normal(size=(6, 4))
    expected = torch.nn.functional.layer_norm(
        torch.tensor(X.T), (6,), torch.tensor(Xi.alpha), torch.tensor(Xi.beta), epsilon
    )
    agree(layer_norm(Xi, X), expected.numpy().T)
    agree(layer_norm(Xi, X[:, 1]), expected.numpy()[1])


@pytest.mark.proves(35)
def test_a_normalised_column_has_zero_mean_and_unit_variance(rng):
    Xi = Norm(alpha=np.ones(50), beta=np.zeros(50), epsilon=0.0)
    x = layer_norm(Xi, rng.normal(3, 7, size=50))
    assert x.mean() == pytest.approx(0, abs=1e-14)
    assert x.var() == pytest.approx(1, abs=1e-14)


def test_normalisation_by_the_root_mean_square_is_pytorchs(rng):
    Xi = Norm(alpha=rng.normal(size=6), epsilon=1e-3, normalisation="rms")
    X = rng.normal(size=(6, 4))
    expected = torch.nn.functional.rms_norm(torch.tensor(X.T), (6,), torch.tensor(Xi.alpha), 1e-3)
    agree(rms_norm(Xi, X), expected.numpy().T)


def test_batch_normalisation_is_pytorchs(rng):
    Xi = Norm(
        alpha=rng.normal(size=6),
        beta=rng.normal(size=6),
        mean=rng.normal(size=6),
        variance=rng.uniform(0.5, 2, size=6),
        epsilon=1e-5,
        normalisation="batch",
    )
    X = rng.normal(size=(6, 4))
    statistics = (torch.tensor(Xi.mean), torch.tensor(Xi.variance))
    expected = torch.nn.functional.batch_norm(
        torch.tensor(X.T), *statistics, torch.tensor(Xi.alpha), torch.tensor(Xi.beta), eps=1e-5
    )
    agree(batch_norm(Xi, X), expected.numpy().T)


@pytest.mark.proves(33, 34, 38, 39)
def test_sublayers_are_attention_and_residuals_under_a_normalisation(rng):
    _, theta = model(variant=1)
    block = theta.Phi[0]
    H, other, S = rng.normal(size=(12, 4)), rng.normal(size=(12, 4)), attention_mask(4, True)
    A = attention_sublayer(block.Gamma, H, S)
    np.testing.assert_array_equal(A, multi_head_attention(block.Gamma, H, S))
    for function, Xi in (
        (after_attention, block.Xi_1),
        (after_feedforward, block.Xi_2),
        (normalise_embeddings, theta.Xi_e),
    ):
        layer = torch.nn.LayerNorm(12, eps=1e-5, dtype=torch.float64)
        layer.load_state_dict({"weight": peers.tensor(Xi.alpha), "bias": peers.tensor(Xi.beta)})
        expected = layer(torch.tensor((H + other).T)).detach().numpy().T
        agree(function(Xi, H, other), expected)


@pytest.mark.proves(36, 37)
def test_the_feedforward_network_treats_every_token_alone(rng):
    _, theta = model(activation="gelu")
    Pi, C = theta.Phi[0].Pi, rng.normal(size=(12, 4))
    network = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.GELU(), torch.nn.Linear(20, 12))
    state = {"0.weight": Pi.W_1, "0.bias": Pi.b_1, "2.weight": Pi.W_2, "2.bias": Pi.b_2}
    peers_network = network.double()
    peers_network.load_state_dict({name: peers.tensor(array) for name, array in state.items()})
    expected = peers_network(torch.tensor(C.T)).detach().numpy().T
    agree(feedforward_sublayer(Pi, C), expected)
    for i in range(4):
        agree(ffnn(Pi, C[:, i]), expected[:, i])


@pytest.mark.proves(32)
@pytest.mark.parametrize("variant", [1, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_a_block_of_either_variant_is_pytorchs_encoder_layer(rng, variant, causal):
    config, theta = model(variant=variant, activation="gelu")
    block = theta.Phi[0]
    assert block.Pi.g is gelu
    H, S = rng.normal(size=(12, 5)), attention_mask(5, causal)
    layer = pytorch_layer(block, config.epsilon, norm_first=variant == 2)
    expected = layer(torch.tensor(H.T)[None], src_mask=torch.tensor(S))[0].detach().numpy().T
    agree(transformer_block(block, H, S), expected)


@pytest.mark.proves(8)
@pytest.mark.parametrize("variant", [1, 2])
def test_a_transformer_is_its_blocks_in_a_row(rng, variant):
    config, theta = model(variant=variant, activation="gelu", layers=3)
    H, S = rng.normal(size=(12, 5)), attention_mask(5, causal=True)
    expected = torch.tensor(H.T)[None]
    for block in theta.Phi:
        layer = pytorch_layer(block, config.epsilon, norm_first=variant == 2)
        expected = layer(expected, src_mask=torch.tensor(S))
    expected = expected[0].detach().numpy().T
    agree(transformer_network(theta.Phi, H, S), expected)


@pytest.mark.proves(9, 10)
def test_logits_and_distributions_of_every_token(rng):
    U, H = rng.normal(size=(7, 3)), rng.normal(size=(3, 4))
    Z = logits(U, H)
    for v in range(7):
        for i in range(4):
            assert Z[v, i] == pytest.approx(sum(U[v, d] * H[d, i] for d in range(3)), abs=1e-14)
    agree(distributions(Z), scipy_softmax(Z, axis=0))


@pytest.mark.proves(11, 9)
def test_the_language_model_is_transformers_gpt2():
    config, theta = model()
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    expected = peers.gpt2(theta, config)(torch.tensor([ids])).logits[0].detach().numpy().T
    Z = transformer_logits(theta, OneHot(ids, 17))
    agree(Z, expected)
    Y_hat = transformer_lm(theta, OneHot(ids, 17))
    agree(Y_hat, scipy_softmax(expected, axis=0))


@pytest.mark.proves(11)
@pytest.mark.parametrize("tied", [True, False])
def test_the_language_model_of_variant_1_is_made_of_pytorchs_layers(tied):
    config = configuration(
        "transformer", context=9, **SMALL, attention_bias=True, activation="gelu", tied=tied
    )
    theta = random_parameters(config, 1)
    ids = [3, 1, 4, 1, 5]
    dimension = np.arange(12)[:, None] // 2 * 2
    angles = np.arange(5) / 10000 ** (dimension / 12)
    Lambda = np.where(np.arange(12)[:, None] % 2 == 0, np.sin(angles), np.cos(angles))
    x = torch.tensor((theta.E[:, ids] + Lambda).T)[None]
    Xi_e = theta.Xi_e
    x = torch.nn.functional.layer_norm(
        x, (12,), torch.tensor(Xi_e.alpha), torch.tensor(Xi_e.beta), config.epsilon
    )
    for block in theta.Phi:
        x = pytorch_layer(block, config.epsilon, False)(
            x, src_mask=torch.tensor(attention_mask(5, True))
        )
    U = theta.E.T if tied else theta.U
    expected = torch.softmax(x[0] @ torch.tensor(U.T), dim=-1).detach().numpy().T
    agree(transformer_lm(theta, OneHot(ids, 17)), expected)


def test_no_distribution_depends_on_a_later_token():
    _, theta = model()
    first, second = ([3, 1, 4, tail] for tail in (1, 5))
    before, after = (transformer_lm(theta, OneHot(ids, 17)) for ids in (first, second))
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert not np.allclose(before[:, 3], after[:, 3])


@pytest.mark.parametrize("family", ["gpt2", "transformer", "igpt"])
def test_single_precision_stays_single_and_agrees_with_double(family):
    config = configuration(family, context=9, **SMALL)
    Omega = OneHot([3, 1, 4, 1, 5], 17)
    single = transformer_logits(random_parameters(config, 0, np.float32), Omega)
    double = transformer_logits(random_parameters(config, 0, np.float64), Omega)
    assert single.dtype == np.float32
    agree(single, double, within=1e-5)


def test_nan_in_parameters_is_named():
    _, theta = model()
    Pi = theta.Phi[1].Pi
    W_1 = Pi.W_1.copy()
    W_1[3, 4] = np.nan
    broken = dataclasses.replace(theta.Phi[1], Pi=dataclasses.replace(Pi, W_1=W_1))
    theta = dataclasses.replace(theta, Phi=(theta.Phi[0], broken))
    with pytest.raises(NotFinite, match=r"parameters Phi\[2\]\.Pi\.W_1;"):
        transformer_lm(theta, OneHot([1, 2], 17))


def test_numbers_too_large_to_add_up_are_still_finite():
    _, theta = model()
    require_finite(dataclasses.replace(theta, Lambda=np.full((12, 9), 1e308)))


@pytest.mark.parametrize(
    ("ids", "error"),
    [([], EmptySequence), ([17], TokenOutOfRange), (list(range(10)), SequenceTooLong)],
)
def test_a_sequence_the_model_cannot_read_is_refused(ids, error):
    _, theta = model()
    with pytest.raises(error):
        transformer_lm(theta, OneHot(ids, 17))
