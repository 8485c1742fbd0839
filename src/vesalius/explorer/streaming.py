"""Work for somebody who may leave: server-sent events while it goes on, and an end when they do.

The work runs on a thread of its own, which asks at every step whether anybody still waits.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from threading import Event
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vesalius.errors import VesaliusError
from vesalius.machine.cancellation import cancelled_by

Tell = Callable[[str, Any], None]
"""Sends an event by its name, with JSON."""


class Stopped(Exception):
    """Nobody waits for this any more."""


class Stop:
    """A flag that ends work at its next step."""

    def __init__(self) -> None:
        self._set = Event()

    def set(self) -> None:
        self._set.set()

    def __bool__(self) -> bool:
        return self._set.is_set()

    def __call__(self) -> None:
        if self._set.is_set():
            raise Stopped


async def attended(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """An application's answer, whose work ends at its next step when its asker leaves.

    The body has been read already; ``scope["stop"]`` ends the work, too.
    """
    stop, left = Stop(), asyncio.Event()
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def leave() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        stop.set()
        left.set()

    async def again() -> Message:
        if waiting:
            return waiting.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    leaving = asyncio.ensure_future(leave())
    try:
        with cancelled_by(stop):
            await app({**scope, "stop": stop}, again, send)
    finally:
        stop.set()
        leaving.cancel()


class Events(Response):
    """Server-sent events of ``work(tell, stop)``; its failure is the last of them."""

    media_type = "text/event-stream"

    def __init__(
        self,
        work: Callable[[Tell, Stop], None],
        failed: Callable[[VesaliusError], dict[str, Any]],
    ) -> None:
        self.work, self.failed = work, failed
        self.status_code, self.background, self.body = 200, None, b""
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[bytes | None]()
        stop: Stop = scope["stop"]

        def put(item: bytes | None) -> None:
            loop.call_soon_threadsafe(waiting.put_nowait, item)

        def tell(name: str, about: Any) -> None:
            stop()
            put(f"event: {name}\ndata: {json.dumps(about)}\n\n".encode())

        def run() -> None:
            try:
                self.work(tell, stop)
            except Stopped:
                pass
            except VesaliusError as error:
                put(f"event: failure\ndata: {json.dumps(self.failed(error))}\n\n".encode())
            finally:
                put(None)

        headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        working = asyncio.ensure_future(run_in_threadpool(run))
        try:
            async for chunk in _taken(waiting):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            stop.set()
            await asyncio.shield(working)


async def _taken(waiting: "asyncio.Queue[bytes | None]") -> AsyncIterator[bytes]:
    while (item := await waiting.get()) is not None:
        yield item
