"""A model that is trained already is validated as its run was, on any corpus of its kind."""

import json
import math
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small import small_recipe, write_images, write_series

from vesalius import create, evaluate, evaluation, load
from vesalius.data import parts, registry, splits
from vesalius.data.parts import (
    held_out_images,
    held_out_series,
    image_parts,
    series_parts,
)
from vesalius.data.series import read_ts
from vesalius.data.settings import ImageData, SeriesData
from vesalius.data.texts import StoryTexts
from vesalius.errors import (
    CheckpointMismatch,
    EmptyCorpus,
    ImpossibleSetting,
    TokenOutOfRange,
    UnusableData,
    WrongKind,
)
from vesalius.metrics.predictions import Share
from vesalius.training import train
from vesalius.training.recipe import recipe

OTHERS = ("bert", "vit", "vit patches", "igpt", "igpt masked", "tst", "tst series")
ALIKE = {"batch": evaluation.BATCH, "steps": 3, "evaluate_every": 3, "validate_on": 10**6}
"""With these and the same seed, a run's last validation has the batches of an evaluation."""


def write_texts(folder):
    folder.mkdir()
    for number in range(8):
        portions = StoryTexts(200, seed=number).portions()
        (folder / f"{number}.txt").write_text("\n".join(text for text, _ in portions))
    return folder


def write_held_out(name, folder):
    """Examples like those of the small recipes, but others."""
    folder.mkdir()
    if name == "bert":
        return write_texts(folder / "texts")
    if name.startswith("tst"):
        file = write_series(folder)
        lines = file.read_text().splitlines()
        file.write_text("\n".join(lines[:5] + lines[10:]) + "\n")
        return file
    file = write_images(folder)
    arrays = dict(np.load(file))
    np.savez(file, **{key: array[5:] for key, array in arrays.items()})
    return file


def trained(name, folder, changes=None, **training):
    """A run that validates on all of a file or folder; and that."""
    held_out = write_held_out(name, folder / "held out")
    changes = {"seed": "0", "data.valid": str(held_out), **(changes or {})}
    recipe = small_recipe(name, folder, changes=changes, **{**ALIKE, **training})
    return train(recipe, folder / "run"), str(held_out)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run of a kind, made when it is first asked for."""
    made = {}

    def run(name):
        if name not in made:
            made[name] = trained(name, tmp_path_factory.mktemp("run"))
        return made[name]

    return run


def near(numbers):
    return pytest.approx(numbers, rel=1e-6)


def trained_numbers(found):
    """The numbers of an evaluation that a run's validation has, too."""
    more = ("macro_f1", "calibration_error")
    return {name: number for name, number in found.numbers.items() if name not in more}


def from_training(valid):
    """A run's validation under the names of an evaluation."""
    if "token" in valid:
        bits = {"bits_per_pixel": valid["token"] / math.log(2)}
        return {"nats_per_pixel": valid["token"], **bits, "accuracy": valid["token accuracy"]}
    if "patches" in valid or "series" in valid:
        return {"mean_squared_error": valid["loss"]}
    if "classes" in valid:
        return {"loss": valid["classes"], "accuracy": valid["classes accuracy"]}
    masked = {"loss": valid["mlm"], "perplexity": math.exp(valid["mlm"])}
    pairs = {"next_sentence_loss": valid["nsp"], "next_sentence_accuracy": valid["nsp accuracy"]}
    return {**masked, "accuracy": valid["mlm accuracy"], **pairs}


@pytest.mark.parametrize("name", OTHERS)
def test_an_evaluation_is_the_last_validation_of_training(name, runs):
    outcome, held_out = runs(name)
    found = evaluate(outcome.model, held_out)
    assert trained_numbers(found) == near(from_training(outcome.valid))
    assert all(type(number) in (float, Share) for number in found.numbers.values())
    counts = {"vit": 35, "vit patches": 35, "igpt": 35, "igpt masked": 35}
    if name != "bert":
        assert found.examples == counts.get(name, 25)
    told = found.to_json()
    if found.metrics is not None:
        assert [row["name"] for row in told.pop("classes")] == list(found.metrics.names)
        assert np.array(told.pop("confusion")).sum() == found.examples
    assert told == {
        "corpus": held_out,
        "part": "all",
        "objective": found.objective,
        "examples": found.examples,
        **found.numbers,
        **({"unknown": 0} if name == "bert" else {}),
    }


