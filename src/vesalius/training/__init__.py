"""Training: recipes, objectives, the loop, and runs that can be stopped and gone on with."""

from vesalius.extras import require

require("torch")  # before the first import of it

from vesalius.training.loop import Outcome, Run, train  # noqa: E402
from vesalius.training.recipe import Recipe, read_recipe  # noqa: E402
from vesalius.training.watching import Watcher  # noqa: E402

__all__ = ["Outcome", "Recipe", "Run", "Watcher", "read_recipe", "train"]
