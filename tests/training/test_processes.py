"""Two processes under torchrun do what one does, and either goes on with what the other saved."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from processes import SECONDS, scripts

from vesalius import load
from vesalius.training.callbacks import read_metrics
from vesalius.training.processes import Processes

SCRIPT = Path(__file__).with_name("torchrun_small.py")
STEPS = 20
WITHIN = 1e-6  # relative: the same float32 gradients, added up in another order


def run(count, name, data, folder, parallel="ddp", until=STEPS):
    """Processes as ``torchrun`` starts them; it takes ten seconds to start itself."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    common |= {"WORLD_SIZE": str(count), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    ranks = [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    for done in scripts(SCRIPT, name, data, folder, parallel, until, environments=ranks):
        assert done.returncode == 0, done.stderr
    return folder


def torchrun(count, name, data, folder):
    several = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    arguments = [str(SCRIPT), name, str(data), str(folder), "ddp", str(STEPS)]
    command = [sys.executable, *several, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
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


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder of a run of one process, made once."""

    @cache
    def one(name):
        data = tmp_path_factory.mktemp(name)
        return run(1, name, data, data / "one")

    return one


@pytest.mark.slow  # the others are given what torchrun gives its processes
def test_two_processes_under_torchrun_lose_as_much_as_one(alone, tmp_path):
    assert same(alone("gpt2"), torchrun(2, "gpt2", tmp_path, tmp_path / "two"))


@pytest.mark.parametrize(
    ("name", "parallel"),
    [
        ("gpt2", "ddp"),
        ("gpt2", "fsdp"),
        pytest.param("bert", "ddp", marks=pytest.mark.slow),
        pytest.param("lstm", "ddp", marks=pytest.mark.slow),
    ],
)
def test_two_processes_lose_as_much_as_one(name, parallel, alone, tmp_path):
    assert same(alone(name), run(2, name, tmp_path, tmp_path / "two", parallel))


def test_a_run_goes_on_within_one_job(alone, tmp_path):
    assert same(alone("gpt2"), run(2, "gpt2", tmp_path, tmp_path / "two", until="10+20"))


def test_groups_of_one_job_share_no_addresses(monkeypatch):
    """torchrun's store outlives a group; an address in it would be that of a closed port."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": "2"}
    for name, value in {**common, "RANK": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}.items():
        monkeypatch.setenv(name, value)
    given = []
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda kind, *, store, **_: given.append(store)
    )
    first, second = (Processes("ddp").__enter__() and given[-1] for _ in range(2))
    first.set("address", "127.0.0.1:1")
    assert first.check(["address"])
    assert not second.check(["address"])


@pytest.mark.parametrize(
    ("parallel", "first", "then"),
    [
        ("fsdp", 2, 1),
        pytest.param("fsdp", 1, 2, marks=pytest.mark.slow),
        pytest.param("ddp", 2, 1, marks=pytest.mark.slow),
        pytest.param("ddp", 1, 2, marks=pytest.mark.slow),
    ],
)
def test_what_some_saved_others_go_on_with(parallel, first, then, alone, tmp_path):
    whole = alone("gpt2")
    folder = run(first, "gpt2", tmp_path, tmp_path / "part", parallel, until=10)
    assert max(step for _, step in losses(folder)) == 10
    if first == 2 and parallel == "fsdp":
        shards = list(folder.glob("checkpoints/step-00000010/shards/*.safetensors"))
        assert len(shards) == 2
    run(then, "gpt2", tmp_path, folder, parallel)
    assert same(whole, folder)
    assert load(folder / "model").config == load(whole / "model").config
