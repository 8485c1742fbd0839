"""Hugging Face's preprocessor_config.json: the same pixels for the network as their processor's."""

import json

import numpy as np
import pytest
import torch
from hugging import describe, saved
from transformers import ViTImageProcessorPil

from vesalius.errors import BrokenFile
from vesalius.model import load

IMAGE = np.random.default_rng(3).integers(256, size=(2, 12, 12), dtype=np.uint8)
SAID = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.25],
    "image_std": [0.125, 0.75],
    "rescale_factor": 1 / 255,
    "resample": 2,
    "size": {"height": 12, "width": 12},
}


@pytest.fixture
def folder(tmp_path, no_progress_bars):
    saved(tmp_path / "theirs", "ViTForImageClassification")
    return tmp_path / "theirs"


def ours(model):
    return model.preprocessing.scaling(len(IMAGE), axes=(1, 1)).apply(IMAGE)


def theirs(folder):
    processor = ViTImageProcessorPil.from_pretrained(folder)
    found = processor(IMAGE, input_data_format="channels_first", return_tensors="np")
    return found["pixel_values"][0]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"do_normalize": False},
        {"do_rescale": False},
        {"rescale_factor": 1 / 127.5},
        {"size": 12},
    ],
)
def test_pixels_are_scaled_as_by_their_processor(folder, changes):
    (folder / "preprocessor_config.json").write_text(json.dumps(SAID | changes))
    model = load(folder)
    np.testing.assert_allclose(ours(model), theirs(folder), rtol=1e-5, atol=1e-5)
    assert model.preprocessing.side == 12


def test_what_is_kept_is_written_for_their_processor_with_the_names(folder, tmp_path):
    (folder / "preprocessor_config.json").write_text(json.dumps(SAID))
    labels = {str(i): name for i, name in enumerate(["cat", "dog", "owl", "eel", "ant"])}
    describe(folder, id2label=labels)
    model = load(folder)
    assert model.preprocessing.names == list(labels.values())
    model.save(tmp_path / "own")
    load(tmp_path / "own").save(tmp_path / "back", layout="huggingface")
    np.testing.assert_allclose(theirs(tmp_path / "back"), theirs(folder), rtol=1e-5, atol=1e-5)
    described = json.loads((tmp_path / "back" / "config.json").read_text())
    assert described["id2label"] == labels
    assert described["label2id"] == {name: int(i) for i, name in labels.items()}


def test_classes_that_are_only_numbered_have_no_names(folder):
    (folder / "preprocessor_config.json").write_text(json.dumps(SAID))
    assert load(folder).preprocessing.names == []


def test_our_own_preprocessing_comes_first(folder):
    (folder / "preprocessor_config.json").write_text(json.dumps(SAID))
    (folder / "preprocessing.json").write_text(json.dumps({"mean": [1, 2], "std": [3, 4]}))
    assert load(folder).preprocessing.to_json() == {"mean": [1, 2], "std": [3, 4]}


@pytest.mark.parametrize(
    "changes",
    [
        {"image_mean": [0.5]},
        {"image_std": "wide"},
        {"rescale_factor": 0},
        {"rescale_factor": None},
        {"image_mean": [0.5, True]},
    ],
)
def test_a_file_that_cannot_be_used_is_refused(folder, changes):
    (folder / "preprocessor_config.json").write_text(json.dumps(SAID | changes))
    with pytest.raises(BrokenFile, match=r"preprocessor_config\.json should have image_mean"):
        load(folder)


def test_torch_is_given_the_same_numbers(folder):
    """What ``evaluate`` does with the preprocessing is what their pipeline does with theirs."""
    (folder / "preprocessor_config.json").write_text(json.dumps(SAID))
    model = load(folder)
    with torch.no_grad():
        mine = model.network(torch.tensor(ours(model), dtype=torch.float32)[None]).logits
        yours = model.network(torch.tensor(theirs(folder), dtype=torch.float32)[None]).logits
    torch.testing.assert_close(mine, yours, rtol=1e-4, atol=1e-4)
