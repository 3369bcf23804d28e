"""A run: one call of a handler, with the job (of a batch handler, the jobs) that it works on."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from howdah import options
from howdah.errors import InvalidOption
from howdah.job import Job, bind
from howdah.payload import clean_text
from howdah.worker.calls import Hold

if TYPE_CHECKING:
    from howdah.handler import Handler

StopReason: TypeAlias = Literal["cancelled", "timed out", "lost", "fenced", "shutdown"]


class Desk:
    """What every run of a worker shares: the resources, and where reports and completions go."""

    def __init__(
        self,
        resources: Mapping[str | type, Any],
        report: Callable[[Job, int | None, str | None], None],
        complete: Callable[[Job, Any, Any], None],
        acomplete: Callable[[Job, Any, Any], Any],
    ) -> None:
        self.resources = resources
        self.report = report
        self.complete = complete
        self.acomplete = acomplete


class Run:
    """One call of a handler."""

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
        self._stop: Callable[[StopReason], None] | None = None
        for job in jobs:
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

    def report(self, job: Job, percent: float | None, stage: str | None) -> None:
        self.desk.report(
            job,
            None if percent is None else _percent(percent),
            None if stage is None else clean_text(options.text(stage, "stage"))[:100],
        )

    def complete(self, job: Job, result: Any, conn: Any) -> None:
        self.desk.complete(job, result, conn)
        self.by_handler.add(job.id)

    async def acomplete(self, job: Job, result: Any, conn: Any) -> None:
        await self.desk.acomplete(job, result, conn)
        self.by_handler.add(job.id)


def _percent(value: object) -> int:
    """Rounded, and within 0 to 100: a remark about a job must not be what fails it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InvalidOption(f"percent is a number from 0 to 100, not {options.shown(value)}")
    return round(min(max(value, 0), 100))


def hold_of(job: Job) -> Hold:
    return job.id, job.token
