"""Who may use the page: a token that works once opens a session, whose key the page then holds.

An address stands where others can read it: in a browser's arguments, in a terminal. Its token is
therefore worth nothing after the first use, and on Linux never to another user of the machine. The
key is in no address and no cookie (the browser sends cookies to every port); the page keeps it and
sends it in a header, which no page of another origin can do.
"""

import os
import secrets
import sys
from collections.abc import Callable, MutableMapping
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

HEADER = "x-vesalius-session"
CONNECTIONS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Where Linux lists connections with the user of each end."""


class WrongToken(Exception):
    """A token that opens no session, and what to do instead."""


class Sessions:
    """The tokens that still work, and the key of the session that they open."""

    def __init__(self) -> None:
        self.key = secrets.token_urlsafe(24)
        self._fresh: set[str] = set()
        self._used: set[str] = set()
        self.announce: Callable[[str], None] = lambda token: None
        """Told of a new token when a used one comes again and no other is left."""

    def token(self) -> str:
        """A token that works once."""
        token = secrets.token_urlsafe(24)
        self._fresh.add(token)
        return token

    def open(self, token: str, user: int | None = None) -> str:
        """The key, in exchange for a token; ``user`` is who sent it, where that is known."""
        if user is not None and user not in (os.getuid(), 0):
            raise WrongToken("this token was sent by another user of this machine")
        if token in self._fresh:
            self._fresh.remove(token)
            self._used.add(token)
            return self.key
        if token not in self._used:
            raise WrongToken(
                "this address is of another start of 'vesalius explore'; open the one that is "
                "printed in its terminal now"
            )
        if not self._fresh:
            self.announce(self.token())
        raise WrongToken(
            "this address was opened before, and each opens the page in one browser; the terminal "
            "of 'vesalius explore' shows a new one"
        )

    def knows(self, key: str) -> bool:
        return secrets.compare_digest(key.encode(), self.key.encode())


def sender(scope: MutableMapping[str, Any]) -> int | None:
    """The user at the other end of a connection; None where this machine does not say."""
    client, server = scope.get("client"), scope.get("server")
    if sys.platform != "linux" or not client or not server:
        return None
    wanted = (_plain(client[0]), client[1]), (_plain(server[0]), server[1])
    port = f":{client[1]:04X}"
    for table in CONNECTIONS:
        if table.exists():
            for line in table.read_text().splitlines()[1:]:
                columns = line.split()
                here, there, user = columns[1], columns[2], columns[7]
                if here.endswith(port) and (_end(here), _end(there)) == wanted:
                    return int(user)
    return None


def _plain(text: str) -> str:
    """An address of IPv4 may be written as one of IPv6."""
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _end(text: str) -> tuple[str, int]:
    """``0100007F:1F90`` as an address and a port; the address has words in native byte order."""
    address, port = text.split(":")
    raw = bytes.fromhex(address)
    if sys.byteorder == "little":
        raw = b"".join(raw[k : k + 4][::-1] for k in range(0, len(raw), 4))
    return _plain(str(ip_address(raw))), int(port, 16)
