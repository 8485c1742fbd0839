"""How a number of each equation is made: its operands, and the terms of its sum.

A rule stands beside its equation, in the paper's letters::

    rule=Sum("Phi[l].Pi.W_1 @ C_bar[l]|C[l]", "Phi[l].Pi.b_1", g="Phi[l].Pi.g")

A reference is a step of the trace or a path in the parameter set. Indices are those of the step's
place: ``l`` layer, ``m`` head, ``i`` time step; ``L`` is the last layer and ``c`` the column of the
number that is asked for, counted from one. ``A|B`` takes the first that the model has, ``A:1`` a
column, ``A.T`` the transpose, and ``P[l,*]`` all heads side by side. Nothing is computed until a
number is asked for: a trace is a graph at no cost.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from vesalius.equations.parameters import Array, Norm

ALL = slice(None)
Index = tuple[int | slice, ...]


@dataclass(frozen=True)
class Operand:
    """What a step is made of: another step, an array of the parameters, the input, a constant."""

    kind: str
    """"step", "parameter", "input" or "constant"."""
    name: str
    array: Array


@runtime_checkable
class Scope(Protocol):
    """Where references are looked up: a trace."""

    @property
    def layers(self) -> int: ...

    def find(self, name: str) -> Operand | None:
        """The operand of this name; None where the model has no such thing."""

    def constants(self, name: str) -> Any:
        """What a path of the parameter set holds that is no array: an activation, a Norm."""


@dataclass(frozen=True)
class View:
    """An operand as its place in a formula sees it: whole, or one column, perhaps transposed."""

    operand: Operand
    column: int | None
    transposed: bool
    function: Callable[[Any], Any] | None
    by_column: bool = False
    """Whether another column of the result has another operand, or column, here."""

    def index(self, row: int | slice, column: int | slice) -> Index:
        """Where the operand holds what the formula has at this row and column."""
        if self.transposed:
            row, column = column, row
        if self.column is not None:
            return row, self.column
        return (row,) if self.operand.array.ndim == 1 else (row, column)

    def matrix(self) -> Array:
        array = self.operand.array
        if self.column is not None:
            array = array[:, [self.column]]
        array = array[:, None] if array.ndim == 1 else array
        array = array.T if self.transposed else array
        return array if self.function is None else self.function(array)


@dataclass(frozen=True)
class Group:
    """Terms that are products of the same operands, cell by cell along one axis, or one term."""

    factors: tuple[tuple[View, Index], ...]
    scale: float = 1.0

    def values(self) -> Array:
        """The terms, in double precision."""
        product: Any = self.scale
        for view, index in self.factors:
            value = np.asarray(view.operand.array[index], dtype=np.float64)
            product = product * (value if view.function is None else view.function(value))
        return np.atleast_1d(product)


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


BY_COLUMN = r"[\[,:]c"
"""What a reference says that stands for another operand, or another column, in each column."""
FUNCTIONS: dict[str, Callable[[Any], Any]] = {"tanh": np.tanh}


@dataclass(frozen=True)
class Reference:
    """One operand of a rule, as it is written."""

    text: str

    def alternatives(self) -> Iterator[tuple[str, str, bool, str]]:
        for text in self.text.split("|"):
            plain = text.removesuffix(".T")
            wrapped = re.fullmatch(r"(\w+)\((.*)\)", plain)
            function, inner = wrapped.groups() if wrapped else ("", plain)
            name, _, column = inner.partition(":")
            yield name, column, text.endswith(".T"), function

    def resolve(
        self, scope: Scope, place: Mapping[str, int], c: int, fits: int | None = None
    ) -> View | None:
        """What it stands for; None where the model lacks it, as it may lack a bias.

        ``fits`` are the columns that it must have, where there is a choice.
        """
        for name, column, transposed, function in self.alternatives():
            operand = scope.find(_placed(name, scope, place, c))
            if operand is None:
                continue
            k = int(_value(column, scope, place, c)) - 1 if column else None
            by_column = re.search(BY_COLUMN, f"{name}:{column}") is not None
            view = View(operand, k, transposed, FUNCTIONS.get(function), by_column)
            alone = fits is None or "|" not in self.text or by_column
            if alone or view.matrix().shape[1] == fits:
                return view
        return None

    def names(self, scope: Scope, place: Mapping[str, int], columns: int) -> Iterator[str]:
        """Every operand that any column of the step needs."""
        for c in range(columns if re.search(BY_COLUMN, self.text) else 1):
            if "*" in self.text:
                yield from (v.operand.name for v in self.heads(scope, place))
                continue
            view = self.resolve(scope, place, c, columns) or self.resolve(scope, place, c)
            if view is not None:
                yield view.operand.name

    def heads(self, scope: Scope, place: Mapping[str, int]) -> Iterator[View]:
        """All heads of ``P[l,*]``, one after the other."""
        one = Reference(self.text.replace("*", "m"))
        m = 1
        while (view := one.resolve(scope, {**place, "head": m}, 0)) is not None:
            yield view
            m += 1


def _placed(name: str, scope: Scope, place: Mapping[str, int], c: int) -> str:
    def put(match: re.Match[str]) -> str:
        return f"[{','.join(_value(part, scope, place, c) for part in match[1].split(','))}]"

    return re.sub(r"\[([^\]]*)\]", put, name)


def _value(index: str, scope: Scope, place: Mapping[str, int], c: int) -> str:
    letter, sign, number = re.fullmatch(r"(\w)(?:([+-])(\d))?", index).groups()  # type: ignore[union-attr]
    if letter.isdigit():
        return letter
    letters = {"l": "layer", "m": "head", "i": "time"}
    known = scope.layers if letter == "L" else c + 1 if letter == "c" else place[letters[letter]]
    return str(known + (int(number) if sign == "+" else -int(number or 0)))


@dataclass(frozen=True)
class Term:
    """``W @ x``, ``p * c``, or one operand alone."""

    text: str

    @property
    def factors(self) -> list[Reference]:
        return [Reference(part.strip()) for part in re.split(r" [@*] ", self.text)]

    @property
    def is_product(self) -> bool:
        return " @ " in self.text

    def groups(self, scope: Scope, place: Mapping[str, int], cell: Index, wide: int) -> list[Group]:
        r, c = _pair(cell)
        if not self.is_product:
            views = [f.resolve(scope, place, c) for f in self.factors]
            if any(view is None for view in views):
                return []
            return [Group(tuple((v, v.index(r, c)) for v in views if v is not None))]
        left, right = self.factors
        W = left.resolve(scope, place, c)
        if W is None:
            return []
        if "*" in right.text:
            found, start = [], 0
            for head in right.heads(scope, place):
                stop = start + head.matrix().shape[0]
                row = (W, W.index(r, slice(start, stop)))
                found.append(Group((row, (head, head.index(ALL, c)))))
                start = stop
            return found
        x = right.resolve(scope, place, c, wide)
        return [] if x is None else [Group(((W, W.index(r, ALL)), (x, x.index(ALL, c))))]

    def block(
        self, scope: Scope, place: Mapping[str, int], columns: list[int], wide: int
    ) -> Array | float:
        """The term at all rows of some columns."""
        views = self._views(scope, place, columns[0], wide)
        if views is not None and any(view.by_column for view in views):
            each = [self._block(scope, place, [c], wide) for c in columns]
            return np.concatenate([np.asarray(b) for b in each], axis=1)
        return self._block(scope, place, columns, wide)

    def _views(
        self, scope: Scope, place: Mapping[str, int], c: int, wide: int
    ) -> list[View] | None:
        """The factors, all but ``P[l,*]``; None where the model lacks one."""
        *before, last = self.factors
        fits = [None if self.is_product else wide] * len(before) + [wide]
        pairs = zip([*before, last], fits, strict=True)
        views = [f.resolve(scope, place, c, fit) for f, fit in pairs if "*" not in f.text]
        return None if any(view is None for view in views) else views  # type: ignore[return-value]

    def _block(
        self, scope: Scope, place: Mapping[str, int], columns: list[int], wide: int
    ) -> Array | float:
        views = self._views(scope, place, columns[0], wide)
        if views is None:
            return 0.0
        arrays = [view.matrix() for view in views]
        if "*" in self.factors[-1].text and self.is_product:
            heads = self.factors[-1].heads(scope, place)
            arrays.append(np.concatenate([head.matrix() for head in heads], axis=0))
        some = [a[:, columns] if a.shape[1] > 1 else a for a in arrays[1:]]
        if self.is_product:
            product: Array = arrays[0] @ some[0]
            return product
        first = arrays[0][:, columns] if arrays[0].shape[1] > 1 else arrays[0]
        for other in some:
            first = first * other
        return first


def _pair(cell: Index) -> tuple[int, int]:
    row, column = (*cell, 0)[:2]
    assert isinstance(row, int)
    assert isinstance(column, int)
    return row, column


class Rule:
    """How the numbers of one equation are made."""

    terms: tuple[Term, ...] = ()
    sets: tuple[str, ...] = ()
    """Parameter sets that take part as a whole."""

    def operands(self, scope: Scope, place: Mapping[str, int], columns: int) -> list[str]:
        """The names of all operands, in the order of the formula."""
        found = {
            name: None
            for term in self.terms
            for reference in term.factors
            for name in reference.names(scope, place, columns)
        }
        for path in self.sets:
            where = _placed(path, scope, place, 0)
            for letter in ("alpha", "beta", "mean", "variance"):
                if scope.find(f"{where}.{letter}") is not None:
                    found[f"{where}.{letter}"] = None
        return list(found)

    def made(self, scope: Scope, place: Mapping[str, int], cell: Index, value: Array) -> Made:
        raise NotImplementedError

    def columns(
        self, scope: Scope, place: Mapping[str, int], columns: list[int], wide: int
    ) -> Array:
        """The step's value at all rows of some columns, from its operands."""
        raise NotImplementedError


