"""The dashboard, served alone."""

from __future__ import annotations

import socket
from typing import Any, Final

import uvicorn

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
