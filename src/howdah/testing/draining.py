"""Drains: run the jobs that are due now, in this process, with the real worker.

Time-driven work (the sweep, schedules that are due) comes first. An outermost middleware records the jobs that run; jobs that
ended without running are found by the name of the worker.
"""

from __future__ import annotations

import asyncio
import contextvars
import secrets
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final, TypeVar, overload

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.db.plan import Plan
from howdah.db.plan import call as run_function
from howdah.errors import InvalidOption
from howdah.handlers.outcome import Snooze
from howdah.model.job import FINAL_STATUSES, Job, Status
from howdah.queue import JobQueue
from howdah.testing.jobs import MOST, JobType, all_jobs, failure, name_of, printable
from howdah.verbs.schedules import fire_due
from howdah.worker import Worker
from howdah.worker.options import WorkerSettings

R = TypeVar("R")

_LEASE: Final = timedelta(minutes=10)
"""Long, because a drain that is stopped in a debugger must not lose its jobs."""


class Drained(Sequence[Job[Any]]):
    """The jobs that a drain ran or swept, each once, in the order in which they ended, with their current state."""

    def __init__(self, jobs: Sequence[Job[Any]], tokens: Mapping[uuid.UUID, int]) -> None:
        self.jobs = tuple(jobs)
        self._tokens = tokens

    @property
    def completed(self) -> list[Job[Any]]:
        """The completed jobs."""
        return self._now("completed")

    @property
    def failed(self) -> list[Job[Any]]:
        """The jobs that failed for good."""
        return self._now("failed")

    @property
    def cancelled(self) -> list[Job[Any]]:
        """The jobs that were cancelled, or have expired."""
        return self._now("cancelled")

    @property
    def retried(self) -> list[Job[Any]]:
        """The jobs whose last attempt failed, and that wait for the next one."""
        return [job for job in self._now("pending") if self._has_failed(job)]

    @property
    def snoozed(self) -> list[Job[Any]]:
        """The jobs that their handler has snoozed."""
        return [job for job in self._now("pending") if not self._has_failed(job)]

    @overload
    def __getitem__(self, index: int) -> Job[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Job[Any]]: ...

    def __getitem__(self, index: int | slice) -> Job[Any] | Sequence[Job[Any]]:
        return self.jobs[index]

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        kinds = ("completed", "failed", "cancelled", "retried", "snoozed")
        counts = [f"{len(jobs)} {kind}" for kind in kinds if (jobs := getattr(self, kind))]
        return f"Drained({', '.join(counts) or 'nothing'})"

    def _now(self, status: Status) -> list[Job[Any]]:
        return [job for job in self.jobs if job.status == status]

    def _has_failed(self, job: Job) -> bool:
        return bool(job.errors) and job.errors[-1].token == self._tokens.get(job.id)


def drain(
    queue: JobQueue,
    *,
    types: Sequence[JobType] | None = None,
    limit: int | None = None,
    timeout: Seconds = 30,
    raise_errors: bool = False,
) -> Drained:
    """Run the jobs that are due, in this process and with the real worker, until none is. Returns these jobs.

    That includes jobs that handlers enqueue meanwhile, schedules that are due, and the sweep. Jobs that are due later stay:
    move the clock, and drain again.

    types: only jobs of these types, or of these handlers.
    limit: the most attempts, one after the other.
    timeout: raises TimeoutError if it takes longer; the handlers are stopped, and their jobs handed back.
    raise_errors: raises an AssertionError with the handler's traceback if a job's last attempt failed.
    """
    __tracebackhide__ = True
    drained = _blocking(_drained(_Drain(queue, types, limit, timeout)))
    if raise_errors:
        _raise_errors(drained)
    return drained


async def adrain(
    queue: JobQueue,
    *,
    types: Sequence[JobType] | None = None,
    limit: int | None = None,
    timeout: Seconds = 30,  # noqa: ASYNC109
    raise_errors: bool = False,
) -> Drained:
    """``drain``, awaited: async handlers run on this loop."""
    __tracebackhide__ = True
    drained = await _drained(_Drain(queue, types, limit, timeout))
    if raise_errors:
        _raise_errors(drained)
    return drained


def _blocking(work: Coroutine[Any, Any, R]) -> R:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="howdah-drain") as thread:
        return thread.submit(contextvars.copy_context().run, asyncio.run, work).result()


