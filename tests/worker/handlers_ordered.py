"""An ordered type whose handler fails now and then."""

from __future__ import annotations

import asyncio
import random

from howdah import Fixed, Job, JobQueue
from tests.worker.ledger import note

queue = JobQueue()


@queue.job(ordered=True, max_attempts=20, max_crashes=5, retry=Fixed(0.02))
async def in_line(job: Job, number: int) -> None:
    note("START", job)
    await asyncio.sleep(random.uniform(0, 0.005))
    if random.random() < 0.1:
        note("FAIL", job)
        raise RuntimeError("by chance")
    note("END", job)
