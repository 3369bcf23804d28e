"""One look at the queue: its types, its workers and some of its jobs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from howdah.cli.arguments.datetimes import now
from howdah.cli.commands.top.view import View
from howdah.model.job import Job
from howdah.model.results import Stats
from howdah.model.worker_info import WorkerInfo
from howdah.queue import JobQueue

SCAN_LIMIT: Final = 10_000
"""One window of the list: what is further back would cost a statement more for each."""


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """What the queue looked like.

    at: when, by the database's clock where a heartbeat tells it, else by this computer's. clock: the same, for measuring
    the time between two. more: there are jobs of this view that are not among ``jobs``.
    """

    at: datetime
    clock: float
    stats: Stats
    workers: Sequence[WorkerInfo]
    view: View
    jobs: Sequence[Job]
    more: bool


def take(queue: JobQueue, view: View, limit: int) -> Snapshot:
    """Looks at the queue, in four statements at most."""
    stats, clock = queue.stats(), time.monotonic()
    workers = queue.workers()
    jobs = queue.list(**view.filters, limit=limit, scan_limit=SCAN_LIMIT, brief=True)
    return Snapshot(
        at=_database_time(workers),
        clock=clock,
        stats=stats,
        workers=workers,
        view=view,
        jobs=jobs.jobs,
        more=jobs.next is not None,
    )


def _database_time(workers: Sequence[WorkerInfo]) -> datetime:
    if not workers:
        return now()
    return workers[0].heartbeat_at + timedelta(seconds=workers[0].age)
