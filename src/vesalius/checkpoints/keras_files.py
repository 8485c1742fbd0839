"""Weights in Keras's files, .keras and .weights.h5: the arrays of KerasHub's GPT-2 and BERT.

Every group of such a file knows the name of its layer, and every size can be measured; what a
backbone has built in, its GELU and epsilon, is said here. Reading HDF5 is left to ``hdf5``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vesalius.checkpoints import hdf5
from vesalius.checkpoints.files import Tensors, widest
from vesalius.checkpoints.hdf5 import HEAD, INSIDE
from vesalius.errors import UnknownConfiguration

SUFFIXES = (".keras", ".weights.h5")


def find(path: Path) -> Path | None:
    """The Keras file that a path is or, being a folder, holds."""
    if path.is_file():
        return path if path.name.endswith(SUFFIXES) else None
    return path / INSIDE if (path / INSIDE).exists() else None


def read(file: Path, ignore_extra: bool = False) -> tuple[str, dict[str, Any], Tensors]:
    """The family of a file, its settings, and its arrays by the paths that Keras gives them."""
    arrays = hdf5.arrays(file)
    if any(name.startswith(HEAD) for name in arrays):
        if not ignore_extra:
            raise UnknownConfiguration(
                f"{file} holds the MLM head of KerasHub's BertMaskedLM, whose GELU (the erf form) "
                f"and epsilon (1e-5) are not its backbone's (the tanh form, 1e-12), as they are "
                f"here; --ignore-extra reads the backbone alone"
            )
        arrays = {name: a for name, a in arrays.items() if not name.startswith(HEAD)}
    family, settings = _measured(file, {name: a.shape for name, a in arrays.items()})
    dtype = widest([str(a.dtype) for a in arrays.values()])
    wide = {n: a.astype(np.float32) if a.itemsize == 2 else a for n, a in arrays.items()}
    return family, settings, Tensors(wide, dtype)


def _measured(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, dict[str, Any]]:
    bert = "segment_embedding/embeddings" in shapes
    attention = "self_attention_layer" if bert else "self_attention"
    layer = "transformer_layer_0"
    measured = {
        "token_embedding/embeddings": 2,
        "position_embedding/embeddings": 2,
        f"{layer}/{attention}/query/kernel": 3,
        f"{layer}/feedforward_intermediate_dense/kernel": 2,
    }
    if any(len(shapes.get(name, ())) != axes for name, axes in measured.items()):
        raise UnknownConfiguration(
            f"{file} is no GPT2Backbone or BertBackbone of KerasHub; it lacks "
            f"{', '.join(n for n, axes in measured.items() if len(shapes.get(n, ())) != axes)}"
        )
    words, positions, query, inner = (shapes[name] for name in measured)
    settings = {
        "vocabulary": words[0],
        "embedding": words[1],
        "context": positions[0],
        "heads": query[1],
        "feedforward": inner[1],
        "layers": len({n.split("/")[0] for n in shapes if n.startswith("transformer_layer_")}),
        "activation": "gelu_tanh",
    }
    if not bert:
        return "gpt2", settings
    settings["segments"] = shapes["segment_embedding/embeddings"][0]
    return "bert", settings | {"pooler": "pooled_dense/kernel" in shapes}
