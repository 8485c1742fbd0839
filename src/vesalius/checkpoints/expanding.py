"""Compressed files: what they may expand to, by what they say of themselves, before they do.

Five megabytes of zeros, compressed, are five gigabytes of memory. Weights and pictures shrink by a
few times, labels perhaps by fifty.
"""

import zipfile
from pathlib import Path

from vesalius.errors import BrokenFile
from vesalius.views.shown import bytes_of

ROOM, TIMES = 2**30, 100
"""Bytes that every file may expand to, and how many times its own size a larger one may."""


def require_bounded(file: Path, size: int) -> None:
    """Refuse a file whose expanded size is beyond its bound."""
    most = max(ROOM, TIMES * file.stat().st_size)
    if size > most:
        raise BrokenFile(
            f"{file} would expand to {bytes_of(size)}, {size // max(1, file.stat().st_size):,} "
            f"times its size; expected at most {bytes_of(most)}. If it is right, save it again "
            f"without compression"
        )


def require_bounded_archive(file: Path) -> None:
    """The same of a ZIP archive, as .npz and PyTorch's files are; nothing is said of others."""
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except Exception:  # a damaged file can raise anything, and who reads it says what is wrong
        return
    require_bounded(file, size)
