"""What a model keeps of its training is typed, and its file is read and written as it was."""

import json
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import vesalius as vs
from vesalius.errors import CheckpointMismatch
from vesalius.preparation import Preparation

FILES = sorted((Path(__file__).parent / "saved").glob("*/preprocessing.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_a_file_is_written_as_it_was_read(file):
    written = json.loads(file.read_text())
    assert Preparation.from_json(written).to_json() == written


def test_what_is_not_known_is_written_again():
    written = {"mean": [1.0], "std": [2.0], "camera": "left"}
    known = Preparation.from_json(written)
    assert known.others == {"camera": "left"}
    assert known.to_json() == written


def test_it_is_changed_by_a_copy_alone():
    known = Preparation(names=["a", "b"])
    with pytest.raises(FrozenInstanceError):
        known.names = ["c"]
    assert known.change(names=["c"]).names == ["c"]
    assert known.names == ["a", "b"]
    assert known
    assert not Preparation()


def test_a_model_takes_a_mapping_for_it():
    model = vs.create("vit", layers=1, embedding=8, heads=2, image=8, patch=4, channels=1)
    model.preprocessing = {"mean": [70.0], "std": [90.0]}
    assert model.preprocessing == Preparation(mean=[70.0], std=[90.0])


def test_what_belongs_to_another_model_is_refused():
    with pytest.raises(CheckpointMismatch, match=r"2 finite numbers each, got mean \[1.0\]"):
        Preparation(mean=[1.0], std=[1.0]).scaling(2)
    with pytest.raises(CheckpointMismatch, match="a list of 3 names of classes, got names"):
        Preparation(names=["a"]).class_names(3)
