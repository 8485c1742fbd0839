"""``vesalius train`` as people run it: what it shows, how it is stopped, how it goes on."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import SECONDS, is_complaint, shown, vesalius
from surroundings import own_cache

from vesalius.training.recipe import KEYS
from vesalius.training.settings import Training

RECIPE = """
title = "small"
family = "gpt2"
objective = "next-token"

[model]
layers = 2
heads = 2
embedding = 64
context = 32
dropout = 0.1

[data]
corpus = "stories"
words = 3000
tokenizer = "words"

[training]
steps = 40
batch = 24
warmup = 5
evaluate_every = 20
validate_on = 64
save_every = 1000
log_every = 1
"""
QUICK = ["--set=model.embedding=16", "--set=training.batch=4", "--set=model.layers=1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a recipe, and a cache of its own."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "small.toml").write_text(RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VESALIUS_CACHE", own_cache(folder / "cache"))
        yield folder


@pytest.fixture
def command(place, monkeypatch, capfd):
    """The command line, run here, in the folder of the recipe."""
    from vesalius.cli import main

    monkeypatch.chdir(place)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["vesalius", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code, out=out, err=err)

    return run


def started(place, *arguments, **streams):
    command = [sys.executable, "-m", "vesalius", "train", "small.toml", *arguments]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **streams}
    return subprocess.Popen(command, cwd=place, **streams)


def hearing():
    """Let a process hear of SIGHUP, though the tests may run under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def wait_for(condition, process, seconds=SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.01)


def let_work(process, seconds=0.5):
    """Wait until the process has computed for that long, however busy the machine is."""
    if not Path("/proc/self/stat").exists():
        time.sleep(10 * seconds)
        return

    def worked():
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")  # as user and in the system

    end = worked() + seconds
    wait_for(lambda: worked() > end, process)


def steps(folder):
    file = folder / "metrics.jsonl"
    return file.read_text().count('"kind": "train"') if file.exists() else 0


@pytest.fixture(scope="module")
def uninterrupted(place):
    """The parameters of a run that nobody stopped."""
    import torch

    from vesalius.training import train

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield train(place / "small.toml", place / "whole").model.state
    torch.set_num_threads(before)


# Signals ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_saves_and_the_run_goes_on_as_if_there_had_been_none(
    kind, code, place, uninterrupted
):
    from vesalius import load
    from vesalius.errors import RunLocked
    from vesalius.training import train

    folder = place / kind.name
    process = started(place, "--out", kind.name, preexec_fn=hearing)
    wait_for(lambda: steps(folder) > 2, process)
    process.send_signal(signal.SIGSTOP)  # or it may end while we look
    with pytest.raises(RunLocked, match="another process is writing to "):
        train(place / "small.toml", folder, resume=True)
    process.send_signal(kind)
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == code, err
    (saved,) = (folder / "checkpoints").iterdir()
    step = int(saved.name.removeprefix("step-"))
    assert 2 < step < 40, "the run was to be stopped half way"
    assert out == f"{kind.name}: saved at step {step}; go on with --resume\n"
    assert "Traceback" not in err
    load(saved)
    assert not (folder / "model").exists()
    outcome = train(place / "small.toml", folder, resume=True)
    assert (outcome.reason, outcome.step) == ("finished", 40)
    state = outcome.model.state
    assert state.keys() == uninterrupted.keys()
    assert all(state[name].tobytes() == uninterrupted[name].tobytes() for name in state)


def test_a_closed_terminal_saves_too(place):
    """From then on, whatever is written to it raises an error."""

    def in_terminal():
        hearing()
        fcntl.ioctl(0, termios.TIOCSCTTY)

    ours, terminal = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    options = {"start_new_session": True, "preexec_fn": in_terminal}
    process = started(place, "--out", "closed", **streams, **options)
    os.close(terminal)

    def begun():
        while select.select([ours], [], [], 0)[0]:
            os.read(ours, 4096)
        return steps(place / "closed") > 2

    wait_for(begun, process)
    os.close(ours)
    assert process.wait(timeout=SECONDS) == 129
    (saved,) = (place / "closed/checkpoints").iterdir()
    assert 2 < int(saved.name.removeprefix("step-")) < 40


def test_several_hangups_are_one(place):
    from vesalius.training import Callback, train

    class HangUp(Callback):
        def stepped(self, run, metrics):
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGHUP)

    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        outcome = train(place / "small.toml", place / "several", callbacks=[HangUp()])
        assert (outcome.reason, outcome.step) == ("SIGHUP", 1)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_under_nohup_a_run_outlives_its_terminal():
    from vesalius.training.signals import signals

    told = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals(told.append):
            signal.raise_signal(signal.SIGHUP)
            assert told == []
            signal.raise_signal(signal.SIGTERM)
        assert told == ["SIGTERM"]
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_interrupt_ends_the_run_at_once(place):
    # One step of half a minute, in many parts.
    long = ["--set=training.batch=16384", "--set=training.accumulate=2048"]
    process = started(place, "--out", "twice", *long)
    for line in process.stderr:
        if "parameters, from step" in line:
            break
    let_work(process)
    process.send_signal(signal.SIGINT)
    let_work(process)
    assert process.poll() is None, "the first lets the step end"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err.strip()) == (130, "", "")
    assert not (place / "twice/checkpoints").exists()


