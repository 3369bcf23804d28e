"""Handlers for load: jobs that take a given time, or until the test releases them."""

from __future__ import annotations

import asyncio
import time

from howdah import Job, JobQueue
from tests.worker.ledger import heard, note

queue = JobQueue()


@queue.job
async def work(job: Job, seconds: float = 0.02) -> None:
    note("START", job)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("TOLD", job)
        raise
    note("END", job)


@queue.job
def work_in_a_thread(job: Job, seconds: float = 0.02) -> None:
    note("START", job)
    time.sleep(seconds)
    note("END", job)


@queue.job(process=True)
def work_in_a_child(job: Job, seconds: float = 0.02) -> None:
    note("START", job)
    time.sleep(seconds)
    note("END", job)


@queue.job
async def patient(job: Job) -> None:
    note("START", job)
    try:
        while not heard("finish"):
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        note("TOLD", job)
        raise
    note("END", job)
