"""What the kill test runs: a process that converts a model to a new folder, killed at random.

Forking from one process that has imported everything makes a hundred kills take seconds.
"""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from strategies import filled, small

from vesalius import load
from vesalius.checkpoints import files
from vesalius.cli import cli
from vesalius.tokenizers import train_characters

folder, kills, layout = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
source, target = folder / "source", folder / "converted"


def convert(to):
    cli.main(["convert", str(source), str(to), "--to", layout], standalone_mode=False)


def content(of):
    return {path.name: path.read_bytes() for path in of.iterdir()}


def write_source():
    """As older models are published: pickled weights, which alone ``convert`` reads."""
    model = filled(small("gpt2", layers=3, vocabulary=9, variant=2))
    model.tokenizer = train_characters(["abcd"])
    model.save(source, "huggingface")
    weights = files.read(source / files.WEIGHTS).arrays
    tensors = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
    torch.save(tensors, source / "pytorch_model.bin")
    (source / files.WEIGHTS).unlink()


def forked(seconds):
    """Convert in another process, and kill it after a while."""
    begun, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.write(told, b"!")
        try:
            convert(target)
        finally:
            os._exit(0)
    os.read(begun, 1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(begun)
    os.close(told)


torch.set_num_threads(1)
write_source()
convert(folder / "first")  # imports what it needs
started = time.perf_counter()
convert(folder / "whole")
takes = time.perf_counter() - started
given, whole = content(source), content(folder / "whole")
rng, converted, halfway = random.Random(1), 0, 0
for kill in range(kills):
    if kill % 2:
        target.mkdir()  # an empty folder is taken for a new one
    forked(rng.uniform(0, 2 * takes))
    if target.exists() and (found := content(target)):
        assert found == whole
        assert load(target).tokenizer.size == 4
        shutil.rmtree(target)
        converted += 1
    elif kill % 2:
        target.rmdir()
    assert not target.exists()
    assert content(source) == given
    left = [*folder.glob(".saving-*")]
    halfway += bool(left)
    for path in left[: kill % 3]:  # what is left is in nobody's way
        shutil.rmtree(path)
convert(target)
assert content(target) == whole
sys.stdout.write(f"\n{kills} {converted} {halfway}\n")
