"""BERT with its two heads (6.1): equations 51 to 59."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Integer

from vesalius.equations.activations import gelu, softmax
from vesalius.equations.attention import attention_mask, padding_mask
from vesalius.equations.feedforward import affine, dense
from vesalius.equations.parameters import Array, Bert, Block, Dense, Norm, require_finite
from vesalius.equations.registry import equation, formula
from vesalius.equations.rules import Normalised, Softmax, Sum
from vesalius.equations.tracing import at
from vesalius.equations.transformer import distributions, normalise, transformer_network
from vesalius.equations.words import OneHot, embed, positions
from vesalius.errors import VesaliusError, WrongLength


class Pair(NamedTuple):
    ids: Integer[Array, " n"]
    segments: Integer[Array, " n"]


@formula(
    "6.1",
    r"\mathcal{S} = (\mathrm{[CLS]}, a_1, \ldots, \mathrm{[SEP]}, b_1, \ldots, \mathrm{[SEP]})",
    gives=("S_in", "s_in"),
)
def sentence_pair(cls: int, sep: int, first: Sequence[int], second: Sequence[int] = ()) -> Pair:
    """BERT's input: one sentence or two, and which of them each token belongs to.

    S = ([CLS], a₁, …, [SEP], b₁, …, [SEP])  or  S = ([CLS], a₁, …, [SEP])
    """
    a, b = [cls, *first, sep], [*second, sep] if len(second) else []
    return Pair(np.array(a + b), np.array([0] * len(a) + [1] * len(b)))


@equation(
    51,
    "6.1",
    r"H^{[0]} = \mathrm{layerNorm}_{\Xi_e}\left(\Lambda^s + \Lambda^p + X\right)",
    gives="H",
    rule=Normalised("Xi_e", "Lambda_s:segments", "Lambda_p", "X"),
)
def normalise_bert_embeddings(
    Xi_e: Norm,
    Lambda_s: Float[Array, "d_e n"],
    Lambda_p: Float[Array, "d_e n"],
    X: Float[Array, "d_e n"],
) -> Float[Array, "d_e n"]:
    """The input of BERT's transformer: words, positions and segments, normalised.

    H[0] = layerNorm_Ξₑ(Λˢ + Λᵖ + X)
    """
    return normalise(Xi_e, Lambda_s + Lambda_p + X)


@equation(
    52, "6.1", r"H^{[L]} = \mathrm{transformer}_\Phi\left(H^{[0]}\right)", gives="H", recorded=False
)
def bert_transformer(
    Phi: tuple[Block, ...], H: Float[Array, "d_e n"], real: Bool[Array, " n"] | None = None
) -> Float[Array, "d_e n"]:
    """BERT's transformer: (8) without a causal mask.

    H[L] = transformer_Φ(H[0]),  S = 0

    Where ``real`` marks some tokens as padding, no token attends to those.
    """
    n = H.shape[1]
    S = attention_mask(n, causal=False) if real is None else padding_mask(real)
    return transformer_network(Phi, H, S)


@equation(
    53,
    "6.1",
    r"h_i^M = \mathrm{ffnn}_{\Pi^M}\left(h_i^{[L]}\right) = "
    r"\mathrm{GELU}\left(W^M h_i^{[L]} + b^M\right)",
    gives="H_M",
    rule=Sum("Pi_M.W @ H[L]", "Pi_M.b", g="Pi_M.g"),
)
def mlm_dense(Pi_M: Dense, H: Float[Array, "d_e n"]) -> Float[Array, "d_e n"]:
    """The dense layer of the MLM head, on every token.

    hᵢᴹ = GELU(Wᴹ hᵢ[L] + bᴹ)

    A model of another activation has that one in Πᴹ. Without any, it is the exact GELU.
    """
    g = gelu if Pi_M.g is None else Pi_M.g
    return g(affine(Pi_M, H))


@equation(
    54,
    "6.1",
    r"H^O = \mathrm{layerNorm}_{\Xi_m}\left(H^M\right)",
    gives="H_O",
    rule=Normalised("Xi_m", "H_M"),
)
def mlm_norm(Xi_m: Norm, H_M: Float[Array, "d_e n"]) -> Float[Array, "d_e n"]:
    """The normalisation of the MLM head.

    Hᴼ = layerNorm_Ξₘ(Hᴹ)
    """
    return normalise(Xi_m, H_M)


@equation(
    55,
    "6.1",
    r"z_i = E^\top h_i^O + b^E \quad \forall i \in \{1, \ldots, n\}",
    gives="Z",
    rule=Sum("E.T @ H_O", "b_E"),
)
def mlm_logits(
    E: Float[Array, "d_e V"], b_E: Float[Array, " V"], H_O: Float[Array, "d_e n"]
) -> Float[Array, "V n"]:
    """Logits of the word at every position, by the tied embedding matrix.

    zᵢ = Eᵀ hᵢᴼ + bᴱ  for i = 1 … n
    """
    return E.T @ H_O + b_E[:, None]


@equation(
    57,
    "6.1",
    r"h^C = \mathrm{ffnn}_{\Pi^C}\left(h_1^{[L]}\right) = \tanh\left(W^C h_1^{[L]} + b^C\right)",
    gives="h_C",
    rule=Sum("Pi_C.W @ H_e:1|H[L]:1", "Pi_C.b", g=np.tanh),
)
def pool(Pi_C: Dense, h_1: Float[Array, " d_e"]) -> Float[Array, " d_e"]:
    """The representation of the whole input, read from its [CLS] token.

    hᶜ = tanh(Wᶜ h₁[L] + bᶜ)
    """
    return np.tanh(affine(Pi_C, h_1))


@formula("6.1", r"z^C = W^N h^C + b^N", gives="z_C", rule=Sum("Pi_N.W @ h_C", "Pi_N.b"))
def nsp_logits(Pi_N: Dense, h_C: Float[Array, " d_e"]) -> Float[Array, " 2"]:
    """The logits of the NSP head.

    zᶜ = Wᴺ hᶜ + bᴺ
    """
    return dense(Pi_N, h_C)


@equation(
    58,
    "6.1",
    r"\hat{y}^C = \mathrm{ffnn}_{\Pi^N}\left(h^C\right) = "
    r"\mathrm{softmax}\left(W^N h^C + b^N\right)",
    gives="y_hat_C",
    rule=Softmax("z_C"),
)
def nsp_distribution(Pi_N: Dense, h_C: Float[Array, " d_e"]) -> Float[Array, " 2"]:
    """Whether the second sentence follows the first: two probabilities.

    ŷᶜ = softmax(Wᴺ hᶜ + bᴺ)
    """
    return softmax(nsp_logits(Pi_N, h_C))


@formula("6.1", r"z = W^Y h + b^Y", gives="z", rule=Sum("Pi_Y.W @ h_bar|h_C|H[L]", "Pi_Y.b"))
def label_logits(Pi_Y: Dense, h: Float[Array, "d_e *n"]) -> Float[Array, "labels *n"]:
    """The head of a fine-tuned BERT: on hᶜ for the sequence, or on H[L] for every token.

    z = Wʸ h + bʸ
    """
    return dense(Pi_Y, h)


def bert_states(
    theta: Bert,
    Omega: OneHot,
    segments: Sequence[int] | Integer[Array, " n"] | None = None,
    real: Bool[Array, " n"] | None = None,
) -> Float[Array, "d_e n"]:
    """H[L]: the backbone up to the heads. All tokens are of the first segment by default."""
    require_finite(theta)
    n = Omega.shape[1]
    segments = np.zeros(n, dtype=int) if segments is None else segments
    for what, companion in (("segments", segments), ("real", n * [True] if real is None else real)):
        if len(companion) != n:
            raise WrongLength(f"expected {n} {what}, one a token, got {len(companion)}")
    X = embed(theta.E, Omega)
    Lambda_s = theta.Lambda_s @ OneHot(segments, theta.Lambda_s.shape[1])
    Lambda_p = positions(theta.Lambda_p, X)
    with at(layer=0):
        H = normalise_bert_embeddings(theta.Xi_e, Lambda_s, Lambda_p, X)
    return bert_transformer(theta.Phi, H, real)


def bert_mlm_logits(theta: Bert, H: Float[Array, "d_e n"]) -> Float[Array, "V n"]:
    """The MLM head: (53) to (55)."""
    if theta.Pi_M is None or theta.Xi_m is None or theta.b_E is None:
        raise VesaliusError("this model has no MLM head; expected Π_M, Ξ_m and b_E")
    return mlm_logits(theta.E, theta.b_E, mlm_norm(theta.Xi_m, mlm_dense(theta.Pi_M, H)))


def bert_pooled(theta: Bert, H: Float[Array, "d_e n"]) -> Float[Array, " d_e"]:
    """hᶜ from the backbone's output: (57)."""
    if theta.Pi_C is None:
        raise VesaliusError("this model has no pooler; expected Π_C")
    return pool(theta.Pi_C, H[:, 0])


