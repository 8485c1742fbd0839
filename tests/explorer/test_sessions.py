"""An address opens the page once, in one browser; what the page holds then is in no address."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import httpx
import pytest
from explorer.conftest import SECONDS, Served
from fastapi.routing import APIRoute

from vesalius.explorer.app import PAGE, application
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.sessions import HEADER, Sessions, WrongToken, sender

READY = '.page[data-busy="no"]'


def test_a_token_works_once():
    sessions = Sessions()
    token = sessions.token()
    assert sessions.open(token) == sessions.key
    assert sessions.knows(sessions.key)
    with pytest.raises(WrongToken, match="opened before"):
        sessions.open(token)
    with pytest.raises(WrongToken, match="another start"):
        sessions.open("x")
    assert token not in sessions.key


def test_a_used_token_brings_one_new_one_to_the_terminal_however_often_it_comes():
    sessions, announced = Sessions(), []
    sessions.announce = announced.append
    token = sessions.token()
    sessions.open(token)
    for _ in range(5):
        with pytest.raises(WrongToken, match="terminal"):
            sessions.open(token)
    assert len(announced) == 1
    assert sessions.open(announced[0]) == sessions.key


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no user numbers here")
def test_another_users_token_is_refused_and_still_works_for_its_owner():
    sessions = Sessions()
    token = sessions.token()
    with pytest.raises(WrongToken, match="another user"):
        sessions.open(token, os.getuid() + 1)
    assert sessions.open(token, os.getuid()) == sessions.key


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists who connects")
@pytest.mark.parametrize(
    ("family", "here", "there"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET, "127.0.0.1", "::ffff:127.0.0.1"),
    ],
)
def test_linux_says_who_connects_whichever_way_the_address_is_written(family, here, there):
    with socket.socket(family) as listening:
        listening.bind((here, 0))
        listening.listen()
        sent_from = socket.AF_INET6 if ":" in there else socket.AF_INET
        with socket.socket(sent_from) as client:
            client.connect((there, listening.getsockname()[1]))
            accepted, peer = listening.accept()
            with accepted:
                scope = {"client": peer[:2], "server": accepted.getsockname()[:2]}
                assert sender(scope) == os.getuid()
                assert sender({**scope, "client": (peer[0], 1)}) is None


ASK = """
import os, socket, sys
os.setuid(65534)
opened = socket.socket()
opened.connect(("127.0.0.1", int(sys.argv[1])))
opened.sendall(sys.argv[2].encode())
print(opened.makefile().read())
"""


@pytest.fixture
def command():
    """The command as one starts it, and where it says that it is."""
    words = ["-m", "vesalius", "explore", "--no-browser", "--port", "0", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *words], **pipes) as process:
        yield process, json.loads(process.stdout.readline())
        process.terminate()


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can be another user"
)
def test_another_user_who_reads_the_address_first_gets_nothing_from_the_server(command):
    _, said = command
    body = json.dumps({"token": said["token"]})
    head = f"POST /api/session HTTP/1.1\r\nHost: 127.0.0.1:{said['port']}\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ask = [sys.executable, "-c", ASK, str(said["port"]), head + body]
    done = subprocess.run(ask, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("HTTP/1.1 403")
    assert "sent by another user" in done.stdout
    assert Served.at(said).key


SPY = """
import json, os, re, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
port, asked, seen = int(sys.argv[1]), json.loads(sys.argv[2]), set()
for process in filter(str.isdecimal, os.listdir("/proc")):
    for file in ("cmdline", "environ"):
        try:
            with open(f"/proc/{process}/{file}", "rb") as opened:
                text = opened.read().decode(errors="replace")
                seen.update(re.findall(r"(?<![\\w-])[\\w-]{32}(?![\\w-])", text, re.ASCII))
        except OSError:
            pass
def answer(method, path, body="", more=""):
    with socket.socket() as opened:
        opened.connect(("127.0.0.1", port))
        head = f"{method} {path} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n{more}"
        head += f"Content-Length: {len(body)}\\r\\nConnection: close\\r\\n\\r\\n"
        opened.sendall((head + body).encode())
        return opened.makefile("rb").read().split()[1].decode()
told = {}
for key in ("", *sorted(seen)):
    more = f"HEADER: {key}\\r\\n" if key else ""
    for method, path in asked:
        told[f"{method} {path} {key}"] = answer(method, path, more=more)
    told[f"a session by {key}"] = answer("POST", "/api/session", json.dumps({"token": key}))
