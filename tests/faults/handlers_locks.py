"""Handlers of the cases about locks: of a type that is ordered, and of one that is not."""

from __future__ import annotations

from howdah import Job, JobQueue
from tests.faults.handlers import SOON, said_by
from tests.worker.ledger import note

queue = JobQueue()


@queue.job(retry=SOON)
async def work(job: Job) -> dict[str, int]:
    note("START", job)
    note("END", job)
    return said_by(job)


@queue.job
async def nothing(job: Job) -> None:
    """For bulks: a note of each would take longer than all the rest."""


@queue.job(retry=SOON, ordered=True)
async def in_line(job: Job) -> dict[str, int]:
    note("START", job)
    note("END", job)
    return said_by(job)
