"""Formulas as the paper writes them, which can be evaluated and shown with their numbers.

In ``2 M d_e (d_k + d_v)`` a space multiplies; ``²``, ``|V|`` and ``ζ`` may be used.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

_TOKEN = re.compile(r"\|[A-Z]\||[A-Za-zζ_]+|\d+|[()+²−]")
_NAMES = {"|V|": "V", "|Y|": "Y", "ζ": "zeta"}
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def value_of(formula: str, symbols: Mapping[str, Any]) -> int:
    """The number that a sum of products of the paper's letters comes to."""
    return _evaluate(_parse(formula), symbols)


def with_numbers(formula: str, symbols: Mapping[str, Any]) -> str:
    """The same formula with every letter replaced by its number."""
    return spelled(formula, " × ", symbols)


def spelled(
    formula: str,
    times: str,
    symbols: Mapping[str, Any] | None = None,
    letter: Callable[[str], str] = str,
) -> str:
    """A formula in a line, its letters as numbers or as they are to be written."""

    def one(token: str) -> str:
        if not (token[0].isalpha() or token[0] == "|"):
            return token
        return letter(token) if symbols is None else f"{symbols[_NAMES.get(token, token)]:,}"

    return _join([one(token) for token in _tokens(formula)], times)


def _tokens(text: str) -> list[str]:
    tokens = _TOKEN.findall(text)
    assert "".join(tokens) == text.replace(" ", ""), f"cannot read the formula {text!r}"
    return tokens


def _join(tokens: list[str], times: str) -> str:
    """The tokens in a line, with a sign of multiplication where the formula has none."""
    line = ""
    for before, token in zip(["(", *tokens], tokens, strict=False):
        operand_ended, operand_begins = before not in "(+−", token not in ")+−²"
        if operand_ended and operand_begins:
            line += times
        line += f" {token} " if token in "+−" else token
    return line


@cache
def _parse(text: str) -> ast.expr:
    source = _join([_NAMES.get(token, token) for token in _tokens(text)], times="*")
    return ast.parse(source.replace("²", "**2").replace("−", "-").strip(), mode="eval").body


def _evaluate(node: ast.expr, symbols: Mapping[str, Any]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return int(symbols[name])
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(exponent))):
            return int(_evaluate(left, symbols) ** exponent)
        case ast.BinOp(left=left, op=op, right=right):
            combine = _OPERATORS[type(op)]
            return int(combine(_evaluate(left, symbols), _evaluate(right, symbols)))
    raise AssertionError(f"not a formula: {ast.dump(node)}")
