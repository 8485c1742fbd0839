"""What rules refer to: steps of a trace and paths of the parameter set, written as the paper does.

A reference is a step of the trace or a path in the parameter set. Indices are those of the step's
place: ``l`` layer, ``m`` head, ``i`` time step; ``L`` is the last layer, ``n`` the last token and
``c`` the column of the number that is asked for, counted from one. ``A|B`` takes the first that the
model has, ``A:1`` a column, ``A:segments`` the column of each token's segment, ``A.T`` the
transpose, ``tanh(A)`` and ``one_minus(A)`` what their names say, and ``P[l,*]`` all heads side by
side.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from vesalius.equations.parameters import Array

ALL = slice(None)
Index = tuple[int | slice, ...]
Place = Mapping[str, int]
Values = Any
"""An array, or what gives its columns when they are asked for."""


@dataclass(frozen=True)
class Operand:
    """What a step is made of: another step, an array of the parameters, the input, a constant."""

    kind: str
    """"step", "parameter", "input" or "constant"."""
    name: str
    array: Values


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
class Function:
    """What is done to each number of an operand before it is multiplied."""

    written: str
    """As a reader sees it, with a dot for the number: ``tanh(·)``."""
    of: Callable[[Any], Any]

    def __call__(self, x: Any) -> Any:
        return self.of(x)


@dataclass(frozen=True)
class View:
    """An operand as its place in a formula sees it: whole, or one column, perhaps transposed."""

    operand: Operand
    column: int | None
    transposed: bool
    function: Function | None
    by_column: bool = False
    """Whether another column of the result has another operand, or column, here."""
    chosen: Array | None = None
    """Of a table: which of its columns each column of the result takes."""

    def index(self, row: int | slice, column: int | slice) -> Index:
        """Where the operand holds what the formula has at this row and column."""
        if self.transposed:
            row, column = column, row
        if self.chosen is not None and isinstance(column, int):
            return row, int(self.chosen[column])
        if self.column is not None:
            return row, self.column
        return (row,) if self.operand.array.ndim == 1 else (row, column)

    def spread(self, G: Array) -> Array:
        """A covector of the matrix as one of the operand's whole array."""
        G = G.T if self.transposed else G
        whole = np.zeros(self.operand.array.shape)
        if self.column is not None:
            whole[:, self.column] = G[:, 0]
        else:
            whole[...] = G.reshape(whole.shape)
        return whole

    def matrix(self) -> Values:
        array = self.operand.array
        if self.chosen is not None:
            array = array[:, self.chosen]
        if self.column is not None:
            array = array[:, [self.column]]
        array = array[:, None] if array.ndim == 1 else array
        array = array.T if self.transposed else array
        return array if self.function is None else self.function(array)


@dataclass
class Pulled:
    """A covector of a step as covectors of its operands, and what constants add to the sum."""

    covectors: dict[str, Array]
    constants: dict[str, float]

    def add(self, view: View, G: Array) -> None:
        """Take the covector ``G`` of a view: to a step, or into the share of a constant."""
        name = view.operand.name
        if view.operand.kind == "step":
            whole = view.spread(G)
            before = self.covectors.get(name)
            self.covectors[name] = whole if before is None else before + whole
        else:
            matrix = view.matrix()[:, : G.shape[1]].astype(np.float64)
            share = float((G * matrix).sum())
            self.constants[name] = self.constants.get(name, 0.0) + share


@dataclass(frozen=True)
class Group:
    """Terms that are products of the same operands, cell by cell along one axis, or one term."""

    factors: tuple[tuple[View, Index], ...]

    def values(self) -> Array:
        """The terms, in double precision."""
        product: Any = 1.0
        for view, index in self.factors:
            value = np.asarray(view.operand.array[index], dtype=np.float64)
            product = product * (value if view.function is None else view.function(value))
        return np.atleast_1d(product)


def constant(name: str, value: float) -> tuple[View, Index]:
    """A factor that is no step and no parameter, such as 1/√d_k, and what it is called."""
    return View(Operand("constant", name, np.array([value])), None, False, None), (0,)


SEGMENTS = "segments"
"""Which of two texts each token belongs to: part of what BERT reads."""
BY_COLUMN = r"[\[,:]c"
"""What a reference says that stands for another operand, or another column, in each column."""
FUNCTIONS = {
    "tanh": Function("tanh(·)", np.tanh),
    "one_minus": Function("(1 − ·)", lambda x: 1 - x),
}
"""What a rule may write around an operand."""


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

    def resolve(self, scope: Scope, place: Place, c: int, fits: int | None = None) -> View | None:
        """What it stands for; None where the model lacks it, as it may lack a bias.

        ``fits`` are the columns that it must have, where there is a choice.
        """
        for name, column, transposed, function in self.alternatives():
            operand = scope.find(placed(name, scope, place, c))
            if operand is None:
                continue
            table = scope.find(column) if column == SEGMENTS else None
            chosen = None if table is None else table.array
            k = int(_value(column, scope, place, c)) - 1 if column and chosen is None else None
            by_column = re.search(BY_COLUMN, f"{name}:{column}") is not None
            view = View(operand, k, transposed, FUNCTIONS.get(function), by_column, chosen)
            alone = fits is None or "|" not in self.text or by_column
            if alone or view.matrix().shape[1] == fits:
                return view
        return None

    def names(self, scope: Scope, place: Place, columns: int) -> Iterator[str]:
        """Every operand that any column of the step needs."""
        for c in range(columns if re.search(BY_COLUMN, self.text) else 1):
            if "*" in self.text:
                yield from (v.operand.name for v in self.heads(scope, place))
                continue
            view = self.resolve(scope, place, c, columns) or self.resolve(scope, place, c)
            if view is not None:
                yield view.operand.name

    def heads(self, scope: Scope, place: Place) -> Iterator[View]:
        """All heads of ``P[l,*]``, one after the other."""
        one = Reference(self.text.replace("*", "m"))
        m = 1
        while (view := one.resolve(scope, {**place, "head": m}, 0)) is not None:
            yield view
            m += 1


