"""What tests run in: a home and a cache of their own, one thread, lines as in any pipe, interrupts.

Importing this sets the environment, so it comes before PyTorch. Workers inherit it.
"""

import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

from threadpoolctl import threadpool_limits

KEPT = Path(__file__).parents[1] / ".pytest_cache" / "d"
KERNELS = KEPT / "kernels"
"""Compiled once for all workers and for the next time; `pytest --cache-clear` forgets them."""

ELSEWHERE = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_TOKEN")


def own_cache(folder: Path) -> str:
    """A cache for VESALIUS_CACHE that holds nothing but the compiled kernels."""
    KERNELS.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernels").symlink_to(KERNELS, target_is_directory=True)
    return str(folder)


for _name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(_name, None)  # which workers are given by whoever starts them

threadpool_limits(1, user_api="blas")  # of NumPy, which a plugin of pytest's may have loaded before

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in what a script runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" not in os.environ:
    _place = TemporaryDirectory(prefix="vesalius-tests-")  # goes when the process ends
    for _name in ELSEWHERE:
        os.environ.pop(_name, None)
    os.environ["HOME"] = str(Path(_place.name) / "home")
    os.environ["VESALIUS_CACHE"] = own_cache(Path(_place.name) / "cache")
    os.environ["MPLCONFIGDIR"] = str(KEPT / "matplotlib")  # its list of fonts takes seconds
    os.environ["OMP_NUM_THREADS"] = "1"  # there is a worker for each core
    Path(os.environ["HOME"]).mkdir()
