"""The transformer and its language model (4.3, 5.2): equations 7 to 11 and 32 to 39.

A block comes in the two orders of Figure 14: variant 1 normalises after each sublayer, variant 2
before it, and then the normalisation of the embeddings (39) moves to the output.
"""

import numpy as np
from jaxtyping import Float

from vesalius.equations.activations import softmax
from vesalius.equations.attention import attention_mask, multi_head_attention
from vesalius.equations.parameters import (
    Array,
    Attention,
    Block,
    Feedforward,
    Norm,
    TransformerLM,
    require_finite,
)
from vesalius.equations.registry import equation, formula
from vesalius.equations.rules import Mean, Normalised, Softmax, Sum
from vesalius.equations.tracing import at
from vesalius.equations.words import OneHot, embed, positions


@equation(7, "4.3", r"H^{[0]} = \Lambda + X", gives="H", rule=Sum("Lambda", "X"))
def add_positions(Lambda: Float[Array, "d_e n"], X: Float[Array, "d_e n"]) -> Float[Array, "d_e n"]:
    """The input of the transformer: embeddings with their positions.

    H[0] = Λ + X
    """
    return Lambda + X


@equation(
    35,
    "5.2",
    r"\mathrm{layerNorm}_{\{\alpha,\beta\}}(\varkappa) = \alpha \odot \varkappa' + \beta, \quad "
    r"\varkappa' = \frac{\varkappa - \mu}{\sqrt{\sigma^2 + \epsilon}}",
    gives="x",
    recorded=False,
)
def layer_norm(Xi: Norm, x: Float[Array, "d_e *n"]) -> Float[Array, "d_e *n"]:
    """Layer normalisation of a column, or of every column of a matrix.

    layerNorm(ϰ) = α ⊙ ϰ′ + β,  ϰ′ = (ϰ − μ) / √(σ² + ε)

    The paper has no ε; every published model does: 1e-5 in GPT-2, 1e-12 in BERT and ViT.
    """
    assert Xi.beta is not None
    centred = x - x.mean(axis=0)
    z_scored = centred / np.sqrt((centred * centred).mean(axis=0) + Xi.epsilon)
    return (Xi.alpha * z_scored.T + Xi.beta).T


@formula(
    "7.2",
    r"\mathrm{batchNorm}_{\{\alpha,\beta\}}(\varkappa) = "
    r"\alpha \odot \frac{\varkappa - \bar\mu}{\sqrt{\bar\sigma^2 + \epsilon}} + \beta",
)
def batch_norm(Xi: Norm, x: Float[Array, "d_e *n"]) -> Float[Array, "d_e *n"]:
    """Batch normalisation with the statistics gathered in training.

    batchNorm(ϰ) = α ⊙ (ϰ − μ̄) / √(σ̄² + ε) + β

    Mean and variance belong to a component over all tokens of the training batches, where layer
    normalisation takes those of a token over its components.
    """
    assert Xi.beta is not None
    assert Xi.mean is not None
    assert Xi.variance is not None
    return (Xi.alpha * (x.T - Xi.mean) / np.sqrt(Xi.variance + Xi.epsilon) + Xi.beta).T


@formula(
    "M.1",
    r"\mathrm{rmsNorm}_{\alpha}(\varkappa) = \alpha \odot "
    r"\frac{\varkappa}{\sqrt{\mathrm{mean}(\varkappa^2) + \epsilon}}",
)
def rms_norm(Xi: Norm, x: Float[Array, "d_e *n"]) -> Float[Array, "d_e *n"]:
    """Normalisation by the root of the mean square alone, without mean and bias.

    rmsNorm(ϰ) = α ⊙ ϰ / √(mean(ϰ²) + ε)

    Zhang and Sennrich (2019); iGPT, and nearly all language models since 2023.
    """
    return (Xi.alpha * (x / np.sqrt((x * x).mean(axis=0) + Xi.epsilon)).T).T


def normalise(Xi: Norm, x: Float[Array, "d_e *n"]) -> Float[Array, "d_e *n"]:
    """The normalisation of the set's kind."""
    if Xi.normalisation == "rms":
        return rms_norm(Xi, x)
    return batch_norm(Xi, x) if Xi.normalisation == "batch" else layer_norm(Xi, x)


