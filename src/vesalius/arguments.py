"""What kind of thing an argument is: our errors in place of Python's, and NumPy's and PyTorch's
numbers, arrays and tensors wherever plain ones are taken.
"""

import math
import os
from collections.abc import Callable, Iterable
from operator import index
from typing import Any, Protocol

from vesalius.errors import ImpossibleSetting, UnknownSetting, nearest


class Progress(Protocol):
    """What long work calls: with what is being done, how much of it is done, and the total.

    The total is None where it is not known beforehand. The unit is the work's own: bytes of a text
    or of a file, texts that are embedded. A terminal makes a bar of it.
    """

    def __call__(self, what: str, done: int, total: int | None, /) -> None: ...


def silent(what: str, done: int, total: int | None, /) -> None:
    """Progress that nobody is told of."""


def wrong(name: str, expected: str, got: object) -> ImpossibleSetting:
    shown = repr(got)
    kind = type(got).__name__
    return ImpossibleSetting(
        f"{name} must be {expected}, got {shown if len(shown) <= 60 else f'a {kind}'}"
    )


def whole(name: str, value: Any, least: int | None = None, below: int | None = None) -> int:
    """A whole number, of whatever library; neither true nor 1.0 is one."""
    try:
        number = index(value)
    except (TypeError, ValueError):
        number = None
    if number is None or isinstance(plain(value), bool):
        raise wrong(name, "a whole number", value)
    if least is not None and number < least:
        raise ImpossibleSetting(f"{name} must be at least {least}, got {number}")
    if below is not None and number >= below:
        raise ImpossibleSetting(f"{name} must be below {below}, got {number}")
    return number


def number(name: str, value: object) -> float:
    """A finite number."""
    found = plain(value)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise wrong(name, "a number", value)
    if not math.isfinite(found):
        raise wrong(name, "a finite number", value)
    return float(found)


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise wrong(name, "a string", value)
    return value


def texts(name: str, value: object) -> list[str]:
    """Several texts, or one by itself."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise wrong(name, "a string or several", value)
    return [text(f"each of {name}", one) for one in value]


def ids(name: str, value: object) -> list[int]:
    """Token ids: a list, an array or a tensor of whole numbers."""
    found = plain(value)
    if isinstance(found, str | bytes) or not isinstance(found, Iterable):
        raise wrong(name, "a list of token ids", value)
    return [whole(f"each of {name}", one) for one in found]


def path(name: str, value: object) -> str:
    """The name of a file, a folder or something else that has one."""
    if not isinstance(value, str | os.PathLike):
        raise wrong(name, "a name or a path", value)
    return str(os.fspath(value))


def choice(name: str, value: object, known: Iterable[str]) -> str:
    known = list(known)
    if not isinstance(value, str) or value not in known:
        shown = str(value)
        raise UnknownSetting(f"unknown {name} {value!r}; {nearest(shown, known)}")
    return value


def truth(name: str, value: object) -> bool:
    """True or false, where a library of others wants no less."""
    found = plain(value)
    if not isinstance(found, bool):
        raise wrong(name, "true or false", value)
    return found


def callback(name: str, value: Any) -> Callable[..., Any] | None:
    if value is not None and not callable(value):
        raise wrong(name, "a function, or None", value)
    return value  # type: ignore[no-any-return]


def plain(value: object) -> Any:
    """Arrays and tensors as Python's own numbers and lists; all else as it is."""
    if isinstance(value, type) or not hasattr(value, "tolist"):
        return value
    return value.tolist()
