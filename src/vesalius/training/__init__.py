"""Training: recipes, objectives, the loop, and runs that stop and resume."""

import importlib
from typing import TYPE_CHECKING, Any

from vesalius.machine import require

if TYPE_CHECKING:
    from vesalius.training.callbacks import Callback as Callback
    from vesalius.training.loop import Outcome as Outcome
    from vesalius.training.loop import Run as Run
    from vesalius.training.loop import run as run
    from vesalius.training.loop import train as train
    from vesalius.training.recipe import read_recipe as read_recipe
    from vesalius.training.settings import Recipe as Recipe

_HOMES = {
    "Outcome": "loop",
    "Recipe": "settings",
    "Run": "loop",
    "Callback": "callbacks",
    "read_recipe": "recipe",
    "run": "loop",
    "train": "loop",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """A name from its module; the loop needs PyTorch, recipes and objectives do not."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOMES[name] not in ("recipe", "settings"):
        require("torch")  # before the first import of it
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
