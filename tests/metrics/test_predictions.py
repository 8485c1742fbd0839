"""Labels, values, tags, answers and forecasts beside the truth: numbers by hand, and the errors."""

import csv
import json

import numpy as np
import pytest

from vesalius.metrics.predictions import Share, shown, words
from vesalius.metrics.values import ValuePredictions
from vesalius.tasks.answering.data import Question
from vesalius.tasks.answering.metrics import SpanPredictions
from vesalius.tasks.forecasting.metrics import ChannelRow, ForecastPredictions
from vesalius.tasks.labelling.metrics import LabelPredictions
from vesalius.tasks.labelling.use import Candidate, Labels
from vesalius.tasks.tagging.data import Sentence, Tagged
from vesalius.tasks.tagging.metrics import TagPredictions


def written(predictions, folder):
    many = predictions.write_errors(folder / "errors.csv")
    rows = list(csv.DictReader((folder / "errors.csv").read_text().splitlines()))
    assert len(rows) == many
    return rows


def test_several_labels_have_micro_and_macro_f1(tmp_path):
    truth = np.array([[1, 0], [1, 1], [0, 0]]) > 0
    odds = np.array([[0.9, 0.2], [0.6, 0.4], [0.1, 0.8]])
    found = LabelPredictions(["x", "y", "z"], ("long", "rude"), truth, odds)
    numbers = found.metrics()
    long, rude = numbers.rows
    assert (long.f1, rude.f1, rude.examples) == (1, 0, 1)
    assert numbers.micro_f1 == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert numbers.macro_f1 == 0.5
    rows = written(found, tmp_path)
    assert [list(row.values()) for row in rows] == [
        ["z", "", "rude", "0.720000"],
        ["y", "long|rude", "long", "0.360000"],
    ]


def test_values_have_errors_in_their_own_units(tmp_path):
    found = ValuePredictions(["x", "y"], np.array([1.0, 3.0]), np.array([2.0, 3.5]))
    numbers = found.metrics().numbers()
    assert numbers["mean_squared_error"] == (1 + 0.25) / 2
    assert numbers["mean_absolute_error"] == 0.75
    assert numbers["r2"] == pytest.approx(1 - 1.25 / 2)
    assert [row["error"] for row in written(found, tmp_path)] == ["1", "0.5"]


def test_entities_are_counted_by_type_and_wrong_words_listed(tmp_path):
    part = Tagged(
        "file",
        (
            Sentence(("Ada", "Lee", "ran"), ("B-PER", "I-PER", "O"), (1, 2, 3)),
            Sentence(("Bath",), ("B-LOC",), (5,)),
        ),
    )
    names = ["B-LOC", "B-PER", "I-PER", "O"]
    found = TagPredictions(part, names, [["B-PER", "O", "O"], ["B-LOC"]], [[0.9, 0.6, 0.8], [0.7]])
    metrics = found.metrics()
    assert metrics.numbers()["accuracy"] == 0.75
    assert metrics.numbers()["entity_f1"] == 0.5  # half a name is none
    assert {row.name: (row.f1, row.entities) for row in metrics.types} == {
        "LOC": (1, 1),
        "PER": (0, 1),
    }
    assert [part.heads[0] for part in metrics.tables()] == ["type"]
    assert "<svg" in metrics.picture()
    assert [list(row.values()) for row in written(found, tmp_path)] == [
        ["Ada Lee ran", "Lee", "I-PER", "O", "0.600000", "2"]
    ]
    words = TagPredictions(part, ["a", *names], found.predicted, found.probabilities)
    assert words.metrics().types == ()
    assert next(iter(words.metrics().tables())).heads[0] == "class"


def test_answers_are_compared_as_squad_does(tmp_path):
    asked = [
        Question("t", "1", "Who?", "The cat sat.", ("The cat",), (0,)),
        Question("t", "2", "What?", "It sat down.", ("sat", "sat down"), (3, 3)),
        Question("t", "3", "Why?", "It sat.", (), ()),
    ]
    found = SpanPredictions(asked, ["cat", "sat it", "It"], [0.9, 0.3, 0.5])
    assert found.metrics().exact_match == pytest.approx(1 / 3)
    assert found.metrics().f1 == pytest.approx((1 + 2 / 3 + 0) / 3)
    rows = written(found, tmp_path)
    assert [(row["id"], row["truth"], row["f1"]) for row in rows] == [
        ("3", "", "0.0000"),
        ("2", "sat|sat down", "0.6667"),
    ]


def test_channels_with_the_largest_errors_come_first():
    rows = tuple(ChannelRow(f"c{i}", float(i), i / 2) for i in range(12))
    metrics = ForecastPredictions(rows).metrics()
    assert metrics.numbers() == {"mean_squared_error": 5.5, "mean_absolute_error": 2.75}
    table, note = metrics.tables()
    assert [row[0] for row in table.rows][:2] == ["c11", "c10"]
    assert note == "the 10 worst of 12 channels; all are in the JSON"


def test_a_metric_knows_its_unit_whatever_it_is_called():
    assert shown(Share(0.98193)) == "98.19%"
    assert shown(0.98193) == "0.9819"
    assert shown(1234) == "1,234"
    assert words("entity_f1") == "entity F1"
    assert json.dumps({"accuracy": Share(0.5)}) == '{"accuracy": 0.5}'


def test_a_label_as_likely_as_not_is_given_nowhere():
    half = np.array([[0.5, 0.6]])
    measured = LabelPredictions(["x"], ["a", "b"], half > 0, half)
    shown_to_people = Labels("x", (Candidate(0, "a", 0.5), Candidate(1, "b", 0.6)), "3 tokens")
    assert measured.given.tolist() == [[False, True]]
    assert shown_to_people.names == ["b"]
