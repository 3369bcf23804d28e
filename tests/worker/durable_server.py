"""A server of a test's own that keeps its promises when it is stopped, and can be started again."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from tests import servers

SETTINGS = "-c listen_addresses= -c unix_socket_directories={home} -c max_connections=100 -c shared_buffers=128MB"


class DurableServer(servers.Server):
    """Durable, unlike its parent."""

    def __init__(self, binaries: Path, folder: str | None = None) -> None:
        super().__init__(binaries, folder)
        self.halt("fast")
        self.start()

    def start(self) -> None:
        settings = SETTINGS.format(home=self.home)
        self._run("pg_ctl", "-D", self.data, "-l", str(self.home / "log"), "-o", settings, "-w", "start")

    def halt(self, mode: str) -> None:
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not (self.home / "data" / "postmaster.pid").exists():
            self.start()
        self.stop()
