"""Threads that go through compiled code together and meet at barriers.

Every thread runs the same kernel, in which the first calls the others: each does its share of what
is large, or all of what is small, and waits at ``meet`` for what others have to give. That costs a
fraction of a microsecond, where starting threads anew for each of the sixty products of a token
costs ten times as much.
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

PATIENCE, IDLE = 4000, 40_000
"""Looks at a barrier before the processor is offered to others, a few dozen microseconds, and looks
for a next kernel before falling asleep, which it takes a tenth of a millisecond to wake up from."""
COUNT, ROUND, CALLS, TAKEN = 0, 16, 32, 48  # places in the barrier, not on one line of the cache
NUMBER = ir.IntType(64)
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
        _, parts, places = _unpacked(context, builder, signature, values)
        before = builder.load_atomic(places[ROUND], "seq_cst", 8, typ=NUMBER)
        here = builder.atomic_rmw("add", places[COUNT], _number(1), "seq_cst")
        last = builder.icmp_signed("==", builder.add(here, _number(1)), parts)
        with builder.if_else(last) as (then, otherwise):
            with then:
                for counter in (COUNT, TAKEN):
                    builder.store_atomic(_number(0), places[counter], "seq_cst", 8)
                after = builder.add(before, _number(1))
                builder.store_atomic(after, places[ROUND], "seq_cst", 8)
            with otherwise:
                _write_looking(builder, places[ROUND], before, forever=True)
        return context.get_dummy_value()

    return types.void(member), generate


@intrinsic
def take(context: Any, member: Any) -> Any:
    """The number of a piece of work that no other thread has: 0, 1, … since all have met."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, _, places = _unpacked(context, builder, signature, values)
        return builder.atomic_rmw("add", places[TAKEN], _number(1), "monotonic")

    return types.int64(member), generate


@intrinsic
def call_others(context: Any, member: Any) -> Any:
    """Tell those who look for a next kernel that the first of them runs one.

    Compiled code does: Python would hold the lock that they need to come.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        part, parts, places = _unpacked(context, builder, signature, values)
        first = builder.icmp_signed("==", part, _number(0))
        others = builder.icmp_signed(">", parts, _number(1))
        with builder.if_then(builder.and_(first, others)):
            builder.atomic_rmw("add", places[CALLS], _number(1), "seq_cst")
        return context.get_dummy_value()

    return types.void(member), generate


@intrinsic
def _look_for_call(context: Any, member: Any, calls: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, _, places = _unpacked(context, builder, signature, values)
        _write_looking(builder, places[CALLS], values[1], forever=False)
        return context.get_dummy_value()

    return types.void(member, calls), generate


@compiled
def look_for_call(member: Member, calls: int) -> None:
    """Look for a while whether there are more calls than so many."""
    _look_for_call(member, calls)


def _unpacked(context: Any, builder: Any, signature: Any, values: Any) -> tuple[Any, Any, Any]:
    """A member's number, how many there are, and the places of the barrier."""
    part, parts, barrier = cgutils.unpack_tuple(builder, values[0])
    array = context.make_array(signature.args[0].types[2])(context, builder, barrier)
    places = {
        index: builder.gep(array.data, [_number(index)], source_etype=NUMBER)
        for index in (COUNT, ROUND, CALLS, TAKEN)
    }
    return part, parts, places


def _number(value: int) -> Any:
    return ir.Constant(NUMBER, value)


def _write_looking(builder: Any, place: Any, before: Any, forever: bool) -> None:
    """Look at a number until it is another than before, or for a while."""

    def call(name: str, result: Any) -> None:
        kind = ir.FunctionType(result, [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])

    start, look = builder.block, builder.append_basic_block("look")
    done = builder.append_basic_block("seen")
    builder.branch(look)
    builder.position_at_end(look)
    looks = builder.phi(NUMBER)
    looks.add_incoming(_number(0), start)
    if X86:
        call("llvm.x86.sse2.pause", ir.VoidType())
    patient = builder.icmp_signed("<", looks, _number(PATIENCE if forever else IDLE))
    if forever and hasattr(os, "sched_yield"):
        with builder.if_then(builder.not_(patient), likely=False):
            call("sched_yield", ir.IntType(32))
    now = builder.load_atomic(place, "seq_cst", 8, typ=NUMBER)
    looks.add_incoming(builder.add(looks, _number(1)), builder.block)
    same = builder.icmp_signed("==", now, before)
    builder.cbranch(same if forever else builder.and_(same, patient), look, done)
    builder.position_at_end(done)


class Team:
    """So many threads, of which the one that asks is the first."""

    def __init__(self, size: int) -> None:
        barrier = np.zeros(64, np.int64)
        self.members = [Member(part, size, barrier) for part in range(size)]
        self.alone = Member(0, 1, barrier)
        self.queues: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(size - 1)]
        look_for_call(self.alone, -1)  # compiled here, where nobody waits for it
        for queue, member in zip(self.queues, self.members[1:], strict=True):
            threading.Thread(target=_serve, args=(queue, member), daemon=True).start()

    def run(self, kernel: Any, *arguments: Any) -> None:
        """Run a kernel that is compiled already on all threads."""
        first, *others = self.members
        calls = [
            partial(queue.put, partial(kernel, member, *arguments))
            for queue, member in zip(self.queues, others, strict=True)
        ]
        # In one call of C: an interrupt between two calls would leave threads at a barrier.
        list(map(operator.call, [*calls, partial(kernel, first, *arguments)]))


def _serve(queue: "SimpleQueue[Any]", member: Member) -> None:
    for calls in count(1):
        kernel = queue.get()
        kernel()
        look_for_call(member, calls)


@cache
def team(size: int) -> Team:
    """The one team of this size in a process."""
    return Team(size)


if hasattr(os, "register_at_fork"):  # a fork has none of its threads
    os.register_at_fork(after_in_child=team.cache_clear)
