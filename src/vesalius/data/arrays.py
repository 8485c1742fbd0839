"""NumPy's files: one array (.npy) or several with names (.npz), and nothing that is pickled."""

import errno
import os
import sys
import warnings
from pathlib import Path

import numpy as np
from numpy import ndarray as Array

from vesalius.checkpoints.expanding import require_bounded_archive
from vesalius.checkpoints.plain import require_end
from vesalius.errors import BrokenFile


def read_array(file: str | Path) -> Array:
    """The array of a .npy file."""
    found = read_arrays(file)
    if "" not in found:
        raise BrokenFile(f"{file} holds {', '.join(found) or 'no arrays'}; expected one, as .npy")
    return found[""]


def read_arrays(file: str | Path) -> dict[str, Array]:
    """The arrays of a .npz file by name, or that of a .npy file without one."""
    require_end(file)
    if os.path.isfile(file):
        require_bounded_archive(Path(file))
    try:
        with Path(file).open("rb") as opened, warnings.catch_warnings(action="ignore"):
            loaded = np.load(opened, allow_pickle=False)
            found = {"": loaded} if isinstance(loaded, Array) else dict(loaded)
    except Exception as error:  # a damaged file can raise anything at all
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # of the disk; a place that the file does not have is its own fault
        why = "it holds none" if "pickle" in str(error) else error  # not how to unpickle it
        raise BrokenFile(f"{file} cannot be read as NumPy's arrays: {why}") from error
    if odd := [name for name, array in found.items() if not isinstance(array, Array)]:
        raise BrokenFile(f"{file} cannot be read as NumPy's arrays: {odd[0]!r} is none")
    if odd := [name for name, array in found.items() if not _is_text(array)]:
        raise BrokenFile(f"{file} cannot be read as NumPy's arrays: {odd[0]!r} is no text")
    return found


def _is_text(array: Array) -> bool:
    """Whether an array of texts has only characters that there are; others are no texts."""
    if array.dtype.kind != "U" or not array.nbytes:
        return True
    letters = np.dtype(np.uint32).newbyteorder(array.dtype.byteorder)
    return bool(np.ascontiguousarray(array).view(letters).max() <= sys.maxunicode)
