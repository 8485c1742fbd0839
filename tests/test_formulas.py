"""Formulas as the paper writes them: read, evaluated, shown with numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vesalius.families.formulas import value_of, with_numbers
from vesalius.families.typesetting import total, typeset

SYMBOLS = {"d_e": 3, "M": 2, "V": 1000, "zeta": 1, "n": 5}


@pytest.mark.parametrize(
    ("text", "value", "numbers"),
    [
        ("d_e |V|", 3000, "3 × 1,000"),
        ("2 d_e² + d_e", 21, "2 × 3² + 3"),
        ("ζ (M (2 d_e + n) + d_e)", 25, "1 × (2 × (2 × 3 + 5) + 3)"),
        ("(n − 1) d_e", 12, "(5 − 1) × 3"),
        ("n² M", 50, "5² × 2"),
        ("0", 0, "0"),
    ],
)
def test_a_formula_is_evaluated_and_shown_with_its_numbers(text, value, numbers):
    assert value_of(text, SYMBOLS) == value
    assert with_numbers(text, SYMBOLS) == numbers


@given(*(st.integers(0, 50) for _ in range(3)))
def test_a_formula_agrees_with_the_same_line_of_python(d_e, M, n):
    symbols = {"d_e": d_e, "M": M, "n": n}
    assert value_of("2 M d_e (n + d_e) + M² − n", symbols) == (2 * M * d_e * (n + d_e) + M**2 - n)


@pytest.mark.parametrize("text", ["2 d_e / 3", "d_e ** 2", "d_e, n"])
def test_what_is_no_formula_is_our_own_mistake(text):
    with pytest.raises(AssertionError, match="cannot read the formula"):
        value_of(text, SYMBOLS)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("d_e |V|", r"d_{e}\,|V|"),
        ("2 d_e² − ζ (n + 1)", r"2\,d_{e}^2 - \zeta\,(n + 1)"),
        ("segments d_e", r"\mathrm{segments}\,d_{e}"),
    ],
)
def test_a_formula_is_typeset(text, latex):
    assert typeset(text) == latex


def test_sums_of_parts_and_numbers_are_typeset():
    assert total("E + (L − 1) Φ[l] + Ξ₁[l]") == r"E + (L - 1)\,\Phi_{l} + \Xi_{1,l}"
    assert total("backbone + Πᴺ") == r"\text{backbone} + \Pi^N"
    assert typeset("d_e |V|", {"d_e": 768, "V": 50257}) == r"768 \times 50{,}257"
