"""Traces of every specimen, in single and in double precision, for the tests of all analyses."""

from functools import cache

import numpy as np

from vesalius.model import Model, load
from vesalius.traces.dissection import dissect
from vesalius.traces.trace import Trace

FAMILIES = ("ffnn", "rnn", "lstm", "gpt", "igpt", "bert", "vit", "tst")


@cache
def specimen(name: str, double: bool = False) -> Model:
    model = load(name)
    if double:
        model.state = {key: array.astype(np.float64) for key, array in model.state.items()}
    return model


def given(name: str, double: bool = False):
    """Something for a specimen to read."""
    rng = np.random.default_rng(7)
    if name == "vit":
        return rng.integers(0, 256, (28, 28, 1))
    if name == "tst":
        mean, std = map(
            np.array, (specimen(name).preprocessing.mean, specimen(name).preprocessing.std)
        )
        return rng.standard_normal((12, 20)) * 0.2 * std[:, None] + mean[:, None]
    if name == "igpt":
        return [1, 2, 3, 4, 3, 2]
    if name == "bert":
        return "She opened the [MASK] and looked out."
    if name == "ffnn":
        return specimen(name).tokenizer.encode("He shook his head and said that he was")[:8]
    return "He shook his"


@cache
def trace(name: str, double: bool = False) -> Trace:
    return dissect(specimen(name, double), given(name))
