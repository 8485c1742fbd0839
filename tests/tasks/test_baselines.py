"""Images by their pixels, series by their nearest neighbour."""

import numpy as np
import pytest

from vesalius.data.images import Images
from vesalius.data.series import Series
from vesalius.errors import UnusableData
from vesalius.metrics.baseline import chosen
from vesalius.preparation import Scaling
from vesalius.tasks.images import baseline
from vesalius.tasks.images.baseline import by_pixels
from vesalius.tasks.series.baseline import nearest_series


def test_bright_and_dark_images_are_told_apart(rng):
    labels = np.arange(40) % 2
    pixels = (rng.integers(0, 60, (40, 1, 4, 4)) + 150 * labels[:, None, None, None]).astype("u1")
    train, test = (
        Images(pixels[rows], labels[rows], origins=("x",) * 20)
        for rows in (slice(20), slice(20, 40))
    )
    (found,) = by_pixels(train, test, ["dark", "bright", "never seen"])
    assert found.numbers["accuracy"] == 1
    assert "on 20 images" in found.about


def test_more_pixels_than_are_quickly_fitted_are_left_out(monkeypatch):
    monkeypatch.setattr(baseline, "MOST", 10)
    images = Images(np.zeros((2, 1, 3, 3), np.uint8), np.arange(2))
    with pytest.raises(UnusableData, match="2 images have 18 pixels"):
        by_pixels(images, images, ["a", "b"])


def test_a_series_is_called_as_its_nearest_is():
    values = [np.full((3, 1), 0.0), np.full((5, 1), 9.0)]
    train = Series(values, np.array([0, 1]), ("low", "high"), np.array([1.0, 2.0]))
    test = Series([np.full((4, 1), 8.0), np.full((2, 1), 1.0)], np.array([1, 0]))
    test = Series(test.values, test.labels, train.names, np.array([2.0, 1.5]), ("x", "y"))
    scaling = Scaling(np.zeros(1), np.ones(1))
    (classes,) = nearest_series(train, test, scaling, train.names)
    assert classes.numbers == {"accuracy": 1, "macro_f1": 1}
    (numbers,) = nearest_series(train, test, scaling)
    assert numbers.numbers["mean_absolute_error"] == 0.25


def test_settings_are_chosen_on_rows_that_they_were_not_fitted_on():
    asked = []

    def score(setting, train, valid):
        asked.append((train, valid))
        return -abs(setting - 2)

    assert chosen([1, 2, 3], [0, 1] * 20, 0, score) == 2
    for train, valid in asked:
        assert not set(train) & set(valid)
        assert sorted(train + valid) == list(range(40))
    assert chosen([5], [0, 1], 0, score) == 5
