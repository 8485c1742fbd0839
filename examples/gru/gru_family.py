"""A family from outside: the GRU language model (Cho et al. 2014), in one file.

The row at the end is all that Vesalius asks for. What it names by ``Lazy`` is looked up when it is
first used: a larger family keeps its equations and network in modules of their own, so that
counting it imports neither NumPy nor PyTorch.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.checkpoints.layout import EMBEDDING, LABEL_HEAD, OUTPUT, SAME, Row, gate
from vesalius.equations import OneHot, distributions, embed, logits, sigmoid, text_label_logits
from vesalius.equations.parameters import part
from vesalius.equations.registry import formula
from vesalius.equations.rules import Sum
from vesalius.equations.runs import text_state
from vesalius.equations.tracing import at
from vesalius.families import rnn
from vesalius.families.costs import Memory
from vesalius.families.family import Lazy, Size
from vesalius.families.recurrent import (
    RecurrentConfig,
    output_memory,
    recurrent_components,
    recurrent_operations,
)
from vesalius.generation.engines.reference import RecurrentSession

Vector = Float[Array, " d_o"]


@dataclass(frozen=True, kw_only=True)
class GRUConfig(RecurrentConfig):
    """The settings are those of all recurrent language models."""


# The parameters and the equations, in columns and letters as in the paper ------------------------


@dataclass(frozen=True, kw_only=True)
class GRU:
    """Φ[l]: reset gate R, update gate Z, candidate N."""

    W_R: Float[Array, "d_o d_i"]
    U_R: Float[Array, "d_o d_o"]
    b_R: Float[Array, " d_o"]
    W_Z: Float[Array, "d_o d_i"]
    U_Z: Float[Array, "d_o d_o"]
    b_Z: Float[Array, " d_o"]
    W_N: Float[Array, "d_o d_i"]
    U_N: Float[Array, "d_o d_o"]
    b_N: Float[Array, " d_o"]


@dataclass(frozen=True, kw_only=True)
class GRULM:
    """θ = {E, Φ, U}."""

    E: Float[Array, "d_e V"]
    Phi: tuple[GRU, ...] = part(
        times="L", given=lambda s, l: {"d_i": s["d_e"] if l == 1 else s["d_o"]}
    )
    U: Float[Array, "V d_o"] | None = part(when="untied")
    b_U: Float[Array, " V"] | None = part(when="output_bias")
    W_Y: Float[Array, "labels d_o"] | None = part(when="labels")


def sum_of(letter: str, *more: str) -> list[str]:
    """The terms of a gate, as rules write them: what comes from below, and the bias."""
    return [f"Phi[l].W_{letter} @ h[l-1,i]|X:i", f"Phi[l].b_{letter}", *more]


@formula(
    "GRU.1",
    r"r_i = \sigma(W^R x_i + U^R h_{i-1} + b^R)",
    gives="r",
    rule=Sum(*sum_of("R", "Phi[l].U_R @ h[l,i-1]"), g=sigmoid),
)
def reset_gate(Phi_l: GRU, x: Float[Array, " d_i"], h: Vector) -> Vector:
    """What share of the state takes part in the candidate.

    rᵢ = σ(W_R xᵢ + U_R hᵢ₋₁ + b_R)
    """
    return sigmoid(Phi_l.W_R @ x + Phi_l.U_R @ h + Phi_l.b_R)


@formula(
    "GRU.2",
    r"z_i = \sigma(W^Z x_i + U^Z h_{i-1} + b^Z)",
    gives="z",
    rule=Sum(*sum_of("Z", "Phi[l].U_Z @ h[l,i-1]"), g=sigmoid),
)
def update_gate(Phi_l: GRU, x: Float[Array, " d_i"], h: Vector) -> Vector:
    """What share of the state is kept.

    zᵢ = σ(W_Z xᵢ + U_Z hᵢ₋₁ + b_Z)
    """
    return sigmoid(Phi_l.W_Z @ x + Phi_l.U_Z @ h + Phi_l.b_Z)


@formula("GRU.3", r"u_i = U^N h_{i-1}", gives="u", rule=Sum("Phi[l].U_N @ h[l,i-1]"))
def recalled(Phi_l: GRU, h: Vector) -> Vector:
    """What the state gives to the candidate.

    uᵢ = U_N hᵢ₋₁
    """
    return Phi_l.U_N @ h


@formula(
    "GRU.4",
    r"n_i = \tanh(W^N x_i + b^N + r_i \odot u_i)",
    gives="n",
    rule=Sum(*sum_of("N", "u[l,i] * r[l,i]"), g=np.tanh),
)
def new_state(Phi_l: GRU, x: Float[Array, " d_i"], r: Vector, u: Vector) -> Vector:
    """The candidate: what the state would be if nothing were kept.

    nᵢ = tanh(W_N xᵢ + b_N + rᵢ ⊙ uᵢ)
    """
    return np.tanh(Phi_l.W_N @ x + Phi_l.b_N + r * u)


@formula(
    "GRU.5",
    r"d_i = (1 - z_i) \odot n_i",
    gives="d",
    rule=Sum("n[l,i] * one_minus(z[l,i])"),
)
def newly_added(z: Vector, n: Vector) -> Vector:
    """What this time step adds to the state.

    dᵢ = (1 − zᵢ) ⊙ nᵢ
    """
    return (1 - z) * n


@formula(
    "GRU.6",
    r"h_i = d_i + z_i \odot h_{i-1}",
    gives="h",
    rule=Sum("d[l,i]", "h[l,i-1] * z[l,i]"),
)
def updated(d: Vector, z: Vector, h: Vector) -> Vector:
    """The state: what is added, and what is kept of the one before.

    hᵢ = dᵢ + zᵢ ⊙ hᵢ₋₁
    """
    return d + z * h


def gru(Phi_l: GRU, x: Float[Array, " d_i"], h: Vector) -> Vector:
    """One time step of a GRU layer."""
    z = update_gate(Phi_l, x, h)
    n = new_state(Phi_l, x, reset_gate(Phi_l, x, h), recalled(Phi_l, h))
    return updated(newly_added(z, n), z, h)


def run(theta: GRULM, Omega: OneHot, symbols: dict[str, Any]) -> None:
    H = embed(theta.E, Omega)
    for l, Phi_l in enumerate(theta.Phi, 1):
        h, states = np.zeros_like(Phi_l.b_R), []
        for i, h_below in enumerate(H.T, 1):
            with at(layer=l, time=i):
                h = gru(Phi_l, h_below, h)
            states.append(h)
        H = np.stack(states, axis=1)
    distributions(logits(theta.E.T if theta.U is None else theta.U, H, theta.b_U))
    if theta.W_Y is not None:
        text_label_logits(theta.W_Y, text_state(H, symbols))


# The network, and sequences that are decoded ----------------------------------------------------


def network(config: GRUConfig) -> Any:
    """PyTorch's fused kernel among the recurrent networks; gradients want its steps by name."""
    import torch

    from vesalius.models.recurrent import RecurrentNetwork

    class GRUNetwork(RecurrentNetwork):
        gates = 3

        def run(self, x: Any, state: Any) -> Any:
            x, after = torch.gru(x, state[0], *self._kernel_arguments())
            return x, (after,)

        def time_step(self, layer: Any, x: Any, state: Any, keep: Any) -> Any:
            below, before = layer.input(x).chunk(3, -1), layer.recurrent(state[0]).chunk(3, -1)
            r = keep("r", torch.sigmoid(below[0] + before[0]))
            z = keep("z", torch.sigmoid(below[1] + before[1]))
            n = keep("n", torch.tanh(below[2] + r * keep("u", before[2])))
            return (keep("h", keep("d", (1 - z) * n) + z * state[0]),)

    return GRUNetwork(config)


