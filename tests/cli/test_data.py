"""The verbs on corpora: what is listed, found, fetched and refused."""

import io
import json
import os
import sys

import pytest
from click.testing import CliRunner
from processes import is_complaint, on_a_full_disk, shown, vesalius

from vesalius.cli import cli, terminal
from vesalius.data import registry, stories

SHAKESPEARE = "text/tinyshakespeare.txt"


@pytest.fixture
def environment(tmp_path):
    """Nothing fetched yet, and no network: what would answer is a port that nobody listens on."""
    kept = {
        k: v for k, v in os.environ.items() if k != "VESALIUS_DATA" and "proxy" not in k.lower()
    }
    return kept | {"VESALIUS_CACHE": str(tmp_path / "cache"), "https_proxy": "http://127.0.0.1:9"}


def put(folder, content=None):
    """A stand-in for Shakespeare: of the right size unless it is given."""
    file = folder / SHAKESPEARE
    file.parent.mkdir(parents=True)
    file.write_bytes(bytes(1115394) if content is None else content)
    return file


def test_list_says_of_each_corpus_where_it_is(environment, tmp_path):
    put(tmp_path / "own")
    done = vesalius("data", "list", env=environment | {"VESALIUS_DATA": str(tmp_path / "own")})
    assert done.returncode == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "1.115 MB" in lines["tinyshakespeare"]
    assert "VESALIUS_DATA" in lines["tinyshakespeare"]
    assert "to fetch" in lines["wikitext-2"]
    assert "own copy needed" in lines["classics"]
    assert "built in" in lines["stories"]
    rows = json.loads(vesalius("data", "list", "--json", env=environment).stdout)
    assert [row["name"] for row in rows] == [corpus.name for corpus in registry.corpora()]
    assert rows[1]["where"] == "to fetch"


def test_info_tells_whole_from_damaged_and_missing(environment, tmp_path):
    (tmp_path / "cache/data/vocab").mkdir(parents=True)
    (tmp_path / "cache/data/vocab/gpt2_vocab.bpe").write_bytes(bytes(456318))
    done = vesalius("data", "info", "gpt2-vocabulary", env=environment)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["vocab/gpt2_encoder.json", "1,042,301", "196139668be6", "missing"] in rows
    assert ["vocab/gpt2_vocab.bpe", "456,318", "1ce1664773c5", "damaged"] in rows
    assert "https://github.com/openai/gpt-2" in done.stdout
    found = json.loads(
        vesalius("data", "info", "gpt2-vocabulary", "--json", env=environment).stdout
    )
    assert [file["state"] for file in found["files"]] == ["missing", "damaged"]


def test_info_of_the_stories_says_what_no_model_can_beat():
    command = ["data", "info", "stories"]  # run here, where the entropy is computed once
    found = json.loads(CliRunner().invoke(cli, [*command, "--json"], catch_exceptions=False).stdout)
    assert found["entropy"] == stories.entropy()
    assert found["vocabulary"] == len(stories.vocabulary())
    text = CliRunner().invoke(cli, command, catch_exceptions=False).stdout
    assert f"{stories.entropy():.4f} nats per word" in text


def test_get_writes_stories_of_a_seed(environment, tmp_path):
    file = tmp_path / "stories.txt"
    arguments = ("data", "get", "stories", "--words", "500", "--seed", "3", "--out", str(file))
    done = vesalius(*arguments, "--json", env=environment)
    assert done.returncode == 0, done.stderr
    text = file.read_text(encoding="utf-8")
    assert text == stories.text(3, 500)
    found = json.loads(done.stdout)
    assert found["words"] == len(text.split()) >= 500
    assert vesalius(*arguments, env=environment).stdout.startswith(f"{file}: ")


