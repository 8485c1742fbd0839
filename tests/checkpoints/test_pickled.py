"""Pickled weights: read as dense tensors alone, whatever the file claims."""

import random
import zipfile

import pytest
import torch

from vesalius.checkpoints import expanding, pickled
from vesalius.errors import BrokenFile

DENSE = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4, dtype=torch.float16)}


def test_dense_tensors_are_read_views_and_parameters_too(tmp_path):
    views = {"rows": DENSE["a"][1:], "turned": DENSE["a"].T, "same": DENSE["a"].expand(2, 3)}
    torch.save({**DENSE, **views, "p": torch.nn.Parameter(DENSE["a"])}, tmp_path / "x.bin")
    found = pickled.read(tmp_path / "x.bin")
    assert found.dtype == "float32"
    assert {name: array.tolist() for name, array in found.arrays.items()} == {
        name: tensor.tolist() for name, tensor in {**DENSE, **views, "p": DENSE["a"]}.items()
    }


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(1, dtype=torch.float16).expand(10**13),
        torch.zeros(1).expand(3, 1),
        torch.eye(3).to_sparse(),
        torch.zeros(3, device="meta"),
    ],
    ids=["terabytes", "repeated", "sparse", "without data"],
)
def test_a_tensor_that_is_not_all_there_is_named(tmp_path, tensor):
    torch.save({**DENSE, "odd": tensor}, tmp_path / "x.bin")
    with pytest.raises(BrokenFile, match=r"x\.bin holds only a part of odd; expected dense"):
        pickled.read(tmp_path / "x.bin")


def test_a_file_that_was_compressed_to_a_hundredth_is_refused(tmp_path, monkeypatch):
    """PyTorch stores tensors as they are, and reads them compressed, too."""
    torch.save({"a": torch.zeros(400_000)}, tmp_path / "x.bin")
    with (
        zipfile.ZipFile(tmp_path / "x.bin") as stored,
        zipfile.ZipFile(tmp_path / "y.bin", "w", zipfile.ZIP_DEFLATED) as deflated,
    ):
        for name in stored.namelist():
            deflated.writestr(name, stored.read(name))
    monkeypatch.setattr(expanding, "ROOM", 2**20)
    assert pickled.read(tmp_path / "x.bin").arrays["a"].size == 400_000
    with pytest.raises(BrokenFile, match=r"y\.bin would expand to 1\.6 MB, .* times its size"):
        pickled.read(tmp_path / "y.bin")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_damaged_file_gives_arrays_or_says_that_it_is_broken(tmp_path, zipped):
    file, chance = tmp_path / "x.bin", random.Random(0)
    torch.save(DENSE, file, _use_new_zipfile_serialization=zipped)
    data, messages = file.read_bytes(), []
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(3):
            damaged[chance.randrange(min(len(data), 500))] = chance.randrange(256)
        file.write_bytes(damaged)
        try:
            pickled.read(file)
        except BrokenFile as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert all(str(file) in message for message in messages)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_that_asks_for_terabytes_is_refused(tmp_path, zipped):
    class Claim:
        def __reduce__(self):
            return bytearray, (2**50,)

    torch.save({"a": Claim()}, tmp_path / "x.bin", _use_new_zipfile_serialization=zipped)
    with pytest.raises(BrokenFile, match="or asks for more memory than there is"):
        pickled.read(tmp_path / "x.bin")


def test_an_archive_that_points_beyond_itself_is_refused(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "x.bin")
    data = bytearray((tmp_path / "x.bin").read_bytes())
    data[-50:-42] = b"\xff" * 8  # where the record of its end is said to begin
    (tmp_path / "x.bin").write_bytes(data)
    with pytest.raises(BrokenFile, match="it is damaged"):
        pickled.read(tmp_path / "x.bin")


def test_a_whole_module_says_that_its_state_is_wanted(tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(BrokenFile, match=r"save model\.state_dict\(\) and convert that"):
        pickled.read(tmp_path / "model.pt")
