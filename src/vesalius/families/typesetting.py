"""Formulas and the symbols of parts in LaTeX, such as ``2 d_e |V|`` and ``L Φ[l]``."""

import re
from collections.abc import Mapping
from typing import Any

from vesalius.families.formulas import spelled

_GREEK = {"Γ": "Gamma", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Φ": "Phi", "Ψ": "Psi", "θ": "theta"}
_BELOW = dict(zip("₁₂ₑₘ", "12em", strict=True))
_ABOVE = {"ᵖ": "p", "ˢ": "s", "ᶜ": "C", "ᴹ": "M", "ᴺ": "N", "ʸ": "Y", "ᴿ": "R", "ᴱ": "E"}
_SYMBOL = re.compile(r"([A-Za-zΓ-θ])([₁₂ₑₘ]|_[A-Za-z]+)?([ᵖˢᶜᴹᴺʸᴿᴱ])?(?:\[(\w+)\])?")


def typeset(formula: str, symbols: Mapping[str, Any] | None = None) -> str:
    """A formula of a family, with its letters or, given their values, with numbers."""
    written = {"|V|": "|V|", "|Y|": "|Y|", "ζ": r"\zeta"}

    def letter(token: str) -> str:
        base, _, below = token.partition("_")
        if len(base) > 1 and token not in written:
            return rf"\mathrm{{{token}}}"
        return written.get(token) or (f"{base}_{{{below}}}" if below else base)

    times = r"\," if symbols is None else r" \times "
    line = re.sub(r"(?<=\d),(?=\d)", "{,}", spelled(formula, times, symbols, letter))
    return line.replace("²", "^2").replace("−", "-")


def symbol(name: str) -> str:
    r"""``Ξ₁[l]`` as ``\Xi_{1,l}``; words stay words."""
    found = _SYMBOL.fullmatch(name)
    if found is None:
        return rf"\text{{{name}}}"
    base, below, above, index = found.groups()
    below = _BELOW.get(below or "", (below or "").lstrip("_"))
    letter = rf"\{_GREEK[base]}" if base in _GREEK else base
    under = ",".join(filter(None, (below if len(below) < 2 else rf"\mathrm{{{below}}}", index)))
    return letter + (f"_{{{under}}}" if under else "") + (f"^{_ABOVE[above]}" if above else "")


def total(formula: str) -> str:
    """``E + (L − 1) Φ[l]``: how parts add up, each a symbol or a name."""
    terms = (re.fullmatch(r"(?:(L|\(.+?\)) )?(.+)", term) for term in formula.split(" + "))
    return " + ".join(
        (f"{typeset(term[1])}\\," if term[1] else "") + symbol(term[2]) for term in terms if term
    )
