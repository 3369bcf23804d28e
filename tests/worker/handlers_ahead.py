"""Handlers that are done at once, except for jobs that run until the test ends them, or that kill their process."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from howdah import Job, JobQueue
from howdah.worker.run import slot_group
from tests.worker.ledger import heard, note

# A line that does not move stays, however long the disk takes for the notes of those before it.
slot_group.AHEAD = 3600

queue = JobQueue()


@queue.job
async def quick_on_the_loop(job: Job, *, stays: bool = False, kills: bool = False, tells: bool = False) -> None:
    if tells:
        note("BEGIN", job)
    if stays or kills:
        _mark(job, kills=kills)
        while not heard("finish"):
            await asyncio.sleep(0.01)


@queue.job
def quick_in_a_thread(job: Job, *, stays: bool = False, kills: bool = False, tells: bool = False) -> None:
    if tells:
        note("BEGIN", job)
    if stays or kills:
        _mark(job, kills=kills)
        while not heard("finish"):
            time.sleep(0.01)


def _mark(job: Job, *, kills: bool) -> None:
    note("START", job)
    if kills:
        os.kill(os.getpid(), signal.SIGKILL)
