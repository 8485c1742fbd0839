"""Pickled weights, for an explicit conversion only: unpickling is never a side effect of loading.

PyTorch is told to build nothing but tensors (``weights_only``).
"""

from pathlib import Path

from vesalius.checkpoints.files import Tensors
from vesalius.errors import BrokenFile, NotACheckpoint


def find(folder: Path) -> Path:
    """The pickled file of a folder."""
    found = sorted([*folder.glob("*.bin"), *folder.glob("*.pt")])
    if not found:
        raise NotACheckpoint(f"{folder} holds neither safetensors nor a .bin or .pt file")
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise NotACheckpoint(f"{folder} holds several pickled files, {names}; expected one")
    return found[0]


def read(file: Path) -> Tensors:
    """The tensors of a pickled state dictionary."""
    import pickle
    import warnings

    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # the error below says more
            state = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise BrokenFile(
            f"{file} cannot be read as weights alone: it is damaged, or holds what could run code"
        ) from error
    if not isinstance(state, dict) or not all(torch.is_tensor(v) for v in state.values()):
        raise BrokenFile(f"{file} should hold a dictionary of names to tensors")
    dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in state.values()]
    floats = [name for name in dtypes if name in ("float64", "float32", "float16", "bfloat16")]
    stored = max(set(floats), key=floats.count, default="float32")
    narrow = (torch.float16, torch.bfloat16)
    arrays = {
        name: (tensor.float() if tensor.dtype in narrow else tensor).numpy()
        for name, tensor in state.items()
    }
    return Tensors(arrays, stored)
