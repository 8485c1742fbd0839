"""The verb that continues texts."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from processes import SECONDS, is_complaint, shown, vesalius
from surroundings import KERNELS

import vesalius as package
from vesalius.cli import cli
from vesalius.cli.generation import picture

COMMAND = [sys.executable, "-m", "vesalius", "generate"]


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Kernels that are compiled say so, which is a test of its own."""
    for name in ("gpt", "lstm"):
        package.generate(package.load(name), [1], 2)


def test_compiling_is_said_once_and_what_was_compiled_is_kept(tmp_path):
    # The others take long to compile, and what another process is writing may go meanwhile.
    kept = shutil.ignore_patterns("*feedforward_step*", "*.tmp.*")
    shutil.copytree(KERNELS, tmp_path / "kernels", ignore=kept)
    arguments = ("generate", "ffnn", "It was", "-n", "3")
    first, second = (
        vesalius(*arguments, env={**os.environ, "VESALIUS_CACHE": str(tmp_path)}) for _ in range(2)
    )
    assert first.stdout == second.stdout != ""
    assert first.stderr.startswith("compiling kernels for this processor")
    assert second.stderr == ""
    assert list(tmp_path.rglob("*feedforward_step*"))


def test_text_follows_the_prompt_and_the_seed_decides_it():
    text = shown("generate", "gpt", "He shook his", "-n", "12", "--seed", "3")
    wanted = package.generate(package.load("gpt"), "He shook his", 12, seed=3)
    assert text == f"He shook his{wanted.text}\n"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_dash_as_prompt_is_standard_input_without_its_last_line_end(end):
    arguments = ("generate", "lstm", "-", "-n", "2", "--temperature", "0", "--json")
    done = CliRunner().invoke(cli, arguments, input=f"It\nwas{end}")
    result = json.loads(done.stdout)
    assert result["prompt"] == "It\nwas"
    wanted = package.generate("lstm", "It\nwas", 2, temperature=0)
    assert result["ids"] == wanted.ids


def test_json_holds_text_ids_and_why_it_ended():
    said = shown("generate", "lstm", "It was", "-n", "5", "--temperature", "0", "--json")
    result = json.loads(said)
    assert set(result) == {"prompt", "text", "ids", "finish"}
    assert (len(result["ids"]), result["finish"]) == (5, "length")


def test_several_prompts_and_samples_come_one_after_the_other(tmp_path):
    (tmp_path / "prompts.txt").write_text("He shook his\nIt\n")
    arguments = ("generate", "gpt", "--file", str(tmp_path / "prompts.txt"), "--samples", "2")
    results = json.loads(shown(*arguments, "-n", "4", "--json"))
    assert [r["prompt"] for r in results] == ["He shook his"] * 2 + ["It"] * 2
    text = shown(*arguments, "-n", "4")
    assert all(r["prompt"] + r["text"] in text for r in results)
    assert text.count("────") > 3


def test_each_draw_can_be_inspected():
    arguments = ("generate", "gpt", "He shook his", "-n", "2", "--top-k", "3", "--inspect")
    text = shown(*arguments)
    assert "token 2: drawn from 3 of 4,096" in text
    assert "→" in text
    assert "left out" in text
    assert "cut" not in text
    draws = json.loads(shown(*arguments, "--json"))["draws"]
    assert [draw["kept"] for draw in draws] == [3, 3]
    for draw in draws:
        assert sum(c["probability"] for c in draw["candidates"]) == pytest.approx(1)
        assert draw["token"] in [c["id"] for c in draw["candidates"] if c["kept"]]


@pytest.mark.parametrize(
    ("settings", "title", "tempered"),
    [
        ((), "token 1: drawn from all 4,096", False),
        (("--temperature", "0.7"), "token 1: drawn from all 4,096", True),
        (("--temperature", "0"), "token 1: the likeliest of 4,096", False),
    ],
)
def test_an_inspected_draw_has_a_column_for_temperature_where_that_changes_logits(
    settings, title, tempered
):
    text = shown("generate", "gpt", "He shook his", "-n", "1", "--inspect", *settings)
    assert title in text
    assert ("after temperature" in text) is tempered


def test_models_without_a_tokenizer_take_ids_and_an_image_is_drawn(tmp_path):
    package.create("igpt", layers=1, embedding=8, heads=2, vocabulary=5, context=16).save(tmp_path)
    picture = shown("generate", str(tmp_path), "4", "-n", "16")
    assert [len(line) for line in picture.splitlines()] == [8] * 4
    assert shown("generate", str(tmp_path), "-n", "16") == picture  # 4 is what it starts from
    whole = shown("generate", str(tmp_path), "3 1 2")  # its first row begins with these
    assert [len(line) for line in whole.splitlines()] == [8] * 4
    assert whole.startswith("██░░▓▓")
    done = vesalius("generate", str(tmp_path), "four")
    assert (done.returncode, "expected token ids, as in '3 1 4'" in done.stderr) == (2, True)