@pytest.mark.parametrize("name", OTHERS)
def test_masks_are_the_same_every_time(name, runs):
    outcome, held_out = runs(name)
    assert evaluate(outcome.model, held_out) == evaluate(outcome.model, held_out)


@pytest.mark.parametrize("name", ["bert", "vit", "tst", "tst series"])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_a_model_in_another_precision_is_evaluated_too(name, dtype, runs, tmp_path):
    outcome, held_out = runs(name)
    model = outcome.model
    if dtype == "float64":
        model.state = {name: array.astype(dtype) for name, array in model.state.items()}
    model.dtype = dtype
    model.save(tmp_path)
    found = evaluate(load(tmp_path), held_out).numbers
    expected = from_training(outcome.valid)
    loss = next(iter(expected))
    assert found[loss] == pytest.approx(expected[loss], rel=1e-2)


@pytest.mark.parametrize("name", ["tst", "tst series"])
def test_series_are_scaled_as_those_trained_on_and_not_by_themselves(name, runs, tmp_path):
    outcome, held_out = runs(name)
    stretched = tmp_path / "stretched.ts"
    header, rows = Path(held_out).read_text().split("@data\n")
    lines = []
    for row in rows.splitlines():
        *channels, label = row.split(":")
        far = [",".join(str(3 * float(x) + 1) for x in c.split(",")) for c in channels]
        lines.append(":".join([*far, label]))
    stretched.write_text(header + "@data\n" + "\n".join(lines) + "\n")
    before, after = (
        next(iter(evaluate(outcome.model, str(f)).numbers.values())) for f in (held_out, stretched)
    )
    assert abs(after - before) > 0.01 * before


def test_images_are_scaled_as_those_trained_on_and_not_by_themselves(runs, tmp_path):
    outcome, held_out = runs("vit patches")
    arrays = dict(np.load(held_out))
    np.savez(tmp_path / "darker.npz", images=arrays["images"] // 2, labels=arrays["labels"])
    before, after = (
        evaluate(outcome.model, str(f)).numbers["mean_squared_error"]
        for f in (held_out, tmp_path / "darker.npz")
    )
    assert abs(after - before) > 0.02 * before  # halved, and scaled anew, they are as before


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("vit", {"data.side": "4"}),
        ("vit patches", {"data.mask_ratio": "0.75"}),
        ("igpt masked", {"data.mask_ratio": "0.25"}),
        ("tst series", {"data.mask_ratio": "0.4", "data.mask_length": "2"}),
        ("tst", {"data.window": "3"}),
    ],
)
def test_examples_are_shrunk_cut_and_masked_as_in_training(name, changes, tmp_path):
    outcome, held_out = trained(name, tmp_path, changes)
    found = evaluate(outcome.model, held_out)
    assert trained_numbers(found) == near(from_training(outcome.valid))


def test_what_is_held_out_of_a_corpus_by_name_is_what_recipes_validate_on(
    runs, tmp_path, monkeypatch
):
    outcome, held_out = runs("tst")
    whole = write_series(tmp_path).rename(tmp_path / "X_TRAIN.ts")
    shutil.copyfile(held_out, tmp_path / "X_TEST.ts")
    monkeypatch.setattr(registry, "locate", lambda name: [whole, tmp_path / "X_TEST.ts"])
    assert trained_numbers(evaluate(outcome.model, "x")) == near(from_training(outcome.valid))
    assert evaluate(outcome.model, str(whole)).examples == 30


