"""How a number of each equation is made: its operands, and the terms of its sum.

A rule stands beside its equation, in the paper's letters::

    rule=Sum("Phi[l].Pi.W_1 @ C_bar[l]|C[l]", "Phi[l].Pi.b_1", g="Phi[l].Pi.g")

``references`` says how operands are written. Nothing is computed until a number is asked for: a
trace is a graph at no cost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vesalius.equations.parameters import Array, Norm
from vesalius.equations.references import (
    ALL,
    Group,
    Index,
    Place,
    Pulled,
    Scope,
    Term,
    Values,
    View,
    constant,
    pair,
    placed,
    slope_from_zero,
    tokens_of,
)


@dataclass(frozen=True)
class Made:
    """A number as a sum of groups, and what is done to the sum."""

    groups: list[Group]
    outer: str = ""
    """The function of the sum; empty where the number is the sum itself."""
    apply: Callable[[float], float] = lambda total: total
    notes: Mapping[str, float] | None = None
    """What else takes part: mean and deviation of a normalisation, the sum of a softmax."""
    rivals: Array | None = None
    """The other sums that a softmax weighs this one against."""
    besides: tuple[int, float] = (0, 0.0)
    """How many numbers were summed besides the terms, as for a mean, and the sum of their sizes."""
    activation: Callable[[Any], Any] | None = None
    """The function of the sum, where it is one of a single number."""


@dataclass(frozen=True)
class Scale:
    """What a sum's first term is multiplied by: its name, and its value by the shape of the term's
    first operand."""

    name: str
    of: Callable[[tuple[int, ...]], float]


class Rule:
    """How the numbers of one equation are made."""

    terms: tuple[Term, ...] = ()
    sets: tuple[str, ...] = ()
    """Parameter sets that take part as a whole."""

    def operands(self, scope: Scope, place: Place, columns: int) -> list[str]:
        """The names of all operands, in the order of the formula."""
        found = {
            name: None
            for term in self.terms
            for reference in term.factors
            for name in reference.names(scope, place, columns)
        }
        for path in self.sets:
            where = placed(path, scope, place, 0)
            for letter in ("alpha", "beta", "mean", "variance"):
                if scope.find(f"{where}.{letter}") is not None:
                    found[f"{where}.{letter}"] = None
        return list(found)

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        """One number of the step's value, as a sum of its operands' numbers."""
        raise AssertionError("every rule says its own")

    def columns(self, scope: Scope, place: Place, columns: list[int], wide: int) -> Array | None:
        """The step's value at all rows of some columns; None where a rule is for single numbers."""
        return None

    def alike(self, scope: Scope, place: Place, wide: int) -> set[str]:
        """The operands of which a column of the step needs the same column, and no other."""
        return set()

    def pull(self, scope: Scope, place: Place, value: Values, G: Array) -> Pulled | None:
        """Which covectors of the operands give the same sum as ``G`` does of the value.

        Parameters, gates and statistics are held, and so is the slope of an activation from zero:
        with them the value is a sum. None where it is none, as that of a softmax.
        """
        return None


class Sum(Rule):
    """A sum of products and biases, perhaps through an activation ``g``, perhaps scaled."""

    def __init__(
        self,
        *terms: str,
        g: str | Callable[[Any], Any] | None = None,
        scale: Scale | None = None,
    ) -> None:
        self.terms, self.g, self.scale = tuple(map(Term, terms)), g, scale

    def activation(self, scope: Scope, place: Place) -> Callable[[Any], Any] | None:
        if isinstance(self.g, str):
            found: Callable[[Any], Any] | None = scope.constants(placed(self.g, scope, place, 0))
            return found
        return self.g

    def _scaled(self, groups: list[Group]) -> list[Group]:
        if self.scale is None:
            return groups
        first = groups[0].factors
        factor = constant(self.scale.name, self.scale.of(first[0][0].operand.array.shape))
        return [Group((*first, factor)), *groups[1:]]

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        groups = [g for t in self.terms for g in t.groups(scope, place, cell, _wide(value))]
        g = self.activation(scope, place)
        if g is None:
            return Made(self._scaled(groups))
        return Made(
            self._scaled(groups),
            g.__name__,
            lambda total: float(g(np.array([total]))[0]),
            activation=g,
        )

    def inner(self, scope: Scope, place: Place, columns: list[int], wide: int) -> Array:
        blocks = [term.block(scope, place, columns, wide) for term in self.terms]
        if self.scale is not None:
            first = self.terms[0].factors[0].resolve(scope, place, columns[0])
            assert first is not None
            blocks[0] = blocks[0] * self.scale.of(first.operand.array.shape)
        total = blocks[0]
        for block in blocks[1:]:
            total = total + block
        return np.asarray(total)

    def columns(self, scope: Scope, place: Place, columns: list[int], wide: int) -> Array:
        g = self.activation(scope, place)
        inner = self.inner(scope, place, columns, wide)
        return inner if g is None else np.asarray(g(inner))

    def alike(self, scope: Scope, place: Place, wide: int) -> set[str]:
        found = [term.alike(scope, place, wide) for term in self.terms]
        return set().union(*(alike for alike, _ in found)) - set().union(*(w for _, w in found))

    def pull(self, scope: Scope, place: Place, value: Values, G: Array) -> Pulled | None:
        pulled, wide = Pulled({}, {}), _wide(value)
        G = G.reshape(len(value), wide)
        g = self.activation(scope, place)
        if g is not None:
            inner = self.inner(scope, place, list(range(wide)), wide).astype(np.float64)
            G = G * slope_from_zero(g, inner)
        for k, term in enumerate(self.terms):
            scaled = G
            if self.scale is not None and k == 0:
                first = term.factors[0].resolve(scope, place, 0)
                assert first is not None
                scaled = G * self.scale.of(first.operand.array.shape)
            term.pull(pulled, scope, place, scaled, wide)
        return pulled


