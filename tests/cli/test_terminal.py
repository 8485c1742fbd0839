"""Tables in a terminal: at 80 columns no number and no name is split."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from processes import vesalius
from rich.cells import cell_len
from rich.console import Console

from vesalius.cli import cli, terminal
from vesalius.families import FAMILIES, names
from vesalius.views.shown import Cell, Table


def require_whole(table, lines, width):
    """Every number and name on one line, every word of prose too, and no line too long."""
    plain = [[terminal._text(cell).plain for cell in row] for row in table.rows]
    for row in plain:
        for i, text in enumerate(row):
            parts = text.split() if i in {*table.prose, *table.beneath} else text.split("\n")
            for part in parts:
                assert any(part.strip() in line for line in lines), (part, lines)
    assert max(map(cell_len, lines[1:] if table.title else lines)) <= width  # a title is prose


@pytest.fixture
def tables(monkeypatch):
    """All tables that were printed, with their lines."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("VESALIUS_DATA", "")
    seen, lay_out = [], terminal.laid_out

    def watched(table, console):
        text = lay_out(table, console)
        seen.append((table, text.plain.split("\n")))
        return text

    monkeypatch.setattr(terminal, "laid_out", watched)
    return seen


def run(*arguments):
    cli.main(list(arguments), standalone_mode=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["models"],
        *(["models", name] for name in FAMILIES),
        ["equations", "--all"],
        *(["equations", number] for number in ("1", "28", "40", "43")),
        ["specimens"],
        ["specimens", "bert"],
        ["recipes"],
        ["data", "list"],
        ["data", "info", "stories"],
        ["data", "info", "wikitext-2"],
        ["tokenize", "gpt", "I forgot to take my umbrella — naïve 🌧 antidisestablishmentarianism"],
        ["similar", "gpt", " king"],
        ["similar", "ffnn", "rain", "--among", "README.md"],
        ["embed", "gpt", "--what", "static", "The rain fell and fell until nobody remembered."],
    ],
    ids=" ".join,
)
def test_no_number_or_name_is_split_at_80_columns(tables, tmp_path, monkeypatch, arguments):
    (tmp_path / "README.md").write_text("It rained and rained until the river rose.\nA king.\n")
    monkeypatch.chdir(tmp_path)
    run(*arguments)
    assert tables or arguments == ["data", "info", "stories"]
    for table, lines in tables:
        require_whole(table, lines, 80)


def test_no_number_or_name_of_a_count_or_a_cost_is_split_at_80_columns(tables):
    for name in names():
        run("count", name, "--cost", "--batch", "64")
    assert len(tables) == 3 * len(names())
    for table, lines in tables:
        require_whole(table, lines, 80)


words = st.text(st.characters(categories=("Lu", "Nd", "Sm")), min_size=1, max_size=9)
prose = st.lists(words, min_size=1, max_size=12).map(" ".join)


@example(
    rows=[("0", Cell("0"), "0", "0" * 9), ("0" * 8, Cell("0"), "0", "0")],
    width=20,
    beneath=(2, 3),
)
@given(
    rows=st.lists(st.tuples(words, words.map(Cell), prose, prose), min_size=1, max_size=4),
    width=st.integers(20, 100),
    beneath=st.sampled_from([(), (2,), (2, 3)]),
)
def test_no_table_splits_a_name_at_any_width(rows, width, beneath):
    table = Table(("a", "b", "c", "d"), rows, right=(1,), prose=(2, 3), beneath=beneath)
    console = Console(width=width)
    with console.capture() as printed:
        console.print(terminal.laid_out(table, console))
    require_whole(table, printed.get().split("\n"), width)


def test_formulas_go_beneath_their_rows_where_there_is_little_room(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    run("count", "gpt2")
    lines = capsys.readouterr().out.split("\n")
    (at,) = [i for i, line in enumerate(lines) if line.startswith(" E ")]
    assert lines[at].split() == ["E", "embedding", "38,597,376", "31.0", "%"]
    assert lines[at + 1].strip() == "d_e |V| = 768 × 50,257"


def test_an_address_stays_one_word(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    terminal.show("https://example.org/" + "a" * 60)
    assert "https://example.org/" + "a" * 60 in capsys.readouterr().out


def test_one_empty_line_stands_between_two_tables(capsys):
    one = Table(("name", "number"), [("a", "1")])
    terminal.show("first", one, one, "last")
    rows = [" name   number", " ─────────────", " a      1"]
    assert capsys.readouterr().out.split("\n") == ["first", "", *rows, "", *rows, "", "last", ""]


def test_attention_is_shaded_by_its_shares_in_a_terminal_and_plain_in_a_pipe(monkeypatch):
    command = ("dissect", "gpt", "He shook his head", "--only", "mu[1,1]")
    plain = vesalius(*command).stdout
    for name, value in (("FORCE_COLOR", "1"), ("COLORTERM", "truecolor"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    coloured = vesalius(*command).stdout
    painted = re.compile(r"\x1b\[[\d;]*?48;2;(\d+);(\d+);(\d+)m *([\d.]+)\x1b\[0m")
    shares: dict[tuple[str, ...], list[float]] = {}
    for *colour, share in painted.findall(coloured):
        shares.setdefault(tuple(colour), []).append(float(share))
    assert len(shares) > 1
    ranges = sorted((min(of), max(of)) for of in shares.values())
    assert all(most <= least for (_, most), (least, _) in pairwise(ranges))
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
