"""A run that was stopped goes on as if it had not been."""

import shutil

import pytest
import torch
from small import SMALL, small_recipe

from vesalius.checkpoints import files
from vesalius.training import Run, train
from vesalius.training.callbacks import MetricsFile, read_metrics
from vesalius.training.optimisers import optimiser
from vesalius.training.processes import Processes
from vesalius.training.settings import Training
from vesalius.training.state import full_moments, full_weights, restore

WHOLE = 14
"""Steps of a run; from every second one another goes on, which takes the square of it.

Among these are the end of the warm-up and an evaluation.
"""


def contents(checkpoint):
    """Everything that is numbers in a checkpoint, by file and name."""
    return {
        (name, key): array.tobytes()
        for name in ("model", "optimiser", "state")
        for key, array in files.read(checkpoint / f"{name}.safetensors").arrays.items()
    }


def losses(folder):
    return {
        (line["kind"], line["step"]): line["loss"]
        for line in read_metrics(folder)
        if "loss" in line
    }


@pytest.mark.parametrize(
    ("steps", "every"), [(WHOLE, 2), pytest.param(50, 1, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", SMALL)
def test_going_on_from_any_step_gives_the_same_bits_as_never_stopping(name, steps, every, tmp_path):
    how = {"steps": steps, "evaluate_every": steps // 2}
    recipe = small_recipe(name, tmp_path, **how, save_every=1, keep=steps)
    quicker = small_recipe(name, tmp_path, **how, save_every=steps)
    whole = train(recipe, tmp_path / "whole")
    last = f"step-{steps:08d}"
    expected = contents(whole.folder / "checkpoints" / last)
    assert {key for kind, key in expected if kind == "optimiser"}
    for step in range(1, steps, every):
        folder, kept = tmp_path / f"from-{step}", f"checkpoints/step-{step:08d}"
        shutil.copytree(whole.folder / kept, folder / kept)
        shutil.copy(whole.folder / "metrics.jsonl", folder)
        with Processes("ddp") as processes:
            Run(quicker, folder, processes, resume=True).go([MetricsFile()])
        assert contents(folder / "checkpoints" / last) == expected, f"from step {step}"
        assert losses(folder) == losses(whole.folder)
        shutil.rmtree(folder)


class Unreached(torch.nn.Module):
    """A network with a parameter that its output does not depend on."""

    def __init__(self):
        super().__init__()
        self.used, self.spare = (torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2))


def test_a_parameter_without_gradients_stays_without_moments():
    whole, again = Unreached(), Unreached()
    first, second = (optimiser(module, Training()) for module in (whole, again))
    whole.used.sum().backward()
    first.step()
    moments = {name: tensor.numpy() for name, tensor in full_moments(whole, first).items()}
    assert set(moments) == {"used.step", "used.exp_avg", "used.exp_avg_sq"}
    weights = {name: tensor.numpy() for name, tensor in full_weights(whole).items()}
    restore(again, second, weights, moments)
    assert set(second.state) == {again.used}
    assert torch.equal(second.state[again.used]["exp_avg"], first.state[whole.used]["exp_avg"])
    assert torch.equal(again.used, whole.used)
    assert torch.equal(again.spare, torch.ones(2, 3))
