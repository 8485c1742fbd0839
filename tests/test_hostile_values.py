"""Values that no program writes and files can hold: every reader says what is wrong with them."""

import json
import os
import struct
import zlib

import numpy as np
import pytest
from strategies import IDS, filled, small

import vesalius as vs
from vesalius.data.arrays import read_array
from vesalius.data.images import _picture
from vesalius.data.pictures import read_picture
from vesalius.data.series import read_ts
from vesalius.data.tables import read_table
from vesalius.data.timelines import read_timeline
from vesalius.errors import BrokenFile, ImpossibleSetting, UnusableData
from vesalius.tasks.labelling.data import LabelledData, read_labelled
from vesalius.traces.trace import read_trace


@pytest.mark.parametrize("entry", [{"dtype": []}, {"dtype": {}}, {"dtype": "F32", "shape": {}}])
def test_a_header_of_the_wrong_kinds_is_told_by_inspect(tmp_path, entry):
    header = json.dumps({"a": {"shape": [1], "data_offsets": [0, 4], **entry}}).encode()
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    assert "tensor a has" in " ".join(vs.inspect(tmp_path).problems)


@pytest.mark.parametrize("name", ["epsilon", "dropout"])
def test_a_setting_that_no_float_can_hold_is_refused(name):
    with pytest.raises(ImpossibleSetting, match=f"{name} must be (finite|below 1)"):
        vs.configuration("gpt2", **{name: 10**400})


@pytest.mark.parametrize(
    ("dates", "following"),
    [
        (["9999-12-29", "9999-12-30"], ["1", "2"]),
        (["9999-10-31", "9999-11-30"], ["1", "2"]),
        (["9999-12-31 22:00", "9999-12-31 23:00"], ["1", "2"]),
        (["9999-08-01", "9999-09-01", "9999-10-01"], ["9999-11-01", "9999-12-01"]),
    ],
)
def test_dates_that_no_calendar_has_are_numbered(tmp_path, dates, following):
    rows = [f"{date},{k}" for k, date in enumerate(dates)]
    (tmp_path / "a.csv").write_text("\n".join(["date,a", *rows]))
    assert read_timeline(tmp_path / "a.csv").after(2) == following


def test_more_dimensions_than_a_number_can_say_are_refused(tmp_path):
    head = f"@dimensions {'9' * 5000}\n@classLabel true a b\n@data\n"
    (tmp_path / "a.ts").write_text(f"{head}1,2:3,4:a\n")
    with pytest.raises(BrokenFile, match="expected a whole number of dimensions"):
        read_ts(tmp_path / "a.ts")


def test_a_value_that_no_float_can_hold_is_refused(tmp_path):
    lines = [json.dumps({"text": "a", "label": value}) for value in (10**400, 2)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(UnusableData, match="expected a finite number as 'label'"):
        read_labelled(read_table(tmp_path / "a.jsonl"), LabelledData(), "values")


def chunk(kind, data):
    """A part of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


HEAD = (b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 3, 0, 0, 0))
PIXELS = (b"IDAT", zlib.compress(bytes(9 * 8)))
COLOURS, TRANSPARENT, PROFILE = (b"PLTE", bytes(6)), (b"tRNS", bytes(300)), (b"iCCP", b"name\0")


@pytest.mark.parametrize(
    ("read", "parts", "said"),
    [
        (_picture, [PIXELS], "it lacks its palette"),
        (_picture, [COLOURS, PIXELS, PROFILE], "index out of range"),
        (lambda file: read_picture(file, 8, 3), [COLOURS, PIXELS, PROFILE], "index out of range"),
        (lambda file: read_picture(file, 8, 3), [COLOURS, TRANSPARENT, PIXELS], "palette index"),
    ],
)
def test_a_picture_with_damaged_parts_is_named(tmp_path, read, parts, said):
    file = tmp_path / "a.png"
    every = b"".join(chunk(*part) for part in (HEAD, *parts, (b"IEND", b"")))
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + every)
    with pytest.raises(BrokenFile, match=rf"a\.png cannot be read as PNG.*: {said}"):
        read(file)


@pytest.mark.parametrize("order", ["<", ">"])
def test_texts_of_characters_that_there_are_not_are_refused(tmp_path, order):
    file = tmp_path / "a.npy"
    np.save(file, np.array(["abc"], dtype=f"{order}U3"))
    assert read_array(file).tolist() == ["abc"]
    file.write_bytes(file.read_bytes()[:-4] + struct.pack(f"{order}I", 0x110000))
    with pytest.raises(BrokenFile, match=r"a\.npy cannot be read .* is no text"):
        read_array(file)


def test_an_array_of_objects_is_refused_without_a_word_on_how_to_unpickle_it(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(BrokenFile, match="it holds none") as caught:
        read_array(tmp_path / "a.npy")
    assert "allow_pickle" not in str(caught.value)


def test_a_link_that_leads_nowhere_is_listed_by_inspect(tmp_path):
    os.symlink(tmp_path / "nowhere", tmp_path / "link")
    (tmp_path / "round").symlink_to("round")
    told = {file.name: file.what for file in vs.inspect(tmp_path).files}
    said = "a link to what is not there, or cannot be read"
    assert told == {"link": said, "round": said}


WRONG = [
    *(("ids", value) for value in ([1], ["a"] * 5, "abcde", [True] * 5, None)),
    *(("tokens", value) for value in ("abcde", [1] * 5, ["a"])),
    *(("layers", value) for value in (-1, 10**30, 1.5, "3")),
    *(("segments", value) for value in ([0], [-1] * 5, "ab")),
    *(("given", value) for value in ("abc", [[1], [1, 2]], {}, [10**400])),
    *(("classes", value) for value in ([1], "ab")),
    *(("steps", value) for value in (5, [5], [[]], None)),
    *(("place", value) for value in ([], {"layer": "1"}, {"layer": 0})),
    *(("operands", value) for value in ("abc", [5], [[]])),
    *(("equation", value) for value in (5, [], None)),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace")
    vs.dissect(filled(small("gpt2")), IDS).save(folder / "a.safetensors")
    return folder / "a.safetensors", json.loads((folder / "a.safetensors.json").read_text())


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_a_saved_trace_that_contradicts_itself_is_refused_when_it_is_read(saved, key, value):
    file, told = saved
    file.with_name("a.safetensors.json").write_text(json.dumps(told))
    assert read_trace(file).ids == IDS  # what follows is due to the change alone
    first = told["steps"][0]
    changed = {**told, key: value} if key in told else {**told, "steps": [{**first, key: value}]}
    file.with_name("a.safetensors.json").write_text(json.dumps(changed))
    with pytest.raises(BrokenFile, match=r"a\.safetensors\.json"):
        read_trace(file)
