"""What the test of loading runs: one process saves two models in turn, the other loads them.

It prints how many loads gave the one, the other, and an error that says why.
"""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from strategies import filled, small

from vesalius import load
from vesalius.checkpoints import exchanging, files
from vesalius.errors import BrokenFile
from vesalius.model import _is_model
from vesalius.tokenizers import train_characters

folder, loads, kind = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def models():
    """Two of the same shapes, so that nothing but their content tells them apart."""
    sizes = {"layers": 3, "embedding": 12, "vocabulary": 9, "variant": 2, "tied": True}
    pair = [filled(small("gpt2", heads=heads, key=None, value=None, **sizes)) for heads in (2, 4)]
    for name, array in pair[1].state.items():
        pair[1].state[name] = array + 1
    if kind == "all files":
        for model, letters, end in zip(pair, ("abcd", "efgh"), (1, 2), strict=True):
            model.tokenizer = train_characters([letters])
            model.generation_config = {"eos_token_id": end}
        pair[0].preprocessing = {"mean": 0.5}
    return pair


def save_in_shards(model):
    """As Hugging Face publishes large models: two files of weights, and an index."""
    with exchanging.written(folder, _is_model) as stage:
        model.save(stage / "whole", "huggingface")
        whole = files.read(stage / "whole" / files.WEIGHTS).arrays
        where = {}
        for k in range(2):
            part = f"model-{k + 1:05}-of-00002.safetensors"
            names = sorted(whole)[k::2]
            files.write(stage / part, {name: whole[name] for name in names})
            where |= dict.fromkeys(names, part)
        (stage / files.INDEX).write_text(json.dumps({"weight_map": where}))
        (stage / "whole" / files.WEIGHTS).unlink()
        for file in (stage / "whole").iterdir():
            file.rename(stage / file.name)
        (stage / "whole").rmdir()


def save(model):
    if kind == "shards" and model is pair[0]:
        save_in_shards(model)
    else:
        model.save(folder, "vesalius" if kind == "plain" else "huggingface")


def which(found):
    """Which of the two this is; all of it, and nothing of the other."""
    (number,) = (k for k, model in enumerate(pair) if model.config == found.config)
    model = pair[number]
    assert set(model.state) == set(found.state)
    for name, array in model.state.items():
        assert array.tobytes() == found.state[name].tobytes(), name
    digests = {m.tokenizer and m.tokenizer.digest() for m in (found, model)}
    assert len(digests) == 1
    assert found.ends == model.ends
    assert found.preprocessing == model.preprocessing
    return number


pair, counts = models(), [0, 0, 0]
save(pair[0])
child = os.fork()
if child == 0:
    while True:
        save(pair[1])
        save(pair[0])
try:
    for _ in range(loads):
        try:
            counts[which(load(folder))] += 1
        except BrokenFile as error:
            if "was written to whenever it was read; wait" not in str(error):
                raise
            counts[2] += 1
finally:
    assert os.waitpid(child, os.WNOHANG) == (0, 0), "the process that saves ended by itself"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
sys.stdout.write(" ".join(map(str, counts)))
