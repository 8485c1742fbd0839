"""Requests to the explorer's server, from their first byte: whatever comes, its answer is no 5xx.

Routes, parameters and bodies are read off the application itself, so that a new one is fuzzed, too.
"""

import asyncio
import json
import re
import typing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
from fastapi.routing import APIRoute
from pydantic import BaseModel
from uvicorn.server import ServerState

import vesalius as vs
from fuzz.mutating import bytes_changed, json_changed
from fuzz.watching import Finding
from vesalius.errors import VesaliusError
from vesalius.explorer import agreement, runs
from vesalius.explorer.app import application
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.guards import Guard
from vesalius.explorer.server import configured
from vesalius.explorer.sessions import HEADER, Sessions
from vesalius.explorer.training import Trainings

PORT = 8731
SECONDS = 0.2
"""In which a request has to arrive here; slow ones are cases like others."""
HANGING = 600
"""Seconds after which an answer never comes."""
HELD = 64 << 20
"""Bytes of runs that are kept here, and of answers, so that what grows is seen."""
PLAIN = [0, 1, 2, 3, 5, 7, 12, 31, 64]
STRANGE = [
    *(-1, -2, 1000, 2**31, 2**63, 10**30, -(10**30), 1e308, 0.5, True, None, [], {}, [[]], [None]),
    *("NaN", "Infinity", "-Infinity", "1e999", "0x1F", "1_000", "٣", "1.5", "true", "null", ""),
    *("\x00", "\n", "..", "../../etc/passwd", "%2e%2e%2f", "é", "雨", "🌧", "\u202e", "\ud800"),
    *("a" * 5000, "9" * 5000, "0,0", "1,2,3", "-1,-1", ",", "0:2", "2:0", ":", "-1:9", "=", "*"),
    *("P[1,1]", "P[*,*]", "P[1,1](0,0)", "H[1]@0", "c[1,*](0)", "c[1,*](0)=1", "P[1,1]=nan"),
    *("P[99999999999,1]", "mu[1,1](:, -1)", "[[[[", "H[1]@99", "heads=8", "heads=0", "layers=-1"),
]


HEADERS = [
    *("host", "origin", "content-length", "transfer-encoding", "accept", "if-none-match"),
    *("cookie", "range", "content-type", "sec-fetch-site", "expect", "upgrade", HEADER),
]


