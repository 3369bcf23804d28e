"""The dashboard, served alone."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any, Final

import uvicorn

from howdah.errors import InvalidInput
from howdah.web.app import Dashboard

_GRACE: Final = 3


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
        limit_concurrency=1_000,
        h11_max_incomplete_event_size=16 * 1024,
    )
    return StoppingServer(config)


def listen(host: str, port: int) -> socket.socket:
    """A socket that answers from now on. Raises InvalidInput."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InvalidInput(
            f"cannot listen at {host}, port {port}: {error.strerror or error}; choose another one"
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