class Sum(Rule):
    """A sum of products and biases, perhaps through an activation ``g``, perhaps scaled.

    ``scale`` is a function of the first operand's shape.
    """

    def __init__(
        self,
        *terms: str,
        g: str | Callable[[Any], Any] | None = None,
        scale: Callable[[tuple[int, ...]], float] | None = None,
    ) -> None:
        self.terms, self.g, self.scale = tuple(map(Term, terms)), g, scale

    def activation(self, scope: Scope, place: Mapping[str, int]) -> Callable[[Any], Any] | None:
        if isinstance(self.g, str):
            found: Callable[[Any], Any] | None = scope.constants(_placed(self.g, scope, place, 0))
            return found
        return self.g

    def _scaled(self, groups: list[Group]) -> list[Group]:
        if self.scale is None:
            return groups
        scale = self.scale(groups[0].factors[0][0].operand.array.shape)
        return [Group(groups[0].factors, scale), *groups[1:]]

    def made(self, scope: Scope, place: Mapping[str, int], cell: Index, value: Array) -> Made:
        groups = [g for t in self.terms for g in t.groups(scope, place, cell, _wide(value))]
        g = self.activation(scope, place)
        if g is None:
            return Made(self._scaled(groups))
        return Made(self._scaled(groups), g.__name__, lambda total: float(g(np.array([total]))[0]))

    def inner(self, scope: Scope, place: Mapping[str, int], columns: list[int], wide: int) -> Array:
        blocks = [term.block(scope, place, columns, wide) for term in self.terms]
        if self.scale is not None:
            first = self.terms[0].factors[0].resolve(scope, place, columns[0])
            assert first is not None
            blocks[0] = blocks[0] * self.scale(first.operand.array.shape)
        total = blocks[0]
        for block in blocks[1:]:
            total = total + block
        return np.asarray(total)

    def columns(
        self, scope: Scope, place: Mapping[str, int], columns: list[int], wide: int
    ) -> Array:
        g = self.activation(scope, place)
        inner = self.inner(scope, place, columns, wide)
        return inner if g is None else np.asarray(g(inner))


