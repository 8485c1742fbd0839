"""PatchTST (P.1 to P.13): patches of a series as words, every channel a sequence of its own.

It is cited in 7.2 and has no equations in the paper; these follow Nie et al. (2023) in the paper's
letters. The patches of all channels stand side by side, and the mask S keeps channels apart.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from vesalius.equations.feedforward import dense
from vesalius.equations.moving import Cut, Deviation, Folded, Mean, Placed, Standardised
from vesalius.equations.parameters import Array, Dense, Gain, PatchTST, require_finite
from vesalius.equations.registry import formula
from vesalius.equations.rules import Given, Sum
from vesalius.equations.tracing import at, tracer
from vesalius.equations.transformer import transformer_network
from vesalius.equations.words import sinusoidal_positions
from vesalius.errors import NotFinite, WrongLength


@formula("P.1", r"\mu_c = \frac{1}{\tau} \sum_{i=1}^\tau \omega_{c,i}", "mu_r", Mean("Omega"))
def instance_mean(Omega: Float[Array, "C tau"]) -> Float[Array, " C"]:
    """The mean of every channel over the look-back.

    μ_c = (ω_c,₁ + … + ω_c,τ) / τ
    """
    return np.asarray(Omega.mean(axis=1))


@formula(
    "P.2",
    r"\sigma_c = \sqrt{\frac{1}{\tau} \sum_{i=1}^\tau (\omega_{c,i} - \mu_c)^2 + \epsilon}",
    gives="sigma_r",
    rule=Deviation("Omega", "mu_r", "epsilon_r"),
)
def instance_deviation(
    Omega: Float[Array, "C tau"], mu_r: Float[Array, " C"], epsilon_r: float
) -> Float[Array, " C"]:
    """The deviation of every channel over the look-back.

    σ_c = √(Σ (ω_c,ᵢ − μ_c)² / τ + ε)
    """
    return np.sqrt(((Omega - mu_r[:, None]) ** 2).mean(axis=1) + epsilon_r)


@formula(
    "P.3",
    r"\omega'_{c,i} = (\omega_{c,i} - \mu_c) / \sigma_c",
    gives="Omega_n",
    rule=Standardised("Omega", "mu_r", "sigma_r"),
)
def normalise_instance(
    Omega: Float[Array, "C tau"], mu_r: Float[Array, " C"], sigma_r: Float[Array, " C"]
) -> Float[Array, "C tau"]:
    """Reversible instance normalisation: every channel by its own mean and deviation.

    ω′_c,ᵢ = (ω_c,ᵢ − μ_c) / σ_c

    Whatever level a series is at, the network sees it around zero; (P.12) puts the level back.
    """
    return (Omega - mu_r[:, None]) / sigma_r[:, None]


@formula(
    "P.4",
    r"\bar\omega_{c,i} = \alpha_c \omega'_{c,i} + \beta_c",
    gives="Omega_bar",
    rule=Sum("Omega_n * Xi_r.alpha", "Xi_r.beta"),
)
def apply_gain(Xi_r: Gain, Omega_n: Float[Array, "C tau"]) -> Float[Array, "C tau"]:
    """The gain and bias of every channel, where instance normalisation has them.

    ω̄_c,ᵢ = α_c ω′_c,ᵢ + β_c
    """
    return Omega_n * Xi_r.alpha[:, None] + Xi_r.beta[:, None]


@formula(
    "P.5",
    r"\pi_{c,j} = [\omega_{c,(j-1)s+1}, \ldots, \omega_{c,(j-1)s+P}]^\top"
    r" \quad \forall j \in \{1, \ldots, n\}",
    gives="Omega_p",
    rule=Cut("Omega_bar|Omega_n"),
)
def cut_patches(Omega: Float[Array, "C tau"], P: int, s: int, pad: int) -> Float[Array, "P Cn"]:
    """The series of every channel in patches of P time steps that begin s apart.

    π_c,ⱼ = [ω_c,(j−1)s+1, …, ω_c,(j−1)s+P]  for j = 1 … n

    As published, the last value is repeated ``pad`` = s times for one patch more. Without that, the
    oldest values that fill no patch are left out, as in Transformers.
    """
    padded = np.pad(Omega, ((0, 0), (0, pad)), mode="edge")
    n = (Omega.shape[1] - P) // s + 1 + bool(pad)
    first = 0 if pad else Omega.shape[1] - (P + s * (n - 1))
    times = first + np.arange(n)[:, None] * s + np.arange(P)
    return np.ascontiguousarray(padded[:, times].reshape(-1, P).T)


@formula("P.6", r"x_{c,j} = E \pi_{c,j} + b_e", gives="X", rule=Sum("E @ Omega_p", "b_e"))
def embed_patches(
    E: Float[Array, "d_e P"], b_e: Float[Array, " d_e"], Omega_p: Float[Array, "P Cn"]
) -> Float[Array, "d_e Cn"]:
    """Patches as embeddings; all channels share the projection.

    x_c,ⱼ = E π_c,ⱼ + bₑ
    """
    return E @ Omega_p + b_e[:, None]


@formula(
    "P.7",
    r"H^{[0]} = [\Lambda + X_1, \ldots, \Lambda + X_C]",
    gives="H",
    rule=Placed("Lambda", "X"),
)
def place_patches(
    Lambda: Float[Array, "d_e n"], X: Float[Array, "d_e Cn"]
) -> Float[Array, "d_e Cn"]:
    """The input of the transformer: positions begin anew with every channel.

    H[0] = [Λ + X₁, …, Λ + X_C]
    """
    return np.tile(Lambda, X.shape[1] // Lambda.shape[1]) + X


@formula(
    "P.8",
    r"S_{i,j} = 0 \text{ if } \lceil i/n \rceil = \lceil j/n \rceil \text{ else } -\infty",
    gives="S",
    rule=Given(),
)
def channel_mask(C: int, n: int) -> Float[Array, "Cn Cn"]:
    """The mask that keeps channels apart: a patch attends to those of its own channel.

    S_i,j = 0 if ⌈i/n⌉ = ⌈j/n⌉, otherwise −∞
    """
    channel = np.arange(C * n) // n
    return np.where(channel[:, None] == channel, 0.0, -np.inf)


@formula(
    "P.9",
    r"h_c = h_{c,1}^{[L]} \oplus \cdots \oplus h_{c,n}^{[L]}",
    gives="H_f",
    rule=Folded("H[L]"),
)
def flatten_channels(H: Float[Array, "d_e Cn"], C: int) -> Float[Array, "nd_e C"]:
    """The states of every channel in one vector.

    h_c = h_c,₁[L] ⊕ … ⊕ h_c,ₙ[L]
    """
    return np.ascontiguousarray(H.T.reshape(C, -1).T)


@formula("P.10", r"\hat{y}_c = W^Y h_c + b^Y", gives="Y_n", rule=Sum("Pi_Y.W @ H_f", "Pi_Y.b"))
def forecast_output(Pi_Y: Dense, H_f: Float[Array, "nd_e C"]) -> Float[Array, "T C"]:
    """The flattening head, which all channels share: T values of each, still normalised.

    ŷ_c = Wʸ h_c + bʸ
    """
    return dense(Pi_Y, H_f)


@formula(
    "P.11",
    r"\hat{y}'_c = (\hat{y}_c - \beta_c) / \alpha_c",
    gives="Y_u",
    rule=Standardised("Y_n.T", "Xi_r.beta", "Xi_r.alpha"),
)
def undo_gain(Xi_r: Gain, Y_n: Float[Array, "T C"]) -> Float[Array, "C T"]:
    """The forecast without the gain and bias of (P.4).

    ŷ′_c = (ŷ_c − β_c) / α_c
    """
    return (Y_n.T - Xi_r.beta[:, None]) / Xi_r.alpha[:, None]


@formula(
    "P.12",
    r"\hat\omega_{c,i} = \sigma_c \hat{y}_{c,i} + \mu_c",
    gives="Omega_hat",
    rule=Sum("Y_u|Y_n.T * sigma_r", "mu_r"),
)
def restore_instance(
    Y: Float[Array, "C T"], mu_r: Float[Array, " C"], sigma_r: Float[Array, " C"]
) -> Float[Array, "C T"]:
    """The forecast at the level and scale of its series: (P.3) undone.

    ω̂_c,ᵢ = σ_c ŷ_c,ᵢ + μ_c
    """
    return Y * sigma_r[:, None] + mu_r[:, None]


@formula(
    "P.13",
    r"\mathcal{J} = \frac{1}{CT} \sum_{c=1}^C \sum_{i=1}^T (\hat\omega_{c,i} - \omega_{c,i})^2",
    gives="J",
)
def forecast_loss(Omega_hat: Float[Array, "C T"], Y: Float[Array, "C T"]) -> float:
    """The mean square error of a forecast.

    J = Σ (ω̂_c,ᵢ − ω_c,ᵢ)² / (C T)
    """
    return float(((Omega_hat - Y) ** 2).mean())


def patchtst_forecast(theta: PatchTST, Omega: Float[Array, "C tau"]) -> Float[Array, "C T"]:
    """The forecast of every channel: T time steps that follow the look-back Ω.

    Unless a trace is open, channels are gone through one by one, which takes less memory.
    """
    if tracer() is not None or len(Omega) == 1:
        return _forecast(theta, Omega)
    alone = [
        theta if theta.Xi_r is None else replace(theta, Xi_r=_gain(theta.Xi_r, c))
        for c in range(len(Omega))
    ]
    return np.concatenate([_forecast(one, Omega[[c]]) for c, one in enumerate(alone)])


def _gain(Xi_r: Gain, c: int) -> Gain:
    return Gain(alpha=Xi_r.alpha[[c]], beta=Xi_r.beta[[c]])


def _forecast(theta: PatchTST, Omega: Float[Array, "C tau"]) -> Float[Array, "C T"]:
    require_finite(theta)
    C, (d_e, P) = len(Omega), theta.E.shape
    if Omega.shape[1] < P:
        raise WrongLength(
            f"the series has {Omega.shape[1]} time steps, and a patch of the model {P}; "
            f"expected the model's whole look-back"
        )
    if not np.isfinite(Omega).all():
        raise NotFinite("NaN or infinity in the series; fill the gaps first")
    mu_r = instance_mean(Omega)
    sigma_r = instance_deviation(Omega, mu_r, theta.epsilon_r)
    seen = normalise_instance(Omega, mu_r, sigma_r)
    if theta.Xi_r is not None:
        seen = apply_gain(theta.Xi_r, seen)
    X = embed_patches(theta.E, theta.b_e, cut_patches(seen, P, theta.s, theta.pad))
    n = X.shape[1] // C
    if n * d_e != theta.Pi_Y.W.shape[1]:
        raise WrongLength(
            f"the series has {Omega.shape[1]} time steps, which is {n} patches; the model reads "
            f"{theta.Pi_Y.W.shape[1] // d_e}: expected its look-back"
        )
    Lambda = theta.Lambda
    if Lambda is None:
        Lambda = sinusoidal_positions(d_e, n).astype(X.dtype)
    with at(layer=0):
        H = place_patches(Lambda, X)
    H = transformer_network(theta.Phi, H, channel_mask(C, n))
    return read_forecast(theta, H, mu_r, sigma_r)


def read_forecast(
    theta: PatchTST,
    H: Float[Array, "d_e Cn"],
    mu_r: Float[Array, " C"],
    sigma_r: Float[Array, " C"],
) -> Float[Array, "C T"]:
    """What states give through the flattening head (P.9 to P.12), at their series' own level."""
    Y_n = forecast_output(theta.Pi_Y, flatten_channels(H, len(mu_r)))
    Y = Y_n.T if theta.Xi_r is None else undo_gain(theta.Xi_r, Y_n)
    return restore_instance(Y, mu_r, sigma_r)
