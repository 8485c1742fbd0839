"""A step of recurrent networks."""

import math
from typing import NamedTuple

from numpy import ndarray as Array

from vesalius.generation.kernels.compiling import compiled
from vesalius.generation.kernels.products import (
    NONE,
    SIGMOID,
    TANH,
    Matrices,
    Room,
    activate,
    multiply,
)
from vesalius.generation.kernels.teams import Member, call_others, meet


class RecurrentWeights(NamedTuple):
    first: Matrices
    """[W | U] of the first layer: for what comes from below, and from the step before."""
    others: Matrices
    output: Matrices
    activation: int
    below: int
    """How wide embeddings are."""


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
def take_in(member: Member, s: RecurrentState, l: int, slots: Array, gates: int) -> None:
    """New states of layer l; each thread has some of the rows."""
    for row in range(member.part, len(slots), member.parts):
        if gates == 4:
            lstm_cell(s.summed[row], s.hidden[l, slots[row]], s.cells[l, slots[row]])
        else:
            s.hidden[l, slots[row]] = s.summed[row, : s.hidden.shape[2]]
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
    call_others(member)
    n, layers, width = len(slots), s.hidden.shape[0], s.hidden.shape[2]
    gates, below = w.first.weight.shape[1] // width, w.below
    kind = NONE if gates == 4 else w.activation
    first, joined = s.first_joined[member.part][:n], s.joined[member.part][:n]
    for row in range(n):
        first[row, :below] = s.embedded[row, :below]
        first[row, below : below + width] = s.hidden[0, slots[row]]
    multiply(member, w.first, 0, first, s.room, s.summed, kind)
    meet(member)
    take_in(member, s, 0, slots, gates)
    for l in range(1, layers):
        for row in range(n):
            joined[row, :width] = s.hidden[l - 1, slots[row]]
            joined[row, width : 2 * width] = s.hidden[l, slots[row]]
        multiply(member, w.others, l - 1, joined, s.room, s.summed, kind)
        meet(member)
        take_in(member, s, l, slots, gates)
    if read:
        top = s.top[member.part][:n]
        for row in range(n):
            top[row, :width] = s.hidden[layers - 1, slots[row]]
        multiply(member, w.output, 0, top, s.room, logits, NONE)
        meet(member)
