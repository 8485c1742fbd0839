"""How kernels are compiled, by Numba when they are first used, and where they are kept."""

import hashlib
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config

from vesalius.errors import Unwritable
from vesalius.machine import cache_folder

SUMS = {"reassoc", "contract", "nsz", "nnan"}  # what sums and maxima in vectors need


def _folder() -> str | None:
    """Where compiled kernels are kept: a folder for each version of the files that make them.

    Numba itself looks at one file alone, and takes what was made with another version of the rest.
    """
    files = sorted(Path(__file__).parent.glob("*.py"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    try:
        return str(cache_folder() / "kernels" / digest[:16])
    except Unwritable:
        return None  # then they are compiled each time


FOLDER = _folder()


def compiled(function: Any) -> Any:
    before, config.CACHE_DIR = config.CACHE_DIR, FOLDER or ""
    kept = FOLDER is not None
    try:
        return njit(cache=kept, fastmath=SUMS, nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = before
