"""The ledger: what handlers record in a file, which survives their crashes.

Handlers append; tests read, and may send a word to all handlers. Times are monotonic, and comparable between the processes of one machine.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from howdah import Job

FILE = "HOWDAH_TEST_LEDGER"
WORKER = "HOWDAH_TEST_WORKER"


class Entry(NamedTuple):
    """A line: a word, its attempt, worker, process and time."""

    word: str
    job_type: str
    id: uuid.UUID
    token: int
    attempt: int
    worker: str
    pid: int
    at: float
    data: Any

    @property
    def hold(self) -> tuple[uuid.UUID, int]:
        """The claim that the attempt belongs to."""
        return self.id, self.token


def note(word: str, job: Job) -> None:
    """Appends a line about the job that runs."""
    worker = os.environ[WORKER]
    line = [word, job.job_type, str(job.id), job.token, job.attempts, worker, os.getpid(), time.monotonic(), job.data]
    file = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
        os.fsync(file)
    finally:
        os.close(file)


def heard(word: str) -> bool:
    """Whether the test has sent this word to all handlers."""
    return Path(os.environ[FILE]).with_name(f"said {word}").exists()


class Ledger:
    """What was written so far."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self, *words: str, where: Callable[[Entry], bool] = lambda _: True) -> list[Entry]:
        """The lines with one of these words (all of them, if none is given), in the order of their times."""
        if not self.path.exists():
            return []
        # A process that is killed as it writes leaves half a line at most, which is its last.
        lines = self.path.read_text().splitlines(keepends=True)
        entries = (_entry(line) for line in lines if line.endswith("\n"))
        chosen = (entry for entry in entries if (not words or entry.word in words) and where(entry))
        return sorted(chosen, key=lambda entry: entry.at)

    def say(self, word: str) -> None:
        """Sends this word to all handlers: ``heard`` returns true for it from now on."""
        self.path.with_name(f"said {word}").touch()

    def unsay(self, *words: str) -> None:
        for word in words:
            self.path.with_name(f"said {word}").unlink()

    def count(self, *words: str, where: Callable[[Entry], bool] = lambda _: True) -> int:
        return len(self.entries(*words, where=where))


def by_job(entries: Iterable[Entry]) -> dict[uuid.UUID, list[Entry]]:
    """The lines of each job."""
    found = defaultdict(list)
    for entry in entries:
        found[entry.id].append(entry)
    return found


def times(entries: Iterable[Entry]) -> Counter[uuid.UUID]:
    """How many of the lines each job has."""
    return Counter(entry.id for entry in entries)


def _entry(line: str) -> Entry:
    word, job_type, id, *others = json.loads(line)
    return Entry(word, job_type, uuid.UUID(id), *others)
