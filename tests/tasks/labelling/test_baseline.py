"""Texts by counted words."""

import numpy as np
import pytest

from vesalius.tasks.labelling.baseline import Tfidf, by_words
from vesalius.tasks.labelling.data import LabelledTexts

TEXTS = ["a red cat", "the cat sleeps", "a dog barks", "the dog runs"] * 6
CLASSES = np.array([0, 0, 1, 1] * 6)


def test_counted_words_tell_classes_apart():
    baseline = Tfidf(TEXTS, CLASSES)
    found = baseline.probabilities(["my cat", "his dog"], classes=3)
    assert found.argmax(1).tolist() == [0, 1]
    np.testing.assert_allclose(found.sum(1), 1)
    assert not found[:, 2].any()


@pytest.mark.parametrize(
    ("kind", "labels", "best"),
    [
        ("classes", CLASSES, {"accuracy": 1, "macro_f1": 1}),
        ("labels", np.eye(2)[CLASSES], {"micro_f1": 1, "macro_f1": 1}),
        ("values", 10.0 * CLASSES, {"r2": 1}),
    ],
)
def test_every_kind_of_label_has_its_linear_model(kind, labels, best):
    names = () if kind == "values" else ("cat", "dog")
    train = LabelledTexts("t", TEXTS, None, labels, names)
    test = train.chosen([0, 2])
    (found,) = by_words(kind, train, test)
    assert {k: found.numbers[k] for k in best} == pytest.approx(best, abs=0.05)
    assert found.about.endswith("on 24 texts")
    paired = LabelledTexts("t", ["x"] * 24, TEXTS, labels, names)
    assert by_words(kind, paired, paired.chosen([0, 2]))[0].numbers.keys() == found.numbers.keys()
