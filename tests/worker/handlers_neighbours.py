"""A handler of jobs that plain clients run as well."""

from __future__ import annotations

import asyncio

from howdah import Immediately, Job, JobQueue
from tests.worker.ledger import note

queue = JobQueue()


@queue.job(max_attempts=1_000, retry=Immediately())
async def shared(job: Job) -> None:
    note("START", job)
    await asyncio.sleep(0.03)
    note("END", job)
