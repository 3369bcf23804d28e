"""Handlers that do nothing, for jobs by the thousand: their ledger is the database's."""

from __future__ import annotations

from howdah import JobQueue

queue = JobQueue()


@queue.job
async def nothing(late: bool) -> None:
    pass
