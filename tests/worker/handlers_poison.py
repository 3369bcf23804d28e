"""Handlers that kill the process they run in, and healthy ones that take longer."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from howdah import Job, JobQueue
from tests.worker.ledger import note

queue = JobQueue()


@queue.job
async def poison_on_the_loop(job: Job) -> None:
    note("START", job)
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)


@queue.job
def poison_in_a_thread(job: Job) -> None:
    note("START", job)
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)


@queue.job
async def healthy_on_the_loop(job: Job) -> None:
    note("START", job)
    await asyncio.sleep(0.2)
    note("END", job)


@queue.job
def healthy_in_a_thread(job: Job) -> None:
    note("START", job)
    time.sleep(0.2)
    note("END", job)