@equation(
    33,
    "5.2",
    r"A^{[l]} = \mathrm{multiHeadAttention}_{\Gamma^{[l]}}\left(H^{[l-1]}\right)",
    gives="A",
    recorded=False,
)
def attention_sublayer(
    Gamma: Attention, H: Float[Array, "d_e n"], S: Float[Array, "n n"]
) -> Float[Array, "d_e n"]:
    """The attention sublayer of a block: (31) at layer l.

    A[l] = multiHeadAttention_Γ[l](H[l−1])
    """
    return multi_head_attention(Gamma, H, S)


@equation(
    34,
    "5.2",
    r"C^{[l]} = \mathrm{layerNorm}_{\Xi_1^{[l]}}\left(H^{[l-1]} + A^{[l]}\right)",
    gives="C",
    rule=Normalised("Phi[l].Xi_1", "H[l-1]", "A[l]"),
)
def after_attention(
    Xi_1: Norm, H: Float[Array, "d_e n"], A: Float[Array, "d_e n"]
) -> Float[Array, "d_e n"]:
    """The residual connection around attention, normalised.

    C[l] = layerNorm_Ξ₁[l](H[l−1] + A[l])
    """
    return normalise(Xi_1, H + A)


@formula(
    "5.2",
    r"F^{[l]} = \mathrm{GELU}\left(W_1^{[l]} C^{[l]} + b_1^{[l]}\right)",
    gives="F",
    rule=Sum("Phi[l].Pi.W_1 @ C_bar[l]|C[l]", "Phi[l].Pi.b_1", g="Phi[l].Pi.g"),
)
def neurons(Pi: Feedforward, c: Float[Array, "d_e *n"]) -> Float[Array, "d_f *n"]:
    """The inner half of (37): the activations of the d_f neurons.

    F[l] = GELU(W₁[l] C[l] + b₁[l])
    """
    return Pi.g((c.T @ Pi.W_1.T + Pi.b_1).T)


@equation(
    37,
    "5.2",
    r"d_i^{[l]} = \mathrm{ffnn}_{\Pi^{[l]}}\left(c_i^{[l]}\right) = W_2^{[l]}\,"
    r"\mathrm{GELU}\left(W_1^{[l]} c_i^{[l]} + b_1^{[l]}\right) + b_2^{[l]}",
    gives="D",
    recorded=False,
)
def ffnn(Pi: Feedforward, c: Float[Array, "d_e *n"]) -> Float[Array, "d_e *n"]:
    """The feedforward network of a block, on one token or on every column.

    dᵢ[l] = W₂[l] GELU(W₁[l] cᵢ[l] + b₁[l]) + b₂[l]
    """
    return (neurons(Pi, c).T @ Pi.W_2.T + Pi.b_2).T


@equation(
    36,
    "5.2",
    r"D^{[l]} = \left[\mathrm{ffnn}_{\Pi^{[l]}}(c_1^{[l]}), \ldots, "
    r"\mathrm{ffnn}_{\Pi^{[l]}}(c_n^{[l]})\right]",
    gives="D",
    rule=Sum("Phi[l].Pi.W_2 @ F[l]", "Phi[l].Pi.b_2"),
)
def feedforward_sublayer(Pi: Feedforward, C: Float[Array, "d_e n"]) -> Float[Array, "d_e n"]:
    """The feedforward sublayer of a block: (37) on every token.

    D[l] = [ffnn_Π[l](c₁[l]), …, ffnn_Π[l](cₙ[l])]

    All columns in one product: the same numbers, and the weights are read once.
    """
    return ffnn(Pi, C)


@equation(
    38,
    "5.2",
    r"H^{[l]} = \mathrm{layerNorm}_{\Xi_2^{[l]}}\left(C^{[l]} + D^{[l]}\right)",
    gives="H",
    rule=Normalised("Phi[l].Xi_2", "C[l]", "D[l]"),
)
def after_feedforward(
    Xi_2: Norm, C: Float[Array, "d_e n"], D: Float[Array, "d_e n"]
) -> Float[Array, "d_e n"]:
    """The residual connection around the feedforward network, normalised: the block's output.

    H[l] = layerNorm_Ξ₂[l](C[l] + D[l])
    """
    return normalise(Xi_2, C + D)


