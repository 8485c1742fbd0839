"""How long a connection may take to say what it wants, and to read it: uvicorn waits for ever."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """A protocol that hangs up after some seconds without a request's headers, or in which nothing
    is read of an answer."""

    class Impatient(H11Protocol):
        timer: asyncio.TimerHandle | None = None
        unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transport.set_write_buffer_limits(0)  # so that the least that waits is told of
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
            self._read()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._look(self.transport.get_write_buffer_size() + 1)

        def resume_writing(self) -> None:
            self._read()
            super().resume_writing()

        def _look(self, before: int) -> None:
            """Go on waiting while less is left than before."""
            left = self.transport.get_write_buffer_size()
            if left < before:
                self.unread = self.loop.call_later(seconds, self._look, left)
            else:
                self.transport.abort()

        def _read(self) -> None:
            if self.unread is not None:
                self.unread.cancel()
                self.unread = None

        def _wait(self) -> None:
            if self.timer is None:
                self.timer = self.loop.call_later(seconds, self.transport.close)

        def _arrived(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

    return Impatient
