"""Verbs that ask a model at work."""

import io
import json
import sys

import click
import numpy as np
import pytest
from processes import is_complaint, shown, vesalius

import vesalius as vs
from vesalius.cli import cli
from vesalius.errors import WrongKind


def test_unfold_tells_the_terms_of_a_number():
    told = json.loads(shown("unfold", "gpt", "He shook his", "Z", "769", "2", "--json"))
    assert told["step"] == "Z"


def test_lens_shows_every_depth_and_the_target(tmp_path):
    text = shown("lens", "gpt", "He shook his", "--target", " head")
    for word in ("H[0]", "C[4]", "·head", "probability", "rank"):
        assert word in text
    file = tmp_path / "lens.png"
    told = json.loads(shown("lens", "gpt", "He shook his", "--json", "--plot", str(file)))
    best = vs.dissect("gpt", "He shook his").likeliest(1)[0][1]
    assert told["likeliest"][-1][-1][0]["name"] == best
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_second_text_is_read_behind_the_first():
    trace = vs.dissect("bert", ("It rained.", "He ran."))
    told = json.loads(shown("dissect", "bert", "It rained.", "--second", "He ran.", "--json"))
    assert told["tokens"] == trace.tokens()
    asked = ["bert", "It rained.", "H[4]", "3", "5", "--second", "He ran.", "--json"]
    assert json.loads(shown("unfold", *asked))["value"] == float(trace["H[4]"][3, 5])
    for more in (["gpt", "It"], ["vit", "shoe.png"]):
        with pytest.raises(WrongKind, match="a pair of texts is for bert with two segments"):
            cli.main(["dissect", *more, "--second", "He"], standalone_mode=False)
    with pytest.raises(click.UsageError, match="--second goes with TEXT"):
        cli.main(["dissect", "bert", "--ids", "1 2", "--second", "He"], standalone_mode=False)


def test_heads_are_sorted_by_what_is_asked(tmp_path):
    text = "He shook his head, and he shook his"
    file = tmp_path / "heads.svg"
    arguments = ["heads", "gpt", text, "It was", "--by", "induction", "--plot", str(file)]
    told = json.loads(shown(*arguments, "--json"))
    shares = [head["induction"] for head in told["heads"]]
    assert shares == sorted(shares, reverse=True)
    assert told["texts"] == 2
    assert file.read_text().startswith("<svg")
    table = shown("heads", "gpt", text, "--by", "induction", "--no-effects")
    assert "effect" not in table
    assert "queries that had such a position" in table


