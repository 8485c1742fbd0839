"""Prose that a machine can check: generated pages, the README's commands, the paper's tables."""

import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from layers import LAYERS
from processes import code, vesalius

from vesalius.equations import OneHot, embed, one_hot

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", generator().PAGES)
def test_a_generated_page_is_up_to_date(page):
    assert (ROOT / "docs" / page).read_text() == generator().PAGES[page](), "run `make docs`"


def test_the_page_on_python_lists_every_result():
    sources = (file.read_text() for file in (ROOT / "src").rglob("*.py"))
    pattern = r"class (\w+)\(.*\b(?:Shown|Pictured)\)"
    shown = {name for text in sources for name in re.findall(pattern, text)} - {"Pictured"}
    assert shown <= {kind.__name__ for kind in generator().RESULTS}


def console_sessions():
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.S):
        for session in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = session.partition("\n")
            if command.startswith("vesalius"):
                yield pytest.param(command, output, id=command)


@pytest.mark.parametrize(("command", "output"), list(console_sessions()))
def test_the_readmes_commands_print_what_it_shows(command, output):
    arguments = shlex.split(command)[1:]
    done = vesalius(*arguments)
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    shown = [line.rstrip() for line in output.strip("\n").splitlines()]
    lines = iter(printed)
    for line in shown:
        if line != "…":  # stands for lines left out; the others come in this order
            assert line in lines, line
    assert done.returncode == 0


def test_the_readmes_python_runs():
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    assert blocks
    for block in blocks:
        done = code(block)
        assert done.returncode == 0, done.stderr
        expected = re.findall(r"print\(.*\)  # (.*)", block)
        assert done.stdout.splitlines() == expected


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))])
def test_links_lead_somewhere(page):
    file = ROOT / page
    prose = re.sub(r"```.*?```", "", file.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        assert (file.parent / target).exists(), target


def test_the_readmes_tree_is_the_packages_in_the_order_of_its_layers():
    tree = re.search(r"```text\nsrc/vesalius/\n(.*?)```", README, flags=re.S).group(1)
    named = [name.removesuffix(".py") for name in re.findall(r"^    ([\w.]+)", tree, flags=re.M)]
    parts = {p.name.removesuffix(".py") for p in (ROOT / "src" / "vesalius").iterdir()}
    assert {part for part in parts if not part.startswith(("_", "py.typed"))} == set(named)
    depth = {part: level for level, layer in enumerate(LAYERS) for part in layer}
    assert [depth[name] for name in named] == sorted(depth[name] for name in named)


def test_the_index_lists_every_page():
    pages = {p.name for p in (ROOT / "docs").glob("*.md")} - {"index.md"}
    index = (ROOT / "docs" / "index.md").read_text()
    assert pages == set(re.findall(r"\]\(([\w-]+\.md)\)", index))


def table(heading):
    page = (ROOT / "docs" / "words.md").read_text()
    rows = page.split(f"## {heading}")[1].split("\n## ")[0]
    cells = [re.split(r"(?<!\\)\|", row)[1:-1] for row in rows.splitlines() if row.startswith("|")]
    return [[cell.strip() for cell in row] for row in cells]


def test_table_2_shows_one_hot_vectors():
    for index, _, _, vector in table("Table 2")[2:5]:
        shown = [int(digit) for digit in re.findall(r"\d", vector)[:5]]
        assert one_hot(int(index) - 1, 100)[:5].tolist() == shown


def test_table_3_selects_an_embedding_for_each_token(rng):
    words, _, _, vocabulary, *_ = table("Table 3")
    indices = [int(v.translate(SUBSCRIPTS)[1:]) for v in vocabulary[1:]]
    assert indices == [1344, 23500, 9003, 6, 3250, 713, 89, 23500, 7]
    E = rng.normal(size=(4, 30000))
    X = embed(E, OneHot([index - 1 for index in indices], 30000))
    assert X.shape == (4, 9)
    np.testing.assert_array_equal(X[:, 6], E[:, 88])
    assert words[2] == words[8] == "never"
    np.testing.assert_array_equal(X[:, 1], X[:, 7])


def test_table_7_has_the_five_tokenisations_of_the_paper():
    ways = [row[1].split(" · ") for row in table("Table 7")[2:]]
    assert [len(way) for way in ways] == [9, 10, 9, 8, 9]
    assert ways[0][0] == "I'm"
    assert ways[1][:2] == ["I", "'m"]
    assert all(way[:2] == ["I", "am"] for way in ways[2:])
    assert all("New York" in way for way in ways[2:])
    assert ["." in way for way in ways] == [True, True, True, False, False]
    assert ways[4][2:4] == ["look", "##ing"]
    assert "".join(ways[0]) == "I'm looking for a job in New York.".replace(" ", "")
    assert "".join(ways[1]) == "".join(ways[0])


RUN = ["own-weights.md", "attention.md", "analyses.md", "generation.md", "tagging.md"]
TUNED = ["finetuning.md", "images.md", "series.md"]


@pytest.mark.parametrize("name", [*RUN, "answering.md", *TUNED])
def test_the_pages_code_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / name).read_text()
    examples = "\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.S))
    done = code(examples)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == re.findall(r"print\(.*\)  # (.*)", examples)
