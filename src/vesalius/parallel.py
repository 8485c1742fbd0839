"""A function of many things, on all cores."""

import _thread
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


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
