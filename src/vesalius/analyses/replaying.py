"""Forward passes of which only what follows a change is computed again.

All other steps are taken from a trace; the pass ends where the target can be read, and the target
is read at its own column, for many passes in one product.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from vesalius.analyses.targets import Target
from vesalius.arguments import Progress
from vesalius.dissection import Reading, again
from vesalius.equations import Steps, softmax, tracing
from vesalius.equations.parameters import Array
from vesalius.equations.references import Operand, Scope
from vesalius.equations.rules import Rule
from vesalius.traces import Trace

Change = Mapping[str, Array]
"""Values that take the place of a trace's, by the names of their steps."""
Outcome = tuple[bool, Array]
"""Whether the target's column is there, and it; else the state that it is to be read from."""
TOGETHER = 256
"""Passes whose targets are read in one product: their logits take memory."""
WORKERS = os.cpu_count() or 1
"""Threads, each with products of one core: most of a pass lies between products, on one core."""


class Changed:
    """A scope in which some steps have other values, and which knows what it was asked for."""

    def __init__(self, scope: Scope, values: Change) -> None:
        self.scope, self.values, self.asked = scope, values, dict[str, Operand]()

    @property
    def layers(self) -> int:
        return self.scope.layers

    def find(self, name: str) -> Operand | None:
        found = self.scope.find(name)
        if found is not None and name in self.values:
            found = Operand(found.kind, name, self.values[name])
        if found is not None and found.kind == "step":
            self.asked[name] = found
        return found

    def constants(self, name: str) -> Any:
        return self.scope.constants(name)


class Replay:
    """The target of a trace, after changes of its steps."""

    def __init__(self, reading: Reading, trace: Trace, target: Target) -> None:
        self.reading, self.trace, self.target = reading, trace, target
        self.values = {step.name: step.value for step in trace.steps}
        self.graph, self.step = trace.graph, trace.graph.step(target.step)
        value = np.asarray(self.step.value)
        self.wide = value.shape[1] if value.ndim == 2 else 1
        self.operands, self.together = self._operands(value)
        """The steps that the target's column is made of, and which alone, where it is one whose
        column is the target's."""
        assert self.graph.edges, "worked out before threads ask for it"

    @property
    def rule(self) -> Rule:
        return self.graph.rule(self.step)

    def _operands(self, value: Array) -> tuple[set[str], str | None]:
        scope = Changed(self.graph, {})
        column = [self.target.column]
        if self.rule.columns(scope, self.step.place, column, self.wide) is None:
            return {self.target.step}, None  # the step itself is waited for
        together = None
        if value.ndim == 2 and len(scope.asked) == 1:
            (name, operand), *_ = scope.asked.items()
            together = name if operand.array.shape[1:] == (self.wide,) else None
        return set(scope.asked), together

    def steps(self, change: Change) -> dict[str, Array]:
        """What a change makes of the operands; those that it does not reach are left out."""
        if self.target.step in change:
            return {self.target.step: change[self.target.step]}
        moved = self.graph.dependents(change)
        found = {name: change[name] for name in self.operands & set(change)}
        if wanted := self.operands & moved - set(change):
            known = {name: value for name, value in self.values.items() if name not in moved}
            known.update(change)
            with tracing(only=wanted, known=known, until=wanted) as steps:
                self.reading.run()
            found.update((step.name, step.value) for step in steps)
        return found

    def outcome(self, change: Change) -> Outcome:
        """What ``read`` needs to know of a pass after a change."""
        found = self.steps(change)
        if self.target.step in found:
            return True, np.array(self._column(found[self.target.step]))
        if self.together is not None:
            state = found.get(self.together, self.values[self.together])
            return False, np.array(self._column(state))
        if not self.operands <= {self.target.step}:
            scope = Changed(self.graph, found)
            block = self.rule.columns(scope, self.step.place, [self.target.column], self.wide)
            assert block is not None
            return True, block[:, 0]
        return True, np.array(self._column(np.asarray(self.step.value)))

    def _column(self, value: Array) -> Array:
        return value[:, self.target.column] if value.ndim == 2 else value

    def read(self, outcomes: Sequence[Outcome]) -> tuple[Array, Array | None]:
        """The target after each pass: its value, and its probability where it has one."""
        read: list[tuple[float, float]] = []
        for start in range(0, len(outcomes), TOGETHER):
            read += map(self._read, self._columns(outcomes[start : start + TOGETHER]))
        values, odds = (np.array(numbers) for numbers in zip(*read, strict=True))
        return values, odds if self.target.likelihood else None

    def _columns(self, outcomes: Sequence[Outcome]) -> Iterator[Array]:
        states = [array for ready, array in outcomes if not ready]
        if states:
            assert self.together is not None
            scope = Changed(self.graph, {self.together: np.stack(states, axis=1)})
            many = len(states)
            block = self.rule.columns(scope, self.step.place, [*range(many)], many)
            assert block is not None
            product = iter(block.T)
        for ready, array in outcomes:
            yield array if ready else next(product)

    def _read(self, column: Array) -> tuple[float, float]:
        cells = [(cell[0], weight) for cell, weight in self.target.cells]
        value = sum(weight * float(column[row]) for row, weight in cells)
        if not self.target.likelihood:
            return value, np.nan
        odds = softmax(np.asarray(column, np.float64))
        return value, float(sum(weight * odds[row] for row, weight in cells))


def replayed(trace: Trace, cuts: Collection[str], changed: Collection[str]) -> Steps:
    """The steps that depend on those ``changed``, with ``cuts`` at zero; all others are known."""
    assert trace.model is not None
    moved = trace.graph.dependents(changed)
    known = {name: trace[name] for name in trace if name not in moved}
    edit = {name: np.zeros_like for name in cuts if name in moved}
    with tracing(edit=edit, known=known) as steps:
        again(trace).run()
    return steps


def with_cuts(trace: Trace, cuts: Collection[str]) -> tuple[Trace, int]:
    """The same run with steps at zero, and how many of its steps were computed again."""
    for name in cuts:
        trace.graph.step(name)
    found = replayed(trace, cuts, cuts)
    anew, steps = {step.name: step for step in found}, Steps()
    for step in trace.steps:
        steps.append(anew.get(step.name, step))
    steps.passed, steps.called = dict(trace.steps.passed), set(trace.steps.called)
    steps.edited = trace.steps.edited | found.edited
    return trace.with_steps(steps), len(anew)


def each(tasks: Sequence[Callable[[], Outcome]], what: str, progress: Progress) -> list[Outcome]:
    """The outcomes of all tasks, one on each core, in their order."""
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(WORKERS) as pool:
        waiting = [pool.submit(copy_context().run, task) for task in tasks]
        try:
            found = []
            for done, future in enumerate(waiting, 1):
                found.append(future.result())
                progress(what, done, len(tasks))
            return found
        finally:
            pool.shutdown(cancel_futures=True)
