"""Prefill and decode of transformers: new tokens of any sequences, with their KV caches."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import uintp
from numpy import ndarray as Array

from vesalius.generation.kernels.activations import NONE, exponential
from vesalius.generation.kernels.compiling import compiled
from vesalius.generation.kernels.products import (
    Matrices,
    Scratch,
    barrier_if_shared,
    multiply,
    row_range,
    scratch_of,
    several,
    several_by_one,
    tiled,
)
from vesalius.generation.kernels.threads import Worker, barrier, next_chunk, wake
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
    """Whether a token sees only tokens before it; if not, a sequence is read all at once."""


class TransformerState(NamedTuple):
    """The KV cache of all sequences, and vectors to compute in: shared, or each thread's own."""

    key_cache: Array
    """layers x sequences x heads x length x d_k, padded to whole tiles"""
    value_cache: Array
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
    transposed: Array
    """The values of one head, where several tokens attend at once."""
    mixed: Array
    """The sums of these values, weighted by attention."""
    scratch: Scratch


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
def softmax_in_place(row: Array, root: Any) -> None:
    """The softmax of scores times a factor."""
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
    """One head (28) of one token, which sees the first tokens of the KV cache."""
    for t in range(0, seen, ROWS):
        several_by_one(keys, t, q, 0, scores)
    weights = scores[0, :seen]
    softmax_in_place(weights, root)
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
    transposed: Array,
    before: int,
    causal: bool,
    root: Any,
    scores: Array,
    out: Array,
) -> None:
    """One head of several tokens of a sequence, which see the tokens before and each other.

    With a causal mask, a token sees the new tokens up to itself. ``transposed`` are values,
    d_v x length.
    """
    n, width = len(out), transposed.shape[1]
    for b in range(0, n, VECTORS):
        last = min(b + VECTORS, n) if causal else n
        for t in range(0, before + last, ROWS):
            several(keys, t, q[b : b + VECTORS], 0, scores)
        for j in range(min(VECTORS, n - b)):
            seen = before + (b + j + 1 if causal else n)
            softmax_in_place(scores[j, :seen], root)
            scores[j, seen:width] = 0
        for i in range(0, len(transposed), ROWS):
            several(transposed, i, scores, 0, out[b : b + VECTORS])


@compiled
def attend(
    worker: Worker,
    s: TransformerState,
    l: int,
    d_k: int,
    causal: bool,
    slots: Array,
    positions: Array,
) -> None:
    """Write keys and values of new tokens to the KV cache, then attend.

    Heads are scheduled dynamically. Tokens of one sequence follow each other.
    """
    keys, values = s.key_cache[l], s.value_cache[l]
    n, heads, d_v = len(slots), keys.shape[1], values.shape[3]
    q, scores, mixed = s.queries[worker.thread], s.scores[worker.thread], s.mixed[worker.thread]
    root = np.float32(1 / math.sqrt(d_k))
    m = next_chunk(worker)
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
                seen_values = values[slot, m, : positions[end - 1] + 1]
                transposed = transpose(seen_values, s.transposed[worker.thread])
                out = mixed[: end - row]
                seen = keys[slot, m]
                attend_many(q[row:end], seen, transposed, before, causal, root, scores, out)
                s.attended[row:end, place] = out[:, :d_v]
            row = end
        m = next_chunk(worker)


@compiled
def transpose(values: Array, scratch: Array) -> Array:
    """The transposed values, padded to whole tiles; attention gives the padding no weight."""
    n, d_v = values.shape
    width, height = tiled(n, LANES), tiled(d_v, ROWS)
    transposed = scratch[: height * width].reshape(height, width)
    for i in range(d_v):
        for t in range(n):
            transposed[i, t] = values[t, i]
    return transposed


@compiled
def transformer_output(
    worker: Worker,
    w: TransformerWeights,
    s: TransformerState,
    x: Array,
    wanted: Array,
    logits: Array,
) -> None:
    """The logits (9) after the wanted tokens, from their last states."""
    n = len(wanted)
    normed = s.normed[scratch_of(worker, n)][:n]
    start, stop = row_range(worker, n)
    for i in range(start, stop):
        row, out = x[wanted[i] : wanted[i] + 1], normed[i : i + 1]
        if w.norm_first:
            normalise(w.norm, 0, w.epsilon, row, out)
        else:
            out[:] = row
    barrier_if_shared(worker, n)
    multiply(worker, w.output, 0, normed, s.scratch, logits, NONE)
    barrier(worker)


@compiled
def transformer_step(
    worker: Worker,
    w: TransformerWeights,
    s: TransformerState,
    slots: Array,
    positions: Array,
    wanted: Array,
    logits: Array,
) -> None:
    """New tokens, embedded already, through all layers; logits after the wanted ones."""
    wake(worker)
    n = len(slots)
    own = scratch_of(worker, n)
    x, normed = s.x[own][:n], s.normed[own][:n]
    start, stop = row_range(worker, n)
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
        barrier_if_shared(worker, n)
        multiply(worker, w.projections, l, read, s.scratch, s.projected, NONE)
        barrier(worker)
        attend(worker, s, l, w.d_k, w.causal, slots, positions)
        barrier(worker)
        multiply(worker, w.attention_output, l, s.attended[:n], s.scratch, s.added, NONE)
        barrier(worker)
        add(mine, added)
        if w.norm_first:
            normalise(two, l, w.epsilon, mine, mine_normed)
        else:
            normalise(one, l, w.epsilon, mine, mine)
        barrier_if_shared(worker, n)
        multiply(worker, w.inner, l, read, s.scratch, s.inner, w.activation)
        barrier(worker)
        multiply(worker, w.outer, l, s.inner[:n], s.scratch, s.added, NONE)
        barrier(worker)
        add(mine, added)
        if not w.norm_first:
            normalise(two, l, w.epsilon, mine, mine)
    barrier_if_shared(worker, n)
    if len(wanted):
        transformer_output(worker, w, s, x, wanted, logits)
