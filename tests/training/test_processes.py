"""Two processes under torchrun do what one does, and either goes on with what the other saved."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vesalius import load
from vesalius.training.watching import read_metrics

SCRIPT = Path(__file__).with_name("torchrun_small.py")
STEPS = 20
WITHIN = 1e-6  # relative: the same float32 gradients, added up in another order


def run(count, name, data, folder, parallel="ddp", until=STEPS):
    alone = [sys.executable]
    several = [*alone, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    arguments = [str(SCRIPT), name, str(data), str(folder), parallel, str(until)]
    done = subprocess.run(
        [*(several if count > 1 else alone), *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder


def losses(folder):
    lines = [line for line in read_metrics(folder) if "loss" in line]
    return {(line["kind"], line["step"]): line["loss"] for line in lines}


def same(one, other):
    ours, theirs = losses(one), losses(other)
    assert (
        ours.keys()
        == theirs.keys()
        == {
            *(("train", step) for step in range(1, STEPS + 1)),
            ("valid", STEPS // 2),
            ("valid", STEPS),
        }
    )
    return all(abs(ours[key] - theirs[key]) <= WITHIN * ours[key] for key in ours)


@pytest.mark.parametrize(
    ("name", "parallel"), [("gpt2", "ddp"), ("gpt2", "fsdp"), ("bert", "ddp"), ("lstm", "ddp")]
)
def test_two_processes_lose_as_much_as_one(name, parallel, tmp_path):
    one = run(1, name, tmp_path, tmp_path / "one")
    assert same(one, run(2, name, tmp_path, tmp_path / "two", parallel))


@pytest.mark.parametrize(("first", "then"), [(2, 1), (1, 2)])
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_what_some_saved_others_go_on_with(parallel, first, then, tmp_path):
    whole = run(1, "gpt2", tmp_path, tmp_path / "whole")
    folder = run(first, "gpt2", tmp_path, tmp_path / "part", parallel, until=10)
    assert max(step for _, step in losses(folder)) == 10
    if first == 2 and parallel == "fsdp":
        shards = list(folder.glob("checkpoints/step-00000010/shards/*.safetensors"))
        assert len(shards) == 2
    run(then, "gpt2", tmp_path, folder, parallel)
    assert same(whole, folder)
    assert load(folder / "model").config == load(whole / "model").config
