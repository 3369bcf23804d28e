"""The running count of a demo: written by the workers' threads, read by the view."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator

from howdah.cli.demo.workload import Kind


@dataclasses.dataclass(slots=True)
class Station:
    """What one worker is doing at the moment."""

    kind: Kind | None = None
    subject: str = ""
    stage: str = ""
    percent: int = 0
    waiting: int = 0


class Tally:
    """How many jobs of each kind have ended, and what goes on meanwhile."""

    def __init__(self, totals: dict[Kind, int], workers: int) -> None:
        self.totals = totals
        self.ended: collections.Counter[Kind] = collections.Counter()
        self.ended_after: dict[Kind, float] = {}
        self.batches = 0
        self.claimed = 0
        self.retried = 0
        self.failed = 0
        self.cancelled = 0
        self.stations = [Station() for _ in range(workers)]
        self.over = threading.Event()
        self._began = time.monotonic()
        self._lock = threading.Lock()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def total(self) -> int:
        return sum(self.totals.values())

    def count_batch(self, size: int) -> None:
        with self._lock:
            self.batches += 1
            self.claimed += size

    def count_completed(self, kind: Kind) -> None:
        with self._ending(kind):
            pass

    def count_failed(self, kind: Kind) -> None:
        with self._ending(kind):
            self.failed += 1

    def count_cancelled(self, kind: Kind) -> None:
        with self._ending(kind):
            self.cancelled += 1

    def count_retried(self) -> None:
        with self._lock:
            self.retried += 1

    @contextlib.contextmanager
    def _ending(self, kind: Kind) -> Iterator[None]:
        with self._lock:
            yield
            self.ended[kind] += 1
            if self.ended[kind] == self.totals[kind]:
                self.ended_after[kind] = self.elapsed
            if self.ended.total() == self.total:
                self.over.set()
