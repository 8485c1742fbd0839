"""How a number was made: the terms of its sum, the largest first, each with its operands.

``unfold(trace, "mu[3,4]", 2, 1)`` takes apart what ``trace["mu[3,4]"][2, 1]`` is. Every recorded
step has a rule for it, written beside its equation.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from vesalius import arguments
from vesalius.analyses import rounding
from vesalius.checkpoints.locations import Location
from vesalius.equations import Equation
from vesalius.equations.references import Group, Index, Operand
from vesalius.equations.rules import Made
from vesalius.errors import WrongLength
from vesalius.traces.graph import arrayed
from vesalius.traces.trace import Trace, require_trace
from vesalius.views.shown import Part, Shown, Table

SHOWN = 12
"""Terms that are told one by one."""
DRAWN = 49
"""Points of a curve, of which one stands at zero."""
REACH = 4.0
"""How far a curve goes to both sides of zero, at least."""


@dataclass(frozen=True)
class Factor:
    """One number that a term is made of, and where it stands."""

    kind: str
    """"step", "parameter", "input" or "constant"."""
    name: str
    at: tuple[int, ...]
    value: float
    """As it stands there, before the function."""
    location: Location | None = None
    """Of a parameter: where it stands in the model's file, if it came from one."""
    function: str = ""
    """What the term takes of the number, with a dot in its place, as ``tanh(·)``; or nothing."""

    def __str__(self) -> str:
        if self.kind == "constant":
            return self.name
        return self.through(f"{self.name}({', '.join(map(str, self.at))})")

    def through(self, text: str) -> str:
        """The text, inside the function if there is one."""
        return self.function.replace("·", text) if self.function else text

    def to_json(self) -> dict[str, Any]:
        location = None if self.location is None else self.location.to_json()
        told = {"kind": self.kind, "name": self.name, "at": list(self.at), "value": self.value}
        return {**told, "location": location, "function": self.function}


@dataclass(frozen=True)
class Term:
    """One term of a sum: a product of numbers."""

    value: float
    factors: tuple[Factor, ...]

    def __str__(self) -> str:
        return " · ".join(map(str, self.factors))

    def to_json(self) -> dict[str, Any]:
        factors = [factor.to_json() for factor in self.factors]
        return {"value": self.value, "factors": factors}


@dataclass(frozen=True)
class Curve:
    """An activation around the sum that it was applied to, as one draws it."""

    reach: float
    """The values are those at sums from −reach to reach, evenly."""
    values: list[float]

    @classmethod
    def of(cls, made: Made, total: float) -> Self | None:
        if made.activation is None or not math.isfinite(total):
            return None
        reach = max(REACH, 1.1 * abs(total))
        values = made.activation(np.linspace(-reach, reach, DRAWN))
        return cls(reach, np.round(values, 4).tolist())

    def to_json(self) -> dict[str, Any]:
        return {"reach": self.reach, "values": self.values}


@dataclass(frozen=True)
class Unfolding(Shown):
    """A number with the terms that it is the sum of, or a function of the sum."""

    step: str
    at: tuple[int, ...]
    equation: Equation
    formula: str
    """The equation as it is written for this model, in plain characters."""
    value: float
    """What the trace holds."""
    terms: list[Term]
    """The largest by size, in this order."""
    others: int
    """How many terms are not among them."""
    rest: float
    """Their sum."""
    bound: float
    """How far rounding alone can bring what the terms give from the stored value."""
    outer: str
    """The function of the sum, or nothing."""
    computed: float
    """The sum of all terms, through the function."""
    notes: dict[str, float]
    rivals: list[tuple[int, float]]
    """Of a softmax: where the largest sums stand that this one is weighed against."""
    curve: Curve | None
    """Of an activation."""
    edited: bool
    """Whether the value was replaced on the way, so that its terms do not make it."""

    @property
    def total(self) -> float:
        return math.fsum([*(term.value for term in self.terms), self.rest])

    @property
    def difference(self) -> float:
        """The sum of the terms, through the function, minus the stored value."""
        return 0.0 if self.computed == self.value else self.computed - self.value

    @property
    def agrees(self) -> bool:
        """Whether the terms make the stored value, but for rounding."""
        return rounding.agrees(self.difference, self.bound)

    @property
    def count(self) -> int:
        return len(self.terms) + self.others

    def __repr__(self) -> str:
        terms = ", ".join(f"{term} {term.value:+.4g}" for term in self.terms[:3])
        return f"{self._headline()}\n  {self.count} terms: {terms}{' …' if self.count > 3 else ''}"

    def _headline(self) -> str:
        cell = ", ".join(map(str, self.at))
        return f"{self.step}({cell}) = {self.value:.6g}   {self.equation.label}"

    def view(self) -> Iterator[Part]:
        yield self._headline()
        yield f"{self.equation.title}: {self.formula}"
        rows = [(f"{t.value:+.6g}", str(t), _product(t)) for t in self.terms]
        if self.others:
            rows.append((f"{self.rest:+.6g}", f"{self.others:,} others", ""))
        yield Table(("term", "of", "numbers"), rows, right=(0,))
        function = f"; {self.outer} of it is {self.computed:.6g}" if self.outer else ""
        if self.edited:
            yield f"sum {self.total:.6g}{function}"
            yield "This value was replaced on the way: it is not the sum of these terms."
        else:
            verdict = rounding.verdict(self.difference, self.bound)
            yield f"sum {self.total:.6g}{function}; {verdict}"
        weights = [f.location for t in self.terms for f in t.factors if f.location is not None]
        if weights:
            yield f"the first weight is {weights[0]}"
        for name, number in self.notes.items():
            yield f"{name}: {number:.6g}"
        if self.rivals:
            told = ", ".join(f"{where}: {number:.4g}" for where, number in self.rivals)
            yield f"largest sums under the softmax, by place: {told}"

    def to_json(self) -> dict[str, Any]:
        """The number, its terms with their operands, and what they leave unexplained."""
        return {
            "step": self.step,
            "at": list(self.at),
            "equation": self.equation.name,
            "value": self.value,
            "terms": [term.to_json() for term in self.terms],
            "others": self.others,
            "rest": self.rest,
            "sum": self.total,
            "outer": self.outer,
            "computed": self.computed,
            "difference": self.difference,
            "bound": self.bound,
            "agrees": self.agrees,
            "notes": self.notes,
            "rivals": [{"at": at, "sum": number} for at, number in self.rivals],
            "curve": None if self.curve is None else self.curve.to_json(),
            "edited": self.edited,
        }


