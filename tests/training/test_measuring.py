"""Metrics, pictures, files of errors and baselines, from the command line and in Python."""

import csv
import json
import sys

import numpy as np
import pytest
from small import small_recipe

from vesalius import evaluate
from vesalius.cli import cli
from vesalius.errors import WrongKind
from vesalius.tasks.labelling.baseline import by_words
from vesalius.tasks.labelling.data import labelled_parts
from vesalius.training import train

SHORT = {"steps": 2, "evaluate_every": 2, "save_every": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each kind and its corpus, made when it is first asked for."""
    made = {}

    def run(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("run")
            recipe = small_recipe(name, folder, changes={"data.split": "0.3"}, **SHORT)
            made[name] = train(recipe, folder / "run"), recipe
        return made[name]

    return run


def command(capsys, *arguments):
    cli.main(["evaluate", *map(str, arguments)], standalone_mode=False)
    return capsys.readouterr().out


def test_classes_are_told_by_table_picture_and_file(runs, tmp_path, capsys, monkeypatch):
    outcome, recipe = runs("gpt2 classes")
    files = {name: tmp_path / f"{name}.{end}" for name, end in (("plot", "svg"), ("errors", "csv"))}
    asked = [outcome.folder, recipe.data.corpus, "--baseline"]
    asked += ["--plot", files["plot"], "--errors", files["errors"]]
    told = json.loads(command(capsys, *asked, "--json"))
    assert told["part"] == f"the {told['examples']} texts that training held out"
    assert {row["name"] for row in told["classes"]} == {"app", "card", "rate"}
    assert np.array(told["confusion"]).sum() == told["examples"]
    assert 0 <= told["calibration_error"] <= 1
    rows = list(csv.DictReader(files["errors"].read_text().splitlines()))
    assert len(rows) == round((1 - told["accuracy"]) * told["examples"])
    odds = [float(row["probability"]) for row in rows]
    assert odds == sorted(odds, reverse=True)
    assert all(row["truth"] != row["prediction"] for row in rows)
    assert "predicted" in files["plot"].read_text()
    # The baseline is fitted on the training part alone, and measured on what was held out.
    training, held_out, _ = labelled_parts(recipe.data, "classes", recipe.seed)
    (expected,) = by_words("classes", training, held_out, recipe.seed)
    assert told["baselines"] == [expected.to_json()]
    assert expected.numbers["accuracy"] > told["accuracy"]
    monkeypatch.setenv("COLUMNS", "80")
    shown = command(capsys, *asked)
    assert max(map(len, shown.splitlines())) <= 80 + len(str(files["errors"]))
    for words in ("the model", "TF-IDF", "macro F1", "mistaken for", f"{len(rows)} rows in "):
        assert words in shown


BASELINES = {
    "bert labels": (["TF-IDF"], "micro_f1"),
    "lstm values": (["TF-IDF"], "r2"),
    "bert tags": (["dictionary"], "entity_f1"),
    "vit": (["pixels"], "macro_f1"),
    "tst": (["1-NN"], "macro_f1"),
    "tst values": (["1-NN"], "mean_absolute_error"),
    "patchtst": (["last value", "DLinear"], "mean_squared_error"),
}


@pytest.mark.parametrize("name", BASELINES)
def test_a_simple_method_is_measured_beside_the_model(name, runs, tmp_path):
    outcome, recipe = runs(name)
    names, number = BASELINES[name]
    found = evaluate(outcome.model, recipe.data.corpus, baseline=True)
    assert found.notes == ()
    assert [baseline.name for baseline in found.baselines] == names
    assert number in found.numbers
    assert all(number in baseline.numbers for baseline in found.baselines)
    heads = next(part.heads for part in found.view() if not isinstance(part, str))
    assert heads == (recipe.data.corpus, "the model", *names)
    if name == "patchtst":
        assert found.baselines[0].numbers[number] == pytest.approx(
            found.numbers["mean_squared_error_of_the_last_value"]
        )
        assert "of the last value" not in repr(found), "its column says it"
        assert "of the last value" in repr(evaluate(outcome.model, recipe.data.corpus))
        by_channel = [row["mean_squared_error"] for row in found.to_json()["channels"]]
        assert np.mean(by_channel) == pytest.approx(found.numbers[number])
        with pytest.raises(WrongKind, match="no list of errors"):
            found.write_errors(tmp_path / "errors.csv")
    else:
        assert found.write_errors(tmp_path / "errors.csv") >= 0
        header = (tmp_path / "errors.csv").read_text().splitlines()[0].split(",")
        assert {"truth", "prediction"} <= set(header)


def test_without_scikit_learn_loss_and_accuracy_are_left(runs, tmp_path, monkeypatch):
    outcome, recipe = runs("gpt2 classes")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    found = evaluate(outcome.model, recipe.data.corpus, baseline=True)
    assert found.numbers.keys() == {"loss", "accuracy"}
    assert found.baselines == ()
    assert len(found.notes) == 2
    assert all(note.endswith("pip install 'vesalius[transfer]'") for note in found.notes)
    assert found.write_errors(tmp_path / "errors.csv") >= 0
    with pytest.raises(WrongKind, match=r"vesalius\[transfer\]"):
        found.plot(tmp_path / "confusion.svg")
    assert "<svg" not in found._repr_html_()


def test_a_baseline_that_cannot_be_fitted_says_why(runs, tmp_path):
    outcome, recipe = runs("gpt2 classes")
    model = outcome.model
    kept = model.preprocessing.recipe
    model.preprocessing = model.preprocessing.change(recipe=None)
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "lost card", "label": "card"}\n{"text": "app", "label": "app"}\n')
    found = evaluate(model, str(other), baseline=True)
    assert found.notes == (
        "no baseline: what the model was trained on is not known: its preprocessing.json names "
        "no data",
    )
    changed = {**kept, "data": {**kept["data"], "corpus": str(other), "split": 0.5}}
    model.preprocessing = model.preprocessing.change(recipe=changed)
    (note,) = evaluate(model, str(other), baseline=True).notes
    assert note == f"no baseline: {other} has changed since the model was trained on it"
    with pytest.raises(WrongKind, match="no simple method to compare models of the next token"):
        evaluate("gpt", recipe.data.corpus.replace(".jsonl", ".txt"), baseline=True)
    assert "no simple method to compare answers" in str(
        evaluate(runs("bert answers")[0].model, runs("bert answers")[1].data.corpus, baseline=True)
    )
