"""The command line as a target: every verb with arguments that are wrong, or right by chance."""

import io
import json
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import click
from strategies import filled, small

from fuzz.mutating import bytes_changed
from fuzz.targets import CSV, TEXT, TS, Case
from vesalius.errors import CONTROL

TEXTS = ("", " ", "It rained", "[MASK] it", "[MASK]", TEXT, "\udcff", "-", "--", "x" * 9999)
NAMES = ("", ".", "no-such-thing", "a/b/c", "x" * 300, "é", "*", "~", "-1", "28")
LISTS = ("1 2 3", "1,2", "999999", "-1", "1.5", "A[1]", "A[1], mu[9,9]", "Y_hat", "[", "[[[", ",")
SETTINGS = (
    "heads=3",
    "heads=0",
    "heads=-1",
    "heads=x",
    "heads",
    "=",
    "a.b.c=1",
    "x=1",
    "layers=1e9",
)
SETTINGS = (*SETTINGS, "layers=99999999999999999999", "vocabulary=0", "training.batch=-1", "seed=x")
SETTINGS = (*SETTINGS, "training.learning_rate=nan", "training.steps=none", "model.heads=[[", "a==")
NUMBERS = ("0", "1", "2", "7", "-1", "1.5", "nan", "inf", "1e400", "x", "", "99999999999999999999")
FEW = ("0", "1", "2", "7", "-1", "1.5", "x", "")
LASTING = ("max_new_tokens", "samples", "words", "size", "threads", "batch", "length", "epochs")
"""Options whose large values are fine, and take as long as they say."""
ENDLESS = ("explore",)
"""Verbs that serve until they are interrupted."""
SHOWN_AS_THEY_ARE = ("generate",)
"""Verbs whose output is a text that a model wrote, for a file or another program."""
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202e\u2066\r"
STDIN = ("It rained.\nAgain!\n", "", "\n", TEXT, "1 2 3", "a\0b", EVIL, "x" * 9999, "{", CSV)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp037", "shift-jis")
RECIPE = """
family = "lstm"
objective = "next-token"
[model]
layers = 1
embedding = 4
[data]
corpus = "text.txt"
tokenizer = "characters"
window = 4
[training]
steps = 1
batch = 2
"""


class Commands:
    """Every verb there is, asked of click, with values by what its parameters say they take."""

    def __init__(self, folder: Path) -> None:
        from vesalius.cli import cli
        from vesalius.tokenizers import train_byte_pairs, train_word_pieces

        self.verbs = list(_verbs(cli, ()))
        self.folder, texts = folder, [TEXT, "it rained and rained"] * 3
        made = {"gpt2": train_byte_pairs(texts, 280), "bert": train_word_pieces(texts, 90)}
        for family in ("gpt2", "bert", "vit", "tst", "lstm"):
            tokenizer = made.get(family)
            settings = {"vocabulary": tokenizer.rows} if tokenizer else {}
            model = filled(small(family, **settings), dtype="float32")
            model.tokenizer = tokenizer
            model.save(folder / f"a-{family}")  # a family alone is the name of a recipe
        _with_evil_names(folder)
        (folder / "text.txt").write_text(f"{TEXT}\nIt rained.\n" * 20)
        (folder / "empty.txt").touch()
        (folder / "bytes.txt").write_bytes(bytes(range(256)))
        (folder / "recipe.toml").write_text(RECIPE)
        (folder / "x.ts").write_text(TS)
        (folder / "x.csv").write_text(CSV)

    def case(self, random: Random, place: Path) -> Case:
        for path in self.folder.iterdir():
            os.symlink(path, place / path.name)
        words, verb = random.choice(self.verbs)
        arguments = list(words)
        for parameter in verb.params:
            arguments += _said(random, parameter)
        if random.random() < 0.1:
            arguments.insert(random.randrange(len(arguments) + 1), random.choice(TEXTS))
        (place / "arguments").write_text(repr(arguments), encoding="utf-8", errors="replace")
        typed = random.choice(STDIN).encode(random.choice(ENCODINGS), "replace")
        if random.random() < 0.2:
            typed = bytes_changed(random, typed)
        (place / "stdin").write_bytes(typed)
        terminal = random.choice(("utf-8", "utf-8", "ascii", "latin-1"))
        return lambda: _run(arguments, place, io.TextIOWrapper(io.BytesIO(typed), terminal))


