"""Maintenance that every worker does for all: the sweep, the schedules, the segments of the archive.

There is no leader. Every worker does all of it, at moments of its own; the database makes sure that nothing happens twice.
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
from howdah.worker.connection import WorkerConnection
from howdah.worker.service import Service

log = logging.getLogger("howdah.worker")

PRUNE_EVERY = 300.0
SWEPT_AT_ONCE = 1_000
"""Jobs, for each reason to recover them."""


class Maintenance:
    """Recovers jobs, fires schedules, and drops old segments of the archive."""

    def __init__(
        self, database: Database, context: Context, connection: WorkerConnection, *, sweep: float, poll: float
    ) -> None:
        self._database = database
        self._context = context
        self._connection = connection
        self._sweep_every = sweep
        self._poll = poll
        self._batch_size = BatchSize(SWEPT_AT_ONCE)
        self._logged: dict[str, str] = {}
        self.sweeper = Service("sweep", self._sweep)
        self.scheduler = Service("scheduler", self._fire)
        self.pruner = Service("pruner", self._prune)
        self._prune_in = random.uniform(5, 65)

    @property
    def services(self) -> tuple[Service, ...]:
        return self.sweeper, self.scheduler, self.pruner

    async def _sweep(self) -> None:
        if not await self.sweeper.pause(self._sweep_every * random.uniform(0.8, 1.2)):
            return
        more = True
        while more and not self.sweeper.stopping.is_set():
            size = self._batch_size.size
            rows = await self._recover(size)
            # One call recovers no more than this of one cause, or of one dead worker.
            more = len(rows) >= size or self._batch_size.size < size

    async def _recover(self, size: int) -> list[Row]:
        """Recover jobs. If the server cuts the statement short: none, and the next one is smaller."""
        try:
            rows = await self._connection.run(calls.sweep(self._context, size))
        except psycopg.Error as error:
            if not is_cut_short(error) or size == 1:
                raise
            self._batch_size.was_cut_short(size)
            return []
        self._batch_size.went_well(size)
        for row in rows:
            log.warning(
                "recovered job %s, now %s: %s",
                row["id"],
                row["status"],
                row["reason"],
                extra={"event": "recovered", "job_id": str(row["id"])},
            )
        return rows

    async def _prune(self) -> None:
        if not await self.pruner.pause(self._prune_in):
            return
        self._prune_in = PRUNE_EVERY * random.uniform(0.8, 1.2)
        pruning = asyncio.ensure_future(self._database.arun(verbs.prune(self._context, tries=1)))
        stopping = asyncio.ensure_future(self.pruner.stopping.wait())
        # Scanning a large segment takes long. A worker that stops does not wait for it.
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
        fired = await self._connection.run(schedules.fire_due(self._context))
        for name, message in fired.errors:
            if self._logged.get(name) != message:
                self._logged[name] = message
                log.error("the schedule %s cannot be fired: %s", name, message, extra={"event": "schedule_failed"})
        # A schedule may be added, or changed to come sooner, at any time.
        wait = self._poll if fired.next_in is None else min(fired.next_in, self._poll)
        await self.scheduler.pause(wait + random.uniform(0, 0.01))
