"""Recurrent language models (4.4, 5.3): equations 12, 13, 41 and 43 to 48.

A layer's state is h for Elman networks and the pair (h, c) for LSTMs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vesalius.equations.activations import sigmoid
from vesalius.equations.parameters import (
    LSTM,
    LSTMLM,
    Activation,
    Array,
    Elman,
    ElmanLM,
    require_finite,
)
from vesalius.equations.registry import equation, formula
from vesalius.equations.rules import Sum
from vesalius.equations.tracing import at
from vesalius.equations.transformer import distributions, logits
from vesalius.equations.words import OneHot, embed


class State(NamedTuple):
    """What an LSTM layer hands on: its output h and its context c."""

    h: Float[Array, " d_o"]
    c: Float[Array, " d_o"]


@equation(
    41,
    "5.3",
    r"h_i^{[l]} = \mathrm{rnn}_{\Phi^{[l]}}\left(h_i^{[l-1]}, h_{i-1}^{[l]}\right) = "
    r"g^{[l]}\left(U^{[l]} h_{i-1}^{[l]} + W^{[l]} h_i^{[l-1]} + b^{[l]}\right)",
    gives="h",
    rule=Sum("Phi[l].U @ h[l,i-1]", "Phi[l].W @ h[l-1,i]|X:i", "Phi[l].b", g="Phi[l].g"),
)
def elman(
    Phi_l: Elman, h_below: Float[Array, " d_i"], h_before: Float[Array, " d_o"]
) -> Float[Array, " d_o"]:
    """One time step of an Elman layer.

    hᵢ[l] = g[l](U[l] hᵢ₋₁[l] + W[l] hᵢ[l−1] + b[l]),  h₀[l] = 0,  hᵢ[0] = xᵢ
    """
    return Phi_l.g(Phi_l.U @ h_before + Phi_l.W @ h_below + Phi_l.b)


@equation(
    12,
    "4.4",
    r"h_i^{[l]} = \mathrm{rnn}_{\Phi^{[l]}}\left(h_{i-1}^{[l]}, h_i^{[l-1]}\right)",
    gives="h",
    recorded=False,
)
def recurrent_layer(
    Phi_l: Elman, h_before: Float[Array, " d_o"], h_below: Float[Array, " d_i"]
) -> Float[Array, " d_o"]:
    """One time step of a recurrent layer, seen from outside.

    hᵢ[l] = rnn_Φ[l](hᵢ₋₁[l], hᵢ[l−1])

    The arguments stand in the other order than in (41).
    """
    return elman(Phi_l, h_below, h_before)


def _gate(letter: str, g: Activation) -> Sum:
    U, W, b = (f"Phi[l].{array}_{letter}" for array in "UWb")
    return Sum(f"{U} @ h[l,i-1]", f"{W} @ h[l-1,i]|X:i", b, g=g)


@equation(
    44,
    "5.3",
    r"q_i^{[l]} = \tanh\left(U^{Q[l]} h_{i-1}^{[l]} + W^{Q[l]} h_i^{[l-1]} + b^{Q[l]}\right)",
    gives="q",
    rule=_gate("Q", np.tanh),
)
def candidate(
    Phi_l: LSTM, h_below: Float[Array, " d_i"], h_before: Float[Array, " d_o"]
) -> Float[Array, " d_o"]:
    """The classical recurrent operation of an LSTM.

    qᵢ[l] = tanh(U_Q hᵢ₋₁[l] + W_Q hᵢ[l−1] + b_Q)
    """
    return np.tanh(Phi_l.U_Q @ h_before + Phi_l.W_Q @ h_below + Phi_l.b_Q)


@formula(
    "5.3",
    r"p_i^{[l]} = \sigma\left(U^{P[l]} h_{i-1}^{[l]} + W^{P[l]} h_i^{[l-1]} + b^{P[l]}\right)",
    gives="p",
    rule=_gate("P", sigmoid),
)
def forget_share(
    Phi_l: LSTM, h_below: Float[Array, " d_i"], h_before: Float[Array, " d_o"]
) -> Float[Array, " d_o"]:
    """The inner half of (45): what share of the context is kept.

    pᵢ[l] = σ(U_P hᵢ₋₁[l] + W_P hᵢ[l−1] + b_P)
    """
    return sigmoid(Phi_l.U_P @ h_before + Phi_l.W_P @ h_below + Phi_l.b_P)


class Forget(NamedTuple):
    p: Float[Array, " d_o"]
    k: Float[Array, " d_o"]


@equation(
    45,
    "5.3",
    r"p_i^{[l]} = \sigma\left(U^{P[l]} h_{i-1}^{[l]} + W^{P[l]} h_i^{[l-1]} + b^{P[l]}\right), "
    r"\quad k_i^{[l]} = c_{i-1}^{[l]} \odot p_i^{[l]}",
    gives=("p", "k"),
    recorded=("k",),
    rule=(_gate("P", sigmoid), Sum("c[l,i-1] * p[l,i]")),
)
def forget_gate(
    Phi_l: LSTM,
    h_below: Float[Array, " d_i"],
    h_before: Float[Array, " d_o"],
    c_before: Float[Array, " d_o"],
) -> Forget:
    """The forget gate: what is kept of the context.

    pᵢ[l] = σ(U_P hᵢ₋₁[l] + W_P hᵢ[l−1] + b_P),  kᵢ[l] = cᵢ₋₁[l] ⊙ pᵢ[l]
    """
    p = forget_share(Phi_l, h_below, h_before)
    return Forget(p, c_before * p)


@formula(
    "5.3",
    r"r_i^{[l]} = \sigma\left(U^{R[l]} h_{i-1}^{[l]} + W^{R[l]} h_i^{[l-1]} + b^{R[l]}\right)",
    gives="r",
    rule=_gate("R", sigmoid),
)
def add_share(
    Phi_l: LSTM, h_below: Float[Array, " d_i"], h_before: Float[Array, " d_o"]
) -> Float[Array, " d_o"]:
    """The inner half of (46): what share of the candidate is added.

    rᵢ[l] = σ(U_R hᵢ₋₁[l] + W_R hᵢ[l−1] + b_R)
    """
    return sigmoid(Phi_l.U_R @ h_before + Phi_l.W_R @ h_below + Phi_l.b_R)


class Add(NamedTuple):
    r: Float[Array, " d_o"]
    d: Float[Array, " d_o"]


@equation(
    46,
    "5.3",
    r"r_i^{[l]} = \sigma\left(U^{R[l]} h_{i-1}^{[l]} + W^{R[l]} h_i^{[l-1]} + b^{R[l]}\right), "
    r"\quad d_i^{[l]} = q_i^{[l]} \odot r_i^{[l]}",
    gives=("r", "d"),
    recorded=("d",),
    rule=(_gate("R", sigmoid), Sum("q[l,i] * r[l,i]")),
)
def add_gate(
    Phi_l: LSTM,
    h_below: Float[Array, " d_i"],
    h_before: Float[Array, " d_o"],
    q: Float[Array, " d_o"],
) -> Add:
    """The add gate: what is added to the context.

    rᵢ[l] = σ(U_R hᵢ₋₁[l] + W_R hᵢ[l−1] + b_R),  dᵢ[l] = qᵢ[l] ⊙ rᵢ[l]
    """
    r = add_share(Phi_l, h_below, h_before)
    return Add(r, q * r)


@equation(47, "5.3", r"c_i^{[l]} = d_i^{[l]} + k_i^{[l]}", gives="c", rule=Sum("d[l,i]", "k[l,i]"))
def context(d: Float[Array, " d_o"], k: Float[Array, " d_o"]) -> Float[Array, " d_o"]:
    """The context: what was added and what was kept.

    cᵢ[l] = dᵢ[l] + kᵢ[l]
    """
    return d + k


@formula(
    "5.3",
    r"s_i^{[l]} = \sigma\left(U^{S[l]} h_{i-1}^{[l]} + W^{S[l]} h_i^{[l-1]} + b^{S[l]}\right)",
    gives="s",
    rule=_gate("S", sigmoid),
)
def output_share(
    Phi_l: LSTM, h_below: Float[Array, " d_i"], h_before: Float[Array, " d_o"]
) -> Float[Array, " d_o"]:
    """The inner half of (48): what share of the context is shown.

    sᵢ[l] = σ(U_S hᵢ₋₁[l] + W_S hᵢ[l−1] + b_S)
    """
    return sigmoid(Phi_l.U_S @ h_before + Phi_l.W_S @ h_below + Phi_l.b_S)


class Output(NamedTuple):
    s: Float[Array, " d_o"]
    h: Float[Array, " d_o"]


@equation(
    48,
    "5.3",
    r"s_i^{[l]} = \sigma\left(U^{S[l]} h_{i-1}^{[l]} + W^{S[l]} h_i^{[l-1]} + b^{S[l]}\right), "
    r"\quad h_i^{[l]} = s_i^{[l]} \odot \tanh\left(c_i^{[l]}\right)",
    gives=("s", "h"),
    recorded=("h",),
    rule=(_gate("S", sigmoid), Sum("tanh(c[l,i]) * s[l,i]")),
)
def output_gate(
    Phi_l: LSTM,
    h_below: Float[Array, " d_i"],
    h_before: Float[Array, " d_o"],
    c: Float[Array, " d_o"],
) -> Output:
    """The output gate: what the layer shows of its context.

    sᵢ[l] = σ(U_S hᵢ₋₁[l] + W_S hᵢ[l−1] + b_S),  hᵢ[l] = sᵢ[l] ⊙ tanh(cᵢ[l])
    """
    s = output_share(Phi_l, h_below, h_before)
    return Output(s, s * np.tanh(c))


@equation(
    43,
    "5.3",
    r"h_i^{[l]}, c_i^{[l]} = \mathrm{LSTM}_{\Phi^{[l]}}"
    r"\left(h_i^{[l-1]}, h_{i-1}^{[l]}, c_{i-1}^{[l]}\right)",
    gives=("h", "c"),
    recorded=False,
)
def lstm(
    Phi_l: LSTM,
    h_below: Float[Array, " d_i"],
    h_before: Float[Array, " d_o"],
    c_before: Float[Array, " d_o"],
) -> State:
    """One time step of an LSTM layer: (44) to (48).

    hᵢ[l], cᵢ[l] = LSTM_Φ[l](hᵢ[l−1], hᵢ₋₁[l], cᵢ₋₁[l]),  h₀[l] = 0,  c₀[l] = 0,  hᵢ[0] = xᵢ
    """
    q = candidate(Phi_l, h_below, h_before)
    _, k = forget_gate(Phi_l, h_below, h_before, c_before)
    _, d = add_gate(Phi_l, h_below, h_before, q)
    c = context(d, k)
    return State(output_gate(Phi_l, h_below, h_before, c).h, c)


def initial_state(Phi_l: Elman | LSTM) -> State:
    """h₀[l] = 0 and c₀[l] = 0, in the layer's own precision."""
    b = Phi_l.b if isinstance(Phi_l, Elman) else Phi_l.b_Q
    return State(np.zeros_like(b), np.zeros_like(b))