def test_get_fetches_with_a_line_for_each_file(monkeypatch, tmp_path):
    monkeypatch.setenv("VESALIUS_CACHE", str(tmp_path))
    monkeypatch.delenv("VESALIUS_DATA", raising=False)
    form = registry.Form(5, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
    made = registry.Corpus(
        "tiny", "", "text", "", "", (registry.File("text/a", (form,), ("https://a",)),)
    )
    monkeypatch.setitem(registry._registry(), "tiny", made)
    monkeypatch.setattr(registry, "_open", lambda address: io.BytesIO(b"hello"))
    monkeypatch.setattr(registry, "PIECE", 2)
    done = CliRunner().invoke(cli, ["data", "get", "tiny"], catch_exceptions=False)
    assert done.stderr == "fetching text/a, 5 bytes\n"
    assert done.stdout == f"tiny: 1 file in {tmp_path / 'data/text'}\n"
    again = CliRunner().invoke(cli, ["data", "get", "tiny", "--json"], catch_exceptions=False)
    assert again.stderr == ""
    assert json.loads(again.stdout)["files"] == [str(tmp_path / "data/text/a")]


def test_a_bar_moves_where_somebody_watches(monkeypatch):
    class Watched(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", Watched())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with terminal.fetching() as progress:
        progress("text/a", 1000, 4000)
        progress("text/a", 4000, 4000)
        text = sys.stderr
    assert "text/a" in text.getvalue()
    assert "4.0/4.0 kB" in text.getvalue()
    assert "fetching" not in text.getvalue()


def test_get_leaves_alone_what_is_here(environment, tmp_path):
    own = put(tmp_path / "own")
    given = environment | {"VESALIUS_DATA": str(tmp_path / "own")}
    done = vesalius("data", "get", "tinyshakespeare", env=given)
    assert done.returncode == 2
    assert f"{own} is damaged" in done.stderr
    assert own.read_bytes() == bytes(1115394)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["info", "tinyshakespear"], 2, "unknown corpus 'tinyshakespear'; did you mean tinys"),
        (["get", "wikitext"], 2, "did you mean wikitext-2"),
        (["get", "classics"], 2, "set VESALIUS_DATA to a folder that holds text/classics"),
        (["get", "tinyshakespeare"], 3, "input.txt cannot be fetched: "),
        (["get", "stories"], 2, "say where to write them: --out FILE"),
        (["get", "stories", "--out", "/nowhere/x"], 3, "/nowhere/x: No such file or directory"),
        (["get", "stories", "--words", "0", "--out", "x"], 2, "0 is not in the range x>=1"),
        (["get", "etth1", "--seed", "0"], 2, "--words, --seed and --out are for stories"),
        (["gett"], 2, "No such command 'gett'"),
    ],
)
def test_what_cannot_be_got_is_said_in_one_line(environment, arguments, code, message):
    done = vesalius("data", *arguments, env=environment)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert is_complaint(done.stderr)
    assert message in done.stderr


def test_a_cache_that_cannot_be_written_is_named(environment, tmp_path):
    (tmp_path / "cache").write_text("a file in the place of the folder")
    done = vesalius("data", "get", "etth1", env=environment)
    assert done.returncode == 3
    assert is_complaint(done.stderr)
    assert "set VESALIUS_CACHE to another folder" in done.stderr


def test_stories_that_do_not_fit_on_the_disk_leave_the_file_that_was_there(tmp_path):
    file = tmp_path / "stories.txt"
    file.write_text("what was there")
    done = on_a_full_disk("data", "get", "stories", "--words", "5000", "--out", str(file))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert done.stderr == f"vesalius: {file}: File too large\n"
    assert file.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [file]


def test_stories_go_through_links_and_to_what_is_no_file(tmp_path):
    (tmp_path / "link.txt").symlink_to(tmp_path / "stories.txt")
    for name in ("link.txt", "/dev/null"):
        shown("data", "get", "stories", "--words", "50", "--out", str(tmp_path / name))
    assert (tmp_path / "link.txt").is_symlink()
    assert len((tmp_path / "stories.txt").read_text().split()) >= 50
