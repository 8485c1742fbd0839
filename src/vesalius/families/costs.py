"""What a model is made of and what it costs, as rows of formulas: components, operations, memory.

The paper gives the tables of GPT-2 and BERT (Tables 4, 5 and 6); those of the other families are
derived in the same way. A multiply-add is two operations. Matrix products stand apart from
everything else ("pointwise"), where each addition, multiplication, division, comparison, root,
exponential, logarithm, tanh and erf is one: an entry of a softmax is 5, a normalised vector
7 d + 2. Memory is counted in numbers, not bytes.
"""

from dataclasses import dataclass

from vesalius.families.formulas import Formula


@dataclass(frozen=True)
class Component:
    """One row of a table: a formula, or the sum of its parts; there may be several like it."""

    symbol: str
    name: str
    formula: Formula | None = None
    parts: tuple["Component", ...] = ()
    times: Formula = Formula("1")


def component(symbol: str, name: str, formula: str, times: str = "1") -> Component:
    return Component(symbol, name, Formula(formula), times=Formula(times))


def sum_of(parts: tuple[Component, ...]) -> str:
    """``E + L Φ[l]``: how parts add up."""
    factors = ("" if part.times.text == "1" else f"({part.times.text}) " for part in parts)
    terms = (
        factor + (part.symbol or part.name) for factor, part in zip(factors, parts, strict=True)
    )
    return " + ".join(term.replace("(L) ", "L ") for term in terms)


def embedding() -> Component:
    return component("E", "embedding", "d_e |V|")


def output(tied: bool, width: str, bias: bool = False, words: str = "|V|") -> tuple[Component, ...]:
    rows = () if tied else (component("U", "output embedding", f"{words} {width}"),)
    return (*rows, component("b_U", "output bias", "|V|")) if bias else rows


@dataclass(frozen=True)
class Operation:
    """The cost of one equation on a sequence of n tokens."""

    equation: str
    name: str
    products: Formula
    pointwise: Formula
    times: Formula
    backward: Formula
    """Matrix products of the backward pass: as many for the weights, and again for the input."""


def operation(
    equation: str,
    name: str,
    products: str = "0",
    pointwise: str = "0",
    times: str = "1",
    backward: str | None = None,
) -> Operation:
    backward = f"2 ({products})" if backward is None else backward
    return Operation(
        equation, name, Formula(products), Formula(pointwise), Formula(times), Formula(backward)
    )


@dataclass(frozen=True)
class Memory:
    """Numbers that one part of a model keeps, for one sequence of n tokens.

    Activation memory is each value that the backward pass reads, once, with attention unfused and
    no dropout; decode state is what generation keeps from token to token.
    """

    name: str
    formula: Formula
    times: Formula


def memory(name: str, formula: str, times: str = "1") -> Memory:
    return Memory(name, Formula(formula), Formula(times))
