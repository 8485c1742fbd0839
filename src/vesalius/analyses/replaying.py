"""Forward passes of which only what follows a change is computed again.

All other steps are taken from a trace; the pass ends where the target can be read, and the target
is read at its own column, for many passes in one product.
"""

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from vesalius.analyses.targets import Target
from vesalius.arguments import Progress
from vesalius.equations import Steps, softmax, tracing
from vesalius.equations.parameters import Array
from vesalius.equations.references import Operand, Scope
from vesalius.machine import parallel_map
from vesalius.traces.dissection import Reading, again
from vesalius.traces.edits import Edits, notation
from vesalius.traces.edits.selection import chosen
from vesalius.traces.edits.values import Edit
from vesalius.traces.trace import Trace

Change = Mapping[str, Array]
"""Values that take the place of a trace's, by the names of their steps."""
Outcome = tuple[bool, Array]
"""Whether the target's column is there, and it; else the state that it is to be read from."""
BATCH = 256
"""Passes whose targets are read in one product: their logits take memory."""


class Changed:
    """A scope in which some steps have other values, and which knows what it was asked for.

    ``make`` is asked for steps whose values it does not have, and may leave them as they are.
    """

    def __init__(
        self,
        scope: Scope,
        values: Change,
        make: Callable[["Changed", str], Array | None] = lambda scope, name: None,
    ) -> None:
        self.scope, self.values, self.make = scope, dict(values), make
        self.asked: dict[str, Operand] = {}

    @property
    def layers(self) -> int:
        return self.scope.layers

    def find(self, name: str) -> Operand | None:
        found = self.scope.find(name)
        if found is None or found.kind != "step":
            return found
        if name not in self.values and (made := self.make(self, name)) is not None:
            self.values[name] = made
        self.asked[name] = Operand("step", name, self.values.get(name, found.array))
        return self.asked[name]

    def constants(self, name: str) -> Any:
        return self.scope.constants(name)


class Replay:
    """The target of a trace, after changes of its steps.

    Behind the last step in which tokens meet, only the target's column is computed.
    """

    def __init__(self, reading: Reading, trace: Trace, target: Target) -> None:
        self.reading, self.trace, self.target = reading, trace, target
        self.values = {step.name: np.asarray(step.value) for step in trace.steps}
        self.graph, self.step = trace.graph, trace.graph.step(target.step)
        value = self.values[target.step]
        self.wide = value.shape[1] if value.ndim == 2 else 1
        self.clean: dict[str, Array] = {}
        """The target's columns as rules make them of the trace, to be subtracted again."""
        asked = self._asked()
        whole = {name for names in asked.values() for name, alike in names.items() if not alike}
        self.single = set(asked) - whole - self.graph.sources(whole)
        """The steps of which the target's column alone is computed."""
        self.awaited = {name for one in self.single for name in asked[one]} - self.single
        """The steps that a pass ends with: what those are made of, or the target."""
        if not self.single:
            self.awaited = {target.step}
        self.together = self._last_state(list(asked.get(target.step, ())))
        assert self.graph.edges, "worked out before threads ask for it"

    def _asked(self) -> dict[str, dict[str, bool]]:
        """The steps whose columns rules can make one by one, from the target down.

        Each has the steps that its column is made of, and whether of the same column alone.
        """
        found: dict[str, dict[str, bool]] = {}
        waiting = [self.target.step]
        while waiting:
            step, scope = self.graph.step(waiting.pop()), Changed(self.graph, {})
            if step.name in found or (column := self._made(scope, step.name)) is None:
                continue
            self.clean[step.name] = column[:, 0]
            alike = self.graph.rule(step).alike(self.graph, step.place, self.wide)
            found[step.name] = {name: name in alike for name in scope.asked}
            waiting += alike & set(scope.asked)
        return found

    def _made(self, scope: Changed, name: str) -> Array | None:
        """The target's column of a step; None where its rule is for single numbers, or empty."""
        step = self.graph.step(name)
        rule = self.graph.rule(step)
        column = rule.columns(scope, step.place, [self.target.column], self.wide)
        return column if column is not None and column.ndim == 2 else None

    def _last_state(self, operands: list[str]) -> str | None:
        """The step from which one product reads many targets, if there is such a step."""
        if len(operands) != 1 or self.values[self.target.step].ndim != 2:
            return None
        return operands[0] if self.values[operands[0]].shape[1:] == (self.wide,) else None

    def steps(self, change: Change, moved: set[str]) -> dict[str, Array]:
        """What a change makes of the awaited steps; steps that it does not reach are left out."""
        found = dict(change)
        if wanted := self.awaited & moved - set(change):
            known = {name: value for name, value in self.values.items() if name not in moved}
            known.update(change)
            with tracing(only=wanted, known=known, until=wanted) as steps:
                self.reading.run()
            found.update((step.name, step.value) for step in steps)
        return found

    def outcome(self, change: Change) -> Outcome:
        """What ``read`` needs to know of a pass after a change."""
        moved = self.graph.dependents(change)

        def make(scope: Changed, name: str) -> Array | None:
            if name not in moved or name not in self.single:
                return None
            column, stored = self._made(scope, name), self._column(self.values[name])
            assert column is not None
            change = column[:, 0] - self.clean[name]  # nothing where its operands are the same
            whole = np.full((len(column), self.wide), np.nan, column.dtype)
            whole[:, self.target.column] = stored + change
            return whole[:, 0] if self.values[name].ndim == 1 else whole

        scope = Changed(self.graph, self.steps(change, moved), make)
        wanted = self.together or self.target.step
        if self.target.step in change:
            wanted = self.target.step
        found = scope.find(wanted)
        assert found is not None
        column = np.array(self._column(found.array))
        if np.array_equal(column, self._column(self.values[wanted])):
            # as the trace has it: another product may round it otherwise
            return True, np.array(self._column(self.values[self.target.step]))
        return wanted == self.target.step, column

    def _column(self, value: Array) -> Array:
        return value[:, self.target.column] if value.ndim == 2 else value

    def read(self, outcomes: Sequence[Outcome]) -> tuple[Array, Array | None]:
        """The target after each pass: its value, and its probability where it has one."""
        read: list[tuple[float, float]] = []
        for start in range(0, len(outcomes), BATCH):
            read += map(self._read, self._columns(outcomes[start : start + BATCH]))
        values, odds = (np.array(numbers) for numbers in zip(*read, strict=True))
        return values, odds if self.target.likelihood else None

    def _columns(self, outcomes: Sequence[Outcome]) -> Iterator[Array]:
        states = [array for ready, array in outcomes if not ready]
        if states:
            assert self.together is not None
            scope = Changed(self.graph, {self.together: np.stack(states, axis=1)})
            many = len(states)
            rule = self.graph.rule(self.step)
            block = rule.columns(scope, self.step.place, [*range(many)], many)
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


