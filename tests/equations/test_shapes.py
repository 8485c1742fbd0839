"""What an equation says of its symbols is what it takes, uses and gives, on random input."""

import dataclasses
import inspect
import math
import re
import sys
import types
import typing
from collections.abc import Sequence

import numpy as np
import pytest

from vesalius.equations import REGISTRY, OneHot, assemble, find, parameters, tanh

SIZES = {"|V|": 13, "V_U": 13, "d": 4, "d_e": 6, "d_k": 3, "d_v": 5, "d_f": 7, "d_h": 9, "d_L": 6}
SIZES |= {"d_i": 8, "d_o": 4, "d_in": 10, "d_out": 12, "M": 2, "L": 1, "n": 4, "n+1": 5, "T": 9}
SIZES |= {"n_max": 11, "length": 11, "segments": 2, "labels": 3, "classes": 3, "outputs": 3, "r": 2}
SIZES |= {"height": 4, "width": 4, "P": 2, "C": 3, "tau": 8, "s": 2, "2": 2}
SIZES |= {"Md_v": 10, "nd_e": 24, "P2C": 12, "Cn": 12}
"""What follows from others: two heads of five values, four tokens, patches of 2 x 2 x 3."""
PRESENT = ("zeta", "zeta_qkv", "centred", "pooler", "mlm_head", "nsp_head", "labels", "untied")
PRESENT += ("learned_positions", "output_bias", "affine")
CONSTANTS = {"epsilon": 1e-5, "g": tanh, "order": "post", "causal": True}
LAYER = {"normalisation": "layer", "batch_norm": False}
NORMALISATIONS = {
    "batch_norm": {"normalisation": "batch", "batch_norm": True},
    "rms_norm": {"normalisation": "rms", "batch_norm": False, "centred": False},
}
SCALARS = {"alpha": 0.5, "scale": 0.5, "epsilon_r": 1e-5, "mu_lr": 0.1, "pad": 0, "axis": 0}
SCALARS |= {"causal": True, "i": 2, "c": 1, "c_i": 1, "c_n": 1, "cls": 1, "sep": 2, "mask": 3}
SCALARS |= {"V": 13, "zeta": 1, "g": tanh, "first": [5, 6], "second": []}
MODELS = {
    "corpus_loss": lambda context: np.full(13, 1 / 13),
    "estimated_next": lambda word, context: 1 / 13,
    "estimated_masked": lambda word, place, sequence: 1 / 13,
}
"""What stands for p."""
BESIDE = {"S", "V", "axis", "segments", "real", "causal", "pad", "C", "image", "scale", "b_U"}
"""Arguments that the text around a formula speaks of, and not the formula."""
SHAPED = [entry for entry in REGISTRY.values() if entry.name != "gradient_step"]


def axes(shape, whole):
    """The axes of a shape as it is shown; ``whole`` says whether those in brackets are there."""
    shape = re.sub(r"\(([^()]*)\)", r"\1" if whole else "", shape)
    return [axis for axis in re.split(r"[ ×]+", shape) if axis]


def sized(shape, whole):
    if shape == "any":
        return (5, 4) if whole else (5,)
    return tuple(SIZES[axis] for axis in axes(shape, whole))


def kinds(hint):
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


class Arguments:
    """Random arguments of an equation, of the shapes that it is shown with."""

    def __init__(self, entry, rng, whole):
        self.entry, self.rng, self.whole = entry, rng, whole
        self.shapes = {symbol.name: symbol.shape for symbol in entry.symbols}
        self.read = {}
        """The arrays of each set that the equation has read."""
        function = inspect.unwrap(entry.function)
        self.hints = typing.get_type_hints(function)
        self.result = self.hints.pop("return")
        self.values = {name: self.value(name, hint) for name, hint in self.hints.items()}

    def value(self, name, hint):
        for kind in kinds(hint):
            if dataclasses.is_dataclass(kind):
                return self.set(kind)
            if typing.get_origin(kind) is tuple:
                return (self.set(typing.get_args(kind)[0]),)
        if name in SCALARS and not self.shapes[name]:
            return SCALARS[name]
        if name == "p" and self.entry.name in MODELS:
            return MODELS[self.entry.name]
        if int in kinds(hint):
            return SIZES[name]
        if OneHot in kinds(hint) and (self.whole or hint is OneHot):
            return OneHot(self.rng.integers(13, size=sized(self.shapes[name], True)[1]), 13)
        return self.array(name, hint)

    def array(self, name, hint):
        shape = sized(self.shapes[name], self.whole)
        said = " ".join(map(str, kinds(hint)))
        if "Bool" in said:
            return np.arange(math.prod(shape)).reshape(shape) % 2 == 0
        if "Integer" in said or any(typing.get_origin(k) is Sequence for k in kinds(hint)):
            return self.rng.integers(2, size=shape)
        return self.rng.uniform(0.1, 1, size=shape)

    def set(self, kind):
        """A set whose arrays are of the shapes that they are shown with, and that is watched."""
        own = {"d_in": SIZES["d_in"], "d_out": SIZES["d_out"]}
        if (W := self.shapes.get("W")) and kind is parameters.Dense:
            own["d_out"], own["d_in"] = sized(W, False)
        if self.entry.name == "feedforward_network":
            own = {"d_out": SIZES["d_L"], "d_in": SIZES["nd_e"]}
        symbols = {**SIZES, **dict.fromkeys(PRESENT, 3), **CONSTANTS, **SCALARS, **own, "two": 2}
        symbols |= {"V": 13, "g": tanh} | NORMALISATIONS.get(self.entry.name, LAYER)
        made = assemble(kind, symbols, lambda _, shape: self.rng.uniform(0.1, 1, shape))
        read = self.read.setdefault(kind, set())
        object.__setattr__(made, "__class__", watched(type(made), read))
        return made