@equation(56, "6.1", r"\hat{Y} = f_{\theta^M}(\Omega)", gives="Y_hat", recorded=False)
def masked_lm(
    theta: Bert,
    Omega: OneHot,
    segments: Sequence[int] | Integer[Array, " n"] | None = None,
    real: Bool[Array, " n"] | None = None,
) -> Float[Array, "V n"]:
    """BERT as a masked language model: the distribution of the word at every position.

    Ŷ = f_θᴹ(Ω),  θᴹ = {E, Λˢ, Λᵖ, Ξₑ, Φ, Πᴹ, Ξₘ, bᴱ}
    """
    return distributions(bert_mlm_logits(theta, bert_states(theta, Omega, segments, real)))


@equation(59, "6.1", r"\hat{y}^C = \hat{f}_{\theta^N}(\Omega)", gives="y_hat_C", recorded=False)
def next_sentence(
    theta: Bert,
    Omega: OneHot,
    segments: Sequence[int] | Integer[Array, " n"] | None = None,
    real: Bool[Array, " n"] | None = None,
) -> Float[Array, " 2"]:
    """BERT as a judge of sentence pairs.

    ŷᶜ = f̂_θᴺ(Ω),  θᴺ = {E, Λˢ, Λᵖ, Ξₑ, Φ, Πᶜ, Πᴺ}
    """
    if theta.Pi_N is None:
        raise VesaliusError("this model has no NSP head; expected Π_N")
    H = bert_states(theta, Omega, segments, real)
    return nsp_distribution(theta.Pi_N, bert_pooled(theta, H))
