"""What ``torchrun`` runs in the tests: a small recipe, up to a step; or to several, as 10+20."""

import sys
import warnings
from pathlib import Path

import torch

from vesalius.training import Callback, train

sys.path.insert(0, str(Path(__file__).parent))
from small import small_recipe

name, data, folder, parallel, until = sys.argv[1:]


class Stop(Callback):
    def __init__(self, at):
        self.at = at

    def validated(self, run, metrics):
        if run.step == self.at < run.settings.steps:
            run.stop("told")


torch.set_num_threads(1)
warnings.simplefilter("error", UserWarning)
how = {"steps": 20, "save_every": 5, "evaluate_every": 10, "batch": 6, "parallel": parallel}
recipe = small_recipe(name, Path(data), dropout=0.0, **how)
for step in map(int, until.split("+")):
    begun = Path(folder, "checkpoints").exists()
    train(recipe, folder, resume=begun, callbacks=[Stop(step)])
