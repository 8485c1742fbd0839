"""The trace as a graph: what each step is made of, and what depends on it.

Edges follow from the equations' rules and are worked out when they are asked for; a trace that was
saved brings the names of its own.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vesalius.equations import Step, Steps
from vesalius.equations.parameters import Array
from vesalius.equations.references import SEGMENTS, Operand
from vesalius.equations.rules import Rule
from vesalius.errors import UnknownStep, WrongKind, nearest
from vesalius.machine.cancellation import check
from vesalius.machine.properties import cached_property
from vesalius.model import Model


class Graph:
    """The operands of a trace's steps; where the rules look their references up."""

    def __init__(
        self,
        steps: Steps,
        model: Model | None,
        layers: int,
        given: Array | None = None,
        saved: Mapping[str, Sequence[str]] | None = None,
        segments: Sequence[int] | None = None,
    ) -> None:
        self.steps, self.model, self.layers = steps, model, layers
        self.given = given
        """What the model read: token ids, or the values of an image or series."""
        self.segments = segments
        """Which of two texts each token belongs to; the first, if there is one."""
        self.saved = saved
        """Edges that came from a file."""

    @cached_property
    def _steps(self) -> dict[str, Step]:
        return {step.name: step for step in self.steps}

    def step(self, name: str) -> Step:
        if name not in self._steps:
            raise UnknownStep(f"no step {name!r} was recorded; {nearest(name, self._steps)}")
        return self._steps[name]

    def rule(self, step: Step) -> Rule:
        """The rule of a step's symbol."""
        check()
        equation = step.equation
        if not equation.rules:
            raise UnknownStep(f"{step.name} cannot be unfolded: {equation.name} has no rule")
        return equation.rules[equation.gives.index(step.symbol)]

    def find(self, name: str) -> Operand | None:
        if name in self._steps:
            return Operand("step", name, arrayed(self._steps[name].value))
        if name in self.steps.passed:
            raise UnknownStep(f"this needs {name}, which was not recorded; record all steps")
        if name == "Omega" and self.given is not None:
            return Operand("input", name, self.given)
        if name == SEGMENTS and self.given is not None:
            segments = [0] * len(self.given) if self.segments is None else self.segments
            return Operand("input", name, np.asarray(segments))
        value = self._held(name)
        return Operand("parameter", name, value) if isinstance(value, np.ndarray) else None

    def constants(self, name: str) -> Any:
        return self._held(name)

    def _held(self, path: str) -> Any:
        """What the parameter set has at a path such as ``Phi[3].Gamma.Psi[2].W_Q``, or None."""
        if self.model is None:
            raise WrongKind(
                "a trace read from a file has no parameters; say which model made it: "
                "read_trace(file, model=...)"
            )
        value: Any = self.model.parameters
        for part in path.split("."):
            match = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", part)
            value = getattr(value, match[1], None) if match else None
            if match and match[2] and value is not None:
                l = int(match[2])
                value = value[l - 1] if 1 <= l <= len(value) else None
        return value

    def operands(self, name: str) -> list[str]:
        """The names of what a step is made of: steps, then paths of parameters, as written."""
        step = self.step(name)
        if self.saved is not None:
            return list(self.saved[name])
        wide = step.shape[1] if len(step.shape) > 1 else 1
        return self.rule(step).operands(self, step.place, wide)

    def dependents(self, names: Collection[str]) -> set[str]:
        """The steps that would change with any of these, which are among them.

        A step whose equation has no rule may depend on all that came before it.
        """
        changed, reached = set(names), False
        for step in self.steps:
            known = bool(step.equation.rules) or self.saved is not None
            if not changed.isdisjoint(self.edges[step.name]) or (reached and not known):
                changed.add(step.name)
            reached = reached or step.name in changed
        return changed

    @cached_property
    def edges(self) -> dict[str, list[str]]:
        """Every step with its operands; none where its equation has no rule."""
        return {
            name: self.operands(name) if step.equation.rules or self.saved is not None else []
            for name, step in self._steps.items()
        }

    def sources(self, names: Iterable[str]) -> set[str]:
        """The steps that these are made of, at one remove or more."""
        found: set[str] = set()
        waiting = [name for name in names if name in self._steps]
        while waiting:
            for name in self.edges[waiting.pop()]:
                if name in self._steps and name not in found:
                    found.add(name)
                    waiting.append(name)
        return found


def arrayed(value: Any) -> Any:
    """A value as an array; one whose columns are computed when asked for stays what it is."""
    return value if hasattr(value, "ndim") else np.asarray(value)
