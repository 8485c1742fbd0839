"""Small models of every kind that decodes, all of whose parameters matter."""

import numpy as np

from vesalius import create

SMALL = {"vocabulary": 101, "context": 150}
MODELS = {
    "gpt2": ("gpt2", {**SMALL, "layers": 2, "embedding": 24, "heads": 3}),
    "variant 1": ("transformer", {**SMALL, "layers": 2, "embedding": 20, "heads": 2}),
    "other widths": (
        "transformer",
        {**SMALL, "layers": 2, "embedding": 20, "heads": 3, "key": 5, "value": 9, "variant": 2}
        | {"activation": "gelu", "positions": "learned", "tied": False, "feedforward": 13},
    ),
    "igpt": ("igpt", {**SMALL, "layers": 1, "embedding": 16, "heads": 2}),
    "igpt, as published": (
        "igpt",
        {**SMALL, "layers": 2, "embedding": 20, "heads": 4, "activation": "quick_gelu"}
        | {"normalisation": "rms", "tied": False, "start_predicted": False},
    ),
    "lstm": ("lstm", {"vocabulary": 101, "embedding": 20, "layers": 3}),
    "lstm, wider": (
        "lstm",
        {"vocabulary": 101, "embedding": 20, "hidden": 33, "tied": False, "output_bias": True},
    ),
    "rnn": ("rnn", {"vocabulary": 101, "embedding": 20, "layers": 1}),
    "rnn, sigmoid": ("rnn", {"vocabulary": 101, "embedding": 20, "activation": "sigmoid"}),
    "rnn, relu": ("rnn", {"vocabulary": 101, "embedding": 20, "activation": "relu"}),
    "ffnn": ("ffnn", {"vocabulary": 101, "embedding": 9, "hidden": 30, "context": 5}),
    "ffnn, deep": (
        "ffnn",
        {"vocabulary": 101, "embedding": 9, "hidden": 30, "context": 5, "layers": 3}
        | {"output_bias": True},
    ),
    "ffnn, wide": ("ffnn", {"vocabulary": 101, "embedding": 520, "hidden": 32, "context": 8}),
}


def lively(family, settings):
    """A model whose every parameter matters: none is zero, as new biases are."""
    model = create(family, seed=3, **settings)
    rng = np.random.default_rng(11)
    for name, array in model.state.items():
        model.state[name] = (array + rng.normal(0, 0.15, array.shape)).astype(np.float32)
    return model


def error(got, wanted):
    return np.abs(got - wanted).max() / np.abs(wanted).max()