def unfold(trace: Trace, step: str, *at: int, top: int = SHOWN) -> Unfolding:
    """How the number at a cell of a step was made, ``at`` counted from zero.

    The ``top`` largest terms are told with their operands, the others as one sum.
    """
    require_trace(trace)
    top = arguments.whole("top", top, least=0)
    found = trace.graph.step(step)
    value = arrayed(found.value)
    cell = _cell(step, value.shape, at)
    made = trace.graph.rule(found).made(trace.graph, found.place, cell, value)
    values = [group.values() for group in made.groups]
    flat = np.concatenate(values) if values else np.zeros(0)
    order = np.argsort(-np.abs(flat), kind="stable")[:top]
    starts = np.cumsum([0, *map(len, values)])
    terms = [_term(trace, made, int(k), starts, float(flat[k])) for k in order]
    with np.errstate(invalid="ignore"):
        total = math.fsum(flat) if np.isfinite(flat).all() else float(flat.sum())
        left = np.delete(flat, order)
        rest = math.fsum(left) if np.isfinite(left).all() else float(left.sum())
    rivals = []
    if made.rivals is not None:
        best = np.argsort(-made.rivals, kind="stable")[:3]
        rivals = [(int(k), float(made.rivals[k])) for k in best]
    stored, computed = float(value[cell]), made.apply(total)
    most = _bound(made, flat, total, rounding.precision(value), stored)
    replaced = step in trace.steps.edited and not (
        computed == stored or rounding.agrees(computed - stored, most)
    )
    symbols = {} if trace.model is None else trace.model.config.symbols()
    return Unfolding(
        step=step,
        at=cell,
        equation=found.equation,
        formula=found.equation.written_for(symbols).plain,
        value=stored,
        terms=terms,
        others=len(flat) - len(terms),
        rest=rest,
        bound=most,
        outer=made.outer,
        computed=computed,
        notes=dict(made.notes or {}),
        rivals=rivals,
        curve=Curve.of(made, total),
        edited=replaced,
    )


def _bound(made: Made, terms: Any, total: float, epsilon: float, value: float) -> float:
    """The bound of the sum, and what the function makes of it."""
    count, size = made.besides
    most = rounding.bound(max(len(terms), count), float(np.abs(terms).sum()) + size, epsilon)
    if not made.outer or not math.isfinite(total):
        return most
    # A softmax divides by a sum of such exponentials: twice the bound covers both.
    ends = (made.apply(total - 2 * most), made.apply(total + 2 * most))
    through = max(abs(end - made.apply(total)) for end in ends)
    return through + rounding.bound(max(1, count), abs(value), epsilon)


def _cell(step: str, shape: tuple[int, ...], at: tuple[Any, ...]) -> tuple[int, ...]:
    """A cell that there is; a vector's may have a column 0, as on a page."""
    numbers = tuple(arguments.whole("a cell's index", k) for k in at)
    if len(numbers) == 2 and len(shape) == 1 and numbers[1] == 0:
        numbers = numbers[:1]
    if len(numbers) != len(shape) or not all(
        -n <= k < n for k, n in zip(numbers, shape, strict=True)
    ):
        wanted = " x ".join(map(str, shape))
        raise WrongLength(
            f"{step} is {wanted}; expected {len(shape)} indices below these, counted from 0, "
            f"got {', '.join(map(str, at)) or 'none'}"
        )
    return tuple(k % n for k, n in zip(numbers, shape, strict=True))


def _term(trace: Trace, made: Made, k: int, starts: Any, value: float) -> Term:
    which = int(np.searchsorted(starts, k, side="right")) - 1
    group: Group = made.groups[which]
    k -= int(starts[which])
    factors = []
    for view, index in group.factors:
        at = _at(view.operand, index, k)
        kind, name, number = view.operand.kind, view.operand.name, float(view.operand.array[at])
        model = trace.model if kind == "parameter" else None
        location = None if model is None else model.locate(name, at)
        function = "" if view.function is None else view.function.written
        factors.append(Factor(kind, name, at, number, location, function))
    return Term(value, tuple(factors))


def _at(operand: Operand, index: Index, k: int) -> tuple[int, ...]:
    """The cell of the k-th term."""
    return tuple(
        range(*i.indices(n))[k] if isinstance(i, slice) else int(i)
        for i, n in zip(index, operand.array.shape, strict=True)
    )


def _product(term: Term) -> str:
    return " · ".join(factor.through(f"{factor.value:.4g}") for factor in term.factors)