class Softmax(Sum):
    """The softmax of a sum, down a column, or along a row."""

    def __init__(
        self,
        *terms: str,
        by_row: bool = False,
        scale: Callable[[tuple[int, ...]], float] | None = None,
    ) -> None:
        super().__init__(*terms, scale=scale)
        self.by_row = by_row

    def made(self, scope: Scope, place: Mapping[str, int], cell: Index, value: Array) -> Made:
        r, c = _pair(cell)
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
        )

    def columns(
        self, scope: Scope, place: Mapping[str, int], columns: list[int], wide: int
    ) -> Array:
        wanted = list(range(wide)) if self.by_row else columns
        inner = super().inner(scope, place, wanted, wide)
        axis = 1 if self.by_row else 0
        e = np.exp(inner - inner.max(axis=axis, keepdims=True))
        share: Array = e / e.sum(axis=axis, keepdims=True)
        return share[:, columns] if self.by_row else share


class Normalised(Sum):
    """A normalisation (35) of a sum, with the statistics that it had."""

    def __init__(self, Xi: str, *terms: str) -> None:
        super().__init__(*terms)
        self.sets = (Xi,)

    def statistics(
        self, scope: Scope, place: Mapping[str, int], columns: list[int], wide: int
    ) -> tuple[Norm, Array, Array, Array]:
        """The set, the sum, its mean and its deviation: a number a column, or a number a row."""
        Xi: Norm = scope.constants(_placed(self.sets[0], scope, place, 0))
        x = super().inner(scope, place, columns, wide)
        x = x.astype(np.float64) if x.dtype != np.float64 else x
        if Xi.mean is not None and Xi.variance is not None:
            return Xi, x, Xi.mean[:, None], np.sqrt(Xi.variance[:, None] + Xi.epsilon)
        mean = x.mean(axis=0, keepdims=True) if Xi.beta is not None else np.zeros((1, x.shape[1]))
        square = ((x - mean) ** 2).mean(axis=0, keepdims=True)
        return Xi, x, mean, np.sqrt(square + Xi.epsilon)

    def made(self, scope: Scope, place: Mapping[str, int], cell: Index, value: Array) -> Made:
        r, c = _pair(cell)
        Xi, _, means, deviations = self.statistics(scope, place, [c], _wide(value))
        mean = float(means[r % len(means), 0])
        deviation = float(deviations[r % len(deviations), 0])
        where = _placed(self.sets[0], scope, place, 0)
        gain = scope.find(f"{where}.alpha")
        assert gain is not None
        factor = (View(gain, None, False, None), (r,))
        groups = [
            Group((*g.factors, factor), g.scale / deviation)
            for g in super().made(scope, place, cell, value).groups
        ]
        notes = {"deviation": deviation}
        if Xi.beta is not None:
            constant = Operand("constant", "the mean", np.array([mean]))
            groups.append(
                Group(((View(constant, None, False, None), (0,)), factor), -1 / deviation)
            )
            bias = scope.find(f"{where}.beta")
            assert bias is not None
            groups.append(Group(((View(bias, None, False, None), (r,)),)))
            notes = {"mean": mean, **notes}
        return Made(groups, notes=notes)

    def columns(
        self, scope: Scope, place: Mapping[str, int], columns: list[int], wide: int
    ) -> Array:
        Xi, x, mean, deviation = self.statistics(scope, place, columns, wide)
        y = Xi.alpha[:, None] * (x - mean) / deviation
        return y if Xi.beta is None else y + Xi.beta[:, None]