class Softmax(Sum):
    """The softmax of a sum, down a column, or along a row."""

    def __init__(
        self,
        *terms: str,
        by_row: bool = False,
        scale: Scale | None = None,
    ) -> None:
        super().__init__(*terms, scale=scale)
        self.by_row = by_row

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        r, c = pair(cell)
        wide = _wide(value)
        inner = super().inner(scope, place, list(range(wide)) if self.by_row else [c], wide)
        rivals = inner[r] if self.by_row else inner[:, 0]
        rivals = rivals.astype(np.float64)
        most = rivals.max()
        total = float(np.exp(rivals - most).sum())
        made = super().made(scope, place, cell, value)
        return Made(
            made.groups,
            "softmax",
            lambda z: float(np.exp(z - most)) / total,
            {"log of the sum": float(most + np.log(total))},
            rivals,
            besides=(len(rivals), abs(float(most))),
        )

    def pull(self, scope: Scope, place: Place, value: Values, G: Array) -> Pulled | None:
        return None

    def alike(self, scope: Scope, place: Place, wide: int) -> set[str]:
        return set() if self.by_row else super().alike(scope, place, wide)

    def columns(self, scope: Scope, place: Place, columns: list[int], wide: int) -> Array:
        wanted = list(range(wide)) if self.by_row else columns
        inner = super().inner(scope, place, wanted, wide)
        axis = 1 if self.by_row else 0
        e = np.exp(inner - inner.max(axis=axis, keepdims=True))
        share = np.divide(e, e.sum(axis=axis, keepdims=True, dtype=np.float64), dtype=e.dtype)
        return share[:, columns] if self.by_row else share


class Normalised(Sum):
    """A normalisation (35) of a sum, with the statistics that it had."""

    def __init__(self, Xi: str, *terms: str) -> None:
        super().__init__(*terms)
        self.sets = (Xi,)

    def statistics(
        self, scope: Scope, place: Place, columns: list[int], wide: int
    ) -> tuple[Norm, Array, Array, Array]:
        """The set, the sum, its mean and its deviation: a number a column, or a number a row."""
        Xi: Norm = scope.constants(placed(self.sets[0], scope, place, 0))
        x = super().inner(scope, place, columns, wide)
        x = x.astype(np.float64) if x.dtype != np.float64 else x
        if Xi.normalisation == "batch":
            assert Xi.mean is not None
            assert Xi.variance is not None
            return Xi, x, Xi.mean[:, None], np.sqrt(Xi.variance[:, None] + Xi.epsilon)
        centred = Xi.normalisation == "layer"
        mean = x.mean(axis=0, keepdims=True) if centred else np.zeros((1, x.shape[1]))
        square = ((x - mean) ** 2).mean(axis=0, keepdims=True)
        return Xi, x, mean, np.sqrt(square + Xi.epsilon)

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        r, c = pair(cell)
        Xi, x, means, deviations = self.statistics(scope, place, [c], _wide(value))
        mean = float(means[r % len(means), 0])
        deviation = float(deviations[r % len(deviations), 0])
        where = placed(self.sets[0], scope, place, 0)
        gain = scope.find(f"{where}.alpha")
        assert gain is not None
        factor = (View(gain, None, False, None), (r,))
        groups = [
            Group((*g.factors, factor, constant("1/σ", 1 / deviation)))
            for g in super().made(scope, place, cell, value).groups
        ]
        notes = {"deviation": deviation}
        if Xi.beta is not None:
            shift = constant("the mean", mean)
            groups.append(Group((shift, factor, constant("−1/σ", -1 / deviation))))
            bias = scope.find(f"{where}.beta")
            assert bias is not None
            groups.append(Group(((View(bias, None, False, None), (r,)),)))
            notes = {"mean": mean, **notes}
        size = abs(float(gain.array[r])) * float(np.abs(x).mean()) / deviation
        return Made(groups, notes=notes, besides=(len(x), size))

    def pull(self, scope: Scope, place: Place, value: Values, G: Array) -> Pulled | None:
        wide = _wide(value)
        G = G.reshape(len(value), wide)
        Xi, _, mean, deviation = self.statistics(scope, place, list(range(wide)), wide)
        slope = G * Xi.alpha[:, None].astype(np.float64) / deviation
        constants: dict[str, float] = {}
        where = placed(self.sets[0], scope, place, 0)
        if Xi.beta is not None:
            constants[f"{where}.beta"] = float((G * Xi.beta[:, None]).sum())
        if Xi.normalisation == "batch":
            constants[f"{where}.mean"] = -float((slope * mean).sum())
        elif Xi.normalisation == "layer":  # the mean is a sum of the same column
            slope = slope - slope.mean(axis=0, keepdims=True)
        pulled = super().pull(scope, place, value, slope)
        assert pulled is not None
        pulled.constants |= constants
        return pulled

    def columns(self, scope: Scope, place: Place, columns: list[int], wide: int) -> Array:
        Xi, x, mean, deviation = self.statistics(scope, place, columns, wide)
        y = Xi.alpha[:, None] * (x - mean) / deviation
        return y if Xi.beta is None else y + Xi.beta[:, None]


