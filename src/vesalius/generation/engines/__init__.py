"""Engines that decode on a processor: weights packed for the kernels, and states of sequences.

``engine(model, dtype, threads)`` gives one. A ``Session`` of it holds so many sequences: ``read``
takes in a prompt, ``step`` one more token of each. PyTorch is not needed. Matrices are float32, or
bytes ("int8"); what is looked up, added or normalised with stays float32.
"""

import os

from vesalius.errors import ImpossibleSetting
from vesalius.generation.engines.engine import Engine as Engine
from vesalius.generation.engines.engine import Session as Session
from vesalius.generation.engines.feedforward import FeedforwardEngine
from vesalius.generation.engines.recurrent import RecurrentEngine
from vesalius.generation.engines.transformer import TransformerEngine
from vesalius.machine import physical_cores
from vesalius.model import Model

DTYPES = ("float32", "int8")
ENGINES: dict[str, type[Engine]] = {
    "ffnn": FeedforwardEngine,
    "rnn": RecurrentEngine,
    "lstm": RecurrentEngine,
    "transformer": TransformerEngine,
    "gpt2": TransformerEngine,
    "igpt": TransformerEngine,
}


def engine(model: Model, dtype: str = "float32", threads: int | None = None) -> Engine:
    """The engine of a model; its weights are packed once and kept with the model."""
    if dtype not in DTYPES:
        raise ImpossibleSetting(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    most = os.cpu_count() or 1
    if threads is not None and not 1 <= threads <= most:
        raise ImpossibleSetting(
            f"threads must be between 1 and {most}, as many as there are processors, got {threads}"
        )
    threads = threads or physical_cores()
    if dtype not in model.engines:
        model.engines[dtype] = ENGINES[model.family](model, dtype, threads)
    kept: Engine = model.engines[dtype]
    return kept if kept.threads == threads else kept.with_threads(threads)
