"""Handlers with many events."""

from __future__ import annotations

import asyncio

from howdah import Job, JobQueue

queue = JobQueue()


@queue.job
async def busy(job: Job, events: int, pause: float) -> int:
    for n in job.track(range(events), stage="telling"):
        job.event("tick", n=n)
        await asyncio.sleep(pause)
    return events
