"""A run that was stopped goes on as if it had not been."""

import shutil

import pytest
from small import SMALL, small_recipe

from vesalius.checkpoints import files
from vesalius.training import Run, train
from vesalius.training.callbacks import MetricsFile, read_metrics
from vesalius.training.processes import Processes

WHOLE = 14
"""Steps of a run; from every one of them another goes on, which takes the square of it."""


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


@pytest.mark.parametrize("steps", [WHOLE, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SMALL)
def test_going_on_from_any_step_gives_the_same_bits_as_never_stopping(name, steps, tmp_path):
    how = {"steps": steps, "evaluate_every": steps // 2}
    recipe = small_recipe(name, tmp_path, **how, save_every=1, keep=steps)
    quicker = small_recipe(name, tmp_path, **how, save_every=steps)
    whole = train(recipe, tmp_path / "whole")
    last = f"step-{steps:08d}"
    expected = contents(whole.folder / "checkpoints" / last)
    assert {key for kind, key in expected if kind == "optimiser"}
    for step in range(1, steps):
        folder, kept = tmp_path / f"from-{step}", f"checkpoints/step-{step:08d}"
        shutil.copytree(whole.folder / kept, folder / kept)
        shutil.copy(whole.folder / "metrics.jsonl", folder)
        with Processes("ddp") as processes:
            Run(quicker, folder, processes, resume=True).go([MetricsFile()])
        assert contents(folder / "checkpoints" / last) == expected, f"from step {step}"
        assert losses(folder) == losses(whole.folder)
        shutil.rmtree(folder)
