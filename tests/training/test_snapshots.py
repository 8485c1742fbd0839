"""A run keeps models along its way, from its first step to its last."""

import numpy as np
import pytest
from small import small_recipe

import vesalius as vs
from vesalius.training import Callback, train
from vesalius.training.loop import snapshot_steps


class StopAt(Callback):
    def __init__(self, step):
        self.step = step

    def stepped(self, run, metrics):
        if run.step == self.step:
            run.stop("asked to")


@pytest.mark.parametrize(
    ("steps", "count", "expected"),
    [
        (4096, 0, []),
        (4096, 1, [4096]),
        (4096, 2, [0, 4096]),
        (64, 5, [0, 1, 4, 16, 64]),
        (3, 16, [0, 1, 2, 3]),
    ],
)
def test_snapshots_are_spaced_on_a_logarithmic_scale(steps, count, expected):
    assert sorted(snapshot_steps(steps, count)) == expected


def test_a_run_keeps_its_first_and_last_model_and_some_between(tmp_path):
    recipe = small_recipe("gpt2", tmp_path, steps=8, save_every=8, keep=1, snapshots=5)
    outcome = train(recipe, tmp_path / "run")
    kept = sorted((tmp_path / "run/snapshots").iterdir())
    assert [folder.name for folder in kept] == [f"step-{step:08d}" for step in (0, 1, 2, 4, 8)]
    models = [vs.load(folder) for folder in kept]
    first, last = models[0].state, models[-1].state
    assert {model.dtype for model in models} == {"float16"}
    assert any(not np.array_equal(first[name], last[name]) for name in first)
    for name, array in outcome.model.state.items():
        np.testing.assert_array_equal(last[name], array.astype(np.float16), strict=False)


def test_a_run_that_was_stopped_and_went_on_has_the_same_snapshots(tmp_path):
    how = {"steps": 8, "save_every": 3, "snapshots": 5}
    train(small_recipe("gpt2", tmp_path, **how), tmp_path / "whole")
    recipe = small_recipe("gpt2", tmp_path, **how)
    train(recipe, tmp_path / "run", callbacks=[StopAt(3)])
    train(recipe, tmp_path / "run", resume=True)
    for folder in sorted((tmp_path / "whole/snapshots").iterdir()):
        file = f"{folder.name}/model.safetensors"
        again = tmp_path / "run/snapshots" / file
        assert again.read_bytes() == (tmp_path / "whole/snapshots" / file).read_bytes()
