"""Fine-tuning on labelled texts: the losses of the equations, and one's own task end to end."""

import csv
import json

import numpy as np
import pytest
import torch
import transformers
from hugging import saved
from small import small_recipe, write_texts
from test_objectives import close, seen

import vesalius as vs
from vesalius.cli import cli
from vesalius.data.inputs import label_kind
from vesalius.equations import OneHot, cross_entropy_of_class, sigmoid, softmax, tracing
from vesalius.errors import (
    ImpossibleSetting,
    UnknownSetting,
    UnusableData,
    VesaliusError,
    WrongKind,
)
from vesalius.families import family_of
from vesalius.tokenizers import train_byte_pairs, train_word_pieces
from vesalius.training import train

QUICK = {"batch": 8, "epochs": 2, "dropout": 0.0}


def label_logits(peek, batch):
    """z of every text by the equations, without its padding."""
    run, found = family_of(peek.config).run, []
    for k, real in enumerate(batch["real"]):
        more = {"segments": batch["segments"][k][real]} if "segments" in batch else {}
        Omega = OneHot(batch["ids"][k][real], peek.config.vocabulary)
        with tracing("z") as steps:
            run(peek.theta, Omega, peek.config.symbols(), **more)
        found.append(steps["z"])
    return np.stack(found)


def test_the_loss_of_classes_is_17_weighted_by_inverse_frequency(tmp_path):
    peek = seen("gpt2 classes", tmp_path, batch=12)
    batch = peek.batches.train(0)
    assert len(set(batch["weights"])) > 1
    logits = label_logits(peek, batch)
    each = [
        w * cross_entropy_of_class(int(c), softmax(z))
        for w, c, z in zip(batch["weights"], batch["labels"], logits, strict=True)
    ]
    close(peek.losses[0]["loss"], np.mean(each))
    (valid,) = peek.batches.valid()  # is not weighted
    odds = softmax(label_logits(peek, valid), axis=1)
    close(peek.valid["loss"], -np.log(odds[np.arange(len(odds)), valid["labels"]]).mean())
    right = (odds.argmax(axis=1) == valid["labels"]).mean()
    assert peek.valid["classes accuracy"] == pytest.approx(right)


def test_the_loss_of_several_labels_is_that_of_each_by_itself(tmp_path):
    peek = seen("bert labels", tmp_path, batch=12)
    batch = peek.batches.train(0)
    assert batch["segments"].any()  # of the second texts
    odds, given = sigmoid(label_logits(peek, batch)), batch["labels"]
    nats = -np.where(given > 0, np.log(odds), np.log(1 - odds))
    assert len(np.unique(batch["weights"])) > 2
    close(peek.losses[0]["loss"], (batch["weights"] * nats).mean())


def test_the_loss_of_values_is_their_squared_error_in_deviations(tmp_path):
    peek = seen("lstm values", tmp_path, batch=12)
    batch = peek.batches.train(0)
    wanted = np.concatenate([peek.batches.train(step)["labels"] for step in range(3)])
    assert abs(wanted.mean()) < 0.2
    close(peek.losses[0]["loss"], ((label_logits(peek, batch) - batch["labels"]) ** 2).mean())


# One's own task -------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The same texts as CSV."""
    folder = tmp_path_factory.mktemp("texts")
    rows = [json.loads(line) for line in write_texts(folder, 64).read_text().splitlines()]
    file = folder / "texts.csv"
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["utterance", "topic", "value", "tags"])
        for row in rows:
            writer.writerow([row["text"], row["label"], row["value"], "|".join(row["tags"])])
    return file


