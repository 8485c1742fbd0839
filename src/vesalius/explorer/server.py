"""The server at work: a port of the loopback, a session, and a browser if there is one."""

import errno
import logging
import os
import signal
import socket
import sys
import threading
import webbrowser
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from threadpoolctl import threadpool_limits

from vesalius.errors import WrongKind
from vesalius.explorer.app import PAGE, application
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.guards import SECONDS, Address, Guard, literal
from vesalius.explorer.sessions import Sessions
from vesalius.explorer.timeouts import impatient
from vesalius.explorer.training import Trainings

PORT, TRIED = 8731, 64
"""The first port that is tried unless one is said, and how many after it."""
HOSTS = ("127.0.0.1", "localhost", "::1")
HEAD = 1 << 20
"""Bytes of a request's headers: other servers of this machine can give the browser cookies for
every port, 180 of 4 KiB, and must not lock the page out by them."""


GRACE = 1.0
"""Seconds after the first signal in which answers may be finished."""


class Prompt(uvicorn.Server):
    """A server that ends soon after it is told to, and at once when it is told again, whatever a
    thread still computes."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        code = 0 if sig == signal.SIGINT else 128 + sig
        if self.should_exit:
            os._exit(code)
        timer = threading.Timer(GRACE, os._exit, (code,))
        timer.daemon = True
        timer.start()
        super().handle_exit(sig, frame)


class NoPort(OSError):
    """A port that is taken or may not be had."""


class NoPage(OSError):
    """A checkout whose page has not been built."""


@dataclass
class Explorer:
    """A server that is ready to run, and where it will be found."""

    server: uvicorn.Server
    listening: socket.socket
    host: str
    port: int
    sessions: Sessions
    catalogue: Catalogue
    exposed: Address | None = None

    def __post_init__(self) -> None:
        self.token = self.sessions.token()
        self.sessions.announce = self._announce

    @property
    def address(self) -> str:
        """Where the page is, with a token that works once."""
        return self._with(self.token)

    def _with(self, token: str) -> str:
        return f"http://{self.named}:{self.port}/?token={token}"

    def _announce(self, token: str) -> None:
        """Whoever opens an old address finds a new one in the terminal, which is theirs alone."""
        said = "that address was opened before; here is a new one: %s"
        logging.getLogger("vesalius").warning(said, self._with(token))

    @property
    def named(self) -> str:
        """The host as a browser on this machine has it."""
        if self.host == "localhost":
            return self.host
        address = ip_address(self.host)
        if address.is_unspecified:
            return "127.0.0.1" if address.version == 4 else "[::1]"
        return literal(address)

    def to_json(self) -> dict[str, Any]:
        return {"address": self.address, "host": self.host, "port": self.port, "token": self.token}

    def run(self, browser: bool = False) -> None:
        """Answer until it is interrupted."""
        logging.getLogger("asyncio").setLevel(logging.ERROR)  # pages that leave are no news
        threadpool_limits(1, user_api="blas")  # the other cores are for the browser
        threading.Thread(target=self._warm, daemon=True).start()
        if browser and (sys.platform != "linux" or _has_screen()):
            threading.Thread(target=self._open, daemon=True).start()
        try:
            self.server.run(sockets=[self.listening])
        except KeyboardInterrupt:  # the way to end it
            pass
        finally:
            self.listening.close()

    def _open(self) -> None:
        """In a browser, whose arguments others can read: its token is not the printed one."""
        webbrowser.open(self._with(self.sessions.token()))

    def _warm(self) -> None:
        """Load the first model while the browser opens."""
        with self.catalogue.first.at_work():
            pass


def explorer(
    model: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    page: Path = PAGE,
    runs: Path | None = None,
    seconds: float = SECONDS,
    expose: bool = False,
) -> Explorer:
    """A server for one person at this computer; ``runs`` is a folder of training runs.

    Slow senders are cut after some ``seconds``. ``expose`` lets it answer on an address of the
    network, to whoever has the token.
    """
    exposed = None if host in HOSTS else _address(host, expose)
    catalogue, trainings = Catalogue(model), Trainings(runs)
    catalogue.checkpoint = trainings.entry
    if not (page / "index.html").exists():
        raise NoPage("the page of the explorer is not built; 'make page' builds it, with Node")
    listening = _listen(host, port)
    port = int(listening.getsockname()[1])
    sessions = Sessions()
    guard = Guard(application(catalogue, page, trainings), port, sessions, seconds, exposed)
    server = Prompt(configured(guard, seconds))
    return Explorer(server, listening, host, port, sessions, catalogue, exposed)


def configured(guard: Guard, seconds: float) -> uvicorn.Config:
    """How requests are read; slow senders are cut after some ``seconds``."""
    return uvicorn.Config(
        guard,
        http=impatient(seconds),
        h11_max_incomplete_event_size=HEAD,
        log_level="error",  # what is no request is answered with 400, and is no news
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
    )


def _address(host: str, expose: bool) -> Address:
    """An address of this machine that others can reach."""
    if not expose:
        raise WrongKind(
            f"the explorer answers on the loopback only, {', '.join(HOSTS)}; got {host!r}. From "
            f"another machine, ssh -L brings its port here; --expose lets the network in"
        )
    try:
        return ip_address(host)
    except ValueError as error:
        raise WrongKind(
            f"--host takes an address of this machine, as 192.168.0.7 or 0.0.0.0; got {host!r}"
        ) from error


def _listen(host: str, port: int | None) -> socket.socket:
    """The port that was said, or the next one that is free."""
    ports = range(PORT, PORT + TRIED) if port is None else (port,)
    for one in ports:
        found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        if os.name == "posix":  # so that a server may follow another at once
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, one))
            found.listen(128)
            return found
        except OSError as error:
            found.close()
            why = error.strerror or str(error)
            if error.errno == errno.EADDRNOTAVAIL:
                raise NoPort(f"{host} is no address of this machine ({why})") from error
            if port is not None:
                raise NoPort(
                    f"port {port} cannot be had ({why}); without --port the next free one is taken"
                ) from error
    raise NoPort(f"no port from {ports[0]} to {ports[-1]} is free; say another with --port")


def _has_screen() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
