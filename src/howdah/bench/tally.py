"""What a worker process has handled, in memory that it shares with the bench.

So a handler that counts its job costs next to nothing, and who looks at the count disturbs nobody.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import time
from typing import Final, NamedTuple

MOST_SAMPLES: Final = 1_000_000
_HANDLED, _FIRST, _SAMPLED, _SAMPLES = 0, 1, 2, 3
_NUMBER: Final = 8
_SIZE: Final = _NUMBER * (_SAMPLES + 2 * MOST_SAMPLES)


class Sample(NamedTuple):
    """How many seconds a job of this priority has waited to be started."""

    priority: int
    waited: float


class Tally:
    """The counts of one process. Those who write are in that process, and those who read need not be."""

    def __init__(self, file: int) -> None:
        self._memory = mmap.mmap(file, _SIZE)
        self._numbers = memoryview(self._memory).cast("d")
        self._lock = threading.Lock()

    # What handlers say

    def begin(self) -> None:
        """A job is begun."""
        if not self._numbers[_FIRST]:
            self._numbers[_FIRST] = time.monotonic()

    def count(self, jobs: int = 1) -> None:
        """So many are done. From one thread only."""
        self._numbers[_HANDLED] += jobs

    def count_in_thread(self) -> None:
        with self._lock:
            self._numbers[_HANDLED] += 1

    def sample(self, priority: int, sent: float) -> None:
        """A job is begun that was sent then, by the clock that all processes of a machine share."""
        waited = time.monotonic() - sent
        with self._lock:
            number = int(self._numbers[_SAMPLED])
            if number < MOST_SAMPLES:
                place = _SAMPLES + 2 * number
                self._numbers[place], self._numbers[place + 1] = priority, waited
                # Last: who looks from outside sees no sample that is not whole.
                self._numbers[_SAMPLED] = number + 1

    # What the bench reads

    @property
    def handled(self) -> int:
        return int(self._numbers[_HANDLED])

    @property
    def first(self) -> float | None:
        """When the first job was begun."""
        return self._numbers[_FIRST] or None

    @property
    def sampled(self) -> int:
        return int(self._numbers[_SAMPLED])

    def samples(self) -> list[Sample]:
        numbers = self._numbers[_SAMPLES : _SAMPLES + 2 * self.sampled].tolist()
        return [Sample(int(priority), waited) for priority, waited in zip(numbers[::2], numbers[1::2], strict=True)]

    def forget(self) -> None:
        """Begins anew. While nothing is handled."""
        self._numbers[_HANDLED] = self._numbers[_FIRST] = self._numbers[_SAMPLED] = 0

    def close(self) -> None:
        self._numbers.release()
        self._memory.close()


def shared_file() -> int:
    """A file for a tally, which no folder lists. It takes as much room as is written to it."""
    with tempfile.TemporaryFile(prefix="howdah-bench-") as file:
        file.truncate(_SIZE)
        return os.dup(file.fileno())
