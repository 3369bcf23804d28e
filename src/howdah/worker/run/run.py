"""A run: one call of a handler, with its job (for a batch handler, its jobs)."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.db import forks
from howdah.db.database import Database
from howdah.db.plan import Begin, Plan
from howdah.errors import JobNotChanged, QueueClosed
from howdah.handlers import resource
from howdah.handlers.middleware import Called
from howdah.handlers.outcome import Spawned
from howdah.model.claimed_job import data_as_json
from howdah.model.connection import Connection
from howdah.model.failure import loggable
from howdah.model.job import Job, StepCall, bind
from howdah.verbs import claims as verbs
from howdah.verbs.workflows import spawned_jobs
from howdah.worker.calls import claim_ref, spawn
from howdah.worker.progress.tracker import Tracker
from howdah.worker.run.steps import Steps

if TYPE_CHECKING:
    from howdah.handlers.handler import Handler

log = logging.getLogger("howdah.worker")

R = TypeVar("R")

_MAKING_STEPS: Final = threading.Lock()

StopReason: TypeAlias = Literal["cancelled", "timed out", "lost", "fenced", "shutdown"]


class ReportSink(Protocol):
    """Writes what handlers report of their jobs."""

    def changed(self, tracker: Tracker) -> None:
        """A tracker has something to write. Called from any thread."""

    def flush(self, tracker: Tracker, *, ends: bool) -> bool:
        """Wait until the reports of a job are written, within a limit. Return whether they are. ends: the job is about to end."""

    async def aflush(self, tracker: Tracker, *, ends: bool) -> bool: ...

    def rest(self, tracker: Tracker) -> Plan[None]:
        """Write what could not be flushed."""


class RunServices:
    """What all runs of a worker share: the resources, the database, and the sink of their reports."""

    def __init__(
        self,
        resources: Mapping[str | type, Any],
        context: Context,
        database: Database,
        sink: ReportSink,
        *,
        capture_logs: bool = False,
    ) -> None:
        self.resources = resources
        self.context = context
        self.sink = sink
        self.capture_logs = capture_logs
        self.pid = os.getpid()
        self.mark_of_original = forks.mark_of_original()
        self.held_until = float("inf")
        """By the monotonic clock: after that, other workers may have the jobs of this one."""
        self._database = database

    def check_process(self) -> None:
        """Refuse a forked copy of the worker: the threads and the loop that it would wait for run in the original only."""
        if os.getpid() != self.pid:
            raise QueueClosed(
                "this is a forked copy of the worker: end it by os._exit(), and use the job in the original"
            )

    def complete(self, job: Job, result: Any, conn: Connection | None, spawned: Sequence[Spawned] = ()) -> None:
        self._database.run(_completed(self.context, job, result, spawned), conn)

    async def acomplete(self, job: Job, result: Any, conn: Connection | None, spawned: Sequence[Spawned] = ()) -> None:
        await self._database.arun(_completed(self.context, job, result, spawned), conn)

    def write_rest(self, tracker: Tracker, conn: Connection | None) -> None:
        try:
            self._database.run(self.sink.rest(tracker), conn)
        except Exception as error:  # noqa: BLE001
            _warn_of_the_rest(tracker, error)

    async def awrite_rest(self, tracker: Tracker, conn: Connection | None) -> None:
        try:
            await self._database.arun(self.sink.rest(tracker), conn)
        except Exception as error:  # noqa: BLE001
            _warn_of_the_rest(tracker, error)

    def checkpoint(self, job: Job, data: Any, conn: Connection | None) -> None:
        self._database.run(verbs.checkpoint(self.context, job, data), conn)

    async def acheckpoint(self, job: Job, data: Any, conn: Connection | None) -> None:
        await self._database.arun(verbs.checkpoint(self.context, job, data), conn)

    def perform(self, plan: Plan[R], conn: Connection | None = None) -> R:
        """Run a plan of the handler's steps."""
        return self._database.run(plan, conn)

    async def aperform(self, plan: Plan[R], conn: Connection | None = None) -> R:
        return await self._database.arun(plan, conn)


