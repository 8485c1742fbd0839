"""Pickled weights, for an explicit conversion only: unpickling is never a side effect of loading.

PyTorch is told to build nothing but tensors (``weights_only``).
"""

import errno
from pathlib import Path
from typing import Any

from vesalius.checkpoints import foreign
from vesalius.checkpoints.expanding import require_bounded_archive
from vesalius.checkpoints.files import (
    WIDTH,
    Tensors,
    joined,
    pickled_files,
    shards,
    widest,
    without_weights,
)
from vesalius.checkpoints.plain import require_file
from vesalius.errors import BrokenFile, NotACheckpoint
from vesalius.machine import require

INDEX = "pytorch_model.bin.index.json"


def find(folder: Path) -> Path:
    """The pickled file of a folder, or the index of its shards."""
    for name in ("pytorch_model.bin", INDEX):
        if (folder / name).exists():
            return folder / name
    found = pickled_files(folder)
    if not found and any(folder.glob("*.safetensors")):
        raise without_weights(folder)
    if not found:
        foreign.require_none(folder)
        raise NotACheckpoint(
            f"{folder} holds no weights: neither safetensors nor a .bin or .pt file"
        )
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise NotACheckpoint(f"{folder} holds several pickled files, {names}; expected one")
    return found[0]


def read(file: Path) -> Tensors:
    """The tensors of a pickled state dictionary, or of the shards that an index names."""
    if file.name == INDEX:
        return joined(file, [read(shard) for shard in shards(file)])
    return tensors(file, state_in(unpickled(file)))


def state_in(held: Any) -> Any:
    """The state dictionary, which nanoGPT, Lightning and others put beside other things."""
    for name in ("model", "state_dict", "model_state_dict"):
        if isinstance(held, dict) and isinstance(held.get(name), dict):
            return held[name]
    return held


def unpickled(file: Path) -> Any:
    """What a pickled file holds: tensors, numbers, texts, and lists and dictionaries of these."""
    require_file(file)
    foreign.require_known(file)
    require_bounded_archive(file)
    require("torch")
    import warnings

    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # the error below says more
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise anything at all
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # of the disk; a place that the file does not have is its own fault
        raise BrokenFile(
            f"{file} cannot be read as weights alone: it is damaged, holds what could run code, "
            f"or asks for more memory than there is. A whole module, as torch.save(model, ...) "
            f"writes it, is code; save model.state_dict() and convert that"
        ) from error


def tensors(file: Path, state: Any) -> Tensors:
    """A state dictionary, checked, as arrays."""
    import torch

    if not isinstance(state, dict) or not all(
        isinstance(name, str) and torch.is_tensor(tensor) for name, tensor in state.items()
    ):
        raise BrokenFile(f"{file} should hold a dictionary of names to tensors")
    if odd := sorted(name for name, tensor in state.items() if not _stored(tensor)):
        raise BrokenFile(f"{file} holds only a part of {', '.join(odd)}; expected dense tensors")
    dtypes = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in state.items()}
    known = (*WIDTH, "int64", "int32", "int16", "int8", "uint8", "bool")
    if odd := sorted(set(dtypes.values()) - set(known)):
        raise BrokenFile(f"{file} holds tensors of {', '.join(odd)}; known are {', '.join(known)}")
    arrays = {
        name: (tensor.float() if WIDTH.get(dtypes[name]) == 16 else tensor).detach().numpy()
        for name, tensor in state.items()
    }
    return Tensors(arrays, widest(list(dtypes.values())))


def _stored(tensor: Any) -> bool:
    """Whether a tensor is dense, and as large as what is stored of it.

    A few bytes can claim to be terabytes: sparse, without data, or one number seen many times.
    """
    dense = str(tensor.layout) == "torch.strided" and tensor.device.type == "cpu"
    return dense and tensor.numel() * tensor.itemsize <= tensor.untyped_storage().nbytes()
