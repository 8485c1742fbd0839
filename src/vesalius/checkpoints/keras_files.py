"""Weights in Keras's files, .keras and .weights.h5: the arrays of KerasHub's GPT-2 and BERT.

Every group of such a file knows the name of its layer, and every size can be measured; what a
backbone has built in, its GELU and epsilon, is said here. HDF5 is read by h5py, an extra.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vesalius.checkpoints.files import Tensors, widest
from vesalius.checkpoints.plain import require_file
from vesalius.equations.parameters import Array
from vesalius.errors import BrokenFile, UnknownConfiguration
from vesalius.extras import require

SUFFIXES = (".keras", ".weights.h5")
INSIDE = "model.weights.h5"
"""The weights in a .keras archive, and in a folder of KerasHub's presets."""
HEAD = "mlm_head"
VARIABLES = {"norm": ("gamma", "beta"), "embedding": ("embeddings",), HEAD: ("output_bias",)}
"""What the variables of layers are called, by how the layer's name ends."""


def find(path: Path) -> Path | None:
    """The Keras file that a path is or, being a folder, holds."""
    if path.is_file():
        return path if path.name.endswith(SUFFIXES) else None
    return path / INSIDE if (path / INSIDE).exists() else None


def read(file: Path, ignore_extra: bool = False) -> tuple[str, dict[str, Any], Tensors]:
    """The family of a file, its settings, and its arrays by the paths that Keras gives them."""
    arrays = _arrays(file)
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


def _arrays(file: Path) -> dict[str, Array]:
    require("h5py")
    import h5py

    require_file(file)
    try:
        with file.open("rb") as stream:
            inside = stream if file.suffix != ".keras" else _unzipped(file)
            with h5py.File(inside, "r") as held:
                return dict(_named(file, held, h5py.Dataset))
    except BrokenFile:
        raise
    # h5py and zipfile raise whatever a damaged file leads them to.
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        raise BrokenFile(f"{file} cannot be read as Keras's weights: {error}") from error


def _unzipped(file: Path) -> io.BytesIO:
    try:
        with zipfile.ZipFile(file) as archive:
            if archive.getinfo(INSIDE).compress_type != zipfile.ZIP_STORED:
                raise BrokenFile(f"{file}: {INSIDE} is compressed; expected it as Keras stores it")
            return io.BytesIO(archive.read(INSIDE))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise BrokenFile(f"{file} cannot be read as Keras's archive: {error}") from error


def _named(file: Path, group: Any, dataset: type, path: str = "") -> Iterator[tuple[str, Array]]:
    """The arrays below a group, by the names of the layers that they stand in."""
    for key in group:
        child = group.get(key, getlink=True)
        if type(child).__name__ != "HardLink":
            raise BrokenFile(f"{file} points elsewhere with {key!r}; expected arrays of its own")
        below = group[key]
        if isinstance(below, dataset) or key == "optimizer":
            continue
        if key == "vars":
            yield from _variables(file, below, path)
        else:
            name = below["vars"].attrs.get("name") if "vars" in below else None
            # What holds layers is not part of their paths: a list of them, or the backbone.
            outer = name is None or re.search(r"_(backbone|lm)(_\d+)?$", str(name))
            yield from _named(file, below, dataset, path if outer else f"{path}{name}/")


def _variables(file: Path, group: Any, path: str) -> Iterator[tuple[str, Array]]:
    layer = path.rstrip("/").rpartition("/")[2]
    kinds = next((k for end, k in VARIABLES.items() if layer.endswith(end)), ("kernel", "bias"))
    for key in group:
        held = group[key]
        # A few bytes can claim to be terabytes, or lie in another file.
        if held.id.get_storage_size() != held.size * held.dtype.itemsize or held.external:
            raise BrokenFile(f"{file} holds only a part of {path}{key}; expected dense arrays")
        kind = kinds[int(key)] if int(key) < len(kinds) else key
        yield f"{path}{kind}", np.asarray(held[()])