def test_a_picture_is_as_wide_as_it_was_in_training():
    text = shown("generate", "igpt", "--seed", "3")
    assert [len(line) for line in text.splitlines()] == [28] * 14
    ids = json.loads(shown("generate", "igpt", "--seed", "3", "--json"))["ids"]
    assert len(ids) == 14 * 14
    assert text == f"{picture(ids, 16, 14, colours=False)}\n"


def test_a_terminal_gets_a_picture_in_greys():
    drawn = picture([0, 15, 7], 16, 2, colours=True)
    first, second = drawn.split("\n")
    assert first == "\x1b[48;5;16m  \x1b[48;5;231m  \x1b[0m"
    assert re.sub(r"\x1b\[[\d;]*m", "", drawn) == "    \n  "
    assert second.startswith("\x1b[48;5;24")


def test_generating_loads_no_torch():
    code = "import sys; sys.argv = ['vesalius', 'generate', 'gpt', 'It', '-n', '2']\n"
    code += "from vesalius.cli import cli; cli.main(standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.splitlines()[-1].split())
    assert "vesalius.generation.kernels.transformer" in modules
    assert not modules & {"torch", "matplotlib", "rich.live", "huggingface_hub"}


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_an_interrupt_ends_the_line_and_leaves_with_130():
    arguments = ["gpt", "It was", "-n", "1000000", "--slide"]
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        said = b""
        while len(said) < 200:
            ready, _, _ = select.select([process.stdout], [], [], SECONDS)
            assert ready, "no text came"
            said += (piece := os.read(process.stdout.fileno(), 65536))
            assert piece, process.stderr.read()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert (said + rest).endswith(b"\n")
    assert errors == b""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpt", ""], "the prompt is empty"),
        (["gpt"], "expected a PROMPT, or --file"),
        (["gpt", "It", "--temperature", "-1"], "temperature should be 0 or more"),
        (["gpt", "It", "--top-p", "1.5"], "top_p should be in (0, 1]"),
        (["gpt", "It", "-n", "300"], "more than the model's context of 256; ask for 256 at most"),
        (["gpt", "word " * 400], "the model's context 256; shorten it"),
        (["tst", "1 2"], "generate needs a model of"),
        (["vit", "a text"], "this is vit, which serves classify and evaluate"),
        (["gpt", "It", "--file", "/nowhere"], "does not exist"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    done = vesalius("generate", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert is_complaint(done.stderr)
    assert done.stdout == ""


def test_a_file_of_prompts_has_to_be_text(tmp_path):
    (tmp_path / "prompts.txt").write_bytes(b"It was\nHe \xff\n")
    done = vesalius("generate", "gpt", "--file", tmp_path / "prompts.txt")
    assert done.returncode == 2
    assert "is not UTF-8: byte 0xff at offset 10" in done.stderr
    assert is_complaint(done.stderr)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_blank_line_is_refused_by_its_number(tmp_path, end):
    file = tmp_path / "lines.txt"
    file.write_bytes(end.join(["It was", "He", "", "She", ""]).encode())
    done = vesalius("generate", "gpt", "--file", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert "prompt 3 of 4 is empty" in done.stderr
    assert is_complaint(done.stderr)
    done = vesalius("embed", "gpt", "--file", file)
    assert "text 3 of 4 is empty" in done.stderr
    file.write_bytes(end.join(["5 2", "", ""]).encode())
    done = vesalius("generate", "gpt", "--ids", "--file", file)
    assert "prompt 2 of 2 is empty" in done.stderr


def test_prompts_may_be_ids_and_ids_are_printed(tmp_path):
    wanted = package.generate(package.load("gpt"), [707, 2268, 339], 4, seed=3).ids
    line = " ".join(map(str, [707, 2268, 339, *wanted]))
    how = ("--ids", "-n", "4", "--seed", "3")
    assert shown("generate", "gpt", "707 2268, 339", *how) == f"{line}\n"
    (tmp_path / "ids.txt").write_text("707 2268 339\n707 2268 339\n")
    assert shown("generate", "gpt", "--file", tmp_path / "ids.txt", *how) == f"{line}\n{line}\n"
    done = vesalius("generate", "gpt", "He shook", "--ids")
    assert done.returncode == 2
    assert done.stderr.endswith("expected token ids, as in '3 1 4', got 'He shook'\n")
