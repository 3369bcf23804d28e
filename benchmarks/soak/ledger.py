"""The notes of the handlers: a file that they append to, independent of the database.

Records are of one size, and each is written by one call, so that those of many processes stand whole beside each other.
Times are monotonic: all processes of a machine share that clock.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from howdah.model.job import Job

VARIABLE: Final = "HOWDAH_BENCH_LEDGER"
START: Final = 0
END: Final = 1
_RECORD: Final = struct.Struct("=16sqiidd")
_AT_ONCE: Final = 10_000


class Note(NamedTuple):
    """A handler has begun, or is about to return."""

    id: bytes
    token: int
    kind: int
    pid: int
    at: float
    due: float
    """When the job was to begin; 0 where it does not measure the latency of the queue."""


def note(kind: int, job: Job, due: float) -> None:
    """Appends a line about the job that runs."""
    os.write(_file(), _RECORD.pack(job.id.bytes, job.token, kind, _worker(), time.monotonic(), due))


@functools.cache
def _file() -> int:
    return os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND)


@functools.cache
def _worker() -> int:
    """The worker's process, also inside of a child of it."""
    parent = multiprocessing.parent_process()
    return os.getpid() if parent is None else parent.pid or 0


class Ledger:
    """The file, as the bench reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()
        self._read_until = 0

    def environment(self) -> dict[str, str]:
        """The environment by which a worker's handlers find the file."""
        return {VARIABLE: str(self.path)}

    def new(self) -> list[Note]:
        """What was written since this was last called."""
        notes = list(self._from(self._read_until))
        self._read_until += len(notes) * _RECORD.size
        return notes

    def all(self) -> Iterator[Note]:
        return self._from(0)

    def _from(self, place: int) -> Iterator[Note]:
        with self.path.open("rb") as file:
            file.seek(place)
            while chunk := file.read(_AT_ONCE * _RECORD.size):
                # The last record may be incomplete.
                whole = len(chunk) - len(chunk) % _RECORD.size
                yield from map(Note._make, _RECORD.iter_unpack(chunk[:whole]))
