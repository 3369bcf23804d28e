"""A durable server of a test's own, which can be stopped and started again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests import servers


class DurableServer(servers.Server):
    """Durable, unlike its parent; with settings of its own, if given."""

    def __init__(self, binaries: Path, settings: Mapping[str, str] | None = None, folder: str | None = None) -> None:
        self.own = dict(settings or {})
        super().__init__(binaries, folder)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "listen_addresses": "",
            "unix_socket_directories": str(self.home),
            "max_connections": "100",
            "shared_buffers": "128MB",
            **self.own,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not Path(self.data, "postmaster.pid").exists():
            self.start()
        self.stop()
