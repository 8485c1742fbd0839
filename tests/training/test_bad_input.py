"""Input that cannot be used is refused early, by name, in the library and on the command line."""

import json
import math
import resource
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small import small_recipe, write_images, write_series, written

from vesalius import load
from vesalius.cli import main
from vesalius.errors import (
    AnotherRecipe,
    BrokenFile,
    EmptyCorpus,
    ImpossibleSetting,
    LossNotFinite,
    NoRun,
    NotFinite,
    NotInVocabulary,
    RunLocked,
    SaveFailed,
    UnknownCorpus,
    UnknownModel,
    UnknownSetting,
    UnusableData,
    WrongKind,
)
from vesalius.tasks.objective import Objective
from vesalius.training import Callback, train
from vesalius.training.callbacks import read_metrics
from vesalius.training.checkpointing import Checkpoints, locked, require_whole
from vesalius.training.scheduler import learning_rate

SHORT = {"steps": 6, "save_every": 3, "evaluate_every": 6, "batch": 2}


@pytest.fixture
def command(monkeypatch, capfd):
    """The command line, run here: its exit code, and what it printed."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["vesalius", "train", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code, out=out, err=err)

    return run


def one_line(done, code, says):
    """A complaint is one line, and nothing else is printed."""
    assert done.err.count("\n") == 1, done.err
    assert says in done.err
    assert done.err.startswith("vesalius: ")
    assert (done.code, done.out) == (code, "")


def text(folder, content):
    file = folder / "text.txt"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return "gpt2", {"data.corpus": file}


def series(folder, *lines):
    header = ["@univariate false", "@classLabel true a b", "@data"]
    file = folder / "bad.ts"
    file.write_text("\n".join([*header, "1,2:3,4:a", *lines]) + "\n")
    return "tst", {"data.corpus": file}


def pictures(folder, *sizes):
    from PIL import Image

    for number, size in enumerate(sizes):
        Image.new("L", size).save(folder / f"{number}.png")
    return "vit", {"data.corpus": folder}


def table(folder, *rows, name="tst series", **data):
    (folder / "table.csv").write_text("\n".join(("date,load,kind", *rows)) + "\n")
    said = {f"data.{key}": value for key, value in data.items()}
    return name, {"data.corpus": folder / "table.csv", "data.window": 4, **said}


LATIN = "A café.\n".encode("latin-1")
BAD = {
    "an empty corpus": (lambda f: text(f, ""), EmptyCorpus, "text.txt is empty"),
    "nothing but space": (lambda f: text(f, " \n" * 50), ImpossibleSetting, "hold no words"),
    "a corpus shorter than a window": (
        lambda f: text(f, "a b c\nd e f\n"),
        EmptyCorpus,
        "but a window of 8 and the token after it need 9; give more text, or shorten",
    ),
    "a text that is not UTF-8": (
        lambda f: text(f, b"plain\n" * 3 + LATIN + b"plain\n" * 30),
        BrokenFile,
        "text.txt is not UTF-8: byte 0xe9 at offset 23; convert it",
    ),
    "a folder without texts": (
        lambda f: ("gpt2", {"data.corpus": f}),
        EmptyCorpus,
        "holds no text files; expected .txt",
    ),
    "words among numbers": (
        lambda f: series(f, "1,high:3,4:b"),
        UnusableData,
        "bad.ts, line 5, channel 1: expected numbers, got 'high'; a gap is written ?",
    ),
    "a channel with too few values": (
        lambda f: series(f, "1,2,3:4,5:b"),
        UnusableData,
        "line 5: expected channels of one length, got 3, 2",
    ),
    "a series that is one gap": (
        lambda f: series(f, "?,?:?,?:b"),
        UnusableData,
        "line 5: the series is one gap",
    ),
    "an unknown class": (lambda f: series(f, "1,2:3,4:c"), UnusableData, "no class 'c'"),
    "a table with a gap": (
        lambda f: table(f, "1.1.,1.5,0", "2.1.,,0"),
        UnusableData,
        "table.csv, line 3, column 'load': expected a number, got ''; fill the gap, or leave",
    ),
    "a table with a gap that calls itself no number": (
        lambda f: table(f, "1.1.,1.5,0", "2.1.,nan,0"),
        NotFinite,
        "table.csv, line 3, column 'load': expected a number, got 'nan'",
    ),
    "text in a column of numbers": (
        lambda f: table(f, "1.1.,1.5,low", "2.1.,2,high"),
        UnusableData,
        "line 2, column 'kind': expected a number, got 'low'; fill the gap, or leave the column "
        "out; a column of classes is said as label",
    ),
    "a label that no column has": (
        lambda f: table(f, "1.1.,1.5,low", "2.1.,2,high", name="tst", label="kin"),
        UnusableData,
        "has no column 'kin'; did you mean kind?",
    ),
    "a row without its label": (
        lambda f: table(f, "1.1.,1.5,low", "2.1.,2, ", name="tst", label="kind"),
        UnusableData,
        "line 3, column 'kind': expected a class, got none",
    ),
    "a table without classes": (
        lambda f: table(f, *(f"{i}.1.,{i},0" for i in range(20)), name="tst"),
        UnusableData,
        "the training part has no labels",
    ),
    "a table too short to validate on": (
        lambda f: table(f, "1.1.,1.5,0", "2.1.,2,0"),
        ImpossibleSetting,
        "a share of 0.1 of 2 time steps is none; name others to validate on as valid, or set",
    ),
    "a column of labels in a .ts file": (
        lambda f: ("tst", {"data.label": "kind"}),
        ImpossibleSetting,
        "[data] label is for .csv files, but the corpus is ",
    ),
    "a folder without tables": (
        lambda f: ("tst", {"data.corpus": f}),
        EmptyCorpus,
        "holds no .csv files; expected one for each series",
    ),
    "nothing to validate on where it is said": (
        lambda f: ("tst", {"data.valid": f / "none.ts"}),
        BrokenFile,
        "none.ts' to read series from; expected a .ts file, a .csv file, or a folder of .csv files",
    ),
    "images of different sizes": (
        lambda f: pictures(f, (8, 8), (8, 8), (9, 8)),
        UnusableData,
        "expected images of one size: ",
    ),
    "images that are not square": (
        lambda f: pictures(f, (8, 4), (8, 4), (8, 4)),
        UnusableData,
        "expected square images, got 4 x 8",
    ),
    "images without classes": (
        lambda f: pictures(f, (8, 8), (8, 8), (8, 8)),
        UnusableData,
        "the training part has no labels",
    ),
    "a vocabulary that the model has no room for": (
        lambda f: ("gpt2", {"model.vocabulary": "10"}),
        ImpossibleSetting,
        "[model] vocabulary is 10, but the data have ",
    ),
    "series longer than the model": (
        lambda f: ("tst", {"model.context": "4"}),
        ImpossibleSetting,
        "[model] context is 4, but the data have 8; leave it out to follow",
    ),
    "windows longer than the model": (
        lambda f: ("gpt2", {"data.window": "9"}),
        ImpossibleSetting,
        "[data] window is 9, but the model's context 8; leave it out to follow",
    ),
    "windows shorter than a fixed one": (
        lambda f: ("ffnn", {"data.window": "2"}),
        ImpossibleSetting,
        "[data] window is 2, but the model's context 3; leave it out to follow",
    ),
    "no room for a pair": (
        lambda f: ("bert", {"model.context": "6"}),
        ImpossibleSetting,
        "mlm+nsp needs windows of 7 tokens, got 6",
    ),
    "a corpus that is nowhere": (
        lambda f: ("gpt2", {"data.corpus": f / "nothing.txt"}),
        UnknownCorpus,
        "nothing.txt', and no corpus of this name",
    ),
    "a corpus without a name": (
        lambda f: ("gpt2", {"data.corpus": '""'}),
        UnknownCorpus,
        "there is no file or folder ''",
    ),
    "texts for images": (
        lambda f: ("vit", {"data.corpus": "stories"}),
        UnusableData,
        "the corpus stories holds no images",
    ),
    "texts for series": (
        lambda f: ("tst", {"data.corpus": "stories"}),
        UnusableData,
        "the corpus stories holds no series",
    ),
    "a prompt of unknown characters": (
        lambda f: (
            "gpt2",
            {"data.tokenizer": "characters", "training.prompt": "Ü", "training.sample_every": "5"},
        ),
        NotInVocabulary,
        "[training] prompt: 'Ü' at character 0 is none of",
    ),
    "a tokenizer that is nowhere": (
        lambda f: ("gpt2", {"data.tokenizer": "word-piece"}),
        BrokenFile,
        "'word-piece' holds no tokenizer; expected a folder that does, or one of byte-pairs,",
    ),
    "masks without a token for them": (
        lambda f: ("bert", {"data.tokenizer": "words"}),
        WrongKind,
        "the tokenizer has no [CLS], [SEP], [MASK], [PAD]",
    ),
    "a vocabulary too small for bytes": (
        lambda f: ("gpt2", {"data.tokenizer": "byte-pairs", "data.vocabulary": "200"}),
        ImpossibleSetting,
        "must be at least 257",
    ),
    "nothing to validate on": (
        lambda f: ("vit", {"data.split": "0"}),
        ImpossibleSetting,
        "[data] split must be above 0, or valid must name another file",
    ),
    "no patches to restore": (
        lambda f: ("vit patches", {"data.mask_ratio": "0"}),
        ImpossibleSetting,
        "a ratio of 0 masks 0 of 4",
    ),
    "heads that do not divide the embedding": (
        lambda f: ("gpt2", {"model.heads": "3"}),
        ImpossibleSetting,
        "embedding 16 cannot be divided among 3 heads",
    ),
    "a model to start from that is nowhere": (
        lambda f: ("gpt2", {"init": f / "no such model", "family": "none", "model": "none"}),
        UnknownModel,
        "there is no folder ",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_trained_on_is_said_before_the_first_step(what, tmp_path, command):
    made, error, says = BAD[what]
    place = tmp_path / "data"
    place.mkdir()
    name, changes = made(place)
    changes = {key: str(value) for key, value in changes.items()}
    with pytest.raises(error) as caught:
        train(small_recipe(name, tmp_path, changes=changes, **SHORT), tmp_path / "run")
    assert says in str(caught.value)
    file = written(small_recipe(name, tmp_path, **SHORT), tmp_path / "recipe.toml")
    said = [f"--set={key}={value}" for key, value in changes.items()]
    one_line(command(file, "--out", tmp_path / "run", "--json", *said), 2, says)
    assert not (tmp_path / "run/checkpoints").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "and no recipe of this name"),
        ("family = gpt2", "recipe.toml is not TOML: "),
        ('family = "gpt2"\nobjective = "next-token"\nstep = 5\n', "a recipe has no 'step'"),
        ('family = "gpt2"\nobjective = "next-token"\n[training]\nstepz = 5', "did you mean steps"),
        ("", "a recipe says its objective"),
    ],
)
def test_a_recipe_that_cannot_be_read_is_refused(content, says, tmp_path, command):
    file = tmp_path / "recipe.toml"
    if content is not None:
        file.write_text(content)
    one_line(command(file, "--out", tmp_path / "run"), 2, says)
    assert not (tmp_path / "run").exists()


def test_series_with_gaps_are_trained_on(tmp_path):
    file = write_series(tmp_path)
    lines = file.read_text().splitlines()
    for number in range(5, len(lines), 3):
        lines[number] = "?," + lines[number].partition(",")[2]
    file.write_text("\n".join(lines))
    for name in ("tst", "tst series"):
        recipe = small_recipe(name, tmp_path, changes={"data.corpus": str(file)}, **SHORT)
        file.write_text("\n".join(lines))  # which the recipe wrote anew
        assert math.isfinite(train(recipe, tmp_path / name).valid["loss"])


def test_a_class_that_only_the_validation_has_is_refused(tmp_path):
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    for file, labels in ((first, [0, 1] * 4), (second, [0, 1, 2] * 2)):
        np.savez(file, images=np.zeros((len(labels), 8, 8), np.uint8), labels=np.array(labels))
    changes = {"data.corpus": str(first), "data.valid": str(second)}
    with pytest.raises(
        UnusableData, match="class 2 is to be validated on, but no example to train"
    ):
        train(small_recipe("vit", tmp_path, changes=changes, **SHORT), tmp_path / "run")


# A run's folder ---------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    """A short run that is done, and its recipe's file."""
    recipe = small_recipe("gpt2", tmp_path, **SHORT)
    train(recipe, tmp_path / "run")
    return SimpleNamespace(
        recipe=recipe, folder=tmp_path / "run", file=written(recipe, tmp_path / "recipe.toml")
    )


