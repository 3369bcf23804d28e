"""Runs tasks.

A Django queue has one handler for all of its tasks, plain and async. A plain task runs in a thread, which keeps its connections
between tasks as Django keeps them between requests. An async task runs on the worker's loop; its calls of the ORM have a thread of
their own, because otherwise those of all tasks would share one.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries
from django.utils import timezone

from howdah.django import results, transactions
from howdah.django.framework import (
    Task,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from howdah.django.task import HowdahTask, TaskContext
from howdah.handlers.outcome import AttemptSuspended, Cancel, Fail, Outcome, Snooze
from howdah.model.failure import describe, traceback_of
from howdah.model.job import Job

log = logging.getLogger("howdah.django")

UNKNOWN_DELAY: Final = 60.0
"""Seconds until a job of a task that is not known here is tried again: by then, the worker may have been deployed, too."""

_THREADS: Final = "howdah.django.threads"
_MOST_THREADS: Final = 10_000
"""More than tasks run at once: that is limited by the worker's slots."""


@contextlib.asynccontextmanager
async def lifespan(_: object) -> AsyncIterator[dict[str | type, Any]]:
    """The threads for plain tasks."""
    threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="howdah-task")
    try:
        yield {_THREADS: threads}
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def handler(alias: str) -> Callable[..., Awaitable[Any]]:
    """The handler of the Django queues of a backend."""

    async def run(job: Job, args: list[Any], kwargs: dict[str, Any], task: str | None = None) -> Any:  # noqa: ARG001
        found = results.task_of(job)
        if found is None:
            named = task or (job.meta or {}).get("task")
            log.warning("job %s is of the task %r, which is not known here: it will be tried again", job.id, named)
            raise Snooze(UNKNOWN_DELAY)
        attempt = Attempt(alias, found, job)
        if inspect.iscoroutinefunction(found.func):
            return await _on_loop(attempt)
        return await _in_thread(job.resources[_THREADS], attempt)

    return run


class Attempt:
    """One call of a task, with the result that its signals carry."""

    def __init__(self, alias: str, task: Task, job: Job) -> None:
        backend = task_backends[alias]
        self.task = task
        self.job = job
        self.sender = type(backend)
        self._unstorable: Exception | None = None
        self.result = results.task_result(backend, task, job)
        now = timezone.now()
        self._set(status=TaskResultStatus.RUNNING, last_attempted_at=now, started_at=self.result.started_at or now)

    async def acall(self) -> Any:
        """What an async function returns."""
        return await self.call()

    def call(self) -> Any:
        """What the function returns."""
        first = (TaskContext(task_result=self.result, job=self.job),) if self.task.takes_context else ()
        return self.task.func(*first, *self.result.args, **self.result.kwargs)

    def succeeded(self, value: Any) -> Any:
        """The value as it is stored."""
        try:
            stored = normalize_json(value)
        except (TypeError, ValueError) as error:
            self._unstorable = error
            raise
        self._set(status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=stored)
        return stored

    def failed(self, error: BaseException) -> bool:
        """Whether that was the last attempt."""
        if isinstance(error, Outcome | AttemptSuspended | asyncio.CancelledError):
            is_last = isinstance(error, Fail | Cancel)
        else:
            is_last = self._gives_up(error) or self.job.attempts >= self.job.max_attempts
        if is_last:
            errors = [*self.result.errors, results.task_error(error, traceback_of(error) or describe(error))]
            self._set(status=TaskResultStatus.FAILED, finished_at=timezone.now(), errors=errors)
        return is_last

    def raise_for_good(self, error: BaseException) -> None:
        """Raises Fail if no further attempt makes sense by the options of the task."""
        if self._gives_up(error):
            raise Fail(describe(error)) from error

    def _gives_up(self, error: BaseException) -> bool:
        if error is self._unstorable:
            # The task has done its work: another attempt would do it again, and return the same.
            return True
        return isinstance(self.task, HowdahTask) and isinstance(error, self.task.give_up)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            moment = name.endswith("_at") and value is not None and timezone.is_aware(value)
            results.set_field(self.result, name, results.moment(value) if moment else value)


def execute(attempt: Attempt, call: Callable[[], Any]) -> Any:
    """Calls a task and sends its signals, in the thread of the task."""
    signal = {"sender": attempt.sender, "task_result": attempt.result}
    task_started.send_robust(**signal)
    try:
        value = attempt.succeeded(call())
    except BaseException as error:
        if attempt.failed(error):
            task_finished.send_robust(**signal)
        attempt.raise_for_good(error)
        raise
    task_finished.send_robust(**signal)
    return value


async def aexecute(attempt: Attempt, call: Callable[[], Awaitable[Any]]) -> Any:
    """``execute``, awaiting."""
    signal = {"sender": attempt.sender, "task_result": attempt.result}
    await task_started.asend_robust(**signal)
    try:
        value = attempt.succeeded(await call())
    except BaseException as error:
        if attempt.failed(error):
            await task_finished.asend_robust(**signal)
        attempt.raise_for_good(error)
        raise
    await task_finished.asend_robust(**signal)
    return value


async def _on_loop(attempt: Attempt) -> Any:
    async with ThreadSensitiveContext() as context:

        async def call() -> Any:
            value = await attempt.acall()
            # Without a call of the ORM there is no thread.
            if context in SyncToAsync.context_to_thread_executor and (left := await sync_to_async(transactions.end)()):
                raise transactions.LeftOpen(left)
            return value

        try:
            return await aexecute(attempt, call)
        finally:
            # Its thread ends with the task, and so must the thread's connections.
            if context in SyncToAsync.context_to_thread_executor:
                await sync_to_async(connections.close_all)()


async def _in_thread(threads: ThreadPoolExecutor, attempt: Attempt) -> Any:
    """Runs a plain task. A thread cannot be stopped: if its job is, it goes on, and counts as leaked until it ends."""
    context = contextvars.copy_context()
    running = asyncio.get_running_loop().run_in_executor(threads, context.run, _caught, attempt)
    try:
        value, error = await asyncio.shield(running)
    except asyncio.CancelledError:
        # The job was stopped. A second cancellation is the end of the loop.
        value, error = await running
    if error is not None:
        raise error
    return value


def _caught(attempt: Attempt) -> tuple[Any, BaseException | None]:
    """What the task returned, and what it raised: a future takes not every exception."""
    try:
        reset_queries()
        close_old_connections()
        try:
            return execute(attempt, lambda: _outside_transactions(attempt.call)), None
        finally:
            transactions.end()
            close_old_connections()
    except BaseException as error:  # noqa: BLE001
        return None, error


def _outside_transactions(call: Callable[[], Any]) -> Any:
    value = call()
    if left := transactions.end():
        raise transactions.LeftOpen(left)
    return value
