"""The verbs that ask a model at work: real processes, the library's own JSON, one-line errors."""

import json

from processes import is_complaint, shown, vesalius


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
