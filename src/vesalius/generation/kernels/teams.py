"""Threads that go through compiled code together and meet at barriers.

Every thread runs the same kernel: it does the small things itself and its share of the large ones,
and waits at ``meet`` for what others have to give. That costs a fraction of a microsecond, where
starting threads anew for each of the sixty products of a token costs ten times as much.
"""

import operator
import os
import platform
import threading
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy import ndarray as Array

PATIENCE = 4000
"""Looks at a barrier before the processor is offered to others, a few dozen microseconds."""
COUNT, ROUND = 0, 16  # places in the barrier, not on one line of the cache
X86 = platform.machine().lower() in ("x86_64", "amd64")


class Member(NamedTuple):
    """One thread of a team: which it is, how many there are, and where they meet."""

    part: int
    parts: int
    barrier: Array


@intrinsic
def meet(context: Any, member: Any) -> Any:
    """Wait until all threads of the team are here."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, parts, barrier = cgutils.unpack_tuple(builder, values[0])
        array = context.make_array(signature.args[0].types[2])(context, builder, barrier)
        _write_barrier(builder, array.data, parts)
        return context.get_dummy_value()

    return types.void(member), generate


def _write_barrier(builder: Any, places: Any, parts: Any) -> None:
    number = parts.type

    def constant(value: int) -> Any:
        return ir.Constant(number, value)

    def place(index: int) -> Any:
        return builder.gep(places, [constant(index)], source_etype=number)

    def call(name: str, result: Any) -> None:
        kind = ir.FunctionType(result, [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])

    before = builder.load_atomic(place(ROUND), "seq_cst", 8, typ=number)
    here = builder.add(builder.atomic_rmw("add", place(COUNT), constant(1), "seq_cst"), constant(1))
    with builder.if_else(builder.icmp_signed("==", here, parts)) as (last, others):
        with last:
            builder.store_atomic(constant(0), place(COUNT), "seq_cst", 8)
            builder.store_atomic(builder.add(before, constant(1)), place(ROUND), "seq_cst", 8)
        with others:
            start, look, done = (
                builder.block,
                builder.append_basic_block("look"),
                builder.append_basic_block("met"),
            )
            builder.branch(look)
            builder.position_at_end(look)
            looks = builder.phi(number)
            looks.add_incoming(constant(0), start)
            if X86:
                call("llvm.x86.sse2.pause", ir.VoidType())
            if hasattr(os, "sched_yield"):
                tired = builder.icmp_signed(">", looks, constant(PATIENCE))
                with builder.if_then(tired, likely=False):
                    call("sched_yield", ir.IntType(32))
            now = builder.load_atomic(place(ROUND), "seq_cst", 8, typ=number)
            looks.add_incoming(builder.add(looks, constant(1)), builder.block)
            builder.cbranch(builder.icmp_signed("==", now, before), look, done)
            builder.position_at_end(done)


class Team:
    """So many threads, of which the one that asks is the first."""

    def __init__(self, size: int) -> None:
        barrier = np.zeros(32, np.int64)
        self.members = [Member(part, size, barrier) for part in range(size)]
        self.alone = Member(0, 1, barrier)
        self.queues: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(size - 1)]
        for queue in self.queues:
            threading.Thread(target=_serve, args=(queue,), daemon=True).start()

    def run(self, kernel: Any, *arguments: Any) -> None:
        """Run a kernel that is compiled already on all threads."""
        first, *others = self.members
        calls = [
            partial(queue.put, partial(kernel, member, *arguments))
            for queue, member in zip(self.queues, others, strict=True)
        ]
        # In one call of C: an interrupt between two calls would leave threads at a barrier.
        list(map(operator.call, [*calls, partial(kernel, first, *arguments)]))


def _serve(queue: "SimpleQueue[Any]") -> None:
    while True:
        queue.get()()


@cache
def team(size: int, process: int) -> Team:
    """The one team of this size in a process: a fork of it has none of its threads."""
    return Team(size)
