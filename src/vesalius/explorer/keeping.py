"""What is kept for the next question, within a number of bytes."""

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

OBJECTS = 8
"""Times that Python's dictionaries, lists and numbers are larger than their JSON."""
LEAST = 1 << 10
"""Bytes of a value besides what it holds."""


def weight(value: Any) -> int:
    """About how many bytes an answer takes: JSON, arrays, or objects and tuples of them."""
    if isinstance(value, np.ndarray):
        return LEAST + value.nbytes
    try:
        return LEAST + OBJECTS * len(json.dumps(value))
    except TypeError:  # there is more in it than JSON has
        inner = value if isinstance(value, tuple) else getattr(value, "__dict__", value)
        parts = inner.values() if isinstance(inner, dict) else inner
        return LEAST + sum(map(weight, parts if isinstance(inner, dict | tuple | list) else ()))


class Kept(Generic[Key, Value]):
    """Values by their keys; beyond a number of bytes those least lately asked for go first.

    ``least`` are kept however large they are. ``shared`` are bytes that several of the values have
    in common, which their sizes do not count.
    """

    def __init__(
        self,
        most: int,
        size: Callable[[Value], int],
        least: int = 1,
        shared: Callable[[list[Value]], int] = lambda values: 0,
    ) -> None:
        self.most, self.size, self.least, self.shared = most, size, least, shared
        self._held: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._total = 0
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        with self._lock:
            if key not in self._held:
                return None
            self._held.move_to_end(key)
            return self._held[key][0]

    def put(self, key: Key, value: Value) -> None:
        size = self.size(value)
        with self._lock:
            self._drop(key)
            self._held[key] = value, size
            self._total += size
            while self._total + self.shared(self._values()) > self.most:
                if len(self._held) <= self.least:
                    break
                self._drop(next(iter(self._held)))

    def pop(self, key: Key) -> Value | None:
        with self._lock:
            return self._drop(key)

    def _values(self) -> list[Value]:
        return [value for value, _ in self._held.values()]

    def _drop(self, key: Key) -> Value | None:
        value, size = self._held.pop(key, (None, 0))
        self._total -= size
        return value
