"""A small .weights.h5 as Keras lays it out, written without it; and the same with a bit flipped."""

from pathlib import Path

import numpy as np

from vesalius.checkpoints import libraries
from vesalius.checkpoints.hdf5 import VARIABLES

SIZES = {"layers": 1, "embedding": 4, "heads": 2, "feedforward": 4, "vocabulary": 5, "context": 3}


def write_gpt2(file: Path) -> dict[str, np.ndarray]:
    """GPT2Backbone's arrays at a small size; gives them by the paths that Keras has them under."""
    import h5py
    from strategies import filled

    from vesalius.families import configuration

    config = configuration("gpt2", activation="gelu_tanh", **SIZES)
    arrays = libraries.write_state("Keras", config, filled(config, dtype="float32").state)
    with h5py.File(file, "w") as out:
        for name, array in arrays.items():
            *layers, variable = name.split("/")
            group = out
            for layer in layers:
                group = group.require_group(layer)
                group.require_group("vars").attrs["name"] = layer
            kinds = next(
                (k for end, k in VARIABLES.items() if layers[-1].endswith(end)), ("kernel", "bias")
            )
            group["vars"][str(kinds.index(variable))] = array
    return arrays


FLIPS = {
    # The length of the last name in the global heap; the library then reads zeros as blocks of it.
    "circle": (b"\n" + bytes(7) + b"layer_norm", 0, 1 << 4),
    # The class of a text's type, in the first attribute.
    "crash": (b"name" + bytes(4) + b"\x19\x01", 9, 1 << 3),
}
"""Single bits that matter: where they stand after the last such bytes, and which bit it is."""


def flipped(file: Path, kind: str) -> None:
    """Flip one bit of a file that ``write_gpt2`` wrote."""
    data = bytearray(file.read_bytes())
    mark, after, bit = FLIPS[kind]
    data[data.rindex(mark) + after] ^= bit
    file.write_bytes(data)


def _circle(file: Path) -> None:
    import h5py

    with h5py.File(file, "a") as held:
        held["layer_norm/again"] = held["layer_norm"]


def _doubling(file: Path) -> None:
    """Sixty groups, each with the next one twice: 2 to the 60th paths."""
    import h5py

    with h5py.File(file, "a") as held:
        last = held.create_group("doubling")
        for _ in range(60):
            last = last.create_group("a")
            last.parent["b"] = last


def _shared(file: Path) -> None:
    """One array under many names, as a bomb would have it."""
    import h5py

    with h5py.File(file, "a") as held:
        for number in range(2, 50):
            held[f"token_embedding/vars/{number}"] = held["token_embedding/vars/0"]


LINKS = {"a circle": _circle, "doubling": _doubling, "shared": _shared}
"""Ways to make a small file endless or large by names for what it holds already."""
