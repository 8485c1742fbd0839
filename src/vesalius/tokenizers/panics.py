"""Failures of the library: bare Exceptions, and panics of Rust, which are no Exceptions.

A panic writes its report to stderr before Python can catch it. Where a bad file may cause one,
stderr is silenced.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_LOCK = RLock()  # the place that errors are printed to belongs to the whole process
_ERRORS = 2
if hasattr(os, "register_at_fork"):  # a fork gets the lock free, and a place to print errors to
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )


def require_failure(error: BaseException) -> None:
    """Raise an error again unless the library failed: by a bare Exception, or by a panic of Rust.

    A panic is a BaseException, as an interrupt is; the two are told apart by name.
    """
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error


@contextmanager
def silenced() -> Iterator[None]:
    """Nothing is printed as an error meanwhile, by anyone in this process."""
    with _LOCK:
        try:
            kept = os.dup(_ERRORS)
        except OSError:  # closed, and nothing can be printed anyway
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _ERRORS)
        os.close(nowhere)
        try:
            yield
        finally:
            os.dup2(kept, _ERRORS)
            os.close(kept)
