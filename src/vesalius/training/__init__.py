"""Training: recipes, objectives, the loop, and runs that can be stopped and gone on with."""

from vesalius.training.loop import Outcome, Run, train
from vesalius.training.recipe import Recipe, read_recipe
from vesalius.training.watching import Watcher

__all__ = ["Outcome", "Recipe", "Run", "Watcher", "read_recipe", "train"]
