"""Engines that run on a processor: weights packed for the kernels, and states of sequences.

``engine(model, dtype, threads)`` gives one. A ``Session`` of it holds so many sequences: ``read``
takes in a prompt, ``step`` one more token of each; a transformer's ``extend`` gives states.
PyTorch is not needed. Matrices are float32, or bytes ("int8"); what is looked up, added or
normalised with stays float32. The engine in ``reference`` is plain NumPy.
"""

import os
from typing import TYPE_CHECKING

from vesalius import arguments
from vesalius.errors import ImpossibleSetting
from vesalius.families import family_of
from vesalius.machine import physical_cores
from vesalius.model import Model

if TYPE_CHECKING:
    from vesalius.generation.engines.compiled import Engine as Engine
    from vesalius.generation.engines.compiled import Session as Session

DTYPES = ("float32", "int8")


def engine(model: Model, dtype: str = "float32", threads: int | None = None) -> "Engine":
    """The engine of a model. Its weights are packed once, and again when the model's changed."""
    if dtype not in DTYPES:
        raise ImpossibleSetting(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    threads = None if threads is None else arguments.whole("threads", threads)
    most = os.cpu_count() or 1
    if threads is not None and not 1 <= threads <= most:
        raise ImpossibleSetting(
            f"threads must be between 1 and {most}, as many as there are processors, got {threads}"
        )
    threads = threads or physical_cores()
    fingerprint = model.fingerprint()
    if dtype not in model.engines or model.engines[dtype][0] != fingerprint:
        made = family_of(model.config).engine
        assert made is not None, "verbs ask for engines of families that have one"
        model.engines[dtype] = fingerprint, made(model, dtype, threads)
    kept: Engine = model.engines[dtype][1]
    return kept if kept.threads == threads else kept.with_threads(threads)
