"""The time series transformer (7.2): time steps as words, channels masked one by one."""

import math

import numpy as np
from jaxtyping import Bool, Float

from vesalius.equations.attention import padding_mask
from vesalius.equations.feedforward import concatenate, dense
from vesalius.equations.parameters import TST, Activation, Array, Dense, require_finite
from vesalius.equations.registry import formula
from vesalius.equations.rules import Given, Scale, Sum
from vesalius.equations.tracing import at
from vesalius.equations.transformer import add_positions, transformer_network
from vesalius.equations.vision import project
from vesalius.equations.words import positions
from vesalius.errors import EmptySequence, NotFinite, SequenceTooLong, VesaliusError, WrongLength


@formula("7.2", r"\omega'_i = (\omega_i - \mu) / \sigma", gives="Omega")
def z_score(
    Omega: Float[Array, "C n"],
    mu: Float[Array, " C"] | None = None,
    sigma: Float[Array, " C"] | None = None,
) -> Float[Array, "C n"]:
    """A series with every channel at zero mean and unit deviation.

    ω′ᵢ = (ωᵢ − μ) / σ

    Mean and deviation come from the training data, or from the series itself where none are given.
    A channel that never changes becomes zero.
    """
    mu = Omega.mean(axis=1) if mu is None else mu
    sigma = Omega.std(axis=1) if sigma is None else sigma
    return ((Omega.T - mu) / np.where(sigma == 0, 1, sigma)).T


@formula(
    "7.2", r"\tilde{\Omega} = M \odot \Omega, \quad M \in \{0, 1\}^{C \times n}", gives="Omega_m"
)
def mask_series(M: Bool[Array, "C n"], Omega: Float[Array, "C n"]) -> Float[Array, "C n"]:
    """A series with its masked values set to zero; M is one where a value is kept.

    Ω̃ = M ⊙ Ω
    """
    return Omega * M


def series_mask(
    C: int, n: int, ratio: float, mean_length: float, rng: np.random.Generator
) -> Bool[Array, "C n"]:
    """A random mask M: in every channel, masked segments of geometric length.

    A masked segment lasts ``mean_length`` steps on average and masked steps are ``ratio`` of all,
    so an unmasked segment lasts ``mean_length (1 - ratio) / ratio`` on average.
    """
    if not 0 < ratio < 1 or mean_length < 1:
        raise VesaliusError(
            f"expected a ratio between 0 and 1 and a mean length of at least 1, "
            f"got {ratio} and {mean_length}"
        )
    stop_masking = 1 / mean_length
    start_masking = stop_masking * ratio / (1 - ratio)
    if start_masking > 1:
        raise VesaliusError(
            f"segments of {mean_length} cannot mask {ratio} of a series, even one step apart; "
            f"expected a mean length of at least {ratio / (1 - ratio):.3g}"
        )
    kept = np.empty((C, n), dtype=bool)
    state = rng.random(C) >= ratio
    for i in range(n):
        kept[:, i] = state
        state ^= rng.random(C) < np.where(state, start_masking, stop_masking)
    return kept


@formula(
    "7.2",
    r"\mathcal{J} = \frac{\sum (1 - M) \odot (\hat\Omega - \Omega)^2}{\sum (1 - M)}",
    gives="J",
)
def masked_square_error(
    Omega_hat: Float[Array, "C n"], Omega: Float[Array, "C n"], M: Bool[Array, "C n"]
) -> float:
    """The mean square error of the masked values.

    J = Σ (1 − M) ⊙ (Ω̂ − Ω)² / Σ (1 − M)
    """
    if M.all():
        raise EmptySequence("expected at least one masked value, got a mask that keeps everything")
    return float(((Omega_hat - Omega)[~M] ** 2).mean())


@formula(
    "7.2",
    r"X = \sqrt{d_e}\, X_0",
    gives="X",
    rule=Sum("X_0", scale=Scale("√d_e", lambda X_0: math.sqrt(X_0[0]))),
)
def scale_embeddings(X_0: Float[Array, "d_e n"]) -> Float[Array, "d_e n"]:
    """The embeddings of TST as published: its projections, scaled.

    X = √dₑ X₀
    """
    return X_0 * math.sqrt(len(X_0))


