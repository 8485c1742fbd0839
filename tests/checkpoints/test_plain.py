"""Plain files: whoever writes one writes it whole or not at all."""

import ast
import resource
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import vesalius
from vesalius.finetuning import given
from vesalius.metrics.predictions import Predictions
from vesalius.tasks.forecasting.use import Forecast
from vesalius.tokenizers import train_characters
from vesalius.training.recipe import write_recipe
from vesalius.views import pictures

ROOM = 64
"""Bytes of a file that the full disk has room for."""
RAW = {
    "checkpoints/plain.py replacing": "this is the one way",
    "cli/training.py evaluate": "a temporary folder",
    "data/registry.py _download": "beside, and in place only if its hash is right",
    "data/tokens.py _write": "a new folder, which appears when it is whole",
    "explorer/agreement.py _apart": "a pipe",
    "explorer/agreement.py main": "a pipe",
    "explorer/uploads.py read": "a temporary folder",
    "model.py save": "a new folder, which takes the old one's place",
    "training/callbacks.py _write": "a line more, of which halves are left out when it is read",
    "training/checkpointing.py save": "a new folder, which appears when it is whole",
    "training/loop.py write": "a new folder, which appears when it is whole",
}
"""Functions that open a file for writing otherwise, and why they may."""


def test_every_writer_goes_the_one_way_or_is_listed_here():
    package = Path(vesalius.__file__).parent
    found = {
        f"{file.relative_to(package).as_posix()} {name}"
        for file in sorted(package.rglob("*.py"))
        for name in raw_writers(ast.parse(file.read_text()))
    }
    assert found == set(RAW), "write with checkpoints.plain.replacing"


class Wrong(Predictions):
    def errors(self):
        return [("a" * 100, 1, 0, 0.9)]


def forecast():
    names, times = ("heat",), tuple(map(str, range(20)))
    return Forecast(names, times, np.ones((20, 1)), 0.9, None, None, np.ones((5, 1)), "as it is")


WRITERS = {
    "picture.svg": lambda file: pictures.save("<svg>" + " " * 100 + "</svg>", file),
    "picture.png": lambda file: pictures.save(pictures.bars([("a", 1.0)] * 9, "bars"), file),
    "forecast.csv": lambda file: forecast().save(file),
    "errors.csv": lambda file: Wrong().write_errors(file),
    "recipe.toml": lambda file: write_recipe({"title": "a" * 100}, file),
    "tokenizer.json": lambda file: train_characters(["abc"]).save(file.parent),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_file_that_was_there(tmp_path, name):
    file = tmp_path / name
    file.write_text("what was there")
    with full_disk(), pytest.raises(OSError, match="large") as caught:
        WRITERS[name](file)
    assert caught.value.filename == str(file)
    assert file.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [file]
    WRITERS[name](file)
    assert file.stat().st_size > ROOM


@pytest.mark.parametrize("data", [["a" * 100, "b"], np.ones((4, 2, 30))], ids=["texts", "series"])
def test_data_that_did_not_fit_are_not_taken_for_whole_the_next_time(tmp_path, data):
    """Their file is named by its content, and used again where it is there."""
    held = "\n".join(data) if isinstance(data, list) else {"inputs": data}
    with full_disk(), pytest.raises(OSError, match="large"):
        given._kept(tmp_path, ".data", held)
    assert list(tmp_path.iterdir()) == []
    assert given._kept(tmp_path, ".data", held).stat().st_size > ROOM


@contextmanager
def full_disk():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "line",
    [
        'file.write_text("a")',
        'open(file, "w").write("a")',
        'file.open(mode="ab")',
        "np.save(file, a)",
        "os.open(file, os.O_CREAT)",
        'with replacing(file) as place, file.open("w") as opened: pass',
    ],
)
def test_a_raw_writer_is_found(line):
    assert raw_writers(ast.parse(f"def bad(file):\n    {line}")) == {"bad"}


def test_a_writer_of_the_one_way_is_not():
    line = 'with replacing(file) as place, place.open("w") as opened: np.save(opened, 1)'
    assert not raw_writers(ast.parse(f'def good(file):\n    {line}\n    file.open("rb")'))


def raw_writers(tree):
    """The names of functions that write to what ``replacing`` has not given them."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inner = {id(one) for f in functions for one in ast.walk(f) if one is not f and one in functions}
    return {
        next(f.name for f in reversed(functions) if call in ast.walk(f))
        for function in functions
        if id(function) not in inner
        for call in ast.walk(function)
        if (written := target(call)) is not None
        and not {n.id for n in ast.walk(written) if isinstance(n, ast.Name)} & given_by(function)
    }


def given_by(function):
    """The names of files that ``replacing`` gives, and of what is opened there."""
    names = set()
    for node in ast.walk(function):
        for item in node.items if isinstance(node, ast.With) else ():
            call, name = item.context_expr, item.optional_vars
            if isinstance(call, ast.Call) and isinstance(name, ast.Name):
                root = target(call)
                opened = isinstance(root, ast.Name) and root.id in names
                if called(call) == "replacing" or opened:
                    names.add(name.id)
    return names


def called(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def target(call):
    """What a call writes to, if it is one that writes."""
    if not isinstance(call, ast.Call):
        return None
    name, method = called(call), isinstance(call.func, ast.Attribute)
    owner = call.func.value if method else None
    if name in ("write_text", "write_bytes"):
        return owner
    if name in ("savez", "savez_compressed", "savefig", "tofile", "save_file"):
        return call.args[0]
    if name == "save" and isinstance(owner, ast.Name) and owner.id in ("np", "torch"):
        return call.args[0]
    if name == "serialize_file":
        return call.args[1]
    if name == "open" and isinstance(owner, ast.Name) and owner.id == "os":
        harmless = "os.devnull" in ast.unparse(call) or "O_RDONLY" in ast.unparse(call)
        return None if harmless else call.args[0]
    if name == "open":
        modes = [k.value for k in call.keywords if k.arg == "mode"] + call.args[
            0 if method else 1 :
        ]
        mode = getattr(modes[0], "value", "") if modes else "r"
        writes = isinstance(mode, str) and set(mode) & set("wax+") and len(mode) <= 3
        return (owner if method else call.args[0]) if writes else None
    return None
