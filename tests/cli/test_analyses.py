"""The verbs that ask a model at work: tables, pictures, JSON, one-line errors."""

import json

import pytest
from processes import is_complaint, shown, vesalius


def test_ablate_tells_the_heads_by_the_size_of_their_effect(tmp_path):
    file = tmp_path / "heads.svg"
    text = shown("ablate", "gpt", "He shook his", "--target", " head", "--plot", str(file))
    assert "' head': logit 9.0947, probability 0.4117; each step in turn by zero" in text
    rows = [line for line in text.splitlines() if "P[" in line]
    assert len(rows) == 16
    assert rows[0].split()[0] == "P[3,4]"
    assert rows[0].split()[-1].startswith("0.148")
    assert file.read_text().startswith("<svg")


def test_ablate_as_json_of_other_steps_and_the_difference_of_two_words():
    arguments = ("--steps", "A, D", "--target", " head", "--target", "25", "--json")
    found = json.loads(shown("ablate", "gpt", "He shook his", *arguments))
    assert [len(ticks) for ticks in found["axes"].values()] == [2, 4]
    assert " minus " in found["target"]["label"]
    assert len(found["steps"]) == 8


def test_patch_tells_which_values_bring_the_answer_back(tmp_path):
    text = shown("patch", "gpt", "He shook his", "He opened his")
    assert "' head': logit 9.0947 (probability 0.4117) clean, 6.9599" in text
    found = json.loads(shown("patch", "gpt", "He shook his", "He opened his", "--whole", "--json"))
    assert found["positions"] == ["all"]
    assert found["patches"][0]["normalised"] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ablate", "gpt", "He", "--steps", "P[9,9]"), "there is no step P[9,9]; did you mean"),
        (("ablate", "gpt", "He", "--target", "no such"), "a target is one token"),
        (("ablate", "gpt", "He", "--plot", "x.pdf"), "a picture is saved as .svg or .png"),
        (("patch", "gpt", "He shook", "He"), "the clean text has 2 tokens, the corrupted one 1"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    done = vesalius(*arguments)
    assert done.returncode == 2
    assert is_complaint(done.stderr)
    assert message in done.stderr