def replayed(
    trace: Trace,
    cuts: Collection[str],
    changed: Collection[str],
    patches: Mapping[str, Edit] = MappingProxyType({}),
) -> Steps:
    """The steps that depend on the cuts ``changed``, with all ``cuts`` made; all others are known.

    Cuts are as ``edits.notation`` reads them: whole steps, or cells of some, at zero by default.
    ``patches`` are edits of other kinds, by their steps. The trace's own edits, a mask among
    them, come before.
    """
    assert trace.model is not None
    reading = again(trace)
    moved = trace.graph.dependents(_meant(trace, notation.read(changed), reading.length))
    known = {name: trace[name] for name in trace if name not in moved}
    edit = {
        steps: value
        for steps, value in {**trace.edits, **notation.read(cuts), **patches}.items()
        if not moved.isdisjoint(_meant(trace, [steps], reading.length))
    }
    with tracing(edit=Edits(edit, reading.length, reading.of_another), known=known) as found:
        reading.run()
    return found


def _meant(trace: Trace, edits: Iterable[str], n: int) -> set[str]:
    """The steps that edits are about; most name a single one."""
    edits, names = list(edits), set(trace)
    single = {steps for steps in edits if "[" in steps and steps in names}
    others = (steps for steps in edits if steps not in single)
    return single | {s.name for steps in others for s, _ in chosen([steps], trace.steps, n)}


def with_cuts(
    trace: Trace, cuts: Collection[str], patches: Mapping[str, Edit] = MappingProxyType({})
) -> tuple[Trace, int]:
    """The same run with cuts and patches, and how many of its steps were computed again."""
    found = replayed(trace, cuts, [*cuts, *patches], patches)
    anew, steps = {step.name: step for step in found}, Steps()
    for step in trace.steps:
        steps.append(anew.get(step.name, step))
    steps.passed, steps.called = dict(trace.steps.passed), set(trace.steps.called)
    steps.edited = trace.steps.edited | found.edited
    return trace.with_steps(steps), len(anew)


def each(tasks: Sequence[Callable[[], Outcome]], what: str, progress: Progress) -> list[Outcome]:
    """The outcomes of all tasks, in their order.

    Each thread has products of one core, because most of a pass lies between products.
    """
    found = []
    with threadpool_limits(1, user_api="blas"):
        for outcome in parallel_map(operator.call, tasks):
            found.append(outcome)
            progress(what, len(found), len(tasks))
    return found
