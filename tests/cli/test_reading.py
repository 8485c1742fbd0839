"""The verbs that have a model read text."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from processes import SECONDS, is_complaint
from safetensors.numpy import load_file
from strategies import filled, small

from vesalius.cli import _guarded, cli, reading, terminal
from vesalius.model import load
from vesalius.tasks.embedding import DISTANCES, SHOWN, WHAT, embed, similar
from vesalius.tasks.language.filling import fill, next_sentence
from vesalius.tokenizers import read_word_pieces

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "rain", "fell", "on", "he", "wet"]
VERBS = [reading.fill, reading.next_sentence, reading.embed, reading.similar]
TEXTS = ["the rain fell", "he fell on the rain", "rain"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder of a BERT with both heads, and a tokenizer."""
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    model = filled(small("bert", vocabulary=len(WORDS)), dtype="float32")
    model.tokenizer = read_word_pieces(folder / "vocab.txt")
    model.save(folder)
    return str(folder)


@pytest.fixture
def lines(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_bytes("\r\n".join(TEXTS).encode() + b"\n")
    return str(file)


def shown(*arguments, **options):
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False, **options)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def said(*arguments, **options):
    return json.loads(shown(*arguments, "--json", **options))


def refused(capsys, *arguments):
    """The one line that is said of bad input."""
    assert _guarded(lambda: cli.main(list(arguments), "vesalius", standalone_mode=False)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert is_complaint(captured.err)
    return captured.err


def test_fill_shows_the_text_and_the_candidates_of_every_mask(bert):
    text = "the [MASK] fell on [MASK]"
    expected = fill(load(bert), text, 3)
    assert said("fill", bert, text, "--top", "3") == expected.to_json()
    printed = shown("fill", bert, text, "--top", "3")
    assert printed.splitlines()[0] == expected.text
    for number, mask in enumerate(expected.masks, 1):
        assert f"[MASK] {number}, token {mask.position}" in printed
        for candidate in mask.candidates:
            assert f"{candidate.token!r}" in printed
            assert f"{candidate.probability:.4f}" in printed
    assert len(said("fill", bert, text)["masks"][0]["candidates"]) == 5


def test_next_sentence_shows_both_probabilities(bert):
    expected = next_sentence(load(bert), "the rain", "he fell")
    assert said("next-sentence", bert, "the rain", "he fell") == expected.to_json()
    printed = [
        line.split() for line in shown("next-sentence", bert, "the rain", "he fell").splitlines()
    ]
    assert ["it", "follows", f"{expected.follows:.4f}"] in printed
    assert ["it", "is", "from", "elsewhere", f"{expected.elsewhere:.4f}"] in printed


def test_embed_shows_texts_shapes_norms_and_numbers(bert):
    found = embed(load(bert), TEXTS)
    printed = shown("embed", bert, *TEXTS)
    for text, vector in zip(TEXTS, found.vectors, strict=True):
        (line,) = [row for row in printed.splitlines() if row.startswith(f" {text} ")]
        assert f" {len(vector)} " in line
        assert f"{np.linalg.norm(vector):.4g}" in line
        assert "  ".join(f"{x:.4f}" for x in vector[:4]) in line
    assert " 5 × 12 " in shown("embed", bert, TEXTS[0], "--what", "tokens")


def test_brackets_in_texts_are_shown_as_they_are(bert, lines):
    assert shown("fill", bert, "[red]the [MASK]").startswith("[red]the ")
    assert " [bold]rain[/] " in shown("embed", bert, "[bold]rain[/]")
    assert "'[bold]rain[/]'" in shown("similar", bert, "[bold]rain[/]", "--among", lines)


def test_long_tables_are_cut_and_say_so(bert):
    printed = shown("embed", bert, *["rain"] * 23, "x" * 200)
    assert printed.count("rain") == SHOWN
    assert "4 more texts are left out" in printed
    assert f" {'x' * 47}… " in shown("embed", bert, "x" * 200)


@pytest.mark.parametrize("what", WHAT)
def test_embed_gives_vectors_as_json(bert, what):
    expected = embed(load(bert), TEXTS, what).to_json()
    assert said("embed", bert, *TEXTS, "--what", what) == expected


def test_embed_takes_a_layer_a_batch_and_cuts_texts(bert):
    expected = embed(load(bert), TEXTS, layer=1, batch=2).to_json()
    assert said("embed", bert, *TEXTS, "--layer", "1", "--batch", "2") == expected
    cut = said("embed", bert, "rain " * 20, "--truncate")["texts"][0]["tokens"]
    assert cut == ["[CLS]", *["rain"] * 7, "[SEP]"]


def test_embed_reads_one_text_a_line_from_a_file_or_standard_input(bert, lines):
    expected = said("embed", bert, *TEXTS)
    assert said("embed", bert, "--file", lines) == expected
    assert said("embed", bert, "--file", "-", input="\ufeff" + "\n".join(TEXTS)) == expected


@pytest.mark.parametrize("name", ["v.npy", "v.safetensors"])
def test_embed_writes_a_file(bert, tmp_path, name):
    out, expected = tmp_path / name, embed(load(bert), TEXTS).vectors
    printed = shown("embed", bert, *TEXTS, "--out", str(out))
    assert printed == f"{out}: mean of 3 texts, 12 numbers a vector\n"
    read = np.load(out) if name.endswith("npy") else load_file(out)["vectors"]
    np.testing.assert_allclose(read, expected, atol=1e-6)
    about = {"out": str(out), "what": "mean", "layer": None, "texts": 1, "width": 12, "hint": ""}
    assert said("embed", bert, "rain", "--out", str(out)) == about


def test_a_name_that_cannot_be_saved_under_is_refused_before_the_model_is_loaded(capsys, tmp_path):
    run = ["embed", "no-such-model", "x", "--out"]
    assert ".npy or .safetensors, got" in refused(capsys, *run, str(tmp_path / "v.txt"))
    tokens = refused(capsys, *run, str(tmp_path / "v.npy"), "--what", "tokens")
    assert "save them as .safetensors" in tokens
    assert "directory" in refused(capsys, *run, str(tmp_path))


def test_similar_shows_the_nearest_words(bert):
    for distance in DISTANCES:
        expected = similar(load(bert), "rain", top=3, distance=distance)
        arguments = ("similar", bert, "rain", "--top", "3", "--distance", distance)
        assert said(*arguments) == [neighbour.to_json() for neighbour in expected]
        rows = [line.split() for line in shown(*arguments).splitlines()]
        assert ["word", distance] in rows
        shown_rows = [row for row in rows if [repr(expected[0].text)] == row[:1]]
        assert shown_rows == [[repr(expected[0].text), f"{expected[0].score:.4f}"]]


def test_similar_shows_the_nearest_texts_of_a_file(bert, lines):
    for more in ({}, {"what": "static"}, {"what": "cls"}):
        options = [part for name, value in more.items() for part in (f"--{name}", value)]
        expected = [n.to_json() for n in similar(load(bert), "he fell", TEXTS, **more)]
        assert said("similar", bert, "he fell", "--among", lines, *options) == expected
        found = said("similar", bert, "he fell", "--among", "-", *options, input="\n".join(TEXTS))
        assert found == expected
    printed = shown("similar", bert, "he fell", "--among", lines)
    assert f" {TEXTS[1]} " in printed
    long = {"input": "rain " * 20}
    assert said("similar", bert, "rain", "--among", "-", "--truncate", **long)


def test_the_king_of_a_specimen_is_near_the_king_with_a_capital():
    words = [row["text"] for row in said("similar", "gpt", " king", "--top", "20")]
    assert " King" in words
    assert " king" not in words


def test_the_choices_are_those_of_the_library():
    def choices(verb, name):
        return next(list(p.type.choices) for p in verb.params if p.name == name)

    assert choices(reading.embed, "what") == list(WHAT)
    assert choices(reading.similar, "distance") == list(DISTANCES)
    assert choices(reading.similar, "what") == [what for what in WHAT if what != "tokens"]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_helps_with_an_example_and_speaks_json(verb):
    assert f"Example: vesalius {verb.name} " in verb.help
    assert any("--json" in parameter.opts for parameter in verb.params)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fill", "BERT", "the rain"], "there is no [MASK] in 'the rain'"),
        (["fill", "BERT", "the [MASK]", "--top", "0"], "x>=1"),
        (
            ["fill", "gpt", "the [MASK]"],
            "which serves generate, classify, embed, similar and evaluate",
        ),
        (["fill", "BERT", "rain " * 9 + "[MASK]"], "the text has 12 tokens, the model reads 9"),
        (["next-sentence", "lstm", "a", "b"], "next-sentence needs a model of bert, this is lstm"),
        (["next-sentence", "BERT", "", "b"], "the first text is empty"),
        (["embed", "BERT"], "expected TEXT, or --file, one of them"),
        (["embed", "BERT", "x", "--file", __file__], "expected TEXT, or --file, one of them"),
        (["embed", "BERT", "rain", "--layer", "3"], "layers 0 to 2, got 3"),
        (["embed", "BERT", ""], "the text is empty"),
        (["embed", "BERT", "rain", "--what", "max"], "'max' is not one of"),
        (["embed", "tst", "x"], "this is tst, which serves classify and evaluate"),
        (["embed", "/nowhere/at/all", "x"], "there is no folder"),
        (["embed", "BERT", "--file", "/nowhere"], "does not exist"),
        (["embed", "BERT", "rain " * 9], "say truncate"),
        (["similar", "BERT", "xyzzy"], "'xyzzy' is not in the vocabulary"),
        (["similar", "BERT", "rain", "--what", "mean"], "give texts to compare with"),
        (["similar", "igpt-nowhere/", "rain"], "there is no folder"),
    ],
)
def test_bad_input_is_one_line(arguments, message, bert, capsys):
    arguments = [bert if part == "BERT" else part for part in arguments]
    assert message in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "holds no text; expected some"),
        (b"\n \n", "holds no text; expected some"),
        (b"rain\n\nfell\n", "text 2 of 3 is empty"),
        (b"rain\nf\xffll\n", "is not UTF-8: byte 0xff at offset 6"),
    ],
)
def test_a_file_without_texts_is_refused(data, message, bert, tmp_path, capsys):
    (tmp_path / "texts.txt").write_bytes(data)
    for arguments in (["embed", bert, "--file"], ["similar", bert, "rain", "--among"]):
        assert message in refused(capsys, *arguments, str(tmp_path / "texts.txt"))


