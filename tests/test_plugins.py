"""A family and a task of other packages: installed, and then used as any other is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import code

EXAMPLES = Path(__file__).parents[1] / "examples"
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
    """What runs a command where the examples are installed beside everything else."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    packages = [str(EXAMPLES / name) for name in ("gru", "choice")]
    pip = [sys.executable, "-m", "pip", "install", *options, str(folder), *packages]
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


WEATHER = {"rained": "umbrella", "snowed": "sledge", "shone": "hat"}


@pytest.fixture(scope="module")
def chooser(installed, tmp_path_factory):
    """A model that chooses what to take, fine-tuned from the command line, and its table."""
    folder = tmp_path_factory.mktemp("choice")
    things = [*WEATHER.values()]
    lines = [
        f"it {verb} so he took his,{'|'.join(things[: 2 + (thing == 'hat')])},{thing}"
        for verb, thing in [*WEATHER.items()] * 12
    ]
    table = folder / "weather.csv"
    table.write_text("\n".join(["text,endings,label", *lines]))
    small = [f"model.{name}" for name in ("layers=1", "embedding=16", "heads=2", "context=32")]
    settings = [*small, "training.steps=300", "training.learning_rate=0.003", "training.batch=12"]
    changes = [part for one in settings for part in ("--set", one)]
    asked = ("finetune", "family:bert", str(table), "--task", "choice", *changes)
    told = json.loads(installed(*asked, "--out", str(folder / "mine"), "--json"))
    return folder / "mine", table, told


def test_a_task_is_fine_tuned_by_its_name(chooser):
    _, _, told = chooser
    assert (told["task"], told["objective"]) == ("choice", "multiple-choice")
    assert told["accuracy"] == 1


def test_a_task_is_evaluated_on_what_was_held_out_with_its_baseline(installed, chooser, tmp_path):
    mine, table, _ = chooser
    errors = str(tmp_path / "errors.csv")
    asked = ("evaluate", str(mine), str(table), "--baseline", "--errors", errors, "--json")
    found = json.loads(installed(*asked))
    assert found["objective"] == "which ending a text has"
    assert found["part"] == f"the {found['examples']} texts that training held out"
    assert found["accuracy"] == 1
    assert 1 / 3 <= found["accuracy_of_a_guess"] <= 1 / 2
    assert [baseline["name"] for baseline in found["baselines"]] == ["words in common"]


def test_a_task_brings_its_verb_to_the_command_line(installed, chooser):
    asked = ("choose", str(chooser[0]), "it rained so he took his", "sledge", "umbrella", "--json")
    found = json.loads(installed(*asked))
    assert found["best"] == "umbrella"
    assert sum(found["probabilities"]) == pytest.approx(1)
    assert "Of other packages" in installed("--help")
    assert "choose" in installed("--help")


def test_a_task_of_another_package_takes_nothing_from_ours(installed, chooser, tmp_path):
    """A table without a word on its task is for classes, as before."""
    table = tmp_path / "texts.csv"
    table.write_text("text,label\n" + "it rained,wet\nit shone,dry\n" * 10)
    quick = ("--set", "training.steps=1", "--out", str(tmp_path / "mine"), "--json")
    found = json.loads(installed("finetune", "bert", str(table), *quick))
    assert found["objective"] == "text-classes"
