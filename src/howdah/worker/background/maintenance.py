"""What any worker does for all of them: the sweep, the schedules, the archive's segments.

There is no leader to lose. Every worker does all of it, at moments of its own; the database makes sure
that nothing is done twice.
"""

from __future__ import annotations

import asyncio
import logging
import random

import psycopg

from howdah.checks.context import Context
from howdah.db.batch_size import BatchSize
from howdah.db.database import Database
from howdah.db.outage import is_cut_short
from howdah.db.plan import Row
from howdah.verbs import operate as verbs
from howdah.verbs import schedules
from howdah.worker import calls
from howdah.worker.background.connection import Link
from howdah.worker.background.service import Service

log = logging.getLogger("howdah.worker")

PRUNE_EVERY = 300.0
SWEPT_AT_ONCE = 1_000
"""Jobs, for each reason to take them back."""


class Maintenance:
    """Sweeps, fires schedules, and keeps the archive's segments in order."""

    def __init__(self, database: Database, context: Context, writes: Link, *, sweep: float, poll: float) -> None:
        self._database = database
        self._context = context
        self._writes = writes
        self._sweep_every = sweep
        self._poll = poll
        self._portion = BatchSize(SWEPT_AT_ONCE)
        self._complained: dict[str, str] = {}
        self.sweeper = Service("sweep", self._sweep)
        self.scheduler = Service("scheduler", self._fire)
        self.archivist = Service("archivist", self._prune)
        self._prune_in = random.uniform(5, 65)

    @property
    def services(self) -> tuple[Service, ...]:
        return self.sweeper, self.scheduler, self.archivist

    async def _sweep(self) -> None:
        if not await self.sweeper.pause(self._sweep_every * random.uniform(0.8, 1.2)):
            return
        more = True
        while more and not self.sweeper.stopping.is_set():
            size = self._portion.size
            rows = await self._swept(size)
            # Of one cause, or of one dead worker, no more is taken back at once.
            more = len(rows) >= size or self._portion.size < size

    async def _swept(self, size: int) -> list[Row]:
        """What was taken back. Where the server cuts it short: nothing, and the next one is smaller."""
        try:
            rows = await self._writes.run(calls.sweep(self._context, size))
        except psycopg.Error as error:
            if not is_cut_short(error) or size == 1:
                raise
            self._portion.was_cut_short(size)
            return []
        self._portion.went_well(size)
        for row in rows:
            log.warning(
                "took job %s back, now %s: %s",
                row["id"],
                row["status"],
                row["reason"],
                extra={"event": "recovered", "job_id": str(row["id"])},
            )
        return rows

    async def _prune(self) -> None:
        if not await self.archivist.pause(self._prune_in):
            return
        self._prune_in = PRUNE_EVERY * random.uniform(0.8, 1.2)
        pruning = asyncio.ensure_future(self._database.arun(verbs.prune(self._context, tries=1)))
        stopping = asyncio.ensure_future(self.archivist.stopping.wait())
        # A large segment takes long to look through. That is for a worker that stays.
        await asyncio.wait({pruning, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not pruning.done():
            pruning.cancel()
            await asyncio.wait({pruning})
            return
        for segment in pruning.result():
            if segment.dropped:
                log.info("dropped segment %d of the archive", segment.segment, extra={"event": "pruned"})

    async def _fire(self) -> None:
        report = await self._writes.run(schedules.fire_due(self._context))
        for name, message in report.errors:
            if self._complained.get(name) != message:
                self._complained[name] = message
                log.error("the schedule %s cannot be fired: %s", name, message, extra={"event": "schedule_failed"})
        # A schedule may be added, or changed to come sooner, at any time.
        wait = self._poll if report.next_in is None else min(report.next_in, self._poll)
        await self.scheduler.pause(wait + random.uniform(0, 0.01))