class Run:
    """One call of a handler."""

    __slots__ = (
        "_closed",
        "_only",
        "_steps",
        "_trackers",
        "asked",
        "began",
        "by_handler",
        "cancelled",
        "handler",
        "jobs",
        "lost",
        "noted",
        "on_stop",
        "on_withdraw",
        "reason",
        "resources",
        "services",
        "spawned",
        "took",
        "waiting",
    )

    def __init__(
        self, handler: Handler[Any, Any, Any], jobs: Sequence[Job], services: RunServices, *, noted: bool = True
    ) -> None:
        """noted: the database knows that the jobs have begun. Otherwise their claim started them ahead."""
        self.handler = handler
        self.jobs = jobs
        self.services = services
        self.resources = services.resources
        self.cancelled = False
        self.asked: set[uuid.UUID] = set()
        """The jobs for which cancellation was requested."""
        self.reason: StopReason | None = None
        self.lost: set[uuid.UUID] = set()
        self.by_handler: set[uuid.UUID] = set()
        """The jobs that the handler completed itself."""
        self.waiting: set[uuid.UUID] = set()
        """The jobs whose attempt has ended because they wait, or is about to."""
        self.on_stop: Callable[[StopReason], None] | None = None
        """Stops the call, while that is possible."""
        self.on_withdraw: Callable[[], bool] | None = None
        """Takes the call back if it waits for a thread."""
        self.noted = noted
        self.began: float | None = None
        """When the handler was called, by the monotonic clock."""
        self.took: float | None = None
        """How long the handler ran, if a thread measured that: the loop would measure its own delay too."""
        self.spawned: dict[uuid.UUID, list[Spawned]] = {}
        """Jobs that the handler adds, in the transaction of its job's completion."""
        self._trackers: dict[uuid.UUID, Tracker] = {}
        self._only: Tracker | None = None
        self._steps: Steps | None = None
        self._closed = False

    def bind(self) -> None:
        """Give the jobs their verbs. Only where a user's code sees them: a job and its run then reference each other."""
        for job in self.jobs:
            bind(job, self)

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of the call: the job's data, the job itself, the resources. Raises InvalidArguments."""
        arguments = self.handler.arguments
        if arguments.job_parameter is not None:
            self.bind()
        if self.handler.batch is not None:
            assert arguments.job_parameter is not None
            called: dict[str, Any] = {arguments.job_parameter: list(self.jobs)}
        else:
            (job,) = self.jobs
            text = data_as_json(job)
            called = arguments.decode(job.data) if text is None else arguments.decode_json(text)
            if arguments.lazy:
                called = arguments.filled(called, job._results)
            if arguments.job_parameter is not None:
                called[arguments.job_parameter] = job
        for name, marker in arguments.resources.items():
            called[name] = resource.find(self.resources, arguments.resource_types[name], marker)
        return called

    @property
    def called(self) -> Called:
        """What middleware is called with: the job; for a batch handler, its jobs."""
        return self.jobs[0] if self.handler.batch is None else self.jobs

    def call_handler(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function. A forked copy of the worker ends here, before it returns into middleware."""
        try:
            value = self.handler.function(**arguments)
        except BaseException as error:
            self.end_copy(error)
            raise
        self.end_copy()
        return value

    @property
    def label(self) -> str:
        jobs = str(self.jobs[0].id) if len(self.jobs) == 1 else f"{len(self.jobs)} jobs"
        return f"{self.handler.name} {jobs}"

    @property
    def timeout(self) -> float | None:
        """Seconds that the call may take: the shortest timeout of its jobs, or the handler's own."""
        shortest = self.jobs[0].timeout
        if len(self.jobs) > 1:
            shortest = min((job.timeout for job in self.jobs if job.timeout is not None), default=None)
        if shortest is None:
            shortest = self.handler.timeout
        return None if shortest is None else shortest.total_seconds()

    def stop(self, reason: StopReason) -> None:
        """Ask the handler to stop. The first reason stands, unless the jobs are lost."""
        if reason == "lost" or self.reason is None:
            self.reason = reason
        self.cancelled = True
        if self.on_stop is not None:
            self.on_stop(reason)

    def withdraw(self) -> None:
        """Take the call back, unless it has begun."""
        if self.on_withdraw is not None:
            self.on_withdraw()

    @property
    def seconds(self) -> float:
        """How long the handler has run."""
        return self.seconds_until(time.monotonic())

    def seconds_until(self, now: float) -> float:
        if self.took is not None:
            return self.took
        return 0.0 if self.began is None else now - self.began

    def is_cancelled(self, job: Job) -> bool:
        return self.cancelled or job.id in self.asked

    def cancel(self, job: Job) -> None:
        """Cancel a job. When all jobs are cancelled, the handler is stopped."""
        self.asked.add(job.id)
        if len(self.asked) == len(self.jobs):
            self.stop("cancelled")

    def lose(self, job: Job) -> None:
        """A job is no longer held. Without any job the run stops. A job that the handler completed itself, or that waits, is not lost."""
        if job.id in self.by_handler or job.id in self.waiting:
            return
        self.lost.add(job.id)
        if len(self.lost) == len(self.jobs):
            self.stop("lost")

    # What a handler can do through its job

    def reporter(self, job: Job) -> Tracker:
        if self._only is not None:
            return self._only
        tracker = self._trackers.get(job.id)
        if tracker is None:
            sink, most = self.services.sink, self.handler.max_events
            made = Tracker(claim_ref(job), self.services.context, sink.changed, max_events=most)
            # Only one is kept, also if another thread makes one at the same moment.
            tracker = self._trackers.setdefault(job.id, made)
            self._only = tracker if len(self.jobs) == 1 else None
            if self._closed:
                tracker.close()
        return tracker

    def checkpoint(self, job: Job, data: Any, conn: Connection | None) -> None:
        self.services.check_process()
        self._flush(job)
        self.services.checkpoint(job, data, conn)

    async def acheckpoint(self, job: Job, data: Any, conn: Connection | None) -> None:
        self.services.check_process()
        await self._aflush(job)
        await self.services.acheckpoint(job, data, conn)

    def _flush(self, job: Job) -> None:
        """Write the reports of a job: the next attempt continues after them, and does not repeat them."""
        if (tracker := self._trackers.get(job.id)) is not None and not self.services.sink.flush(tracker, ends=False):
            _warn_of_an_overtaking(tracker)

    async def _aflush(self, job: Job) -> None:
        tracker = self._trackers.get(job.id)
        if tracker is not None and not await self.services.sink.aflush(tracker, ends=False):
            _warn_of_an_overtaking(tracker)

    def complete(self, job: Job, result: Any, conn: Connection | None) -> None:
        self.services.check_process()
        # The database refuses reports of a job that has ended.
        if (tracker := self._trackers.get(job.id)) is not None and not self.services.sink.flush(tracker, ends=True):
            self.services.write_rest(tracker, conn)
        self.services.complete(job, result, conn, self.spawned.get(job.id, ()))
        self.spawned.pop(job.id, None)  # not before: if it was refused, the handler may still return
        self.by_handler.add(job.id)

    async def acomplete(self, job: Job, result: Any, conn: Connection | None) -> None:
        self.services.check_process()
        tracker = self._trackers.get(job.id)
        if tracker is not None and not await self.services.sink.aflush(tracker, ends=True):
            await self.services.awrite_rest(tracker, conn)
        await self.services.acomplete(job, result, conn, self.spawned.get(job.id, ()))
        self.spawned.pop(job.id, None)
        self.by_handler.add(job.id)

    def step(self, job: Job, step: StepCall) -> Any:
        return self._steps_of(job).do(step, self.services.perform)

    async def astep(self, job: Job, step: StepCall) -> Any:
        return await self._steps_of(job).ado(step, self.services.aperform)

    def wait_signal(self, job: Job, name: str, key: str | None, timeout: Seconds | None) -> Any:
        with self._about_to_wait(job) as steps, steps.turn:
            self._flush(job)
            return steps.result(self.services.perform(steps.wait(name, key, timeout)))

    async def await_signal(self, job: Job, name: str, key: str | None, timeout: Seconds | None) -> Any:  # noqa: ASYNC109
        with self._about_to_wait(job) as steps:
            async with steps.loop_turn:
                await self._aflush(job)
                return steps.result(await self.services.aperform(steps.wait(name, key, timeout)))

    def sleep(self, job: Job, moment: datetime | None, delay: Seconds | None) -> None:
        with self._about_to_wait(job) as steps, steps.turn:
            self._flush(job)
            steps.result(self.services.perform(steps.sleep(moment, delay)))

    async def asleep(self, job: Job, moment: datetime | None, delay: Seconds | None) -> None:
        with self._about_to_wait(job) as steps:
            async with steps.loop_turn:
                await self._aflush(job)
                steps.result(await self.services.aperform(steps.sleep(moment, delay)))

    def _steps_of(self, job: Job) -> Steps:
        self.services.check_process()
        steps = self._steps
        if steps is None:
            steps = Steps(self.services.context, job, self.handler.batch is not None)
            with _MAKING_STEPS:
                # Only one is kept, also if another thread makes one at the same moment.
                steps = self._steps = steps if self._steps is None else self._steps
        return steps

    @contextlib.contextmanager
    def _about_to_wait(self, job: Job) -> Iterator[Steps]:
        """While the call is under way, the database may have ended the attempt already: the job is not lost then."""
        steps = self._steps_of(job)
        self.waiting.add(job.id)
        try:
            yield steps
        finally:
            # Another thread may have ended the attempt, or have ended its own wait, meanwhile.
            (self.waiting.add if steps.is_suspended else self.waiting.discard)(job.id)

    def spawn(
        self, job: Job, target: Any, items: Iterable[Mapping[str, Any]], chosen: Mapping[str, Any] | None
    ) -> None:
        self.services.check_process()
        if job.id in self.by_handler:
            raise JobNotChanged(f"job {job.id} has completed: spawn jobs before complete()")
        spawned = spawned_jobs(self.services.context, target, items, chosen or {})
        self.spawned.setdefault(job.id, []).extend(spawned)

    def end_copy(self, error: BaseException | None = None) -> None:
        """Called when the handler returned or raised: a forked copy of the worker ends here."""
        if not self.services.mark_of_original[0]:
            forks.end_copy(self.services.pid, self.handler.name, error)

    def close(self) -> None:
        """The run is over: later reports are ignored."""
        self._closed = True
        for tracker in list(self._trackers.values()) if self._trackers else ():
            tracker.record_left_out()
            tracker.close()


def _completed(context: Context, job: Job, result: Any, spawned: Sequence[Spawned]) -> Plan[None]:
    if spawned:
        yield Begin()  # in the caller's transaction, a part of it
        yield from spawn(context, claim_ref(job), spawned)
    yield from verbs.complete(context, job, result)


def _warn_of_the_rest(tracker: Tracker, error: Exception) -> None:
    about = loggable(error)
    log.warning("job %s ends before all of its reports could be written", tracker.ref[0], exc_info=about)


def _warn_of_an_overtaking(tracker: Tracker) -> None:
    log.warning("a checkpoint or wait of job %s is written before all of its reports could be", tracker.ref[0])
