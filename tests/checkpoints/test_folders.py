"""Folders of checkpoints: written whole or not at all, and what stands in a file's place."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest
from processes import code, scripts
from strategies import filled, small

from vesalius.checkpoints import exchanging, files, pickled
from vesalius.checkpoints.folders import read_config
from vesalius.errors import AlreadyThere, BrokenFile, VesaliusError
from vesalius.model import load
from vesalius.tokenizers import read_tokenizer, train_characters

# --------------------------------------------------------------------------------- written as one


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_new_folder_is_there_once_all_is_written(tmp_path):
    target = tmp_path / "runs" / "first" / "model"
    with files.new_folder(target) as stage:
        (stage / "a.txt").write_text("one")
        (stage / "inner").mkdir()
        (stage / "inner" / "b.txt").write_text("two")
        assert not target.exists()
        assert (stage.parent, stage.name[:8]) == (target.parent, ".saving-")
    assert everything_in(target) == ["a.txt", "inner", "inner/b.txt"]
    assert os.listdir(target.parent) == ["model"]
    (tmp_path / "ordinary").mkdir()
    assert target.stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), SystemExit(1)])
def test_an_exception_leaves_nothing_not_even_the_parents(tmp_path, error):
    def failing(target):
        with files.new_folder(target) as stage:
            (stage / "inner").mkdir()
            (stage / "inner" / "a.txt").write_text("half of it")
            raise error

    with pytest.raises(type(error)):
        failing(tmp_path / "runs" / "first" / "model")
    assert everything_in(tmp_path) == []
    (tmp_path / "runs").mkdir()
    with pytest.raises(type(error)):
        failing(tmp_path / "runs" / "model")
    assert everything_in(tmp_path) == ["runs"]


def occupied_by(kind, target):
    if kind == "folder":
        target.mkdir()
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to("nowhere")


@pytest.mark.parametrize("kind", ["folder", "file", "link to nowhere"])
def test_a_folder_that_is_there_is_not_made_anew(tmp_path, kind):
    occupied_by(kind, tmp_path / "model")
    with (
        pytest.raises(AlreadyThere, match=r"model is there already; expected .* a new folder"),
        files.new_folder(tmp_path / "model"),
    ):
        pytest.fail("was begun")
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("kind", ["file", "link to nowhere", "full folder"])
def test_whoever_is_faster_keeps_the_name(tmp_path, kind):
    target = tmp_path / "model"

    def slow():
        with files.new_folder(target) as stage:
            (stage / "a.txt").write_text("mine")
            occupied_by(kind.removeprefix("full "), target)
            if kind == "full folder":
                (target / "theirs").touch()

    with pytest.raises(AlreadyThere, match="is there already"):
        slow()
    assert set(everything_in(tmp_path)) == {"model"} | (
        {"model/theirs"} if "full" in kind else set()
    )


def test_a_folder_can_be_made_while_its_maker_goes_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with files.new_folder(Path("model")) as stage:
        monkeypatch.chdir(tmp_path / "other")
        (stage / "a.txt").touch()
    assert everything_in(tmp_path) == ["model", "model/a.txt", "other"]


def test_all_is_on_the_disk_before_the_name_and_the_name_after(tmp_path, monkeypatch):
    """A machine that stops at any moment must not find the name with less than everything."""
    done, rename = [], Path.rename

    def sync(path):
        done.append(("sync", path))

    def renamed(self, target):
        done.append(("rename", target))
        return rename(self, target)

    monkeypatch.setattr(files, "sync", sync)
    monkeypatch.setattr(Path, "rename", renamed)
    target = tmp_path / "new" / "model"
    with files.new_folder(target) as stage:
        (stage / "inner").mkdir()
        (stage / "inner" / "a.txt").touch()
        (stage / "b.txt").touch()
    at = done.index(("rename", target))
    inside = {stage, stage / "inner", stage / "inner" / "a.txt", stage / "b.txt"}
    assert {path for _, path in done[:at]} == inside
    assert done[at + 1 :] == [("sync", target.parent), ("sync", tmp_path)]


KILLING = Path(__file__).with_name("killed_saving.py")
LAYOUTS = ("vesalius", "huggingface")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_a_model_saved_over_another_is_the_one_or_the_other_after_any_kill(tmp_path, kills, layout):
    (done,) = scripts(KILLING, tmp_path / "model", kills, layout)
    assert done.returncode == 0, done.stderr
    times, outcomes, halfway = map(int, done.stdout.split())
    assert times == kills
    assert halfway > 0, "no kill came while saving"
    assert kills < 100 or outcomes == 2


CONVERTING = Path(__file__).with_name("killed_converting.py")


@pytest.mark.parametrize(
    ("layout", "kills"),
    [
        ("vesalius", 8),
        *(pytest.param(layout, 100, marks=pytest.mark.slow) for layout in LAYOUTS),
    ],
)
def test_a_model_that_is_converted_is_there_whole_or_not_at_all_after_any_kill(
    tmp_path, layout, kills
):
    (done,) = scripts(CONVERTING, tmp_path, kills, layout)
    assert done.returncode == 0, done.stderr
    times, converted, halfway = map(int, done.stdout.splitlines()[-1].split())
    assert times == kills
    assert kills < 100 or (halfway and 0 < converted < kills)


LOADING = Path(__file__).with_name("loaded_while_saved.py")


@pytest.mark.parametrize(
    ("kind", "loads"),
    [
        ("all files", 40),
        *(pytest.param(kind, 1000, marks=pytest.mark.slow) for kind in ("plain", "shards")),
        pytest.param("all files", 1000, marks=pytest.mark.slow),
    ],
)
def test_a_model_that_is_loaded_while_it_is_saved_over_is_the_one_or_the_other(
    tmp_path, kind, loads
):
    """Or there is an error that says why; some of a thousand loads give each of the two."""
    (done,) = scripts(LOADING, tmp_path / "model", loads, kind)
    assert done.returncode == 0, done.stderr
    one, other, errors = map(int, done.stdout.split())
    assert one + other + errors == loads
    assert loads < 1000 or (one and other)


def test_saving_over_a_model_leaves_nothing_of_it_and_all_else(tmp_path):
    folder = tmp_path / "model"
    before = filled(small("gpt2", vocabulary=7))
    before.tokenizer, before.preprocessing = train_characters(["abcd"]), {"mean": 1}
    before.save(folder)
    (folder / "model-00001-of-00002.safetensors").write_text("a shard of an older one")
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    (folder / "inner").mkdir()
    (folder / "inner" / "more.txt").write_text("mine too")
    (folder / "link").symlink_to("notes.txt")
    folder.chmod(0o750)
    (folder / "config.json").chmod(0o640)
    before.save(folder)
    assert (folder / "tokenizer_config.json").exists()  # of the same tokenizer
    with (folder / "notes.txt").open("a") as open_meanwhile:
        filled(small("lstm")).save(folder)
        open_meanwhile.write(" still")
    assert everything_in(folder) == sorted(
        ["config.json", "model.safetensors", "notes.txt", "inner", "inner/more.txt", "link"]
    )
    assert (folder / "notes.txt").read_text() == "mine still"
    assert (folder / "inner" / "more.txt").read_text() == "mine too"
    assert (folder / "link").is_symlink()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    assert stat.S_IMODE((folder / "config.json").stat().st_mode) == 0o640
    assert load(folder).family == "lstm"
    assert os.listdir(tmp_path) == ["model"]


def without_exchange(monkeypatch):
    monkeypatch.setattr(exchanging, "_swap", lambda: None)


def refusing_exchange(monkeypatch):
    monkeypatch.setattr(exchanging, "_swap", lambda: lambda one, other: -1)


def standing_in_it(monkeypatch):
    monkeypatch.chdir("model")


@pytest.mark.parametrize("hindered", [without_exchange, refusing_exchange, standing_in_it])
def test_where_folders_cannot_change_places_files_do(tmp_path, monkeypatch, hindered):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    filled(small("tst")).save(folder)
    (folder / "preprocessing.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    (folder / "inner").mkdir()
    number = folder.stat().st_ino
    hindered(monkeypatch)
    filled(small("rnn")).save(folder)
    assert folder.stat().st_ino == number
    assert everything_in(folder) == ["config.json", "inner", "model.safetensors", "notes.txt"]
    assert load(folder).family == "rnn"
    assert os.listdir(tmp_path) == ["model"]


def test_a_link_to_a_folder_stays_one(tmp_path):
    filled(small("rnn")).save(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    filled(small("lstm")).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "real").family == "lstm"


def test_an_exchange_is_on_the_disk_before_and_after(tmp_path, monkeypatch):
    filled(small("rnn")).save(tmp_path / "model")
    done, swap = [], exchanging._swap()
    monkeypatch.setattr(exchanging, "sync", lambda path: done.append(path.name))
    monkeypatch.setattr(
        exchanging, "_swap", lambda: lambda *names: (done.append("swap"), swap(*names))[1]
    )
    filled(small("lstm")).save(tmp_path / "model")
    at = done.index("swap")
    assert set(done[: at - 1]) == {"config.json", "model.safetensors"}
    assert done[at - 1].startswith(".saving-")
    assert done[at + 1 :] == [tmp_path.name]


KILLED = """
import os, signal, sys
from pathlib import Path
from strategies import filled, small
from vesalius.checkpoints import files
write = files.write
def killed(*arguments):
    write(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
files.write = killed
filled(small("gpt2")).save(Path(sys.argv[1]))
"""


def test_a_process_killed_while_saving_leaves_no_model_but_a_folder_known_by_its_name(tmp_path):
    tests = str(Path(__file__).parents[1])
    done = code(f"import sys; sys.path.insert(0, {tests!r}){KILLED}", tmp_path / "model")
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".saving-")
    assert files.SAVING == ".saving-"
    assert os.listdir(left) == ["model.safetensors"]


def test_saving_a_model_makes_its_folder_at_once(tmp_path, monkeypatch):
    model, names = filled(small("gpt2")), []
    rename = Path.rename

    def renamed(self, target):
        names.append((target, sorted(os.listdir(self))))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", renamed)
    model.save(tmp_path / "new" / "model")
    assert names == [(tmp_path / "new" / "model", ["config.json", "model.safetensors"])]
    (tmp_path / "new" / "model" / "notes.txt").write_text("mine")
    model.save(tmp_path / "new" / "model")  # which is there now: its files are replaced
    assert len(names) == 1
    found = everything_in(tmp_path / "new" / "model")
    assert found == ["config.json", "model.safetensors", "notes.txt"]


def test_a_model_is_not_saved_in_the_place_of_a_file(tmp_path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(AlreadyThere, match="model is there already"):
        filled(small("gpt2")).save(tmp_path / "model")
    assert (tmp_path / "model").read_text() == "mine"


# -------------------------------------------------------------------------- in the place of a file


def whole(folder):
    filled(small("gpt2"), dtype="float32").save(folder)


def sharded(folder):
    whole(folder)
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    index = {"weight_map": {"norm.bias": "part.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def with_pieces(folder):
    whole(folder)
    (folder / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n")
    (folder / "tokenizer_config.json").write_text("{}")


def with_pairs(folder):
    whole(folder)
    (folder / "vocab.json").write_text('{"a": 0}')
    (folder / "merges.txt").write_text("")


PLACES = [
    (whole, "config.json"),
    (whole, "model.safetensors"),
    (whole, "tokenizer.json"),
    (sharded, "model.safetensors.index.json"),
    (sharded, "part.safetensors"),
    (with_pieces, "vocab.txt"),
    (with_pieces, "tokenizer_config.json"),
    (with_pairs, "vocab.json"),
    (with_pairs, "merges.txt"),
]


@pytest.mark.parametrize(("kind", "message"), [("folder", "a folder"), ("pipe", "a pipe or a dev")])
@pytest.mark.parametrize(("make", "name"), PLACES, ids=[name for _, name in PLACES])
def test_what_is_no_file_is_named(tmp_path, make, name, kind, message):
    make(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    (os.mkdir if kind == "folder" else os.mkfifo)(tmp_path / name)
    with pytest.raises(BrokenFile, match=f"{name} is {message}.*; expected a file"):
        load(tmp_path)


def test_counting_and_tokenizing_name_it_too(tmp_path):
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).mkdir()
    with pytest.raises(BrokenFile, match=r"config\.json is a folder; expected a file"):
        read_config(tmp_path)
    with pytest.raises(BrokenFile, match=r"tokenizer\.json is a folder; expected a file"):
        read_tokenizer(tmp_path)


def test_a_folder_called_like_pickled_weights_is_named(tmp_path):
    (tmp_path / "pytorch_model.bin").mkdir()
    with pytest.raises(BrokenFile, match=r"pytorch_model\.bin is a folder; expected a file"):
        pickled.read(pickled.find(tmp_path))


@pytest.mark.parametrize("name", ["x" * 300, "\x00", "\ud800"])
def test_a_shard_that_no_file_can_be_called_is_refused(tmp_path, name):
    sharded(tmp_path)
    index = {"weight_map": {"norm.bias": name}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(VesaliusError, match=r"which is not there|is not JSON"):
        load(tmp_path)