def _with_evil_names(folder: Path) -> None:
    """A model whose tensors, settings and file names would command a terminal."""
    model = filled(small("gpt2"), dtype="float32")
    model.save(folder / "evil")
    file = folder / "evil/model.safetensors"
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    end = max(entry["data_offsets"][1] for name, entry in header.items() if name[0] != "_")
    header[EVIL] = {"dtype": "F32", "shape": [1], "data_offsets": [end, end + 4]}
    said = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(said)) + said + data[8 + length :] + bytes(4))
    config = json.loads((folder / "evil/config.json").read_text())
    (folder / "evil/config.json").write_text(json.dumps({**config, EVIL: EVIL}))
    (folder / "evil" / EVIL.replace("/", "")).touch()


def _verbs(group: click.Group, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _verbs(command, (*words, name))
        elif name not in ENDLESS:
            yield (*words, name), command


def _said(random: Random, parameter: click.Parameter) -> list[str]:
    """What is said for one parameter, if anything."""
    if isinstance(parameter, click.Argument):
        if random.random() < 0.05:
            return []
        count = random.choice((0, 1, 2, 3)) if parameter.nargs == -1 else 1
        return [random.choice(_values(random, parameter)) for _ in range(count)]
    if random.random() < 0.75 or not isinstance(parameter, click.Option):
        return []
    if parameter.is_flag:
        return [parameter.opts[-1]]
    times = random.choice((1, 1, 2)) if parameter.multiple else 1
    return [
        w
        for _ in range(times)
        for w in (parameter.opts[-1], random.choice(_values(random, parameter)))
    ]


def _values(random: Random, parameter: click.Parameter) -> tuple[str, ...]:
    kind, name = parameter.type, parameter.name or ""
    models = ("a-gpt2", "a-bert", "a-vit", "a-tst", "a-lstm", "evil")
    files = (
        "-",
        "-",
        "text.txt",
        "empty.txt",
        "bytes.txt",
        "recipe.toml",
        "x.ts",
        "x.csv",
        "a-gpt2",
        "new",
    )
    if random.random() < 0.1:
        return random.choice((TEXTS, NAMES, LISTS, NUMBERS, models, files))
    if isinstance(kind, click.Choice):
        return (*map(str, kind.choices), "x", "")
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return FEW if name in LASTING else NUMBERS
    if name in ("settings", "changes"):
        return SETTINGS
    if name in ("model", "source", "folder"):
        return (*models, *models, *NAMES)
    if isinstance(kind, click.Path | click.File) or name in ("corpus", "recipe"):
        return (*files, *NAMES)
    return random.choice((TEXTS, TEXTS, LISTS, NAMES))


def _run(arguments: list[str], place: Path, stdin: io.TextIOWrapper) -> None:
    from vesalius.cli import _guarded, cli

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "replace") for _ in range(2))
    with chdir(place), redirect_stdout(out), redirect_stderr(err):
        own, sys.stdin = sys.stdin, stdin
        try:
            code = _guarded(lambda: cli.main(arguments, "vesalius", standalone_mode=False))
        finally:
            sys.stdin = own
        out.flush()
        err.flush()
    printed, said = (one.buffer.getvalue().decode("utf-8", "replace") for one in (out, err))
    shown = said if {*arguments[:1]} & {*SHOWN_AS_THEY_ARE} else printed + said
    assert not {*map(chr, CONTROL)} & set(shown.replace("\r\n", "\n")), f"controls: {shown!r:.300}"
    judged = arguments[:1] == ["verify"]  # 1 is its verdict that steps part
    assert code in ((0, 1, 2, 3) if judged else (0, 2, 3)), f"exit code {code}"
    assert "Traceback" not in said, said
    told = printed if arguments[:1] == ["inspect"] else said  # whose report names the problems
    assert code not in (2, 3) or told.strip(), "refused without a word"