def test_a_run_is_not_begun_where_there_is_one(run, command):
    says = "holds a run at step 6; go on with --resume, or choose another folder"
    with pytest.raises(ImpossibleSetting, match=says):
        train(run.recipe, run.folder)
    before = contents(run.folder)
    one_line(command(run.file, "--out", run.folder), 2, says)
    assert contents(run.folder) == before


@pytest.mark.parametrize("held", [(), ("run",)])
def test_a_run_goes_on_only_where_there_is_one(held, tmp_path, command):
    recipe = small_recipe("gpt2", tmp_path, **SHORT)
    for name in held:
        (tmp_path / name).mkdir()
    with pytest.raises(NoRun, match="holds no run to go on with; to begin one, leave out --resume"):
        train(recipe, tmp_path / "run", resume=True)
    file = written(recipe, tmp_path / "recipe.toml")
    one_line(command(file, "--out", tmp_path / "run", "--resume"), 2, "holds no run to go on with")
    assert (tmp_path / "run").exists() == bool(held)


def test_a_run_that_cannot_begin_leaves_neither_lock_nor_folder(tmp_path):
    recipe = small_recipe("gpt2", tmp_path, changes={"data.corpus": "nowhere"}, **SHORT)
    (tmp_path / "mine").mkdir()
    for folder in ("mine", "new/below"):
        with pytest.raises(UnknownCorpus):
            train(recipe, tmp_path / folder)
    assert [(path.name, any(path.iterdir())) for path in tmp_path.iterdir()] == [("mine", False)]


