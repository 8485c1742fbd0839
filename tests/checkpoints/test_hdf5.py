"""Keras's arrays in HDF5: what is read, and that no damage reaches this process."""

import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("h5py", reason="Keras's files are read by h5py")

from h5files import LINKS, flipped, write_gpt2

from vesalius.checkpoints import hdf5
from vesalius.checkpoints.conversion import read_model
from vesalius.errors import BrokenFile


@pytest.fixture
def file(tmp_path):
    write_gpt2(tmp_path / "x.weights.h5")
    return tmp_path / "x.weights.h5"


def test_the_arrays_come_back_to_the_last_bit_and_can_be_written_to(tmp_path):
    written = write_gpt2(tmp_path / "x.weights.h5")
    read = hdf5.arrays(tmp_path / "x.weights.h5")
    assert {name: a.dtype for name, a in read.items()} == {n: a.dtype for n, a in written.items()}
    for name, array in written.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].flags.writeable
    assert read_model(tmp_path / "x.weights.h5").family == "gpt2"


@pytest.mark.skipif(not hasattr(signal, "SIGXCPU"), reason="the system bounds no process's time")
def test_a_flipped_bit_that_makes_the_library_read_in_circles_is_a_broken_file(file, monkeypatch):
    monkeypatch.setattr(hdf5, "WORK", 1)
    flipped(file, "circle")
    with pytest.raises(BrokenFile, match=r"x\.weights\.h5 .* damaged, and .* works without end"):
        hdf5.arrays(file)


def test_a_flipped_bit_that_crashes_the_library_is_a_broken_file(file):
    flipped(file, "crash")
    with pytest.raises(BrokenFile, match=r"x\.weights\.h5 .* damaged, and .* crashes"):
        hdf5.arrays(file)


@pytest.mark.skipif(os.name == "nt", reason="interrupts are sent as on Unix")
def test_an_interrupt_ends_reading_and_the_child_with_it(file, tmp_path):
    flipped(file, "circle")
    command = [sys.executable, "-m", "vesalius", "convert", str(file), str(tmp_path / "new")]
    convert = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    child = _child_of(convert)
    convert.send_signal(signal.SIGINT)  # to the parent alone, which a notebook would do
    assert convert.communicate()[1].strip() == b""
    assert convert.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def _child_of(process: subprocess.Popen) -> int:
    """The process that another one waits for, once there is one."""
    tool = shutil.which("pgrep")
    if tool is None:
        pytest.skip("pgrep finds the child")
    while process.poll() is None:
        found = subprocess.run([tool, "-P", str(process.pid)], capture_output=True, text=True)
        if found.stdout.strip():
            return int(found.stdout.split()[0])
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("link", LINKS)
def test_parts_within_themselves_are_refused(file, link):
    LINKS[link](file)
    with pytest.raises(BrokenFile, match=r"holds /.* in two places; expected each part once"):
        hdf5.arrays(file)


def test_an_array_of_texts_is_refused(file):
    import h5py

    with h5py.File(file, "a") as held:
        del held["layer_norm/vars/0"]
        held["layer_norm/vars/0"] = np.array([b"a", b"b"])
    with pytest.raises(BrokenFile, match="only a part of layer_norm/0; expected dense arrays"):
        hdf5.arrays(file)
