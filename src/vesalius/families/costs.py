"""What a model is made of and what it costs, as rows of formulas: components, operations, memory.

The paper gives the tables of GPT-2 and BERT (Tables 4, 5 and 6); those of the other families are
derived in the same way. A multiply-add is two operations. Matrix products stand apart from
everything else ("pointwise"), where each addition, multiplication, division, comparison, root,
exponential, logarithm, tanh and erf is one: an entry of a softmax is 5, a normalised vector
7 d + 2. Memory is counted in numbers, not bytes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vesalius.families.formulas import value_of


@dataclass(frozen=True)
class Component:
    """One row of a table: a formula, or the sum of its parts; there may be several like it."""

    symbol: str
    name: str
    formula: str = ""
    parts: tuple["Component", ...] = ()
    times: str = "1"


def sum_of(parts: tuple[Component, ...]) -> str:
    """``E + L Φ[l]``: how parts add up."""
    factors = ("" if part.times == "1" else f"({part.times}) " for part in parts)
    terms = (
        factor + (part.symbol or part.name) for factor, part in zip(factors, parts, strict=True)
    )
    return " + ".join(term.replace("(L) ", "L ") for term in terms)


def leaves(
    parts: tuple[Component, ...], symbols: Mapping[str, Any], times: int = 1
) -> Iterator[tuple[str, str, int, int]]:
    """Components without parts: symbol, name, numbers in one of them, and how many there are."""
    for part in parts:
        many = times * value_of(part.times, symbols)
        if part.parts:
            yield from leaves(part.parts, symbols, many)
        else:
            yield part.symbol, part.name, value_of(part.formula, symbols), many


def embedding() -> Component:
    return Component("E", "embedding", "d_e |V|")


def output(tied: bool, width: str, bias: bool = False, words: str = "|V|") -> tuple[Component, ...]:
    rows = () if tied else (Component("U", "output embedding", f"{words} {width}"),)
    return (*rows, Component("b_U", "output bias", "|V|")) if bias else rows


def label_head(labels: int, width: str) -> tuple[Component, ...]:
    """A head without biases that reads one state: the last token's, or the mean."""
    return (Component("Wʸ", "label head", f"|Y| {width}"),) if labels else ()


@dataclass(frozen=True)
class Operation:
    """The cost of one equation on a sequence of n tokens."""

    equation: str
    name: str
    products: str = "0"
    pointwise: str = "0"
    times: str = "1"
    backward: str = ""
    """Products of the backward pass: by default, as many for the weights, and for the input."""


def mean_operation(width: str) -> Operation:
    return Operation("6.1", "mean of the states", pointwise=f"(n + 1) {width}")


def label_operations(labels: int, width: str, pooling: str) -> tuple[Operation, ...]:
    mean = (mean_operation(width),) if labels and pooling == "mean" else ()
    return (*mean, Operation("6.1", "label head", f"2 {width} |Y|", "5 |Y|")) if labels else ()


@dataclass(frozen=True)
class Memory:
    """Numbers that one part of a model keeps, for one sequence of n tokens.

    Activation memory is each value that the backward pass reads, once, with attention unfused and
    no dropout; decode state is what generation keeps from token to token.
    """

    name: str
    formula: str
    times: str = "1"
