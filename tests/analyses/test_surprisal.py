"""The surprisal of every token, against the equations, against evaluate, and in the terminal."""

import json
import math

import numpy as np
import pytest
from processes import is_complaint, shown, vesalius
from strategies import filled, small

import vesalius as vs
from vesalius.errors import EmptySequence, WrongKind
from vesalius.evaluation import BATCH, STEP, _score, predicting
from vesalius.tokenizers import train_characters
from vesalius.tokenizers.kinds import END_OF_TEXT

TEXT = "He shook his head and closed the door."


@pytest.mark.parametrize("name", ["gpt", "lstm", "rnn"])
def test_it_is_that_of_the_equations(name):
    model = vs.load(name)
    found = vs.surprisal(model, TEXT)
    ids = [model.tokenizer.special[END_OF_TEXT], *model.tokenizer.encode(TEXT)]
    trace = vs.dissect(model, ids, "Y_hat")
    np.testing.assert_allclose([t.bits for t in found.tokens], trace.surprisal()[1:], rtol=1e-4)
    odds = trace["Y_hat"][:, :-1]
    for i, token in enumerate(found.tokens):
        assert TEXT[token.start : token.end] == token.token
        assert token.probability == pytest.approx(odds[token.id, i], rel=1e-3)
        assert token.rank == 1 + (odds[:, i] > odds[token.id, i]).sum()


@pytest.mark.parametrize("name", ["gpt", "ffnn"])
def test_its_sum_is_the_loss_that_evaluate_measures_on_texts_longer_than_the_context(name):
    model, text = vs.load(name), " ".join([TEXT] * 40)
    found = vs.surprisal(model, text)
    ids = [model.tokenizer.special[END_OF_TEXT], *model.tokenizer.encode(text)]
    assert len(ids) > model.config.context
    nats, right, count = _score(model, np.array(ids), None)
    assert len(found.tokens) == count
    assert found.bits == pytest.approx(nats / math.log(2), rel=1e-4)
    assert found.perplexity == pytest.approx(math.exp(nats / count), rel=1e-3)
    assert sum(token.rank == 1 for token in found.tokens) == right


def test_a_long_text_of_a_recurrent_network_keeps_its_order():
    model = filled(small("rnn", vocabulary=7))
    ids = np.arange(100 * BATCH * STEP + 2) % 7
    starts = [targets[0] for _, targets in predicting(model, ids, in_order=True)]
    assert starts == [ids[1 + i * STEP] for i in range(len(starts))]


def test_a_first_token_that_nothing_stands_before_has_none():
    model = filled(small("gpt2", vocabulary=4))
    model.tokenizer = train_characters(["abcd"])
    first, second = vs.surprisal(model, "ab").tokens
    assert (first.probability, first.bits, first.rank) == (None, None, None)
    assert second.bits == pytest.approx(-math.log2(second.probability))
    with pytest.raises(EmptySequence, match="at least 2 tokens"):
        vs.surprisal(model, "a")


def test_the_terminal_tells_every_token_and_json_is_the_same(tmp_path):
    rows = shown("surprisal", "gpt", TEXT)
    found = vs.surprisal("gpt", TEXT)
    for token in found.tokens:
        (line,) = [line for line in rows.splitlines() if line.startswith(f" {token.token!r} ")]
        assert line.split()[-1] == f"{token.rank:,}"
        assert f"{token.bits:.2f}" in line
    assert f"{len(found.tokens)} tokens, {found.bits:.2f} bits" in rows
    (tmp_path / "text.txt").write_text(TEXT)
    told = shown("surprisal", "gpt", "--file", str(tmp_path / "text.txt"), "--json")
    assert json.loads(told) == json.loads(json.dumps(found.to_json()))
    assert vesalius("surprisal", "gpt", "-", "--json", input=TEXT).stdout == told


def test_a_model_that_does_not_predict_the_next_token_is_refused():
    with pytest.raises(WrongKind, match="needs a model of the next token of a text, not bert"):
        vs.surprisal("bert", TEXT)
    done = vesalius("surprisal", "gpt", TEXT, "--file", "-")
    assert is_complaint(done.stderr)
    assert (done.returncode, "TEXT or --file, one of them" in done.stderr) == (2, True)
