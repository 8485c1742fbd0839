"""A disk that is full, stood in for by a bound on the size of files: the error names the place."""

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource", reason="the system bounds no file's size")
BOUND = 4096
BOUNDED = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing then fails as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, ({BOUND}, {BOUND}))
from vesalius.cli import main
main()
"""
COMMANDS = {
    "tokenizer": ["tokenizer", "train", "text.txt", "--size", "300", "--out", "new"],
    "figure": ["figure", "gpt", "--out", "new.svg"],
    "convert": ["convert", "vit", "new"],
    "dissect --save": ["dissect", "gpt", "He shook", "--save", "new.safetensors"],
    "dissect --html": ["dissect", "gpt", "He shook", "--html", "new.html"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_said_with_the_name_that_was_asked_for(tmp_path, command):
    (tmp_path / "text.txt").write_text("It rained and rained, and it was going to.\n" * 200)
    done = subprocess.run(
        [sys.executable, "-B", "-c", BOUNDED, *COMMANDS[command]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert COMMANDS[command][-1] in done.stderr
    assert ".saving-" not in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(("new", ".new", ".s"))]
