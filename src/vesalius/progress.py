"""How far long work has come: one protocol, which a terminal turns into a bar or into lines."""

from typing import Protocol


class Progress(Protocol):
    """Called with what is being done, how much of it is done, and how much there is in all.

    The total is None where it is not known beforehand. The unit is the work's own: bytes of a text
    or of a file, texts that are embedded.
    """

    def __call__(self, what: str, done: int, total: int | None, /) -> None: ...


def silent(what: str, done: int, total: int | None, /) -> None:
    """Progress that nobody is told of."""
