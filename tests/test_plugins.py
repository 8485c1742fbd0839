"""A family of another package: installed, and then used as any other is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import code

EXAMPLE = Path(__file__).parents[1] / "examples" / "gru"
RECIPE = """
family = "gru"
objective = "next-token"

[model]
layers = 2
embedding = 16

[data]
corpus = "stories"
words = 3000
tokenizer = "words"
window = 16

[training]
steps = 6
batch = 4
evaluate_every = 6
validate_on = 4
"""
COMMAND = """
import sys
sys.path.insert(0, sys.argv.pop(1))  # as PYTHONPATH has it
from vesalius.__main__ import main
main()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What runs a command where the example is installed beside everything else."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    pip = [sys.executable, "-m", "pip", "install", *options, str(folder), str(EXAMPLE)]
    subprocess.run(pip, check=True, capture_output=True)

    def run(*arguments):
        done = code(COMMAND, str(folder), *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def trained(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gru")
    (folder / "gru.toml").write_text(RECIPE)
    installed("train", str(folder / "gru.toml"), "--out", str(folder / "run"))
    return str(folder / "run" / "model")


def test_it_is_listed_and_counted(installed):
    assert "GRU language model" in installed("models")
    found = json.loads(installed("count", "cho-2014", "--cost", "--json"))
    words, width = 10000, 1000
    assert found["total"] == 2 * words * width + 3 * width * (2 * width + 1)
    assert found["cost"]["decode_state_bytes"] == {"state, in all": 4 * width}


def test_it_is_trained_dissected_and_verified(installed, trained):
    trace = json.loads(installed("dissect", trained, "--ids", "3 1 4", "--json"))
    assert {"r[1,1]", "z[2,3]", "h[2,3]", "Z", "Y_hat"} <= {step["name"] for step in trace["steps"]}
    assert json.loads(installed("verify", trained, "--json"))["agrees"]
    measured = json.loads(installed("evaluate", trained, "stories", "--json"))
    assert 0 < measured["loss"] < 6


def test_its_labels_read_what_the_pooling_says(installed, trained, tmp_path):
    table = tmp_path / "texts.csv"
    lines = [f"the dog ran {'home' if k % 2 else 'away'},{'ab'[k % 2]}" for k in range(24)]
    table.write_text("\n".join(["text,label", *lines]))
    mine = str(tmp_path / "mine")
    installed("finetune", trained, str(table), "--strategy", "features", "--out", mine)
    found = json.loads(installed("verify", mine, "--json"))
    assert found["agrees"]
    trace = json.loads(installed("dissect", mine, "--ids", "3 1 4", "--json"))
    assert {"h_bar", "z"} <= {step["name"] for step in trace["steps"]}


def test_it_generates_on_the_reference_engine(installed, trained):
    asked = ("generate", trained, "3 1 4", "--ids", "-n", "5", "--samples", "2", "--json")
    assert [len(one["ids"]) for one in json.loads(installed(*asked))] == [5, 5]
    greedy = ("generate", trained, "3 1 4", "--ids", "-n", "2", "--temperature", "0", "--json")
    ids = json.loads(installed(*greedy))["ids"]
    given = f"3 1 4 {ids[0]}"
    trace = json.loads(installed("dissect", trained, "--ids", given, "--json"))
    assert trace["likeliest"][0]["id"] == ids[1]  # as the equations have it, the state carried


def test_its_numbers_are_taken_apart_by_its_own_rules(installed, trained):
    made = json.loads(installed("unfold", trained, "3 1 4", "d[2,3]", "5", "--json"))
    assert [factor["name"] for factor in made["terms"][0]["factors"]] == ["n[2,3]", "z[2,3]"]
    assert abs(made["difference"]) < 1e-6
    told = json.loads(installed("attribute", trained, "3 1 4", "--json"))
    assert {part["name"] for part in told["parts"]} == {"d[2,1]", "d[2,2]", "d[2,3]"}
    assert abs(sum(part["share"] for part in told["parts"]) - told["value"]) < 1e-6
    for tokens in (20, 120, 300, 1000):
        long = " ".join(str(k % 20) for k in range(tokens))
        told = json.loads(installed("attribute", trained, long, "--json"))
        assert (len(told["parts"]), told["agrees"], told["together"]) == (tokens, True, [])
    units = json.loads(installed("gates", trained, "3 1 4", "--json"))
    assert (units["symbols"], units["memory"]) == (["z", "u", "n", "r", "d", "h"], "h")
    depths = json.loads(installed("lens", trained, "3 1 4", "--json"))["depths"]
    assert depths == ["X", "h[1]", "h[2]"]
    found = json.loads(installed("gradient", trained, "3 1 4", "--json"))
    assert {"r[1,2]", "z[1,1]", "u[2,2]", "n[2,3]", "d[1,3]"} <= {s["name"] for s in found["steps"]}
