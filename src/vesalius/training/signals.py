"""SIGTERM and Ctrl-C, which end a run after its step."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def signals(told: Callable[[str], None]) -> Iterator[None]:
    """Tell of signals by name while this lasts; in other threads than the main one, of none."""

    def handler(number: int, frame: Any) -> None:
        told(signal.Signals(number).name)

    try:
        before = {kind: signal.signal(kind, handler) for kind in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:  # not in the main thread
        before = {}
    try:
        yield
    finally:
        for kind, handling in before.items():
            signal.signal(kind, handling)
