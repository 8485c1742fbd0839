"""What has no end, or no beginning, in the place of a file: refused at once, by every reader."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from vesalius.checkpoints.plain import contents
from vesalius.data.arrays import read_arrays
from vesalius.data.images import read_images
from vesalius.data.pictures import read_picture
from vesalius.data.series import read_series
from vesalius.data.tables import read_table
from vesalius.data.texts import read_texts
from vesalius.data.timelines import read_timeline
from vesalius.errors import BrokenFile
from vesalius.tasks.answering.data import read_questions
from vesalius.tasks.kinds import kinds_of
from vesalius.tasks.tagging.data import read_tagged
from vesalius.tokenizers import read_texts as read_portions
from vesalius.training.recipe import read_recipe

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
READERS = {
    "x.safetensors": contents,
    "x.json": read_questions,
    "x.npz": read_arrays,
    "x-images-idx3-ubyte": read_images,
    "x.png": lambda file: read_picture(file, 8, 1),
    "x.ts": read_series,
    "x.csv": read_table,
    "x.conll": read_tagged,
    "x.txt": read_texts,
    "y.csv": read_timeline,
    "y.tsv": kinds_of,
    "y.txt": lambda file: [*read_portions([file])],
    "x.toml": read_recipe,
}


def pipe(path):
    os.mkfifo(path)


def device(path):
    os.symlink("/dev/zero", path)


def listening(path):
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(os.path.relpath(path))  # which has to be short


@pytest.fixture
def _bounded():
    """An alarm, since a reader that waits would wait for ever."""

    def late(*_):
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_bounded")
@pytest.mark.parametrize("make", [pipe, device, listening])
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_a_device_or_a_socket_is_refused_at_once(tmp_path, monkeypatch, name, make):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    with pytest.raises(BrokenFile, match=r"is a pipe.* a device.*expected a file"):
        READERS[name](str(tmp_path / name) if name != "x.safetensors" else tmp_path / name)


@pytest.mark.usefixtures("_bounded")
def test_what_a_shell_has_opened_is_read():
    reading, writing = os.pipe()
    os.write(writing, b"a\tA\nb\tB\n")
    os.close(writing)
    try:
        assert read_tagged(f"/dev/fd/{reading}").names == ["A", "B"]
    finally:
        os.close(reading)


@pytest.mark.parametrize("how", ["pipe", "substitution"])
def test_the_command_line_takes_a_text_from_a_command_and_none_from_a_pipe(tmp_path, how):
    os.mkfifo(tmp_path / "pipe")
    file = {"pipe": f"'{tmp_path}/pipe'", "substitution": "<(echo It rained)"}[how]
    command = ["bash", "-c", f"{sys.executable} -m vesalius tokenize gpt --file {file}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == (2 if how == "pipe" else 0), done.stderr
    assert ("a pipe, a device or a socket" in done.stderr) == (how == "pipe")