def test_a_folder_without_a_tokenizer_is_refused(tmp_path, capsys):
    filled(small("bert"), dtype="float32").save(tmp_path / "model")
    for arguments in (["fill", "[MASK]"], ["next-sentence", "a", "b"], ["embed", "a"]):
        verb, *texts = arguments
        assert "no tokenizer" in refused(capsys, verb, str(tmp_path / "model"), *texts)


def test_the_bar_is_for_those_who_watch(bert, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    watched = Terminal()
    monkeypatch.setattr(sys, "stderr", watched)
    with terminal.counting("embedding") as progress:
        embed(load(bert), TEXTS, batch=1, progress=progress)
    assert "embedding" in watched.getvalue()
    assert "3/3" in watched.getvalue()


def test_words_are_compared_without_torch():
    code = """
import sys
from vesalius.cli.reading import similar, embed
assert not {"torch", "numpy"} & set(sys.modules)
similar.main(["ffnn", " king"], standalone_mode=False)
embed.main(["ffnn", " king", "--what", "static"], standalone_mode=False)
print("torch" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.stdout.splitlines()[-1] == "False", done.stderr


@pytest.mark.parametrize("place", ["help", "README.md"])
def test_the_example_of_fill_is_one_that_the_specimen_gets_right(place):
    import re
    from pathlib import Path

    import vesalius

    readme = Path(__file__).parents[2] / "README.md"
    text = cli.commands["fill"].help if place == "help" else readme.read_text(encoding="utf-8")
    (model, example) = re.search(r'vesalius fill (\w+) "(.*?)"', text).groups()
    (mask,) = vesalius.fill(vesalius.load(model), example).masks
    assert example == "[MASK] opened her eyes."
    assert mask.candidates[0].token == "she"
    assert mask.candidates[0].probability > 3 * mask.candidates[1].probability