@pytest.mark.parametrize(("option", "whole"), [("--effects", "16/16"), ("--no-effects", "1/1")])
def test_whoever_watches_sees_how_far_heads_are(option, whole, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    cli.main(["heads", "gpt", "He shook his", option], standalone_mode=False)
    assert whole in sys.stderr.getvalue()


def test_gates_tell_where_a_memory_was_written(tmp_path):
    file = tmp_path / "gates.svg"
    asked = ["gates", "lstm", "He shook his", "--unit", "31", "--json", "--plot", str(file)]
    told = json.loads(shown(*asked))
    assert sum(told["shares"]) == pytest.approx(told["value"], abs=1e-6)
    assert file.read_text().startswith("<svg")
    assert "holds most at" in shown("gates", "rnn", "He shook his", "--layer", "1")


def test_models_without_a_tokenizer_read_ids_and_those_of_images_files(tmp_path):
    told = json.loads(shown("lens", "igpt", "1 2 3", "--target", "2", "--json"))
    assert told["target"]["target"]["cells"][0]["at"] == [2, 2]
    np.save(tmp_path / "image.npy", np.zeros((28, 28), np.uint8))
    file = str(tmp_path / "image.npy")
    assert "[class]" in shown("lens", "vit", file, "--target", "Bag")
    assert "strongest" in shown("heads", "vit", file, "--by", "offset")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lens", "gpt", "He", "--target", "umbrellas"], "a target is one token"),
        (["lens", "gpt", "He", "--position", "4"], "position must be below"),
        (["heads", "lstm", "He"], "lstm has no attention heads"),
        (["heads", "gpt", "He", "--by", "nothing"], "unknown score 'nothing'"),
        (["gates", "gpt", "He"], "gpt2 has no gates"),
        (["heads", "gpt"], "Missing argument 'TEXT...'"),
    ],
)
def test_what_cannot_be_asked_gets_one_line(arguments, message):
    done = vesalius(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert is_complaint(done.stderr)


def test_gradient_tells_norms_and_saliency_and_draws_them(tmp_path):
    file = tmp_path / "gradient.svg"
    text = shown("gradient", "gpt", "He shook his", "--target", " head", "--plot", str(file))
    assert "Gradient of ' head' = " in text
    assert "Tokens by saliency at X" in text
    assert file.read_text().startswith("<svg")


def test_gradient_takes_two_words_or_a_cell_as_its_target():
    both = ("--target", " head", "--target", " hand")
    found = json.loads(shown("gradient", "gpt", "He shook his", *both, "--json"))
    assert found["target"]["label"] == "' head' minus ' hand'"
    assert [step["name"] for step in found["steps"]][:2] == ["X", "H[0]"]
    cell = json.loads(shown("gradient", "rnn", "He shook", "--target", "h[1,2](3)", "--json"))
    assert cell["target"]["cells"] == [{"at": [3], "weight": 1.0}]
    done = vesalius("gradient", "gpt", "He", "--target", " he shook")
    assert done.returncode == 2
    assert is_complaint(done.stderr)
    assert "a target is one token" in done.stderr


def test_diff_names_what_moved_and_what_diverges(tmp_path):
    file = tmp_path / "diff.svg"
    words = ("diff", "gpt", "gpt", "He shook his", "--dtype", "int8")
    text = shown(*words, "--plot", str(file))
    assert "first divergence: q[1,1]" in text
    assert "mean KL divergence" in text
    assert file.read_text().startswith("<svg")
    found = json.loads(shown(*words, "--json"))
    assert found["moved"] == sum(one["relative"] > 0 for one in found["parameters"])
    assert found["first_divergence"]["name"] == "q[1,1]"
    done = vesalius("diff", "gpt", "bert", "He shook his")
    assert done.returncode == 2
    assert is_complaint(done.stderr)


def test_ablate_tells_the_heads_by_the_size_of_their_effect(tmp_path):
    file = tmp_path / "heads.svg"
    text = shown("ablate", "gpt", "He shook his", "--target", " head", "--plot", str(file))
    found = vs.ablate("gpt", "He shook his", target=" head")
    clean = f"logit {found.clean:.4f}, probability {found.clean_probability:.4f}"
    assert f"' head': {clean}; each step in turn by zero" in text
    rows = [line.split() for line in text.splitlines() if "P[" in line]
    assert [row[0] for row in rows] == [name for name, _ in found.ranked()]
    assert float(rows[0][-1]) == pytest.approx(found.probabilities[found.ranked()[0][1]], abs=1e-4)
    assert file.read_text().startswith("<svg")


def test_ablate_as_json_of_other_steps_and_the_difference_of_two_words():
    arguments = ("--steps", "A, D", "--target", " head", "--target", "25", "--json")
    found = json.loads(shown("ablate", "gpt", "He shook his", *arguments))
    assert [len(ticks) for ticks in found["axes"].values()] == [2, 4]
    assert " minus " in found["target"]["label"]
    assert len(found["steps"]) == 8


def test_patch_tells_which_values_bring_the_answer_back(tmp_path):
    text = shown("patch", "gpt", "He shook his", "He opened his")
    whole = vs.patch("gpt", "He shook his", "He opened his")
    clean = f"logit {whole.clean:.4f} (probability {whole.clean_probability:.4f}) clean"
    assert f"{whole.target.label}: {clean}, {whole.corrupted:.4f}" in text
    found = json.loads(shown("patch", "gpt", "He shook his", "He opened his", "--whole", "--json"))
    assert found["positions"] == ["all"]
    assert found["patches"][0]["normalised"] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("written", ["0:0, -1:-1", "{0: 0, -1: -1}"])
def test_patch_of_texts_of_other_lengths_takes_the_positions_that_its_error_offers(written):
    texts = ("He shook his", "He slowly opened his")
    assert "positions={0: 0, -1: -1}" in vesalius("patch", "gpt", *texts).stderr
    found = json.loads(shown("patch", "gpt", *texts, "--positions", written, "--json"))
    same = vs.patch("gpt", *texts, positions={0: 0, -1: -1})
    assert found["positions"] == list(same.positions) == ["0", "3"]
    values = [patch["value"] for patch in found["patches"]]
    np.testing.assert_allclose(values, same.values.ravel(), atol=1e-4)
    some = json.loads(shown("patch", "gpt", texts[0], "He opened his", "--positions=1", "--json"))
    assert some["positions"] == ["1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ablate", "gpt", "He", "--steps", "P[9,9]"), "there is no step P[9,9]; did you mean"),
        (("ablate", "gpt", "He", "--target", "no such"), "a target is one token"),
        (("ablate", "gpt", "He", "--plot", "x.pdf"), "a picture is saved as .svg or .png"),
        (("patch", "gpt", "He shook", "He"), "the clean text has 2 tokens, the corrupted one 1"),
        (("patch", "gpt", "He", "He", "--positions", "1:"), "expected positions as '1, 2'"),
        (("patch", "gpt", "He", "He", "--positions", "0", "--whole"), "leave --positions out"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    done = vesalius(*arguments)
    assert done.returncode == 2
    assert is_complaint(done.stderr)
    assert message in done.stderr
