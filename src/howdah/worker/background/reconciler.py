"""The reconciler: compares the jobs that a worker holds with the database.

A job may have been cancelled, or may no longer be held by this worker: then its run is stopped. And the answer to a claim
may have been lost: then the database has a job for this worker of which the worker knows nothing. If that is seen twice in
a row, with no claim in progress, the job is handed back, unless another process has this worker's name by now: then the job
belongs to that one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Sequence

from howdah.checks.context import Context
from howdah.model.job import Job
from howdah.worker import calls
from howdah.worker.background.heartbeat import Heartbeat
from howdah.worker.calls import ClaimRef, HeldState
from howdah.worker.connection import WorkerConnection
from howdah.worker.run.dispatcher import Dispatcher
from howdah.worker.service import Service, happens

log = logging.getLogger("howdah.worker")


class Reconciler(Service):
    """Checks the held jobs regularly, and at once after a cancellation."""

    def __init__(
        self,
        connection: WorkerConnection,
        context: Context,
        dispatcher: Dispatcher,
        heartbeat: Heartbeat,
        *,
        interval: float,
    ) -> None:
        super().__init__("reconciler", self._check_held)
        self._connection = connection
        self._context = context
        self._dispatcher = dispatcher
        self._heartbeat = heartbeat
        self._interval = interval
        self._now = asyncio.Event()
        self._seen_unknown = Counter[ClaimRef]()

    def job_cancelled(self, id: uuid.UUID) -> None:
        """A job was cancelled, perhaps one that is held here."""
        if any(job.id == id for job in self._dispatcher.held.values()):
            self._now.set()

    def check_soon(self) -> None:
        """Cancellations may have been missed."""
        self._now.set()

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self._now.set()

    async def _check_held(self) -> None:
        await happens(self._now, self._interval)
        if self.stopping.is_set():
            return
        self._now.clear()
        claiming = self._is_claiming()
        states = await self._connection.run(calls.check_held(self._context, list(self._dispatcher.held_refs())))
        held = self._dispatcher.held_refs()
        for state in states:
            if state.state != "unknown" and (job := held.get(state.ref)) is not None:
                self._apply(state, job)
        if not claiming and not self._is_claiming():
            await self._release([each.ref for each in states if each.state == "unknown" and each.ref not in held])

    def _is_claiming(self) -> bool:
        return any(group.claiming for group in self._dispatcher.groups)

    def _apply(self, state: HeldState, job: Job) -> None:
        run = self._dispatcher.runs.get(id(job))
        if run is None:
            self._dispatcher.take_from_line(job, still_held=state.state == "cancel")
        elif state.state == "cancel":
            run.cancel(job)
        else:
            run.lose(job)

    async def _release(self, unknown: Sequence[ClaimRef]) -> None:
        seen = Counter({ref: self._seen_unknown[ref] + 1 for ref in unknown})
        self._seen_unknown = seen
        refs = [ref for ref, times in seen.items() if times >= 2]
        if refs:
            released = await self._connection.run(
                calls.release_unknown(self._context, self._heartbeat.incarnation, refs)
            )
            if released:
                log.warning("handed back %d jobs that a lost answer had left behind", len(released))
