"""Whether edits can go to another process: pickle sends a function by its name, or not at all."""

import pickle
import sys
from collections.abc import Mapping
from typing import Any

from vesalius.errors import CannotBePickled
from vesalius.traces.edits.values import Edit

BY_VALUE = {"cloudpickle", "copy", "dill"}
"""Modules that ask for the state of an object and take functions along as they are."""


def require_sendable(edits: Mapping[str, Any]) -> None:
    """Refuse functions that pickle cannot send, unless it is another module that asks."""
    for steps, edit in edits.items():
        if isinstance(edit, Edit) or not callable(edit):
            continue
        try:
            pickle.dumps(edit)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            if _by_value():
                return
            name = getattr(edit, "__qualname__", type(edit).__name__)
            raise CannotBePickled(
                f"this trace cannot be pickled, because its edit of {steps} is {name}: pickle "
                f"sends functions by name; expected one that a module defines by def, or vs.zero, "
                f"vs.scale(...) or another edit of ours; trace.save(file) keeps the values alone"
            ) from error


def _by_value() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if BY_VALUE & set(str(frame.f_globals.get("__name__")).split(".")):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
