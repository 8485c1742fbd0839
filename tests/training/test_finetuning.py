"""Fine-tuning in one call: every task from the data that people have, on small models."""

import functools
import importlib
import json
import sys
import tomllib

import numpy as np
import pytest
import torch
import transformers
from hugging import saved
from PIL import Image
from small import write_images, write_questions, write_series, write_tags, write_texts
from small import write_timeline as write_waves

import vesalius as vs
from vesalius.cli import cli
from vesalius.errors import (
    AnotherRecipe,
    ImpossibleSetting,
    SaveFailed,
    UnknownConfiguration,
    UnknownCorpus,
    UnknownSetting,
    UnusableData,
    VesaliusError,
    WrongKind,
    WrongLength,
)
from vesalius.tasks.kinds import kinds_of
from vesalius.tokenizers import train_byte_pairs, train_word_pieces
from vesalius.training import train

QUICK = {"steps": 2, "batch": 4}
SHORT = {"context": 12, "horizon": 4, "patch": 4, "stride": 2, "embedding": 8, "heads": 2}
TEXT = "She lost her card. He had a wallet, and the rate of the euro was high. It was cold.\n\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Data of every kind, by the names of their files."""
    folder = tmp_path_factory.mktemp("data")
    written = [write_tags(folder), write_questions(folder), write_images(folder)]
    written += [write_series(folder), write_waves(folder), write_texts(folder)]
    (folder / "text.txt").write_text(TEXT * 40)
    (folder / "days.csv").write_text("date,load\n2020-01-01,3.5\n2020-01-02,4\n")
    for number in range(12):
        sub = folder / "pictures" / ("bright", "dark")[number % 2]
        sub.mkdir(parents=True, exist_ok=True)
        pixels = np.full((9 + number, 8, 3), 20 + 200 * (number % 2 == 0), np.uint8)
        Image.fromarray(pixels).save(sub / f"{number}.{('png', 'jpg')[number > 5]}")
    return {file.name: file for file in [*written, *folder.iterdir()]}


@pytest.fixture(scope="module")
def backbones(data, tmp_path_factory):
    """Small models in folders, the bert in Hugging Face's layout."""
    made = tmp_path_factory.mktemp("models")
    words = [TEXT, data["names.conll"].read_text(), data["questions.json"].read_text()]
    pieces, pairs = train_word_pieces(words, 120), train_byte_pairs(words, 300)
    saved(
        made / "bert",
        "BertForPreTraining",
        vocab_size=pieces.rows,
        num_hidden_layers=1,
        max_position_embeddings=40,
    )
    pieces.save(made / "bert")
    blocks = {"layers": 1, "heads": 2, "embedding": 16}
    models = {
        "gpt2": vs.create("gpt2", **blocks, context=16, vocabulary=pairs.rows),
        "lstm": vs.create("lstm", layers=1, embedding=16, vocabulary=pairs.rows),
        "ffnn": vs.create("ffnn", embedding=16, hidden=16, vocabulary=pairs.rows),
        "vit": vs.create("vit", **blocks, image=8, channels=1, patch=4, classes=2),
        "tst": vs.create("tst", **blocks, channels=2, context=8, outputs=2),
    }
    for name, model in models.items():
        model.tokenizer = pairs if name in ("gpt2", "lstm", "ffnn") else None
        model.save(made / name)
    return {folder.name: folder for folder in made.iterdir()} | {"patchtst": "family:patchtst"}


ASKED = [
    ("bert", "names.conll", "tags", "entity_f1", 'tag {} "Some words of yours."'),
    ("bert", "questions.json", "answers", "exact_match", 'answer {} "Some question?" --context'),
    ("bert", "text.txt", "mlm", "accuracy", 'fill {} "It was a [MASK] day."'),
    ("bert", "texts.jsonl", "text-classes", "accuracy", 'classify {} "some text of yours"'),
    ("gpt2", "text.txt", "next-token", "bits_per_byte", 'generate {} "It was"'),
    ("lstm", "text.txt", "next-token", "bits_per_byte", "evaluate {} other.txt"),
    ("vit", "pictures", "image-classes", "accuracy", "classify {} FILE.png"),
    ("vit", "images.npz", "image-classes", "accuracy", "explore {}"),
    ("tst", "waves.ts", "series-classes", "accuracy", "classify {} FILE.ts"),
    ("patchtst", "waves.npy", "forecast", "mean_squared_error", "forecast {} "),
]


