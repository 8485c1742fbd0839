"""How long a connection may take to say what it wants: uvicorn waits for headers for ever."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """A protocol that hangs up on whoever has not sent a request's headers after some seconds."""

    class Impatient(H11Protocol):
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._arrived()
            elif self.cycle is None or self.cycle.response_complete:
                self._wait()  # the first bytes of another request

        def connection_lost(self, exc: Exception | None) -> None:
            self._arrived()
            super().connection_lost(exc)

        def _wait(self) -> None:
            if self.timer is None:
                self.timer = self.loop.call_later(seconds, self.transport.close)

        def _arrived(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

    return Impatient