print(json.dumps({"seen": sorted(seen), "told": told}))
""".replace("HEADER", HEADER)
BROWSER = "#!/bin/sh\ntail --pid=$PPID -f /dev/null\n"


def arguments(file):
    """Of a process that may have ended."""
    with suppress(OSError):
        return file.read_text().replace("\0", " ")
    return ""


def routes():
    """Every route below /api/, as its method and a path of it."""
    found = [one for one in application(Catalogue()).routes if isinstance(one, APIRoute)]
    return [
        (method, re.sub(r"\{[^}]*\}", "1", one.path))
        for one in found
        for method in one.methods
        if one.path.startswith("/api/")
    ]


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can be another user"
)
def test_another_user_who_reads_all_that_processes_show_gets_nothing_from_any_route(tmp_path):
    """The server opens a browser, whose arguments hold a token."""
    (tmp_path / "browser").write_text(BROWSER)
    (tmp_path / "browser").chmod(0o700)
    words = ["-m", "vesalius", "explore", "--port", "0"]
    where = {**os.environ, "DISPLAY": ":0", "BROWSER": f"{tmp_path}/browser"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *words], env=where, **pipes) as process:
        try:
            line = next(line for line in process.stdout if "token=" in line)
            port = int(re.search(r":(\d+)/", line)[1])
            spy = [sys.executable, "-c", SPY, str(port), json.dumps(routes())]
            tokens = []
            while not tokens:  # until the browser is there
                shown = [arguments(file) for file in Path("/proc").glob("[0-9]*/cmdline")]
                opened = rf"browser http://127.0.0.1:{port}/\?token=([\w-]+)"
                tokens = re.findall(opened, " ".join(shown))
            done = subprocess.run(spy, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout)
            assert tokens[0] in found["seen"]
            assert len(found["told"]) > 40
            assert {*found["told"].values()} == {"403"}
            assert Served.at({"port": port, "token": tokens[0]}).key not in found["seen"]
        finally:
            process.terminate()


def test_the_printed_address_a_reload_two_tabs_and_a_bookmark_show_the_page(browser, command):
    _, said = command
    context = browser.new_context()
    context.set_default_timeout(1000 * SECONDS)
    page = context.new_page()
    page.goto(said["address"])
    page.wait_for_function("!location.search.includes('token')")
    page.wait_for_selector(READY)
    page.reload()
    page.wait_for_selector(READY)
    bookmark = page.url
    for address in (bookmark, said["address"]):  # the second holds a token that was used
        other = context.new_page()
        other.goto(address)
        other.wait_for_function("!location.search.includes('token')")
        other.wait_for_selector(READY)
        other.get_by_text("%").first.wait_for()
    assert context.cookies() == []
    context.close()


def test_in_another_browser_a_used_address_says_where_a_new_one_is(browser, command):
    process, said = command
    Served.at(said)
    page = browser.new_page()
    page.set_default_timeout(1000 * SECONDS)
    page.goto(said["address"])
    page.get_by_role("alert").get_by_text("shows a new one").wait_for()
    line = process.stderr.readline()
    assert "opened before" in line
    page.goto(line.split()[-1])
    page.wait_for_selector(READY)
    page.close()


NAMES = (HEADER, "session", "token", "key", "vesalius", "csrftoken", "a" * 200)
"""Of cookies besides many large ones; a server may choose any."""


class Other(BaseHTTPRequestHandler):
    """Another server of this machine, which keeps what the browser sends and gives it cookies."""

    seen: ClassVar[list[str]] = []

    def do_GET(self):
        self.seen.append(str(self.headers))
        self.send_response(200)
        for k in range(55):
            self.send_header("set-cookie", f"session{k}={'x' * 3000}; Path={self.path[2:]}")
        for name in NAMES:
            self.send_header("set-cookie", f"{name}=x; Path={self.path[2:]}")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_another_server_of_this_machine_gets_no_key_and_locks_nobody_out(browser, served):
    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        context = browser.new_context()
        context.set_default_timeout(1000 * SECONDS)
        page = context.new_page()
        served.open(page)
        page.wait_for_selector(READY)
        for path in ("/api", "/gpt", "/"):  # a browser keeps 180 cookies of one host
            page.goto(f"http://127.0.0.1:{other.server_port}/?{path}")
        other.shutdown()
        assert Other.seen
        assert served.key not in "".join(Other.seen)
        kept = context.cookies()
        assert len(kept) > 100
        assert {*NAMES} <= {cookie["name"] for cookie in kept}
        page.goto(f"{served.base}/gpt/dissect#t=I%20am")
        page.wait_for_selector(READY)
        page.get_by_text("%").first.wait_for()
        context.close()


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b"[" * 4000])
def test_what_is_no_token_is_said(served, body):
    answer = httpx.post(f"{served.base}/api/session", content=body)
    assert answer.status_code == 422
    assert "token" in answer.text
    assert httpx.get(f"{served.base}/api/session").status_code == 405


def test_a_token_of_an_earlier_start_is_refused(served):
    for token in ("x", "é", 7):
        answer = httpx.post(f"{served.base}/api/session", json={"token": token})
        assert answer.status_code == 403
        assert "another start" in answer.text
        assert HEADER not in answer.headers


def test_the_page_asks_for_pictures_with_the_key():
    """A plain address in an image or a link would be asked for without it."""
    for file in (PAGE.parents[3] / "frontend/src").rglob("*.svelte"):
        text = file.read_text()
        assert not any(f'{name}="/api' in text for name in ("src", "href")), file
        assert "url(/api" not in text, file
