"""The memory allocator: freed memory is kept for the next step.

The C library gives large blocks back to the system and asks for them again, page by page, in every
step. That was measured at 5 to 18 % of a step's time. The library can be told to keep them.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Options of mallopt: how much free memory to keep, how many pieces to ask the system for."""
USUAL = {TRIM_THRESHOLD: 128 * 1024, MMAP_MAX: 65536}


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep freed memory while this lasts; where there is no glibc, do nothing."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt"):
        yield
        return
    library.mallopt(TRIM_THRESHOLD, -1)
    library.mallopt(MMAP_MAX, 0)
    try:
        yield
    finally:
        for option, value in USUAL.items():
            library.mallopt(option, value)
        library.malloc_trim(0)
