"""Ending work that nobody waits for any more, known as cooperative cancellation.

Long computations call ``check`` at every step, every token and every part. Whoever starts one may
say with ``cancelled_by`` what is called then; whatever that raises ends the computation.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Watch = Callable[[], object]
"""Raises where the work is not wanted any more."""

_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


def check() -> None:
    """Go on, unless this work is not wanted any more."""
    if (watch := _WATCH.get()) is not None:
        watch()


@contextmanager
def cancelled_by(watch: Watch) -> Iterator[None]:
    """Call ``watch`` at every step of what is computed inside, on its threads too."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)
