"""Handlers of the fault cases. Everything that they write has the token of its claim."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

from howdah import Fixed, Job, JobQueue
from tests.worker.ledger import heard, note

queue = JobQueue()

SOON = Fixed(0.1)


def said_by(job: Job) -> dict[str, int]:
    """The result of a handler of the suite."""
    return {"token": job.token}


@queue.job(retry=SOON)
async def work(job: Job, seconds: float = 0.02) -> dict[str, int]:
    note("START", job)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("TOLD", job)
        raise
    note("END", job)
    return said_by(job)


@queue.job(retry=SOON)
def work_in_a_thread(job: Job, seconds: float = 0.02) -> dict[str, int]:
    note("START", job)
    # And not time.sleep, which libfaketime answers with EINVAL where it fakes the wall clock alone.
    threading.Event().wait(seconds)
    note("END", job)
    return said_by(job)


@queue.job(retry=SOON, process=True)
def work_in_a_child(job: Job, seconds: float = 0.02) -> dict[str, int]:
    note("START", job)
    time.sleep(seconds)
    note("END", job)
    return said_by(job)


@queue.job
async def nothing(job: Job) -> None:
    """For loads where a note of each would be the load."""


@queue.job(retry=SOON)
async def reports(job: Job, steps: int = 5) -> dict[str, int]:
    note("START", job)
    for step in range(steps):
        job.progress(100 * step / steps, f"token {job.token}")
        await asyncio.sleep(0.01)
    note("END", job)
    return said_by(job)


@queue.job(retry=SOON, max_attempts=5)
async def flaky(job: Job, seconds: float = 0.01) -> dict[str, int]:
    """Fails at its first attempt."""
    note("START", job)
    await asyncio.sleep(seconds)
    note("END", job)
    if job.attempts == 1:
        raise RuntimeError(f"token {job.token} fails")
    return said_by(job)


@queue.job(retry=SOON, max_attempts=2)
async def doomed(job: Job) -> None:
    note("START", job)
    note("END", job)
    raise RuntimeError(f"token {job.token} fails")


@queue.job(retry=SOON)
async def patient(job: Job) -> dict[str, int]:
    """Runs until the case writes that it may end."""
    note("START", job)
    try:
        while not heard("finish"):
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        note("TOLD", job)
        raise
    note("END", job)
    return said_by(job)


# Another worker gets the job during the first attempt, which then continues. The second, the new owner's, waits for a line of the case.


@queue.job(retry=SOON)
async def overtaken_completes(job: Job) -> dict[str, int]:
    note("START", job)
    if job.attempts > 1:
        return await new_owner(job)
    await overtaken()
    note("STALE", job)
    return said_by(job)


@queue.job
async def probe(job: Job) -> dict[str, int]:
    return said_by(job)


async def overtaken() -> None:
    """Returns when another worker has the job: the case writes that to the ledger while this process is frozen."""
    with contextlib.suppress(asyncio.CancelledError):
        while not heard("overtaken"):
            await asyncio.sleep(0.01)


async def new_owner(job: Job) -> dict[str, int]:
    job.progress(7, f"token {job.token}")
    while not heard("finish"):
        await asyncio.sleep(0.01)
    note("END", job)
    return said_by(job)
