"""Prose that a machine can check: generated pages, examples, numbers, the paper's tables."""

import importlib
import re
import shlex
import sys
import tomllib
from pathlib import Path

import click
import numpy as np
import pytest
from layers import LAYERS
from processes import code

import vesalius as vs
from vesalius.cli import cli
from vesalius.equations import OneHot, embed, one_hot

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PICTURES = (ROOT / "docs" / "pictures.py").read_text()
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def _of_docs(name):
    """A module of the folder docs, whose modules import each other."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "docs"))


generate, marked = _of_docs("generate"), _of_docs("marked")
specimen = sys.modules["transfer_tables"].specimen


@pytest.mark.parametrize("page", generate.PAGES)
def test_a_generated_page_is_up_to_date(page):
    assert (ROOT / "docs" / page).read_text() == generate.PAGES[page](), "run `make docs`"


def test_a_figure_of_the_paper_is_never_cited_by_its_number_alone():
    """A number in brackets is an equation's, and the page of citations takes it for one."""
    for file in (ROOT / "src" / "vesalius").rglob("*.py"):
        for text in generate._prose(file):
            assert not re.search(r"\(Figures? [^)]*\)[^.]*\(\d", text), f"{file.name}: {text}"


def test_the_page_on_python_lists_every_result():
    sources = (file.read_text() for file in (ROOT / "src").rglob("*.py"))
    pattern = r"class (\w+)\(.*\b(?:Shown|Pictured)\)"
    shown = {name for text in sources for name in re.findall(pattern, text)} - {"Pictured"}
    assert shown <= {kind.__name__ for kind in generate.RESULTS}


WRITTEN = {file.name: file.read_text() for file in generate.WRITTEN}
EVERY = {**WRITTEN, "figures.md": (ROOT / "docs" / "figures.md").read_text()}


def pages_with(pattern, pages=EVERY):
    return [name for name, text in pages.items() if re.search(pattern, text, flags=re.M)]


@pytest.mark.parametrize("name", pages_with("<!-- = ", WRITTEN))
def test_the_numbers_of_a_page_are_those_that_were_recorded(name):
    assert marked.filled(WRITTEN[name]) == WRITTEN[name], "run `make docs`"


@pytest.mark.parametrize("name", pages_with("^```python$"))
def test_the_pages_python_runs_and_prints_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = code(marked.python(EVERY[name]))
    assert done.returncode == 0, done.stderr
    assert marked.with_printed(EVERY[name], done.stdout.splitlines()) == EVERY[name]


def shell_blocks(name):
    return list(marked.blocks(EVERY[name], *marked.SHELL))


@pytest.mark.parametrize("name", pages_with("^```(sh|console)"))
def test_the_pages_commands_run_and_print_what_it_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in shell_blocks(name):
        if block.runs_here:
            for command, output in marked.commands(block):
                done = marked.run(command)
                assert done.returncode == 0, f"{command}: {done.stderr}"
                if block.language == "console":
                    assert marked.as_shown(output, done.stdout) == output


def named_commands():
    """Every command of the pages, in sentences too and where it cannot be run."""
    for name, text in EVERY.items():
        found = [command for block in shell_blocks(name) for command, _ in marked.commands(block)]
        prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
        found += [" ".join(inline.split()) for inline in re.findall(r"`(vesalius [^`]+)`", prose)]
        for command in dict.fromkeys(found):
            if command.startswith("vesalius "):
                yield pytest.param(command, id=f"{name}: {command}")


@pytest.mark.parametrize("command", list(named_commands()))
def test_a_command_that_a_page_names_is_one_that_there_is(command):
    words = shlex.split(command.replace("…", ""), comments=True)[1:]
    about, context = cli, click.Context(cli)
    while isinstance(about, click.Group) and words and not words[0].startswith("-"):
        assert words[0] in about.commands, words[0]
        about = about.commands[words[0]]
        context, words = click.Context(about, parent=context), words[1:]
    _, left, _ = about.make_parser(context).parse_args(words)  # an unknown option is an error
    assert left == [], "an argument that the command does not take"


