"""The vision transformer (7.1): patches as words, a class token, variant 2 without a mask."""

import numpy as np
from jaxtyping import Bool, Float

from vesalius.equations.attention import attention_mask
from vesalius.equations.feedforward import dense
from vesalius.equations.parameters import Array, Dense, ViT, require_finite
from vesalius.equations.registry import formula
from vesalius.equations.rules import Given, Joined, Sum
from vesalius.equations.tracing import at
from vesalius.equations.transformer import add_positions, normalise_output, transformer_network
from vesalius.equations.words import positions
from vesalius.errors import VesaliusError, WrongLength


@formula(
    "7.1",
    r"\Omega = [\omega_1, \ldots, \omega_n] \in \mathcal{R}^{P^2 C \times n}, \quad n = HW / P^2",
    gives="Omega",
    rule=Given(),
)
def patches(image: Float[Array, "height width C"], P: int) -> Float[Array, "P2C n"]:
    """An image as a sequence of flattened patches, row by row.

    Ω = [ω₁, …, ωₙ],  ωᵢ = the i-th P × P × C patch as one vector,  n = H W / P²
    """
    height, width, C = image.shape
    if P < 1 or height % P or width % P:
        raise WrongLength(f"an image of {height} x {width} cannot be cut into {P} x {P} patches")
    grid = image.reshape(height // P, P, width // P, P, C).swapaxes(1, 2)
    return grid.reshape(-1, P * P * C).T


@formula(
    "7.2",
    r"x_i = E \omega_i + b_e \quad \forall i \in \{1, \ldots, n\}",
    gives="X_0",
    rule=Sum("E @ Omega", "b_e"),
)
def project(
    E: Float[Array, "d_e d_in"], b_e: Float[Array, " d_e"], Omega: Float[Array, "d_in n"]
) -> Float[Array, "d_e n"]:
    """Real-valued tokens as embeddings: patches of an image, time steps of a series.

    xᵢ = E ωᵢ + bₑ  for i = 1 … n
    """
    return E @ Omega + b_e[:, None]


@formula(
    "7.1", r"X = [x_{\mathrm{class}}, x_1, \ldots, x_n]", gives="X", rule=Joined("x_class", "X_0")
)
def prepend_class(
    x_class: Float[Array, " d_e"], X_0: Float[Array, "d_e n"]
) -> Float[Array, "d_e n+1"]:
    """The class token in front of the patches, as [CLS] in BERT.

    X = [x_class, x₁, …, xₙ]
    """
    return np.column_stack([x_class, X_0])


@formula("7.1", r"z = W^Y h_1^e + b^Y", gives="z", rule=Sum("Pi_Y.W @ H_e:1", "Pi_Y.b"))
def class_logits(Pi_Y: Dense, h_1: Float[Array, " d_e"]) -> Float[Array, " classes"]:
    """The class head, on the class token.

    z = Wʸ h₁ᵉ + bʸ
    """
    return dense(Pi_Y, h_1)


@formula(
    "7.1",
    r"\hat{\Omega} = W^R [h_2^e, \ldots, h_{n+1}^e] + b^R",
    gives="Omega_hat",
    rule=Sum("Pi_R.W @ H_e:c+1", "Pi_R.b"),
)
def reconstruct_patches(Pi_R: Dense, H: Float[Array, "d_e n"]) -> Float[Array, "P2C n"]:
    """The masked-patch head, on every patch.

    Ω̂ = Wᴿ [h₂ᵉ, …, hₙ₊₁ᵉ] + bᴿ
    """
    return dense(Pi_R, H)


def vit_states(
    theta: ViT, Omega: Float[Array, "P2C n"], masked: Bool[Array, " n"] | None = None
) -> Float[Array, "d_e n+1"]:
    """The normalised output of the transformer; the class token is the first column."""
    require_finite(theta)
    X = project(theta.E, theta.b_e, Omega)
    if masked is not None:
        if theta.x_mask is None:
            raise VesaliusError("this model has no masked-patch head; expected x_mask and Π_R")
        X = np.where(masked, theta.x_mask[:, None], X)
    X = prepend_class(theta.x_class, X)
    if X.shape[1] != theta.Lambda.shape[1]:
        raise WrongLength(
            f"the model reads {theta.Lambda.shape[1] - 1} patches, the image has {X.shape[1] - 1}"
        )
    with at(layer=0):
        H = add_positions(positions(theta.Lambda, X), X)
    H = transformer_network(theta.Phi, H, attention_mask(H.shape[1], causal=False))
    return normalise_output(theta.Xi_e, H)


def vit_class_logits(theta: ViT, Omega: Float[Array, "P2C n"]) -> Float[Array, " classes"]:
    """The vision transformer as a classifier of images."""
    if theta.Pi_Y is None:
        raise VesaliusError("this model has no class head; expected Π_Y")
    return class_logits(theta.Pi_Y, vit_states(theta, Omega)[:, 0])


def vit_patches(
    theta: ViT, Omega: Float[Array, "P2C n"], masked: Bool[Array, " n"]
) -> Float[Array, "P2C n"]:
    """The vision transformer as a restorer of masked patches."""
    H = vit_states(theta, Omega, masked)
    assert theta.Pi_R is not None
    return reconstruct_patches(theta.Pi_R, H[:, 1:])
