"""The verb that draws: files, JSON, and what cannot be drawn or written."""

import json
from xml.etree import ElementTree

import pytest
from processes import is_complaint, shown, vesalius

import vesalius as vs


def test_a_figure_is_printed_written_and_told(tmp_path):
    assert ElementTree.fromstring(shown("figure", "gpt2", "14")).tag.endswith("svg")
    file = tmp_path / "head.svg"
    asked = ("figure", "gpt", "head[3,4]", "--text", "He shook his", "--out", str(file))
    assert shown(*asked) == f"{file}: Figure 12: one self-attention head\n"
    assert file.read_text() == vs.figure("gpt", "head[3,4]", "He shook his").svg
    told = json.loads(shown("figure", "lstm", "--json"))
    assert told["svg"] == vs.figure("lstm").svg
    assert {"h[l,i]", "E"} <= {part["id"] for part in told["parts"]}
    parts = {one["part"]: one for one in json.loads(shown("figure", "lstm", "--list", "--json"))}
    assert parts["layer"]["figures"] == ["23"]
    assert "forget[l]" in shown("figure", "lstm", "--list")


def test_token_ids_are_a_text_where_a_model_has_no_tokenizer():
    wanted = vs.figure("igpt", "attention", [1, 2, 3]).svg
    assert shown("figure", "igpt", "attention", "--text", "1 2, 3").rstrip() == wanted.rstrip()
    told = shown("figure", "gpt", "attention", "--text", "3 4")
    assert told.rstrip() == vs.figure("gpt", "attention", "3 4").svg.rstrip()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["gpt", "blok"], 2, "did you mean block?"),
        (["nosuchmodel/", "block"], 2, "nosuchmodel/"),
        (["gpt", "query"], 2, "give one"),
        (["gpt", "--out", "a.pdf"], 2, "rsvg-convert"),
        (["gpt", "--out", "a.gif"], 2, ".svg or .png"),
        (["gpt", "--out", "none/a.svg"], 3, "none/a.svg"),
        (["gpt", "head", "--text", "He", "--ids", "3"], 2, "one of them"),
    ],
)
def test_what_cannot_be_drawn_or_written_is_one_line(arguments, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = vesalius("figure", *arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert is_complaint(done.stderr)
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())
