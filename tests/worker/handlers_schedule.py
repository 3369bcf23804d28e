"""What the schedules fire."""

from __future__ import annotations

from howdah import Job, JobQueue
from tests.worker.ledger import note

queue = JobQueue()


@queue.job
async def tick(job: Job) -> None:
    note("START", job)
