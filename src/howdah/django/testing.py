"""Runs tasks inside of a TestCase.

A TestCase never commits, so no worker sees its jobs. ``run_pending`` claims, runs and ends them on the test's own connection, in the
test's transaction, and rolls nothing back that a worker would keep.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction
from psycopg import sql

from howdah.checks import options
from howdah.checks.options import Seconds
from howdah.db.plan import Plan, call
from howdah.db.statements import render, source
from howdah.django import run, transactions
from howdah.django.framework import DEFAULT_TASK_BACKEND_ALIAS, TaskResult, task_backends
from howdah.django.results import task_of
from howdah.errors import InvalidOption
from howdah.handlers.outcome import Completed, Ending, Spawned
from howdah.model.job import Job
from howdah.queue import JobQueue
from howdah.verbs.maps import advance_all, expand_maps
from howdah.verbs.schedules import fire_due
from howdah.worker import calls
from howdah.worker.progress.buffer import ProgressBuffer
from howdah.worker.progress.tracker import Tracker
from howdah.worker.run import endings
from howdah.worker.run.run import Run, RunServices

__all__ = ["arun_pending", "clean", "run_pending"]

WORKER: Final = "run_pending"


def run_pending(
    *,
    advance: Seconds | None = None,
    queues: Sequence[str] | None = None,
    limit: int | None = None,
    schedules: bool = False,
    raise_errors: bool = False,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
) -> list[TaskResult]:
    """Runs the tasks that are due, in this thread and on Django's own connection, until none is. Returns their results.

    That includes tasks that tasks enqueue meanwhile. Each attempt is one result.

    advance: first moves the queue's clock forward by so many seconds, for delays, retries and schedules. Only inside of a
        transaction, as every TestCase has it: its end sets the clock right. Python's own clock is not affected.
    queues: only tasks of these Django queues. limit: the most attempts.
    schedules: also stores the schedules that are in the code, before the clock moves, and fires those that are due then. Not by
        default, because the result would depend on the time of day.
    raise_errors: raises what a task raised, after its attempt was recorded.
    """
    pending = _Pending(backend, queues)
    for schedule in pending.backend.schedules() if schedules else ():
        pending.queue.schedules.set(**schedule, conn=pending.conn)
    if advance is not None:
        pending.advance(advance)
    pending.run(call("recover"))
    pending.run(expand_maps(pending.queue._context))
    if schedules:
        pending.run(fire_due(pending.queue._context))
    done: list[TaskResult] = []
    while limit is None or len(done) < limit:
        jobs = pending.queue.claim(pending.types, 1, WORKER, conn=pending.conn)
        if not jobs:
            break
        done.extend(pending.attempt(job, raise_errors) for job in jobs)
    return done


async def arun_pending(**given: Any) -> list[TaskResult]:
    """``run_pending``, awaited: for async tests."""
    return await sync_to_async(functools.partial(run_pending, **given), thread_sensitive=True)()


class _Pending:
    """The queue, on a connection of Django."""

    def __init__(self, alias: str, queues: Sequence[str] | None) -> None:
        self.backend = task_backends[alias]
        if not hasattr(self.backend, "queue"):
            raise InvalidOption(
                f"TASKS[{alias!r}] is {type(self.backend).__name__}, which has no jobs: use HowdahBackend"
            )
        self.queue: JobQueue = self.backend.queue
        self.conn = connections[self.backend.database]
        self.types = list(self.queue.handlers) if queues is None else options.job_types(queues)

    def run(self, plan: Plan[Any]) -> Any:
        return self.queue._database.run(plan, self.conn)

    def advance_workflows(self) -> None:
        while self.run(advance_all(self.queue._context)):
            pass

    def advance(self, by: Seconds) -> None:
        if not self.conn.in_atomic_block:
            raise InvalidOption(
                "advance= changes the clock until the transaction ends, and none is open: use it in a TestCase"
            )
        now: datetime = self.run(call("clock"))[0]["clock"]
        # A function definition has no parameters.
        moment = sql.Literal(now + options.span(by, "advance")).as_string(None)
        statement = render(source("testing/set_clock"), self.queue.schema).replace("%(now)s", moment)
        with self.conn.cursor() as cursor:
            cursor.execute(statement)

    def attempt(self, job: Job, raise_errors: bool) -> TaskResult:
        """Runs one job, as the worker does."""
        self.queue.start(job, conn=self.conn)
        # As it is now; whether it has steps, and the results that are among its arguments, are known from the claim.
        job = dataclasses.replace(self.queue.get(job, conn=self.conn), data=job.data, _has_steps=job._has_steps)
        services = _Inline(self)
        going = Run(self.queue.handlers[job.job_type], [job], services)
        going.bind()
        value, error = self._called(job)
        going.close()
        for tracker in going._trackers.values():
            services.sink.flush(tracker, ends=True)
        if job.id in going.waiting:
            error = None
        elif job.id not in going.by_handler:
            ending = Completed(value) if error is None else endings.of_error(going.handler, job, error)
            self._end(job, endings.with_spawned(ending, going.spawned.get(job.id, ())) or ending)
        if job.workflow_id is not None:
            # What a commit would do: there may never be one.
            self.advance_workflows()
        if error is not None and raise_errors:
            raise error.__cause__ or error
        return self.backend.get_result(str(job.id))

    def _called(self, job: Job) -> tuple[Any, BaseException | None]:
        task = task_of(job)
        if task is None:
            return None, LookupError(f"job {job.id} is not of a task that this process knows: import its module")
        before = transactions.Before.of(self.conn)
        attempt = run.Attempt(self.backend.alias, task, job)
        called = async_to_sync(attempt.acall) if inspect.iscoroutinefunction(task.func) else attempt.call

        def call() -> Any:
            value = called()
            if left := before.undo_left_open():
                raise transactions.LeftOpen(left)
            return value

        try:
            return run.execute(attempt, call), None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001
            return None, error
        finally:
            before.restore()

    def _end(self, job: Job, ending: Ending) -> None:
        stored = endings.storable(self.queue._context, ending)
        self.run(calls.end(self.queue._context, [(calls.claim_ref(job), stored)]))


class _Inline(RunServices):
    """The verbs of a job, on the test's connection."""

    def __init__(self, pending: _Pending) -> None:
        super().__init__({}, pending.queue._context, pending.queue._database, _Sink(pending))
        self._conn = pending.conn

    def complete(self, job: Job, result: Any, conn: Any, spawned: Sequence[Spawned] = ()) -> None:
        super().complete(job, result, conn or self._conn, spawned)

    async def acomplete(self, job: Job, result: Any, conn: Any, spawned: Sequence[Spawned] = ()) -> None:
        await sync_to_async(self.complete)(job, result, conn, spawned)

    def checkpoint(self, job: Job, data: Any, conn: Any) -> None:
        super().checkpoint(job, data, conn or self._conn)

    async def acheckpoint(self, job: Job, data: Any, conn: Any) -> None:
        await sync_to_async(self.checkpoint)(job, data, conn)

    def perform(self, plan: Plan[Any], conn: Any = None) -> Any:
        return super().perform(plan, conn or self._conn)

    async def aperform(self, plan: Plan[Any], conn: Any = None) -> Any:
        return await sync_to_async(self.perform)(plan, conn)


class _Sink:
    """Writes what a task reports: before it ends, and not a few times a second."""

    def __init__(self, pending: _Pending) -> None:
        self._pending = pending
        self._buffer = ProgressBuffer(pending.queue._context, lambda: None)

    def changed(self, tracker: Tracker) -> None:
        pass

    def flush(self, tracker: Tracker, *, ends: bool) -> bool:  # noqa: ARG002
        return self._buffer.write_now(tracker, self._pending.run)

    async def aflush(self, tracker: Tracker, *, ends: bool) -> bool:
        return await sync_to_async(self.flush)(tracker, ends=ends)

    def rest(self, tracker: Tracker) -> Plan[None]:
        yield from self._buffer.write_rest(tracker)


def clean(backend: str = DEFAULT_TASK_BACKEND_ALIAS) -> None:
    """Removes all jobs, schedules and settings of the queue: for a TransactionTestCase, whose flush leaves them."""
    found = task_backends[backend]
    with transaction.atomic(using=found.database), connections[found.database].cursor() as cursor:
        cursor.execute(render(source("testing/empty"), found.schema))