def watched(kind, read):
    """The kind of set, which notes what arrays are read of it; not that they are all checked."""
    checks = inspect.unwrap(parameters.arrays).__code__

    def note(self, name):
        value = object.__getattribute__(self, name)
        if isinstance(value, np.ndarray) and sys._getframe(1).f_code is not checks:
            read.add(name)
        return value

    return type(kind.__name__, (kind,), {"__getattribute__": note})


@pytest.mark.parametrize("entry", SHAPED, ids=lambda entry: entry.name)
@pytest.mark.parametrize("whole", [True, False], ids=["sequence", "token"])
def test_an_equation_takes_and_gives_the_shapes_that_it_is_shown_with(entry, whole, rng):
    given = Arguments(entry, rng, whole)
    result = entry.function(**given.values)
    results = result if hasattr(result, "_fields") else (result,)
    for name, value in zip(entry.gives, results, strict=False):
        assert np.shape(value) == sized(given.shapes[name], whole), name


@pytest.mark.parametrize("entry", SHAPED, ids=lambda entry: entry.name)
def test_the_arrays_that_are_listed_are_those_that_the_equation_uses(entry, rng):
    given = Arguments(entry, rng, whole=True)
    entry.function(**given.values)
    for kind, read in given.read.items():
        own = {field.name for field in dataclasses.fields(kind)}
        assert own & given.shapes.keys() - given.hints.keys() == read


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=lambda entry: entry.name)
def test_every_symbol_stands_in_the_formula(entry):
    """Or its column does: x for X. Of a parameter set what it holds does, or the set itself."""
    hints = typing.get_type_hints(inspect.unwrap(entry.function))
    sets = {n for n, h in hints.items() if "parameters." in str(h) and not hasattr(h, "dim_str")}
    latex = entry.latex.lower()
    for symbol in entry.symbols:
        if symbol.name in hints.keys() - sets - BESIDE or symbol.name in entry.gives:
            letter = re.sub(r"\\(?:hat|bar|tilde)\{?([^{}]*)\}?", r"\1", symbol.latex)
            letter = re.match(r"\\math\w+\{\[?\w+\]?\}|\\\w+|\w", letter)[0].lower()
            assert letter in latex, symbol


def test_a_gate_lists_its_own_three_arrays_and_layer_norm_no_statistics():
    names = {n: [symbol.name for symbol in find(n).symbols] for n in (34, 35, 44, 45, 46, 48)}
    for number, letter in ((44, "Q"), (45, "P"), (46, "R"), (48, "S")):
        arrays = [name for name in names[number] if name[:2] in ("W_", "U_", "b_")]
        assert sorted(arrays) == [f"{array}_{letter}" for array in "UWb"]
    for number in (34, 35):
        assert not {"mean", "variance"} & set(names[number])
    assert {"mean", "variance"} <= {symbol.name for symbol in find("batch_norm").symbols}


def test_a_letter_means_what_the_equation_says():
    def of(key, name):
        return next(symbol for symbol in find(key).symbols if symbol.name == name)

    assert "state of a token" in of(37, "c").meaning
    assert "index" in of(17, "c").meaning
    assert (of(24, "x").latex, of(35, "x").latex) == ("x", r"\varkappa")
    assert (of(24, "q").shape, of(24, "v").shape) == ("(n ×) d_k", "(n ×) d_v")
    assert (of(26, "P").shape, of(2, "omega").shape) == ("(n ×) d_v", "|V| (× n)")
    assert "context" in of(1, "n").meaning
    assert "longest" in of(40, "n").meaning
    assert "projection" in of("project", "E").meaning
    assert "all time steps" in of("flat_output", "h").meaning
    assert [of(57, name).shape for name in "Wb"] == ["d_e × d_e", "d_e"]
    assert [of(23, name).shape for name in ("h_below", "h")] == ["d_in", "d_out"]


def is_linear(function, size, rng):
    """Whether f(a) + f(b) = f(a + b) + f(0)."""
    a, b = rng.normal(size=(2, size)) * 3
    together = function(a + b) + function(np.zeros(size))
    return np.allclose(function(a) + function(b), together)


@pytest.mark.parametrize(("key", "bends"), [(57, True), (53, True), (23, None), ("dense", False)])
def test_a_formula_with_an_activation_bends_whatever_set_it_gets(key, bends, rng):
    layer = parameters.Dense(W=rng.normal(size=(6, 6)), b=rng.normal(size=6))
    function = find(key).function

    def call(x):
        return function(layer, x[:, None] if key == 53 else x)

    if bends is None:
        with pytest.raises(ValueError, match="activation g"):
            call(np.zeros(6))
    else:
        assert is_linear(call, 6, rng) is not bends