class Wire(asyncio.Transport):
    """A connection whose other end is a case."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 50000), "sockname": ("127.0.0.1", PORT)})
        self.written, self.closed = bytearray(), asyncio.Event()

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed.set()

    abort = close

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Routes:
    """Requests to every route, with parameters of its own kinds and of others."""

    def __init__(self, folder: Path) -> None:
        runs.BYTES = runs.ANSWERS = HELD
        agreement.find_spec = lambda name: None  # a process of its own is none of a case's
        catalogue, trainings = Catalogue(), Trainings(_trained(folder))
        catalogue.checkpoint = trainings.entry
        self.app = application(catalogue, folder, trainings)
        self.sessions, self.loop = Sessions(), asyncio.new_event_loop()
        self.thread = ThreadPoolExecutor(1)  # a test's own thread may have a loop already
        guard = Guard(self.app, PORT, self.sessions, SECONDS)
        self.config = configured(guard, SECONDS)
        self.config.timeout_keep_alive = 0
        self.config.load()
        self.bodies: dict[str, dict[str, Any]] = {}
        """What makes a run, by its key."""
        self.names: list[str] = []
        """Steps, tokens and the like, which parameters may be meant by."""
        self.known = {"models": self._ids("/api/models"), "training": ["one"]}
        for model in [*self.known["models"], "one@model"]:
            self._begin(model)
        self.known |= {"runs": list(self.bodies)}

    def _ids(self, path: str) -> list[str]:
        return [one["id"] for one in self._told(self.request("GET", path))]

    def _begin(self, model: str) -> None:
        """A run of a model, what there is in it, and what is compiled to go on with it."""
        about = self._told(self.request("GET", f"/api/models/{model}"))
        source = {"text": about["text"]} if about.get("text") else {"example": 0}
        source = {"ids": [1, 2, 3]} if model == "one@model" else source
        for more in ({}, {"cuts": ["P[1,1]"]}):
            body = {"model": model, **source, **more}
            said = self._told(self.request("POST", "/api/runs", json.dumps(body).encode()))
            if "id" not in said:
                continue
            self.bodies[said["id"]] = body
            told = self._told(self.request("GET", f"/api/runs/{said['id']}"))
            names = [step["name"] for step in told["steps"]]
            self.names += sorted({*names[:40], *names[-10:]})
            self.request("POST", f"/api/runs/{said['id']}/continue", b'{"tokens": 2}')

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        head = self._head(method, path) + "content-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\n\r\n"
        return self._answer([head.encode() + body])

    def _head(self, method: str, path: str) -> str:
        key = f"{HEADER}: {self.sessions.key}\r\nconnection: close\r\n"
        return f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{PORT}\r\n{key}"

    def _answer(self, parts: list[bytes], leaves: bool = False) -> bytes:
        sent = self._send(parts, leaves)
        return self.thread.submit(self.loop.run_until_complete, sent).result()

    async def _send(self, parts: list[bytes], leaves: bool = False) -> bytes:
        """The answer to bytes that come in parts; who sends them may leave before it is there."""
        wire, state = Wire(), ServerState()
        protocol: Any = self.config.http_protocol_class(self.config, state, {}, self.loop)
        protocol.connection_made(wire)
        for part in parts:
            if part and not wire.is_closing():
                protocol.data_received(part)
            await asyncio.sleep(0)
        if not leaves:
            try:
                await asyncio.wait_for(wire.closed.wait(), HANGING)
            except TimeoutError:
                raise Finding("there is no answer, and no end") from None
        protocol.connection_lost(None)
        if state.tasks and (await asyncio.wait(state.tasks, timeout=HANGING))[1]:
            raise Finding("the work does not end when its asker leaves")
        return bytes(wire.written)

    def _told(self, answer: bytes) -> Any:
        return json.loads(answer.partition(b"\r\n\r\n")[2])

    # Cases ---------------------------------------------------------------------

    def case(self, random: Random, place: Path) -> Any:
        route = random.choice([one for one in self.app.routes if isinstance(one, APIRoute)])
        method = random.choice(sorted(route.methods or {"GET"}))
        method = (
            random.choice(["PUT", "HEAD", "OPTIONS", "É"]) if not random.randrange(40) else method
        )
        keys = [random.choice(self.known["runs"]) for _ in range(2)]
        path = self._path(random, route, iter(keys))
        body = self._body(random, route, keys)
        head = self._head(method, path)
        if not random.randrange(8):
            head += _header(random)
        parts, leaves = _sent(random, head, body), not random.randrange(12)
        before = [self.bodies[key] for key in keys if f"/{key}" in path]
        (place / "request").write_bytes(b"".join(parts))
        (place / "before.json").write_text(json.dumps([before, leaves]))

        def asked() -> None:
            for one in before:
                self.request("POST", "/api/runs", json.dumps(one).encode())
            answer = self._answer(parts, leaves)
            status = int(answer[9:12]) if answer else 0
            if status >= 500:
                raise Finding(f"{status} to {method} {route.path}: {answer[-300:]!r}")
            if not 200 <= status < 400:
                said = answer.partition(b"\r\n\r\n")[2].decode(errors="replace")
                raise VesaliusError(said[:5000] or f"nothing but {status}")

        return asked

    def _path(self, random: Random, route: APIRoute, keys: Iterator[str]) -> str:
        kind = route.path.split("/")[2] if route.path.count("/") > 1 else ""
        found = route.path
        for one in route.dependant.path_params:
            value: Any = self._value(random, one.field_info.annotation)
            if one.name in ("key", "other") and random.randrange(12):
                some = random.choice(self.known.get(kind, [""]))
                value = next(keys) if kind == "runs" else some
            written = quote(_text(value), safe=random.choice(["", "[],@", "/"]))
            found = re.sub(r"\{" + one.name + r"(:path)?\}", lambda _, to=written: to, found)
        pairs = []
        for one in route.dependant.query_params:
            for _ in range(random.choice([0, 1, 1, 1, 1, 2]) if random.randrange(30) else 70):
                value = self._value(random, one.field_info.annotation)
                pairs.append((one.alias, _text(value)))
        if not random.randrange(10):
            pairs.append((_text(random.choice(STRANGE)), _text(random.choice(STRANGE))))
        query = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)
        return f"{found}?{query}" if query else found

    def _value(self, random: Random, kind: Any) -> Any:
        """Something of a kind, and now and then of no kind that is asked for."""
        if not random.randrange(10):
            return random.choice(STRANGE)
        inner = typing.get_args(kind)
        if typing.get_origin(kind) is Literal:
            return random.choice(inner)
        if typing.get_origin(kind) is list:
            return [self._value(random, inner[0]) for _ in range(random.choice([0, 1, 2, 5]))]
        if inner:
            return self._value(random, random.choice(inner))
        if kind is bool:
            return random.random() < 0.5
        if kind is float:
            return random.choice([0.0, 0.1, 0.9, 1.0, 2.5, -1.0])
        if kind is int:
            return random.choice(PLAIN)
        if kind is type(None):
            return None
        pool = (self.names, STRANGE, self.known["models"], list(self.bodies), ["He shook", "1 2"])
        return random.choice(random.choice(pool))

    def _body(self, random: Random, route: APIRoute, keys: list[str]) -> bytes:
        if route.body_field is None:
            return random.choice([b"", b"", b"{}", _file(random)])
        kind: type[BaseModel] = route.body_field.field_info.annotation  # type: ignore[assignment]
        said = {
            name: self._value(random, field.annotation)
            for name, field in kind.model_fields.items()
            if field.is_required() or random.randrange(3) == 0
        }
        if "model" in said and random.randrange(8):
            said |= random.choice(list(self.bodies.values()))
        if "source" in said and random.randrange(3):
            said["source"] = keys[0]
        written = json.dumps(said).encode()
        match random.randrange(10):
            case 0 | 1:
                return json_changed(random, said, [said])
            case 2:
                return bytes_changed(random, written, [written])
        return written


def _trained(folder: Path) -> Path:
    """A training run with a model, and lines of metrics some of which are damaged."""
    one = folder / "runs" / "one"
    settings = {"layers": 1, "embedding": 8, "heads": 2, "vocabulary": 9, "context": 8}
    vs.create("gpt2", **settings).save(one / "model")
    lines = ['{"kind": "train", "step": 1, "loss": 2}', '{"kind": "valid", "step": 1, "loss": NaN}']
    lines += ['{"kind": [], "step": 2}', '{"kind": "train", "step": 1e999}', "[[", '"', "7", ""]
    (one / "metrics.jsonl").write_text("\n".join(lines))
    (folder / "index.html").write_text("<!doctype html><title>Vesalius</title>")
    return folder / "runs"


def _text(value: Any) -> str:
    """A value as an address has it, which has bytes and no halves of letters."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode()


