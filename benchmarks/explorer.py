"""The explorer's page in a browser: GPT-2 of 124M with random weights, and cuts on the specimen.

    python benchmarks/explorer.py [--write]

Wants Chromium and the built page. Prints a table with what is wanted beside what was measured, and
with --write makes it docs/benchmarks-explorer.md.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import Page, sync_playwright

import vesalius as vs
from vesalius.explorer.sessions import HEADER
from vesalius.machine import processor

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks-explorer.md"
ABOUT = """\
A server and a headless Chromium on one machine; GPT-2 has its 124M parameters at random. Times are
from the request of the page to what can be read on it; of cuts, from the key to the repainted
number: what it copies in full changes with every cut, if not what it shows. Memory is that of the
server, in which the weights of GPT-2 are 0.5 GB.
`python benchmarks/explorer.py --write`.
"""
SERVE = """
import json, sys
from vesalius.explorer.server import explorer
found = explorer(sys.argv[1], port=0)
print(json.dumps(found.to_json()), flush=True)
found.run()
"""
TEXTS = ("He shook his head and went", "It was a dark and stormy", "The old man sat down by the")
CUTS, LEAVERS = 50, 100
WATCH = """() => {
  const seen = () => document.querySelector("[data-hero=probability]").dataset.full;
  const before = seen();
  window.repainted = new Promise((done) => {
    let start = 0;
    const once = { once: true, capture: true };
    addEventListener("keydown", (event) => (start = event.timeStamp), once);
    const watch = new MutationObserver(() => {
      if (seen() === before) return;
      watch.disconnect();
      requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
    });
    const how = { subtree: true, attributeFilter: ["data-full"] };
    watch.observe(document.querySelector("main"), how);
    setTimeout(() => done(null), 5000);
  });
}"""
FRAMES = """() => {
  window.frames_ = [];
  let last = performance.now();
  const frame = (now) => {
    window.frames_.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""


class Server:
    """A server of its own process."""

    def __init__(self, model: str) -> None:
        command = [sys.executable, "-c", SERVE, model]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline())
        self.base = f"http://127.0.0.1:{said['port']}"
        found = httpx.post(f"{self.base}/api/session", json={"token": said["token"]})
        self.key = found.json()["key"]

    def open(self, page: Page) -> None:
        """Go to the page in a browser that has the key of the session."""
        keep = f"localStorage.setItem('session', {json.dumps(self.key)})"
        page.add_init_script(f"if (location.origin === {json.dumps(self.base)}) {keep}")
        page.goto(self.base)

    def memory(self, which: str) -> float:
        """VmRSS or VmHWM, in GB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1e6


@contextmanager
def server(model: str) -> Iterator[Server]:
    found = Server(model)
    try:
        yield found
    finally:
        found.process.terminate()
        found.process.wait()


def numbers(length: int) -> str:
    return "%20".join(str((7919 * i) % 50257) for i in range(length))


def opened(page: Page, served: Server, path: str) -> float:
    page.goto("about:blank")
    start = time.perf_counter()
    page.goto(served.base + path)
    return start


def spine(page: Page, served: Server, name: str, length: int) -> tuple[float, float]:
    """Seconds to the first layer's number on the page, and to all parts of the sum."""
    start = opened(page, served, f"/{name}/dissect#t={numbers(length)}")
    page.wait_for_selector("li.there")
    first = time.perf_counter() - start
    page.wait_for_selector("[data-part]")
    whole = time.perf_counter() - start
    page.wait_for_selector('.page[data-busy="no"]')
    return first, whole


def atlas(page: Page) -> float:
    """Seconds from a run that stands on the page to the pictures of all its heads."""
    start = time.perf_counter()
    page.keyboard.press("2")
    page.wait_for_selector(":nth-match([data-head] canvas, 144)")
    return time.perf_counter() - start


def scrolling(page: Page) -> float:
    """The 95th percentile of the time between frames while all panes are scrolled, in ms."""
    page.evaluate(FRAMES)
    for place in (".spine", ".equation", ".tokens"):
        box = page.locator(place).first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for down in (1, -1):
            for _ in range(20):
                page.mouse.wheel(40 * down, 60 * down)
    return float(np.percentile(page.evaluate("() => window.frames_"), 95))


def cuts(page: Page, served: Server) -> list[float]:
    """Milliseconds from the key to the repainted number, each of another cut."""
    found: list[float] = []
    for text in TEXTS:
        opened(page, served, f"/gpt/dissect#t={text.replace(' ', '%20')}")
        page.wait_for_selector('.page[data-busy="no"]')
        for layer in range(4, 0, -1):
            for name in (f"D[{layer}]", *(f"P[{layer},{m}]" for m in range(1, 5))):
                if len(found) == CUTS:
                    return found
                page.locator(f'[data-part="{name}"]').click()
                page.wait_for_selector('.page[data-busy="no"]')
                page.evaluate(WATCH)
                page.keyboard.press("x")
                if (taken := page.evaluate("() => window.repainted")) is not None:
                    found.append(taken)
    return found


def leavers(served: Server) -> list[float]:
    """Milliseconds after which nobody works, of askers who leave at their first token."""
    found = []
    with httpx.Client(base_url=served.base, headers={HEADER: served.key}, timeout=600) as client:
        key = client.post("/api/runs", json={"model": "lstm", "text": "He shook"}).json()["id"]
        for _ in range(LEAVERS):
            path, body = f"/api/runs/{key}/continue", {"tokens": 1000}
            with client.stream("POST", path, json=body) as answer:
                next(line for line in answer.iter_lines() if line == "event: token")
            start = time.perf_counter()
            while client.get("/api/work").json():
                pass
            found.append(1000 * (time.perf_counter() - start))
    return found


def measure() -> Iterator[tuple[str, str, str]]:
    """What, how much is wanted, and what was found."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place) / "gpt2-random"
        vs.create("gpt2").save(folder)
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(600_000)
        with server(str(folder)) as served:
            served.open(page)
            page.wait_for_selector("[data-part]")
            for length in (256, 1024):
                first, whole = spine(page, served, folder.name, length)
                wanted = ("2 s", "5 s") if length == 256 else ("", "")
                yield f"GPT-2, {length:,} tokens: first number", wanted[0], f"{first:.2f} s"
                yield f"GPT-2, {length:,} tokens: whole spine", wanted[1], f"{whole:.2f} s"
                if length == 256:
                    yield (
                        "GPT-2, 256 tokens: all 144 heads after that",
                        "3 s",
                        f"{atlas(page):.2f} s",
                    )
            count = page.locator("*").count()
            yield "elements of the page at 1,024 tokens", "5,000", f"{count:,}"
            yield "frames while scrolling, 95th percentile", "33 ms", f"{scrolling(page):.1f} ms"
            for part in ("P[12,1]", "D[1]"):
                start = opened(page, served, f"/{folder.name}/dissect?cut={part}#t={numbers(1024)}")
                page.wait_for_selector("[data-hero=was]")
                yield f"{part} cut at 1,024 tokens", "", f"{time.perf_counter() - start:.2f} s"
            yield "memory of the server after these", "", f"{served.memory('VmRSS'):.2f} GB"
            yield "memory of the server at its peak", "", f"{served.memory('VmHWM'):.2f} GB"
        with server("gpt") as served:
            served.open(page)
            page.wait_for_selector('.page[data-busy="no"]')
            found = cuts(page, served)
            for which in (50, 95):
                wanted = "100 ms" if which == 95 else ""
                told = f"{np.percentile(found, which):.0f} ms"
                yield f"{len(found)} cuts of the specimen, {which}th percentile", wanted, told
            away = leavers(served)
            yield (
                f"{LEAVERS} who leave, slowest end of their work",
                "1,000 ms",
                f"{max(away):.0f} ms",
            )
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows: list[Any] = []
    load = os.getloadavg()[0]
    for row in measure():
        rows.append(f"| {' | '.join(row)} |")
        print(rows[-1], flush=True)
    if given.write:
        today = datetime.date.today().isoformat()
        machine = f"{today}, {processor()}, {os.cpu_count()} threads"
        machine += f"; load average {load:.1f} before and {os.getloadavg()[0]:.1f} after."
        table = ["| what | wanted under | measured |", "| --- | ---: | ---: |", *rows]
        lines = ["# The explorer, measured", "", ABOUT, machine, "", *table, ""]
        DOCUMENT.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
