"""Makes the pictures with a specimen's numbers anew; the explorer's by Chromium: make pictures.

Those of a configuration alone, which are the same everywhere, are made by `generate.py`.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from generate import DRAWN
from playwright.sync_api import sync_playwright

import vesalius as vs

FOLDER = Path(__file__).parent
SHOOK, OPENED = quote("He shook his"), quote("He opened his")
STORY = quote("“Where have you been?” said the old man, and he shook his head")
HEAD = "gpt/dissect/mu[2,1]?at=2,1"
PICTURES = {
    "explorer": f"{HEAD}#t={SHOOK}",
    "explorer-cut": f"{HEAD}&cut=P[2,1]#t={SHOOK}",
    "explorer-compare": f"{HEAD}&vs=gpt#t={SHOOK}&v={OPENED}",
    "explorer-words": f"gpt/words#t={quote('The king shook his')}",
    "explorer-ledger": "gpt/ledger",
    "explorer-heads": f"gpt/heads/mu[4,2]#t={quote('He shook his head, and he shook his')}",
    "explorer-gates": f"lstm/heads/c[2,16]?at=6#t={STORY}",
    "explorer-vit": "vit/dissect/mu[3,1]?at=0,7",
}
DARK = ("explorer-cut", "explorer-compare")


@contextmanager
def served() -> Iterator[str]:
    """The address of a server, with its token."""
    command = [sys.executable, "-m", "vesalius", "explore", "--no-browser", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


def analyses() -> None:
    model, text, target = vs.load("gpt"), "He shook his", " head"
    trace = vs.dissect(model, text)
    vs.attribute(trace, target).plot(FOLDER / "analyses-attribute.svg")
    vs.ablate(model, text, "P[*,*]", target).plot(FOLDER / "analyses-ablate.svg")
    vs.lens(trace, target).plot(FOLDER / "analyses-lens.svg")


def figures() -> None:
    """Those of docs/figures.md that show a text's numbers, by the commands that stand there."""
    for name, (_, command, of_configuration) in DRAWN.items():
        if not of_configuration:
            words = [sys.executable, "-m", *shlex.split(command), "--out", str(FOLDER / name)]
            subprocess.run(words, check=True)


def explorer() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        first = browser.new_page()
        first.goto(address)
        first.wait_for_selector('.page[data-busy="no"]')
        session = first.context.storage_state()
        for name, place in PICTURES.items():
            page = browser.new_page(
                storage_state=session,
                viewport={"width": 1280, "height": 800},
                color_scheme="dark" if name in DARK else "light",
            )
            page.goto(f"{address.partition('?')[0]}{place}")
            page.wait_for_selector('.page[data-busy="no"]')
            page.wait_for_load_state("networkidle")
            page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")
            page.close()


if __name__ == "__main__":
    analyses()
    figures()
    explorer()