def test_a_corpus_of_one_file_is_split_as_in_training(tmp_path, monkeypatch):
    file = write_images(tmp_path)
    monkeypatch.setattr(registry, "locate", lambda name: [file])
    changes = {"seed": "0", "data.corpus": "mnist-test", "data.split": "0.3"}
    outcome = train(small_recipe("vit", tmp_path, changes=changes, **ALIKE), tmp_path / "run")
    found = evaluate(outcome.model, "mnist-test")
    assert found.examples == 12
    assert trained_numbers(found) == near(from_training(outcome.valid))


def test_classes_go_by_their_names(runs, tmp_path):
    outcome, held_out = runs("tst")
    other = tmp_path / "other.ts"
    other.write_text(Path(held_out).read_text().replace("true a b", "true b a"))
    found = evaluate(outcome.model, str(other))
    assert trained_numbers(found) == near(from_training(outcome.valid))


def test_folders_of_images_may_be_called_by_the_numbers_of_classes(runs, tmp_path):
    from PIL import Image

    outcome, held_out = runs("vit")
    arrays = dict(np.load(held_out))
    rows = np.flatnonzero(arrays["labels"] > 0)
    for row in rows:
        folder = tmp_path / "png" / str(arrays["labels"][row])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(arrays["images"][row, 0]).save(folder / f"{row}.png")
    np.savez(tmp_path / "some.npz", **{key: array[rows] for key, array in arrays.items()})
    named, numbered = (
        evaluate(outcome.model, str(tmp_path / place)) for place in ("png", "some.npz")
    )
    assert named.examples == numbered.examples == len(rows)
    assert named.numbers == near(numbered.numbers)


def test_a_single_text_has_no_pairs_but_masked_tokens(runs, tmp_path):
    outcome, held_out = runs("bert")
    file = tmp_path / "one.txt"
    file.write_text(Path(held_out, "0.txt").read_text())
    found = evaluate(outcome.model, str(file))
    assert found.objective == "masked tokens (67)"
    assert set(found.numbers) == {"loss", "perplexity", "accuracy"}
    (note,) = found.notes
    assert re.match(r"masked tokens \(67\) alone: there are no sentence pairs, .* folder", note)
    assert note in repr(found)
    assert found.to_json()["notes"] == [note]
    both = evaluate(outcome.model, held_out)
    assert both.objective == "masked tokens, and whether a sentence follows"
    assert both.notes == ()


def test_stories_are_a_corpus_of_masked_text_too(runs, monkeypatch):
    monkeypatch.setattr(parts, "HELD_OUT_STORIES", StoryTexts(500, seed=3))
    outcome, _ = runs("bert")
    found = evaluate(outcome.model, "stories")
    assert found.examples > 500 / outcome.model.config.context
    assert 0 < found.numbers["loss"] < 2 * math.log(outcome.model.config.vocabulary)


def test_a_model_with_two_heads_is_measured_by_both(runs, tmp_path):
    outcome, held_out = runs("vit")
    two = outcome.model.config.change(masked_patch_head=True)
    model = create("vit", **two.to_json())
    model.preprocessing = outcome.model.preprocessing
    found = evaluate(model, held_out)
    assert trained_numbers(found).keys() == {"loss", "accuracy", "mean_squared_error"}
    assert found.objective == "masked patches, by squared error; the class of an image"


# Series in tables -------------------------------------------------------------


