import csv

import numpy as np
import pytest
from sklearn.metrics import f1_score

from vesalius.errors import WrongLength
from vesalius.metrics.classes import ClassPredictions, calibration_error, class_metrics

NAMES = ("cat", "dog", "owl")
TRUTH = np.array([0, 0, 0, 1, 1, 2])
PROBABILITIES = np.array(
    [
        *([0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.9, 0.05, 0.05]),
        *([0.2, 0.7, 0.1], [0.5, 0.4, 0.1], [0.6, 0.3, 0.1]),
    ]
)


def test_numbers_are_those_worked_out_by_hand():
    found = class_metrics(TRUTH, PROBABILITIES, NAMES)
    assert found.confusion.tolist() == [[2, 1, 0], [1, 1, 0], [1, 0, 0]]
    assert found.accuracy == 3 / 6
    cat, dog, owl = found.rows
    assert (cat.precision, cat.recall, cat.f1) == (2 / 4, 2 / 3, pytest.approx(4 / 7))
    assert (dog.precision, dog.recall, dog.f1) == (1 / 2, 1 / 2, 1 / 2)
    assert (owl.f1, owl.examples, owl.mistaken_for, dog.mistaken_for) == (0, 1, "cat", "cat")
    assert found.macro_f1 == pytest.approx((4 / 7 + 1 / 2) / 3)
    assert "50.00% of 6 right" in repr(found)
    assert found.to_json()["classes"][2]["name"] == "owl"


def test_a_class_that_occurs_nowhere_does_not_lower_macro_f1():
    found = class_metrics(np.array([0, 1]), np.array([[0.9, 0.1, 0], [0.2, 0.8, 0]]), NAMES)
    assert (found.accuracy, found.macro_f1) == (1, 1)
    assert f1_score([0, 1], [0, 1], average="macro") == 1  # scikit-learn's own


def test_the_calibration_error_is_a_mean_of_gaps():
    rng = np.random.default_rng(0)
    confidence, right = rng.random(500), rng.random(500) < 0.5
    expected = 0.0
    for k in range(15):
        inside = (confidence > k / 15) & (confidence <= (k + 1) / 15)
        if inside.any():
            gap = abs(right[inside].mean() - confidence[inside].mean())
            expected += inside.mean() * gap
    assert calibration_error(confidence, right) == pytest.approx(expected, abs=1e-12)
    assert calibration_error(np.ones(4), np.array([True, True, False, True])) == 0.25


def test_of_many_classes_the_worst_are_drawn(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"class {i}" for i in range(30)]
    truth = rng.integers(0, 30, 600)
    found = class_metrics(truth, rng.dirichlet(np.ones(30), 600), names)
    picture = found.picture()
    assert "the 20 of 30 classes with the most errors" in picture
    found.plot(tmp_path / "confusion.png")
    few = class_metrics(TRUTH, PROBABILITIES, NAMES).picture()
    assert "most errors" not in few
    assert few.count("<rect") == 5
    shown = list(found.view())
    assert len(shown[1].rows) == 10
    assert shown[2] == "the 10 worst of 30 classes; all are in the JSON"
    assert len(found.to_json()["classes"]) == 30


def test_errors_are_written_the_most_certain_first(tmp_path):
    inputs = [f"text, {i}" for i in range(6)]
    found = ClassPredictions(inputs, NAMES, TRUTH, PROBABILITIES)
    assert found.write_errors(tmp_path / "e.csv") == 3
    rows = list(csv.DictReader((tmp_path / "e.csv").read_text().splitlines()))
    assert [row["input"] for row in rows] == ["text, 1", "text, 5", "text, 4"]
    assert list(rows[0].values()) == ["text, 1", "cat", "dog", "0.600000"]


def test_other_shapes_are_refused():
    with pytest.raises(WrongLength, match=r"6 examples x 2 classes, got 6 x 3"):
        class_metrics(TRUTH, PROBABILITIES, NAMES[:2])