@pytest.fixture(scope="module")
def backbones(table, tmp_path_factory):
    """Folders of random numbers in Hugging Face's layout, of Transformers and of ours."""
    words = table.read_text()
    folders = {name: tmp_path_factory.mktemp(name) for name in ("bert", "gpt2", "lstm")}
    pieces = train_word_pieces([words], 80)
    saved(folders["bert"], "BertModel", vocab_size=pieces.rows, num_hidden_layers=1)
    pieces.save(folders["bert"])
    for name, settings in {"gpt2": {"heads": 2, "context": 20}, "lstm": {}}.items():
        pairs = train_byte_pairs([words], 290)
        model = vs.create(name, layers=1, embedding=16, vocabulary=pairs.rows, **settings)
        model.tokenizer = pairs
        model.save(folders[name], layout="huggingface" if name == "gpt2" else "vesalius")
    return folders


def tuned(backbones, table, family, folder, **settings):
    columns = {"text": "utterance", "label": "topic"}
    return vs.finetune(
        backbones[family], table, out=folder / "mine", **{**columns, **QUICK, **settings}
    )


@pytest.mark.parametrize("family", ["bert", "gpt2", "lstm"])
def test_a_folder_is_finetuned_and_then_used_by_its_own_name(family, backbones, table, tmp_path):
    found = tuned(backbones, table, family, tmp_path)
    assert (found.training, found.validation, found.done) == (57, 7, True)
    assert found.step == 14  # two epochs of seven batches of eight
    assert found.numbers.keys() == {"loss", "accuracy"}
    mine = tmp_path / "mine"
    assert any(line == f"vesalius explore {mine}" for line in found.view())
    model = vs.load(mine)
    assert model.preprocessing.names == ["app", "card", "rate"]
    texts = ["lost card", "exchange rate please"]
    one, two = vs.classify(mine, texts)
    odds = {c.name: c.probability for c in two.candidates}
    assert sum(odds.values()) == pytest.approx(1)
    assert two.name == max(odds, key=odds.get)
    assert vs.classify(model, texts[0]).name == one.name
    trace = vs.dissect(mine, texts[1])
    assert trace.best(3) == [
        (c.number, c.name, pytest.approx(c.probability, abs=1e-6)) for c in two.candidates
    ]
    assert vs.lens(trace).likeliest[-1][0][0].name == two.name
    held_out = vs.evaluate(mine, table)
    assert held_out.part == "the 7 texts that training held out"
    assert held_out.numbers["accuracy"] == pytest.approx(found.numbers["accuracy"])
    model.preprocessing = model.preprocessing.change(held_out=None)
    measured = vs.evaluate(model, table).to_json()
    with table.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    guesses = vs.classify(mine, [row["utterance"] for row in rows])
    right = [guess.name == row["topic"] for guess, row in zip(guesses, rows, strict=True)]
    assert measured["accuracy"] == pytest.approx(np.mean(right))
    assert measured["examples"] == 64
    again = train(mine / "recipe.toml", tmp_path / "again")  # what was written trains the same
    for name, array in model.state.items():
        np.testing.assert_array_equal(again.model.state[name], array)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_transformers_predicts_the_same_with_the_same_names(family, backbones, table, tmp_path):
    mine = tuned(backbones, table, family, tmp_path).model
    mine.save(tmp_path / "theirs", layout="huggingface")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "theirs")
    assert theirs.config.id2label == {0: "app", 1: "card", 2: "rate"}
    assert theirs.config.problem_type == "single_label_classification"
    texts = ["lost card", "exchange rate money euro", "app"]
    rows = mine.tokenizer.encode_many(texts)
    longest, pad = max(map(len, rows)), theirs.config.pad_token_id or 0
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
    real = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    with torch.no_grad():
        odds = theirs.eval()(input_ids=ids, attention_mask=real).logits.softmax(-1).numpy()
    for row, one in zip(odds, vs.classify(mine, texts), strict=True):
        for candidate in one.candidates:
            assert candidate.probability == pytest.approx(row[candidate.number], abs=1e-5)
    back = vs.load(tmp_path / "theirs")
    (tmp_path / "theirs" / "preprocessing.json").unlink()
    bare = vs.load(tmp_path / "theirs")  # as any folder from there
    assert label_kind(back) == label_kind(bare) == "classes"
    expected = [(one.name, one.candidates[0].probability) for one in vs.classify(mine, texts)]
    for model in (back, bare):
        found = [(one.name, one.candidates[0].probability) for one in vs.classify(model, texts)]
        assert found == [(name, pytest.approx(odds, abs=1e-6)) for name, odds in expected]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_transformers_own_pipeline_reads_batches_and_cuts_long_texts(
    family, backbones, table, tmp_path
):
    mine = tuned(backbones, table, family, tmp_path).model
    mine.save(tmp_path / "theirs", layout="huggingface")
    texts = ["lost card", "exchange rate money euro", "card " * 600]
    said = {"batch_size": 3, "truncation": True, "model": str(tmp_path / "theirs")}
    found = transformers.pipeline("text-classification", **said)(texts)
    for one, ours in zip(found, vs.classify(mine, texts), strict=True):
        assert (one["label"], pytest.approx(one["score"], abs=1e-5)) == (
            ours.name,
            ours.candidates[0].probability,
        )
    settings = json.loads((tmp_path / "theirs" / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == mine.config.context
    (tmp_path / "theirs" / "tokenizer_config.json").write_text('{"mine": 1}')
    mine.save(tmp_path / "theirs", layout="huggingface")
    assert (tmp_path / "theirs" / "tokenizer_config.json").read_text() == '{"mine": 1}'


def test_values_come_in_their_own_units_and_labels_each_by_itself(backbones, table, tmp_path):
    seldom = {"evaluate_every": 1000, "save_every": 1000}
    asked = {"label": "value", "task": "values", "epochs": 20, **seldom}
    values = tuned(backbones, table, "bert", tmp_path, **asked)
    found = vs.classify(values.folder, ["lost", "lost stolen card wallet lost card"])
    assert 100 < float(found[0]) < float(found[1]) < 170  # ten for each word, and a hundred
    kept = vs.load(values.folder).preprocessing
    with table.open(newline="") as opened:
        numbers = [float(row["value"]) for row in csv.DictReader(opened)]
    assert kept.target_mean == pytest.approx(np.mean(numbers), rel=0.05)
    whole = values.model
    whole.preprocessing = whole.preprocessing.change(held_out=None)
    measured = vs.evaluate(whole, table).to_json()
    squares = measured["mean_squared_error"]
    guesses = vs.classify(values.folder, column(table, "utterance"))
    errors = [float(one) - number for one, number in zip(guesses, numbers, strict=True)]
    assert squares == pytest.approx(np.mean(np.square(errors)), rel=1e-4)
    assert measured["mean_absolute_error"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-4)
    assert measured["r2"] == pytest.approx(1 - squares / np.var(numbers), rel=1e-4)
    folder = tmp_path / "labels"
    labels = tuned(backbones, table, "gpt2", folder, label="tags", task="labels", epochs=1)
    one = vs.classify(labels.folder, "lost card")
    assert {c.name for c in one.candidates} == {"app", "card", "long", "rate"}
    assert one.names == [c.name for c in one.candidates if c.probability >= 0.5]
    assert vs.dissect(labels.folder, "lost card").class_names == []
    told = vs.evaluate(labels.folder, table).to_json()
    assert told.keys() >= {"loss", "accuracy", "micro_f1", "macro_f1"}
    assert [row["name"] for row in told["labels"]] == ["app", "card", "long", "rate"]


def column(table, name):
    with table.open(newline="") as opened:
        return [row[name] for row in csv.DictReader(opened)]


def test_the_command_line_finetunes_classifies_and_evaluates(backbones, table, tmp_path, capsys):
    def run(*arguments):
        cli.main([*map(str, arguments)], standalone_mode=False)
        return capsys.readouterr()

    mine = tmp_path / "mine"
    columns = ("--text", "utterance", "--label", "topic")
    done = run(
        *("finetune", backbones["gpt2"], table, *columns, "--out", mine),
        *("--set", "training.steps=3", "--set", "data.length=2", "--set", "data.examples=4"),
    )
    assert "texts are longer than 2 tokens; their ends are cut off" in done.err
    assert "their ends are cut off" not in done.out, "it is said once"
    assert "accuracy on these" in done.out
    assert f"vesalius classify {mine}" in done.out
    told = json.loads(run("classify", mine, "lost stolen card", "--json").out)
    assert told[0]["class"] in ("app", "card", "rate")
    assert told[0]["prepared"].startswith("2 tokens, cut from")
    lines = tmp_path / "lines.txt"
    lines.write_text("lost card\nrate\n")
    assert len(json.loads(run("classify", mine, "--file", lines, "--json").out)) == 2
    assert len(json.loads(run("classify", mine, "--file", table, "--json").out)) == 64
    by_name = run("classify", mine, "--file", table, "--text", "topic", "--top", "1").out
    assert "app" in by_name
    assert "accuracy" in run("evaluate", mine, table).out
    assert "(training.steps" not in (mine / "recipe.toml").read_text()
    assert "steps = 3" in (mine / "recipe.toml").read_text()
    with pytest.raises(ImpossibleSetting, match="holds a run at step 3"):
        run("finetune", backbones["gpt2"], table, *columns, "--out", mine)
    # Features are fitted in one step, and told like any other.
    fitted = ("--strategy", "features", "--out", tmp_path / "features")
    told = run("finetune", backbones["bert"], table, *columns, *fitted)
    assert "accuracy on these" in told.out
    assert "examples/s" in told.err


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        ({"text": "utterence"}, UnusableData, "did you mean utterance"),
        ({"task": "clases"}, UnknownSetting, "unknown task 'clases'; did you mean classes"),
        ({"step": 3}, UnknownSetting, "no setting 'step'; did you mean steps"),
        ({"epochs": 0}, ImpossibleSetting, "epochs must be above 0"),
        ({"length": 21}, ImpossibleSetting, "length is 21, but the model's context 20"),
        ({"task": "values", "label": "value", "balance": True}, ImpossibleSetting, "balance is"),
        ({"strategy": "magic"}, VesaliusError, "strategy"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(
    settings, kind, says, backbones, table, tmp_path
):
    with pytest.raises(kind, match=says):
        tuned(backbones, table, "gpt2", tmp_path, **settings)
    assert not (tmp_path / "mine" / "recipe.toml").exists()


def test_a_backbone_of_the_wrong_kind_hears_which_serve(table, tmp_path):
    serve = "rnn, lstm, transformer, gpt2, bert"
    with pytest.raises(WrongKind, match=f"needs a model of {serve}; vit is one of vit"):
        vs.finetune("vit", table, out=tmp_path / "mine")
    recipe = small_recipe("gpt2 classes", tmp_path, changes={"family": "none", "init": "ffnn"})
    with pytest.raises(WrongKind, match=f"text-classes is for {serve}, not ffnn"):
        train(recipe, tmp_path / "run")
    with pytest.raises(WrongKind, match="no head that labels texts"):
        vs.classify("gpt", "a text")
    with pytest.raises(WrongKind, match="save this one"):
        vs.finetune(vs.create("gpt2", layers=1, embedding=4, heads=1), table, out=tmp_path)


def test_a_label_that_training_never_had_is_refused_in_evaluation(backbones, table, tmp_path):
    mine = tuned(backbones, table, "lstm", tmp_path, steps=1).folder
    other = tmp_path / "other.csv"
    other.write_text("utterance,topic\nlost card,cards\n")
    with pytest.raises(UnusableData, match=r"label 'cards' in 1 of 1 texts.*did you mean card"):
        vs.evaluate(mine, other)
