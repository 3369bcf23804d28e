"""The producers: threads that enqueue at a steady rate, and record which jobs were acknowledged."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from benchmarks.soak.load import ATTEMPTS, QUICK, piece
from howdah.db.outage import is_temporary
from howdah.queue import JobQueue

THREADS: Final = 4


class Producers:
    """Enqueue from ``begin`` until ``stop``, one job after the other, and a ``burst`` where that is asked for."""

    def __init__(self, queue: JobQueue, rate: int) -> None:
        self.acknowledged: set[bytes] = set()
        self.unanswered = 0
        """Jobs of calls that raised, because the database could not be reached: they may be there, or not."""
        self._queue = queue
        self._rate = rate
        self._numbers = itertools.count()
        # Of their own, so that a burst does not change which jobs come besides.
        self._burst_numbers = itertools.count(-1, -1)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def begin(self) -> None:
        began = time.monotonic()
        turns = itertools.count()
        for _ in range(THREADS):
            self._start(lambda: self._produce(began, turns))

    def burst(self, jobs: int) -> None:
        """So many at once, by one call."""
        self._start(lambda: self._burst(jobs))

    def stop(self) -> None:
        """Returns when the last call is over."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        """Raises what a call has raised that is no outage."""
        if self._error is not None:
            raise self._error

    def _produce(self, began: float, turns: Iterable[int]) -> None:
        for turn in turns:
            due = began + turn / self._rate
            if self._stopped.wait(max(due - time.monotonic(), 0)):
                return
            # When it was due, not when its turn came: a server that stalls the producers, too, must not look quick.
            job = piece(next(self._numbers), due)
            self._acknowledge(1, lambda: [self._queue.enqueue(job.job_type, job.data, **job.options).id])  # noqa: B023

    def _burst(self, jobs: int) -> None:
        due = time.monotonic()
        items = [{"n": next(self._burst_numbers), "due": due} for _ in range(jobs)]

        def enqueue() -> list[uuid.UUID]:
            return self._queue.enqueue_many(QUICK, items, max_attempts=ATTEMPTS, return_ids=True).ids or []

        self._acknowledge(jobs, enqueue)

    def _acknowledge(self, jobs: int, enqueue: Callable[[], list[uuid.UUID]]) -> None:
        try:
            ids = enqueue()
        except Exception as error:
            if not is_temporary(error):
                raise
            with self._lock:
                self.unanswered += jobs
        else:
            with self._lock:
                self.acknowledged.update(id.bytes for id in ids)

    def _start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001
                self._error = error

        thread = threading.Thread(target=run, name="howdah-soak", daemon=True)
        self._threads.append(thread)
        thread.start()
