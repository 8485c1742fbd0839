"""A decode step of the feedforward language model."""

from typing import NamedTuple

from numpy import ndarray as Array

from vesalius.generation.kernels.activations import NONE
from vesalius.generation.kernels.compiling import compiled
from vesalius.generation.kernels.products import Matrices, Scratch, multiply
from vesalius.generation.kernels.threads import Worker, barrier, wake


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
    scratch: Scratch


@compiled
def feedforward_step(
    worker: Worker, w: FeedforwardWeights, s: FeedforwardState, n: int, logits: Array
) -> None:
    """The logits of n windows, whose tokens are embedded already."""
    wake(worker)
    multiply(worker, w.first, 0, s.joined[:n], s.scratch, s.hidden, w.activation)
    barrier(worker)
    for l in range(len(w.others.weight)):
        hidden = s.x[worker.thread][:n]
        hidden[:] = s.hidden[:n]
        barrier(worker)
        multiply(worker, w.others, l, hidden, s.scratch, s.hidden, w.activation)
        barrier(worker)
    multiply(worker, w.output, 0, s.hidden[:n], s.scratch, logits, NONE)
    barrier(worker)
