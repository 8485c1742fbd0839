"""NumPy's files: arrays, or one of our errors, whatever the file says."""

import io
import zipfile

import numpy as np
import pytest

from vesalius.checkpoints import expanding
from vesalius.data.arrays import read_array, read_arrays
from vesalius.errors import BrokenFile


def saved(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays) if arrays else np.save(file, np.arange(6).reshape(2, 3))
    return file.getvalue()


def test_arrays_are_read(tmp_path):
    (tmp_path / "x.npy").write_bytes(saved())
    (tmp_path / "x.npz").write_bytes(saved(a=np.ones(2), b=np.zeros(3)))
    assert read_array(tmp_path / "x.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert {name: a.shape for name, a in read_arrays(tmp_path / "x.npz").items()} == {
        "a": (2,),
        "b": (3,),
    }
    with pytest.raises(BrokenFile, match=r"x\.npz holds a, b; expected one, as \.npy"):
        read_array(tmp_path / "x.npz")


def test_an_archive_that_would_expand_to_gigabytes_is_refused_before_it_does(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(100_000), b=np.zeros(100_000))
    assert read_arrays(tmp_path / "x.npz")["a"].size == 100_000
    monkeypatch.setattr(expanding, "ROOM", 2**20)
    with pytest.raises(BrokenFile, match=r"x\.npz would expand to 1\.6 MB, .* save it again"):
        read_arrays(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", a=np.zeros(200_000))
    assert read_arrays(tmp_path / "x.npz")["a"].size == 200_000, "as large as it says"


def patched(archive):
    """An archive whose entries are marked as patches, which Python cannot read."""
    data = bytearray(archive)
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        data[opened.start_dir + 8] |= 0x20
    return bytes(data)


def holding(data):
    """An archive with something else than an array inside."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("labels.npy", data)
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        saved().replace(b"'shape': (2, 3)", b"'shape': ((2, 3"),  # not even tokens
        saved().replace(b"(2, 3), }    ", b"(2**40, 9**9)}"),
        saved().replace(b"'shape': (2, 3), }", b"'shape': (9999999999999, 3), }")[:-11],
        saved().replace(b"<i8", b"|O8"),
        saved()[:40],
        patched(saved(a=np.ones(2))),
        holding(b"no array"),
        b"",
        b"PK\x03\x04",
    ],
    ids=[
        "brackets",
        "no number",
        "terabytes",
        "objects",
        "cut",
        "patched",
        "no array",
        "empty",
        "zip",
    ],
)
def test_a_damaged_file_is_named(tmp_path, data):
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(BrokenFile, match=r"x\.npy cannot be read as NumPy's arrays"):
        read_arrays(tmp_path / "x.npy")