def test_what_was_left_out_of_an_output_stays_so():
    shown = "loss 0.1\n…\n6 rows\n"
    assert marked.as_shown(shown, "a table\nloss 0.2\nmore\n7 rows\n") == "loss 0.2\n…\n7 rows\n"
    assert marked.as_shown("loss 0.1\n", "loss 0.2\nmore\n") == "loss 0.2\nmore\n"


def test_results_of_specimens_that_ship_no_more_say_so():
    present = [one for one in marked.results.runs() if one["task"] == "ewt"]
    now = [{**one, "specimen": specimen(one["model"])} for one in present if "specimen" in one]
    earlier = [{**one, "specimen": "0" * 12} for one in now]
    assert "Rows of bert are of specimens that shipped then" in marked.results.tables(earlier)
    assert "specimens" not in marked.results.tables(now)


def test_the_head_that_the_pages_look_at_is_the_one_that_the_answer_depends_on_most():
    named = re.search(r'HEAD = "gpt/dissect/mu\[(\d,\d)\]', PICTURES).group(1)
    best = vs.ablate("gpt", "He shook his", "P[*,*]").ranked()[0][0]
    assert best == f"P[{named}]", "the pages and pictures tell of another head"
    for name in ("attention.md", "analyses.md", "explorer.md", "README.md"):
        assert {*re.findall(r"\bmu\[([1-9],[1-9])\]", EVERY[name])} >= {named}


def test_the_unit_in_the_picture_of_gates_is_the_one_that_holds_most():
    named = int(re.search(r"c\[2,16\]\?at=(\d+)", PICTURES).group(1))
    story = re.search(r'STORY = quote\("(.*?)"\)', PICTURES).group(1)
    memory = vs.gates(vs.dissect("lstm", story), layer=2)["c"]
    assert memory.shape[1] == 16
    assert np.abs(memory[:, -1]).argmax() == named


def test_a_mark_does_not_begin_a_line_where_it_would_end_the_paragraph():
    with pytest.raises(ValueError, match="begins with a mark"):
        marked.filled("words\n<!-- = 1 + 1 -->2<!-- / --> more words\n")
    assert marked.filled("of <!-- = 1 + 1 -->3<!-- / --> ") == "of <!-- = 1 + 1 -->2<!-- / --> "


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))])
def test_links_lead_somewhere(page):
    file = ROOT / page
    prose = re.sub(r"```.*?```", "", file.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        assert (file.parent / target).exists(), target


def test_the_readmes_tree_is_the_packages_in_the_order_of_its_layers():
    tree = re.search(r"```text\nsrc/vesalius/\n(.*?)```", README, flags=re.S).group(1)
    rows = [re.findall(r"([a-z]+)(?:/|\.py)(?= )", line) for line in tree.splitlines()]
    parts = {p.name.removesuffix(".py") for p in (ROOT / "src" / "vesalius").iterdir()}
    listed = [name for row in rows for name in row]
    assert {part for part in parts if not part.startswith(("_", "py.typed"))} == set(listed)
    assert len(listed) == len(set(listed))
    depth = {part: level for level, layer in enumerate(LAYERS) for part in layer}
    firsts = [depth[row[0]] for row in rows]
    assert firsts == sorted(firsts)


PLACES = (ROOT, *(ROOT / p for p in ("src/vesalius", "frontend/src", "docs", "tests")))
FILES = {p.name for p in ROOT.rglob("*.py") if ".venv" not in p.parts} | {
    p.name for p in (ROOT / "frontend" / "src").rglob("*") if p.is_file()
}


def named_files(page):
    """What a page names as a file or folder of this repository, or as a module of the package.

    Settings of recipes such as data.split look like modules, so that pages name these in full.
    """
    prefix = r"(vesalius\.)?" if page.endswith(".py") else r"vesalius\."
    for name in re.findall(r"`([\w.]+(?:/[\w.]*)*)`", (ROOT / page).read_text()):
        if "NAME" in name or name in ELSEWHERE:
            continue
        if re.search(r"\.(py|svelte)$|/.*\.ts$|^(tests|docs|frontend|src)/", name):
            yield name
        elif re.fullmatch(rf"{prefix}({'|'.join(PACKAGES)})(\.[a-z_]+)+", name):
            yield name.removeprefix("vesalius.").replace(".", "/")


ELSEWHERE = {"convert_hf_to_gguf.py", "prepare.py", "ptb_word_lm.py"}
"""Files of other projects."""
PACKAGES = [p.name for p in (ROOT / "src" / "vesalius").iterdir() if (p / "__init__.py").exists()]


def is_there(name):
    if "/" not in name:
        return name in FILES
    module = ROOT / "src" / "vesalius" / name
    there = [place / name for place in PLACES] + [module.with_suffix(".py")]
    if module.parent.with_suffix(".py").is_file():  # a name inside a module
        return re.search(rf"\b{module.name}\b", module.parent.with_suffix(".py").read_text())
    inside = module.parent / "__init__.py"
    in_package = inside.is_file() and re.search(rf"\b{module.name}\b", inside.read_text())
    return any(path.exists() for path in there) or in_package


@pytest.mark.parametrize(
    "page",
    [
        *("README.md", "CONTRIBUTING.md"),
        *(f"docs/{p.name}" for p in sorted(ROOT.glob("docs/*.md"))),
        *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "src").rglob("*.py"))),
    ],
)
def test_files_and_modules_that_are_named_are_there(page):
    missing = [name for name in named_files(page) if not is_there(name)]
    assert not missing


