"""Plain files: their bytes, and JSON. Nothing here needs NumPy, so that tokenizers start fast.

What stands in a file's place and is none is refused here, by name, for all who read checkpoints.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vesalius.errors import BrokenFile

OPENED = ("/dev/fd", "/proc/self/fd")
"""Where the streams are that a process was given."""
LFS_POINTER = b"version https://git-lfs"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says of a disk without room, and does not say which file wanted it."""


def require_file(file: Path) -> None:
    """Refuse what is not there, what is no file (a folder, or a pipe that may never end), and what
    Git leaves in a large file's place.
    """
    # The functions of os.path, since those of Path raise for names that no file can have.
    if not os.path.exists(file):
        raise BrokenFile(f"there is no {file}; expected a file")
    if not os.path.isfile(file):
        kind = "a folder" if os.path.isdir(file) else "a pipe or a device"
        raise BrokenFile(f"{file} is {kind}; expected a file")
    if is_pointer(file):
        raise BrokenFile(
            f"{file} is a Git LFS pointer, not the file itself; run 'git lfs pull' in its folder"
        )


def require_end(file: str | Path) -> None:
    """Refuse a named pipe, a device or a socket: each may never begin, or never end.

    What a shell has opened may be any of these, as in ``--file <(command)``, which is /dev/fd/63.
    """
    if not os.path.exists(file) or os.path.isfile(file) or os.path.isdir(file):
        return
    if os.path.dirname(os.path.abspath(file)) in OPENED or os.path.abspath(file) == "/dev/stdin":
        return
    raise BrokenFile(
        f"{file} is a pipe, a device or a socket; expected a file. Texts are also read from "
        f"standard input, which is -, and from <(COMMAND)"
    )


def is_pointer(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(LFS_POINTER)) == LFS_POINTER


def contents(file: Path) -> bytes:
    """All bytes of a file."""
    require_file(file)
    return file.read_bytes()


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    data = contents(file)
    try:
        text = data.decode("utf-8")
        value = json.loads(text)
        if "\\ud" in text.lower():  # halves of pairs, which no text can be written with
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:  # bad UTF-8, bad JSON, too deep, too long
        raise BrokenFile(f"{file} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BrokenFile(f"{file} should be a JSON object, got {type(value).__name__}")
    return value


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A place to write beside a file, which takes the file's own place once it is whole.

    An exception, a full disk's among them, leaves the file as it was. What is no file, such as
    /dev/stdout, is written to as it is; what a link leads to is replaced, and not the link.
    """
    file = Path(os.path.realpath(file))
    if os.path.exists(file) and not os.path.isfile(file):
        yield file
        return
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield beside
        if file.exists():
            shutil.copymode(file, beside)
        with beside.open("rb+") as written:
            os.fsync(written.fileno())
        beside.replace(file)
    except OSError as error:
        unnamed = error.filename is None and error.errno in FULL
        if unnamed or error.filename == str(beside):  # of which nobody has heard
            error.filename = str(file)
        raise
    finally:
        beside.unlink(missing_ok=True)