def test_a_run_that_ends_leaves_no_lock(run):
    assert not (run.folder / ".lock").exists()


def test_a_run_that_is_done_goes_on_to_more_steps(run, tmp_path, command):
    longer = small_recipe("gpt2", tmp_path, **{**SHORT, "steps": 9})
    outcome = train(longer, run.folder, resume=True)
    assert (outcome.reason, outcome.step) == ("finished", 9)
    steps = [row["step"] for row in read_metrics(run.folder) if row["kind"] == "train"]
    assert steps == list(range(1, 10))
    rates = [row["rate"] for row in read_metrics(run.folder) if row["kind"] == "train"]
    assert rates[6:] == [learning_rate(longer.training, step) for step in (6, 7, 8)]
    shorter = "what differs: training.steps was 9, is 6"
    one_line(command(run.file, "--out", run.folder, "--resume", "--json"), 2, shorter)


def test_a_run_goes_on_with_its_own_recipe_only(run, command, tmp_path):
    says = "what differs: training.learning_rate was 0.003, is 0.002"
    other = small_recipe("gpt2", tmp_path, learning_rate=0.002, **SHORT)
    with pytest.raises(AnotherRecipe, match=says):
        train(other, run.folder, resume=True)
    arguments = ["--out", run.folder, "--resume", "--json"]
    changes = ["--set=training.learning_rate=2e-3", "--set=model.layers=2", "--set=seed=4"]
    done = command(run.file, *arguments, *changes)
    one_line(done, 2, "model.layers was 1, is 2; seed was 3, is 4; training.learning_rate was")