# What is shown ----------------------------------------------------------------


def test_without_a_terminal_there_are_plain_lines(command):
    shown = ["--set=training.sample_every=40", *QUICK]
    done = command("train", "small.toml", "--out", "plain", *shown)
    assert done.code == 0
    assert done.out == "plain/model: finished at step 40\n"
    passing = re.compile(r"making |step (?!1/|40/)\d+/")  # what depends on the time it takes
    lines = [line for line in done.err.splitlines() if not passing.match(line)]
    patterns = [
        r"gpt2, [\d,]+ parameters, from step 0 to 40",
        r"step 1/40  loss \d\.\d{4}  norm \d+\.\d\d  [\d,]+ tokens/s  \d+:\d\d left",
        r"step 20  validation: loss \d\.\d{4}, accuracy \d+\.\d%",
        r"step 40/40  loss \d\.\d{4}  norm \d+\.\d\d  [\d,]+ tokens/s  0:00 left",
        r"step 40  validation: loss \d\.\d{4}, accuracy \d+\.\d%",
        r"step 40  sample: '.+'",
        r"step 40  saved plain/checkpoints/step-00000040",
    ]
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), line


def test_a_run_s_folder_is_named_after_its_recipe(command, place):
    done = command("train", "small.toml", "--json", "--set=training.steps=1", *QUICK)
    assert (done.code, done.err) == (0, "")
    assert (place / "runs/small/model/model.safetensors").exists()


def in_terminal(place, *arguments, columns=80):
    """What a run writes to a terminal, and what to a pipe beside it."""
    ours, theirs = pty.openpty()
    terminal = {"TERM": "xterm", "COLUMNS": str(columns), "LINES": "40"}
    process = started(place, *arguments, stderr=theirs, env={**os.environ, **terminal})
    os.close(theirs)
    screen = b""
    while True:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:  # nobody holds the other end any more
            break
        if not data:
            break
        screen += data
    os.close(ours)
    out, _ = process.communicate(timeout=SECONDS)
    return process.returncode, out, screen.decode()


def test_in_a_terminal_a_few_lines_stay_in_place(place):
    bytes_ = ["--set=data.tokenizer=byte-pairs", "--set=data.vocabulary=280"]
    more = ["--set=training.sample_every=20", *bytes_, *QUICK]
    code, out, screen = in_terminal(place, "--out", "shown", *more)
    assert (code, out) == (0, "shown/model: finished at step 40\n")
    assert "making" in screen
    assert "\x1b[?25h" in screen, "the cursor is given back"
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen)
    assert not set(re.findall(r"[\x00-\x1f\x7f]", plain)) - {"\r", "\n"}
    rows = [
        line.strip() for line in plain[plain.rindex("model  ") :].replace("\r", "\n").split("\n")
    ]
    rows = [row for row in rows if row]
    labels = " ".join(row.split()[0] for row in rows[:9])
    assert labels == "model run step loss gradient speed validation saved sample"
    assert "40 of 40 " + "━" * 30 in rows[2]
    assert re.fullmatch(r"validation +loss \d\.\d{4}, accuracy \d+\.\d% at step 40", rows[6])
    assert re.fullmatch(r"saved +step-00000040", rows[7])
    assert re.fullmatch(r"speed +40 steps in \d:\d\d", rows[5])
    assert max(map(len, rows)) <= 80


def test_an_error_in_a_terminal_is_one_line_too(place):
    code, out, screen = in_terminal(place, "--out", "broken", "--set=model.vocabulary=5", *QUICK)
    assert (code, out) == (2, "")
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen).strip()
    assert "vesalius: [model] vocabulary is 5" in plain
    assert "Traceback" not in plain


@pytest.mark.parametrize("rank", ["0", "1"])
def test_of_several_processes_one_speaks(rank, command, monkeypatch, place):
    from vesalius import training

    def pretend(recipe, folder, *, resume, callbacks, progress):
        progress("something", 1, 2)
        return training.Outcome(folder, 7, "finished", {})

    monkeypatch.setattr(training, "train", pretend)
    monkeypatch.setenv("RANK", rank)
    plain = command("train", "small.toml", "--out", "several")
    as_json = command("train", "small.toml", "--out", "several", "--json")
    assert (plain.code, as_json.code) == (0, 0)
    assert bool(plain.out) == bool(plain.err) == bool(as_json.out) == (rank == "0")


def test_samples_cannot_steer_the_terminal():
    from vesalius.cli.display import printable

    assert printable("a\x1b[31m\tb\nc\x00") == "a·[31m·b ⏎ c·"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00"), (59.6, "1:00"), (61, "1:01"), (7322, "2:02:02")]
)
def test_durations_are_in_minutes_or_hours(seconds, shown):
    from vesalius.cli.display import duration

    assert duration(seconds) == shown


