"""A run with steps cut: only what depends on them is computed again, to the last bit."""

from collections.abc import Collection

import numpy as np

from vesalius.dissection import Trace
from vesalius.equations import OneHot, Steps
from vesalius.equations.parameters import Array
from vesalius.equations.tracing import tracing
from vesalius.errors import UnknownStep, nearest
from vesalius.families import family_of


def cut(value: Array) -> Array:
    """Zeros in the place of a value, which is known as ablation."""
    return 0 * value


def replay(trace: Trace, cuts: Collection[str], changed: Collection[str]) -> Steps:
    """The steps that depend on those ``changed``, with ``cuts`` in force; all others are known."""
    assert trace.model is not None
    model = trace.model
    again = trace.graph.dependents(changed)
    known = {name: trace[name] for name in trace if name not in again}
    edit = {name: cut for name in cuts if name in again}
    given = OneHot(trace.ids, model.parameters.E.shape[1])
    with tracing(edit=edit, known=known) as steps:
        family_of(model.config).run(model.parameters, given, model.config.symbols())
    return steps


def with_cuts(trace: Trace, cuts: Collection[str]) -> tuple[Trace, int]:
    """The same run with steps at zero, and how many of its steps were computed again."""
    for name in cuts:
        if name not in trace:
            raise UnknownStep(f"no step {name!r} can be cut; {nearest(name, trace)}")
    found = replay(trace, cuts, cuts)
    again = {step.name: step for step in found}
    steps = Steps()
    for step in trace.steps:
        steps.append(again.get(step.name, step))
    steps.passed, steps.called = dict(trace.steps.passed), set(trace.steps.called)
    steps.edited = found.edited
    layers, given = trace.graph.layers, np.asarray(trace.ids)
    return Trace(trace.model, trace.ids, steps, trace.family, layers=layers, given=given), len(
        again
    )
