"""Kernels are kept where they can be; where they cannot, they are compiled and run all the same."""

import os
import pickle
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import NOTHING_COMPILED

import vesalius

PACKAGE = Path(vesalius.__file__).parent
KERNEL = """
from vesalius.generation.kernels.compiling import compiled

@compiled
def double(x):
    return 2 * x

@compiled
def quadruple(x):
    return double(double(x))

if __name__ == "__main__":
    print(quadruple(21), sum(quadruple.stats.cache_hits.values()))
"""


def run(cache, most=None):
    """Run a kernel in a process with this cache: whether it was kept, and what was said."""

    def limit():
        if most is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    done = subprocess.run(
        [sys.executable, str(cache.parent / "kernel.py")],
        env={**os.environ, "VESALIUS_CACHE": str(cache), **NOTHING_COMPILED},
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )
    assert done.returncode == 0, done.stderr
    number, hits = map(int, done.stdout.split())
    assert number == 84
    return hits, done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a kernel, and what is kept of it."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernel.py").write_text(KERNEL)
    assert run(folder / "cache") == (0, "")
    return folder


@pytest.fixture(autouse=True)
def _package_is_left_alone():
    before = written()
    yield
    assert written() == before


def written():
    return sorted(path for ending in ("nbi", "nbc") for path in PACKAGE.rglob(f"*.{ending}"))


def kept(cache, ending):
    return sorted((cache / "kernels").rglob(f"*.{ending}"))


def test_kernels_are_compiled_once(place):
    assert kept(place / "cache", "nbc")
    assert run(place / "cache") == (1, "")


def in_one_line(said, cache):
    (line,) = said.splitlines()
    assert line.startswith(f"compiled kernels cannot be kept in {cache}")
    assert line.endswith("set VESALIUS_CACHE to a folder that can be written")
    return line


def test_without_a_folder_they_are_compiled_and_that_is_said_once(place):
    (place / "file").write_text("")
    hits, said = run(place / "file")
    assert hits == 0
    assert "Not a directory" in in_one_line(said, place / "file")


def test_a_full_disk_leaves_nothing_half_written(place):
    hits, said = run(place / "full", most=10)
    assert hits == 0
    assert "File too large" in in_one_line(said, place / "full")
    assert not [path for path in (place / "full").rglob("*") if path.is_file()]


def turned(data):
    return data[:-20] + bytes(255 - byte for byte in data[-20:])


DAMAGES = {
    "an empty index": ("nbi", lambda data: b""),
    "half an index": ("nbi", lambda data: data[: len(data) // 2]),
    "an empty kernel": ("nbc", lambda data: b""),
    "other machine code": ("nbc", turned),
}


@pytest.mark.parametrize(("ending", "damage"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_files_are_made_anew(place, ending, damage):
    cache = place / f"{ending}-{len(damage(bytes(100)))}"
    shutil.copytree(place / "cache", cache)
    files = kept(cache, ending)
    assert len(files) == 2
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
    assert run(cache) == (0, "")
    assert all(file.stat().st_size > 100 for file in files)


class Evil:
    """What runs when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def open_to_all(folder):
    folder.chmod(0o777)


def anothers(folder):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder, 65534, -1)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(open_to_all, "others can write to the folder"), (anothers, "belongs to another user")],
)
def test_what_another_user_could_have_planted_is_not_unpickled(place, tmp_path, spoil, why):
    cache, ran = place / spoil.__name__, tmp_path / "ran"
    shutil.copytree(place / "cache", cache)
    planted = kept(cache, "nbi")
    for file in planted:
        file.write_bytes(pickle.dumps(Evil(ran)))
    spoil(planted[0].parent)
    hits, said = run(cache)
    assert hits == 0
    assert why in in_one_line(said, cache)
    assert not ran.exists()


def test_the_folder_of_kernels_is_the_users_alone(place):
    cache = place / "seen"
    shutil.copytree(place / "cache", cache)
    folder = kept(cache, "nbi")[0].parent
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)  # as earlier versions left it
    assert run(cache) == (1, "")
    assert folder.stat().st_mode & 0o777 == 0o700


INTERRUPTED = """
import signal
from numba.core.codegen import JITCodeLibrary

made, times = JITCodeLibrary._object_compiled_hook, iter([True])

def interrupted(module, data):  # as LLVM calls it, with a kernel's machine code
    if next(times, False):
        signal.raise_signal(signal.SIGINT)
    made(module, data)

JITCodeLibrary._object_compiled_hook = interrupted
from kernel import quadruple  # whose import makes the compiler, with the hook
try:
    quadruple(21)
except KeyboardInterrupt:
    print("stopped", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print(quadruple(21))
"""


def test_ctrl_c_while_llvm_compiles_stops_and_leaves_kernels_whole(place):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=place,
        env={**os.environ, "VESALIUS_CACHE": str(place / "interrupted"), **NOTHING_COMPILED},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("stopped True\n84\n", "")
