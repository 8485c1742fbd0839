"""What a token has to read, and how quickly this machine reads."""

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from vesalius.model import Model

STEADY, TRIES = 1.1, 5


def weight_bytes(model: Model) -> dict[str, float]:
    """Bytes of weights that one token needs, by how they are kept.

    All but what is looked up, which are the positions, and the embedding where it is not the
    output too: of these it needs one column.
    Quantised, matrices have a scale in single precision for each output, or in q8_0 one in half
    precision for 32 numbers; vectors stay as they are.
    """
    looked_up = {"positions.weight"}
    if not getattr(model.config, "tied", False):
        looked_up.add("embedding.weight")
    arrays = [a for name, a in model.state.items() if name not in looked_up]
    matrices = sum(a.size for a in arrays if a.ndim == 2)
    outputs = sum(len(a) for a in arrays if a.ndim == 2)
    vectors = sum(a.size for a in arrays if a.ndim == 1)
    return {
        "float32": 4 * (matrices + vectors),
        "int8": matrices + 4 * outputs + 4 * vectors,
        "q8_0": matrices * 34 / 32 + 4 * vectors,
    }


class Reading:
    """How quickly this machine reads: a GiB is summed, again and again."""

    def __init__(self, threads: int) -> None:
        self.array = np.ones(2**28, np.float32)
        self.total = _compiled_sum(threads)
        self.total(self.array)

    def measure(self) -> float:
        """Bytes a second over half a second, in which others disturb it as they do an engine."""
        start, taken, read = time.perf_counter(), 0.0, 0
        while taken < 0.5:
            self.total(self.array)
            taken, read = time.perf_counter() - start, read + self.array.nbytes
        return read / taken

    def around(self, run: Callable[[], float]) -> tuple[float, float]:
        """The seconds that something took, and the bytes per second that were read around it.

        What a virtual machine can read changes from one moment to the next, by a factor of two;
        if it did meanwhile, that is no measurement and is done again.
        """
        after = self.measure()
        for _ in range(TRIES):
            before, seconds, after = after, run(), self.measure()
            if max(before, after) < STEADY * min(before, after):
                break
        else:
            print("memory was never steady", flush=True)
        return seconds, max(before, after)


def _compiled_sum(threads: int) -> Callable[[np.ndarray], Any]:
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))

    @numba.njit(parallel=True, fastmath=True)
    def total(array: np.ndarray) -> Any:
        kept = np.float32(0)
        for i in numba.prange(array.size):
            kept += array[i]
        return kept

    return total
