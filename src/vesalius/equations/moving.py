"""Rules of equations that move numbers, or shift and scale them by row, as PatchTST's do."""

import math

import numpy as np

from vesalius.equations.parameters import Array
from vesalius.equations.references import (
    ALL,
    Function,
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
)
from vesalius.equations.rules import Made, Rule


def _view(term: Term, scope: Scope, place: Place) -> View:
    found = term.factors[0].resolve(scope, place, 0)
    assert found is not None, f"there is no {term.text}"
    return found


class Mean(Rule):
    """The mean of every row."""

    def __init__(self, matrix: str) -> None:
        self.terms = (Term(matrix),)

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        view = _view(self.terms[0], scope, place)
        share = constant("1/τ", 1 / view.operand.array.shape[1])
        return Made([Group(((view, (pair(cell)[0], ALL)), share))])


class Deviation(Rule):
    """The root of every row's mean squared distance from its mean, ε added."""

    def __init__(self, matrix: str, mean: str, epsilon: str) -> None:
        self.terms, self.epsilon = (Term(matrix), Term(mean)), epsilon

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        row = pair(cell)[0]
        matrix, mean = (_view(term, scope, place) for term in self.terms)
        mu, epsilon = float(mean.operand.array[row]), float(scope.constants(self.epsilon))

        def square(x: Array) -> Array:
            return (x - mu) ** 2

        view = View(matrix.operand, None, False, Function("(· − μ)²", square))
        share = constant("1/τ", 1 / matrix.operand.array.shape[1])
        squares = Group(((view, (row, ALL)), share))
        notes = {"mean": mu, "epsilon": epsilon}
        return Made([squares], "root", lambda total: math.sqrt(total + epsilon), notes)


class Standardised(Rule):
    """A matrix, perhaps transposed, minus a number for each row, divided by another."""

    def __init__(self, matrix: str, shift: str, divisor: str) -> None:
        self.terms = (Term(matrix), Term(shift), Term(divisor))

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        r, c = pair(cell)
        x, shift, divisor = (_view(term, scope, place) for term in self.terms)
        by = 1 / float(divisor.operand.array[r])
        name = divisor.operand.name
        groups = [
            Group(((x, x.index(r, c)), constant(f"1/{name}({r})", by))),
            Group(((shift, (r,)), constant(f"−1/{name}({r})", -by))),
        ]
        return Made(groups, notes={"divisor": 1 / by})

    def pull(self, scope: Scope, place: Place, value: Values, G: Array) -> Pulled | None:
        x, shift, divisor = (_view(term, scope, place) for term in self.terms)
        slope = G / divisor.operand.array[:, None].astype(np.float64)
        pulled = Pulled({}, {})
        pulled.add(x, slope)
        pulled.add(shift, -slope.sum(axis=1, keepdims=True))
        return pulled


class Moved(Rule):
    """Every number is one of another matrix, which stands elsewhere there."""

    def __init__(self, matrix: str) -> None:
        self.terms = (Term(matrix),)

    def from_where(
        self, scope: Scope, shape: tuple[int, ...], there: tuple[int, ...]
    ) -> tuple[Array, Array]:
        """For each cell of the result, of which row and column of the other matrix it is."""
        raise AssertionError("every move says its own")

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        view = _view(self.terms[0], scope, place)
        rows, columns = self.from_where(scope, value.shape, view.operand.array.shape)
        at = pair(cell)
        return Made([Group(((view, (int(rows[at]), int(columns[at]))),))])

    def pull(self, scope: Scope, place: Place, value: Values, G: Array) -> Pulled | None:
        view = _view(self.terms[0], scope, place)
        there = view.operand.array.shape
        whole = np.zeros(there)
        np.add.at(whole, self.from_where(scope, value.shape, there), G)
        pulled = Pulled({}, {})
        pulled.add(view, whole)
        return pulled


class Cut(Moved):
    """Patches of all channels side by side; beyond the end, the last value is repeated."""

    def from_where(
        self, scope: Scope, shape: tuple[int, ...], there: tuple[int, ...]
    ) -> tuple[Array, Array]:
        P, columns = shape
        C, tau = there
        many, stride = columns // C, int(scope.constants("s"))
        channel, patch = np.divmod(np.arange(columns), many)
        times = patch * stride + np.arange(P)[:, None]
        if not scope.constants("pad"):  # the oldest values are left out
            times = times + tau - (P + stride * (many - 1))
        return np.broadcast_to(channel, shape), np.minimum(times, tau - 1)


class Folded(Moved):
    """The columns of each channel in one vector, a column for each channel."""

    def from_where(
        self, scope: Scope, shape: tuple[int, ...], there: tuple[int, ...]
    ) -> tuple[Array, Array]:
        d_e, columns = there
        patch, row = np.divmod(np.arange(shape[0]), d_e)
        channel = np.arange(shape[1]) * (columns // shape[1])
        return np.broadcast_to(row[:, None], shape), patch[:, None] + channel


class Placed(Rule):
    """A matrix with positions added, which begin anew with every channel."""

    def __init__(self, positions: str, matrix: str) -> None:
        self.terms = (Term(positions), Term(matrix))

    def made(self, scope: Scope, place: Place, cell: Index, value: Values) -> Made:
        r, c = pair(cell)
        Lambda, X = (_view(term, scope, place) for term in self.terms)
        position = c % Lambda.operand.array.shape[1]
        return Made([Group(((Lambda, (r, position)),)), Group(((X, (r, c)),))])

    def pull(self, scope: Scope, place: Place, value: Values, G: Array) -> Pulled | None:
        Lambda, X = (_view(term, scope, place) for term in self.terms)
        many = Lambda.operand.array.shape[1]
        pulled = Pulled({}, {})
        pulled.add(X, G)
        pulled.add(Lambda, G.reshape(len(G), -1, many).sum(axis=1))
        return pulled
