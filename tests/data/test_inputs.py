"""Images and series reach every verb as they reached training: scaled, or raw where it is said."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from strategies import filled, small

from vesalius.data.inputs import class_names, read_input, read_inputs
from vesalius.errors import (
    BrokenFile,
    CheckpointMismatch,
    EmptySequence,
    NotFinite,
    SequenceTooLong,
    UnusableData,
    VesaliusError,
    WrongKind,
    WrongLength,
)
from vesalius.evaluation import evaluate
from vesalius.model import load
from vesalius.traces.dissection import dissect
from vesalius.traces.trace import read_trace

DATA = os.environ.get("VESALIUS_DATA")
NAMES = ["bag", "boot", "coat", "dress", "shirt"]
KEPT = {"mean": [100.0, 90.0, 80.0], "std": [50.0, 60.0, 70.0], "names": NAMES}
SERIES = {"mean": [1.0, 2.0, 3.0, 4.0], "std": [0.5, 1.0, 2.0, 4.0]}
RNG = np.random.default_rng(5)
PIXELS = RNG.integers(256, size=(6, 6, 3), dtype=np.uint8)


@pytest.fixture
def vit():
    model = filled(small("vit"), dtype="float32")
    model.preprocessing = KEPT
    return model


@pytest.fixture
def grey():
    model = filled(small("vit", channels=1), dtype="float32")
    model.preprocessing = {"mean": [70.0], "std": [90.0]}
    return model


@pytest.fixture
def tst():
    model = filled(small("tst", head="classes", outputs=2), dtype="float32")
    model.preprocessing = SERIES
    return model


def picture(path, pixels, **options):
    from PIL import Image

    Image.fromarray(pixels).save(path, **options)
    return path


def test_an_image_is_scaled_as_the_model_says_and_the_trace_tells_it(vit):
    trace = dissect(vit, PIXELS)
    by_hand = (PIXELS - np.array([100.0, 90.0, 80.0])) / np.array([50.0, 60.0, 70.0])
    raw = dissect(vit, by_hand, raw=True)
    np.testing.assert_allclose(trace["z"], raw["z"], rtol=1e-5, atol=1e-6)
    assert not np.allclose(trace["z"], dissect(vit, PIXELS, raw=True)["z"])
    assert trace.prepared == "scaled as in training"
    assert raw.prepared == "taken as given: raw"
    vit.preprocessing = {}
    assert "has no preprocessing.json" in dissect(vit, PIXELS).prepared


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@pytest.mark.parametrize("several", [False, True])
def test_channels_that_come_first_are_not_taken_for_grey_images(vit, kind, several):
    first = np.moveaxis(PIXELS, -1, 0).astype(kind)
    for given in (first, torch.tensor(first)):
        with pytest.raises(WrongLength, match="whose channels come first, as in PyTorch"):
            read_inputs(vit, given[None] if several else given)


def test_the_network_gives_the_same_classes(vit):
    scaled = (PIXELS - np.array(KEPT["mean"])) / np.array(KEPT["std"])
    with torch.no_grad():
        tensor = torch.tensor(scaled.transpose(2, 0, 1)[None], dtype=torch.float32)
        odds = torch.softmax(vit.network(tensor).logits[0], 0)
    found = dissect(vit, PIXELS).classes()
    assert [number for number, _, _ in found] == odds.argsort(descending=True).tolist()
    assert [name for _, name, _ in found] == [NAMES[i] for i in odds.argsort(descending=True)]
    np.testing.assert_allclose([p for _, _, p in found], odds.sort(descending=True)[0], rtol=1e-4)


def test_a_series_is_scaled_as_the_model_says(tst):
    series = RNG.normal(size=(4, 6))
    by_hand = (series.T - SERIES["mean"]) / SERIES["std"]
    expected = dissect(tst, by_hand.T, raw=True)["z"]
    np.testing.assert_allclose(dissect(tst, series)["z"], expected, rtol=1e-5, atol=1e-6)
    assert dissect(tst, series).classes(1)[0][1] in ("0", "1")


def test_preprocessing_of_another_model_is_noticed(vit):
    vit.preprocessing = {"mean": [1.0], "std": [1.0]}
    with pytest.raises(CheckpointMismatch, match="mean and std, 3 finite numbers each"):
        dissect(vit, PIXELS)
    vit.preprocessing = {**KEPT, "names": ["one"]}
    with pytest.raises(CheckpointMismatch, match="5 names of classes"):
        dissect(vit, PIXELS)


@pytest.mark.skipif(not DATA, reason="VESALIUS_DATA does not say where the corpora are")
def test_the_specimen_of_series_is_as_good_dissected_as_evaluated():
    file, model = Path(DATA) / "timeseries/JapaneseVowels_TEST.ts", load("tst")
    inputs = read_inputs(model, file)[::30]
    right = [dissect(model, one, only="z").classes(1)[0][1] == one.label for one in inputs]
    assert sum(right) == len(right) == 13


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="VESALIUS_DATA does not say where the corpora are")
def test_dissecting_all_series_gives_the_accuracy_of_evaluating_them():
    file, model = Path(DATA) / "timeseries/JapaneseVowels_TEST.ts", load("tst")
    inputs = read_inputs(model, file)
    right = [dissect(model, one, only="z").classes(1)[0][1] == one.label for one in inputs]
    assert np.mean(right) == evaluate(model, str(file)).numbers["accuracy"]


# ------------------------------------------------------------------------------------------- files


def test_a_file_of_its_size_is_read_to_the_last_bit(vit, tmp_path):
    file = picture(tmp_path / "image.png", PIXELS)
    np.save(tmp_path / "image.npy", PIXELS)
    expected = dissect(vit, PIXELS)["z"]
    for given in (file, str(file), tmp_path / "image.npy"):
        np.testing.assert_array_equal(dissect(vit, given)["z"], expected)


def test_other_pictures_are_made_what_the_model_reads_and_it_is_said(grey, tmp_path):
    from PIL import Image

    colours = RNG.integers(256, size=(20, 30, 3), dtype=np.uint8)
    found = read_input(grey, picture(tmp_path / "image.png", colours))
    assert found.done[:2] == ("greyed", "resized from 30 x 20 to 6 x 6")
    expected = Image.fromarray(colours).convert("L").resize((6, 6), Image.Resampling.BILINEAR)
    scaled = (np.asarray(expected, np.float64) - 70) / 90
    np.testing.assert_allclose(found.values[:, :, 0], scaled, rtol=1e-6)
    inverted = read_input(grey, tmp_path / "image.png", invert=True)
    assert inverted.done[2] == "inverted"
    np.testing.assert_allclose(inverted.values + found.values, (255 - 140) / 90, rtol=1e-5)


def test_pictures_are_resized_as_hugging_face_does(vit, tmp_path):
    from transformers import ViTImageProcessor

    pixels = RNG.integers(256, size=(17, 40, 3), dtype=np.uint8)
    file = picture(tmp_path / "image.png", pixels)
    size = {"height": 6, "width": 6}
    mean, std = (np.array(KEPT[name]) / 255 for name in ("mean", "std"))
    from PIL import Image

    theirs = ViTImageProcessor(size=size, image_mean=mean.tolist(), image_std=std.tolist())(
        Image.open(file), return_tensors="np"
    )["pixel_values"][0]
    ours = read_input(vit, file).values
    np.testing.assert_allclose(ours, theirs.transpose(1, 2, 0), atol=1e-5)


def test_a_turned_photograph_is_turned_upright(grey, tmp_path):
    from PIL import Image

    image = Image.fromarray(RNG.integers(256, size=(6, 9), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    image.save(tmp_path / "turned.png", exif=exif)
    assert read_input(grey, tmp_path / "turned.png").done[0] == "turned upright"


def test_transparent_parts_lie_on_white(grey, tmp_path):
    pixels = np.zeros((6, 6, 4), np.uint8)
    found = read_input(grey, picture(tmp_path / "clear.png", pixels))
    assert found.done[:2] == ("laid on white", "greyed")
    np.testing.assert_allclose(found.values, (255 - 70) / 90, rtol=1e-6)
    assert "invert may be what is wanted" in found.hint
    assert not read_input(grey, tmp_path / "clear.png", invert=True).hint


def test_a_picture_that_claims_too_many_pixels_is_not_decoded(grey, tmp_path, monkeypatch):
    file = picture(tmp_path / "image.png", PIXELS)
    monkeypatch.setattr("vesalius.data.pictures.PIXELS", 35)
    with pytest.raises(UnusableData, match="6 x 6 pixels; expected at most 35"):
        read_input(grey, file)


@pytest.mark.parametrize("size", [0, 20, 60])
def test_a_damaged_picture_is_named(grey, tmp_path, size):
    file = picture(tmp_path / "image.png", PIXELS)
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(BrokenFile, match=r"image\.png cannot be read as PNG or JPEG"):
        read_input(grey, file)


def test_an_array_whose_header_claims_too_much_is_refused(vit, tmp_path):
    np.save(tmp_path / "a.npy", PIXELS)
    data = (tmp_path / "a.npy").read_bytes()
    for header in (b"(9999,9999,9999), }   ", b"(6, 6, 3 , }          ", b"("):
        wrong = data.replace(b"(6, 6, 3), }".ljust(22), header)
        assert wrong != data
        (tmp_path / "a.npy").write_bytes(wrong)
        with pytest.raises(BrokenFile, match="cannot be read as NumPy's arrays"):
            read_input(vit, tmp_path / "a.npy")


TS = """@problemName made
@timeStamps false
@dimensions 4
@classLabel true up down
@data
1,2,3:4,5,6:7,8,9:1,1,1:up
?,2,3:?,5,6:?,8,?:?,1,1:down
"""


def test_series_of_a_file_keep_their_labels_and_gaps_are_filled(tst, tmp_path):
    (tmp_path / "made.ts").write_text(TS)
    first, second = read_inputs(tst, tmp_path / "made.ts")
    assert (first.label, second.label) == ("up", "down")
    assert (first.source, second.source) == tuple(f"{tmp_path}/made.ts, {i}" for i in (0, 1))
    assert first.real is None
    assert second.real.tolist() == [False, True, True]
    assert second.done[0] == "5 gaps filled with the mean"
    assert second.values[:, 0].tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(first.values[3], (1 - 4.0) / 4)


def test_gaps_are_read_as_in_validation(tst, tmp_path):
    (tmp_path / "made.ts").write_text(TS)
    tst.preprocessing = SERIES | {"names": ["up", "down"]}
    (batch,) = evaluate_batches(tst, tmp_path / "made.ts")
    with torch.no_grad():
        expected = tst.network(torch.tensor(batch["series"]), torch.tensor(batch["real"]))
    for one, logits in zip(read_inputs(tst, tmp_path / "made.ts"), expected, strict=True):
        np.testing.assert_allclose(dissect(tst, one)["z"], logits, rtol=1e-4, atol=1e-5)


def evaluate_batches(model, file):
    from vesalius.arguments import silent
    from vesalius.tasks import task_named

    return task_named("series-classes").learns.held_out(model, str(file), silent).batches.valid()


def test_a_table_is_a_series_and_is_cut_as_in_training(tst, tmp_path):
    rows = "\n".join(f"{i},1,2,3,{'up' if i < 4 else 'down'}" for i in range(8))
    (tmp_path / "t.csv").write_text(f"a,b,c,d,class\n{rows}\n")
    tst.preprocessing = SERIES | {"label": "class", "window": 3}
    found = read_inputs(tst, tmp_path / "t.csv")
    assert [(one.label, one.values.shape[1]) for one in found] == [("up", 3), ("down", 3)]
    assert found[0].done[0] == "scaled as in training"
    (tmp_path / "plain.csv").write_text("a,b,c,d\n" + "1,2,3,4\n" * 6)
    found = read_inputs(tst, tmp_path / "plain.csv")
    assert [one.label for one in found] == [None, None]
    assert found[0].done[0] == "cut into windows of 3"


def test_one_of_several_is_chosen_by_its_number(tst, tmp_path):
    (tmp_path / "made.ts").write_text(TS)
    file = tmp_path / "made.ts"
    with pytest.raises(WrongLength, match=r"there are 2 in it.* 0 to 1"):
        dissect(tst, file)
    assert dissect(tst, file, index=1)["z"].shape == (2,)
    with pytest.raises(WrongLength, match="expected an index of 0 to 1, got 2"):
        dissect(tst, file, index=2)


# ----------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("raw", [False, True])
def test_what_is_not_finite_is_refused(vit, tst, wrong, raw):
    image, series = PIXELS.astype(np.float32), np.zeros((4, 5))
    image[0, 0, 0] = series[0, 0] = wrong
    with pytest.raises(NotFinite, match="NaN or infinity in the image: 1 of 108 numbers"):
        dissect(vit, image, raw=raw)
    with pytest.raises(NotFinite, match="NaN or infinity in the series: 1 of 20 numbers"):
        dissect(tst, series, raw=raw)


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        (lambda a: a / 255, "multiply by 255"),
        (lambda a: a / 127.5 - 1, "undo their scaling"),
        (lambda a: a * 2.0, "undo their scaling"),
    ],
)
def test_pixels_that_are_scaled_already_are_not_scaled_again(vit, change, advice):
    with pytest.raises(UnusableData, match=f"expected pixels of 0 to 255, got .*{advice}.* raw"):
        dissect(vit, change(PIXELS))
    dissect(vit, change(PIXELS), raw=True)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (None, WrongKind),
        (3, WrongKind),
        ({}, WrongKind),
        ([[1, 2], [3]], WrongKind),
        (b"abc", WrongKind),
        (np.zeros((6, 6, 3), bool), WrongKind),
        (np.zeros((0, 6, 3)), EmptySequence),
        (np.zeros((7, 6, 3)), WrongLength),
        (np.zeros((6, 6, 5), np.uint8), VesaliusError),
        ("rain", WrongKind),
        (Path("nowhere.png"), WrongKind),
        (Path(__file__), WrongKind),
    ],
)
def test_what_is_no_image_is_refused(vit, given, error):
    with pytest.raises(error):
        dissect(vit, given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (np.zeros((7, 4)), WrongLength, "reads 4 channels, got 7; transpose it"),
        (np.zeros((4, 8)), SequenceTooLong, "8 time steps, the model 7"),
        (np.zeros(4), WrongKind, "got an array of 1 axes"),
        (Path(__file__), WrongKind, r"expected a file of \.ts, \.csv, \.npy"),
    ],
)
def test_what_is_no_series_is_refused(tst, given, error, message):
    with pytest.raises(error, match=message):
        dissect(tst, given)


@pytest.mark.parametrize("kind", ["U1", "M8[s]", "complex64"])
def test_a_file_of_an_array_without_numbers_is_refused(vit, tst, tmp_path, kind):
    for model, shape in ((vit, PIXELS.shape), (tst, (4, 5))):
        np.save(tmp_path / "a.npy", np.zeros(shape, kind))
        with pytest.raises(WrongKind, match="as an array of numbers; got one of"):
            dissect(model, tmp_path / "a.npy")


def test_lists_and_tensors_are_arrays_too(vit, tst):
    expected = dissect(vit, PIXELS)["z"]
    for given in (PIXELS.tolist(), torch.tensor(PIXELS), PIXELS.astype(np.int64)):
        np.testing.assert_array_equal(dissect(vit, given)["z"], expected)
    series = RNG.normal(size=(4, 5))
    tensor = torch.tensor(series, requires_grad=True)
    np.testing.assert_array_equal(dissect(tst, tensor)["z"], dissect(tst, series)["z"])


def test_raw_and_index_are_for_images_and_series():
    with pytest.raises(WrongKind, match="are for images and series, not gpt2"):
        dissect(filled(small("gpt2")), [1, 2], raw=True)


def test_classes_are_named_by_preprocessing_or_by_their_checkpoint(vit, tst):
    assert class_names(vit) == NAMES
    vit.preprocessing = vit.preprocessing.change(names=None)
    assert class_names(vit) == ["0", "1", "2", "3", "4"]
    vit.origin = {"id2label": {str(i): name for i, name in enumerate(NAMES)}}
    assert class_names(vit) == NAMES
    assert class_names(filled(small("vit", classes=0))) == []
    assert class_names(filled(small("tst", head="regression"))) == []
    assert class_names(load("vit"))[-1] == "Ankle boot"
    assert class_names(load("tst"))[0] == "1"


def test_a_saved_trace_keeps_its_classes_and_what_was_done(vit, tmp_path):
    trace = dissect(vit, PIXELS)
    trace.save(tmp_path / "t.safetensors")
    again = read_trace(tmp_path / "t.safetensors")
    assert again.classes() == trace.classes()
    assert again.prepared == trace.prepared
    assert again.tokens() == trace.tokens() == ["[class]", *(f"patch {i}" for i in range(1, 10))]
    assert json.loads((tmp_path / "t.safetensors.json").read_text())["classes"] == NAMES