@pytest.mark.parametrize("family", ["bert", "gpt2", "lstm"])
def test_features_of_texts_are_the_mean_of_the_states(family, data, backbones, tmp_path):
    asked = {"strategy": "features", "out": tmp_path / "mine", "batch": 4}
    found = vs.finetune(backbones[family], data["texts.jsonl"], **asked)
    model, texts = found.model, ["she lost the card", "the rate"]
    assert model.config.pooling == "mean"
    assert "pooler.weight" not in model.state
    frozen = np.stack(vs.embed(backbones[family], texts).vectors)
    logits = frozen @ model.state["label_head.weight"].T + model.state.get("label_head.bias", 0)
    odds = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    # Weights are large where features hardly vary: float32 rounds the products, not their sum.
    sizes = np.abs(frozen) @ np.abs(model.state["label_head.weight"].T)
    within = float(8 * np.finfo(np.float32).eps * sizes.max())
    for text, expected in zip(texts, odds, strict=True):
        told = [one.probability for one in vs.classify(model, text).candidates]
        assert told == pytest.approx(sorted(expected, reverse=True), abs=within)
        z = vs.dissect(model, text)["z"]
        assert z == pytest.approx(logits[texts.index(text)], rel=0, abs=within)
    with pytest.raises(UnknownConfiguration, match=r"cannot say: pooling = mean|no layout for"):
        model.save(tmp_path / "theirs", layout="huggingface")
    one = {"bert": "first"}.get(family, "last")
    again = vs.finetune(
        backbones[family], data["texts.jsonl"], **{**asked, "out": tmp_path / "one"}, pooling=one
    )
    assert again.model.config.pooling == one


@pytest.mark.parametrize("family", ["ffnn", "lstm", "bert"])
def test_line_ends_that_are_read_as_others_are_told(family, backbones, tmp_path):
    (tmp_path / "own.txt").write_bytes((TEXT * 40).replace("\n", "\r\n").encode())
    (tmp_path / "plain.txt").write_text(TEXT * 40)
    note = r"line ends \r\n and \r were read as \n"
    for name, notes in (("own.txt", (note,)), ("plain.txt", ())):
        found = vs.finetune(
            backbones[family], tmp_path / name, out=tmp_path / f"{name}-model", **QUICK
        )
        assert found.notes == notes


@pytest.mark.parametrize(("family", "name", "objective", "number", "line"), ASKED)
def test_the_task_follows_from_the_data(
    family, name, objective, number, line, data, backbones, tmp_path
):
    mine, settings = tmp_path / "mine", SHORT if family == "patchtst" else {}
    found = vs.finetune(backbones[family], data[name], out=mine, **QUICK, **settings)
    assert (found.objective, found.step, found.done) == (objective, 2, True)
    assert number in found.numbers
    assert found.training > found.validation > 0
    said = [part for part in found.view() if isinstance(part, str)]
    assert any(part.startswith(f"vesalius {line.format(mine)}") for part in said)
    assert found.to_json()["task"] == found.task.option
    # What it was before stands beside where the same can be asked of it.
    assert found.before.keys() == (found.numbers.keys() if found.task.option == "text" else set())
    if found.before:
        assert found.before != found.numbers
    again = train(mine / "recipe.toml", tmp_path / "again").model
    for tensor, array in found.model.state.items():
        np.testing.assert_array_equal(again.state[tensor], array)


def test_warm_up_is_a_tenth_of_the_steps_that_are_said(data, backbones, tmp_path):
    """A warm-up that is longer than the run would leave the learning rate near zero."""
    for steps, warmup in ((None, 18), (20, 2), (5, 0)):
        said = {} if steps is None else {"steps": steps}
        out, rows = tmp_path / str(steps), data["texts.jsonl"]
        found = vs.finetune(backbones["bert"], rows, out=out, batch=2, **said)
        written = tomllib.loads((out / "recipe.toml").read_text())["training"]
        assert written["warmup"] == warmup
        assert written["evaluate_every"] <= written["steps"] == found.step


