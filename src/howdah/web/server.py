"""The dashboard, served alone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from howdah.errors import InvalidInput
from howdah.web.app import Dashboard

_GRACE: Final = 3


class PromptProtocol(asyncio.Protocol):
    """The server's own protocol, but a connection on which no request begins is closed: a thousand idle ones would close the dashboard."""

    PATIENCE: ClassVar[float] = 10
    """Seconds for the first request, and for the rest of any that has begun to arrive."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport = transport
        self._alarm: asyncio.TimerHandle | None = None
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._rest()

    def _watch(self) -> None:
        cycle: Any = getattr(self, "cycle", None)
        if cycle is not None and not cycle.response_complete:
            self._rest()
        elif self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(self.PATIENCE, self._transport.close)

    def _rest(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def _protocol() -> type[asyncio.Protocol]:
    made: type[asyncio.Protocol] = type("_Prompt", (PromptProtocol, AutoHTTPProtocol), {})
    return made


class StoppingServer(uvicorn.Server):
    """Ends the streams first: it would wait for them until its grace has passed."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        dashboard: Any = self.config.app
        await dashboard.aclose()
        await super().shutdown(sockets)


def server_of(dashboard: Dashboard, host: str, port: int) -> StoppingServer:
    """A server with bounds for what strangers may send."""
    config = uvicorn.Config(
        dashboard,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=30,
        http=_protocol(),
        limit_concurrency=1_000,
        h11_max_incomplete_event_size=16 * 1024,
    )
    return StoppingServer(config)


def listen(host: str, port: int) -> socket.socket:
    """A socket that answers from now on. Raises InvalidInput."""
    if not 0 <= port <= 65_535:
        raise InvalidInput(f"port must be between 0 and 65535, not {port}: 0 is a free one")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InvalidInput(
            f"cannot listen at {host}, port {port}: {error.strerror or error}; choose another one with --port"
        ) from None


@contextlib.contextmanager
def serve(dashboard: Dashboard, *, port: int = 0) -> Iterator[str]:
    """Serves the dashboard on this machine, from a thread, and yields its address: beside a WSGI app, which cannot mount it.

    port: 0 for a free one.
    """
    server = server_of(dashboard, "127.0.0.1", port)
    listener = listen("127.0.0.1", port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="howdah-web", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(2 * _GRACE)
        listener.close()
