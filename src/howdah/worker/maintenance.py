"""What any worker does for all of them: the sweep, the schedules, the archive's partitions.

There is no leader to lose. Every worker does all of it, at moments of its own; the database makes sure
that nothing is done twice.
"""

from __future__ import annotations

import logging
import random
import time

from howdah import calls as verbs
from howdah import schedules
from howdah.context import Context
from howdah.database import Database
from howdah.worker import calls
from howdah.worker.link import Link
from howdah.worker.service import Service

log = logging.getLogger("howdah.worker")

PRUNE_EVERY = 3600.0


class Maintenance:
    """Sweeps, fires schedules, and keeps the archive's days in order."""

    def __init__(self, database: Database, context: Context, writes: Link, *, sweep: float, poll: float) -> None:
        self._database = database
        self._context = context
        self._writes = writes
        self._sweep_every = sweep
        self._poll = poll
        self._prune_at = time.monotonic() + random.uniform(5, 65)
        self._complained: dict[str, str] = {}
        self.sweeper = Service("sweep", self._sweep)
        self.scheduler = Service("scheduler", self._fire)

    @property
    def services(self) -> tuple[Service, Service]:
        return self.sweeper, self.scheduler

    async def _sweep(self) -> None:
        if not await self.sweeper.pause(self._sweep_every * random.uniform(0.8, 1.2)):
            return
        for row in await self._writes.run(calls.sweep(self._context)):
            log.warning(
                "took job %s back, now %s: %s",
                row["id"],
                row["status"],
                row["reason"],
                extra={"event": "recovered", "job_id": str(row["id"])},
            )
        if time.monotonic() >= self._prune_at:
            self._prune_at = time.monotonic() + PRUNE_EVERY * random.uniform(0.8, 1.2)
            await self._prune()

    async def _prune(self) -> None:
        for day in await self._database.arun(verbs.prune(self._context)):
            if day.dropped:
                log.info("dropped the archive of %s", day.day, extra={"event": "pruned"})

    async def _fire(self) -> None:
        report = await self._writes.run(schedules.fire_due(self._context))
        for name, message in report.errors:
            if self._complained.get(name) != message:
                self._complained[name] = message
                log.error("the schedule %s cannot be fired: %s", name, message, extra={"event": "schedule_failed"})
        # A schedule may be added, or changed to come sooner, at any time.
        wait = self._poll if report.next_in is None else min(report.next_in, self._poll)
        await self.scheduler.pause(wait + random.uniform(0, 0.01))