def write_table(file, rows=120, label=None, seed=0):
    """Waves in two columns; those of one class are faster."""
    rng = np.random.default_rng(seed)
    lines = ["date,x,y" + (",kind" if label else "")]
    for row in range(rows):
        kind = label[row * len(label) // rows] if label else ""
        turn = np.sin(row * (2.0 if kind == "b" else 0.3)) + rng.normal(scale=0.1)
        lines.append(f"day {row},{5 + turn:.4f},{100 * turn:.4f}" + f",{kind}" * bool(label))
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def on_table(name, folder, corpus, **data):
    changes = {"data.corpus": str(corpus), **{f"data.{key}": str(v) for key, v in data.items()}}
    recipe = small_recipe(name, folder, changes={"seed": "0", **changes}, **ALIKE)
    return train(recipe, folder / "run")


def test_a_table_is_cut_into_windows_of_which_the_last_in_time_validate(tmp_path):
    file = write_table(tmp_path / "long.csv")
    outcome = on_table("tst series", tmp_path, file, window=10, split=0.25)
    assert outcome.model.config.context == 10
    kept = json.loads((outcome.folder / "model/preprocessing.json").read_text())
    rows = np.loadtxt(file, delimiter=",", skiprows=1, usecols=(1, 2)).astype(np.float32)
    assert kept["mean"] == pytest.approx(rows[:90].mean(axis=0), rel=1e-5)
    assert kept["std"] == pytest.approx(rows[:90].std(axis=0), rel=1e-5)
    last = tmp_path / "last.csv"
    lines = Path(file).read_text().splitlines()
    last.write_text("\n".join([lines[0], *lines[91:]]) + "\n")
    found = evaluate(outcome.model, str(last))
    assert found.examples == 3
    assert found.numbers == near({"mean_squared_error": outcome.valid["loss"]})
    same = evaluate(outcome.model, file)
    assert (same.examples, same.part) == (3, "the last of the time, which training held out")
    assert same.numbers == found.numbers


def test_windows_may_overlap(tmp_path):
    file = write_table(tmp_path / "long.csv")
    outcome = on_table("tst series", tmp_path, file, window=10, stride=5, split=0.25)
    assert evaluate(outcome.model, file).examples == 5


def test_rows_of_one_label_are_a_stretch(tmp_path):
    file = write_table(tmp_path / "kinds.csv", label="abab", rows=240)
    outcome = on_table("tst", tmp_path, file, window=10, label="kind", split=0.2)
    assert (outcome.model.config.channels, outcome.model.config.outputs) == (2, 2)
    other = write_table(tmp_path / "other.csv", label="b", rows=40)
    found = evaluate(outcome.model, other)
    assert found.examples == 4
    assert trained_numbers(found).keys() == {"loss", "accuracy"}


def test_files_of_a_folder_are_series_and_one_part_may_lack_a_class(tmp_path):
    for number, label in enumerate("abcabc"):
        write_table(tmp_path / f"train/{number}.csv", rows=12, label=label)
    write_table(tmp_path / "valid/0.csv", rows=12, label="c")
    data = {"valid": tmp_path / "valid", "label": "kind"}
    outcome = on_table("tst", tmp_path, tmp_path / "train", **data)
    assert (outcome.model.config.context, outcome.model.config.outputs) == (12, 3)
    found = evaluate(outcome.model, str(tmp_path / "valid"))
    assert trained_numbers(found) == near(from_training(outcome.valid))


# What cannot be evaluated -----------------------------------------------------


def npz(folder, shape, labels=True):
    file = folder / "given.npz"
    arrays = {"labels": np.arange(shape[0])} if labels else {}
    np.savez(file, images=np.zeros(shape, np.uint8), **arrays)
    return file


def ts(folder, row, classes="a b"):
    file = folder / "given.ts"
    header = f"@univariate false\n@classLabel true {classes}\n@data\n"
    file.write_text(header.replace("true ", "true " if classes else "false ") + row + "\n")
    return file


def txt(folder, content="A text. And more."):
    (folder / "given.txt").write_text(content)
    return folder / "given.txt"


LONG = ",".join("1" * 9)
BAD = {
    "texts for images": ("vit", lambda f: "stories", "the corpus stories holds no images"),
    "texts for series": ("tst", lambda f: "stories", "the corpus stories holds no series"),
    "a text file for images": ("igpt", txt, "given.txt is not an IDX file of images"),
    "a text file for series": ("tst series", txt, "given.txt has no line @data"),
    "images for masked text": ("bert", lambda f: npz(f, (3, 8, 8)), "given.npz is not UTF-8"),
    "a corpus that is nowhere": (
        "vit",
        lambda f: "fashion",
        "there is no file or folder 'fashion'",
    ),
    "images of another size": (
        "vit",
        lambda f: npz(f, (3, 9, 9)),
        "the model reads images of 8 x 8 pixels in 1 colours, but ",
    ),
    "images in colour": ("vit patches", lambda f: npz(f, (3, 3, 8, 8)), "has 8 x 8 pixels in 3"),
    "pixels in colour": ("igpt", lambda f: npz(f, (3, 3, 4, 4)), "has 4 x 4 pixels in 3 colours"),
    "images too small": ("igpt", lambda f: npz(f, (3, 3, 3)), "cannot shrink to a side of 4"),
    "more classes": (
        "vit",
        lambda f: npz(f, (4, 8, 8)),
        "the model tells 3 classes apart, 0 to 2, but ",
    ),
    "no classes": ("vit", lambda f: npz(f, (4, 8, 8), labels=False), "given.npz has no labels"),
    "series without classes": ("tst", lambda f: ts(f, "1,2:3,4", ""), "given.ts has no labels"),
    "a strange class": (
        "tst",
        lambda f: ts(f, "1,2:3,4:c", "a c"),
        "has the class 'c', which the model does not know; there are: a, b",
    ),
    "more channels": (
        "tst",
        lambda f: ts(f, "1,2:3,4:5,6:a"),
        "the model reads series of 2 channels and up to 8 time steps, but ",
    ),
    "longer series": ("tst", lambda f: ts(f, f"{LONG}:{LONG}:a"), "2 channels and 9 time steps"),
    "a table with a gap": (
        "tst series",
        lambda f: write_gap(f),
        "table.csv, line 3, column 'y': expected a number, got ''; fill the gap",
    ),
}


def write_gap(folder):
    (folder / "table.csv").write_text("x,y\n1,2\n3,\n")
    return folder / "table.csv"


@pytest.mark.parametrize("what", BAD)
def test_a_corpus_that_does_not_fit_is_refused_in_one_line(
    what, runs, tmp_path, monkeypatch, capfd
):
    from vesalius.cli import main

    name, made, says = BAD[what]
    outcome, _ = runs(name)
    arguments = ["vesalius", "evaluate", str(outcome.folder / "model"), str(made(tmp_path))]
    capfd.readouterr()
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capfd.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("vesalius: ")
    assert says in err


def test_longer_series_are_cut_where_values_are_to_be_restored(runs, tmp_path):
    outcome, _ = runs("tst series")
    long = ",".join(map(str, range(16)))
    assert evaluate(outcome.model, str(ts(tmp_path, f"{long}:{long}:a"))).examples == 2


@pytest.mark.parametrize("name", ["vit", "igpt", "tst"])
def test_a_model_whose_preprocessing_is_not_known_is_refused(name, runs):
    outcome, held_out = runs(name)
    model = outcome.model
    model.preprocessing = {}
    with pytest.raises(WrongKind, match=r"expected preprocessing\.json, which training writes"):
        evaluate(model, held_out)


@pytest.mark.parametrize(
    ("name", "kept", "says"),
    [
        ("tst", {"names": []}, "expected mean and std, 2 finite numbers each, got names"),
        ("tst", {"mean": [0], "std": [1]}, r"2 finite numbers each, got mean \[0\], std \[1\]"),
        ("vit", {"mean": [0], "std": [0]}, "1 finite numbers each"),
        ("vit", {"mean": [0], "std": ["a"]}, "1 finite numbers each"),
        ("vit", {"mean": [math.nan], "std": [1]}, "1 finite numbers each"),
        ("igpt", {"levels": 4}, "expected levels and side, got levels 4"),
        ("igpt", {"levels": 5, "side": 4}, "expected fewer levels than 5, and a side whose"),
        ("igpt", {"levels": 4, "side": 5}, "square is at most 16, got levels 4, side 5"),
    ],
)
def test_the_preprocessing_of_another_model_is_noticed(name, kept, says, runs):
    outcome, held_out = runs(name)
    model = outcome.model
    model.preprocessing = kept
    with pytest.raises(CheckpointMismatch, match=says):
        evaluate(model, held_out)


@pytest.mark.parametrize(
    ("family", "settings", "says"),
    [
        ("bert", {}, "this bert has no head that can be evaluated; expected one for masked tokens"),
        ("vit", {"classes": 0}, "this vit has no head that can be evaluated"),
    ],
)
def test_a_model_without_a_head_that_was_trained_is_refused(family, settings, says):
    small = {"layers": 1, "embedding": 8, "heads": 2}
    with pytest.raises(WrongKind, match=says):
        evaluate(create(family, **small, **settings), "stories")


def test_masked_text_needs_a_tokenizer_and_strides_are_for_the_next_token(runs):
    outcome, held_out = runs("bert")
    model = outcome.model
    with pytest.raises(WrongKind, match="stride is for models of the next token, not for bert"):
        evaluate(model, held_out, stride=3)
    model.tokenizer = None
    with pytest.raises(WrongKind, match="has no tokenizer"):
        evaluate(model, held_out)


def test_the_tokenizer_of_another_model_is_noticed(runs):
    outcome, held_out = runs("bert")
    config = outcome.model.config
    other = create("bert", **config.change(vocabulary=config.vocabulary - 1).to_json())
    other.tokenizer = outcome.model.tokenizer
    last = config.vocabulary - 1
    with pytest.raises(TokenOutOfRange, match=f"has {last} tokens, but its tokenizer gives {last}"):
        evaluate(other, held_out)


def test_a_model_of_sentence_pairs_alone_needs_two_documents(runs, tmp_path):
    outcome, held_out = runs("bert")
    model = create("bert", **outcome.model.config.change(mlm_head=False).to_json())
    model.tokenizer = outcome.model.tokenizer
    assert set(evaluate(model, held_out).numbers) == {
        "next_sentence_loss",
        "next_sentence_accuracy",
    }
    with pytest.raises(EmptyCorpus, match=r"0\.txt has no sentence pairs, .* give a folder"):
        evaluate(model, f"{held_out}/0.txt")


def test_a_long_series_needs_a_window(tmp_path):
    file = write_table(tmp_path / "long.csv")
    with pytest.raises(ImpossibleSetting, match=r"one series of 120 time steps; set \[data\] win"):
        on_table("tst series", tmp_path, file)


def test_tables_of_a_folder_have_the_same_columns(tmp_path):
    write_table(tmp_path / "tables/0.csv")
    (tmp_path / "tables/1.csv").write_text("x,z\n1,2\n")
    with pytest.raises(UnusableData, match=r"0\.csv has x, y; .*1\.csv has x, z"):
        on_table("tst series", tmp_path, tmp_path / "tables", window=5)


@pytest.mark.parametrize("kind", [ImageData, SeriesData])
def test_what_is_held_out_of_a_corpus_by_name_stays_so_whatever_is_validated_on(
    kind, tmp_path, monkeypatch
):
    write, of, held_out = {
        ImageData: (write_images, image_parts, held_out_images),
        SeriesData: (write_series, series_parts, held_out_series),
    }[kind]
    file = write(tmp_path)
    monkeypatch.setattr(parts, "located", lambda *_: [file])
    train, _, _ = of(kind(corpus="mnist-test", valid=str(file)))
    kept, _ = held_out(kind(corpus="mnist-test"))
    rows = [
        {array.tobytes() for array in (part.pixels if kind is ImageData else part.values)}
        for part in (train, kept)
    ]
    assert rows[1]
    assert not rows[0] & rows[1]


# Regression -------------------------------------------------------------------


def write_targets(file, series, seed=0, end="@targetLabel true"):
    """Series whose targets are a hundred times their means, far from zero."""
    rng = np.random.default_rng(seed)
    lines = ["@dimensions 2", end, "@data"]
    for _ in range(series):
        values = rng.normal(rng.normal(), 0.1, (2, 5))
        channels = [",".join(f"{value:.3f}" for value in row) for row in values]
        lines.append(":".join([*channels, f"{1000 + 100 * values.mean():.4f}"]))
    file.write_text("\n".join(lines) + "\n")


def regression(folder, steps=3, **training):
    """A recipe on a folder of two files."""
    folder.mkdir(exist_ok=True)
    write_targets(folder / "Means_TRAIN.ts", 40)
    write_targets(folder / "Means_TEST.ts", 20, seed=1)
    model = {"layers": 1, "heads": 2, "embedding": 16, "dropout": 0.0}
    how = {**ALIKE, "steps": steps, "learning_rate": 1e-2, "warmup": 0, **training}
    how["evaluate_every"] = steps
    said = {"family": "tst", "objective": "series-values", "model": model}
    return recipe({**said, "data": {"corpus": str(folder)}, "training": how})


def test_the_regression_head_is_trained_on_the_targets_of_ts_files(tmp_path):
    outcome = train(regression(tmp_path / "means", steps=60), tmp_path / "run")
    model = outcome.model
    assert (model.config.head, model.config.outputs) == ("regression", 1)
    found = evaluate(model, str(tmp_path / "means"))
    assert (found.examples, found.part) == (20, "Means_TEST.ts")
    spread = read_ts(tmp_path / "means" / "Means_TEST.ts").targets.std()
    assert found.numbers["root_mean_squared_error"] < spread / 3
    units = model.preprocessing.target_std**2
    error = outcome.valid["loss"] * units
    assert found.numbers["mean_squared_error"] == pytest.approx(error, rel=1e-5)
    whole = evaluate(model, str(tmp_path / "means" / "Means_TRAIN.ts"))
    assert (whole.examples, whole.part) == (40, splits.SEEN)


def test_the_network_s_number_is_the_z_score_of_the_target(tmp_path):
    outcome = train(regression(tmp_path / "means"), tmp_path / "run")
    model, test = outcome.model, read_ts(tmp_path / "means" / "Means_TEST.ts")
    kept = model.preprocessing
    scaled = (np.stack(test.values) - kept.mean) / kept.std
    with torch.no_grad():
        found = model.network(torch.tensor(scaled, dtype=torch.float32)).numpy()[:, 0]
    off = found * kept.target_std + kept.target_mean - test.targets
    measured = evaluate(model, str(tmp_path / "means")).numbers["mean_squared_error"]
    assert measured == pytest.approx((off**2).mean(), rel=1e-4)


def test_series_without_targets_are_refused_for_regression(tmp_path):
    said = regression(tmp_path / "means")
    (tmp_path / "means" / "Means_TEST.ts").write_text("@dimensions 2\n@data\n1,2,3,4,5:1,2,3,4,5\n")
    with pytest.raises(UnusableData, match="the validation part has no targets"):
        train(said, tmp_path / "run")


def test_a_class_that_only_a_header_names_matters_to_nobody(runs, tmp_path):
    outcome, held_out = runs("tst")
    other = tmp_path / "other.ts"
    other.write_text(Path(held_out).read_text().replace("true a b", "true a unseen b"))
    found = evaluate(outcome.model, str(other))
    assert trained_numbers(found) == near(from_training(outcome.valid))


def test_the_headers_of_two_parts_may_name_classes_differently(tmp_path):
    head = "@univariate true\n@classLabel true {}\n@data\n"
    (tmp_path / "X_TRAIN.ts").write_text(head.format("a b unseen") + "1,2:a\n3,4:b\n" * 3)
    (tmp_path / "X_TEST.ts").write_text(head.format("b other a") + "1,2:a\n3,4:b\n")
    training, validation, _ = series_parts(SeriesData(corpus=str(tmp_path)))
    assert training.names == validation.names == ("a", "b", "unseen")
    assert validation.labels.tolist() == [0, 1]
