"""The server at work: a port of the loopback, a token, and a browser if there is one."""

import logging
import os
import secrets
import socket
import sys
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from threadpoolctl import threadpool_limits

from vesalius.errors import WrongKind
from vesalius.explorer.catalogue import Catalogue
from vesalius.explorer.guards import SECONDS, Guard
from vesalius.explorer.patience import impatient
from vesalius.explorer.server import PAGE, application
from vesalius.explorer.training import Trainings

PORT, TRIED = 8731, 64
"""The first port that is tried unless one is said, and how many after it."""
HOSTS = {"127.0.0.1": socket.AF_INET, "localhost": socket.AF_INET, "::1": socket.AF_INET6}


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
    token: str
    catalogue: Catalogue

    @property
    def address(self) -> str:
        return f"http://{self.named}:{self.port}/?token={self.token}"

    @property
    def named(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def to_json(self) -> dict[str, Any]:
        return {"address": self.address, "host": self.host, "port": self.port, "token": self.token}

    def run(self, browser: bool = False) -> None:
        """Answer until it is interrupted."""
        logging.getLogger("asyncio").setLevel(logging.ERROR)  # pages that leave are no news
        threadpool_limits(1, user_api="blas")  # the other cores are for the browser
        threading.Thread(target=self._warm, daemon=True).start()
        if browser and (sys.platform != "linux" or _has_screen()):
            threading.Thread(target=webbrowser.open, args=(self.address,), daemon=True).start()
        try:
            self.server.run(sockets=[self.listening])
        except KeyboardInterrupt:  # the way to end it
            pass
        finally:
            self.listening.close()

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
) -> Explorer:
    """A server for one person at this computer; ``runs`` is a folder of training runs.

    Slow senders are cut after some ``seconds``.
    """
    if host not in HOSTS:
        raise WrongKind(
            f"the explorer answers on the loopback only, {', '.join(HOSTS)}; got {host!r}. "
            f"From another machine, ssh -L brings its port here"
        )
    catalogue, trainings = Catalogue(model), Trainings(runs)
    catalogue.checkpoint = trainings.entry
    if not (page / "index.html").exists():
        raise NoPage("the page of the explorer is not built; 'make page' builds it, with Node")
    listening = _listen(host, port)
    port = int(listening.getsockname()[1])
    token = secrets.token_urlsafe(24)
    settings = uvicorn.Config(
        Guard(application(catalogue, page, trainings), port, token, seconds),
        http=impatient(seconds),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
    )
    return Explorer(uvicorn.Server(settings), listening, host, port, token, catalogue)


def _listen(host: str, port: int | None) -> socket.socket:
    """The port that was said, or the next one that is free."""
    ports = range(PORT, PORT + TRIED) if port is None else (port,)
    for one in ports:
        found = socket.socket(HOSTS[host])
        if os.name == "posix":  # so that a server may follow another at once
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, one))
            found.listen(128)
            return found
        except OSError as error:
            found.close()
            if port is not None:
                why = error.strerror or str(error)
                raise NoPort(
                    f"port {port} cannot be had ({why}); without --port the next free one is taken"
                ) from error
    raise NoPort(f"no port from {ports[0]} to {ports[-1]} is free; say another with --port")


def _has_screen() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
