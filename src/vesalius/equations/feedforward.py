"""The feedforward language model (4.2, 5.1): equations 3 to 6 and 23."""

from jaxtyping import Float

from vesalius.equations.activations import softmax
from vesalius.equations.parameters import Array, Dense, FeedforwardLM, require_finite
from vesalius.equations.registry import equation, formula
from vesalius.equations.rules import Flattened, Softmax, Sum
from vesalius.equations.tracing import at
from vesalius.equations.words import OneHot, embed
from vesalius.errors import VesaliusError, WrongLength


@formula("5.1", r"y = g(W x + b)")
def dense(Phi: Dense, x: Float[Array, "d_in *n"]) -> Float[Array, "d_out *n"]:
    """One fully connected layer, on a vector or on all columns of a matrix.

    y = g(W x + b)

    Without g in Φ it is y = W x + b.
    """
    y = affine(Phi, x)
    return y if Phi.g is None else Phi.g(y)


def affine(Phi: Dense, x: Float[Array, "d_in *n"]) -> Float[Array, "d_out *n"]:
    """W x + b, whatever activation the set has."""
    # Transposed twice, so that b is added to a vector and to every column alike.
    return (x.T @ Phi.W.T + Phi.b).T


@equation(
    23,
    "5.1",
    r"h_n^{[l]} = g^{[l]}\left(W^{[l]} h_n^{[l-1]} + b^{[l]}\right) \quad "
    r"\forall l \in \{1, \ldots, L\}",
    gives="h",
    rule=Sum("Phi[l].W @ h[l-1]|h_0", "Phi[l].b", g="Phi[l].g"),
)
def feedforward_layer(Phi_l: Dense, h_below: Float[Array, " d_in"]) -> Float[Array, " d_out"]:
    """One layer of the feedforward network.

    hₙ[l] = g[l](W[l] hₙ[l−1] + b[l])
    """
    if Phi_l.g is None:
        raise VesaliusError(
            "expected a layer with an activation g, got one without; "
            'give one: g=ACTIVATIONS["linear"] leaves the values as they are'
        )
    return Phi_l.g(affine(Phi_l, h_below))


@equation(
    3, "4.2", r"h_n^{[L]} = \mathrm{ffnn}_\Phi\left(h_n^{[0]}\right)", gives="h", recorded=False
)
def feedforward_network(Phi: tuple[Dense, ...], h_0: Float[Array, " nd_e"]) -> Float[Array, " d_L"]:
    """The feedforward network: its layers (23), one after the other.

    hₙ[L] = ffnn_Φ(hₙ[0])
    """
    h = h_0
    for l, Phi_l in enumerate(Phi, 1):
        with at(layer=l):
            h = feedforward_layer(Phi_l, h)
    return h


@equation(4, "4.2", r"z_n = U h_n^{[L]}", gives="z", rule=Sum("U @ h[L]", "b_U"))
def logits_of_vector(
    U: Float[Array, "V d_L"], h: Float[Array, " d_L"], b_U: Float[Array, " V"] | None = None
) -> Float[Array, " V"]:
    """Logits of the next word.

    zₙ = U hₙ[L]

    Published models add a bias b_U, which the paper leaves out.
    """
    return U @ h if b_U is None else U @ h + b_U


@equation(
    5,
    "4.2",
    r"\hat{y}_n = \mathrm{softmax}(z_n) = "
    r"\left[\frac{\exp(z_n^{(i)})}{\sum_{j=1}^{|\mathcal{V}|} \exp(z_n^{(j)})}"
    r"\right]_{i=1}^{|\mathcal{V}|}",
    gives="y_hat",
    rule=Softmax("z"),
)
def distribution(z: Float[Array, " V"]) -> Float[Array, " V"]:
    """The probability distribution over the vocabulary.

    ŷₙ = softmax(zₙ)
    """
    return softmax(z)


@formula(
    "5.1",
    r"h_n^{[0]} = x_1 \oplus x_2 \oplus \cdots \oplus x_n",
    gives="h_0",
    rule=Flattened("H_e|X"),
)
def concatenate(X: Float[Array, "d_e n"]) -> Float[Array, " nd_e"]:
    """The input of the feedforward network: all embeddings in one vector.

    hₙ[0] = x₁ ⊕ x₂ ⊕ … ⊕ xₙ
    """
    return X.ravel(order="F")


def feedforward_logits(theta: FeedforwardLM, Omega: OneHot) -> Float[Array, " V"]:
    """The logits zₙ that the window Ω leads to."""
    require_finite(theta)
    d_e, n, window = theta.E.shape[0], Omega.shape[1], theta.Phi[0].W.shape[1]
    if n * d_e != window:
        raise WrongLength(
            f"a feedforward model reads a window of exactly {window // d_e} tokens, got {n}"
        )
    h = feedforward_network(theta.Phi, concatenate(embed(theta.E, Omega)))
    return logits_of_vector(theta.U, h, theta.b_U)


@equation(6, "4.2", r"\hat{y}_n = f_\theta(\Omega)", gives="y_hat", recorded=False)
def feedforward_lm(theta: FeedforwardLM, Omega: OneHot) -> Float[Array, " V"]:
    """The feedforward language model: a window of n tokens to the distribution of the next.

    ŷₙ = f_θ(Ω),  θ = {Φ, E, U}
    """
    return distribution(feedforward_logits(theta, Omega))
