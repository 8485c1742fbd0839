"""What must hold of every case: our own errors alone, in little time and memory, without a trace.

Time is the processor's, so that a busy machine finds nothing. What is printed is read where it
leaves the process, because libraries print past Python.
"""

import errno
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vesalius.errors import RunLocked, SaveFailed, Unreachable, Unwritable, VesaliusError

OURS = (VesaliusError, RunLocked, SaveFailed, Unreachable, Unwritable)
SECONDS = 20  # of the processor, for one case; thousands of times what one takes
ROOM = 2 << 30  # bytes of addresses that a case may add
MEMORY = 512 << 20  # bytes that all cases together may add to what the imports took
LONGEST = 4000  # characters of a message
RUNS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "os.fork", "pty")
REACHES = ("socket.connect", "socket.bind", "urllib.Request", "webbrowser.open")
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "shutil.rmtree", "os.chmod", "os.link")


class Finding(Exception):
    """Something that must not happen."""


class Watch:
    """Sees what a case does besides answering; there is one in a process, for good."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.watching, self.seen = str(folder.resolve()), False, list[str]()
        self.printed = tempfile.TemporaryFile()  # noqa: SIM115 (for good)
        sys.addaudithook(self._audit)

    def _audit(self, event: str, details: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event == "subprocess.Popen" and details[0] == "fc-list":
            return  # matplotlib asks for the machine's fonts once
        if event.startswith((*RUNS, *REACHES)):
            self.seen.append(f"{event} {details!r:.300}")
        elif event in CHANGES or (
            event == "open" and isinstance(details[2], int) and details[2] & _WRITING
        ):
            folder = details[1] if event in ("os.remove", "os.rmdir") else -1
            self._require_inside(event, details[0], folder)

    def _require_inside(self, event: str, name: Any, folder: int = -1) -> None:
        """``folder`` is an open one that the name is in; by default that of the process."""
        if isinstance(name, int):
            return
        inside = f"/proc/self/fd/{folder}" if folder >= 0 else ""
        path = os.path.realpath(os.path.join(inside, os.fsdecode(name)))
        if not path.startswith((self.folder, os.devnull)):
            self.seen.append(f"{event} {path!r:.300}")

    def run(self, case: Callable[[], object]) -> bool:
        """Whether a case answered; False where it was refused by one of our errors."""
        self.seen.clear()
        self.watching = True
        try:
            with redirected(self.printed):
                case()
            answered = True
        except OURS as error:
            answered = False
            _require_readable(error)
        finally:
            self.watching = False
        if self.seen:
            raise Finding(f"did what it must not: {'; '.join(self.seen)}")
        if self.printed.tell():
            self.printed.seek(0)
            raise Finding(f"printed {self.printed.read(2000)!r}")
        return answered


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _require_readable(error: BaseException) -> None:
    message = str(error)
    if not message.strip() or len(message) > getattr(error, "longest", LONGEST) + 10:
        raise Finding(f"a message of {len(message)} characters: {message[:300]!r}") from error


@contextmanager
def redirected(file: Any) -> Iterator[None]:
    """What is printed goes to an empty file, whoever in this process prints it."""
    file.seek(0)
    file.truncate()
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for place, handle in enumerate(kept, 1):
            os.dup2(handle, place)
            os.close(handle)
        file.seek(0, os.SEEK_END)


def refuse(*_: Any, **__: Any) -> Any:
    """In place of ``socket.getaddrinfo``: there is no network."""
    raise OSError(errno.ENETUNREACH, "fuzzing goes without a network")


def without_network() -> None:
    """Whoever asks for an address in this process is refused, for good."""
    import socket

    socket.getaddrinfo = refuse


def limit_memory() -> int:
    """Bound the addresses of this process from now on; what it has taken so far, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    room = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
    return most_memory()


def most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_time() -> None:
    """End this process if the case that begins takes too long, wherever it hangs."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + SECONDS + 1, resource.RLIM_INFINITY))
