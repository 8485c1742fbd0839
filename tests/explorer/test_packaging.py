"""A wheel brings the page along, and builds it where it is missing."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def hook(root):
    spec = importlib.util.spec_from_file_location("wheel", ROOT / "frontend" / "wheel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Page(str(root), {}, None, None, "", "wheel")


def test_a_wheel_that_can_have_no_page_is_refused_and_an_editable_one_is_not(tmp_path):
    with pytest.raises(FileNotFoundError, match="no frontend/ to build it from"):
        hook(tmp_path).initialize("standard", {})
    hook(tmp_path).initialize("editable", {})
    page = tmp_path / "src/vesalius/explorer/page"
    page.mkdir(parents=True)
    (page / "index.html").write_text("")
    hook(tmp_path).initialize("standard", {})


def test_symbols_have_the_class_that_they_are_coloured_by():
    from vesalius import equations as eq
    from vesalius.explorer.classes import classed

    told = {s["name"]: s["kind"] for s in classed(eq.find(28))["symbols"]}
    assert told["W_Q"] == "parameter"
    assert told["b_V"] == "bias"
    assert told["S"] == "score"
    assert told["X"] == told["P"] == "state"
    assert {s["kind"] for e in eq.numbered() for s in classed(e)["symbols"]} >= {"dimension"}
