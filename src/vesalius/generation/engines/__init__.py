"""Engines that run on a processor; none needs PyTorch. ``engine(model, dtype, threads)`` gives one.

A session of an engine holds a number of sequences: ``prefill`` reads prompts, ``step`` decodes one
token of each, ``extend`` gives hidden states. Compiled engines have matrices in float32 or int8;
embeddings, biases and normalisations stay float32. The engine in ``reference`` is plain NumPy: the
others are tested against it, and it is used where Numba cannot compile.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from vesalius import arguments
from vesalius.errors import CannotCompile, ImpossibleSetting
from vesalius.families import family_of
from vesalius.generation.engines.sessions import Engine
from vesalius.machine import physical_cores, warn_once
from vesalius.model import Model

DTYPES = ("float32", "int8")


def engine(model: Model, dtype: str = "float32", threads: int | None = None) -> Engine:
    """The engine of a model. Its weights are packed once, and again when the model's changed."""
    if dtype not in DTYPES:
        raise ImpossibleSetting(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    threads = None if threads is None else arguments.whole("threads", threads)
    most = os.cpu_count() or 1
    if threads is not None and not 1 <= threads <= most:
        raise ImpossibleSetting(
            f"threads must be between 1 and {most}, the number of processors, got {threads}"
        )
    threads = threads or physical_cores()
    fingerprint = model.fingerprint()
    if dtype not in model.engines or model.engines[dtype][0] != fingerprint:
        model.engines[dtype] = fingerprint, _made(model, dtype, threads)
    kept: Engine = model.engines[dtype][1]
    return kept.with_threads(threads)


def _made(model: Model, dtype: str, threads: int) -> Engine:
    """A compiled engine, or the one in NumPy where none can be had."""
    row = family_of(model.config).engine
    try:
        if row is None:
            raise CannotCompile(f"{model.family} has no compiled kernels")
        with _compiling():
            kind = row.get()
        made: Engine = kind(model, dtype, threads)
        with _compiling():
            made.session(1, 1)  # which compiles its kernel
        return made
    except CannotCompile as error:
        if dtype != "float32":
            message = f"{dtype} needs compiled kernels; {error}; take dtype float32"
            raise CannotCompile(message) from error
        if row is not None:  # else it is meant to run on NumPy
            warn_once(f"{error}: plain NumPy is used, which is slower")
    from vesalius.generation.engines.reference import ReferenceEngine

    return ReferenceEngine(model, threads)


@contextmanager
def _compiling() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # Numba, LLVM and the linker raise what they like
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise CannotCompile(f"kernels cannot be compiled here ({reason})") from error
