"""What every request passes before it is answered: who asks, from where, how much, how many.

The page is for one person at one computer. Another site that the browser has open may neither read
nor write here: the host must be the loopback, the origin our own, the key that of the session.
Where others are let in, the host must be an address: a name can be made to lead here, an address
cannot.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from vesalius.explorer.sessions import HEADER, Sessions, WrongToken, sender
from vesalius.explorer.streaming import attended

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Address = IPv4Address | IPv6Address

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SESSION = "/api/session"
"""Where a token becomes the key of a session; all else below ``/api/`` wants the key."""
BODY, UPLOAD, STRANGE = 1 << 20, 16 << 20, 1 << 12
"""Bytes of a request: of JSON, of a file, and of whoever has no key."""
DROPPED = 2 * UPLOAD
"""Bytes that are read at all before the connection is closed."""
AT_ONCE = 32
"""Requests with the key that are answered at the same time; others take nobody's place."""
SECONDS = 10.0
"""In which a request's headers have to arrive, and then its body; and some of what is sent."""
POLICY = (
    "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""A picture that is saved as PNG is an image of the page's own making first: blob."""
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class Refused(Exception):
    """A request that is not answered: the status, and a sentence for whoever sent it."""

    def __init__(self, status: int, sentence: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers


class Guard:
    """The application behind its guards; ``exposed`` is an address of the network, or none."""

    def __init__(
        self,
        app: App,
        port: int,
        sessions: Sessions,
        seconds: float = SECONDS,
        exposed: Address | None = None,
    ) -> None:
        self.app, self.port, self.sessions, self.seconds = app, port, sessions, seconds
        self.exposed = exposed
        self.busy = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return None
        send = _with_headers(send)
        try:
            self._check(scope)
            try:
                body = await asyncio.wait_for(_body(scope, receive), self.seconds)
            except TimeoutError:
                raise Refused(408, "the request took too long to arrive") from None
            if scope["path"] == SESSION:
                return await self._open(scope, body, send)
            await self._answer(scope, body, receive, send)
        except Refused as refused:
            await _refuse(send, refused)

    async def _answer(
        self, scope: MutableMapping[str, Any], body: bytes, receive: Receive, send: Send
    ) -> None:
        """The application's answer; the page's own files are at hand and wait for nothing."""
        if not scope["path"].startswith("/api/"):
            return await attended(self.app, scope, body, receive, send)
        if self.busy >= AT_ONCE:
            raise Refused(503, "too many requests at once", (b"retry-after", b"1"))
        self.busy += 1
        try:
            await attended(self.app, scope, body, receive, send)
        finally:
            self.busy -= 1

    def _check(self, scope: MutableMapping[str, Any]) -> None:
        headers = _single(scope["headers"])
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise Refused(400, "this server answers to its own address only")
        if "origin" in headers and headers["origin"] != f"http://{host}":
            raise Refused(403, "this comes from another page")
        if scope["path"].startswith("/api/"):
            if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
                raise Refused(403, "this comes from another site")
            if scope["path"] != SESSION and not self.sessions.knows(headers.get(HEADER, "")):
                raise Refused(
                    403,
                    "this page has no session here, or one of an earlier start; open the address "
                    "that 'vesalius explore' printed in its terminal",
                )

    async def _open(self, scope: MutableMapping[str, Any], body: bytes, send: Send) -> None:
        """A token becomes the key, which no address and no cookie holds."""
        if scope["method"] != "POST":
            raise Refused(405, "a session is opened by a POST", (b"allow", b"POST"))
        try:
            token = json.loads(body)["token"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Refused(422, 'expected {"token": "…"}') from None
        try:
            key = self.sessions.open(str(token), sender(scope))
        except WrongToken as error:
            raise Refused(403, str(error)) from None
        said = json.dumps({"key": key}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(said)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": said})

    def _is_ours(self, host: str) -> bool:
        name = host.removesuffix(f":{self.port}")
        if name == host and self.port != 80:
            return False
        if name in LOOPBACK or self.exposed is None:
            return name in LOOPBACK
        try:
            address = ip_address(name[1:-1] if name.startswith("[") else name)
        except ValueError:
            return False
        return name == literal(address) and (self.exposed.is_unspecified or address == self.exposed)


def literal(address: Address) -> str:
    """An address as it stands in that of a page."""
    return f"[{address}]" if address.version == 6 else str(address)


def _single(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; one that decides may come only once."""
    found: dict[str, str] = {}
    for name, value in headers:
        key = name.decode("latin-1").lower()
        if key in found and key in ("host", "origin", "content-length"):
            raise Refused(400, f"the header {key} came twice")
        found[key] = value.decode("latin-1")
    return found


async def _body(scope: MutableMapping[str, Any], receive: Receive) -> bytes:
    """The whole body, counted while it arrives: chunks have no length beforehand.

    Of one that is too long, a while more is read and dropped, so that its sender hears why.
    """
    headers = _single(scope["headers"])
    path = scope["path"]
    most = BODY if path.startswith("/api/") and path != SESSION else STRANGE
    most = UPLOAD if path == "/api/uploads" else most
    length = headers.get("content-length", "0")
    too_long = Refused(413, f"a request may have {most:,} bytes")
    if not length.isdecimal() or int(length) > DROPPED:
        raise too_long
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the request broke off")
        part = message.get("body", b"")
        size += len(part)
        if size > DROPPED:
            raise too_long
        if size > most:
            chunks.clear()
        else:
            chunks.append(part)
        if not message.get("more_body"):
            break
    if size > most:
        raise too_long
    return b"".join(chunks)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message["headers"]}
            more = [pair for pair in HEADERS if pair[0] not in there]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


async def _refuse(send: Send, refused: Refused) -> None:
    body = refused.sentence.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *refused.headers,
    ]
    if refused.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
