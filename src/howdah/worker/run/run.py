"""A run: one call of a handler, with the job (of a batch handler, the jobs) that it works on."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from howdah.checks.context import Context
from howdah.db import forks
from howdah.db.database import Database
from howdah.db.plan import Plan
from howdah.errors import QueueClosed
from howdah.model.failure import loggable
from howdah.model.job import Job, bind
from howdah.verbs import claims as verbs
from howdah.worker.calls import Hold
from howdah.worker.progress.tracker import Tracker

if TYPE_CHECKING:
    from howdah.handlers.handler import Handler

log = logging.getLogger("howdah.worker")

StopReason: TypeAlias = Literal["cancelled", "timed out", "lost", "fenced", "shutdown"]


class Post(Protocol):
    """Who sees to it that what was said of jobs is written."""

    def changed(self, tracker: Tracker) -> None:
        """Something was said. From any thread."""

    def settle(self, tracker: Tracker, *, ends: bool) -> bool:
        """Waits until what was said is written, or that takes too long. Whether it is. ends: the job is about to."""

    async def asettle(self, tracker: Tracker, *, ends: bool) -> bool: ...

    def rest(self, tracker: Tracker) -> Plan[None]:
        """Writes what could not be settled."""


class Desk:
    """What every run of a worker shares: the resources, the database, and who writes what handlers say."""

    def __init__(
        self,
        resources: Mapping[str | type, Any],
        context: Context,
        database: Database,
        post: Post,
        *,
        capture_logs: bool = False,
    ) -> None:
        self.resources = resources
        self.context = context
        self.post = post
        self.capture_logs = capture_logs
        self.pid = os.getpid()
        self._database = database

    def check_process(self) -> None:
        """Refuses a forked copy of the worker: what it would wait for runs in the original alone."""
        if os.getpid() != self.pid:
            raise QueueClosed(
                "this is a forked copy of the worker: end it by os._exit(), and use the job in the original"
            )

    def complete(self, job: Job, result: Any, conn: Any) -> None:
        self._database.run(verbs.complete(self.context, job, result), conn)

    async def acomplete(self, job: Job, result: Any, conn: Any) -> None:
        await self._database.arun(verbs.complete(self.context, job, result), conn)

    def write_rest(self, tracker: Tracker, conn: Any) -> None:
        try:
            self._database.run(self.post.rest(tracker), conn)
        except Exception as error:  # noqa: BLE001
            _warn_of_the_rest(tracker, error)

    async def awrite_rest(self, tracker: Tracker, conn: Any) -> None:
        try:
            await self._database.arun(self.post.rest(tracker), conn)
        except Exception as error:  # noqa: BLE001
            _warn_of_the_rest(tracker, error)

    def checkpoint(self, job: Job, data: Any, conn: Any) -> None:
        self._database.run(verbs.checkpoint(self.context, job, data), conn)

    async def acheckpoint(self, job: Job, data: Any, conn: Any) -> None:
        await self._database.arun(verbs.checkpoint(self.context, job, data), conn)


class Run:
    """One call of a handler."""

    __slots__ = (
        "_closed",
        "_only",
        "_stop",
        "_trackers",
        "asked",
        "by_handler",
        "cancelled",
        "desk",
        "handler",
        "jobs",
        "lost",
        "reason",
        "resources",
        "started",
    )

    def __init__(self, handler: Handler[Any, Any], jobs: Sequence[Job], desk: Desk) -> None:
        self.handler = handler
        self.jobs = jobs
        self.desk = desk
        self.resources = desk.resources
        self.cancelled = False
        self.asked: set[uuid.UUID] = set()
        self.reason: StopReason | None = None
        self.lost: set[uuid.UUID] = set()
        self.by_handler: set[uuid.UUID] = set()
        self.started = time.monotonic()
        self._trackers: dict[uuid.UUID, Tracker] = {}
        self._only: Tracker | None = None
        self._closed = False
        self._stop: Callable[[StopReason], None] | None = None

    def bind(self) -> None:
        """Lends the jobs their verbs. Only where somebody gets to see them: a job and its run then hold each other."""
        for job in self.jobs:
            bind(job, self)

    @property
    def label(self) -> str:
        jobs = str(self.jobs[0].id) if len(self.jobs) == 1 else f"{len(self.jobs)} jobs"
        return f"{self.handler.name} {jobs}"

    @property
    def timeout(self) -> float | None:
        """Seconds that the call may take: those of its most impatient job, or the handler's own."""
        of_jobs = [job.timeout for job in self.jobs if job.timeout is not None]
        shortest = min(of_jobs, default=self.handler.timeout)
        return None if shortest is None else shortest.total_seconds()

    def on_stop(self, stop: Callable[[StopReason], None] | None) -> None:
        """Says how this run is stopped, for as long as it can be."""
        self._stop = stop

    def stop(self, reason: StopReason) -> None:
        """Tells the handler to stop. The first reason stands, except that what is lost is lost."""
        if reason == "lost" or self.reason is None:
            self.reason = reason
        self.cancelled = True
        if self._stop is not None:
            self._stop(reason)

    def is_cancelled(self, job: Job) -> bool:
        return self.cancelled or job.id in self.asked

    def cancel(self, job: Job) -> None:
        """A job is to be cancelled; when all are, the handler is stopped."""
        self.asked.add(job.id)
        if len(self.asked) == len(self.jobs):
            self.stop("cancelled")

    def lose(self, job: Job) -> None:
        """A job is no longer this run's; without any, it stops. One that the handler has completed itself is not lost."""
        if job.id in self.by_handler:
            return
        self.lost.add(job.id)
        if len(self.lost) == len(self.jobs):
            self.stop("lost")

    # What a handler can do through its job

    def reporter(self, job: Job) -> Tracker:
        return self._only or self._tracker(job)

    def checkpoint(self, job: Job, data: Any, conn: Any) -> None:
        self.desk.check_process()
        # The next attempt goes on behind what was said, and does not say it again.
        if (tracker := self._trackers.get(job.id)) is not None and not self.desk.post.settle(tracker, ends=False):
            _warn_of_an_overtaking(tracker)
        self.desk.checkpoint(job, data, conn)

    async def acheckpoint(self, job: Job, data: Any, conn: Any) -> None:
        self.desk.check_process()
        tracker = self._trackers.get(job.id)
        if tracker is not None and not await self.desk.post.asettle(tracker, ends=False):
            _warn_of_an_overtaking(tracker)
        await self.desk.acheckpoint(job, data, conn)

    def complete(self, job: Job, result: Any, conn: Any) -> None:
        self.desk.check_process()
        # What was said would come too late once the job has ended.
        if (tracker := self._trackers.get(job.id)) is not None and not self.desk.post.settle(tracker, ends=True):
            self.desk.write_rest(tracker, conn)
        self.desk.complete(job, result, conn)
        self.by_handler.add(job.id)

    async def acomplete(self, job: Job, result: Any, conn: Any) -> None:
        self.desk.check_process()
        tracker = self._trackers.get(job.id)
        if tracker is not None and not await self.desk.post.asettle(tracker, ends=True):
            await self.desk.awrite_rest(tracker, conn)
        await self.desk.acomplete(job, result, conn)
        self.by_handler.add(job.id)

    def end_copy(self, error: BaseException | None = None) -> None:
        """Called when the handler returned or raised: a forked copy of the worker ends here."""
        forks.end_copy(self.desk.pid, self.handler.name, error)

    # What was said of its jobs

    def close(self) -> None:
        """The run is over: its last words are said."""
        self._closed = True
        for tracker in list(self._trackers.values()) if self._trackers else ():
            tracker.tell_left_out()
            tracker.close()

    def _tracker(self, job: Job) -> Tracker:
        tracker = self._trackers.get(job.id)
        if tracker is None:
            made = Tracker(hold_of(job), self.desk.context, self.desk.post.changed, max_events=self.handler.max_events)
            # One alone is kept, whoever else asks at this moment.
            tracker = self._trackers.setdefault(job.id, made)
            self._only = tracker if len(self.jobs) == 1 else None
            if self._closed:
                tracker.close()
        return tracker


def _warn_of_the_rest(tracker: Tracker, error: Exception) -> None:
    about = loggable(error)
    log.warning("job %s ends before all that was said of it could be written", tracker.hold[0], exc_info=about)


def _warn_of_an_overtaking(tracker: Tracker) -> None:
    log.warning("a checkpoint of job %s is kept before all that was said could be written", tracker.hold[0])


def hold_of(job: Job) -> Hold:
    return job.id, job.token
