"""Handlers of jobs that others write to by plain SQL, or run themselves."""

from __future__ import annotations

import asyncio

from howdah import Immediately, Job
from tests.faults.handlers import SOON, queue, said_by
from tests.worker.ledger import heard, note


@queue.job(max_attempts=1_000, retry=Immediately())
async def shared(job: Job) -> None:
    note("START", job)
    await asyncio.sleep(0.03)
    note("END", job)


@queue.job(retry=SOON)
async def reports_for_long(job: Job, n: int) -> dict[str, int]:
    """Runs until the case writes that it may end. Meanwhile others change its data, too."""
    note("START", job)
    told = 0
    while not heard("finish"):
        told += 1
        job.progress(told % 100, f"token {job.token}")
        job.event("told", number=told)
        await asyncio.sleep(0.02)
    note("END", job)
    return {**said_by(job), "told": told}
