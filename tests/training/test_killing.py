"""SIGKILL at any moment leaves a checkpoint that loads, and a run that goes on."""

from pathlib import Path

import pytest
from processes import scripts
from small import small_recipe

from vesalius.checkpoints import files
from vesalius.training import Run
from vesalius.training.processes import Processes

SCRIPT = Path(__file__).with_name("killed_small.py")
FINETUNING = Path(__file__).with_name("killed_finetuning.py")


def numbers(*command):
    (done,) = scripts(*command)
    assert done.returncode == 0, done.stderr
    return map(int, done.stdout.split())


def killed(name, folder, kills):
    times, step = numbers(SCRIPT, name, folder, folder / "run", kills)
    assert times == kills
    return step


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_a_run_survives_kills_and_ends_with_the_bits_of_one_that_was_not_killed(kills, tmp_path):
    step = killed("lstm", tmp_path, kills)
    how = {"steps": 100_000, "save_every": 1_000_000, "evaluate_every": 100_000}
    recipe = small_recipe("lstm", tmp_path, **how)
    with Processes("ddp") as processes:
        run = Run(recipe, tmp_path / "whole", processes, resume=False)
        for _ in range(step):
            run._step([])
    saved = files.read(tmp_path / f"run/checkpoints/step-{step:08d}/model.safetensors").arrays
    for name, tensor in run.network.state_dict().items():
        assert saved[name].tobytes() == tensor.numpy().tobytes(), name


@pytest.mark.parametrize(
    ("strategy", "kills"),
    [
        ("finetune", 3),
        pytest.param("finetune", 100, marks=pytest.mark.slow),
        pytest.param("lora", 100, marks=pytest.mark.slow),
    ],
)
def test_finetuning_that_is_killed_goes_on_to_the_same_last_bit(strategy, kills, tmp_path):
    """Before its first checkpoint, between two, and while the model is written."""
    times, done, steps = numbers(FINETUNING, strategy, tmp_path, kills)
    assert times == kills
    assert done > 0
    assert kills < 100 or steps > 5
