"""The suite itself: what it finds depends neither on luck nor on the machine nor on the order."""

import os
import pwd
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import Float, TypeCheckError
from signatures import checked, typechecked
from surroundings import own_cache

from vesalius.equations import add_positions
from vesalius.machine import cache_folder


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


def test_signatures_are_checked_of_every_kind_of_call_and_of_all_results() -> None:
    X = np.ones((2, 3))
    for _ in range(2):
        assert add_positions(X, X).shape == (2, 3)
        with pytest.raises(TypeCheckError):
            add_positions(X, X[:, :1])

    @checked(typechecker=typechecked)
    def positive(x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        return x[x > 0]

    assert len(positive(np.ones(2))) == len(positive(np.ones(2))) == 2
    with pytest.raises(TypeCheckError):
        positive(np.array([1.0, -1.0]))


def test_tests_have_a_home_and_a_cache_of_their_own(tmp_path: Path) -> None:
    user = pwd.getpwuid(os.getuid()).pw_dir
    assert Path.home() != Path(user)
    for place in (cache_folder(), Path(os.environ["MPLCONFIGDIR"])):
        assert not place.is_relative_to(Path(user) / ".cache")
    assert os.listdir(own_cache(tmp_path / "own")) == ["kernels"]


def test_what_is_tested_can_be_interrupted():
    """What a shell starts in the background ignores interrupts, and its children inherit that."""
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n"


MISSING = """
from published import published

def test_it():
    published("no/such/file")
"""


@pytest.mark.parametrize("where", [{"VESALIUS_DATA": "/nowhere"}, {}], ids=["elsewhere", "unset"])
@pytest.mark.parametrize(("ci", "code", "said"), [("", 0, "1 skipped"), ("true", 1, "1 failed")])
def test_a_test_without_its_data_is_skipped_and_in_ci_fails(
    tmp_path: Path, where: dict[str, str], ci: str, code: int, said: str
) -> None:
    (tmp_path / "test_it.py").write_text(MISSING)
    environment = {k: v for k, v in os.environ.items() if k != "VESALIUS_DATA"}
    environment |= {"CI": ci, "PYTHONPATH": str(Path(__file__).parent), **where}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # which takes most of the time
    command = [sys.executable, "-m", "pytest", "-p", "published", "-rs", "test_it.py"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code, done.stdout
    assert said in done.stdout
    assert "VESALIUS_DATA" in done.stdout
