"""A step of transformers."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import uintp
from numpy import ndarray as Array

from vesalius.generation.kernels.compiling import compiled
from vesalius.generation.kernels.products import (
    NONE,
    Matrices,
    Room,
    exponential,
    multiply,
    room_of,
    settle,
    several,
    several_by_one,
    share,
    tiled,
)
from vesalius.generation.kernels.teams import Member, call_others, meet, take
from vesalius.generation.kernels.vectors import LANES, ROWS, VECTORS


class Norms(NamedTuple):
    """One normalisation of every layer."""

    weight: Array
    bias: Array
    centred: bool
    """Whether the mean is subtracted first."""


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
    causal: bool
    """Whether a token sees only those before it; else all of its sequence are read at once."""


class TransformerState(NamedTuple):
    """What sequences leave behind, and room to work in: of each thread, or the first's for all."""

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
    inner: Array
    queries: Array
    scores: Array
    turned: Array
    """The values of one head, where many tokens attend at once."""
    mixed: Array
    """What they add up to."""
    room: Room


@compiled
def normalise(norms: Norms, l: int, epsilon: float, x: Array, out: Array) -> None:
    """Layer normalisation (35) of each row."""
    weight, bias = norms.weight[l], norms.bias[l]
    width = uintp(len(weight))
    for row in range(len(x)):
        mean = np.float32(0)
        if norms.centred:
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
    for t in range(0, seen, ROWS):
        several_by_one(keys, t, q, 0, scores)
    weights = scores[0, :seen]
    soften(weights, root)
    out[:] = 0
    fours = seen // 4 * 4
    for t in range(0, fours, 4):
        a, b, c, d = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
        va, vb, vc, vd = values[t], values[t + 1], values[t + 2], values[t + 3]
        for i in range(uintp(len(out))):
            out[i] += a * va[i] + b * vb[i] + c * vc[i] + d * vd[i]
    for t in range(fours, seen):
        weight, row = weights[t], values[t]
        for i in range(uintp(len(out))):
            out[i] += weight * row[i]


@compiled
def attend_many(
    q: Array,
    keys: Array,
    turned: Array,
    before: int,
    causal: bool,
    root: Any,
    scores: Array,
    out: Array,
) -> None:
    """One head of some tokens in a row, which see those before and each other.

    Where it is causal, a token sees the others up to itself. ``turned`` are values, a row for each
    of their numbers.
    """
    n, width = len(out), turned.shape[1]
    for b in range(0, n, VECTORS):
        last = min(b + VECTORS, n) if causal else n
        for t in range(0, before + last, ROWS):
            several(keys, t, q[b : b + VECTORS], 0, scores)
        for j in range(min(VECTORS, n - b)):
            seen = before + (b + j + 1 if causal else n)
            soften(scores[j, :seen], root)
            scores[j, seen:width] = 0
        for i in range(0, len(turned), ROWS):
            several(turned, i, scores, 0, out[b : b + VECTORS])


@compiled
def attend(
    member: Member,
    s: TransformerState,
    l: int,
    d_k: int,
    causal: bool,
    slots: Array,
    positions: Array,
) -> None:
    """Remember the keys and values of new tokens, then let each see what it may.

    Threads take the heads one by one. Tokens of one sequence follow each other.
    """
    keys, values = s.keys[l], s.values[l]
    n, heads, d_v = len(slots), keys.shape[1], values.shape[3]
    q, scores, mixed = s.queries[member.part], s.scores[member.part], s.mixed[member.part]
    root = np.float32(1 / math.sqrt(d_k))
    m = take(member)
    while m < heads:
        k, v = (heads + m) * d_k, 2 * heads * d_k + m * d_v
        for row in range(n):
            slot, t = slots[row], positions[row]
            q[row, :d_k] = s.projected[row, m * d_k : (m + 1) * d_k]
            keys[slot, m, t, :d_k] = s.projected[row, k : k + d_k]
            values[slot, m, t] = s.projected[row, v : v + d_v]
        row = 0
        while row < n:
            slot, end = slots[row], row + 1
            while end < n and slots[end] == slot:
                end += 1
            before, place = positions[row], slice(m * d_v, (m + 1) * d_v)
            if end == row + 1:
                out = s.attended[row, place]
                attend_one(
                    q[row:end], keys[slot, m], values[slot, m], before + 1, root, scores, out
                )
            else:
                turned = turn(values[slot, m, : positions[end - 1] + 1], s.turned[member.part])
                out = mixed[: end - row]
                seen = keys[slot, m]
                attend_many(q[row:end], seen, turned, before, causal, root, scores, out)
                s.attended[row:end, place] = out[:, :d_v]
            row = end
        m = take(member)


@compiled
def turn(values: Array, room: Array) -> Array:
    """Values whose rows became columns, up to whole tiles; what fills these up has no weight."""
    n, d_v = values.shape
    width, height = tiled(n, LANES), tiled(d_v, ROWS)
    turned = room[: height * width].reshape(height, width)
    for i in range(d_v):
        for t in range(n):
            turned[i, t] = values[t, i]
    return turned


@compiled
def transformer_output(
    member: Member,
    w: TransformerWeights,
    s: TransformerState,
    x: Array,
    wanted: Array,
    logits: Array,
) -> None:
    """The logits (9) that states of the wanted tokens give."""
    n = len(wanted)
    normed = s.normed[room_of(member, n)][:n]
    start, stop = share(member, n)
    for i in range(start, stop):
        row, out = x[wanted[i] : wanted[i] + 1], normed[i : i + 1]
        if w.norm_first:
            normalise(w.norm, 0, w.epsilon, row, out)
        else:
            out[:] = row
    settle(member, n)
    multiply(member, w.output, 0, normed, s.room, logits, NONE)
    meet(member)


@compiled
def transformer_step(
    member: Member,
    w: TransformerWeights,
    s: TransformerState,
    slots: Array,
    positions: Array,
    wanted: Array,
    logits: Array,
) -> None:
    """Read tokens that are embedded already; logits are of the wanted ones."""
    call_others(member)
    n = len(slots)
    own = room_of(member, n)
    x, normed = s.x[own][:n], s.normed[own][:n]
    start, stop = share(member, n)
    mine, mine_normed, added = x[start:stop], normed[start:stop], s.added[start:stop]
    mine[:] = s.embedded[start:stop]
    if w.norm_first:
        read = normed
    else:
        read = x
        normalise(w.norm, 0, w.epsilon, mine, mine)
    for l in range(len(w.inner.weight)):
        one, two = w.attention_norm, w.feedforward_norm
        if w.norm_first:
            normalise(one, l, w.epsilon, mine, mine_normed)
        settle(member, n)
        multiply(member, w.projections, l, read, s.room, s.projected, NONE)
        meet(member)
        attend(member, s, l, w.d_k, w.causal, slots, positions)
        meet(member)
        multiply(member, w.attention_output, l, s.attended[:n], s.room, s.added, NONE)
        meet(member)
        add(mine, added)
        if w.norm_first:
            normalise(two, l, w.epsilon, mine, mine_normed)
        else:
            normalise(one, l, w.epsilon, mine, mine)
        settle(member, n)
        multiply(member, w.inner, l, read, s.room, s.inner, w.activation)
        meet(member)
        multiply(member, w.outer, l, s.inner[:n], s.room, s.added, NONE)
        meet(member)
        add(mine, added)
        if not w.norm_first:
            normalise(two, l, w.epsilon, mine, mine)
    settle(member, n)
    if len(wanted):
        transformer_output(member, w, s, x, wanted, logits)
