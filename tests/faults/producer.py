"""Producers, which record which of their jobs were acknowledged: a job whose enqueue raised may be there or not."""

from __future__ import annotations

import itertools
import random
import threading
import time
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from howdah import DatabaseUnavailable, JobQueue

MIXED = ("work",) * 12 + ("work_in_a_thread",) * 2 + ("reports",) * 2 + ("flaky",) * 2 + ("doomed",) * 2
"""Of a hundred, ten fail at their first attempt, and ten at every one."""


def mixed(chance: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Jobs of load L3, without end."""
    while True:
        job_type = chance.choice(MIXED)
        yield job_type, {"seconds": round(chance.uniform(0, 0.05), 3)} if job_type.startswith("work") else {}


class Producer:
    """A thread that adds jobs at a steady rate, whatever happens to the database, until it is stopped."""

    def __init__(self, queue: JobQueue, rate: float, chance: random.Random, most: int | None = None) -> None:
        self.acknowledged: list[uuid.UUID] = []
        self.refused = 0
        self.failures: list[BaseException] = []
        self._queue = queue
        self._rate = rate
        self._jobs = itertools.islice(mixed(chance), most)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="producer", daemon=True)

    def _produce(self) -> None:
        began = time.monotonic()
        for number, (job_type, data) in enumerate(self._jobs):
            if self._stopping.wait(max(began + number / self._rate - time.monotonic(), 0)):
                return
            try:
                self.acknowledged.append(self._queue.enqueue(job_type, data).id)
            except DatabaseUnavailable:
                self.refused += 1
            except BaseException as error:  # noqa: BLE001 - the case fails with it, in its own thread
                self.failures.append(error)
                return

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert not self.failures, f"an enqueue failed, and not because of an outage: {self.failures[0]!r}"

    def await_end(self) -> None:
        """Until it has added as many as it was to."""
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
