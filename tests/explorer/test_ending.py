"""SIGTERM and a second Ctrl-C end the server soon, whatever it is at."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from random import Random

import pytest
from explorer.conftest import SECONDS, Served

TRIES = 50
PROMISED, ENOUGH = 2.0, 10.0
"""Seconds that the product promises, and those after which the test fails on a busy machine."""
IDS = [5 + 7 * k % 90 for k in range(2000)]


def start():
    words = ["-m", "vesalius", "explore", "--no-browser", "--port", "0", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *words], **pipes)


@contextmanager
def send(served, path, body=None):
    """A request whose answer nobody waits for; the socket stays open."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n"
    head += f"Host: 127.0.0.1:{served.port}\r\n{served.line}"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port)) as opened:
        opened.sendall(head.encode() + data)
        yield


def run(served, model, ids):
    with served.client() as client:
        return client.post("/api/runs", json={"model": model, "ids": ids}).json()["id"]


def dissecting(served):
    return send(served, "/api/runs", {"model": "lstm", "ids": IDS})


def ablating(served):
    return send(served, f"/api/runs/{run(served, 'lstm', IDS)}/gates/effects?layer=1&first=0")


def patching(served):
    a, b = (run(served, "gpt", IDS[k : k + 200]) for k in range(2))
    return send(served, f"/api/runs/{a}/against/{b}/patches?layer=1&kind=states")


def checking(served):
    return send(served, f"/api/runs/{run(served, 'lstm', IDS)}/check")


def streaming(served):
    key = run(served, "lstm", IDS[:5])
    return send(served, f"/api/runs/{key}/continue", {"tokens": 1000})


@contextmanager
def loading(served):
    with ExitStack() as stack:
        for name in ("bert", "lstm", "rnn", "igpt", "vit"):
            stack.enter_context(send(served, f"/api/models/{name}"))
        yield


def idle(served):
    return nullcontext()


WORK = (dissecting, ablating, patching, checking, streaming, loading, idle)


def arguments(number):
    """Of a process; empty where it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{number}/cmdline").read_text()
    return ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows processes as files")
def test_the_check_of_a_run_ends_with_a_server_that_was_killed():
    with start() as process:
        served = Served.at(json.loads(process.stdout.readline()))
        with checking(served):
            checks = []
            while not checks:
                numbers = [file.name for file in Path("/proc").glob("[0-9]*")]
                ours = f"PPid:\t{process.pid}\n"
                checks = [
                    number
                    for number in numbers
                    if "vesalius.explorer.agreement" in arguments(number)
                    and ours in Path(f"/proc/{number}/status").read_text()
                ]
            process.kill()
        end = time.monotonic() + SECONDS
        while arguments(checks[0]):
            assert time.monotonic() < end, "it computes for nobody"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_fifty_signals_at_random_moments_end_the_server_within_two_seconds():
    random, took, moment = Random(2024), [], threading.Event()
    for number in range(TRIES):
        work = random.choice([None, *WORK])
        sent = random.choice([[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
        with start() as process, ExitStack() as stack:
            if work is None:  # while it starts: interpreter, imports, port
                moment.wait(2 * random.random())
            else:
                served = Served.at(json.loads(process.stdout.readline()))
                stack.enter_context(work(served))
                moment.wait(1.5 * random.random())
            begun = time.monotonic()
            for one in sent:
                process.send_signal(one)
            code = process.wait(SECONDS)
            seconds = time.monotonic() - begun
            said = process.stderr.read()
        what = "starting" if work is None else work.__name__
        took.append((seconds, what, len(sent)))
        assert code in (0, 130, 143, -signal.SIGTERM, -signal.SIGINT), (what, sent, code, said)
        assert "Traceback" not in said, (what, said)
        assert seconds < ENOUGH, (number, what, sent)
    late = [one for one in took if one[0] > PROMISED]
    sys.stdout.write(f"at most {max(took)}, {len(late)} of {TRIES} later than promised: {late}\n")
    for name in sorted({what for _, what, _ in took}):
        most = max(seconds for seconds, what, _ in took if what == name)
        sys.stdout.write(f"  {name}: at most {most:.2f} s\n")