class Lookup(Rule):
    """Columns of a matrix, chosen by the tokens."""

    def __init__(self, matrix: str) -> None:
        self.terms = (Term(matrix),)

    def made(self, scope: Scope, place: Mapping[str, int], cell: Index, value: Array) -> Made:
        r, c = _pair(cell)
        view = self.terms[0].factors[0].resolve(scope, place, c)
        ids = scope.find("Omega")
        assert view is not None
        assert ids is not None
        token = int(ids.array[c])
        return Made([Group(((view, view.index(r, token)),))], notes={"token": token})

    def columns(
        self, scope: Scope, place: Mapping[str, int], columns: list[int], wide: int
    ) -> Array:
        view, ids = self.terms[0].factors[0].resolve(scope, place, 0), scope.find("Omega")
        assert view is not None
        assert ids is not None
        chosen: Array = view.matrix()[:, ids.array[columns]]
        return chosen


class Given(Rule):
    """What no other value leads to: a mask, the input."""

    def made(self, scope: Scope, place: Mapping[str, int], cell: Index, value: Array) -> Made:
        number = np.atleast_1d(np.asarray(value, dtype=np.float64)[cell])
        view = View(Operand("constant", "given", number), None, False, None)
        return Made([Group(((view, (0,)),))])


class Joined(Rule):
    """A first column, and then those of a matrix."""

    def __init__(self, first: str, rest: str) -> None:
        self.terms = (Term(first), Term(rest))

    def made(self, scope: Scope, place: Mapping[str, int], cell: Index, value: Array) -> Made:
        r, c = _pair(cell)
        which, column = (0, 0) if c == 0 else (1, c - 1)
        view = self.terms[which].factors[0].resolve(scope, place, c)
        assert view is not None
        return Made([Group(((view, view.index(r, column)),))])


class Flattened(Rule):
    """All columns of a matrix in one vector; padding, where there is any, counts for nothing."""

    def __init__(self, matrix: str) -> None:
        self.terms = (Term(matrix),)

    def made(self, scope: Scope, place: Mapping[str, int], cell: Index, value: Array) -> Made:
        view = self.terms[0].factors[0].resolve(scope, place, 0)
        assert view is not None
        column, row = divmod(_pair(cell)[0], view.matrix().shape[0])
        mask = scope.find("S")
        padding = mask is not None and bool(np.isneginf(mask.array[:, column]).all())
        return Made([Group(((view, view.index(row, column)),), 0.0 if padding else 1.0)])


def _wide(value: Array) -> int:
    return value.shape[1] if value.ndim > 1 else 1
