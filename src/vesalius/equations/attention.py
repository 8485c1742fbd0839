"""Self-attention (5.2): equations 24 to 31.

Equations 24 to 27 are written for one query in the paper; here they take one vector or a whole
sequence, so that 28 and 30 are made of them.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from vesalius.equations.activations import softmax
from vesalius.equations.parameters import Array, Attention, Head
from vesalius.equations.registry import Wording, equation, formula
from vesalius.equations.rules import Given, Scale, Softmax, Sum
from vesalius.equations.tracing import at
from vesalius.errors import WrongLength

BY_DIMENSION = Scale("1/√d_k", lambda q: 1 / math.sqrt(q[1]))


WITH_BIASES = Wording(
    r"q_i = x_i^\top W_m^Q + b_m^Q, \quad k_i = x_i^\top W_m^K + b_m^K, \quad "
    r"v_i = x_i^\top W_m^V + b_m^V",
    "qᵢ = xᵢᵀ W_Q + b_Q,  kᵢ = xᵢᵀ W_K + b_K,  vᵢ = xᵢᵀ W_V + b_V",
)


class QueryKeyValue(NamedTuple):
    q: Float[Array, "*n d_k"]
    k: Float[Array, "*n d_k"]
    v: Float[Array, "*n d_v"]


@equation(
    24,
    "5.2",
    r"q_i = x_i^\top W_m^Q, \quad k_i = x_i^\top W_m^K, \quad v_i = x_i^\top W_m^V",
    gives=("q", "k", "v"),
    wordings={"zeta_qkv": WITH_BIASES},
    rule=(
        Sum("H_bar[l].T|H[l-1].T @ Phi[l].Gamma.Psi[m].W_Q", "Phi[l].Gamma.Psi[m].b_Q.T"),
        Sum("H_bar[l].T|H[l-1].T @ Phi[l].Gamma.Psi[m].W_K", "Phi[l].Gamma.Psi[m].b_K.T"),
        Sum("H_bar[l].T|H[l-1].T @ Phi[l].Gamma.Psi[m].W_V", "Phi[l].Gamma.Psi[m].b_V.T"),
    ),
)
def query_key_value(Psi_m: Head, x: Float[Array, "d_e *n"]) -> QueryKeyValue:
    """Query, key and value of a token.

    qᵢ = xᵢᵀ W_Q,  kᵢ = xᵢᵀ W_K,  vᵢ = xᵢᵀ W_V

    Rows, unlike all other vectors of the paper. With ζ = 1 each has a bias of its own.
    """
    q, k, v = x.T @ Psi_m.W_Q, x.T @ Psi_m.W_K, x.T @ Psi_m.W_V
    if Psi_m.b_Q is not None:
        q, k, v = q + Psi_m.b_Q, k + Psi_m.b_K, v + Psi_m.b_V
    return QueryKeyValue(q, k, v)


@equation(
    25,
    "5.2",
    r"\mu_i = \mathrm{softmax}\left(\left[S_{i,1} + \frac{q_i \cdot k_1}{\sqrt{d_k}}, \ldots, "
    r"S_{i,n} + \frac{q_i \cdot k_n}{\sqrt{d_k}}\right]\right)",
    gives="mu",
    rule=Softmax("q[l,m] @ k[l,m].T", "S", by_row=True, scale=BY_DIMENSION),
)
def attention_scores(
    q: Float[Array, "*i d_k"],
    k: Float[Array, "n d_k"],
    S: Float[Array, "*i n"],
    scale: float = 1.0,
) -> Float[Array, "*i n"]:
    """How much a token attends to each token: the scores, which sum to one.

    μᵢ = softmax([Sᵢ,₁ + qᵢ·k₁ / √d_k, …, Sᵢ,ₙ + qᵢ·kₙ / √d_k])

    The paper prints (25) without the factor 1/√d_k, which its general form (28) and every model
    have: (28) passes it as ``scale``. The default, 1, gives (25) as printed.
    """
    return softmax(S + (q @ k.T) * scale, axis=-1)


@equation(
    26, "5.2", r"p_{i,m} = \sum_{j=1}^{n} \mu_{i,j} v_j", gives="P", rule=Sum("mu[l,m] @ v[l,m]")
)
def attended_values(mu: Float[Array, "*i n"], v: Float[Array, "n d_v"]) -> Float[Array, "*i d_v"]:
    """The values, weighted by the scores.

    pᵢ,ₘ = Σⱼ μᵢ,ⱼ vⱼ
    """
    return mu @ v


@equation(27, "5.2", r"a_i = \left(p_i W^O\right)^\top", gives="a")
def project_heads(W_O: Float[Array, "Md_v d_e"], p: Float[Array, " Md_v"]) -> Float[Array, " d_e"]:
    """The heads' results for one token, brought back to the embedding space.

    aᵢ = (pᵢ W_O)ᵀ
    """
    return (p @ W_O).T


@equation(
    28,
    "5.2",
    r"P_m = \mathrm{selfAttention}_{\Psi_m}(X) = \mathrm{softmax}\left(S + "
    r"\frac{X^\top W_m^Q {W_m^K}^\top X}{\sqrt{d_k}}\right) X^\top W_m^V",
    gives="P",
    recorded=False,
)
def self_attention(
    Psi_m: Head, X: Float[Array, "d_e n"], S: Float[Array, "n n"]
) -> Float[Array, "n d_v"]:
    """Self-attention of one head on a whole sequence.

    Pₘ = softmax(S + Xᵀ W_Q W_Kᵀ X / √d_k) Xᵀ W_V

    The softmax runs along the rows here, along the columns in (5) and (10).
    """
    q, k, v = query_key_value(Psi_m, X)
    mu = attention_scores(q, k, S, scale=1 / math.sqrt(k.shape[1]))
    return attended_values(mu, v)


@equation(
    29,
    "5.2",
    r"S_{i,j} = \begin{cases} -\infty & j > i \text{ (AR LM)} \\ 0 & \text{otherwise} \end{cases}",
    gives="S",
    rule=Given(),
)
def attention_mask(n: int, causal: bool) -> Float[Array, "n n"]:
    """The mask: causal for autoregressive models, zero for autoencoding ones.

    Sᵢ,ⱼ = −∞ where j > i in an AR LM, otherwise 0
    """
    S = np.zeros((n, n))
    if causal:
        S[np.triu_indices(n, k=1)] = -np.inf
    return S


@formula(
    "5.2", r"S_{i,j} = -\infty \text{ where token } j \text{ is padding}", gives="S", rule=Given()
)
def padding_mask(real: Bool[Array, " n"]) -> Float[Array, "n n"]:
    """The mask that keeps padding from being attended to.

    Sᵢ,ⱼ = −∞ where token j is padding, otherwise 0
    """
    if not real.any():
        raise WrongLength("expected at least one real token, got nothing but padding")
    return np.broadcast_to(np.where(real, 0.0, -np.inf), (len(real), len(real)))


@equation(
    30,
    "5.2",
    r"A = \left(P W^O\right)^\top",
    gives="A",
    wordings={"zeta": Wording(r"A = \left(P W^O + b^O\right)^\top", "A = (P W_O + b_O)ᵀ")},
    rule=Sum("Phi[l].Gamma.W_O.T @ P[l,*].T", "Phi[l].Gamma.b_O"),
)
def project_all_heads(Gamma: Attention, P: Float[Array, "n Md_v"]) -> Float[Array, "d_e n"]:
    """All heads' results, side by side, brought back to the embedding space.

    A = (P W_O)ᵀ

    With ζ = 1 the bias b_O is added to every token.
    """
    A = P @ Gamma.W_O
    return (A if Gamma.b_O is None else A + Gamma.b_O).T


@equation(31, "5.2", r"A = \mathrm{multiHeadAttention}_\Gamma(X)", gives="A", recorded=False)
def multi_head_attention(
    Gamma: Attention, X: Float[Array, "d_e n"], S: Float[Array, "n n"]
) -> Float[Array, "d_e n"]:
    """Multi-head attention: every head (28), then the projection (30).

    A = multiHeadAttention_Γ(X),  Γ = {W_O, Ψ₁ … Ψ_M}
    """
    P = []
    for m, Psi_m in enumerate(Gamma.Psi, 1):
        with at(head=m):
            P.append(self_attention(Psi_m, X, S))
    return project_all_heads(Gamma, np.concatenate(P, axis=1))
