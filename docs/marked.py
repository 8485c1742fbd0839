"""What of a written page is computed: marked parts, and what its examples print.

A part is a Python expression over `results.py` and its value, which `make docs` fills in::

    of the words <!-- = share("ewt", "bert", "finetune") -->94.6 %<!-- / --> are right

Examples are the page's blocks of Python and of the shell. What the last comment of a ``print``
says, and what follows a ``$ vesalius …``, is what they print. A block of which something is not
on every machine says so after its language, as in ``sh needs: a GPU``; where it names a corpus it
is run on machines that have it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from tempfile import TemporaryDirectory

import results

from vesalius.data import registry

MARK = re.compile(r"(<!-- = (.+?) -->)(.*?)(<!-- / -->)", re.S)
FENCE = re.compile(r"^```(\w+)(?: needs: (.+))?\n(.*?)^```$", re.S | re.M)
PRINTED = re.compile(r"^( *print\(.*\)  # )(.*)$", re.M)
SHELL = ("sh", "console")
LEFT_OUT = "…"
"""A line that stands for lines that are not shown."""


def filled(page: str) -> str:
    """The page with the values of its marks."""
    if found := re.search(r"^<!-- = .*?<!-- / -->", page, re.M):
        raise ValueError(f"a line that begins with a mark is no text for Markdown: {found[0]}")
    return MARK.sub(lambda found: found[1] + _value(found[2]) + found[4], page)


def _value(expression: str) -> str:
    value = str(eval(expression, vars(results)))
    return f"\n\n{value}\n\n" if "\n" in value else value


@dataclass(frozen=True)
class Block:
    """An example of a page."""

    language: str
    needs: str | None
    text: str

    @property
    def runs_here(self) -> bool:
        """Whether the machine has what it needs: nothing, or a corpus that is there."""
        return self.needs is None or (
            self.needs in {known.name for known in registry.corpora()} and _there(self.needs)
        )


def _there(corpus: str) -> bool:
    try:
        registry.locate(corpus)
    except (OSError, ValueError):
        return False
    return True


def blocks(page: str, *languages: str) -> Iterator[Block]:
    for found in FENCE.finditer(page):
        if found[1] in languages:
            yield Block(found[1], found[2], found[3])


# Python ----------------------------------------------------------------------------


def python(page: str) -> str:
    """The code of a page that can be run, block after block."""
    return "\n".join(block.text for block in blocks(page, "python") if block.needs is None)


def with_printed(page: str, lines: list[str]) -> str:
    """The page whose ``print`` say these lines, one each."""
    rest = iter(lines)

    def renewed(found: "re.Match[str]") -> str:
        if found[1] != "python" or found[2] is not None:
            return found[0]
        return PRINTED.sub(lambda line: line[1] + next(rest).rstrip(), found[0])

    return FENCE.sub(renewed, page)


# The shell -------------------------------------------------------------------------


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a block with what they are shown to print."""
    if block.language == "sh":
        joined = block.text.replace("\\\n", " ")
        lines = (line for line in joined.splitlines() if line and not line.startswith("#"))
        return [(line, "") for line in lines]
    sessions = re.split(r"^\$ ", block.text, flags=re.M)[1:]
    return [(command, output) for command, _, output in (s.partition("\n") for s in sessions)]


def run(command: str) -> "subprocess.CompletedProcess[str]":
    """What a command does where it stands, by the shell."""
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": paths}
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, check=False
    )


def as_shown(shown: str, printed: str) -> str:
    """The lines of an output that a page shows, as they are printed now.

    Where lines are left out, each line is the nearest to the one that stands there, in order.
    """
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    if LEFT_OUT not in (kept := shown.splitlines()):
        return "\n".join(lines) + "\n"
    first, found = 0, []
    for line in kept:
        if line == LEFT_OUT or not line:
            found.append(line)
            continue
        at = max(range(first, len(lines)), key=lambda i: (_alike(line, lines[i]), -i))
        found.append(lines[at])
        first = at + 1
    return "\n".join(found) + "\n"


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def with_outputs(page: str) -> str:
    """The page with what its sessions print now, in a folder of their own."""

    def renewed(found: "re.Match[str]") -> str:
        block = Block(found[1], found[2], found[3])
        if block.language != "console" or not block.runs_here:
            return found[0]
        text = ""
        for command, output in commands(block):
            done = run(command)
            if done.returncode:
                raise ValueError(f"{command} gives {done.returncode}: {done.stderr}")
            text += f"$ {command}\n{as_shown(output, done.stdout)}"
        return found[0].replace(block.text, text)

    with TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            return FENCE.sub(renewed, page)
        finally:
            os.chdir(before)


def renewed(page: str) -> str:
    """The page with all of it computed anew: marks, what Python prints, what commands print."""
    page = filled(page)
    if any(PRINTED.search(block.text) for block in blocks(page, "python")):
        with TemporaryDirectory() as folder:
            script = Path(folder) / "examples.py"
            script.write_text(python(page), encoding="utf-8")
            command = [sys.executable, str(script)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        if done.returncode:
            raise ValueError(f"the page's Python fails: {done.stderr}")
        page = with_printed(page, done.stdout.splitlines())
    return with_outputs(page)
