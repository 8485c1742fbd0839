"""A family from outside: the GRU language model (Cho et al. 2014), in one file.

The row at the end is all that Vesalius asks for. What it names by ``Lazy`` is looked up when it is
first used: a larger family keeps its equations and network in modules of their own, so that
counting it imports neither NumPy nor PyTorch.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from vesalius.checkpoints.layout import EMBEDDING, OUTPUT, SAME, Row, gate
from vesalius.equations import OneHot, distributions, embed, logits, sigmoid
from vesalius.equations.parameters import part
from vesalius.equations.registry import formula
from vesalius.equations.tracing import at
from vesalius.families import rnn
from vesalius.families.costs import Memory
from vesalius.families.family import Lazy, Size
from vesalius.families.recurrent import RecurrentConfig, recurrent_components, recurrent_operations
from vesalius.generation.engines.reference import RecurrentSession


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


class State(NamedTuple):
    r: Float[Array, " d_o"]
    z: Float[Array, " d_o"]
    h: Float[Array, " d_o"]


@formula("GRU", r"h_i = (1 - z_i) \odot n_i + z_i \odot h_{i-1}", gives=("r", "z", "h"))
def gru(Phi_l: GRU, h_below: Float[Array, " d_i"], h_before: Float[Array, " d_o"]) -> State:
    """One time step of a GRU layer: what is reset, what is kept, and the new state.

    hᵢ = (1 − zᵢ) ⊙ tanh(W_N x + b_N + rᵢ ⊙ U_N hᵢ₋₁) + zᵢ ⊙ hᵢ₋₁
    """
    r = sigmoid(Phi_l.W_R @ h_below + Phi_l.U_R @ h_before + Phi_l.b_R)
    z = sigmoid(Phi_l.W_Z @ h_below + Phi_l.U_Z @ h_before + Phi_l.b_Z)
    n = np.tanh(Phi_l.W_N @ h_below + Phi_l.b_N + r * (Phi_l.U_N @ h_before))
    return State(r, z, (1 - z) * n + z * h_before)


def run(theta: GRULM, Omega: OneHot, symbols: dict[str, Any]) -> None:
    H = embed(theta.E, Omega)
    for l, Phi_l in enumerate(theta.Phi, 1):
        h, states = np.zeros_like(Phi_l.b_R), []
        for i, h_below in enumerate(H.T, 1):
            with at(layer=l, time=i):
                h = gru(Phi_l, h_below, h).h
            states.append(h)
        H = np.stack(states, axis=1)
    distributions(logits(theta.E.T if theta.U is None else theta.U, H, theta.b_U))


# The network, and sequences that are decoded ----------------------------------------------------


def network(config: GRUConfig) -> Any:
    """PyTorch's fused kernel in the house of the recurrent networks."""
    import torch

    from vesalius.models.recurrent import RecurrentNetwork

    class GRUNetwork(RecurrentNetwork):
        gates = 3

        def run(self, x: Any, state: Any) -> Any:
            x, after = torch.gru(x, state[0], *self._kernel_arguments())
            return x, (after,)

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
        Memory("log-probabilities", "n |V|"),
    ],
    parameters=Lazy("gru_family:GRULM"),
    run=Lazy("gru_family:run"),
    network=Lazy("gru_family:network"),
    engine=None,
    session=Lazy("gru_family:GRUSession"),
    layout=Lazy("gru_family:LAYOUT"),
    layers={},
)
