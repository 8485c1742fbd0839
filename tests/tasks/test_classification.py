"""Classes of images and series: names, probabilities, several at once."""

import json

import numpy as np
import pytest
from strategies import filled, small

from vesalius.errors import VesaliusError, WrongKind
from vesalius.tasks.classification import classify
from vesalius.traces.dissection import dissect

NAMES = ["bag", "boot", "coat", "dress", "shirt"]
PIXELS = np.random.default_rng(5).integers(256, size=(6, 6, 3), dtype=np.uint8)


@pytest.fixture
def vit():
    model = filled(small("vit"), dtype="float32")
    model.preprocessing = {"mean": [99.0] * 3, "std": [50.0] * 3, "names": NAMES}
    return model


def test_classes_come_with_names_and_probabilities_the_likeliest_first(vit):
    found = classify(vit, PIXELS)
    rows = [(c.number, c.name, c.probability) for c in found.candidates]
    assert rows == dissect(vit, PIXELS).classes()
    assert sum(p for *_, p in rows) == pytest.approx(1)
    assert found.name == str(found) == rows[0][1]
    assert found.prepared == "scaled as in training"
    assert found.right is None
    told = json.loads(json.dumps(found.to_json(top=2)))
    assert told["class"] == found.name
    assert [c["name"] for c in told["candidates"]] == [name for _, name, _ in rows[:2]]


def test_several_files_and_arrays_are_classified_at_once(vit, tmp_path):
    np.save(tmp_path / "one.npy", PIXELS)
    np.save(tmp_path / "two.npy", np.stack([PIXELS, 255 - PIXELS]))
    files = [tmp_path / "one.npy", str(tmp_path / "two.npy")]
    found = classify(vit, [*files, PIXELS])
    expected = [f"{tmp_path}/one.npy", f"{tmp_path}/two.npy, 0", f"{tmp_path}/two.npy, 1", ""]
    assert [one.source for one in found] == expected
    assert found[0].candidates == found[1].candidates == found[3].candidates
    assert found[2].candidates == classify(vit, PIXELS, invert=True).candidates
    assert len(classify(vit, files[:1])) == 1


def test_labels_of_a_file_are_compared(tmp_path):
    model = filled(small("tst", head="classes", outputs=2), dtype="float32")
    model.preprocessing = {"mean": [0.0] * 4, "std": [1.0] * 4, "names": ["up", "down"]}
    head = "@timeStamps false\n@dimensions 4\n@classLabel true up down\n@data\n"
    (tmp_path / "a.ts").write_text(head + "1:2:3:4:up\n1:2:3:4:down\n")
    found = classify(model, tmp_path / "a.ts")
    assert [one.label for one in found] == ["up", "down"]
    assert sorted(one.right for one in found) == [False, True]


def test_a_series_has_a_value_in_the_units_of_its_target(tmp_path):
    model = filled(small("tst", head="regression", outputs=1), dtype="float32")
    scaled = {"mean": [0.0] * 4, "std": [1.0] * 4}
    model.preprocessing = scaled | {"target_mean": 1000.0, "target_std": 50.0}
    head = "@dimensions 4\n@targetLabel true\n@data\n"
    (tmp_path / "a.ts").write_text(head + "1:2:3:4:990\n4:3:2:1:1010\n")
    found = classify(model, tmp_path / "a.ts")
    given = (np.array([[1.0], [2], [3], [4]]), np.array([[4.0], [3], [2], [1]]))
    expected = [1000 + 50 * dissect(model, one)["z"][0] for one in given]
    assert [float(one) for one in found] == pytest.approx(expected)
    assert [one.source for one in found] == [f"{tmp_path}/a.ts, 0", f"{tmp_path}/a.ts, 1"]
    assert float(classify(model, given[0])) == float(found[0])
    assert found[0].to_json()["prepared"] == "scaled as in training"


def test_models_without_classes_or_scaling_say_so(vit):
    with pytest.raises(WrongKind, match="this gpt2 has no head that labels texts"):
        classify(filled(small("gpt2")), [1, 2])
    with pytest.raises(WrongKind, match="tells no classes apart"):
        classify(filled(small("vit", classes=0)), PIXELS)
    with pytest.raises(WrongKind, match="tells no classes apart"):
        classify(filled(small("tst", head="regression", outputs=2)), np.zeros((4, 7)))
    with pytest.raises(WrongKind, match="or on a value for each input"):
        classify(filled(small("tst", head="series", outputs=1)), np.zeros((4, 7)))
    vit.preprocessing = {}
    with pytest.raises(WrongKind, match=r"no preprocessing\.json; say raw"):
        classify(vit, PIXELS)
    assert classify(vit, PIXELS, raw=True).prepared == "taken as given: raw"


@pytest.mark.parametrize("given", [[], None, 3, "nowhere.png", ["nowhere.png"], np.zeros(3)])
def test_what_cannot_be_classified_is_refused(vit, given):
    with pytest.raises(VesaliusError):
        classify(vit, given)
