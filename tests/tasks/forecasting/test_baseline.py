"""Forecasts without a network, against plain least squares and PyTorch's own pooling."""

import numpy as np
import torch

from vesalius.data.timelines import Windows
from vesalius.tasks.forecasting.baseline import (
    KERNEL,
    fit_dlinear,
    last_season,
    last_value,
    measure,
    moving_average,
)


def test_the_last_value_and_the_last_season_are_repeated():
    past = np.arange(12.0).reshape(1, 6, 2)
    assert last_value(past, 3)[0].tolist() == [[10, 11]] * 3
    assert last_season(past, 3, 2)[0].tolist() == [[8, 9], [10, 11], [8, 9]]


def test_dlinears_trend_is_the_published_average_and_its_maps_those_of_least_squares(rng):
    past = rng.normal(size=(2, 40, 3))
    ends = [torch.tensor(past[:, [0]]).repeat(1, 12, 1), torch.tensor(past[:, [-1]])]
    padded = torch.cat([ends[0], torch.tensor(past), ends[1].repeat(1, 12, 1)], dim=1)
    pooled = torch.nn.functional.avg_pool1d(padded.transpose(1, 2), KERNEL, 1).transpose(1, 2)
    np.testing.assert_allclose(moving_average(past), pooled.numpy(), atol=1e-12)

    steps = np.arange(400)[:, None]
    values = np.sin(steps / 3 + [0, 1]) + 0.1 * rng.normal(size=(400, 2))
    train, valid = Windows("t", values, 0, 300, 30, 5), Windows("v", values, 300, 400, 30, 5)
    model = fit_dlinear(train, valid, ridges=(0.0,))
    x, y = (a.transpose(0, 2, 1).reshape(-1, a.shape[1]) for a in train.rows(np.arange(len(train))))
    plain = np.linalg.lstsq(np.pad(x, ((0, 0), (0, 1)), constant_values=1), y, rcond=None)[0]
    look, _ = valid.rows(np.arange(4))
    expected = look.transpose(0, 2, 1) @ plain[:-1] + plain[-1]
    np.testing.assert_allclose(model(look).transpose(0, 2, 1), expected, atol=1e-7)
    squares, sizes = measure(model, valid)
    assert squares < measure(lambda past: last_value(past, 5), valid)[0]
    assert 0 < sizes < 1
    chosen = fit_dlinear(train, valid)
    assert measure(chosen, valid)[0] <= squares
