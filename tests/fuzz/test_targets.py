"""A few cases of every target, the same each time: our errors alone, and nothing else done."""

import gzip
import io
import pickle
import shutil
import struct
import zipfile
import zlib
from random import Random

import pytest

from fuzz import __main__ as searching
from fuzz import models, texts, watching, worker
from fuzz.commands import Commands
from fuzz.mutating import bytes_changed, json_changed, lines_changed, npy_changed, png_changed
from fuzz.targets import CSV, TARGETS, Images, _array, _payload
from vesalius.errors import BrokenFile

CASES = 12
PNG = b"\x89PNG\r\n\x1a\n" + b"".join(
    struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    for kind, data in ((b"IHDR", bytes(13)), (b"IDAT", zlib.compress(b"abc")), (b"IEND", b""))
)


@pytest.fixture(scope="module")
def watch(tmp_path_factory):
    return watching.Watch(tmp_path_factory.getbasetemp())


FILES = {**TARGETS, **texts.TARGETS}
SOUND = ("edits", "tokens")
"""Targets whose files are what they should be."""


def test_every_target_is_searched():
    assert {*searching.TARGETS} == {*worker.ALL}


@pytest.mark.parametrize("name", [*FILES, *models.TARGETS])
def test_a_few_cases_give_a_right_result_or_are_refused(name, tmp_path, watch, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seeds").mkdir()
    target, answered = worker.ALL[name](tmp_path / "seeds"), 0
    for number in range(CASES):
        place = tmp_path / f"{number}"
        place.mkdir()
        answered += watch.run(target.case(Random(f"{name} {number}"), place))
    assert answered < CASES or name in (*SOUND, *models.TARGETS), "some are damaged"


def test_wrong_arguments_are_refused_in_a_line(tmp_path, watch, monkeypatch):
    monkeypatch.setenv("VESALIUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("socket.getaddrinfo", watching.refuse)
    (tmp_path / "seeds").mkdir()
    commands = Commands(tmp_path / "seeds")
    for number in range(CASES):
        place = tmp_path / f"{number}"
        place.mkdir()
        watch.run(commands.case(Random(f"commands {number}"), place))


def test_the_watch_sees_what_must_not_happen(tmp_path, watch, capfd):
    def bad():
        raise KeyError("not ours")

    with pytest.raises(KeyError):
        watch.run(bad)
    with pytest.raises(watching.Finding, match=r"/elsewhere"):
        watch.run(lambda: (tmp_path.parents[2] / "elsewhere").unlink(missing_ok=True))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("")
    watch.run(lambda: shutil.rmtree(tmp_path / "a"))  # which names files by their open folder
    with pytest.raises(watching.Finding, match="printed b'panicked"):
        watch.run(lambda: __import__("os").write(2, b"panicked"))
    with pytest.raises(watching.Finding, match=r"os\.system"):
        watch.run(lambda: __import__("os").system("true"))
    assert watch.run(lambda: None)

    def ours():
        raise BrokenFile("a file that is broken")

    assert not watch.run(ours)
    assert capfd.readouterr() == ("", "")


def test_the_pickles_would_run_something_if_they_were_read_carelessly(tmp_path):
    canary, seen = tmp_path / "executed", 0
    for number in range(100):
        data = _payload(Random(number), canary)
        if b"os\nmkdir" in data:
            pickle.loads(data)
            canary.rmdir()
            seen += 1
    assert seen


def test_the_bomb_expands_a_thousand_times(tmp_path):
    bomb = Images(tmp_path).bomb
    assert len(bomb) < 3 << 20
    with gzip.open(io.BytesIO(bomb)) as opened:
        assert len(opened.read(1 << 26)) == 1 << 26


def test_an_archive_expands_to_two_gigabytes_whatever_it_says(tmp_path):
    said = []
    for bomb in Images(tmp_path).bombs:
        with zipfile.ZipFile(io.BytesIO(bomb)) as archive:
            (entry,) = archive.infolist()
            said.append(entry.file_size)
            assert entry.filename == "images.npy"
    assert said[0] > 2000 << 20 > said[1]
    assert len(bomb) < 3 << 20


def test_damage_is_the_same_for_the_same_seed():
    said = {"a": [1, {"b": "c"}], "d": None}
    for seed in range(50):
        for change in (
            lambda random: bytes_changed(random, b"some bytes 123", [b"others"]),
            lambda random: json_changed(random, said, [said]),
            lambda random: lines_changed(random, CSV),
            lambda random: png_changed(random, PNG),
            lambda random: npy_changed(random, _array([1, 2]), ["|O", "x"]),
        ):
            assert change(Random(seed)) == change(Random(seed))
    assert said == {"a": [1, {"b": "c"}], "d": None}