class Lookup(Rule):
    """Columns of a matrix, chosen by the tokens."""

    def __init__(self, matrix: str) -> None:
        self.terms = (Term(matrix),)

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        r, c = pair(cell)
        view = self.terms[0].factors[0].resolve(scope, place, c)
        ids = scope.find("Omega")
        assert view is not None
        assert ids is not None
        token = int(ids.array[c])
        return Made([Group(((view, view.index(r, token)),))], notes={"token": token})

    def columns(self, scope: Scope, place: Place, columns: list[int], wide: int) -> Array:
        view, ids = self.terms[0].factors[0].resolve(scope, place, 0), scope.find("Omega")
        assert view is not None
        assert ids is not None
        chosen: Array = view.matrix()[:, ids.array[columns]]
        return chosen


class Given(Rule):
    """What no other value leads to: a mask, the input."""

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        number = np.atleast_1d(np.asarray(value, dtype=np.float64)[cell])
        return Made([Group((constant("given", float(number[0])),))])


class Joined(Rule):
    """A first column, and then those of a matrix."""

    def __init__(self, first: str, rest: str) -> None:
        self.terms = (Term(first), Term(rest))

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        r, c = pair(cell)
        which, column = (0, 0) if c == 0 else (1, c - 1)
        view = self.terms[which].factors[0].resolve(scope, place, c)
        assert view is not None
        return Made([Group(((view, view.index(r, column)),))])


class Flattened(Rule):
    """All columns of a matrix in one vector; padding, where there is any, counts for nothing."""

    def __init__(self, matrix: str) -> None:
        self.terms = (Term(matrix),)

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        view = self.terms[0].factors[0].resolve(scope, place, 0)
        assert view is not None
        column, row = divmod(pair(cell)[0], view.matrix().shape[0])
        factors = [(view, view.index(row, column))]
        if not self._real(scope, column + 1)[column]:
            factors.append(constant("0 for padding", 0.0))
        return Made([Group(tuple(factors))])

    def _real(self, scope: Scope, n: int) -> Array:
        """1 for each column that is no padding, which the mask keeps from being attended to."""
        mask = scope.find("S")
        padding = np.zeros(n) if mask is None else np.isneginf(mask.array).all(axis=0)
        return np.asarray(1.0 - padding)

    def pull(self, scope: Scope, place: Place, value: Values, G: Array) -> Pulled | None:
        view = self.terms[0].factors[0].resolve(scope, place, 0)
        assert view is not None
        columns: Array = G.reshape(view.matrix().shape, order="F")
        pulled = Pulled({}, {})
        pulled.add(view, columns * self._real(scope, columns.shape[1]))
        return pulled


class Mean(Rule):
    """The mean of all columns: of a matrix, or of vectors that are a step for each token."""

    def __init__(self, columns: str) -> None:
        self.terms = (Term(columns),)

    def _views(self, scope: Scope, place: Place) -> tuple[list[View], int]:
        """What is averaged, and over how many columns."""
        n, reference = tokens_of(scope), self.terms[0].factors[0]
        first = reference.resolve(scope, place, 0)
        assert first is not None
        if not first.by_column:
            return [first], n
        views = (reference.resolve(scope, place, c) for c in range(n))
        return [view for view in views if view is not None], n

    def operands(self, scope: Scope, place: Place, columns: int) -> list[str]:
        return [view.operand.name for view in self._views(scope, place)[0]]

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        views, n = self._views(scope, place)
        row = pair(cell)[0]
        share = constant("1/n", 1 / n)
        return Made([Group(((view, view.index(row, ALL)), share)) for view in views])

    def columns(self, scope: Scope, place: Place, columns: list[int], wide: int) -> Array:
        views, n = self._views(scope, place)
        total = sum(np.asarray(view.matrix()[:, :]).sum(axis=1) for view in views)
        return np.asarray(total / n)[:, None]

    def pull(self, scope: Scope, place: Place, value: Values, G: Array) -> Pulled | None:
        views, n = self._views(scope, place)
        pulled, share = Pulled({}, {}), G.reshape(-1, 1) / n
        for view in views:
            pulled.add(view, np.broadcast_to(share, view.matrix().shape))
        return pulled


def _wide(value: Values) -> int:
    return value.shape[1] if value.ndim > 1 else 1
