"""What the workers of a bench run, as ``howdah work`` finds it. The handlers do nothing: the cost is the queue's."""

from __future__ import annotations

import time
from typing import Final

from howdah.model.job import Job
from howdah.queue import JobQueue

ASYNC: Final = "bench_async"
THREAD: Final = "bench_thread"
BATCH: Final = "bench_batch"
PICKUP: Final = "bench_pickup"
JOB_TYPES: Final = (ASYNC, THREAD, BATCH, PICKUP)
BATCH_SIZE: Final = 500

queue = JobQueue()


@queue.job(name=ASYNC)
async def in_event_loop(n: int, filler: str = "") -> None:
    pass


@queue.job(name=THREAD)
def in_thread(n: int, filler: str = "") -> None:
    pass


@queue.job(name=BATCH, batch_size=BATCH_SIZE)
async def in_batch(jobs: list[Job]) -> None:
    pass


@queue.job(name=PICKUP)
async def pick_up(sent: float, filler: str = "") -> float:  # noqa: ARG001
    """The seconds since it was sent: all processes of a machine share the monotonic clock."""
    return time.monotonic() - sent
