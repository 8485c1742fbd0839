"""A step of the feedforward language model."""

from typing import NamedTuple

from numpy import ndarray as Array

from vesalius.generation.kernels.compiling import compiled
from vesalius.generation.kernels.products import NONE, Matrices, Room, multiply
from vesalius.generation.kernels.teams import Member, call_others, meet


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


@compiled
def feedforward_step(
    member: Member, w: FeedforwardWeights, s: FeedforwardState, n: int, logits: Array
) -> None:
    """Windows that are embedded already to logits."""
    call_others(member)
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
