"""Handlers of the cases about connections: what they are given and what they return can be recognised on its way."""

from __future__ import annotations

from howdah import Job
from tests.faults.handlers import queue, said_by
from tests.worker.ledger import note

__all__ = ["queue"]


@queue.job
async def marked(job: Job, mark: str) -> dict[str, int | str]:
    note("START", job)
    note("END", job)
    return {**said_by(job), "mark": mark}
