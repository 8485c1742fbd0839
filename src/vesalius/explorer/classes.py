"""What class a symbol is of, which is its colour and its mark in formula, figure and text."""

from dataclasses import fields, is_dataclass

from vesalius.equations import parameters
from vesalius.equations.registry import Equation, Symbol

SETTINGS = {"causal", "epsilon", "g", "normalisation", "order"}
"""What parameter sets hold beside parameters."""
SETS = {"Phi_l", "Psi_m", "Xi", "theta"}
SCORES = {"mu", "S"}
OUTPUTS = {"Z", "z", "Y_hat", "y_hat", "z_C", "y_hat_C", "Omega_hat"}
INPUTS = {"Omega", "omega", "Omega_m", "image", "w"}
PARAMETERS = {
    field.name
    for kind in vars(parameters).values()
    if isinstance(kind, type) and is_dataclass(kind)
    for field in fields(kind)
} - SETTINGS


def class_of(symbol: Symbol) -> str:
    """parameter, bias, score, output, input, dimension or state."""
    name = symbol.name
    if name in SCORES:
        return "score"
    if name in OUTPUTS:
        return "output"
    if name in INPUTS:
        return "input"
    if name == "beta" or (name in PARAMETERS and name.startswith("b")):
        return "bias"
    if name in PARAMETERS or name in SETS:
        return "parameter"
    return "state" if symbol.shape else "dimension"


def classed(equation: Equation) -> dict[str, object]:
    """An equation as JSON, each of its symbols with its class."""
    told = equation.to_json()
    for symbol, entry in zip(equation.symbols, told["symbols"], strict=True):
        entry["kind"] = class_of(symbol)
    return {**told, "label": equation.label}