async def _drained(draining: _Drain) -> Drained:
    swept = await draining.read(_time_driven_work(draining.context))
    watch = asyncio.get_running_loop().call_later(draining.seconds, draining.time_is_up)
    try:
        await draining.work()
    finally:
        watch.cancel()
    if draining.late is not None:
        raise TimeoutError(f"not drained after {draining.seconds:g} s: {draining.late}")
    return await asyncio.to_thread(_found, draining, swept)


class _Drain:
    """A drain: its worker, and the jobs that it runs."""

    def __init__(self, queue: JobQueue, types: Sequence[JobType] | None, limit: int | None, timeout: Seconds) -> None:
        self.queue = queue
        self.context = queue._context
        self.types = list(queue.handlers) if types is None else [name_of(each) for each in types]
        if types is not None and not self.types:
            raise InvalidOption("types names no type, so nothing could run")
        self.seconds = options.span(timeout, "timeout", positive=True).total_seconds()
        self.name = f"drain-{secrets.token_hex(6)}"
        self.tokens: dict[uuid.UUID, int] = {}
        """The token of each job's last attempt, in the order of their ends."""
        self.late: str | None = None
        """What was running when the time was up."""
        self._limit = None if limit is None else options.integer(limit, "limit", least=1)
        self._attempts = 0
        self._over = False
        self._running: dict[uuid.UUID, Job] = {}
        self._worker: Worker | None = None

    async def read(self, plan: Plan[R]) -> R:
        return await asyncio.to_thread(self.queue._database.run, plan)

    async def work(self) -> None:
        """Work until nothing is left to do."""
        if self._over:
            return
        chosen: WorkerSettings = {"drain": True, "types": self.types, "grace": self.seconds, "lease": _LEASE}
        if self._limit is not None:
            chosen |= {"concurrency": 1, "threads": 1, "children": 1}
        self._worker = self.queue.worker(name=self.name, **chosen)
        self._worker._middleware = (self._around, *self._worker._middleware)
        await self._worker.run()

    def time_is_up(self) -> None:
        running = [f"{job.job_type} {job.id}" for job in self._running.values()]
        self.late = f"{len(self.tokens)} jobs have ended, {len(running)} are running"
        self.late += "".join(f"\n  {printable(each)}" for each in running[:MOST])
        self._finish()
        if self._worker is not None:
            # The first request to stop is gentle, the second is not.
            self._worker.stop()

    async def _around(self, called: Job | Sequence[Job], call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """The outermost middleware."""
        jobs = [called] if isinstance(called, Job) else called
        if self._limit is not None and self._attempts + len(jobs) > self._limit:
            # Claimed together with the last one that may run.
            self._finish()
            return Snooze(0)
        self._attempts += len(jobs)
        if self._attempts == self._limit:
            self._finish()
        self._running.update({job.id: job for job in jobs})
        try:
            return await call_next(called)
        finally:
            for job in jobs:
                self._running.pop(job.id, None)
                self.tokens.pop(job.id, None)
                self.tokens[job.id] = job.token

    def _finish(self) -> None:
        """Claim nothing more, and let the running jobs end."""
        if not self._over and self._worker is not None:
            self._worker.stop()
        self._over = True


def _time_driven_work(context: Context) -> Plan[list[uuid.UUID]]:
    """Do the regular work of workers now: the sweep, and the schedules that are due. Returns the jobs that it ended."""
    swept = yield from run_function("recover")
    yield from fire_due(context)
    return [row["id"] for row in swept if row["status"] in FINAL_STATUSES]


def _found(draining: _Drain, swept: Sequence[uuid.UUID]) -> Drained:
    jobs = {job.id: job for job in all_jobs(draining.queue)}
    tokens = dict.fromkeys(swept, 0) | draining.tokens
    for job in jobs.values():
        # A job that could not be read, or does not fit its handler, has ended without running.
        if job.id not in tokens and job.errors and job.errors[-1].worker == draining.name:
            tokens[job.id] = job.errors[-1].token
    return Drained([jobs[id] for id in tokens if id in jobs], tokens)


def _raise_errors(drained: Drained) -> None:
    __tracebackhide__ = True
    if jobs := [*drained.failed, *drained.retried]:
        what = "A job" if len(jobs) == 1 else f"{len(jobs)} jobs"
        raise AssertionError("\n\n".join([f"{what} failed.", *map(failure, jobs[:MOST])]))