def placed(name: str, scope: Scope, place: Place, c: int) -> str:
    def put(match: re.Match[str]) -> str:
        return f"[{','.join(_value(part, scope, place, c) for part in match[1].split(','))}]"

    return re.sub(r"\[([^\]]*)\]", put, name)


def _value(index: str, scope: Scope, place: Place, c: int) -> str:
    letter, sign, number = re.fullmatch(r"(\w)(?:([+-])(\d))?", index).groups()  # type: ignore[union-attr]
    if letter.isdigit():
        return letter
    ends: dict[str, Callable[[], int]] = {
        "L": lambda: scope.layers,
        "n": lambda: tokens_of(scope),
        "c": lambda: c + 1,
    }
    letters = {"l": "layer", "m": "head", "i": "time"}
    known = ends[letter]() if letter in ends else place[letters[letter]]
    return str(known + (int(number) if sign == "+" else -int(number or 0)))


def tokens_of(scope: Scope) -> int:
    """How many tokens were read."""
    read = scope.find("Omega")
    assert read is not None
    return len(read.array)


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

    def groups(self, scope: Scope, place: Place, cell: Index, wide: int) -> list[Group]:
        r, c = pair(cell)
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

    def pull(self, pulled: Pulled, scope: Scope, place: Place, G: Array, wide: int) -> None:
        """Hand the covector of the sum on: to the second operand of a product, or the first of a
        gate's; what it is multiplied with is held."""
        if self.is_product:
            rows, columns = np.flatnonzero(G.any(axis=1)), np.flatnonzero(G.any(axis=0))
            W = self.factors[0].resolve(scope, place, 0)
            if W is None or not len(rows):
                return
            held = W.matrix()[rows].astype(np.float64).T
            for view, start, c in self._right(scope, place, columns, wide):
                matrix = view.matrix()
                whole = np.zeros((matrix.shape[0], matrix.shape[1]))
                some = held[start : start + len(matrix)]
                if c is None:
                    whole[:, columns] = some @ G[np.ix_(rows, columns)]
                else:
                    whole[:, 0] = some @ G[rows, c]
                pulled.add(view, whole)
            return
        views = [f.resolve(scope, place, 0, wide) for f in self.factors]
        if any(view is None for view in views):
            return
        carrier, *gates = [view for view in views if view is not None]
        for gate in gates:
            G = G * gate.matrix()
        if carrier.function is not None:
            plain = View(carrier.operand, carrier.column, carrier.transposed, None)
            G = G * slope_from_zero(carrier.function, plain.matrix().astype(np.float64))
            carrier = plain
        if carrier.matrix().shape[1] == 1 and G.shape[1] > 1:  # added to every column
            G = G.sum(axis=1, keepdims=True)
        pulled.add(carrier, G)

    def _right(
        self, scope: Scope, place: Place, columns: Array, wide: int
    ) -> Iterator[tuple[View, int, int | None]]:
        """What a product's left operand meets: views, at which row they start, for which column."""
        right = self.factors[1]
        if "*" in right.text:
            start = 0
            for head in right.heads(scope, place):
                yield head, start, None
                start += len(head.matrix())
            return
        first = right.resolve(scope, place, 0, wide)
        if first is None:
            return
        if first.matrix().shape[1] == wide:
            yield first, 0, None
            return
        for c in columns:
            view = right.resolve(scope, place, int(c), wide)
            assert view is not None
            yield view, 0, int(c)

    def block(self, scope: Scope, place: Place, columns: list[int], wide: int) -> Array | float:
        """The term at all rows of some columns."""
        views = self._views(scope, place, columns[0], wide)
        if views is not None and any(view.by_column for view in views):
            each = [self._block(scope, place, [c], wide) for c in columns]
            return np.concatenate([np.asarray(b) for b in each], axis=1)
        return self._block(scope, place, columns, wide)

    def alike(self, scope: Scope, place: Place, wide: int) -> tuple[set[str], set[str]]:
        """Operands of which a column needs the same column, and operands that it needs whole."""
        alike, whole = set[str](), set[str]()
        for k, view in enumerate(self._views(scope, place, 0, wide) or ()):
            left = self.is_product and k == 0
            apart = left or view.transposed or view.by_column or view.column is not None
            same = not apart and view.matrix().shape[1] == wide
            (alike if same else whole).add(view.operand.name)
        return alike, whole

    def _views(self, scope: Scope, place: Place, c: int, wide: int) -> list[View] | None:
        """The factors, all but ``P[l,*]``; None where the model lacks one."""
        *before, last = self.factors
        fits = [None if self.is_product else wide] * len(before) + [wide]
        pairs = zip([*before, last], fits, strict=True)
        views = [f.resolve(scope, place, c, fit) for f, fit in pairs if "*" not in f.text]
        return None if any(view is None for view in views) else views  # type: ignore[return-value]

    def _block(self, scope: Scope, place: Place, columns: list[int], wide: int) -> Array | float:
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


def pair(cell: Index) -> tuple[int, int]:
    row, column = (*cell, 0)[:2]
    assert isinstance(row, int)
    assert isinstance(column, int)
    return row, column


def slope_from_zero(g: Callable[[Any], Any], x: Array) -> Array:
    """g(x) / x, which makes an activation a product; 0 where x is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x == 0, 0.0, g(x) / x)
