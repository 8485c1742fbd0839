"""Shapes are checked at run time in all tests, and a test that proves an equation must call it."""

from collections.abc import Iterator

import numpy as np
import pytest
from jaxtyping import install_import_hook

with install_import_hook("vesalius.equations", "agreement.typechecked"):
    from vesalius.equations import find, tracing


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
