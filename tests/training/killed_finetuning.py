"""What the kill test runs: fine-tuning that is killed at random, goes on, and is done again.

A run that ends is compared with one that nobody killed, and another begins, until there were as
many kills as were asked for. Forking from one process that has imported everything saves time.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

import vesalius as vs
from vesalius.checkpoints import files
from vesalius.tokenizers import train_byte_pairs
from vesalius.training.callbacks import read_metrics
from vesalius.training.checkpointing import Checkpoints
from vesalius.training.recipe import read_recipe

sys.path.insert(0, str(Path(__file__).parent))
from small import write_texts

strategy, folder, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
STEPS = {"steps": 8, "batch": 4, "save_every": 1, "evaluate_every": 4}
run, texts, backbone = folder / "run", write_texts(folder), folder / "backbone"


def finetune(out):
    torch.set_num_threads(1)
    resume = bool(Checkpoints(out, 2).steps())
    vs.finetune(backbone, texts, out=out, label="label", strategy=strategy, resume=resume, **STEPS)


def forked(out):
    child = os.fork()
    if child == 0:
        try:
            finetune(out)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
        os._exit(0)
    return child


def ends(child):
    """Whether a process has ended, which it has to do well."""
    pid, status = os.waitpid(child, os.WNOHANG)
    assert pid == 0 or status == 0, f"the run ended by itself with {status}"
    return pid == child


def content(model):
    return {name: file.read_bytes() for name in files_of(model) if (file := model / name).is_file()}


def files_of(folder):
    return sorted(path.name for path in folder.iterdir())


def require_whole():
    """What a kill leaves can be read, all of it; the step of the newest checkpoint."""
    if (run / "recipe.toml").exists():
        assert read_recipe(run / "recipe.toml").training.steps == STEPS["steps"]
    read_metrics(run)
    for step in Checkpoints(run, 2).steps():
        checkpoint = run / "checkpoints" / f"step-{step:08d}"
        assert all(array.size for array in files.read(checkpoint / files.WEIGHTS).arrays.values())
    newest = Checkpoints(run, 2).newest()
    if (run / "model").exists():
        assert content(run / "model") == expected
    return 0 if newest is None else int(newest.name.removeprefix("step-"))


def step():
    """The newest checkpoint's, by its name: a living process may remove it at any moment."""
    return max(Checkpoints(run, 2).steps(), default=0)


def losses(out):
    return [
        {key: value for key, value in line.items() if key in ("kind", "step", "loss")}
        for line in read_metrics(out)
    ]


def whole_run():
    """The files of a run that nobody kills, and the seconds that one takes once all is imported."""
    finetune(folder / "first")
    started = time.perf_counter()
    finetune(folder / "whole")
    return content(folder / "whole" / "model"), time.perf_counter() - started


words = train_byte_pairs([json.loads(line)["text"] for line in texts.read_text().splitlines()], 280)
model = vs.create("gpt2", layers=1, heads=2, embedding=16, context=16, vocabulary=words.rows)
model.tokenizer = words
model.save(backbone)
expected, takes = whole_run()
rng, killed, done, steps = random.Random(1), 0, 0, set()
while killed < kills or not done or run.exists():
    before = require_whole() if run.exists() else 0
    to_end = killed >= kills or (before == STEPS["steps"] and rng.random() < 0.5)
    last = STEPS["steps"] + 1 if to_end else rng.randint(before, STEPS["steps"])
    child = forked(run)
    while not (ended := ends(child)) and step() < last:
        time.sleep(0.002)
    moment = time.perf_counter() + rng.uniform(0, takes / STEPS["steps"])
    while not (ended := ended or ends(child)) and time.perf_counter() < moment:
        time.sleep(0.001)
    if ended:
        assert require_whole() == STEPS["steps"]
        assert content(run / "model") == expected
        assert losses(run) == losses(folder / "whole")
        shutil.rmtree(run)
        done += 1
        continue
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    killed += 1
    after = require_whole() if run.exists() else 0
    assert after >= before
    steps.add(after)
sys.stdout.write(f"{killed} {done} {len(steps)}\n")
