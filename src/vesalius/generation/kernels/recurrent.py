"""A decode step of recurrent networks."""

import math
from typing import NamedTuple

from numpy import ndarray as Array

from vesalius.generation.kernels.activations import NONE, SIGMOID, TANH, activate
from vesalius.generation.kernels.compiling import compiled
from vesalius.generation.kernels.products import Matrices, Scratch, multiply
from vesalius.generation.kernels.threads import Worker, barrier, wake


class RecurrentWeights(NamedTuple):
    first: Matrices
    """[W | U] of the first layer: W for its input, U for its state at the step before."""
    others: Matrices
    output: Matrices
    activation: int
    embedding: int
    """The width of embeddings."""


class RecurrentState(NamedTuple):
    hidden: Array
    """layers x sequences x width"""
    cells: Array
    embedded: Array
    first_joined: Array
    """What a layer multiplies: its input, and beside it its state at the step before."""
    joined: Array
    top: Array
    summed: Array
    scratch: Scratch


@compiled
def lstm_cell(summed: Array, hidden: Array, cell: Array) -> None:
    """(44) to (48): the gates in PyTorch's order add, forget, candidate, output."""
    width = len(hidden)
    activate(SIGMOID, summed[: 2 * width])
    activate(TANH, summed[2 * width : 3 * width])
    activate(SIGMOID, summed[3 * width : 4 * width])
    for i in range(width):
        cell[i] = summed[width + i] * cell[i] + summed[i] * summed[2 * width + i]
        hidden[i] = summed[3 * width + i] * math.tanh(cell[i])


@compiled
def update_states(worker: Worker, s: RecurrentState, l: int, slots: Array, gates: int) -> None:
    """New states of layer l; the threads share the sequences."""
    for row in range(worker.thread, len(slots), worker.threads):
        if gates == 4:
            lstm_cell(s.summed[row], s.hidden[l, slots[row]], s.cells[l, slots[row]])
        else:
            s.hidden[l, slots[row]] = s.summed[row, : s.hidden.shape[2]]
    barrier(worker)


@compiled
def recurrent_step(
    worker: Worker,
    w: RecurrentWeights,
    s: RecurrentState,
    slots: Array,
    logits: Array,
    with_logits: bool,
) -> None:
    """One token of each sequence, embedded already; its logits if asked for."""
    wake(worker)
    n, layers, width = len(slots), s.hidden.shape[0], s.hidden.shape[2]
    gates, below = w.first.weight.shape[1] // width, w.embedding
    kind = NONE if gates == 4 else w.activation
    first, joined = s.first_joined[worker.thread][:n], s.joined[worker.thread][:n]
    for row in range(n):
        first[row, :below] = s.embedded[row, :below]
        first[row, below : below + width] = s.hidden[0, slots[row]]
    multiply(worker, w.first, 0, first, s.scratch, s.summed, kind)
    barrier(worker)
    update_states(worker, s, 0, slots, gates)
    for l in range(1, layers):
        for row in range(n):
            joined[row, :width] = s.hidden[l - 1, slots[row]]
            joined[row, width : 2 * width] = s.hidden[l, slots[row]]
        multiply(worker, w.others, l - 1, joined, s.scratch, s.summed, kind)
        barrier(worker)
        update_states(worker, s, l, slots, gates)
    if with_logits:
        top = s.top[worker.thread][:n]
        for row in range(n):
            top[row, :width] = s.hidden[layers - 1, slots[row]]
        multiply(worker, w.output, 0, top, s.scratch, logits, NONE)
        barrier(worker)