def _file(random: Random) -> bytes:
    """A picture or an array for an upload, whole or damaged."""
    values = np.arange(28 * 28, dtype=np.uint8).reshape(28, 28)
    head = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
    said = b"{'descr': '|u1', 'fortran_order': False, 'shape': (28, 28), }"
    whole = head + said.ljust(117) + b"\n" + values.tobytes()
    return random.choice([whole, bytes_changed(random, whole, [whole]), b"a,b\n1,2\n3,nan\n"])


def _header(random: Random) -> str:
    """A header that decides something, said again or otherwise."""
    name = random.choice(HEADERS)
    values = ["", "-1", "1e3", "chunked", "gzip, chunked", "text/event-stream", "null", '"x"', "*"]
    values += ["a" * 70_000, "bytes=0-1", "100-continue", "websocket", "application/xml", "\x7f"]
    return f"{name}: {random.choice(values)}\r\n"


def _sent(random: Random, head: str, body: bytes) -> list[bytes]:
    """The bytes of a request: whole, in chunks, cut off, or damaged."""
    types = "content-type: application/json\r\n" if random.randrange(8) else ""
    start = f"{head}{types}".encode("utf-8", "replace")
    match random.randrange(24):
        case 0:  # less than it says, and then nothing
            return [start + b"content-length: %d\r\n\r\n" % (len(body) + 9), body]
        case 1:
            return [start[: random.randrange(len(start))]]
        case 2:
            whole = start + b"content-length: %d\r\n\r\n" % len(body) + body
            return [bytes_changed(random, whole, [whole])]
        case 3:
            chunks = b"".join(b"%x\r\n%c\r\n" % (1, byte) for byte in body[:300])
            return [start + b"transfer-encoding: chunked\r\n\r\n", chunks, b"0\r\n\r\n"]
        case 4:  # more than it says
            return [start + b"content-length: %d\r\n\r\n" % (len(body) // 2) + body]
    whole = start + b"content-length: %d\r\n\r\n" % len(body) + body
    at = random.randrange(len(whole))
    return [whole] if random.randrange(3) else [whole[:at], whole[at:]]
