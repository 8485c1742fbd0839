"""What the kill test runs: a process that trains, saving after each step, and is killed at random.

Forking from one process that has imported everything makes a hundred kills take a minute.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from vesalius import load
from vesalius.training import Run
from vesalius.training.callbacks import MetricsFile
from vesalius.training.checkpointing import Checkpoints, locked
from vesalius.training.processes import Processes

sys.path.insert(0, str(Path(__file__).parent))
from small import small_recipe

name, data, folder, kills = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
recipe = small_recipe(name, data, steps=100_000, save_every=1, evaluate_every=100_000, log_every=1)


def go_on():
    torch.set_num_threads(1)
    with Processes("ddp") as processes, locked(folder):
        Run(recipe, folder, processes, resume=True).go([MetricsFile()])


def step():
    """The newest checkpoint's, by its name: a living process may remove it at any moment."""
    newest = Checkpoints(folder, 2).newest()
    return 0 if newest is None else int(newest.name.removeprefix("step-"))


def whole_step():
    """The newest checkpoint's, after reading all of it."""
    newest = Checkpoints(folder, 2).newest()
    assert newest is not None
    assert all(array.size for array in load(newest).state.values())
    return step()


rng, reached = random.Random(1), []
for _ in range(kills):
    before = step()
    child = os.fork()
    if child == 0:
        go_on()
    while step() == before:  # it does go on
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the process ended by itself"
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    reached.append(whole_step())
    assert reached[-1] > before
sys.stdout.write(f"{len(reached)} {reached[-1]}\n")
