"""Configurations of every family for hypothesis, and small models of random numbers."""

import numpy as np
from hypothesis import strategies as st

from vesalius.equations import tracing
from vesalius.families import FAMILIES, configuration, family_of
from vesalius.families.activations import ACTIVATIONS
from vesalius.model import Model

width = st.integers(1, 12)
normalised = width.filter(lambda d: d != 2)
"""Two numbers that hardly differ are their rounding, once they are normalised."""
BLOCKS = {
    "embedding": normalised,
    "layers": st.integers(1, 3),
    "heads": st.integers(1, 4),
    "key": width,
    "value": width,
    "feedforward": width,
    "attention_bias": st.booleans(),
    "activation": st.sampled_from(list(ACTIVATIONS)),
}
WORDS = {"vocabulary": width, "context": width}
TRANSFORMER = {
    **BLOCKS,
    **WORDS,
    "variant": st.sampled_from([1, 2]),
    "positions": st.sampled_from(["learned", "sinusoidal"]),
    "causal": st.booleans(),
    "tied": st.booleans(),
}
LABELLED = {"labels": st.sampled_from([0, 3]), "pooling": st.sampled_from(["last", "mean"])}
HEADED = {**TRANSFORMER, **LABELLED}
RECURRENT = {
    **LABELLED,
    "vocabulary": width,
    "embedding": width,
    "layers": st.integers(1, 3),
    "output_bias": st.booleans(),
}
LSTM = st.fixed_dictionaries({**RECURRENT, "tied": st.just(True)}) | st.fixed_dictionaries(
    {**RECURRENT, "tied": st.just(False), "hidden": width}
)
ACTIVATION = st.fixed_dictionaries({"activation": st.sampled_from(["tanh", "sigmoid", "relu"])})

LABELS = [
    {"labels": 0},
    {"labels": 3, "labelled": "sequence"},
    {"labels": 3, "labelled": "sequence", "pooling": "mean"},
    {"labels": 3, "labelled": "tokens"},
    {"labels": 2, "labelled": "span"},
]
BERT_HEADS = [
    {"pooler": pooler, "mlm_head": mlm, "nsp_head": nsp, **labels}
    for pooler in (True, False)
    for mlm in (True, False)
    for nsp in (True, False)
    for labels in LABELS
    if pooler or (not nsp and labels not in LABELS[1:2])
]
"""All that a BERT can have; what reads the pooler's output needs the pooler."""


def joined(*parts):
    return st.tuples(*parts).map(lambda dicts: {k: v for d in dicts for k, v in d.items()})


ANY = {
    "ffnn": joined(
        st.fixed_dictionaries({**WORDS, "embedding": width, "hidden": width}),
        st.fixed_dictionaries({"layers": st.integers(1, 3), "output_bias": st.booleans()}),
        ACTIVATION,
    ),
    "rnn": joined(LSTM, ACTIVATION),
    "lstm": LSTM,
    "transformer": st.fixed_dictionaries(HEADED),
    "gpt2": st.fixed_dictionaries(HEADED),
    "igpt": st.fixed_dictionaries(TRANSFORMER),
    "bert": joined(
        st.fixed_dictionaries({**BLOCKS, **WORDS, "segments": width}), st.sampled_from(BERT_HEADS)
    ),
    "vit": st.fixed_dictionaries(
        {
            **BLOCKS,
            "patch": st.integers(1, 3),
            "image": st.just(6),
            "channels": width,
            "classes": st.integers(0, 4),
            "pooler": st.booleans(),
            "masked_patch_head": st.booleans(),
        }
    ),
    "tst": st.fixed_dictionaries(
        {
            **BLOCKS,
            "channels": width,
            "context": width,
            "outputs": width,
            "head": st.sampled_from(["series", "classes", "regression"]),
            "normalisation": st.sampled_from(["batch", "layer"]),
            "positions": st.sampled_from(["learned", "sinusoidal"]),
        }
    ),
    "patchtst": st.fixed_dictionaries(
        {
            **BLOCKS,
            "channels": st.integers(1, 3),
            "context": st.integers(4, 12),
            "patch": st.integers(1, 4),
            "stride": st.integers(1, 4),
            "horizon": width,
            "end_padding": st.booleans(),
            "affine": st.booleans(),
            "variant": st.sampled_from([1, 2]),
            "normalisation": st.sampled_from(["batch", "layer"]),
            "positions": st.sampled_from(["learned", "sinusoidal"]),
        }
    ),
}
"""The settings of any small model of a family."""


def configurations(family):
    return ANY[family].map(lambda settings: configuration(family, **settings))


BLOCK = {"layers": 2, "embedding": 12, "heads": 3, "feedforward": 20}
SMALL = {
    "ffnn": {"vocabulary": 17, "context": 4, "embedding": 6, "hidden": 8, "layers": 2},
    "rnn": {"vocabulary": 17, "embedding": 8},
    "lstm": {"vocabulary": 17, "embedding": 8},
    "transformer": {**BLOCK, "vocabulary": 17, "context": 9},
    "gpt2": {**BLOCK, "vocabulary": 17, "context": 9},
    "igpt": {**BLOCK, "vocabulary": 17, "context": 9},
    "bert": {**BLOCK, "vocabulary": 17, "context": 9, "mlm_head": True, "nsp_head": True},
    "vit": {**BLOCK, "image": 6, "patch": 2, "channels": 3, "classes": 5},
    "tst": {**BLOCK, "channels": 4, "context": 7},
    "patchtst": {**BLOCK, "channels": 2, "context": 8, "patch": 3, "stride": 2, "horizon": 4},
}
"""One small model of each family."""
for table in (ANY, SMALL):
    assert table.keys() == FAMILIES.keys(), "a family lacks its settings in tests/strategies.py"


def small(family, **changes):
    return configuration(family, **{**SMALL[family], **changes})


def filled(config, seed=0, dtype="float64"):
    """A model of random numbers, none of which is zero or one by convention."""
    import torch  # counting is tested without

    with torch.device("meta"):
        empty = family_of(config).network(config).state_dict()
    rng, state = np.random.default_rng(seed), {}
    for name, shape in ((name, tuple(tensor.shape)) for name, tensor in empty.items()):
        if name.endswith("running_var"):
            array = rng.uniform(0.5, 2, shape)
        else:
            array = rng.normal(1.0 if name.endswith("norm.weight") else 0.0, 0.4, shape)
        state[name] = array.astype(dtype)
    return Model(config, state, dtype=dtype)


IDS = [3, 1, 4, 1, 5]


def given_to(config):
    """Something that a model of any family can read: token ids, an image or a series."""
    if family_of(config).reads in ("text", "pixels"):
        return IDS[: config.context]
    return np.random.default_rng(1).normal(size=family_of(config).input_shape(config))


def logits(config, theta, Omega):
    """The logits of a language model by its equations."""
    family = family_of(config)
    name = next(iter(family.outputs(config)))
    with tracing(name) as steps:
        family.run(theta, Omega, config.symbols())
    return steps[name]