def recurrent_states(
    Phi: Sequence[Elman | LSTM], X: Float[Array, "d_e n"]
) -> Float[Array, "d_o n"]:
    """The outputs hᵢ[L] of the last layer at every time step."""
    H = X
    for l, Phi_l in enumerate(Phi, 1):
        state, outputs = initial_state(Phi_l), []
        for i, h_below in enumerate(H.T, 1):
            with at(layer=l, time=i):
                if isinstance(Phi_l, Elman):
                    state = State(recurrent_layer(Phi_l, state.h, h_below), state.c)
                else:
                    state = lstm(Phi_l, h_below, state.h, state.c)
            outputs.append(state.h)
        H = np.stack(outputs, axis=1)
    return H


def recurrent_hidden(theta: ElmanLM | LSTMLM, Omega: OneHot) -> Float[Array, "d_o n"]:
    """What the logits are read from: hᵢ[L] after every token of Ω."""
    require_finite(theta)
    return recurrent_states(theta.Phi, embed(theta.E, Omega))


def recurrent_words(theta: ElmanLM | LSTMLM, H: Float[Array, "d_o n"]) -> Float[Array, "V n"]:
    """The logits Z from the states of the last layer."""
    return logits(theta.E.T if theta.U is None else theta.U, H, theta.b_U)


def recurrent_logits(theta: ElmanLM | LSTMLM, Omega: OneHot) -> Float[Array, "V n"]:
    """The logits Z of the next token after every token of Ω."""
    return recurrent_words(theta, recurrent_hidden(theta, Omega))


@equation(13, "4.4", r"\hat{y}_i = f_\theta(\omega_{1:i})", gives="Y_hat", recorded=False)
def recurrent_lm(theta: ElmanLM | LSTMLM, Omega: OneHot) -> Float[Array, "V n"]:
    """The recurrent language model: at every time step the distribution of the next token.

    ŷᵢ = f_θ(ω₁:ᵢ),  θ = {E, U, Φ}
    """
    return distributions(recurrent_logits(theta, Omega))
