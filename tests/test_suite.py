"""The suite itself: what it finds depends neither on luck nor on the machine nor on the order."""

import random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings


def test_property_tests_try_the_same_examples_however_long_they_take() -> None:
    assert settings.default.derandomize
    assert settings.default.database is None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check


@pytest.mark.parametrize("_", range(2))
def test_every_test_draws_the_same(_: int) -> None:
    assert random.random() == random.Random(2024).random()
    assert np.random.rand() == np.random.RandomState(2024).rand()
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(2024)))
