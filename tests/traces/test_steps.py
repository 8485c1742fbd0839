"""Values of steps in the terminal: grids that fit, with their tokens, what is left out is said."""

import numpy as np
import pytest
from strategies import filled, small

from vesalius.equations import Step, find
from vesalius.traces.dissection import dissect
from vesalius.traces.steps import GRIDS, grid, grids
from vesalius.views.shown import Table

WIDTHS = [80, 120]


def words(count):
    return [f" word{i}" for i in range(count)]


def scores(n):
    lower = np.tril(np.ones((n, n)))
    return lower / lower.sum(axis=1, keepdims=True)


def step(symbol, value, **place):
    return Step(symbol, place, find("attention_scores"), value)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n", [1, 2, 7, 12, 30, 100])
@pytest.mark.parametrize("symbol", ["mu", "H", "P"])
def test_no_line_is_wider_than_the_terminal(n, width, symbol):
    rng = np.random.default_rng(n)
    value = scores(n) if symbol == "mu" else rng.normal(size=(n, 64) if symbol == "P" else (64, n))
    place = {"layer": 1} if symbol == "H" else {"layer": 1, "head": 2}
    lines = grid(step(symbol, value * 1e-7 if symbol == "H" else value, **place), words(n), width)
    assert max(map(len, lines)) <= width
    assert len(lines) <= 27


def test_attention_is_a_grid_of_queries_and_keys():
    lines = grid(step("mu", scores(3), layer=1, head=1), ["He", " shook", " his"], 80)
    assert lines[0].startswith("mu[1,1] (25): rows are queries, columns are keys")
    assert lines[1].split() == ["He", "·sho…", "·his"]
    assert lines[2].split() == ["1", "He", "1.000"]  # what is exactly 0 is blank
    assert lines[4].split() == ["3", "·his", "0.333", "0.333", "0.333"]


def test_a_grid_of_attention_says_which_numbers_are_shares_and_where_they_stand():
    lines = grid(step("mu", scores(3), layer=1, head=1), ["He", " shook", " his"], 80)
    shares = [[round(share, 3) for _, _, share in line.shares] for line in lines[2:5]]
    assert shares == [[1.0], [0.5, 0.5], [0.333, 0.333, 0.333]]
    for line in lines[2:5]:
        for start, end, share in line.shares:
            assert float(line[start:end]) == pytest.approx(share, abs=1e-3)
    assert not any(
        getattr(line, "shares", ()) for line in grid(step("S", np.zeros((3, 3))), "abc", 80)
    )


def test_more_tokens_are_told_in_percent_and_more_still_in_part():
    lines = grid(step("mu", scores(15), layer=1, head=1), words(15), 80)
    assert lines[1].split() == [str(i) for i in range(1, 16)]
    assert lines[5].split() == ["4", "·word3", "25", "25", "25", "25"]
    assert "Shares are in percent; columns are numbered as the rows." in lines
    lines = grid(step("mu", scores(40), layer=1, head=1), words(40), 80)
    assert any(line.startswith("The first 17 of 40 tokens") for line in lines)


def test_a_mask_shows_where_it_is_minus_infinity():
    mask = np.where(np.tril(np.ones((2, 2))), 0, -np.inf)
    lines = grid(step("S", mask), ["a", "b"], 80)
    assert lines[2].split() == ["1", "a", "0", "-inf"]
    assert lines[3].split() == ["2", "b", "0", "0"]


def test_values_of_a_matrix_and_of_a_vector_are_exact_to_four_digits():
    value = np.array([[1.23456, -2e-9], [3, 1e10]])
    lines = grid(step("H", value, layer=1), ["a", "b"], 80)
    assert [line.split() for line in lines[1:4]] == [
        ["a", "b"],
        ["1", "1.235", "-2e-09"],
        ["2", "3", "1e+10"],
    ]
    lines = grid(step("z", np.arange(1000) / 8), [], 80)
    assert lines[1].split()[:3] == ["1", "0", "0.125"]
    assert lines[-2].endswith("of 1000; --save writes all.")
    assert grid(step("J", np.array(0.25)), [], 80)[0] == "J (25) = 0.25"


@pytest.mark.parametrize("family", ["gpt2", "lstm", "bert", "vit", "tst", "ffnn"])
def test_every_step_can_be_drawn(family):
    config = small(family)
    rng = np.random.default_rng(1)
    given = {"vit": (6, 6, 3), "tst": (4, 5)}.get(family)
    given = [3, 1, 4, 1][: config.context or 4] if given is None else rng.random(given)
    trace = dissect(filled(config), given)
    shown = [grid(one, trace.tokens(), 80) for one in trace.steps]
    assert max(len(line) for lines in shown for line in lines) <= 80
    told = list(grids(trace.steps, trace.tokens(), 80))
    if len(trace.steps) > GRIDS:
        assert f"{len(trace.steps) - GRIDS} more steps are left out" in told[-1]


@pytest.mark.parametrize("family", ["gpt2", "lstm", "bert"])
def test_what_a_step_is_is_said_once(family):
    trace = dissect(filled(small(family)), [3, 1, 4, 1])
    *_, legend = (part for part in trace.told(everything=True) if isinstance(part, Table))
    titles = [title for _, _, title in legend.rows]
    assert len(set(titles)) == len(titles)
    assert {step.equation.title for step in trace.steps} == set(titles)
    layers = [names for _, names, _ in legend.rows if names.startswith("H[0")]
    assert layers == ([] if family == "lstm" else ["H[0]"])
    if family == "gpt2":
        assert ("(24)", "q[l,m], k[l,m], v[l,m]") in [row[:2] for row in legend.rows]


def test_tokens_that_cannot_be_seen_take_one_line():
    lines = grid(step("mu", scores(3), layer=1, head=1), ["\n", "\x1b[31m", ""], 80)
    assert all("\n" not in line and "\x1b" not in line for line in lines)
