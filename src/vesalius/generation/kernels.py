"""Compiled kernels that take every sequence one token further, at the speed of memory.

Each is run by all threads of a team, every one with a member's number and room of its own.

A matrix is read once for all sequences, in float32 or as bytes with a scale for each of its rows;
bytes meet vectors of 16-bit integers where the processor is quick at that. Numba compiles what is
first used and keeps it in the user's cache.
"""

import hashlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types, uintp
from numba.core import config
from numba.extending import overload
from numpy import ndarray as Array

from vesalius.errors import Unwritable
from vesalius.generation.teams import Member, meet
from vesalius.generation.vectors import PADDING, tile
from vesalius.machine import cache_folder

SUMS = {"reassoc", "contract", "nsz", "nnan"}  # what sums and maxima in vectors need


def _folder() -> str:
    """Where compiled kernels are kept: a folder for each version of the files that make them.

    Numba itself looks at one file alone, and takes what was made with another version of the rest.
    """
    here = Path(__file__)
    files = (here, here.with_name("teams.py"), here.with_name("vectors.py"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    try:
        return str(cache_folder() / "kernels" / digest[:16])
    except Unwritable:
        return ""  # beside this file, or wherever Numba finds a place


FOLDER = _folder()


def compiled(function: Any) -> Any:
    before, config.CACHE_DIR = config.CACHE_DIR, FOLDER
    try:
        return njit(cache=True, fastmath=SUMS, nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = before


NONE, RELU, SIGMOID, TANH, GELU, GELU_TANH = range(6)
ACTIVATIONS = {
    "relu": RELU,
    "sigmoid": SIGMOID,
    "tanh": TANH,
    "gelu": GELU,
    "gelu_tanh": GELU_TANH,
}


class Matrices(NamedTuple):
    """One matrix of every layer: layers x rows x columns, and a scale and a bias for each row."""

    weight: Array
    scale: Array
    bias: Array


class Norms(NamedTuple):
    """One normalisation of every layer."""

    weight: Array
    bias: Array


class Room(NamedTuple):
    """Where each thread makes a product's vectors ready, in the form that the matrix wants."""

    x: Array
    scale: Array


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


class RecurrentWeights(NamedTuple):
    first: Matrices
    """[W | U] of the first layer: for what comes from below, and from the step before."""
    others: Matrices
    output: Matrices
    activation: int


class RecurrentState(NamedTuple):
    hidden: Array
    """layers x sequences x width"""
    cells: Array
    embedded: Array
    first_joined: Array
    """What a layer reads, one beside the other: from below, and from the step before."""
    joined: Array
    top: Array
    summed: Array
    room: Room


class FeedforwardWeights(NamedTuple):
    first: Matrices
    others: Matrices
    output: Matrices
    activation: int


class FeedforwardState(NamedTuple):
    joined: Array
    """The embeddings of a window, one beside the other."""
    hidden: Array
    x: Array
    room: Room


# Functions ----------------------------------------------------------------------


@compiled
def exponential(x: Any) -> Any:
    """e^x in float32, to its last digits, in a form that vectors can take."""
    x = min(max(x, np.float32(-87)), np.float32(88))
    power = np.floor(x * np.float32(1 / math.log(2)) + np.float32(0.5))
    r = x - power * np.float32(math.log(2))  # within half a ln 2
    e = np.float32(1 / 5040)
    e = e * r + np.float32(1 / 720)
    e = e * r + np.float32(1 / 120)
    e = e * r + np.float32(1 / 24)
    e = e * r + np.float32(1 / 6)
    e = e * r + np.float32(1 / 2)
    e = e * r + np.float32(1)
    e = e * r + np.float32(1)
    exponent = (np.int32(power) + np.int32(127)) << np.int32(23)
    return e * np.int32(exponent).view(np.float32)


@compiled
def activate(kind: int, y: Array) -> None:
    """An activation, in place."""
    one = np.float32(1)
    n = uintp(len(y))
    if kind == RELU:
        for i in range(n):
            y[i] = max(y[i], np.float32(0))
    elif kind == SIGMOID:
        for i in range(n):
            y[i] = one / (one + exponential(-y[i]))
    elif kind == TANH:
        for i in range(n):
            y[i] = math.tanh(y[i])
    elif kind == GELU:
        for i in range(n):
            y[i] = np.float32(0.5) * y[i] * (one + math.erf(y[i] * np.float32(math.sqrt(0.5))))
    elif kind == GELU_TANH:  # (1 + tanh u) / 2 is the sigmoid of 2 u
        for i in range(n):
            u = y[i] + np.float32(0.044715) * y[i] * y[i] * y[i]
            y[i] = y[i] / (one + exponential(np.float32(-2 * math.sqrt(2 / math.pi)) * u))


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


# Products -----------------------------------------------------------------------

one_by_one, four_by_four, two_by_eight = tile(1, 1, 4), tile(4, 4, 1), tile(2, 8, 1)
four_by_one = tile(4, 1, 1)


def prepare(x: Array, width: int, ready: Array, coarse: Array) -> None:
    """Vectors as the matrix wants them, with zeros where it has them."""
    raise AssertionError("compiled code has its own, below")


@overload(prepare, jit_options={"fastmath": True})
def _prepare(x: Any, width: Any, ready: Any, coarse: Any) -> Any:
    return _as_integers if ready.dtype == types.int16 else _as_they_are


def _as_they_are(x: Any, width: Any, ready: Any, coarse: Any) -> Any:
    for row in range(len(x)):
        for i in range(uintp(x.shape[1])):
            ready[row, i] = x[row, i]
        ready[row, x.shape[1] : width] = 0
        coarse[row] = 1


def _as_integers(x: Any, width: Any, ready: Any, coarse: Any) -> Any:
    # A sum holds every sixteenth pair of products, of which none may be too large for 32 bits.
    levels = np.float32(min(32767, (2**31 - 1) * 16 // (254 * width)))
    for row in range(len(x)):
        largest = np.float32(1e-30)
        for i in range(uintp(x.shape[1])):
            largest = max(largest, abs(x[row, i]))
        fine = levels / largest
        for i in range(uintp(x.shape[1])):
            ready[row, i] = np.int16(np.rint(x[row, i] * fine))
        ready[row, x.shape[1] : width] = 0
        coarse[row] = largest / levels


@compiled
def some_rows(
    weight: Array,
    scale: Array,
    bias: Array,
    x: Array,
    coarse: Array,
    n: int,
    out: Array,
    start: int,
    stop: int,
    kind: int,
) -> None:
    """Rows from start to stop of g(W x + b) for the first n of the vectors made ready."""
    fours = start if n == 1 else start + (stop - start) // 4 * 4
    for i in range(start, fours, 4):
        b = 0
        while n - b > 4:
            two_by_eight(weight, i, x, b, out)
            two_by_eight(weight, i + 2, x, b, out)
            b += 8
        if n > b:
            four_by_four(weight, i, x, b, out)
    for i in range(fours, stop):
        for row in range(n):
            one_by_one(weight, i, x, row, out)
    for row in range(n):
        y = out[row, start:stop]
        for i in range(uintp(stop - start)):
            y[i] = y[i] * coarse[row] * scale[start + i] + bias[start + i]
        activate(kind, y)


@compiled
def multiply(
    member: Member, matrices: Matrices, l: int, x: Array, room: Room, out: Array, kind: int
) -> None:
    """A thread's share of g(W x + b) of layer l, for each row of x.

    ``out`` has room for a multiple of eight rows.
    """
    weight, scale, bias = matrices.weight[l], matrices.scale[l], matrices.bias[l]
    rows, width = weight.shape
    ready, coarse = room.x[member.part], room.scale[member.part]
    prepare(x, width, ready, coarse)
    share = ((rows + member.parts - 1) // member.parts + 3) // 4 * 4
    start, stop = min(member.part * share, rows), min((member.part + 1) * share, rows)
    some_rows(weight, scale, bias, ready, coarse, len(x), out, start, stop, kind)


@compiled
def add(x: Array, y: Array) -> None:
    for row in range(len(x)):
        for i in range(uintp(x.shape[1])):
            x[row, i] += y[row, i]


# Transformers -------------------------------------------------------------------


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


# Many tokens at once, between products of matrices ------------------------------


@compiled
def normalise_rows(weight: Array, bias: Array, epsilon: float, x: Array) -> None:
    normalise(weight, bias, epsilon, x, x)


@compiled
def finish(scale: Array, bias: Array, kind: int, y: Array) -> None:
    """What products still lack: scales, biases, the activation."""
    for row in range(len(y)):
        for i in range(uintp(y.shape[1])):
            y[row, i] = y[row, i] * scale[i] + bias[i]
        activate(kind, y[row])


@compiled
def soften_causally(root: float, scores: Array) -> None:
    """Softmax of scores (heads x n x n) over the tokens up to each; zero for later ones."""
    for m in range(len(scores)):
        for t in range(scores.shape[1]):
            soften(scores[m, t, : t + 1], np.float32(root))
            scores[m, t, t + 1 :] = 0


# Recurrent and feedforward networks ---------------------------------------------


@compiled
def lstm_cell(summed: Array, hidden: Array, cell: Array) -> None:
    """(44) to (49): the gates in PyTorch's order add, forget, candidate, output."""
    width = len(hidden)
    activate(SIGMOID, summed[: 2 * width])
    activate(TANH, summed[2 * width : 3 * width])
    activate(SIGMOID, summed[3 * width :])
    for i in range(width):
        cell[i] = summed[width + i] * cell[i] + summed[i] * summed[2 * width + i]
        hidden[i] = summed[3 * width + i] * math.tanh(cell[i])


@compiled
def take_in(member: Member, s: RecurrentState, l: int, slots: Array, gates: int) -> None:
    """New states of layer l; each thread has some of the rows."""
    for row in range(member.part, len(slots), member.parts):
        if gates == 4:
            lstm_cell(s.summed[row], s.hidden[l, slots[row]], s.cells[l, slots[row]])
        else:
            s.hidden[l, slots[row]] = s.summed[row]
    meet(member)


@compiled
def recurrent_step(
    member: Member,
    w: RecurrentWeights,
    s: RecurrentState,
    slots: Array,
    logits: Array,
    read: bool,
) -> None:
    """Read tokens that are embedded already; logits if asked for."""
    n, layers, width = len(slots), s.hidden.shape[0], s.hidden.shape[2]
    gates, below = w.first.weight.shape[1] // width, s.embedded.shape[1]
    kind = NONE if gates == 4 else w.activation
    first, joined = s.first_joined[member.part][:n], s.joined[member.part][:n]
    for row in range(n):
        first[row, :below] = s.embedded[row]
        first[row, below:] = s.hidden[0, slots[row]]
    multiply(member, w.first, 0, first, s.room, s.summed, kind)
    meet(member)
    take_in(member, s, 0, slots, gates)
    for l in range(1, layers):
        for row in range(n):
            joined[row, :width] = s.hidden[l - 1, slots[row]]
            joined[row, width:] = s.hidden[l, slots[row]]
        multiply(member, w.others, l - 1, joined, s.room, s.summed, kind)
        meet(member)
        take_in(member, s, l, slots, gates)
    if read:
        top = s.top[member.part][:n]
        for row in range(n):
            top[row] = s.hidden[layers - 1, slots[row]]
        multiply(member, w.output, 0, top, s.room, logits, NONE)
        meet(member)


@compiled
def feedforward_step(
    member: Member, w: FeedforwardWeights, s: FeedforwardState, n: int, logits: Array
) -> None:
    """Windows that are embedded already to logits."""
    multiply(member, w.first, 0, s.joined[:n], s.room, s.hidden, w.activation)
    meet(member)
    for l in range(len(w.others.weight)):
        hidden = s.x[member.part][:n]
        hidden[:] = s.hidden[:n]
        meet(member)
        multiply(member, w.others, l, hidden, s.room, s.hidden, w.activation)
        meet(member)
    multiply(member, w.output, 0, s.hidden[:n], s.room, logits, NONE)
    meet(member)


def padded(width: int) -> int:
    """The columns that a matrix is filled up to."""
    return -(-width // PADDING) * PADDING
