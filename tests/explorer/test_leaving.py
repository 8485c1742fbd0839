"""Work ends at its next step when its asker leaves, whatever was asked, and others are answered."""

import json
import logging
import socket
import threading
import time
from contextlib import contextmanager

import pytest
from explorer.conftest import SECONDS, Served

from vesalius.explorer.server import explorer

TOKENS = 1500
"""So many make the requests below take seconds, of which few steps are done when one leaves."""
LSTM = {"model": "lstm", "ids": [5 + 7 * k % 90 for k in range(TOKENS)]}
GPT = {"model": "gpt", "ids": [5 + 7 * k % 90 for k in range(250)]}


@pytest.fixture(scope="module")
def served():
    """A server on a thread of this process, whose log can be read here."""
    found = explorer(port=0)
    thread = threading.Thread(target=found.run)
    thread.start()
    yield Served.at(found.to_json())
    found.server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def keys(client):
    """Runs that are kept."""
    posted = {"lstm": LSTM, "gpt": GPT}
    return {name: client.post("/api/runs", json=body).json()["id"] for name, body in posted.items()}


@contextmanager
def asking(served, path, method="GET", body=b""):
    """A request on its way, whose answer nobody reads."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{served.line}"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port)) as opened:
        opened.sendall(head.encode() + body)
        yield opened


def until(seen):
    """Look again and again; a product that never does it fails after a long time."""
    end = time.monotonic() + SECONDS
    while not (found := seen()):
        assert time.monotonic() < end, "it never came"
    return found


SLOW = (
    "/api/runs/{lstm}/gates/effects?layer=1&first=0",
    "/api/runs/{lstm}/gates/effects?layer=2&first=32&position=7",
    "/api/runs/{lstm}/check",
    "/api/runs/{gpt}/against/{other}/patches?layer=1&kind=states",
)


@pytest.mark.parametrize("path", SLOW)
def test_a_get_ends_when_its_asker_leaves_and_others_are_answered_before(
    served, client, keys, caplog, path
):
    caplog.set_level(logging.INFO, "vesalius")
    other = client.post("/api/runs", json={**GPT, "ids": GPT["ids"][::-1]}).json()["id"]
    path = path.format(**keys, other=other)
    with asking(served, path):
        if "check" not in path:  # which works in a process of its own
            until(lambda: client.get("/api/work").json())
        assert client.get("/api/equations").status_code == 200
        assert client.get("/api/models/rnn").status_code == 200
        assert not caplog.messages
    until(lambda: caplog.messages)
    assert caplog.messages == [f"nobody waits any more for GET {path.partition('?')[0]}"]
    until(lambda: not client.get("/api/work").json())


def test_a_run_in_the_making_ends_when_its_asker_leaves(served, client, caplog):
    caplog.set_level(logging.INFO, "vesalius")
    body = json.dumps({**LSTM, "ids": LSTM["ids"][::-1], "cuts": ["c[1,*](3)"]}).encode()
    with asking(served, "/api/runs", "POST", body):
        until(lambda: client.get("/api/work").json())
    until(lambda: caplog.messages == ["nobody waits any more for POST /api/runs"])


def test_whoever_leaves_a_queue_is_forgotten_while_the_first_is_still_at_work(
    served, client, keys, caplog
):
    caplog.set_level(logging.INFO, "vesalius")
    effects = f"/api/runs/{keys['lstm']}/gates/effects?layer=1&first=64"
    with asking(served, effects):
        until(lambda: client.get("/api/work").json() == {"lstm": 1})
        with asking(served, f"/api/runs/{keys['lstm']}?word=3"):
            until(lambda: client.get("/api/work").json() == {"lstm": 2})
        until(
            lambda: caplog.messages == [f"nobody waits any more for GET /api/runs/{keys['lstm']}"]
        )
    until(lambda: len(caplog.messages) == 2)
