"""Handlers whose first attempt loses its claim: it continues when another worker already has its job.

The second attempt, the new owner's, waits until the test lets it end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import Any

from howdah import Job, JobQueue
from tests.worker.ledger import WORKER, heard, note

queue = JobQueue()

NEW_PERCENT, STALE_PERCENT = 7, 99


@queue.job
async def completes(job: Job) -> Any:
    if job.attempts > 1:
        return new_owner(job)
    note("START", job)
    await overtaken()
    note("STALE", job)
    return "stale"


@queue.job
async def fails(job: Job) -> Any:
    if job.attempts > 1:
        return new_owner(job)
    note("START", job)
    await overtaken()
    note("STALE", job)
    raise RuntimeError("stale")


@queue.job
def reports(job: Job) -> Any:
    if job.attempts > 1:
        return new_owner(job)
    note("START", job)
    while not job.cancelled:
        job.progress(STALE_PERCENT, "stale")
        time.sleep(0.01)
    note("TOLD", job)
    return "stale"


@queue.job
async def waits(job: Job) -> Any:
    if job.attempts > 1:
        return new_owner(job)
    note("START", job)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note("TOLD", job)
    return "stale"


@queue.job(process=True)
def waits_in_a_child(job: Job) -> Any:
    if job.attempts > 1:
        return "new"
    note("START", job)
    try:
        while True:
            time.sleep(0.01)
    finally:
        note("TOLD", job)


@queue.job
async def probe(job: Job) -> None:
    """The reports of a worker up to the end of this job are written."""


async def overtaken() -> None:
    """Return when another worker has the job. The test signals that while this process is stopped."""
    with contextlib.suppress(asyncio.CancelledError):
        while not heard("overtaken"):
            await asyncio.sleep(0.01)


def new_owner(job: Job) -> str:
    """For a job whose worker seemed dead: it runs in a child process, where it may block."""
    job.progress(NEW_PERCENT, os.environ[WORKER])
    note("OWNER", job)
    while not heard("finish"):
        time.sleep(0.01)
    return "new"
