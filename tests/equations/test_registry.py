"""All 67 equations are registered, explained and proven."""

import ast
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vesalius import equations
from vesalius.equations import REGISTRY, find, numbered, unnumbered
from vesalius.errors import UnknownEquation
from vesalius.families import configuration

TESTS = Path(__file__).parent
PAGE = TESTS.parents[1] / "docs" / "equations.md"
NUMBERS = range(1, 68)


def proven_numbers():
    """What the tests say they prove; that they do is checked when they run."""
    for file in TESTS.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.proves":
                yield from (argument.value for argument in node.args)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_number_is_registered_documented_and_proven(number):
    entry = find(number)
    assert entry.title
    assert entry.plain
    assert entry.latex
    assert re.fullmatch(r"\d\.\d", entry.section)
    assert f"\n### ({number}) {entry.title}\n" in PAGE.read_text()
    assert number in set(proven_numbers())


def test_no_number_is_registered_twice_and_none_is_made_up():
    assert [entry.number for entry in numbered()] == list(NUMBERS)


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=lambda entry: entry.name)
def test_every_symbol_has_a_meaning(entry):
    assert entry.symbols
    assert [symbol.name for symbol in entry.symbols if not symbol.meaning] == []


@pytest.mark.parametrize("entry", unnumbered(), ids=lambda entry: entry.name)
def test_formulas_without_a_number_are_documented_too(entry):
    assert entry.plain
    assert f"\n### {entry.label} {entry.title}\n" in PAGE.read_text()


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=lambda entry: entry.name)
def test_equations_are_explained_where_python_drops_docstrings(entry, monkeypatch):
    """As python -OO does."""
    explained = (entry.title, entry.plain, entry.remarks)
    monkeypatch.setattr(entry.function, "__doc__", None)
    bare = replace(entry)  # which has read nothing yet
    assert (bare.title, bare.plain, bare.remarks) == explained


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=lambda entry: entry.name)
def test_every_equation_can_be_called_from_the_package(entry):
    assert getattr(equations, entry.name) is entry.function
    file, line = entry.source
    source = (TESTS.parents[1] / "src" / file).read_text().splitlines()
    assert f"def {entry.name}(" in "".join(source[line - 1 : line + 12])


def test_the_package_registers_the_equations_of_all_its_modules():
    code = """if True:
        import importlib, pkgutil
        from vesalius import equations
        known = set(equations.REGISTRY)
        for module in pkgutil.iter_modules(equations.__path__):
            importlib.import_module(f"vesalius.equations.{module.name}")
        print(*set(equations.REGISTRY) - known)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    missing = "these are not imported by equations/__init__.py"
    assert (done.stdout.strip(), done.stderr) == ("", ""), missing


def test_an_equation_is_found_by_number_label_and_name():
    assert find(28) is find("28") is find("(28)") is find("self_attention")
    assert find("L.1") is find("(L.1)") is find("low_rank_update")
    shapes = {symbol.name: symbol.shape for symbol in find(28).symbols}
    assert shapes["W_Q"] == "d_e × d_k"
    assert shapes["X"] == "d_e × n"
    assert shapes["P"] == "n × d_v"


def test_letters_mean_what_their_section_says():
    meaning = {n: {s.name: s.meaning for s in find(n).symbols} for n in (24, 44)}
    assert meaning[24]["q"] == "query"
    assert meaning[44]["q"] == "candidate for the context"


@pytest.mark.parametrize(
    ("key", "message"),
    [(68, "from 1 to 67"), (0, "from 1 to 67"), ("self_attentoin", "did you mean self_attention")],
)
def test_an_unknown_equation_is_refused(key, message):
    with pytest.raises(UnknownEquation, match=message):
        find(key)


@pytest.mark.parametrize(
    ("settings", "name", "latex", "plain"),
    [
        ({}, "after_attention", r"\mathrm{layerNorm}", "layerNorm"),
        ({"normalisation": "rms"}, "before_attention", r"\mathrm{rmsNorm}", "rmsNorm"),
        ({"activation": "quick_gelu"}, "neurons", r"\mathrm{quickGELU}", "quickGELU"),
        ({"activation": "silu"}, "ffnn", r"\mathrm{SiLU}", "SiLU"),
        ({"activation": "tanh"}, "mlm_dense", r"\mathrm{tanh}", "tanh"),
        ({"attention_bias": False}, "query_key_value", "v_i = x_i^\\top W_m^V", "vᵢ = xᵢᵀ W_V"),
        ({"attention_bias": True}, "query_key_value", "W_m^V + b_m^V", "W_V + b_V"),
        ({"attention_bias": True}, "project_all_heads", "+ b^O", "+ b_O"),
    ],
)
def test_a_formula_is_written_as_the_model_computes_it(settings, name, latex, plain):
    symbols = configuration("igpt", **settings).symbols()
    wording = find(name).written_for(symbols)
    assert latex in wording.latex
    assert plain in wording.plain
    if settings.get("normalisation") == "rms":
        assert "layerNorm" not in wording.latex + wording.plain
    if settings.get("activation"):
        assert not re.search(r"(?<![a-zA-Z])GELU", wording.latex + wording.plain)


@pytest.mark.parametrize("name", ["layer_norm", "gelu", "gelu_tanh"])
def test_a_definition_keeps_its_name_whatever_a_model_has(name):
    symbols = configuration("igpt", normalisation="rms", activation="relu").symbols()
    assert find(name).written_for(symbols).latex == find(name).latex
