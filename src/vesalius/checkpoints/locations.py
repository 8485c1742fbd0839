"""Where a number of the parameters stands in its file: tensor, index and byte.

The way from a file's tensors to the paper's letters is a chain of views. Arrays of zeros are sent
down it, and where a cell of the result lies in them is where it lies in the file.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vesalius.checkpoints import files, layout
from vesalius.equations.parameters import Array, arrays
from vesalius.families.config import Config

ReadState = Callable[[Config, Mapping[str, Array], bool], dict[str, Array]]


@dataclass(frozen=True)
class Location:
    """One number in a file."""

    symbol: str
    """Its array in the paper's letters."""
    name: str
    """The array of ours that it is a view of."""
    file: str
    tensor: str
    index: tuple[int, ...]
    offset: int
    """Bytes from the beginning of the file."""
    dtype: str

    def __str__(self) -> str:
        where = ", ".join(map(str, self.index))
        return f"{self.tensor}({where}), {self.dtype} at byte {self.offset:,} of {self.file}"

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "index": list(self.index)}


class Locations:
    """The way from the paper's letters back to a folder's files."""

    def __init__(self, folder: Path, config: Config, read_state: ReadState) -> None:
        self._stored = {tensor.name: tensor for tensor in files.headers(folder)}
        # Zeros that nobody writes to take no room.
        zeros = {name: np.zeros(t.shape, np.float32) for name, t in self._stored.items()}
        state = read_state(config, zeros, True)
        self._tensors = {_address(array): (name, array) for name, array in zeros.items()}
        self._starts = sorted(self._tensors)
        self._config, self._letters = config, dict(arrays(layout.letters(config, state)))

    def find(self, symbol: str, at: tuple[int, ...]) -> Location | None:
        """Where a cell stands; None where the file has it in another order, copied."""
        address = _address(self._letters[symbol], at)
        start = self._starts[bisect_right(self._starts, address) - 1]
        name, array = self._tensors[start]
        flat = (address - start) // array.itemsize
        if not 0 <= flat < array.size:
            return None
        stored = self._stored[name]
        return Location(
            symbol,
            layout.name_of(self._config, symbol),
            stored.file,
            name,
            tuple(int(k) for k in np.unravel_index(flat, stored.shape)),
            stored.start + flat * (stored.nbytes // stored.size),
            stored.dtype,
        )


def _address(array: Array, at: tuple[int, ...] = ()) -> int:
    steps = sum(k * stride for k, stride in zip(at, array.strides, strict=False))
    return int(array.__array_interface__["data"][0]) + steps
