"""A step of transformers, and what a long prompt needs between products of NumPy's."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import uintp
from numpy import ndarray as Array

from vesalius.generation.kernels.compiling import compiled
from vesalius.generation.kernels.products import NONE, Matrices, Room, exponential, multiply
from vesalius.generation.kernels.teams import Member, meet
from vesalius.generation.kernels.vectors import tile

four_by_one = tile(4, 1, 1)


class Norms(NamedTuple):
    """One normalisation of every layer."""

    weight: Array
    bias: Array


class TransformerWeights(NamedTuple):
    norm: Norms
    attention_norm: Norms
    projections: Matrices
    """Queries, keys and values of all heads, one below the other."""
    attention_output: Matrices
    feedforward_norm: Norms
    inner: Matrices
    outer: Matrices
    output: Matrices
    activation: int
    norm_first: bool
    epsilon: float
    d_k: int


class TransformerState(NamedTuple):
    """What sequences leave behind, and room to work in: x and what is normed, for each thread."""

    keys: Array
    """layers x sequences x heads x length x d_k, filled up to whole tiles"""
    values: Array
    """layers x sequences x heads x length x d_v"""
    embedded: Array
    x: Array
    normed: Array
    projected: Array
    attended: Array
    added: Array
    queries: Array
    scores: Array
    inner: Array
    room: Room


@compiled
def normalise(weight: Array, bias: Array, epsilon: float, x: Array, out: Array) -> None:
    """Layer normalisation (38) of each row."""
    width = uintp(x.shape[1])
    for row in range(len(x)):
        mean = np.float32(0)
        for i in range(width):
            mean += x[row, i]
        mean /= np.float32(width)
        variance = np.float32(0)
        for i in range(width):
            variance += (x[row, i] - mean) * (x[row, i] - mean)
        inverse = np.float32(1 / math.sqrt(variance / np.float32(width) + epsilon))
        for i in range(width):
            out[row, i] = (x[row, i] - mean) * inverse * weight[i] + bias[i]


@compiled
def add(x: Array, y: Array) -> None:
    for row in range(len(x)):
        for i in range(uintp(x.shape[1])):
            x[row, i] += y[row, i]


@compiled
def soften(row: Array, root: Any) -> None:
    """The softmax of scores times a factor, in place."""
    n = uintp(len(row))
    largest, total = row[0], np.float32(0)
    for t in range(n):
        largest = max(largest, row[t])
    for t in range(n):
        row[t] = exponential((row[t] - largest) * root)
        total += row[t]
    for t in range(n):
        row[t] /= total


@compiled
def attend_one(
    q: Array, keys: Array, values: Array, seen: int, root: Any, scores: Array, out: Array
) -> None:
    """One head (28) of one token, which sees so many."""
    for t in range(0, seen, 4):
        four_by_one(keys, t, q, 0, scores)
    weights = scores[0, :seen]
    soften(weights, root)
    out[:] = 0
    for t in range(seen):
        weight, row = weights[t], values[t]
        for i in range(uintp(len(out))):
            out[i] += weight * row[i]


@compiled
def attend(
    member: Member, s: TransformerState, l: int, d_k: int, slots: Array, positions: Array
) -> None:
    """Remember the keys and values of new tokens, then let each see all up to itself.

    A thread has some of the heads.
    """
    keys, values = s.keys[l], s.values[l]
    heads, d_v = keys.shape[1], values.shape[3]
    q, scores = s.queries[member.part], s.scores[member.part]
    root = np.float32(1 / math.sqrt(d_k))
    for m in range(member.part, heads, member.parts):
        k, v = (heads + m) * d_k, 2 * heads * d_k + m * d_v
        for row in range(len(slots)):
            slot, t = slots[row], positions[row]
            keys[slot, m, t, :d_k] = s.projected[row, k : k + d_k]
            values[slot, m, t] = s.projected[row, v : v + d_v]
        for row in range(len(slots)):
            slot, seen = slots[row], positions[row] + 1
            q[0, :d_k] = s.projected[row, m * d_k : (m + 1) * d_k]
            out = s.attended[row, m * d_v : (m + 1) * d_v]
            attend_one(q, keys[slot, m], values[slot, m], seen, root, scores, out)


@compiled
def transformer_output(
    member: Member, w: TransformerWeights, s: TransformerState, x: Array, logits: Array
) -> None:
    """The logits (11) that states of tokens give."""
    if w.norm_first:
        normed = s.normed[member.part][: len(x)]
        normalise(w.norm.weight[0], w.norm.bias[0], w.epsilon, x, normed)
        x = normed
    multiply(member, w.output, 0, x, s.room, logits, NONE)
    meet(member)


@compiled
def transformer_step(
    member: Member,
    w: TransformerWeights,
    s: TransformerState,
    slots: Array,
    positions: Array,
    logits: Array,
    last: int,
) -> None:
    """Read tokens that are embedded already; logits are of the last so many rows."""
    n = len(slots)
    x, normed = s.x[member.part][:n], s.normed[member.part][:n]
    x[:] = s.embedded[:n]
    if not w.norm_first:
        normalise(w.norm.weight[0], w.norm.bias[0], w.epsilon, x, x)
    for l in range(len(w.inner.weight)):
        one, two = w.attention_norm, w.feedforward_norm
        if w.norm_first:
            normalise(one.weight[l], one.bias[l], w.epsilon, x, normed)
        else:
            normed[:] = x
        multiply(member, w.projections, l, normed, s.room, s.projected, NONE)
        meet(member)
        attend(member, s, l, w.d_k, slots, positions)
        meet(member)
        multiply(member, w.attention_output, l, s.attended[:n], s.room, s.added, NONE)
        meet(member)
        add(x, s.added)
        if w.norm_first:
            normalise(two.weight[l], two.bias[l], w.epsilon, x, normed)
        else:
            normalise(one.weight[l], one.bias[l], w.epsilon, x, x)
            normed[:] = x
        multiply(member, w.inner, l, normed, s.room, s.inner, w.activation)
        meet(member)
        multiply(member, w.outer, l, s.inner[:n], s.room, s.added, NONE)
        meet(member)
        add(x, s.added)
        if not w.norm_first:
            normalise(two.weight[l], two.bias[l], w.epsilon, x, x)
    transformer_output(member, w, s, x[n - last :], logits)


@compiled
def normalise_rows(weight: Array, bias: Array, epsilon: float, x: Array) -> None:
    normalise(weight, bias, epsilon, x, x)


@compiled
def soften_causally(root: float, scores: Array) -> None:
    """Softmax of scores (heads x n x n) over the tokens up to each; zero for later ones."""
    for m in range(len(scores)):
        for t in range(scores.shape[1]):
            soften(scores[m, t, : t + 1], np.float32(root))
            scores[m, t, t + 1 :] = 0
