"""What the machine is: its speed, what is installed on it, its cache, and all its cores at work."""

import _thread
import logging
import os
import platform
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from vesalius.errors import MissingExtra, Unwritable

Item = TypeVar("Item")
Result = TypeVar("Result")

PROCESSORS = Path("/sys/devices/system/cpu")
CACHES = {"darwin": "~/Library/Caches", "win32": "~/AppData/Local"}


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def physical_cores() -> int:
    """The cores that this process may use; two threads of one core count once."""
    try:
        allowed = os.sched_getaffinity(0)
        topology = [PROCESSORS / f"cpu{i}" / "topology" for i in allowed]
        names = ("physical_package_id", "core_id")
        return len({tuple((t / name).read_text() for name in names) for t in topology})
    except (OSError, AttributeError):  # not on Linux
        return os.cpu_count() or 1


def quick_bfloat16() -> bool:
    """Whether products in bfloat16 are done by hardware here."""
    import torch

    if torch.cuda.is_available():
        return True
    onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not (onednn and torch.ops.mkldnn._is_mkldnn_bf16_supported()):
        return False
    # oneDNN also claims bfloat16 where AVX-512 emulates it, a third as fast as float32.
    has = torch.cpu.get_capabilities()
    return has["architecture"] != "x86_64" or bool(has["avx512_bf16"] or has["amx_bf16"])


def cache_folder() -> Path:
    """The user's folder for what can be fetched or made again: VESALIUS_CACHE, or the system's."""
    if named := os.environ.get("VESALIUS_CACHE"):
        return Path(named)
    above = os.environ.get("XDG_CACHE_HOME") or CACHES.get(sys.platform, "~/.cache")
    found = os.path.expanduser(above)
    if found.startswith("~"):
        raise Unwritable("there is no home folder to hold a cache; set VESALIUS_CACHE to a folder")
    return Path(found) / "vesalius"


def usable_cache() -> Path | None:
    """The cache folder, or None where there can be none; then nothing is kept, and that is said."""
    try:
        return cache_folder()
    except Unwritable as error:
        not_kept("what is made for later", "", error)
        return None


def not_kept(what: str, folder: str | Path, error: OSError) -> None:
    """Say, once, that something has to be made anew each time."""
    why = f"{what} cannot be kept in {folder or 'a cache'} ({error.strerror or error})"
    warn_once(f"{why}; set VESALIUS_CACHE to a folder that can be written")


@cache
def warn_once(message: str) -> None:
    logging.getLogger("vesalius").warning("%s", message)


def parallel_map(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int | None = None
) -> Iterator[Result]:
    """``map`` on threads: results in order, an exception where its result would be.

    Whoever stops reading, by an interrupt too, stops the work: what has not begun is dropped. The
    executors of ``concurrent.futures`` may wait forever after an interrupt, because the reader
    takes locks that its workers need; here the reader takes none.
    """
    todo = deque(enumerate(items))
    done: SimpleQueue[tuple[int, Result | None, BaseException | None]] = SimpleQueue()
    results: dict[int, tuple[Result | None, BaseException | None]] = {}
    many = len(todo)

    def work() -> None:
        while todo:
            try:
                index, item = todo.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                done.put((index, function(item), None))
            except BaseException as error:
                done.put((index, None, error))

    for _ in range(min(many, workers or os.cpu_count() or 1)):
        _thread.start_new_thread(copy_context().run, (work,))  # Thread.start takes locks, too
    try:
        for wanted in range(many):
            while wanted not in results:
                index, result, error = done.get()
                results[index] = result, error
            result, error = results.pop(wanted)
            if error is not None:
                raise error
            yield result  # type: ignore[misc]  # which is None only where the function says so
    finally:
        todo.clear()


EXTRAS = {
    "torch": ("torch", "PyTorch"),
    "tensorboard": ("tensorboard", "TensorBoard"),
    "transformers": ("transformers", "Transformers"),
    "keras_hub": ("keras", "KerasHub"),
    "h5py": ("hdf5", "h5py"),
    "sklearn": ("transfer", "scikit-learn"),
}
"""By the package that is imported: the extra that brings it, and what it is called."""


def require(package: str) -> None:
    """Raise unless a package that only some verbs need is installed."""
    there = sys.modules[package] if package in sys.modules else find_spec(package)
    if there is None:
        raise missing(package)


def missing(package: str) -> MissingExtra:
    """What to say where a package could not be imported."""
    extra, name = EXTRAS[package]
    return MissingExtra(
        f"this needs {name}, which is not installed; get it with: pip install 'vesalius[{extra}]'"
    )