@formula(
    "5.2",
    r"\bar{H}^{[l]} = \mathrm{layerNorm}_{\Xi_1^{[l]}}\left(H^{[l-1]}\right)",
    gives="H_bar",
    rule=Normalised("Phi[l].Xi_1", "H[l-1]"),
)
def before_attention(Xi_1: Norm, H: Float[Array, "d_e n"]) -> Float[Array, "d_e n"]:
    """The input of attention in variant 2, normalised.

    H̄[l] = layerNorm_Ξ₁[l](H[l−1])
    """
    return normalise(Xi_1, H)


@formula("5.2", r"C^{[l]} = H^{[l-1]} + A^{[l]}", gives="C", rule=Sum("H[l-1]", "A[l]"))
def residual_after_attention(
    H: Float[Array, "d_e n"], A: Float[Array, "d_e n"]
) -> Float[Array, "d_e n"]:
    """The residual connection around attention in variant 2.

    C[l] = H[l−1] + A[l]
    """
    return H + A


@formula(
    "5.2",
    r"\bar{C}^{[l]} = \mathrm{layerNorm}_{\Xi_2^{[l]}}\left(C^{[l]}\right)",
    gives="C_bar",
    rule=Normalised("Phi[l].Xi_2", "C[l]"),
)
def before_feedforward(Xi_2: Norm, C: Float[Array, "d_e n"]) -> Float[Array, "d_e n"]:
    """The input of the feedforward network in variant 2, normalised.

    C̄[l] = layerNorm_Ξ₂[l](C[l])
    """
    return normalise(Xi_2, C)


@formula("5.2", r"H^{[l]} = C^{[l]} + D^{[l]}", gives="H", rule=Sum("C[l]", "D[l]"))
def residual_after_feedforward(
    C: Float[Array, "d_e n"], D: Float[Array, "d_e n"]
) -> Float[Array, "d_e n"]:
    """The residual connection around the feedforward network in variant 2: the block's output.

    H[l] = C[l] + D[l]
    """
    return C + D


@equation(
    32,
    "5.2",
    r"H^{[l]} = \mathrm{transBlock}_{\Phi^{[l]}}\left(H^{[l-1]}\right)",
    gives="H",
    recorded=False,
)
def transformer_block(
    Phi_l: Block, H: Float[Array, "d_e n"], S: Float[Array, "n n"]
) -> Float[Array, "d_e n"]:
    """One transformer block, in either order of Figure 14.

    H[l] = transBlock_Φ[l](H[l−1])
    """
    if Phi_l.order == "post":
        A = attention_sublayer(Phi_l.Gamma, H, S)
        C = after_attention(Phi_l.Xi_1, H, A)
        D = feedforward_sublayer(Phi_l.Pi, C)
        return after_feedforward(Phi_l.Xi_2, C, D)
    A = attention_sublayer(Phi_l.Gamma, before_attention(Phi_l.Xi_1, H), S)
    C = residual_after_attention(H, A)
    D = feedforward_sublayer(Phi_l.Pi, before_feedforward(Phi_l.Xi_2, C))
    return residual_after_feedforward(C, D)


@equation(
    8, "4.3", r"H^{[L]} = \mathrm{transformer}_\Phi\left(H^{[0]}\right)", gives="H", recorded=False
)
def transformer_network(
    Phi: tuple[Block, ...], H: Float[Array, "d_e n"], S: Float[Array, "n n"]
) -> Float[Array, "d_e n"]:
    """The transformer: its blocks (32), one after the other.

    H[L] = transformer_Φ(H[0])
    """
    S = S.astype(H.dtype)
    for l, Phi_l in enumerate(Phi, 1):
        with at(layer=l):
            H = transformer_block(Phi_l, H, S)
    return H


@equation(
    39,
    "5.2",
    r"H^{[0]} = \mathrm{layerNorm}_{\Xi_e}(\Lambda + X)",
    gives="H",
    rule=Normalised("Xi_e", "Lambda", "X"),
)
def normalise_embeddings(
    Xi_e: Norm, Lambda: Float[Array, "d_e n"], X: Float[Array, "d_e n"]
) -> Float[Array, "d_e n"]:
    """The input of the transformer, normalised.

    H[0] = layerNorm_Ξₑ(Λ + X)
    """
    return normalise(Xi_e, Lambda + X)


@formula(
    "5.2",
    r"H^e = \mathrm{layerNorm}_{\Xi_e}\left(H^{[L]}\right)",
    gives="H_e",
    rule=Normalised("Xi_e", "H[L]"),
)
def normalise_output(Xi_e: Norm, H: Float[Array, "d_e n"]) -> Float[Array, "d_e n"]:
    """The output of the transformer in variant 2, normalised.

    Hᵉ = layerNorm_Ξₑ(H[L])
    """
    return normalise(Xi_e, H)


