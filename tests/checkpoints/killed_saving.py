"""What the kill test runs: a process that saves two models in turn to one folder, killed at random.

Forking from one process that has imported everything makes a hundred kills take seconds.
"""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from strategies import filled, small

from vesalius import load
from vesalius.tokenizers import train_characters

folder, kills, layout = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
models = [filled(small("gpt2", layers=1, vocabulary=7)), filled(small("gpt2", layers=3))]
models[0].tokenizer = train_characters(["abcd"])
models[0].generation_config = {"eos_token_id": 1}
models[1].preprocessing = {"mean": 0.5}


def whole():
    """Which of the two the folder holds; all of it, and nothing of the other."""
    found = load(folder)
    (which,) = (i for i, model in enumerate(models) if model.config == found.config)
    model = models[which]
    for name, array in model.state.items():
        assert array.tobytes() == found.state[name].tobytes(), name
    assert (found.tokenizer is None) == (model.tokenizer is None)
    assert found.preprocessing == model.preprocessing
    assert found.generation_config.get("eos_token_id") == model.generation_config.get(
        "eos_token_id"
    )
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "logs" / "run.txt").read_text() == "also mine"
    return which


models[0].save(folder, layout)
(folder / "notes.txt").write_text("mine")
(folder / "logs").mkdir()
(folder / "logs" / "run.txt").write_text("also mine")
started = time.perf_counter()
models[0].save(folder, layout)
takes = time.perf_counter() - started
rng, seen, swept = random.Random(1), [], 0
for _ in range(kills):
    begun, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(told, b"!")
        while True:
            models[1].save(folder, layout)
            models[0].save(folder, layout)
    os.read(begun, 1)
    time.sleep(rng.uniform(0, 4 * takes))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(begun)
    os.close(told)
    seen.append(whole())
    left = [*folder.parent.glob(".saving-*"), *folder.glob(".saving-*")]
    swept += len(left)
    for path in left:
        shutil.rmtree(path)
sys.stdout.write(f"{len(seen)} {len(set(seen))} {swept}\n")
