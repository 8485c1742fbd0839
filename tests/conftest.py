"""Nothing depends on luck; shapes are checked at run time; a test that proves calls what it proves.

Property tests try the same examples on every machine and in any order. `make fuzz` searches at
random instead; what it finds becomes an ``@example`` of the test.
"""

import gc
import random
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import surroundings  # noqa: F401 (it sets the environment, before torch)
from hypothesis import HealthCheck, settings
from published import pytest_runtest_makereport as pytest_runtest_makereport
from signatures import checking_signatures

with checking_signatures():
    from vesalius.equations import find, tracing

# How long an example takes depends on what else the machine does, so it decides nothing.
UNHURRIED = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
settings.register_profile("same examples", derandomize=True, **UNHURRIED)
settings.register_profile("fuzz", derandomize=False, print_blob=True, **UNHURRIED)
settings.load_profile("same examples")

gc.disable()  # until all is imported, which it would look through again and again


def pytest_collection_finish() -> None:
    """What is imported stays to the end, so the garbage collector need not look at it."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Whoever draws from a global generator draws the same in any order of tests."""
    random.seed(2024)
    np.random.seed(2024)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(2024)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2024)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small products are not shared among threads, which other tests want too."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def no_progress_bars() -> Iterator[None]:
    """Transformers draws them while it loads, and the output of tests is read."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    yield
    logging.enable_progress_bar()


@pytest.fixture(autouse=True)
def _calls_what_it_proves(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test marked ``proves(28)`` fails unless equation 28 ran in it."""
    proven = {find(n).name for mark in request.node.iter_markers("proves") for n in mark.args}
    if not proven:
        yield
        return
    with tracing(only=()) as steps:
        yield
    assert proven <= steps.called, f"does not call {', '.join(sorted(proven - steps.called))}"
