"""SIGTERM, Ctrl-C and a closed terminal (SIGHUP), which end a run after its step."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

KINDS = ("SIGTERM", "SIGINT", "SIGHUP")
"""Of which Windows has no SIGHUP."""


@contextmanager
def signals(told: Callable[[str], None]) -> Iterator[None]:
    """Tell of signals by name while this lasts; in other threads than the main one, of none.

    A SIGHUP that is ignored stays so: nohup asks for runs that outlive their terminal.
    """
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]

    def handler(number: int, frame: Any) -> None:
        for stream in terminals:
            if not os.isatty(stream):  # it was closed: what is written there raises an error
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        told(signal.Signals(number).name)

    before = {}
    try:
        for kind in (getattr(signal, name) for name in KINDS if hasattr(signal, name)):
            if kind.name != "SIGHUP" or signal.getsignal(kind) is not signal.SIG_IGN:
                before[kind] = signal.signal(kind, handler)
    except ValueError:  # not in the main thread
        before = {}
    try:
        yield
    finally:
        for kind, handling in before.items():
            signal.signal(kind, handling)


def exit_code(reason: str) -> int:
    """What shells expect of a process that a signal ended; 130, as of Ctrl-C, of other reasons."""
    return 128 + getattr(signal, reason) if reason in KINDS else 130
