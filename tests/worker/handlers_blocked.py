"""An async handler that blocks the loop, and others beside it."""

from __future__ import annotations

import asyncio
import time

from howdah import Job, JobQueue
from tests.worker.ledger import note

queue = JobQueue()


@queue.job
async def forgets_to_await(job: Job, seconds: float) -> None:
    note("START", job)
    # Those beside it begin first.
    await asyncio.sleep(0.3)
    note("BLOCK", job)
    time.sleep(seconds)  # noqa: ASYNC251
    note("END", job)


@queue.job
async def beside(job: Job) -> None:
    note("START", job)
    await asyncio.sleep(0.5)
    note("END", job)


@queue.job
def beside_in_a_thread(job: Job) -> None:
    note("START", job)
    time.sleep(0.5)
    note("END", job)


@queue.job
async def elsewhere() -> None:
    """What the other worker is for."""