@equation(
    9,
    "4.3",
    r"z_i = U h_i^{[L]} \quad \forall i \in \{1, \ldots, n\}",
    gives="Z",
    rule=Sum("U|E.T @ H_e|H[L]|h[L,c]", "b_U"),
)
def logits(
    U: Float[Array, "V d_L"], H: Float[Array, "d_L n"], b_U: Float[Array, " V"] | None = None
) -> Float[Array, "V n"]:
    """Logits of the next word after every token.

    zᵢ = U hᵢ[L]  for i = 1 … n

    Tied models have U = Eᵀ. Some published models add a bias b_U, which the paper leaves out.
    """
    return U @ H if b_U is None else U @ H + b_U[:, None]


@equation(
    10,
    "4.3",
    r"\hat{y}_i = \mathrm{softmax}(z_i) = "
    r"\left[\frac{\exp(z_i^{(k)})}{\sum_{j=1}^{|\mathcal{V}|} \exp(z_i^{(j)})}"
    r"\right]_{k=1}^{|\mathcal{V}|}"
    r" \quad \forall i \in \{1, \ldots, n\}",
    gives="Y_hat",
    rule=Softmax("Z"),
)
def distributions(Z: Float[Array, "V n"]) -> Float[Array, "V n"]:
    """The probability distribution over the vocabulary after every token.

    ŷᵢ = softmax(zᵢ)  for i = 1 … n
    """
    return softmax(Z)


@formula(
    "6.1",
    r"\bar{h} = \frac{1}{n} \sum_{i=1}^{n} h_i",
    gives="h_bar",
    rule=Mean("H_e|H[L]|h[L,c]"),
)
def mean_state(H: Float[Array, "d_L n"]) -> Float[Array, " d_L"]:
    """The mean of all tokens' states, which may stand for a text in place of one token's.

    h̄ = (h₁ + … + hₙ) / n

    No training is needed to make it hold the whole text, so that frozen models are read by it.
    """
    return np.asarray(H.mean(axis=1))


@formula("6.1", r"z = W^Y h", gives="z", rule=Sum("W_Y @ h_bar|H_e:n|H[L]:n|h[L,n]"))
def text_label_logits(
    W_Y: Float[Array, "labels d_L"], h: Float[Array, " d_L"]
) -> Float[Array, " labels"]:
    """The head of a language model that was fine-tuned: a text's labels, by one state.

    z = Wʸ h

    h is the last token's state hₙ, in variant 2 after the final normalisation, or the mean h̄.
    GPT-2's published classes have no bias here, so neither have the others.
    """
    return W_Y @ h


def transformer_states(theta: TransformerLM, Omega: OneHot) -> Float[Array, "d_e n"]:
    """What the logits are read from: H[L], normalised by Ξₑ in variant 2."""
    require_finite(theta)
    X = embed(theta.E, Omega)
    Lambda = positions(theta.Lambda, X)
    S = attention_mask(X.shape[1], theta.causal)
    with at(layer=0):
        H = (
            normalise_embeddings(theta.Xi_e, Lambda, X)
            if theta.order == "post"
            else add_positions(Lambda, X)
        )
    H = transformer_network(theta.Phi, H, S)
    return H if theta.order == "post" else normalise_output(theta.Xi_e, H)


def transformer_words(theta: TransformerLM, H: Float[Array, "d_e n"]) -> Float[Array, "V n"]:
    """The logits Z from what ``transformer_states`` gives."""
    return logits(theta.E.T if theta.U is None else theta.U, H)


def transformer_logits(theta: TransformerLM, Omega: OneHot) -> Float[Array, "V n"]:
    """The logits Z of the next token after every token of Ω."""
    return transformer_words(theta, transformer_states(theta, Omega))


@equation(11, "4.3", r"\hat{Y} = f_\theta(\Omega)", gives="Y_hat", recorded=False)
def transformer_lm(theta: TransformerLM, Omega: OneHot) -> Float[Array, "V n"]:
    """The transformer language model: tokens to the distributions of their successors.

    Ŷ = f_θ(Ω),  θ = {E, Λ, U, Φ}

    U is Eᵀ where the two are tied; 5.2 adds the normalisation Ξₑ.
    """
    return distributions(transformer_logits(theta, Omega))
