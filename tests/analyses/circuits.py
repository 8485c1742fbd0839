"""Models whose weights are written by hand, so that it is known which part does what.

Each function gives a ``Circuit``: the model, the names of the steps that do the work, inputs, and
the token that the model says after each. Layer normalisation is harmless in them, because the
components of all states have the same mean and the same variance at every token.
"""

from typing import NamedTuple

import numpy as np

import vesalius as vs
from vesalius.model import Model

SHARP = 40.0
"""How far, in nats, the right key is ahead of all others."""


class Circuit(NamedTuple):
    model: Model
    parts: tuple[str, ...]
    """The steps that do the work, in their order; all others could be left out."""
    inputs: list[list[int]]
    """Token ids."""
    targets: list[int]
    """What the model says after each input."""


def silenced(family: str, **settings) -> Model:
    """A model of zeros whose normalisations have gain one."""
    model = vs.create(family, **settings)
    for name, array in model.state.items():
        array[...] = 1.0 if name.endswith("norm.weight") else 0.0
    return model


class Normalised(NamedTuple):
    """A layer normalisation of states that have ``ones`` ones and a constant square beside them."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, ones: int, squares: float, d_e: int) -> "Normalised":
        mean = ones / d_e
        return cls(mean, float(np.sqrt(squares / d_e - mean**2 + 1e-5)))


def induction(words: int = 8, count: int = 20, seed: int = 0) -> Circuit:
    """A previous-token head P[1,1], and an induction head P[2,2] that reads what it writes.

    Token 0 begins every text. Then come all ``words`` in random order, and the same order begins
    again: the model says how it goes on. A state is [token, token before, position], one-hot but
    for the position, a point on the circle; each layer has another head that does nothing.
    """
    V, n = words + 1, 2 * words + 1
    d_e = 2 * V + 4
    model = silenced(
        "gpt2",
        vocabulary=V,
        context=n,
        layers=2,
        embedding=d_e,
        heads=2,
        key=V,
        value=V,
        feedforward=1,
    )
    theta, angle = model.parameters, 2 * np.pi / n
    token, before, place = slice(0, V), slice(V, 2 * V), slice(2 * V, None)
    theta.E[token] = np.eye(V)
    circle = np.exp(1j * angle * np.arange(n))
    theta.Lambda[place] = [circle.real, circle.imag, -circle.real, -circle.imag]

    first = Normalised.of(1, 1 + 2, d_e)
    head = theta.Phi[0].Gamma.Psi[0]
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    strength = SHARP / (1 - np.cos(angle)) * np.sqrt(V) * first.deviation**2
    head.W_Q[place][:2, :2] = strength * turn  # the query of a place is the place before
    head.W_K[place][:2, :2] = np.eye(2)
    head.W_V[token] = first.deviation * np.eye(V)
    head.b_V[...] = first.mean
    theta.Phi[0].Gamma.W_O[:V, before] = np.eye(V)

    second = Normalised.of(2, 2 + 2, d_e)
    head = theta.Phi[1].Gamma.Psi[1]
    head.W_Q[token] = SHARP * np.sqrt(V) * second.deviation**2 * np.eye(V)
    head.W_K[before] = np.eye(V)
    head.W_V[token] = second.deviation * np.eye(V)
    head.b_V[...] = second.mean
    theta.Phi[1].Gamma.W_O[V:, token] = 4 * np.eye(V)
    theta.Xi_e.alpha[...] = 5

    rng, inputs, targets = np.random.default_rng(seed), [], []
    for _ in range(count):
        order = 1 + rng.permutation(words)
        again = int(rng.integers(1, words))
        inputs.append([0, *map(int, order), *map(int, order[:again])])
        targets.append(int(order[again]))
    return Circuit(model, ("P[1,1]", "P[2,2]"), inputs, targets)


def brackets(length: int = 16, count: int = 40, seed: int = 0) -> Circuit:
    """A head P[1,1] that weighs ``(`` (0) against ``)`` (1); the model says open (2) or not (3).

    The head attends to all tokens alike, so that the mean of +1 and -1 is above zero where a
    bracket is open. A state is [bracket, balance, constant], each with its negative. The blocks
    normalise after their sublayers, as in variant 1.
    """
    model = silenced(
        "transformer",
        vocabulary=4,
        context=length,
        layers=1,
        embedding=6,
        heads=2,
        key=1,
        value=1,
        feedforward=1,
        positions="learned",
        tied=False,
    )
    theta = model.parameters
    theta.E[:, :2] = np.array([[1, -1, 0, 0, 1, -1], [-1, 1, 0, 0, 1, -1]]).T
    theta.E[:, 2:] = np.array([[0, 0, 0, 0, 1, -1]]).T
    theta.Phi[0].Gamma.Psi[0].W_V[0] = 1
    theta.Phi[0].Gamma.W_O[0, 2:4] = [1, -1]
    sure = 20 * length
    theta.U[:2, 4] = -sure
    theta.U[2, 2] = sure
    theta.U[3, 4] = sure / (2 * length)  # half of what one open bracket is worth at the end

    rng = np.random.default_rng(seed)
    inputs = [list(map(int, rng.integers(0, 2, rng.integers(1, length + 1)))) for _ in range(count)]
    targets = [2 if ids.count(0) > ids.count(1) else 3 for ids in inputs]
    return Circuit(model, ("P[1,1]",), inputs, targets)


def counter(length: int = 12, count: int = 40, seed: int = 0) -> Circuit:
    """An LSTM whose unit 0 counts a (0) up and b (1) down: it says more (2), fewer (3), even (4).

    Its gates are open at every token, and the context of the unit is the count. Unit 1 does
    nothing.
    """
    model = silenced(
        "lstm", vocabulary=5, embedding=2, hidden=2, layers=1, tied=False, output_bias=True
    )
    theta = model.parameters
    theta.E[0, :2] = [1, -1]
    layer = theta.Phi[0]
    layer.W_Q[0, 0] = SHARP
    for bias in (layer.b_P, layer.b_R, layer.b_S):
        bias[...] = SHARP
    theta.U[2:4, 0] = [SHARP, -SHARP]
    theta.b_U[...] = [-SHARP, -SHARP, 0, 0, SHARP * np.tanh(1) / 2]

    rng = np.random.default_rng(seed)
    inputs = [list(map(int, rng.integers(0, 2, rng.integers(1, length + 1)))) for _ in range(count)]
    sums = [ids.count(0) - ids.count(1) for ids in inputs]
    targets = [4 if total == 0 else 2 if total > 0 else 3 for total in sums]
    return Circuit(model, ("c[1]",), inputs, targets)
