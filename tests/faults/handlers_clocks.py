"""Handlers that ask for delays, which the database's clock measures."""

from __future__ import annotations

from howdah import Job, Retry, Snooze
from tests.faults.handlers import queue, said_by
from tests.worker.ledger import note

SPAN = 0.4


@queue.job
async def snoozes(job: Job) -> dict[str, int]:
    note("START", job)
    note("END", job)
    if job.run_at == job.created_at:
        raise Snooze(SPAN)
    return said_by(job)


@queue.job
def tries_again(job: Job) -> dict[str, int]:
    note("START", job)
    note("END", job)
    if job.attempts == 1:
        raise Retry(f"token {job.token} fails", delay=SPAN)
    return said_by(job)


@queue.job
async def puts_off(job: Job) -> str:
    note("START", job)
    added = await queue.aenqueue("probe", delay=SPAN)
    note("END", job)
    return str(added.id)


@queue.job
async def tick(job: Job) -> dict[str, int]:
    note("START", job)
    note("END", job)
    return said_by(job)