def test_a_family_by_its_name_starts_from_nothing(data, tmp_path):
    """Also where its name is that of a model at Hugging Face."""
    small = {"layers": 1, "heads": 2, "embedding": 8, "vocabulary": 200}
    found = vs.finetune("family:gpt2", data["texts.jsonl"], out=tmp_path, **small, **QUICK)
    assert found.model.config.embedding == 8


def test_a_model_of_pairs_reads_two_texts_at_a_time(data, backbones, tmp_path, capsys):
    found = vs.finetune(
        backbones["bert"], data["texts.jsonl"], second="second", out=tmp_path / "mine", **QUICK
    )
    said = [part for part in found.view() if isinstance(part, str)]
    assert f'vesalius classify {found.folder} "a text" "a second text"' in said
    with pytest.raises(WrongKind, match="trained on pairs of texts; expected those, got single"):
        vs.classify(found.folder, ["her card"])
    rows = [("her card", "his wallet"), ("the rate", "the euro")]
    pairs = [text for row in rows for text in row]
    cli(["classify", str(found.folder), *pairs, "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert told == [one.to_json() for one in vs.classify(found.folder, rows)]
    with pytest.raises(WrongKind, match="two of a pair one after the other, got 3 texts"):
        cli(["classify", str(found.folder), *pairs[:3]], standalone_mode=False)


def test_a_specimen_is_trained_on_by_its_own_optimiser(data, backbones, tmp_path):
    """Muon made bert: BANKING77 at ten a class gains 4 points by it, and lstm knows AdamW alone."""
    wanted = {"bert": ("muon", 1.5e-3), "lstm": ("adamw", 1e-3), backbones["bert"]: ("adamw", 1e-3)}
    for number, (backbone, chosen) in enumerate(wanted.items()):
        out = tmp_path / str(number)
        vs.finetune(backbone, data["texts.jsonl"], out=out, **QUICK)
        said = tomllib.loads((out / "recipe.toml").read_text())["training"]
        assert (said["optimiser"], said["learning_rate"]) == chosen
    vs.finetune("bert", data["texts.jsonl"], out=tmp_path / "own", optimiser="adamw", **QUICK)
    said = tomllib.loads((tmp_path / "own" / "recipe.toml").read_text())["training"]
    assert said["learning_rate"] == pytest.approx(5e-5 * (768 / 192) ** 2)


def test_what_a_text_gains_is_told_in_bits_per_byte(data, backbones, tmp_path):
    quick = {"steps": 60, "batch": 8, "learning_rate": 1e-2, "warmup": 0, "dropout": 0.0}
    found = vs.finetune(backbones["gpt2"], data["text.txt"], out=tmp_path / "mine", **quick)
    assert found.numbers["bits_per_byte"] < 0.8 * found.before["bits_per_byte"]
    (tmp_path / "rest.txt").write_text(TEXT * 4)  # a tenth, as was held out
    whole = vs.evaluate(found.folder, tmp_path / "rest.txt")
    assert found.numbers["bits_per_byte"] == pytest.approx(whole.bits_per_byte, rel=0.25)


def test_what_is_given_in_python_is_written_beside_the_run(data, backbones, tmp_path):
    rows = [json.loads(line) for line in data["texts.jsonl"].read_text().splitlines()]
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    arrays = np.array(texts), np.array(labels)
    pair = vs.finetune(backbones["bert"], arrays, out=tmp_path / "pair", **QUICK)
    columns = {"text": texts, "label": np.array([row["value"] for row in rows])}
    valued = vs.finetune(
        backbones["bert"], columns, task="values", out=tmp_path / "columns", **QUICK
    )
    assert (pair.objective, valued.objective) == ("text-classes", "text-values")
    read = vs.finetune(backbones["bert"], texts, out=tmp_path / "texts", window=8, **QUICK)
    assert read.objective == "mlm"
    with np.load(data["images.npz"]) as arrays:
        pixels, numbers = arrays["images"][:, 0], arrays["labels"]
    named = [f"kind {number}" for number in numbers]
    seen = vs.finetune(backbones["vit"], (pixels, named), out=tmp_path / "seen", **QUICK)
    assert seen.model.preprocessing.names == ["kind 0", "kind 1", "kind 2"]
    assert vs.classify(seen.folder, pixels[0]).name.startswith("kind ")
    waves = np.random.default_rng(0).normal(size=(20, 2, 6))
    for answers, objective in (
        (np.arange(20) % 2, "series-classes"),
        (waves.mean(axis=(1, 2)), "series-values"),
    ):
        out = tmp_path / objective
        found = vs.finetune(backbones["tst"], (waves, answers), out=out, **QUICK)
        assert found.objective == objective
        (kept,) = out.glob("data-*.ts")
        assert vs.finetune(backbones["tst"], (waves, answers), out=out, resume=True, **QUICK).done
        assert [*out.glob("data-*.ts")] == [kept]
    with pytest.raises(AnotherRecipe, match=r"data.corpus was"):
        vs.finetune(backbones["tst"], (waves + 1, waves[:, 0, 0]), out=out, resume=True, **QUICK)
    alone = vs.finetune(backbones["tst"], waves, out=tmp_path / "alone", **QUICK)
    assert alone.objective == "masked-series"
    ahead = vs.finetune(
        "family:patchtst", np.sin(np.arange(90.0)), out=tmp_path / "ahead", **QUICK, **SHORT
    )
    assert vs.forecast(ahead.folder, np.sin(np.arange(30.0)), horizon=2).values.shape == (2, 1)
    # It may be fine-tuned again on a series of more channels: each is a sequence of its own.
    more = vs.finetune(ahead.folder, data["waves.npy"], out=tmp_path / "more", **QUICK)
    assert more.model.config.channels == 2
    with pytest.raises(WrongLength, match="20 examples and 3 answers"):
        vs.finetune(backbones["tst"], (waves, [1, 2, 3]), out=tmp_path / "none")
    with pytest.raises(WrongLength, match="one length, got 2 of text, 1 of label"):
        vs.finetune(backbones["bert"], (["a", "b"], ["x"]), out=tmp_path / "none")


def test_several_seeds_give_mean_and_spread_and_go_on(data, backbones, tmp_path, capsys):
    call = {"out": tmp_path / "mine", "label": "label", **QUICK}
    found = vs.finetune(backbones["lstm"], data["texts.jsonl"], seeds=2, **call)
    assert [run.folder.name for run in found.runs] == ["seed-0", "seed-1"]
    losses = [run.numbers["loss"] for run in found.runs]
    assert losses[0] != losses[1]
    assert found.numbers["loss"] == pytest.approx(np.mean(losses))
    assert found.spread["loss"] == pytest.approx(np.std(losses, ddof=1))
    arguments = [*map(str, ("finetune", backbones["lstm"], data["texts.jsonl"], "--out"))]
    arguments += [str(tmp_path / "mine"), "--seeds", "3", "--resume"]
    arguments += ["--set", "training.steps=2", "--set", "training.batch=4", "--json"]
    cli.main(arguments, standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert [run["loss"] for run in told["runs"][:2]] == losses
    assert told["seeds"] == [0, 1, 2]
    assert told["mean"]["loss"] == pytest.approx(np.mean([run["loss"] for run in told["runs"]]))


def test_reading_without_labels_comes_first_and_labels_follow(data, backbones, tmp_path):
    for family, first, settings, second in (
        ("bert", "text.txt", {}, "texts.jsonl"),
        ("bert", "texts.jsonl", {"task": "text", "window": 8}, "texts.jsonl"),
        ("vit", "images.npz", {"task": "masked"}, "pictures"),
        ("tst", "waves.ts", {"task": "masked"}, "waves.ts"),
    ):
        out = tmp_path / f"{family}-{first}"
        read = vs.finetune(backbones[family], data[first], out=out, **settings, **QUICK)
        assert read.objective in ("mlm", "masked-patches", "masked-series")
        found = vs.finetune(out, data[second], out=tmp_path / f"{out.name}-2", **QUICK)
        assert found.task.option == "classes"
        assert found.backbone == str(out / "model")
        # Each has the heads of its task alone, and can be measured by them.
        assert vs.evaluate(out, data[first]).numbers.keys() == read.numbers.keys()
        assert "mean_squared_error" not in vs.evaluate(found.folder, data[second]).numbers
        if family == "vit":
            assert (read.model.config.classes, found.model.config.masked_patch_head) == (0, False)


def test_transformers_predicts_the_same_words_and_spans(data, backbones, tmp_path):
    ids = torch.tensor([[2, 7, 9, 11, 3]])
    for name, kind in (
        ("names.conll", "BertForTokenClassification"),
        ("questions.json", "BertForQuestionAnswering"),
    ):
        mine = vs.finetune(backbones["bert"], data[name], out=tmp_path / name, **QUICK)
        exported = tmp_path / f"{name}-exported"
        cli.main(["convert", str(mine.folder), str(exported)], standalone_mode=False)
        theirs = getattr(transformers, kind).from_pretrained(exported).eval()
        with torch.no_grad():
            out = theirs(input_ids=ids)
            ours = mine.model.network.eval()(ids).labels
        logits = out.get("logits")
        if logits is None:
            logits = torch.stack([out.start_logits, out.end_logits], dim=-1)
        else:
            assert [*theirs.config.id2label.values()] == mine.model.preprocessing.names
        torch.testing.assert_close(ours, logits, rtol=1e-5, atol=1e-5)


def test_json_with_parts_trains_on_one_and_validates_on_another(data, backbones, tmp_path):
    rows = [json.loads(line) for line in data["texts.jsonl"].read_text().splitlines()]
    pairs = [[row["text"], row["label"]] for row in rows]
    parts = {"val": pairs[:8], "train": pairs[8:], "test": pairs[:4], "oos_train": [["far", "oos"]]}
    file = tmp_path / "parts.json"
    file.write_text(json.dumps(parts))
    found = vs.finetune(backbones["bert"], file, out=tmp_path / "mine", **QUICK)
    assert (found.training, found.validation) == (33, 8)
    assert found.model.preprocessing.names == ["app", "card", "oos", "rate"]
    assert vs.evaluate(found.folder, file).to_json()["examples"] == 4
    file.write_text(json.dumps([{"text": text, "label": label} for text, label in pairs]))
    assert vs.finetune(backbones["bert"], file, out=tmp_path / "list", **QUICK).validation == 4
    file.write_text(json.dumps({"train": [["a"]]}))
    with pytest.raises(VesaliusError, match=r"parts\.json, row 1 of train: expected a list"):
        vs.finetune(backbones["bert"], file, out=tmp_path / "bad")


def test_kinds_are_told_by_names_and_first_lines(tmp_path, data):
    files = {
        "a.csv": ("text,label\nhello,x\n", ("table",)),
        "b.csv": ("date,load\n2020-01-01,3.5\n", ("timeline", "series", "table")),
        "c.csv": ("unique_id,ds,y\na,2020-01-01,3.5\n", ("timeline",)),
        "d.csv": ("words,kind\nhello,x\n", ("table", "series", "timeline")),
        "e.tsv": ("Ada\tPER\nran\tO\n\nBen\tPER\n", ("words", "table")),
        "f.tsv": ("text\tlabel\nhello\tx\n", ("table",)),
        "g.txt": ("Once.", ("text", "words")),
        "h.conllu": ("1\tAda\n", ("words",)),
        "i.npy": ("", ("timeline", "images")),
        "train-images-idx3-ubyte.gz": ("", ("images",)),
        "j.json": ('{"data": []}', ("questions",)),
        "k.json": ('{"train": []}', ("table",)),
    }
    for name, (body, kinds) in files.items():
        (tmp_path / name).write_text(body)
        assert kinds_of(str(tmp_path / name)) == kinds, name
    assert kinds_of(str(data["pictures"])) == ("images",)
    for name, kind in {"banking77": "table", "wnut17": "words", "stories": "text"}.items():
        assert kinds_of(name) == (kind,)
    assert (kinds_of("japanese-vowels"), kinds_of("etth1")[0]) == (("series",), "timeline")
    (tmp_path / "none").mkdir()
    with pytest.raises(VesaliusError, match="none holds nothing to learn from; expected a table"):
        kinds_of(str(tmp_path / "none"))
    (tmp_path / "a.xls").write_text("")
    with pytest.raises(UnusableData, match="not known by its name; expected a table of texts"):
        kinds_of(str(tmp_path / "a.xls"))


@pytest.mark.parametrize(
    ("family", "name", "settings", "kind", "says"),
    [
        ("bert", "texts.jsonl", {"label": "lable"}, UnusableData, "did you mean label.*task text"),
        ("bert", "texts.jsonl", {"label": "value"}, UnknownSetting, "as task: values,"),
        ("bert", "texts.jsonl", {"task": "tags"}, UnusableData, "tags needs words with tags: .con"),
        ("gpt2", "names.conll", {}, WrongKind, "tags needs a model of bert; .* is one of gpt2"),
        ("gpt2", "questions.json", {}, WrongKind, "answers needs a model of bert"),
        ("bert", "pictures", {}, WrongKind, "image-classes needs a model of vit"),
        ("vit", "text.txt", {}, WrongKind, "next-token or mlm needs a model of .*, bert"),
        ("tst", "waves.npy", {}, WrongKind, "forecast needs a model of patchtst"),
        ("ffnn", "texts.jsonl", {"label": "label"}, WrongKind, "text-classes needs a model of rnn"),
        ("bert", "days.csv", {}, UnusableData, "like a series along time, .* models of patchtst"),
        ("vit", "pictures", {"label": "x"}, ImpossibleSetting, "label is for a table of texts"),
        (
            *("bert", "texts.jsonl", {"task": "text", "label": "label"}, ImpossibleSetting),
            "label is for task classes, labels, values; not for task text",
        ),
        ("bert", "names.conll", {"label": "tag"}, ImpossibleSetting, "the number of a column"),
        ("bert", "nowhere.csv", {}, UnknownCorpus, "there is no file or folder"),
        ("patchtst", "waves.npy", {}, WrongLength, "look-back and horizon, 336"),
    ],
)
def test_what_does_not_fit_is_refused(
    family, name, settings, kind, says, data, backbones, tmp_path
):
    with pytest.raises(kind, match=says):
        vs.finetune(backbones[family], data.get(name, name), out=tmp_path / "mine", **settings)
    assert not (tmp_path / "mine").exists()


def test_data_that_cannot_be_learnt_from_are_refused_with_their_place(backbones, data, tmp_path):
    def refused(family, name, body, kind, says, **settings):
        (tmp_path / name).write_text(body)
        with pytest.raises(kind, match=says):
            vs.finetune(backbones[family], tmp_path / name, out=tmp_path / "mine", **settings)

    head = "@univariate true\n@classLabel true a b\n@data\n"
    one = "".join("1,2,3:a\n" for _ in range(10))
    settings = {"channels": 1, "context": 8, "embedding": 8, "heads": 2}
    backbones = {**backbones, "tst": "family:tst"}
    refused(
        "tst", "one.ts", head + one, UnusableData, "one class only to train on, 'a'", **settings
    )
    (tmp_path / "b.ts").write_text(f"{head}1,2,3:b\n1,2,3:a\n")
    both = "".join(f"1,2,3:{'ac'[i % 2]}\n" for i in range(10))
    refused(
        *("tst", "two.ts", head.replace("a b", "a b c") + both, UnusableData),
        "class 'b' is to be validated on",
        valid=tmp_path / "b.ts",
        **settings,
    )
    refused("bert", "x.conll", "Ada PER\nran\n", UnusableData, "x.conll, line 2: expected 2 col")
    refused("bert", "y.tsv", "Ada\tPER\nran\t\n\nBen\tO\n", UnusableData, "y.tsv, line 2: the tag")
    dates = "date,load\n" + "".join(f"2020-01-{day:02},1\n" for day in (1, 2, 3, 9))
    refused("patchtst", "gap.csv", dates, UnusableData, "gap of 6 days.* after 2020-01-03")
    holes = "date,load\n2020-01-01,1\n2020-01-02,\n"
    refused("patchtst", "hole.csv", holes, VesaliusError, "line 3, column 'load'")
    short = "date,load\n" + "".join(f"2020-01-{day:02},{day}\n" for day in range(1, 29))
    refused("patchtst", "short.csv", short, WrongLength, "fewer than look-back and horizon")


def test_what_python_gives_is_refused_in_words(backbones, tmp_path):
    pixels, waves = np.zeros((4, 8, 8), np.uint8), np.ones((4, 2, 6))
    kinds = ["a", "b", "a", "b"]
    (tmp_path / "file").write_text("")
    for family, given, says in (
        ("tst", 5, "data must be a file, a folder or a corpus by name; .*, got 5"),
        ("tst", ([], []), "data must be .*series"),
        ("tst", (waves, ["a", None, "a", "b"]), "example 1 has no answer, but None"),
        ("tst", (waves, ["a b", "a_b", "a b", "c"]), "names differ in more than spaces"),
        ("tst", (waves, ["a", "", "a", "b"]), "none without a name"),
        ("vit", ([pixels[0], pixels[1][:5]], ["a", "b"]), "expected images of one size"),
        ("vit", (pixels, kinds[:3]), "4 examples and 3 answers"),
    ):
        with pytest.raises(VesaliusError, match=says):
            vs.finetune(backbones[family], given, out=tmp_path / "mine")
        assert not (tmp_path / "mine").exists()
    with pytest.raises(SaveFailed, match="file cannot be written to: File exists"):
        vs.finetune(backbones["vit"], (pixels, kinds), out=tmp_path / "file")


def test_series_of_another_shape_than_the_backbone_reads_are_refused(backbones, tmp_path):
    waves = np.random.default_rng(0).normal(size=(12, 3, 6))
    with pytest.raises(WrongKind, match="series of 2 channels, but the data have 3; start from"):
        vs.finetune(backbones["tst"], (waves, np.arange(12) % 2), out=tmp_path / "a")
    with pytest.raises(WrongKind, match="up to 8 time steps, but the data have 9; cut them by"):
        vs.finetune(backbones["tst"], (np.ones((12, 2, 9)), np.arange(12) % 2), out=tmp_path / "b")


READERS = [
    ("bert", "labelled.csv", "vesalius.data.tables", "read_table", {}),
    ("bert", "labelled.csv", "vesalius.data.tables", "read_table", {"seeds": 2}),
    ("bert", "names.conll", "vesalius.tasks.tagging.data", "read_tagged", {}),
    ("bert", "questions.json", "vesalius.tasks.answering.data", "read_questions", {}),
    ("tst", "waves.ts", "vesalius.data.series", "read_ts", {}),
    ("patchtst", "waves.npy", "vesalius.data.timelines", "read_timeline", SHORT),
]


def counting(monkeypatch, function):
    """Count the calls of a function, wherever it was imported to; it does what it did."""
    calls = []

    @functools.wraps(function)
    def counted(*arguments, **settings):
        calls.append(arguments)
        return function(*arguments, **settings)

    for module in [m for n, m in sys.modules.items() if n.startswith("vesalius")]:
        if vars(module).get(function.__name__) is function:
            monkeypatch.setattr(module, function.__name__, counted)
    return calls


@pytest.mark.parametrize(("family", "name", "module", "reader", "settings"), READERS)
def test_data_are_read_and_the_model_is_loaded_once(
    family, name, module, reader, settings, data, backbones, tmp_path, monkeypatch
):
    rows = [json.loads(line) for line in data["texts.jsonl"].read_text().splitlines()]
    lines = ["text,label", *(f"{row['text']},{row['label']}" for row in rows)]
    (tmp_path / "labelled.csv").write_text("\n".join(lines))
    given = tmp_path / name if name == "labelled.csv" else data[name]
    reads = counting(monkeypatch, getattr(importlib.import_module(module), reader))
    loads = counting(monkeypatch, importlib.import_module("vesalius.model").load)
    encodings = counting(
        monkeypatch, importlib.import_module("vesalius.tasks.labelling.encoding").encoded
    )
    vs.finetune(backbones[family], given, out=tmp_path / "mine", **QUICK, **settings)
    assert len(reads) == 1
    backbone = [given for given, *_ in loads if str(given) == str(backbones[family])]
    assert len(backbone) == (family != "patchtst")
    parts = 2 * settings.get("seeds", 1)  # each seed splits them in its own way
    assert len(encodings) == (parts if name == "labelled.csv" else 0)