def test_the_index_lists_every_page():
    pages = {p.name for p in (ROOT / "docs").glob("*.md")} - {"index.md"}
    index = (ROOT / "docs" / "index.md").read_text()
    assert pages == set(re.findall(r"\]\(([\w-]+\.md)\)", index))


EXPLORER = (ROOT / "docs" / "explorer.md").read_text()


def of_the_page(name, pattern):
    """What a file of the page's source lists under a name."""
    text = (ROOT / "frontend" / "src" / "lib" / name).read_text()
    return re.search(pattern, text, flags=re.S).group(1)


def test_the_page_on_the_explorer_has_all_keys():
    listed = of_the_page("keys.ts", r"KEYS: .*? = \[\n(.*?)\n\];")
    keys = " ".join(re.findall(r'^  \["(.*?)",', listed, flags=re.M)).split()
    spelled = {"←": "arrows", "↑": "arrows", "→": "arrows", "↓": "arrows", "–": "1"}
    cells = [row.split("|")[1] for row in EXPLORER.splitlines() if row.startswith("| ")]
    told = {key or word for key, word in re.findall(r"`([^`]+)`|(\w+)", " ".join(cells))}
    assert {spelled.get(key, key) for key in keys} <= told


def test_the_page_on_the_explorer_has_all_rooms_with_their_keys():
    rooms = re.findall(r'"(\w+)"', of_the_page("address.ts", r"export const ROOMS = \[(.*?)\]"))
    told = re.findall(r"^\| `(\d)` \| (\w+)", EXPLORER, flags=re.M)
    assert told == [(str(k), room.capitalize()) for k, room in enumerate(rooms, 1)]


def test_the_page_on_the_explorer_has_all_that_the_server_answers():
    section = EXPLORER.split("## The HTTP interface")[1]
    for file in (ROOT / "src" / "vesalius" / "explorer").glob("*.py"):
        for path in re.findall(r'@app\.\w+\("/api/([^"]*)"', file.read_text()):
            parts = [part for part in path.split("/") if not part.startswith("{")]
            assert "/".join(parts[-1:]) in section, path


@pytest.mark.parametrize("place", ["README.md", "docs/index.md", "CITATION.cff", "--help"])
def test_the_paper_is_cited_with_its_authors_title_and_link(place):
    text = cli.epilog if place == "--help" else (ROOT / place).read_text(encoding="utf-8")
    words = " ".join(re.sub(r"[*\[\]]", "", text).split())
    link = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Paper"]
    names = ("Majd", "Saleh", "Stéphane", "Paquelet", "Anatomy of Neural Language Models", "2024")
    assert all(name in words for name in (*names, link))


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
