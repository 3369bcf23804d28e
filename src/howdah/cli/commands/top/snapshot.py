"""One look at the queue: its types, its workers and some of its jobs; and rates between two looks."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from howdah.cli.arguments.datetimes import now
from howdah.model.job import Job
from howdah.model.results import Stats, TypeStats
from howdah.model.worker_info import WorkerInfo
from howdah.model.workflow import Workflow
from howdah.queue import JobQueue


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A choice of jobs; ``filters`` are those of ``queue.list``."""

    name: str
    filters: Mapping[str, Any]


RUNNING: Final = View("running", {"status": "running"})
STALLED: Final = View("stalled", {"status": "running", "stalled": True})
WAITING: Final = View("waiting", {"status": "pending"})
FAILED: Final = View("failed", {"status": "failed"})


SCAN_LIMIT: Final = 10_000
"""The jobs that one statement searches: each further window would cost one more."""

WORKFLOWS: Final = 20
"""How many workflows are listed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the queue.

    at: the time, by the database's clock if a worker's heartbeat has it, else by this computer's. clock: a monotonic time, to
    measure between two snapshots. more: there are jobs of this view that are not among ``jobs``. workflows: the newest that run.
    """

    at: datetime
    clock: float
    stats: Stats
    workers: Sequence[WorkerInfo]
    view: View
    jobs: Sequence[Job]
    more: bool
    workflows: Sequence[Workflow] = ()


def take(queue: JobQueue, view: View, limit: int) -> Snapshot:
    """Reads the queue, in five statements at most."""
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
        workflows=queue.workflows.list(status="running", limit=WORKFLOWS),
    )


def _database_time(workers: Sequence[WorkerInfo]) -> datetime:
    if not workers:
        return now()
    return workers[0].heartbeat_at + timedelta(seconds=workers[0].age)


WINDOW: Final = 10.0
"""Seconds over which a rate is averaged."""


class Rates:
    """The ended jobs of each type, over the last seconds."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, dict[str, int]]] = deque()

    def add(self, snapshot: Snapshot) -> None:
        self._counts.append((snapshot.clock, {name: _ended(each) for name, each in snapshot.stats.items()}))
        while len(self._counts) > 2 and self._counts[1][0] <= snapshot.clock - WINDOW:
            self._counts.popleft()

    def of(self, job_type: str) -> float | None:
        """Jobs of this type in a second; None before there are two snapshots."""
        if len(self._counts) < 2:
            return None
        (began, first), (ended, last) = self._counts[0], self._counts[-1]
        # Dropped segments of the archive take their counts with them.
        jobs = max(last.get(job_type, 0) - first.get(job_type, 0), 0)
        return jobs / max(ended - began, 1e-3)

    @property
    def total(self) -> float | None:
        if len(self._counts) < 2:
            return None
        return sum(self.of(job_type) or 0.0 for job_type in self._counts[-1][1])


def _ended(counts: TypeStats) -> int:
    return counts.completed + counts.failed + counts.cancelled