def test_parts_of_a_loss_are_shown_where_there_are_several():
    from vesalius.cli.display import numbers

    one = SimpleNamespace(objective=SimpleNamespace(losses=("token",)))
    two = SimpleNamespace(objective=SimpleNamespace(losses=("mlm", "nsp")))
    assert numbers(one, {"loss": 1.0, "token": 1.0, "token accuracy": 0.5}) == (
        "loss 1.0000, accuracy 50.0%"
    )
    assert numbers(two, {"loss": 3.0, "mlm": 1.0, "nsp": 2.0, "nsp accuracy": 0.5}) == (
        "loss 3.0000, mlm 1.0000, nsp 2.0000, nsp accuracy 50.0%"
    )


def test_what_an_evaluation_gave_is_a_table_or_json(command, place):
    from vesalius import create

    create("tst", layers=1, heads=2, embedding=8, channels=1, context=2, outputs=2).save("waves")
    kept = {"mean": [0], "std": [1], "names": ["a", "b"]}
    (place / "waves/preprocessing.json").write_text(json.dumps(kept))
    (place / "waves.ts").write_text("@univariate true\n@classLabel true a b\n@data\n1,2:a\n3:a\n")
    shown = command("evaluate", "waves", "waves.ts")
    said = json.loads(command("evaluate", "waves", "waves.ts", "--json").out)
    assert (shown.code, shown.err) == (0, "")
    worst = sorted(said["classes"], key=lambda row: (row["f1"], -row["examples"]))
    rows = [
        [
            row["name"],
            *(f"{row[key]:.4f}" for key in ("precision", "recall", "f1")),
            str(row["examples"]),
            *(["→", row["mistaken_for"]] if row["mistaken_for"] else []),
        ]
        for row in worst
    ]
    assert [line.split() for line in shown.out.splitlines() if line.strip(" ─")] == [
        ["the", "class", "of", "a", "series"],
        ["waves.ts"],
        ["examples", "2"],
        ["loss", f"{said['loss']:.4f}"],
        ["accuracy", f"{said['accuracy']:.2%}"],
        ["macro", "F1", f"{said['macro_f1']:.4f}"],
        ["calibration", "error", f"{said['calibration_error']:.4f}"],
        ["class", "precision", "recall", "F1", "examples", "mistaken", "for"],
        *rows,
        ["measured", "on", "all", "of", "it"],
    ]
    assert list(said)[:6] == ["corpus", "part", "objective", "examples", "loss", "accuracy"]
    assert list(said)[6:] == ["macro_f1", "calibration_error", "classes", "confusion"]


def test_the_help_says_how_to_change_a_setting(command):
    done = command("train", "--help")
    words = " ".join(done.out.split())
    assert "Example: vesalius train stories-gpt --set training.steps=200" in words
    assert "as in training.steps=200; the value none takes it away" in words


def test_recipes_are_listed_shown_and_described_for_machines(command):
    listed, shown = command("recipes"), command("recipes", "stories-gpt")
    as_json = json.loads(command("recipes", "--json").out)
    assert (listed.code, shown.code) == (0, 0)
    assert 'title = "GPT-2, small, on stories of the grammar"' in shown.out
    described = {row["name"]: row for row in as_json}
    assert described["stories-gpt"]["where"] == "built in"
    assert all(row["name"] in listed.out and row["title"] for row in as_json)
    assert json.loads(command("recipes", "gpt", "--json").out)["family"] == "gpt2"
    wrong = command("train", "stories-gtp")
    assert (wrong.code, wrong.out) == (2, "")
    assert "did you mean stories-gpt" in wrong.err


def test_evaluate_reads_standard_input(tmp_path):
    from processes import shown, vesalius

    (tmp_path / "text.txt").write_text("He shook his head.\n")
    file = json.loads(shown("evaluate", "ffnn", tmp_path / "text.txt", "--json"))
    done = vesalius("evaluate", "ffnn", "-", "--json", input="He shook his head.\n")
    assert json.loads(done.stdout) == file | {"corpus": "standard input"}


def test_every_key_of_a_recipe_is_told_with_its_default_and_limits():
    rows = json.loads(shown("recipes", "--keys", "--json"))
    said = {(row["section"], row["key"]): row for row in rows}
    assert set(KEYS) - {"data", "training"} == {key for section, key in said if not section}
    assert set(Training.settings()) == {key for section, key in said if section == "training"}
    assert said["training", "beta2"] | {"meaning": ""} == {
        "section": "training",
        "key": "beta2",
        "meaning": "",
        "default": 0.99,
        "least": 0,
        "below": 1,
        "choices": None,
    }
    text = shown("recipes", "--keys")
    assert all(row["key"] in text for row in rows)


@pytest.mark.parametrize(
    ("content", "said"), [(b"\x80", "is not UTF-8"), (b"steps =", "is not TOML"), (b"", "no text")]
)
def test_a_file_that_is_no_recipe_is_refused_in_a_line(tmp_path, content, said):
    (tmp_path / "bytes.toml").write_bytes(content)
    done = vesalius("recipes", str(tmp_path / "bytes.toml"), "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert is_complaint(done.stderr)
