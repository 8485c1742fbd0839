"""Just-in-time compilation by Numba, and a cache of compiled kernels on disk.

Numba's own cache writes into the package where its folder cannot be written, fails on damaged
files, and stops a computation that it cannot store. This one compiles again instead. Numba
unpickles what it finds, so nothing is read from a folder in which another user could have written.
"""

import errno
import hashlib
import os
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from llvmlite.binding import executionengine
from numba import njit
from numba.core import caching

from vesalius.errors import BrokenFile, Unwritable
from vesalius.machine import cache_folder, not_kept

SUMS = {"reassoc", "contract", "nsz", "nnan"}  # what LLVM needs to vectorise sums and maxima


def _digest() -> str:
    """A digest of all source files of kernels.

    Numba looks at a kernel's own file alone, and would use machine code of stale other files.
    """
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _folder() -> Path:
    return cache_folder() / "kernels" / _digest()


def require_private(folder: Path) -> None:
    """Refuse a folder of another user, or one in which others can write; hide ours from others."""
    if not hasattr(os, "getuid"):  # Windows, where the user's folders are the user's alone
        return
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if about.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "the folder belongs to another user")
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "others can write to the folder; remove it")
    if about.st_mode & 0o077:
        folder.chmod(0o700)


class _Place(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):  # type: ignore[misc]
    """The folder of a function's files: one for each version of the kernels' source."""

    def __init__(self, function: Any, file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        try:
            return str(_folder())
        except Unwritable:
            return ""

    def ensure_cache_path(self) -> None:
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_private(folder)

    @classmethod
    def from_function(cls, function: Any, file: str) -> "_Place":
        return cls(function, file)


class _Placed(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Place,)


class _Sealed(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Files that begin with their SHA-256: damaged machine code must not run."""

    def _save_data(self, name: str, data: Any) -> None:
        dumped = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(dumped).digest() + dumped)

    def _load_data(self, name: str) -> Any:
        file = Path(self._data_path(name))
        data = file.read_bytes()
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            raise BrokenFile(f"{file} is damaged")
        return caching.pickle.loads(data[32:])


class KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """Compiled kernels on disk. What cannot be stored there is compiled again."""

    _impl_class = _Placed

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        place = self._impl.locator
        self._cache_file = _Sealed(
            self._cache_path, self._impl.filename_base, place.get_source_stamp()
        )

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            require_private(Path(self._cache_path))
        except OSError:  # which is said when the kernel cannot be stored either
            return None
        try:
            return super().load_overload(signature, context)
        except Exception:  # unpickling raises what it likes
            self._discard()
            return None

    def save_overload(self, signature: Any, made: Any) -> None:
        try:
            super().save_overload(signature, made)
        except OSError as error:
            not_kept("compiled kernels", self._cache_path, error)

    def _discard(self) -> None:
        """Remove the damaged index, which saving would read again."""
        with suppress(OSError):
            Path(self._cache_file._index_path).unlink()


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Where LLVM calls Python back, Ctrl-C waits for the end of this.

    ctypes would print the exception and drop it, and the kernel would lack its machine code.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = False

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal waiting
        if _called_by_llvm(frame):
            waiting = True
        else:
            before(number, frame)

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            signal.raise_signal(signal.SIGINT)


def _called_by_llvm(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == executionengine.__file__:
            return True
        frame = frame.f_back
    return False


def compiled(function: Any) -> Any:
    made = njit(fastmath=SUMS, nogil=True, error_model="numpy")(function)
    made._cache = KernelCache(function)
    made.compile = _interrupts_kept()(made.compile)
    return made