class GRUSession(RecurrentSession):
    """One layer over all time steps of sequences side by side; ``alive`` have not ended yet."""

    def layer(self, l: int, x: Array, places: Array, alive: Array) -> Array:
        from_below = self.linear(f"layers.{l}.input", x)
        recurrent = np.ascontiguousarray(self.state[f"layers.{l}.recurrent.weight"].T)
        h = self.hidden[places, l]
        out = np.zeros((*x.shape[:2], h.shape[1]), h.dtype)
        for t, n in enumerate(alive):
            (r, z, new), (u_r, u_z, u_n) = (
                np.split(part, 3, axis=1) for part in (from_below[:n, t], h[:n] @ recurrent)
            )
            r, z = sigmoid(r + u_r), sigmoid(z + u_z)
            h[:n] = (1 - z) * np.tanh(new + r * u_n) + z * h[:n]
            out[:n, t] = h[:n]
        self.hidden[places, l] = h
        return out


# The row ----------------------------------------------------------------------------------------

NAMES = {"W": "input.weight", "U": "recurrent.weight", "b": "input.bias"}
LAYOUT = [
    EMBEDDING,
    *(
        Row(f"Phi[l].{letter}_{name}", f"layers.{{l}}.{NAMES[letter]}", gate(k, of=3))
        for k, name in enumerate("RZN")
        for letter in NAMES
    ),
    OUTPUT,
    Row("b_U", "output_bias", SAME),
    LABEL_HEAD,
]

FAMILY = replace(
    rnn.FAMILY,
    name="gru",
    title="GRU language model",
    config=GRUConfig,
    sizes={"cho-2014": Size("Cho et al. 2014", {"embedding": 1000, "layers": 1, "tied": False})},
    components=lambda config: recurrent_components(
        config, "GRU", "3 d_e (2 d_e + 1)", "3 d_o (d_o + d_e + 1)", "3 d_o (2 d_o + 1)"
    ),
    operations=lambda config: recurrent_operations(
        config,
        [
            ("5.3", "reset gate", "7 n d_o"),
            ("5.3", "update gate", "6 n d_o"),
            ("5.3", "candidate and state", "7 n d_o"),
        ],
    ),
    activation_memory=lambda config: [
        Memory("embeddings", "n d_e"),
        Memory("gates, candidate, its reset part, state", "5 n d_o", times="L"),
        *output_memory(config),
    ],
    parameters=Lazy("gru_family:GRULM"),
    run=Lazy("gru_family:run"),
    network=Lazy("gru_family:network"),
    engine=None,
    session=Lazy("gru_family:GRUSession"),
    layout=Lazy("gru_family:LAYOUT"),
    layers={},
)
