"""The executor: runs handlers, and says how their jobs ended. It never touches the database.

    bind the arguments → through the middleware → on the loop, in a thread or in a child → an ending

A handler that is told to stop and does not end is abandoned: its job ends without it, its slot is free,
and it is counted as leaked for as long as it lives on.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from howdah.errors import InvalidArguments
from howdah.handlers.outcome import Completed, Ending, Failed, Interrupted
from howdah.model.failure import describe, traceback_of
from howdah.model.job import Job
from howdah.worker.run import endings, log_capture
from howdah.worker.run.binding import bound
from howdah.worker.run.children import Child, Children
from howdah.worker.run.run import Run, StopReason
from howdah.worker.run.threads import Ended, ThreadCall, Threads

Called: TypeAlias = Job | Sequence[Job]
Next: TypeAlias = Callable[[Called], Awaitable[Any]]
Middleware: TypeAlias = Callable[[Any, Next], Awaitable[Any]]

LEEWAY: dict[StopReason, float | None] = {
    "timed out": 1.0,
    "lost": 1.0,
    "fenced": 1.0,
    "shutdown": 1.0,
    # The database ends it when the grace for cancelling has passed, and then it is lost.
    "cancelled": None,
}
CHILD_LEEWAY = 5.0
CAN_BE_EAGER = sys.version_info >= (3, 12)


class Executor:
    """Runs handlers."""

    def __init__(
        self,
        threads: Threads,
        children: Children,
        middleware: Sequence[Middleware],
        *,
        ended: Callable[[Run, Sequence[Ending | None]], None],
        leaked: Callable[[int], None],
    ) -> None:
        self._threads = threads
        self._children = children
        self._middleware = tuple(reversed(middleware))
        self.has_middleware = bool(middleware)
        self._ended = ended
        self._leaked = leaked
        self._loop = asyncio.get_running_loop()

    def launch(self, run: Run, child: Child | None = None) -> None:
        """Begins a run, in a reserved child if there is one. ``ended`` is called once, when its jobs are no longer its own."""
        _Flight(self, run, child).begin()

    async def call(self, flight: _Flight) -> Any:
        run = flight.run
        arguments = None if flight.child is not None else flight.bound()
        if not self._middleware:
            return await self._invoke(flight, arguments)

        run.bind()

        async def innermost(_: Called) -> Any:
            return await self._invoke(flight, arguments)

        chain: Next = innermost
        for middleware in self._middleware:
            chain = _wrapped(middleware, chain)
        return await chain(run.jobs[0] if run.handler.batch is None else run.jobs)

    async def _invoke(self, flight: _Flight, arguments: dict[str, Any] | None) -> Any:
        run = flight.run
        if arguments is None:
            assert flight.child is not None
            ending = await self._children.run(run, flight.child)
            if not isinstance(ending, Completed):
                raise endings.EndedInChild(ending)
            return ending.result
        if run.handler.kind == "async":
            try:
                value = await run.handler.function(**arguments)
            except BaseException as error:
                run.end_copy(error)
                raise
            run.end_copy()
            return value
        future: asyncio.Future[Any] = self._loop.create_future()
        self.call_in_thread(flight, arguments, functools.partial(_answer, future), contextvars.copy_context())
        try:
            return await future
        except _Raised as raised:
            raise raised.error from None

    def call_in_thread(
        self, flight: _Flight, arguments: dict[str, Any], ended: Ended, context: contextvars.Context
    ) -> None:
        handler = flight.run.handler
        function = functools.partial(handler.function, **arguments)
        flight.uses_thread(self._threads.call(function, ended, context, handler.name))


def _wrapped(middleware: Middleware, inner: Next) -> Next:
    async def outer(called: Called) -> Any:
        return await middleware(called, inner)

    return outer


def _answer(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(_Raised(error))


class _Raised(Exception):
    """Carries any BaseException through a future, which takes neither StopIteration nor SystemExit well."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class _Flight:
    """A run on its way: the task or the thread that it is in, and what it takes to stop it."""

    __slots__ = ("_begun", "_executor", "_task", "_thread", "_timers", "_told", "child", "done", "run")

    def __init__(self, executor: Executor, run: Run, child: Child | None) -> None:
        self._executor = executor
        self.run = run
        self.child = child
        self.done = False
        self._begun = False
        self._told = False
        self._timers: list[asyncio.TimerHandle] = []
        self._thread: ThreadCall | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        loop = self._executor._loop
        self.run.on_stop(self._stop)
        if (timeout := self.run.timeout) is not None:
            self._timers.append(loop.call_later(timeout, self.run.stop, "timed out"))
        if self.run.handler.kind == "thread" and self.child is None and not self._executor.has_middleware:
            # Nothing of it is on the loop: it needs no task.
            self._go_to_thread(contextvars.copy_context())
        else:
            self._task = _begun(loop, self._fly(), self.run)

    def _go_to_thread(self, context: contextvars.Context) -> None:
        self._begun = True
        context.run(log_capture.follow, self.run)
        try:
            self._executor.call_in_thread(self, self.bound(), self._land, context)
        except BaseException as error:  # noqa: BLE001
            # As in _fly: also what a type's own conversion raises is about its job alone.
            self._land(None, error)

    def bound(self) -> dict[str, Any]:
        try:
            return bound(self.run)
        except InvalidArguments as error:
            raise _Unreadable(error) from error

    def uses_thread(self, call: ThreadCall) -> None:
        self._thread = call

    async def _fly(self) -> None:
        value, error = None, None
        try:
            self._begun = True
            log_capture.follow(self.run)
            if self.run.reason is not None:
                raise asyncio.CancelledError
            if self.child is None and self.run.handler.kind == "async" and not self._executor.has_middleware:
                value = await self.run.handler.function(**self.bound())
                self.run.end_copy()
            else:
                value = await self._executor.call(self)
        except BaseException as raised:  # noqa: BLE001
            # Whatever a handler raises, SystemExit included, is about its job alone.
            error = raised
            self.run.end_copy(error)
        finally:
            if self.child is not None:
                self._executor._children.put_back(self.child)
        self._land(value, error)

    def _land(self, value: Any, error: BaseException | None) -> None:
        """The handler has ended, so or so."""
        if self.done:
            if self._thread is None and self.child is None:
                self._executor._leaked(-1)
            return
        try:
            made = self._made(value, error)
        except BaseException as unreadable:  # noqa: BLE001
            failed = Failed(f"what the handler returned or raised could not be read: {describe(unreadable)}")
            made = [self._unless_over(job, failed) for job in self.run.jobs]
        self._finish(made)

    def _made(self, value: Any, error: BaseException | None) -> list[Ending | None]:
        if self.run.handler.batch is None or self.child is not None:
            return [self._ending(self.run.jobs[0], value, error)]
        return self._many(value, error)

    def _many(self, value: Any, error: BaseException | None) -> list[Ending | None]:
        if error is not None:
            return [self._ending(job, None, error) for job in self.run.jobs]
        made = endings.of_batch(self.run.handler, self.run.jobs, value)
        return [self._unless_over(job, ending) for job, ending in zip(self.run.jobs, made, strict=True)]

    # How it ended

    def _ending(self, job: Job, value: Any, error: BaseException | None) -> Ending | None:
        run = self.run
        if error is None:
            return self._unless_over(job, endings.of_value(run.handler, job, value))
        if isinstance(error, _Unreadable):
            return endings.unreadable(error.error)
        run.bind()  # a retry rule of the user's may look at the job
        return self._unless_over(job, self._interrupted(error) or endings.of_error(run.handler, job, error))

    def _interrupted(self, error: BaseException | None) -> Ending | None:
        """The ending of a run that was told to stop, and did."""
        match self.run.reason:
            case None:
                return None
            case "timed out":
                return Failed(f"timed out after {self.run.timeout:g} s", None if error is None else traceback_of(error))
            case _:
                return Interrupted()

    def _unless_over(self, job: Job, ending: Ending) -> Ending | None:
        run = self.run
        if run.by_handler and job.id in run.by_handler:
            return endings.by_handler(ending)
        return None if run.reason == "lost" or (run.lost and job.id in run.lost) else ending

    def _finish(self, made: Sequence[Ending | None]) -> None:
        self.done = True
        self.run.on_stop(None)
        for timer in self._timers:
            timer.cancel()
        self._executor._ended(self.run, made)

    # Stopping it

    def _stop(self, reason: StopReason) -> None:
        leeway = LEEWAY[reason]
        if self.child is not None:
            leeway = CHILD_LEEWAY if reason == "cancelled" else leeway
            if self._begun:
                self.child.interrupt()
        elif self._thread is None and self._begun and not self._told:
            # Once: what it does to end is not to be disturbed again.
            self._told = True
            self._cancel()
        if leeway is not None:
            self._timers.append(self._executor._loop.call_later(leeway, self._abandon))

    def _abandon(self) -> None:
        """It was told to stop, and has not. Its jobs end without it."""
        if self.done:
            return
        if self._thread is not None:
            if not self._thread.abandon():
                return
        elif self.child is None:
            self._executor._leaked(1)
        self._finish([self._unless_over(job, self._interrupted(None) or Interrupted()) for job in self.run.jobs])
        if self.child is not None:
            self.child.kill()
        if self._task is not None and (self._thread is not None or self.child is not None):
            self._task.cancel()

    def _cancel(self) -> None:
        # Without a task it is told by itself, in its first step.
        task = self._task or asyncio.current_task()
        assert task is not None
        task.cancel()


def _begun(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None], run: Run) -> asyncio.Task[None]:
    """The task of a run. Its first step is taken at once: one that never waits costs the loop nothing."""
    if CAN_BE_EAGER and loop.get_task_factory() is None:
        name = run.handler.name  # more would cost more than all the rest; log_capture knows the run of a task
        task = asyncio.Task(work, loop=loop, name=name, eager_start=True)  # type: ignore[call-arg, unused-ignore]
        run.end_copy()
        return task
    return loop.create_task(work, name=f"job {run.label}")


class _Unreadable(Exception):
    def __init__(self, error: InvalidArguments) -> None:
        super().__init__(str(error))
        self.error = error