def test_how_often_it_is_saved_and_told_may_change(run, tmp_path):
    how = {**SHORT, "save_every": 2, "log_every": 3, "sample_every": 2, "keep": 5}
    assert train(small_recipe("gpt2", tmp_path, **how), run.folder, resume=True).step == 6


def test_a_run_goes_on_with_its_own_data_only(tmp_path, command):
    def stories(words):
        (tmp_path / "text.txt").write_text("\n".join(f"{words} {i}" for i in range(100)))

    stories("the old cat")
    changes = {"data.corpus": str(tmp_path / "text.txt")}
    recipe = small_recipe("gpt2", tmp_path, changes=changes, **SHORT)
    folder = train(recipe, tmp_path / "run").folder
    stories("the old dog and the")
    says = "was begun with other data than there is now"
    with pytest.raises(AnotherRecipe, match=says):
        train(recipe, folder, resume=True)
    file = written(recipe, tmp_path / "recipe.toml")
    one_line(command(file, "--out", folder, "--resume", "--json"), 2, says)


@pytest.mark.parametrize("part", ["images", "labels"])
def test_other_images_or_other_labels_are_other_data(part, tmp_path):
    recipe = small_recipe("vit", tmp_path, **SHORT)
    folder = train(recipe, tmp_path / "run").folder
    file = write_images(tmp_path)
    kept = dict(np.load(file))
    kept[part] = kept[part][::-1]
    np.savez(file, **kept)
    with pytest.raises(AnotherRecipe, match="other data"):
        train(recipe, folder, resume=True)


