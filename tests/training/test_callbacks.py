"""What a run leaves to be looked at: metrics, TensorBoard's events, curves, samples."""

import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from small import small_recipe

from vesalius.errors import MissingExtra
from vesalius.tasks.language.objective import prompt_ids
from vesalius.tasks.objective import Objective
from vesalius.training import Callback, Run, train
from vesalius.training.callbacks import MetricsFile, TensorBoard, draw_curves, read_metrics
from vesalius.training.processes import Processes
from vesalius.training.samples import sample

SHORT = {"steps": 12, "evaluate_every": 4, "save_every": 6, "log_every": 1, "batch": 2}


class Stop(Callback):
    """Ends a run after a step, as a signal would; or at once, as a fault would."""

    def __init__(self, step, kind="signal"):
        self.step, self.kind = step, kind

    def stepped(self, run, metrics):
        if run.step == self.step:
            if self.kind == "fault":
                raise RuntimeError("a fault")
            run._stop = "SIGTERM"


def go(recipe, folder, callbacks, resume=False):
    folder.mkdir(exist_ok=True)
    with Processes("ddp") as processes:
        return Run(recipe, folder, processes, resume).go(callbacks)


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def strict(text):
    """JSON as others read it, without NaN."""

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_metrics_are_one_object_a_line(tmp_path):
    train(small_recipe("gpt2", tmp_path, sample_every=5, **SHORT), tmp_path / "run")
    read = [strict(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    kinds = {
        kind: [line["step"] for line in read if line["kind"] == kind]
        for kind in ("train", "valid", "sample")
    }
    assert kinds == {"train": list(range(1, 13)), "valid": [4, 8, 12], "sample": [5, 10]}
    for line in read:
        assert isinstance(line["text"] if line["kind"] == "sample" else line["loss"], str | float)
        if line["kind"] == "train":
            assert {"rate", "norm", "seconds", "tokens_per_second"} <= line.keys()
    assert read == read_metrics(tmp_path / "run")


def test_metrics_come_every_so_many_steps_and_at_both_ends(tmp_path):
    recipe = small_recipe("ffnn", tmp_path, **{**SHORT, "steps": 11, "log_every": 4})
    go(recipe, tmp_path / "run", [MetricsFile()])
    assert [line["step"] for line in lines(tmp_path / "run") if line["kind"] == "train"] == [
        *(1, 4, 8),
        11,
    ]


@pytest.mark.parametrize("left", ['{"kind": "train", "st', '{"kind": "tr', "{", "7", '"train"'])
def test_half_a_line_that_a_killed_process_left_is_passed_over(left, tmp_path):
    whole = '{"kind": "train", "step": 1, "loss": 2.0}\n'
    (tmp_path / "metrics.jsonl").write_text(whole + left)
    assert read_metrics(tmp_path) == [{"kind": "train", "step": 1, "loss": 2.0}]
    draw_curves(tmp_path, "")


def test_where_nothing_was_written_there_are_no_metrics(tmp_path):
    assert read_metrics(tmp_path) == []


def test_a_resumed_run_takes_back_what_is_beyond_its_checkpoint(tmp_path):
    recipe = small_recipe("ffnn", tmp_path, **SHORT)
    go(recipe, tmp_path / "whole", [MetricsFile()])
    with pytest.raises(RuntimeError, match="a fault"):
        go(recipe, tmp_path / "run", [MetricsFile(), Stop(9, "fault")])
    with (tmp_path / "run/metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 10, "los')
    assert [line["step"] for line in read_metrics(tmp_path / "run")][-1] == 9
    go(recipe, tmp_path / "run", [MetricsFile()], resume=True)
    again, whole = lines(tmp_path / "run"), lines(tmp_path / "whole")
    assert [(line["kind"], line["step"], line["loss"]) for line in again] == [
        (line["kind"], line["step"], line["loss"]) for line in whole
    ]


def test_what_is_no_number_is_null_and_draws_no_point(tmp_path):
    class Infinite(Callback):
        def begins(self, run):
            run.step = 1
            MetricsFile().validated(run, {"loss": math.inf, "token": math.nan, "other": 1.5})
            run.step = 0

    recipe = small_recipe("ffnn", tmp_path, **{**SHORT, "steps": 1})
    go(recipe, tmp_path / "run", [Infinite()])
    (line,) = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert strict(line) == {"kind": "valid", "step": 1, "loss": None, "token": None, "other": 1.5}
    draw_curves(tmp_path / "run", "")


# TensorBoard ------------------------------------------------------------------


def events(folder):
    """Scalars of TensorBoard's files, {tag: {step: value}}."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder / "tensorboard"))
    read.Reload()
    return {
        tag: {event.step: event.value for event in read.Scalars(tag)}
        for tag in read.Tags()["scalars"]
    }


def written(folder):
    """Scalars of metrics.jsonl in the same form."""
    found = {}
    for line in lines(folder):
        for name, value in line.items():
            if name not in ("kind", "step", "text"):
                found.setdefault(f"{line['kind']}/{name}", {})[line["step"]] = value
    return found


def same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for tag, values in theirs.items():
        assert ours[tag].keys() == values.keys(), tag
        for step, value in values.items():
            assert ours[tag][step] == pytest.approx(value, rel=1e-6), (tag, step)


def test_tensorboard_gets_the_same_numbers(tmp_path):
    recipe = small_recipe("gpt2", tmp_path, tensorboard=True, sample_every=6, **SHORT)
    outcome = train(recipe, tmp_path / "run")
    assert {"train/loss", "train/rate", "valid/loss"} <= events(outcome.folder).keys()
    same(events(outcome.folder), written(outcome.folder))


def test_tensorboard_of_a_resumed_run_has_every_step_once(tmp_path):
    recipe = small_recipe("ffnn", tmp_path, **SHORT)
    folder = tmp_path / "run"
    with pytest.raises(RuntimeError, match="a fault"):
        go(recipe, folder, [MetricsFile(), TensorBoard(), Stop(9, "fault")])
    go(recipe, folder, [MetricsFile(), TensorBoard()], resume=True)
    assert list(events(folder)["train/loss"]) == list(range(1, 13))
    same(events(folder), written(folder))


def test_what_is_saved_is_in_tensorboard_even_if_the_run_is_killed_then(tmp_path, monkeypatch):
    from torch.utils.tensorboard import SummaryWriter

    brought, flush = [], SummaryWriter.flush

    class Look(Callback):
        def saved(self, run, saved):
            assert brought.pop() == "to the disk"
            assert list(events(run.folder)["train/loss"]) == list(range(1, run.step + 1))

    monkeypatch.setattr(
        SummaryWriter, "flush", lambda writer: (flush(writer), brought.append("to the disk"))
    )
    recipe = small_recipe("ffnn", tmp_path, **SHORT)
    go(recipe, tmp_path / "run", [TensorBoard(), Look()])


def test_without_tensorboard_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorboard", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vesalius\[tensorboard\]'"):
        train(small_recipe("ffnn", tmp_path, tensorboard=True, **SHORT), tmp_path / "run")


# Curves -----------------------------------------------------------------------


def pixels(file):
    from PIL import Image

    with Image.open(file) as image:
        return np.asarray(image.convert("RGB")).reshape(-1, 3)


def has(image, colour):
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return int((np.abs(image.astype(int) - wanted).max(axis=1) < 12).sum())


def test_curves_are_drawn_as_svg_and_png(tmp_path):
    recipe = small_recipe("gpt2", tmp_path, **{**SHORT, "steps": 30})
    folder = train(recipe, tmp_path / "run").folder
    image = pixels(folder / "curves.png")
    assert len(image) == 840 * 480
    assert has(image, "#9db4c0") > 300  # training
    assert has(image, "#c0392b") > 100  # validation
    svg = ElementTree.parse(folder / "curves.svg").getroot()
    assert svg.tag.endswith("svg")
    colours = (folder / "curves.svg").read_text()
    assert "#9db4c0" in colours
    assert "#c0392b" in colours


def test_a_single_validation_is_a_point_that_can_be_seen(tmp_path):
    text = '{"kind": "valid", "step": 5, "loss": 2.0}\n'
    (tmp_path / "metrics.jsonl").write_text(text)
    draw_curves(tmp_path, "")
    marks = [  # which are defined once, and used where they are
        mark
        for mark in (tmp_path / "curves.svg").read_text().split("<use ")
        if "#c0392b" in mark.partition("/>")[0]
    ]
    assert len(marks) == 2  # it, and that of the legend


@pytest.mark.parametrize("title", ["", r"costs $5 and \frac$", "$", "a_b^c", "x" * 300])
def test_any_title_can_be_drawn(title, tmp_path):
    draw_curves(tmp_path, title)
    assert (tmp_path / "curves.png").stat().st_size > 5000


# Patience ---------------------------------------------------------------------


def patient(folder, monkeypatch, losses, **how):
    """A run whose validations give these losses, and what became of its weights by then."""
    kept = {}

    class Keep(Callback):
        def validated(self, run, metrics):
            kept[run.step] = {k: v.numpy().copy() for k, v in run.network.state_dict().items()}

    given = iter(losses)
    monkeypatch.setattr(Objective, "means", lambda *asked: {"loss": next(given)})
    how = {**SHORT, "steps": 40, "save_every": 4, "keep": 1, **how}
    recipe = small_recipe("ffnn", folder, **how)
    return go(recipe, folder / "run", [Keep()]), kept


def test_a_run_ends_when_validations_have_not_gained_for_so_long(tmp_path, monkeypatch):
    outcome, kept = patient(tmp_path, monkeypatch, [5, 4, 6, 4.5, 3, 9, 9, 9], patience=2)
    assert (outcome.reason, outcome.step) == ("patience", 16)
    for name, array in outcome.model.state.items():
        np.testing.assert_array_equal(array, kept[8][name], err_msg="the best one is kept")
    assert not np.array_equal(kept[8]["output.weight"], kept[16]["output.weight"])


def test_the_best_model_is_there_though_it_came_between_two_checkpoints(tmp_path, monkeypatch):
    losses = [5, 4, 3, 6, 7]
    outcome, kept = patient(tmp_path, monkeypatch, losses, patience=2, save_every=7)
    assert (outcome.reason, outcome.step) == ("patience", 20)
    state = outcome.model.state
    np.testing.assert_array_equal(state["output.weight"], kept[12]["output.weight"])


def test_a_run_that_patience_ended_does_not_go_on(tmp_path, monkeypatch):
    outcome, _ = patient(tmp_path, monkeypatch, [5, 6, 7], patience=2)
    before = outcome.model.state
    monkeypatch.setattr(Objective, "means", None)
    recipe = small_recipe(
        "ffnn", tmp_path, **{**SHORT, "steps": 40, "save_every": 4, "keep": 1, "patience": 2}
    )
    again = go(recipe, tmp_path / "run", [], resume=True)
    assert (again.reason, again.step) == ("patience", 12)
    for name, array in again.model.state.items():
        np.testing.assert_array_equal(array, before[name])


def test_patience_waits_as_long_as_it_gains(tmp_path, monkeypatch):
    losses = [5, 6, 4, 5, 3, 4, 2, 3, 1, 2]
    outcome, kept = patient(tmp_path, monkeypatch, losses, patience=2)
    assert (outcome.reason, outcome.step) == ("finished", 40)
    state = outcome.model.state
    np.testing.assert_array_equal(state["output.weight"], kept[36]["output.weight"])


def test_without_patience_the_last_model_is_the_run_s(tmp_path, monkeypatch):
    outcome, kept = patient(tmp_path, monkeypatch, range(10), patience=0)
    assert (outcome.reason, outcome.step) == ("finished", 40)
    state = outcome.model.state
    np.testing.assert_array_equal(state["output.weight"], kept[40]["output.weight"])


# Samples ----------------------------------------------------------------------


class Samples(Callback):
    def __init__(self):
        self.texts = []

    def sampled(self, run, text):
        self.texts.append(text)


@pytest.mark.parametrize("tokenizer", ["words", "characters", "byte-pairs", "word-pieces"])
@pytest.mark.parametrize("prompt", ["", "the old cat"])
def test_samples_go_on_from_the_prompt_in_any_vocabulary(tokenizer, prompt, tmp_path):
    changes = {"data.tokenizer": tokenizer, "data.vocabulary": "400", "training.prompt": prompt}
    how = {**SHORT, "steps": 2, "sample_every": 1}
    callback = Samples()
    recipe = small_recipe("gpt2", tmp_path, changes={k: v for k, v in changes.items() if v}, **how)
    go(recipe, tmp_path / "run", [callback])
    assert len(callback.texts) == 2
    for text in callback.texts:
        assert text.startswith(prompt)
        assert len(text) > len(prompt) + 20
        assert "[CLS]" not in text[: len(prompt) + 5]
        assert "[SEP]" not in text[: len(prompt) + 5]
        if tokenizer == "words":
            assert text.count(" ") > 10
    assert len(set(callback.texts)) == 2


@pytest.mark.parametrize("name", ["ffnn", "rnn", "lstm", "transformer", "gpt2"])
@pytest.mark.parametrize("prompt", ["", "the cat"])
def test_every_language_family_writes_samples(name, prompt, tmp_path):
    callback = Samples()
    recipe = small_recipe(name, tmp_path, sample_every=2, prompt=prompt, **{**SHORT, "steps": 2})
    go(recipe, tmp_path / "run", [callback])
    (text,) = callback.texts
    assert text.startswith(prompt)
    assert len(text.split()) > 10


def test_a_prompt_is_not_framed_for_it_is_to_go_on(tmp_path):
    recipe = small_recipe("bert", tmp_path)
    with Processes("ddp") as processes:
        tokenizer = Run(recipe, tmp_path / "run", processes, resume=False).source.tokenizer
    framed = tokenizer.encode("the old cat")
    assert prompt_ids(tokenizer, "the old cat") == framed[1:-1]
    assert {framed[0], framed[-1]} == {tokenizer.special["[CLS]"], tokenizer.special["[SEP]"]}
    assert prompt_ids(tokenizer, "") == []


def test_a_sample_depends_on_the_prompt_and_the_seed_alone(tmp_path):
    recipe = small_recipe("gpt2", tmp_path, **{**SHORT, "steps": 1})
    with Processes("ddp") as processes:
        run = Run(recipe, tmp_path / "run", processes, resume=False)
    for parameter in run.network.eval().parameters():
        parameter.data *= 20  # for opinions of its own

    def text(prompt, seed, length=30):
        return sample(run.network, run.source.tokenizer, prompt, 8, length, seed=seed)

    assert text("the cat", 1) == text("the cat", 1)
    assert text("the cat", 1) != text("the cat", 2)
    assert text("the cat", 1)[7:] != text("a dog", 1)[5:]
    # What stood before the window is out of sight.
    long = "the old cat sat on the bed and the dog "
    assert text(long * 3, 1)[len(long * 3) :] == text(long * 4, 1)[len(long * 4) :]
