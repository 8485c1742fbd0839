"""Sampling is what it says: step by step as Transformers does it, and drawn as the odds are."""

import numpy as np
import pytest
import torch
from scipy import stats
from transformers.generation import logits_process as theirs

from vesalius.errors import ImpossibleSetting
from vesalius.generation.sampling import Draw, Sampling

LOGITS = np.random.default_rng(5).normal(0, 2, 50).astype(np.float32)
BEFORE = np.array([3, 17, 3, 40])


def probabilities(how, logits=LOGITS, before=BEFORE):
    return Draw(logits, how, before, 0.5).probabilities


def by_transformers(*steps):
    ids, scores = torch.from_numpy(BEFORE)[None], torch.from_numpy(LOGITS)[None].double()
    for step in steps:
        scores = step(ids, scores)
    return torch.softmax(scores, -1)[0].numpy()


@pytest.mark.parametrize(
    ("how", "steps"),
    [
        ({}, []),
        ({"temperature": 0.6}, [theirs.TemperatureLogitsWarper(0.6)]),
        ({"top_k": 7}, [theirs.TopKLogitsWarper(7)]),
        ({"top_k": 500}, []),
        ({"top_p": 0.6}, [theirs.TopPLogitsWarper(0.6)]),
        ({"top_p": 1.0}, []),
        ({"min_p": 0.1}, [theirs.MinPLogitsWarper(0.1)]),
        (
            {"repetition_penalty": 1.7},
            [theirs.RepetitionPenaltyLogitsProcessor(1.7)],
        ),
        (
            {"temperature": 1.5, "top_k": 20, "top_p": 0.9, "min_p": 0.05}
            | {"repetition_penalty": 0.8},
            [
                theirs.RepetitionPenaltyLogitsProcessor(0.8),
                theirs.TemperatureLogitsWarper(1.5),
                theirs.TopKLogitsWarper(20),
                theirs.TopPLogitsWarper(0.9),
                theirs.MinPLogitsWarper(0.05),
            ],
        ),
    ],
)
def test_the_odds_are_those_of_transformers(how, steps):
    got = probabilities(Sampling(**how))
    np.testing.assert_allclose(got, by_transformers(*steps), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("how", [{}, {"temperature": 0.5, "top_k": 9}, {"top_p": 0.8}])
def test_tokens_are_drawn_as_often_as_the_odds_say(how):
    random = np.random.default_rng(1)
    sampling = Sampling(**how)
    drawn = [Draw(LOGITS, sampling, BEFORE, random.random()).token for _ in range(20_000)]
    counts, odds = np.bincount(drawn, minlength=50), probabilities(sampling)
    assert (counts[odds == 0] == 0).all()
    likely = odds * 20_000 >= 5  # what a chi-squared test asks for; rare ones are summed
    seen = np.append(counts[likely], counts[~likely].sum())
    wanted = np.append(odds[likely], odds[~likely].sum()) * 20_000
    real = wanted > 0
    assert stats.chisquare(seen[real], wanted[real]).pvalue > 1e-3


def test_the_whole_range_of_chance_is_covered():
    logits = np.array([0, -np.inf, 0, -np.inf], np.float32)
    tokens = [Draw(logits, Sampling(), BEFORE[:0], c).token for c in (0, 0.49, 0.5, 1 - 1e-16)]
    assert tokens == [0, 0, 2, 2]


def test_greedy_takes_the_likeliest_and_the_first_of_equals():
    how = Sampling(temperature=0)
    draw = Draw(np.array([1, 3, 3, 2], np.float32), how, BEFORE[:0], 0.99)
    assert draw.token == 1
    assert draw.kept.tolist() == [False, True, False, False]
    assert draw.probabilities.tolist() == [0, 1, 0, 0]
    penalised = Sampling(temperature=0, repetition_penalty=2)
    assert Draw(draw.logits, penalised, np.array([1]), 0).token == 2


@pytest.mark.parametrize("shift", [0, 50, -50])
@pytest.mark.parametrize("more", [{}, {"top_k": 3}, {"top_p": 0.9}, {"min_p": 0.1}])
def test_the_smallest_temperatures_are_greedy(shift, more):
    """Divided by them, logits overflow."""
    logits = np.array([1, 3, 3.5, -2, 0], np.float32) + np.float32(shift)
    for temperature in (1e-300, 1e-308, 5e-324):
        draw = Draw(logits, Sampling(temperature, **more), BEFORE[:0], 0.99)
        assert draw.token == 2
        assert draw.probabilities.tolist() == [0, 0, 1, 0, 0]
        assert all(np.isfinite(c["tempered"]) for c in draw.to_json()["candidates"])


@pytest.mark.parametrize("penalty", [1e-300, 1e300])
def test_a_logit_of_0_stays_0_under_any_penalty(penalty):
    """In float32 such a penalty is infinite, and 0 times infinity is no number."""
    draw = Draw(np.array([0, 1], np.float32), Sampling(repetition_penalty=penalty), [0], 0.5)
    assert draw.penalised.tolist() == [0, 1]


@pytest.mark.parametrize("logits", [[1e-45, -3.4e38, -3.4e38], [-1, 1, 1e-45], [3.4e38, -3.4e38]])
@pytest.mark.parametrize("temperature", [1e-308, 5e-324, 1])
def test_logits_far_apart_stay_numbers(logits, temperature):
    draw = Draw(np.array(logits, np.float32), Sampling(temperature), BEFORE[:0], 0.5)
    assert np.isfinite(draw.tempered).all()
    assert draw.token == np.argmax(logits)
    assert draw.probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize(("penalty", "token"), [(1e-300, 1), (1e300, 2)])
def test_the_strongest_penalties_and_rewards_leave_numbers(penalty, token):
    draw = Draw(
        np.array([1, 3, 2], np.float32), Sampling(1.0, repetition_penalty=penalty), [1], 0.9
    )
    assert np.isfinite(draw.penalised).all()
    assert draw.token == token


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"temperature": -0.1}, "temperature should be 0 or more, got -0.1"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_k": 0}, "top_k should be 1 or more, got 0"),
        ({"top_p": 0.0}, r"top_p should be in \(0, 1\], got 0"),
        ({"top_p": 1.1}, "top_p"),
        ({"min_p": -0.5}, "min_p"),
        ({"min_p": 1.5}, "min_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty should be above 0"),
    ],
)
def test_settings_out_of_range_are_refused(how, message):
    with pytest.raises(ImpossibleSetting, match=message):
        Sampling(**how)


def test_a_draw_in_json_has_the_likeliest_and_what_was_drawn():
    draw = Draw(LOGITS, Sampling(top_k=20), BEFORE, 0.97)
    shown = draw.to_json(most=3)
    ids = [row["id"] for row in shown["candidates"]]
    assert ids == [*LOGITS.argsort()[::-1][:3].tolist(), draw.token]
    assert (shown["token"], shown["kept"]) == (draw.token, 20)
    for row in shown["candidates"]:
        assert row["token"] == str(row["id"])
        assert row["probability"] == draw.probabilities[row["id"]]
        assert row["kept"] is True
    assert len(draw.to_json()["candidates"]) >= 8