@formula("7.2", r"H^e = g\left(H^{[L]}\right)", gives="H_e", rule=Sum("H[L]", g="g"))
def activate_output(g: Activation, H: Float[Array, "d_e n"]) -> Float[Array, "d_e n"]:
    """The output of TST's transformer, activated once more.

    Hᵉ = g(H[L])
    """
    return g(H)


@formula(
    "7.2", r"\hat{\Omega} = W^Y H^e + b^Y", gives="Omega_hat", rule=Sum("Pi_Y.W @ H_e", "Pi_Y.b")
)
def series_output(Pi_Y: Dense, H: Float[Array, "d_e n"]) -> Float[Array, "C n"]:
    """The output layer of the masked series, on every time step.

    Ω̂ = Wʸ Hᵉ + bʸ
    """
    return dense(Pi_Y, H)


@formula(
    "7.2",
    r"z = W^Y \left(h_1^e \oplus \cdots \oplus h_n^e\right) + b^Y",
    gives="z",
    rule=Sum("Pi_Y.W @ h_0", "Pi_Y.b"),
)
def flat_output(Pi_Y: Dense, h: Float[Array, " nd_e"]) -> Float[Array, " outputs"]:
    """The output layer of classification and regression, on all time steps in one vector.

    z = Wʸ (h₁ᵉ ⊕ … ⊕ hₙᵉ) + bʸ
    """
    return dense(Pi_Y, h)


@formula(
    "7.2",
    r"\Omega = [\omega_1, \ldots, \omega_n, 0, \ldots, 0]",
    gives="Omega",
    rule=Given(),
)
def pad_series(omega: Float[Array, "C n"], length: int) -> Float[Array, "C length"]:
    """A series with zeros after its end, as long as the model reads.

    Ω = [ω₁, …, ωₙ, 0, …, 0]
    """
    padded = np.zeros((len(omega), length), dtype=omega.dtype)
    padded[:, : omega.shape[1]] = omega
    return padded


def tst_states(
    theta: TST, Omega: Float[Array, "C n"], real: Bool[Array, " steps"] | None = None
) -> Float[Array, "d_e n"]:
    """H[L] after the activation. As published, the projection is multiplied by √d_e."""
    require_finite(theta)
    n = Omega.shape[1]
    if n == 0:
        raise EmptySequence("expected at least one time step, got an empty series")
    if not np.isfinite(Omega).all():
        raise NotFinite("NaN or infinity in the series; fill the gaps first")
    real = np.ones(n, dtype=bool) if real is None else real
    if len(real) != n:
        raise WrongLength(f"expected {n} real, one a time step, got {len(real)}")
    X = scale_embeddings(project(theta.E, theta.b_e, Omega))
    with at(layer=0):
        H = add_positions(positions(theta.Lambda, X), X)
    return activate_output(theta.g, transformer_network(theta.Phi, H, padding_mask(real)))


def tst_series(
    theta: TST, Omega: Float[Array, "C n"], real: Bool[Array, " steps"] | None = None
) -> Float[Array, "C n"]:
    """The time series transformer as a restorer of masked values."""
    return series_output(theta.Pi_Y, tst_states(theta, Omega, real))


def tst_outputs(
    theta: TST, Omega: Float[Array, "C n"], real: Bool[Array, " n"] | None = None
) -> Float[Array, " outputs"]:
    """The time series transformer as a classifier (logits) or regressor.

    A series shorter than the model's length is padded to it, because the output layer reads all
    positions; it reads zeros where there is padding.
    """
    n = Omega.shape[1]
    length = theta.Pi_Y.W.shape[1] // theta.E.shape[0]
    if n > length:
        raise SequenceTooLong(
            f"the series has {n} time steps, the model {length}; shorten the input"
        )
    padded = pad_series(Omega, length)
    real = np.pad(np.ones(n, dtype=bool) if real is None else real, (0, length - n))
    return flat_output(theta.Pi_Y, concatenate(tst_states(theta, padded, real) * real))
