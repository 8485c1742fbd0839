"""A server of its own process, on a real socket, and a browser where there is one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from vesalius.explorer.app import PAGE
from vesalius.explorer.sessions import HEADER

SERVE = """
import json, sys
from pathlib import Path
from vesalius.analyses import long_traces
from vesalius.equations.tracing import Tracer
from vesalius.explorer import runs
from vesalius.explorer.server import explorer
settings = json.loads(sys.argv[2])
long_traces.LONG = settings.pop("long", long_traces.LONG)
kept = settings.pop("kept", None)
runs.BYTES, runs.ANSWERS = kept or runs.BYTES, kept or runs.ANSWERS
faulty, record = settings.pop("faulty", ()), Tracer.record
Tracer.record = lambda tracer, equation, value: record(
    tracer, equation, 1.01 * value if equation.name in faulty else value
)
found = explorer(port=0, page=Path(sys.argv[1]), **settings)
print(json.dumps(found.to_json()), flush=True)
found.run()
"""
SECONDS = 600  # after which a server hangs; a busy machine is slow
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass(frozen=True)
class Served:
    """Where a server is, and the key of its session."""

    port: int
    key: str
    process: int = 0

    @classmethod
    def at(cls, said: dict[str, Any], process: int = 0) -> "Served":
        """The server that says where it is, its token exchanged for the key."""
        place, token = f"http://127.0.0.1:{said['port']}/api/session", {"token": said["token"]}
        answer = httpx.post(place, json=token, timeout=SECONDS)
        return cls(said["port"], answer.json()["key"], process)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        return {HEADER: self.key}

    @property
    def line(self) -> str:
        """The same, as it stands in a request."""
        return f"{HEADER}: {self.key}\r\n"

    def open(self, page: Any) -> None:
        """Go to the page in a browser that has opened it before, and so has the key."""
        keep = f"localStorage.setItem('session', {json.dumps(self.key)})"
        page.add_init_script(f"if (location.origin === {json.dumps(self.base)}) {keep}")
        page.goto(self.base)

    def client(self, **settings: Any) -> httpx.Client:
        """Without the list of who signs certificates, which takes longer to read than to ask."""
        headers = {**self.headers, **settings.pop("headers", {})}
        how = {"timeout": SECONDS, "verify": False, **settings}
        return httpx.Client(base_url=self.base, headers=headers, **how)


@contextmanager
def served_from(page: Path, **settings: Any) -> Iterator[Served]:
    """A server with settings.

    ``long`` are the bytes from which a run keeps states alone, ``kept`` are those of all runs that
    are kept, and of answers about them, ``faulty`` names of equations that
    give a hundredth more than they should, so that their terms do not make their values.
    """
    command = [sys.executable, "-c", SERVE, str(page), json.dumps(settings)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield Served.at(said, process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    """Of the server; a module that wants others says so."""
    return {}


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """A server for each kind of settings; where the page is not built, with one in its place."""
    page = PAGE
    if not (PAGE / "index.html").exists():
        page = tmp_path_factory.mktemp("page")
        (page / "index.html").write_text("<!doctype html><title>Vesalius</title>")
    with ExitStack() as opened:

        @cache
        def server(kind: str) -> Served:
            return opened.enter_context(served_from(page, **json.loads(kind)))

        yield lambda **settings: server(json.dumps(settings, sort_keys=True))


@pytest.fixture(scope="module")
def served(settings: dict[str, Any], servers: Callable[..., Served]) -> Served:
    """The server that modules with these settings share: starting one takes seconds."""
    return servers(**settings)


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client() as opened:
        yield opened


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    from playwright.sync_api import sync_playwright

    if not (PAGE / "index.html").exists():
        missing("the explorer's page is not built; 'make page' builds it, with Node")
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        found = next(filter(None, map(shutil.which, BROWSERS)), None)
        if found is None and not own.exists():
            missing("there is no Chromium here; 'playwright install chromium' brings one")
        root = hasattr(os, "geteuid") and os.geteuid() == 0  # whom Chromium gives no sandbox
        arguments = ["--no-sandbox"] if root else []
        path = None if own.exists() else found
        opened = playwright.chromium.launch(executable_path=path, args=arguments)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script that finds what some people could not read or reach."""
    script = Path(__file__).parents[2] / "frontend/node_modules/axe-core/axe.min.js"
    if not script.exists():
        missing("axe-core is not installed; 'make page' brings it")
    return script.read_text()


def missing(reason: str) -> None:
    """A test that cannot run is skipped; where CI is true, it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
