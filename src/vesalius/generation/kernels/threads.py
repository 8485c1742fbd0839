"""A pool of threads that run one kernel together, as OpenMP's parallel regions do.

Every thread runs the same kernel: large products are shared between them, small ones computed by
each, and a ``barrier`` waits for the results of the others, in a fraction of a microsecond.
Starting a parallel loop for each of the sixty products of a token costs ten times as much.
"""

import operator
import os
import platform
import threading
from functools import cache, partial
from itertools import count
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy import ndarray as Array

from vesalius.generation.kernels.compiling import compiled

BARRIER_SPINS, IDLE_SPINS = 4000, 40_000
"""Spins at a barrier before the thread yields its core, a few dozen microseconds; and spins between
kernels before it sleeps, a millisecond: to wake a sleeping thread takes 0.05 to 0.1 ms."""
ARRIVED, ROUND, WAKES, CHUNK = 0, 16, 32, 48  # 128 bytes apart, against false sharing
NUMBER = ir.IntType(64)
X86 = platform.machine().lower() in ("x86_64", "amd64")


class Worker(NamedTuple):
    """One thread of a pool, as kernels see it."""

    thread: int
    """Its number, from 0."""
    threads: int
    """How many there are."""
    counters: Array
    """Shared by all, changed atomically: arrivals at the barrier, its round, wakes, chunks."""


@intrinsic
def barrier(context: Any, worker: Any) -> Any:
    """Wait until all threads of the pool are here."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, workers, counters = _unpacked(context, builder, signature, values)
        before = builder.load_atomic(counters[ROUND], "seq_cst", 8, typ=NUMBER)
        here = builder.atomic_rmw("add", counters[ARRIVED], _number(1), "seq_cst")
        last = builder.icmp_signed("==", builder.add(here, _number(1)), workers)
        with builder.if_else(last) as (then, otherwise):
            with then:
                for counter in (ARRIVED, CHUNK):
                    builder.store_atomic(_number(0), counters[counter], "seq_cst", 8)
                after = builder.add(before, _number(1))
                builder.store_atomic(after, counters[ROUND], "seq_cst", 8)
            with otherwise:
                _write_spinning(builder, counters[ROUND], before, forever=True)
        return context.get_dummy_value()

    return types.void(worker), generate


@intrinsic
def next_chunk(context: Any, worker: Any) -> Any:
    """The number of a chunk of work that no other thread has: 0, 1, … since the last barrier."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, _, counters = _unpacked(context, builder, signature, values)
        return builder.atomic_rmw("add", counters[CHUNK], _number(1), "monotonic")

    return types.int64(worker), generate


@intrinsic
def wake(context: Any, worker: Any) -> Any:
    """The first thread tells the others, which spin, that it runs a kernel.

    Compiled code does this, because Python would hold the interpreter's lock that they need.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        index, workers, counters = _unpacked(context, builder, signature, values)
        first = builder.icmp_signed("==", index, _number(0))
        others = builder.icmp_signed(">", workers, _number(1))
        with builder.if_then(builder.and_(first, others)):
            builder.atomic_rmw("add", counters[WAKES], _number(1), "seq_cst")
        return context.get_dummy_value()

    return types.void(worker), generate


@intrinsic
def _wait_for_work(context: Any, worker: Any, wakes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, _, counters = _unpacked(context, builder, signature, values)
        _write_spinning(builder, counters[WAKES], values[1], forever=False)
        return context.get_dummy_value()

    return types.void(worker, wakes), generate


@compiled
def wait_for_work(worker: Worker, wakes: int) -> None:
    """Spin for a while, until the counter of wakes is no longer at this number."""
    _wait_for_work(worker, wakes)


def _unpacked(context: Any, builder: Any, signature: Any, values: Any) -> tuple[Any, Any, Any]:
    """A worker's index, how many there are, and pointers to the counters."""
    index, workers, counters = cgutils.unpack_tuple(builder, values[0])
    array = context.make_array(signature.args[0].types[2])(context, builder, counters)
    pointers = {
        counter: builder.gep(array.data, [_number(counter)], source_etype=NUMBER)
        for counter in (ARRIVED, ROUND, WAKES, CHUNK)
    }
    return index, workers, pointers


def _number(value: int) -> Any:
    return ir.Constant(NUMBER, value)


def _write_spinning(builder: Any, pointer: Any, before: Any, forever: bool) -> None:
    """Spin until a counter is no longer what it was before, or for a while."""

    def call(name: str, result: Any) -> None:
        kind = ir.FunctionType(result, [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])

    start, spin = builder.block, builder.append_basic_block("spin")
    done = builder.append_basic_block("changed")
    builder.branch(spin)
    builder.position_at_end(spin)
    spins = builder.phi(NUMBER)
    spins.add_incoming(_number(0), start)
    if X86:
        call("llvm.x86.sse2.pause", ir.VoidType())
    few = builder.icmp_signed("<", spins, _number(BARRIER_SPINS if forever else IDLE_SPINS))
    if forever and hasattr(os, "sched_yield"):
        with builder.if_then(builder.not_(few), likely=False):
            call("sched_yield", ir.IntType(32))
    now = builder.load_atomic(pointer, "seq_cst", 8, typ=NUMBER)
    spins.add_incoming(builder.add(spins, _number(1)), builder.block)
    same = builder.icmp_signed("==", now, before)
    builder.cbranch(same if forever else builder.and_(same, few), spin, done)
    builder.position_at_end(done)


class ThreadPool:
    """A number of threads; the caller's is the first of them."""

    def __init__(self, size: int) -> None:
        counters = np.zeros(64, np.int64)
        self.workers = [Worker(index, size, counters) for index in range(size)]
        self.alone = Worker(0, 1, counters)
        self.queues: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(size - 1)]
        wait_for_work(self.alone, -1)  # compiled here, where nobody waits for it
        for queue, worker in zip(self.queues, self.workers[1:], strict=True):
            threading.Thread(target=_serve, args=(queue, worker), daemon=True).start()

    def run(self, kernel: Any, *arguments: Any) -> None:
        """Run a kernel that is compiled already on all threads."""
        first, *others = self.workers
        calls = [
            partial(queue.put, partial(kernel, worker, *arguments))
            for queue, worker in zip(self.queues, others, strict=True)
        ]
        # In one call of C: an interrupt between two calls would leave threads at a barrier.
        list(map(operator.call, [*calls, partial(kernel, first, *arguments)]))


def _serve(queue: "SimpleQueue[Any]", worker: Worker) -> None:
    for wakes in count(1):
        kernel = queue.get()
        kernel()
        wait_for_work(worker, wakes)


@cache
def pool(size: int) -> ThreadPool:
    """The process's pool of this size."""
    return ThreadPool(size)


if hasattr(os, "register_at_fork"):  # a fork has none of its threads
    os.register_at_fork(after_in_child=pool.cache_clear)
