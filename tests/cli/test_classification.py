"""The verb that tells classes: files in, names and probabilities out."""

import json

import numpy as np
import pytest
from processes import is_complaint, shown, vesalius
from strategies import filled, small

import vesalius as package


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    from PIL import Image

    place = tmp_path_factory.mktemp("place")
    white = np.full((40, 30, 3), 255, np.uint8)
    white[10:30, 5:25] = (200, 30, 30)
    Image.fromarray(white).save(place / "shirt.png")
    Image.fromarray(white).save(place / "shirt.jpg")
    header = "@timeStamps false\n@dimensions 12\n@classLabel true 1 2\n@data\n"
    series = ":".join(["0.1,0.2,0.3"] * 12)
    (place / "voices.ts").write_text(header + f"{series}:1\n" * 6)
    return place


def test_an_image_gets_names_and_what_was_done_is_said(place):
    text = shown("classify", "vit", str(place / "shirt.png"), "--top", "3")
    assert sum(name in text for name in package.load("vit").preprocessing.names) >= 3
    assert "Input: greyed; resized from 30 x 40 to 28 x 28; scaled as in training" in text
    assert "invert may be what is wanted" in text


def test_several_images_are_told_in_json(place):
    files = [str(place / name) for name in ("shirt.png", "shirt.jpg")]
    found = json.loads(shown("classify", "vit", *files, "--invert", "--top", "2", "--json"))
    assert [one["source"] for one in found] == files
    assert all(len(one["candidates"]) == 2 for one in found)
    assert found[0]["class"] == found[0]["candidates"][0]["name"] == found[1]["class"]
    assert "inverted" in found[0]["prepared"]


def test_many_series_have_a_row_each_and_what_is_right_is_counted(place):
    text = shown("classify", "tst", str(place / "voices.ts"), "--top", "1")
    assert "of 6 are what their files say" in text
    assert text.count("truth") == 1


def test_of_images_of_several_sizes_the_first_is_what_is_told_of(tmp_path):
    from PIL import Image

    files = [str(tmp_path / f"{number}.png") for number in range(5)]
    for number, file in enumerate(files):
        Image.new("L", (30 + number, 40)).save(file)
    text = shown("classify", "vit", *files)
    assert "Input, of the first: resized from 30 x 40 to 28 x 28;" in text
    assert "Input: resized from 30 x 40" in shown("classify", "vit", *files[:1] * len(files))


def test_values_of_series_have_a_row_each(place, tmp_path):
    model = filled(small("tst", head="regression", outputs=1), dtype="float32")
    scaled = {"mean": [0.0] * 4, "std": [1.0] * 4}
    model.preprocessing = scaled | {"target_mean": 1000.0, "target_std": 50.0}
    model.save(tmp_path / "model")
    (tmp_path / "a.ts").write_text("@dimensions 4\n@data\n1:2:3:4\n4:3:2:1\n")
    given = ("classify", str(tmp_path / "model"), str(tmp_path / "a.ts"))
    values = [one["value"] for one in json.loads(shown(*given, "--json"))]
    text = shown(*given)
    assert all(f"{value:.4f}" in text for value in values)
    assert "Input: scaled as in training" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpt", "shirt.png"], "this gpt2 has no head that labels texts"),
        (["vit", "voices.ts"], "cannot be read as an image; expected a file of .png"),
        (["tst", "shirt.png"], "cannot be read as a series; expected a file of .ts"),
        (["vit", "nowhere.png"], "there is no file"),
        (["vit"], "expected TEXT or FILE, or --file"),
    ],
)
def test_what_cannot_be_classified_is_one_line_and_exit_code_2(place, arguments, message):
    model, *files = arguments
    done = vesalius("classify", model, *(str(place / file) for file in files))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert is_complaint(done.stderr)