@pytest.mark.parametrize("below", ["", "deeper/run"])
def test_a_file_in_the_place_of_the_folder_is_trouble_of_the_environment(below, tmp_path, command):
    (tmp_path / "taken").write_text("a file")
    folder = tmp_path / "taken" / below if below else tmp_path / "taken"
    recipe = small_recipe("ffnn", tmp_path, **SHORT)
    with pytest.raises(SaveFailed, match=r"taken.* cannot be written to: "):
        train(recipe, folder)
    file = written(recipe, tmp_path / "recipe.toml")
    one_line(command(file, "--out", folder, "--json"), 3, "cannot be written to: ")
    assert (tmp_path / "taken").read_text() == "a file"


def test_two_processes_do_not_write_to_one_folder(run, command):
    with locked(run.folder):
        with pytest.raises(RunLocked, match="another process is writing to "):
            train(run.recipe, run.folder, resume=True)
        done = command(run.file, "--out", run.folder, "--resume", "--json")
        one_line(done, 3, "wait for it or stop it")
    assert train(run.recipe, run.folder, resume=True).step == 6


def test_a_damaged_checkpoint_is_not_gone_on_from(run, command):
    newest = run.folder / "checkpoints/step-00000006"
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\xff")
    says = "remove "
    with pytest.raises(BrokenFile, match="is not what was saved"):
        train(run.recipe, run.folder, resume=True)
    one_line(command(run.file, "--out", run.folder, "--resume", "--json"), 2, says)
    shutil.rmtree(newest)
    assert train(run.recipe, run.folder, resume=True).step == 6


class Stop(Callback):
    def __init__(self, step):
        self.step = step

    def stepped(self, run, metrics):
        if run.step == self.step:
            run.stop("told")


