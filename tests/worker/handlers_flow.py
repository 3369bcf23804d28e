"""Handlers with flow keys: an order for each key, and a limit of each key, of the type and of a group."""

from __future__ import annotations

import asyncio
import random

from howdah import Fixed, Job, JobQueue, Rate
from tests.worker.ledger import note

queue = JobQueue()


@queue.job(per="key", ordered=True, max_attempts=20, max_crashes=5, retry=Fixed(0.02))
async def in_line(job: Job, key: str, number: int) -> None:
    note("START", job)
    await asyncio.sleep(random.uniform(0, 0.005))
    if random.random() < 0.1:
        note("FAIL", job)
        raise RuntimeError("by chance")
    note("END", job)


@queue.job(per="key", rate=Rate(20, seconds=1, burst=5), groups=["all"], max_attempts=20, max_crashes=5)
async def rated(job: Job, key: str) -> None: ...


@queue.job(per="key", limit=3, groups=["few"], max_attempts=20, max_crashes=5)
async def limited(job: Job, key: str, number: int) -> None:
    note("START", job)
    await asyncio.sleep(random.uniform(0, 0.02))
    note("END", job)


@queue.job(per="key", limit=7, rate=Rate(50, seconds=1, burst=10), groups=["both"], max_attempts=20, max_crashes=5)
async def bounded(job: Job, key: str) -> None:
    assert job.claimed_at is not None
    note(f"CLAIMED {job.claimed_at.isoformat()}", job)
    note("START", job)
    await asyncio.sleep(random.uniform(0.05, 0.25))
    note("END", job)


@queue.job(limit=1)
async def runs_for_an_hour(job: Job) -> None:
    note("START", job)
    await asyncio.sleep(3600)
