"""The LSTM language model."""

from dataclasses import dataclass, replace

from vesalius.families import rnn
from vesalius.families.costs import Component, Memory, Operation
from vesalius.families.family import Lazy, Size
from vesalius.families.recurrent import (
    RecurrentConfig,
    output_memory,
    recurrent_components,
    recurrent_operations,
)


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(RecurrentConfig):
    """The LSTM language model (4.4, 5.3)."""


def components(config: LSTMConfig) -> tuple[Component, ...]:
    return recurrent_components(
        config, "LSTM", "4 d_e (2 d_e + 1)", "4 d_o (d_o + d_e + 1)", "4 d_o (2 d_o + 1)"
    )


def operations(config: LSTMConfig) -> list[Operation]:
    return recurrent_operations(
        config,
        [
            ("44", "candidate", "3 n d_o"),
            ("45", "forget gate", "7 n d_o"),
            ("46", "add gate", "7 n d_o"),
            ("47", "context", "n d_o"),
            ("48", "output gate", "8 n d_o"),
        ],
    )


def activation_memory(config: LSTMConfig) -> list[Memory]:
    return [
        Memory("embeddings", "n d_e"),
        Memory("candidate, gates, context, its tanh, state", "7 n d_o", times="L"),
        *output_memory(config),
    ]


def _size(hidden: int, dropout: float) -> Size:
    settings = {"embedding": hidden, "tied": False, "output_bias": True, "dropout": dropout}
    return Size("Zaremba et al. 2014", settings)


FAMILY = replace(
    rnn.FAMILY,
    name="lstm",
    title="LSTM language model",
    config=LSTMConfig,
    figures={"model": "7", "tokens": "6 7 20", "layer": "23"},
    sizes={
        "zaremba-2014-small": _size(200, 0),
        "zaremba-2014-medium": _size(650, 0.5),
        "zaremba-2014-large": _size(1500, 0.65),
    },
    components=components,
    operations=operations,
    activation_memory=activation_memory,
    decode_state=lambda config: Memory("state and context, in all", "2 L d_o"),
    parameters=Lazy("vesalius.equations:LSTMLM"),
    network=Lazy("vesalius.models:LSTMNetwork"),
    layout=Lazy("vesalius.checkpoints.layout:LSTM"),
    libraries={
        **rnn.FAMILY.libraries,
        "TensorFlow": Lazy("vesalius.checkpoints.bare.tensorflow:DIALECT"),
    },
)
