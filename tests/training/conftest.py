import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """What a recipe's data become is kept apart from the user's cache, and made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VESALIUS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    """For all tests of training."""
