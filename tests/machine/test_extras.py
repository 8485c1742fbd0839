"""The plain installation: what works without the extras, and what says which one it needs."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import vesalius as vs
from vesalius.machine import EXTRAS

ROOT = Path(__file__).parents[2]
PUBLISHED = {"sklearn": "scikit-learn"}
"""Packages that are installed by another name than they are imported by."""
LEFT_OUT = [*EXTRAS, "keras", "matplotlib", "filelock"]
CHILD = f"""
import sys
sys.modules.update(dict.fromkeys({LEFT_OUT!r}))  # importing them fails as if they were not here
import contextlib, io, json
from vesalius.cli import _guarded, cli
results = []
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _guarded(lambda: cli.main(arguments, standalone_mode=False))
    results.append([code, out.getvalue(), err.getvalue()])
json.dump(results, sys.stdout)
"""
WORK = [
    ["models"],
    ["equations", "28"],
    ["count", "gpt2", "--cost"],
    ["specimens"],
    ["data", "list"],
    ["tokenize", "gpt", "He shook"],
    ["dissect", "gpt", "He shook his"],
    ["generate", "gpt", "He shook", "-n", "2"],
    ["similar", "gpt", " king"],
    ["embed", "gpt", "He shook", "--what", "static"],
    ["convert", "gpt", "CONVERTED"],
    ["recipes"],
    ["embed", "gpt", "He shook"],
    ["fill", "bert", "He shook his [MASK]."],
    ["next-sentence", "bert", "It rained.", "He ran."],
    ["evaluate", "gpt", "TEXT"],
    ["evaluate", "bert", "TEXT"],
    ["classify", "LABELLED", "He shook"],
    ["evaluate", "LABELLED", "TABLE"],
]
NEED = {
    "torch": [
        ["verify", "gpt"],
        ["train", "RECIPE"],
        ["evaluate", "tst", "SERIES"],
        ["convert", "PICKLED", "NEW"],
    ],
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What every command gave in one process of a plain installation."""
    folder = tmp_path_factory.mktemp("plain")
    places = {name: str(folder / name) for name in ("CONVERTED", "NEW")}
    places |= {"RECIPE": str(ROOT / "recipes" / "stories-gpt.toml")}
    places |= {"SERIES": str(folder / "series.ts"), "PICKLED": str(folder / "pickled")}
    (folder / "series.ts").write_text("@univariate true\n@classLabel true a\n@data\n1,2:a\n")
    places["TEXT"] = str(folder / "text.txt")
    (folder / "text.txt").write_text("He shook his head and said nothing.\n")
    places |= {"LABELLED": str(folder / "labelled"), "TABLE": str(folder / "table.csv")}
    (folder / "table.csv").write_text("text,label\nHe shook,yes\nShe ran,no\n")
    gpt = vs.load("gpt")
    head = {"label_head.weight": np.ones((2, 256), np.float32)}
    kept = {"labels": "classes", "names": ["yes", "no"]}
    config = gpt.config.change(labels=2)
    vs.Model(config, {**gpt.state, **head}, gpt.tokenizer, preprocessing=kept).save(
        folder / "labelled"
    )
    (folder / "pickled").mkdir()
    (folder / "pickled" / "pytorch_model.bin").write_bytes(b"weights")
    commands = [*WORK, *(command for some in NEED.values() for command in some)]
    asked = [[places.get(word, word) for word in command] for command in commands]
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=json.dumps(asked), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(map(tuple, commands), json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("command", WORK, ids=" ".join)
def test_it_works_without_the_extras(command, plain):
    code, out, err = plain[tuple(command)]
    assert code == 0, err
    assert out
    assert "vesalius:" not in err


@pytest.mark.parametrize("command", NEED["torch"], ids=" ".join)
def test_what_needs_pytorch_says_in_one_line_how_to_get_it(command, plain):
    said = "vesalius: this needs PyTorch, which is not installed; get it with: "
    assert plain[tuple(command)] == [3, "", f"{said}pip install 'vesalius[torch]'\n"]


def test_a_new_model_says_that_it_needs_pytorch(monkeypatch):
    import vesalius
    from vesalius.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "vesalius.models", raising=False)
    with pytest.raises(MissingExtra, match="this needs PyTorch"):
        vesalius.create("gpt2", layers=1, embedding=12, vocabulary=9)
    with pytest.raises(MissingExtra, match="this needs PyTorch"):
        _ = vesalius.load("gpt").network
    assert np.isfinite(vesalius.load("gpt").parameters.E).all()


def test_every_extra_that_a_message_names_brings_its_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for package, (extra, _) in EXTRAS.items():
        brought = [line.split(">")[0] for line in project["optional-dependencies"][extra]]
        published = PUBLISHED.get(package, package.replace("_", "-"))
        assert published in brought
        assert published not in " ".join(project["dependencies"])
