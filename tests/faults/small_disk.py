"""A server on a small disk of its own, which can be filled and freed."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.worker.durable_server import DurableServer

SIZE: Final = "160m"
SETTINGS: Final = {"max_wal_size": "32MB", "min_wal_size": "32MB", "wal_recycle": "off", "max_connections": "30"}


class SmallDisk:
    """A file system in memory, which root can mount."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="howdah-disk-"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(self.folder)], check=True)

    def fill(self) -> None:
        """To the last byte."""
        with (self.folder / "ballast").open("wb", buffering=0) as ballast:
            for size in (2**20, 2**12, 1):
                self._fill(ballast.fileno(), b"\0" * size)

    def free(self) -> None:
        (self.folder / "ballast").unlink()

    def _fill(self, file: int, block: bytes) -> None:
        try:
            while os.write(file, block) == len(block):
                pass
        except OSError:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
        self.folder.rmdir()


class CrampedServer(DurableServer):
    """Its data is on a small disk, and its log is not."""

    def __init__(self, binaries: Path, disk: SmallDisk) -> None:
        self._disk = disk
        super().__init__(binaries, SETTINGS)

    @property
    def data(self) -> str:
        return str(self._disk.folder / "data")

    def revive(self) -> None:
        """Starts the server again after it has ended for want of room for its log, as a supervisor does."""
        if self._is_gone():
            self.start()

    def _is_gone(self) -> bool:
        try:
            os.kill(int(Path(self.data, "postmaster.pid").read_text().split()[0]), 0)
        except (OSError, ValueError):
            return True
        return False
