"""The verbs between text and tokens."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from processes import is_complaint, on_a_full_disk, shown, vesalius


def test_tokenize_shows_pieces_ids_bytes_and_offsets(gpt2):
    text = shown("tokenize", gpt2, "take my")
    assert "bytes" in text
    rows = json.loads(shown("tokenize", gpt2, "take my", "--json"))
    assert "".join(row["token"] for row in rows) == "take my"
    assert b"".join(bytes.fromhex(row["bytes"]) for row in rows) == b"take my"
    assert rows[-1]["end"] == 7


def test_tokenize_takes_a_tokenizers_file(gpt2, tmp_path):
    whole = Path(gpt2) / "tokenizer.json"
    assert shown("tokenize", str(whole), "take my") == shown("tokenize", gpt2, "take my")
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ntake\n##n\n")
    rows = json.loads(shown("tokenize", str(tmp_path / "vocab.txt"), "taken", "--json"))
    assert [row["token"] for row in rows] == ["[CLS]", "take", "##n", "[SEP]"]


def test_neighbouring_tokens_have_different_colours_and_the_text_is_whole(gpt2, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    first = shown("tokenize", gpt2, "täke my").splitlines()[0]
    painted = re.findall(r"\x1b\[30;(\d+)m(.*?)\x1b\[0m", first)
    assert "".join(piece for _, piece in painted) == "täke my"
    assert all(one[0] != next_[0] for one, next_ in pairwise(painted))


def test_tokenize_knows_the_rules_of_table_7():
    text = shown("tokenize", "--rule", "suffixes", "I'm looking for a job in New York.")
    assert text == "I · am · look · ##ing · for · a · job · in · New York\n"


@pytest.mark.parametrize("kind", ["byte-pairs", "word-pieces", "characters"])
def test_a_tokenizer_is_trained_and_used(tmp_path, kind):
    (tmp_path / "text.txt").write_text("the rain fell on the river\n" * 20)
    folder = str(tmp_path / "pieces")
    said = shown("tokenizer", "train", str(tmp_path / "text.txt"), "--kind", kind, "--out", folder)
    assert said.startswith(f"{folder}: {kind}, ")
    rows = json.loads(shown("tokenize", folder, "the river", "--json"))
    assert rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tokenize", "x"], "expected MODEL and TEXT"),
        (["tokenize", "--rule", "sufixes", "x"], "did you mean suffixes"),
        (["tokenize", "--rule", "suffixes"], "--rule takes one TEXT"),
        (["tokenize", "/nowhere", "x"], "there is no folder"),
        (["tokenize", __file__, "x"], "expected BERT's vocabulary"),
        (["tokenizer", "train", "/nowhere", "--out", "y"], "does not exist"),
    ],
)
def test_tokenizing_what_cannot_be_is_refused(arguments, message):
    done = vesalius(*arguments)
    assert done.returncode == 2
    assert is_complaint(done.stderr)
    assert message in done.stderr


def test_tokenize_reads_a_file_or_standard_input_whole(gpt2, tmp_path):
    (tmp_path / "text.txt").write_text("take my\numbrella\n")
    rows = shown("tokenize", gpt2, "take my\numbrella\n", "--json")
    assert shown("tokenize", gpt2, "--file", str(tmp_path / "text.txt"), "--json") == rows
    for arguments in ([gpt2, "-"], [gpt2, "--file", "-"]):
        done = vesalius("tokenize", *arguments, "--json", input="take my\numbrella\n")
        assert (done.stdout, done.stderr) == (rows, "")
    done = vesalius("tokenize", "--rule", "spaces", "-", input="to take\n")
    assert done.stdout == "to · take\n"


def test_tokenize_says_how_it_is_used_where_something_is_missing(gpt2):
    done = vesalius("tokenize", gpt2)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: vesalius tokenize [OPTIONS] [MODEL] [TEXT]\nvesalius: ")


def test_a_tokenizer_does_not_overwrite_a_folder(tmp_path):
    (tmp_path / "book.txt").write_text("the rain fell on the river, and the house was wet\n" * 9)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tokenizer.json").write_text("mine")
    learn = ("tokenizer", "train", "book.txt", "--size", "300", "--out")
    done = vesalius(*learn, "mine", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "mine is there already and not empty; give a new folder" in done.stderr
    assert (tmp_path / "mine" / "tokenizer.json").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "new/below"):
        assert vesalius(*learn, folder, cwd=tmp_path).returncode == 0
        assert [p.name for p in (tmp_path / folder).iterdir()] == ["tokenizer.json"]
    done = on_a_full_disk(*learn, "full", cwd=tmp_path)
    assert done.returncode == 3
    assert not (tmp_path / "full").exists()


@pytest.mark.parametrize(
    ("kind", "least"), [("byte-pairs", 257), ("word-pieces", 24), ("characters", 13)]
)
def test_a_vocabulary_is_as_small_as_it_is_asked_to_be_or_it_is_said_what_the_least_is(
    kind, least, tmp_path
):
    (tmp_path / "book.txt").write_text("the rain fell; he fed it\n")
    learn = ("tokenizer", "train", "book.txt", "--kind", kind, "--json", "--out")
    for size in (3, least - 1):
        done = vesalius(*learn, "small", "--size", str(size), cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        if size > 10:
            assert f"size must be at least {least} here" in done.stderr
    done = vesalius(*learn, "least", "--size", str(least), cwd=tmp_path)
    assert json.loads(done.stdout)["size"] == least