def test_a_full_disk_leaves_the_older_checkpoint(tmp_path, command, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # which would keep halves of modules
    recipe = small_recipe("gpt2", tmp_path, **SHORT)
    file = written(recipe, tmp_path / "recipe.toml")
    train(recipe, tmp_path / "run", callbacks=[Stop(3)])
    weights = tmp_path / "run/checkpoints/step-00000003/model.safetensors"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (weights.stat().st_size // 2, before[1]))
    try:
        with pytest.raises(SaveFailed, match=r"step 6 could not .* older ones are as they were"):
            train(recipe, tmp_path / "run", resume=True)
        done = command(file, "--out", tmp_path / "run", "--resume", "--json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    one_line(done, 3, "the checkpoint of step 6 could not be written to ")
    kept = Checkpoints(tmp_path / "run", keep=2)
    assert [folder.name for folder in kept.folder.iterdir()] == ["step-00000003"]
    require_whole(kept.newest())
    load(kept.newest())
    assert train(recipe, tmp_path / "run", resume=True).step == 6


def test_folders_of_other_names_beside_the_checkpoints_do_not_matter(run):
    (run.folder / "checkpoints/step-back-up").mkdir()
    assert train(run.recipe, run.folder, resume=True).step == 6


def test_a_recipe_that_is_read_already_can_be_changed_too(tmp_path):
    recipe = small_recipe("ffnn", tmp_path, **SHORT)
    assert train(recipe, tmp_path / "run", changes={"training.steps": "2"}).step == 2


def test_a_model_to_start_from_is_of_the_family_that_is_named(run, tmp_path):
    changes = {"init": str(run.folder / "model"), "family": "lstm", "model": "none"}
    with pytest.raises(ImpossibleSetting, match="init is a model of gpt2, not of lstm"):
        train(small_recipe("gpt2", tmp_path, changes=changes, **SHORT), tmp_path / "other")
    changes = {"init": str(run.folder / "model"), "family": "none", "model.headz": "2"}
    with pytest.raises(UnknownSetting, match=r"\[model\] unknown setting 'headz'"):
        train(small_recipe("gpt2", tmp_path, changes=changes, **SHORT), tmp_path / "other")


# Numbers that are none --------------------------------------------------------


def test_a_loss_that_is_no_number_ends_the_run_and_leaves_the_last_checkpoint(tmp_path, command):
    recipe = small_recipe("gpt2", tmp_path, **SHORT)

    class Poison(Callback):
        def stepped(self, run, metrics):
            if run.step == 4:
                with torch.no_grad():
                    run.network.embedding.weight[:] = math.nan

    with pytest.raises(LossNotFinite, match="the loss is nan at step 5") as caught:
        train(recipe, tmp_path / "run", callbacks=[Poison()])
    assert "training.learning_rate" in str(caught.value)
    kept = Checkpoints(tmp_path / "run", keep=2)
    assert kept.steps() == [3]
    require_whole(kept.newest())
    assert all(np.isfinite(array).all() for array in load(kept.newest()).state.values())
    assert train(recipe, tmp_path / "run", resume=True).step == 6


def test_parameters_that_are_no_numbers_are_not_saved(tmp_path):
    class Poison(Callback):
        def stepped(self, run, metrics):
            if run.step == 5:
                with torch.no_grad():
                    run.network.embedding.weight[0, 0] = math.inf

    recipe = small_recipe("ffnn", tmp_path, **{**SHORT, "save_every": 1, "keep": 9})
    with pytest.raises(LossNotFinite, match=r"parameters are not finite at step 5; .* of step 4"):
        train(recipe, tmp_path / "run", callbacks=[Poison()])
    assert Checkpoints(tmp_path / "run", keep=2).steps() == [1, 2, 3, 4]
    assert train(recipe, tmp_path / "run", resume=True).step == 6


def test_a_validation_that_is_no_number_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Objective, "means", lambda *asked: {"loss": math.nan})
    with pytest.raises(LossNotFinite, match="validation's loss is nan at step 6"):
        train(small_recipe("ffnn", tmp_path, **SHORT), tmp_path / "run")


def test_a_rate_beyond_all_measure_ends_the_run(tmp_path, command):
    file = written(small_recipe("gpt2", tmp_path, **SHORT), tmp_path / "recipe.toml")
    rate = ["learning_rate=1e30", "optimiser=sgd", "clip=0", "schedule=constant", "save_every=1"]
    changes = [f"--set=training.{change}" for change in (*rate, "warmup=0")]
    done = command(file, "--out", tmp_path / "run", "--json", *changes)
    one_line(done, 2, "the loss is nan at step 2; the last checkpoint is of step 1")


# ------------------------------------------------------------------------------


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_json_is_all_that_json_asks_for(run, command):
    shutil.rmtree(run.folder)
    done = command(run.file, "--out", run.folder, "--json")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert told["folder"] == str(run.folder)
    assert (told["step"], told["reason"]) == (6, "finished")
    assert told["valid"]["loss"] > 0


def test_a_run_goes_on_where_nothing_can_be_kept_for_later(tmp_path, monkeypatch, caplog):
    recipe = small_recipe("gpt2", tmp_path, **SHORT)
    kept = train(recipe, tmp_path / "kept")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VESALIUS_CACHE", str(tmp_path / "file"))
    unkept = train(recipe, tmp_path / "unkept")
    assert unkept.valid == kept.valid
    said = sorted(line for line in caplog.messages if "cannot be kept" in line)
    assert [line.split(" cannot")[0] for line in said] == ["token files", "vocabularies"]


def test_a_damaged_vocabulary_in_the_cache_is_learnt_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("VESALIUS_CACHE", str(tmp_path / "cache"))
    recipe = small_recipe("gpt2", tmp_path, **SHORT)
    first = train(recipe, tmp_path / "first")
    (file,) = (tmp_path / "cache").glob("tokenizers/*/tokenizer.json")
    whole = file.read_text()
    file.write_text(whole[:50])
    assert train(recipe, tmp_path / "second").valid == first.valid
    assert file.read_text() == whole
