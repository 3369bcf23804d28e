"""The executor: runs handlers, and makes endings of their results. It never touches the database.

    bind the arguments → through async middleware → on the loop, in a thread or in a child → an ending

Plain middleware is called in the thread, or in the child, around the handler.

A handler that does not end although it was asked to stop is abandoned: its job ends without it, its slot is free, and it
counts as leaked until it ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from howdah.errors import InvalidArguments
from howdah.handlers import middleware
from howdah.handlers.middleware import AnyMiddleware, Called, Middleware, Next, SyncMiddleware
from howdah.handlers.outcome import Completed, Ending, Failed, Interrupted, NotBegun, Suspended
from howdah.model.failure import describe, traceback_of
from howdah.model.job import Job
from howdah.worker.run import endings, log_capture
from howdah.worker.run.children import Child, Children
from howdah.worker.run.run import Run, StopReason
from howdah.worker.run.thread_lifespan import ThreadLifespan
from howdah.worker.run.threads import OnResult, ThreadCall, Threads

LEEWAY: dict[StopReason, float | None] = {
    "timed out": 1.0,
    "lost": 1.0,
    "fenced": 1.0,
    "shutdown": 1.0,
    # The database ends the job when the grace for cancelling has passed. Then it is lost.
    "cancelled": None,
}
CHILD_LEEWAY = 5.0
CAN_BE_EAGER = sys.version_info >= (3, 12)


class Executor:
    """The threads, child processes and middleware that the runs of a worker use, and where their results go."""

    def __init__(
        self,
        threads: int,
        children: Children,
        around: Sequence[AnyMiddleware],
        *,
        thread_lifespan: ThreadLifespan | None = None,
        on_result: Callable[[Run, Sequence[Ending | None]], None],
        on_leak: Callable[[int], None],
    ) -> None:
        """threads: the most that handlers may use at once."""
        self.threads = Threads(
            threads, on_leak=on_leak, at_end=None if thread_lifespan is None else thread_lifespan.leave
        )
        self.children = children
        on_loop, self.in_thread = middleware.split(around)
        self.middleware = tuple(reversed(on_loop))
        self.thread_lifespan = thread_lifespan
        self.on_result = on_result
        """Called once for each run, when its jobs are no longer its own."""
        self.on_leak = on_leak
        self.loop = asyncio.get_running_loop()

    async def close(self) -> None:
        self.threads.close()
        await self.threads.ended()
        await self.children.close()


class Invocation:
    """The call of a run's handler: the task or the thread that it is in, and what it takes to stop it."""

    __slots__ = ("_asked", "_bound", "_executor", "_started", "_task", "_thread", "_timers", "child", "done", "run")

    def __init__(self, executor: Executor, run: Run, child: Child | None = None) -> None:
        """child: a reserved child process, if the handler is to run in one."""
        self._executor = executor
        self.run = run
        self.child = child
        self.done = False
        self._started = False
        self._bound = False
        self._asked = False
        self._timers: list[asyncio.TimerHandle] = []
        self._thread: ThreadCall | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, now: float) -> bool:
        """Make the call. Return whether it begins in this turn of the loop: it may have to wait for a thread."""
        run, loop = self.run, self._executor.loop
        run.on_stop = self._stop
        if (timeout := run.timeout) is not None:
            self._timers.append(loop.call_later(timeout, self._time_passed, timeout))
        if run.handler.kind == "thread" and self.child is None and not self._executor.middleware:
            # Nothing of it is on the loop: it needs no task.
            self._start_in_thread(contextvars.copy_context())
            return False
        if CAN_BE_EAGER and loop.get_task_factory() is None:
            # Its first step is taken at once: a handler that never waits costs the loop nothing. A longer name would cost
            # more than all the rest; log_capture knows the run of a task.
            run.began = now
            name, work = run.handler.name, self._run()
            self._task = asyncio.Task(work, loop=loop, name=name, eager_start=True)  # type: ignore[call-arg, unused-ignore]
            run.end_copy()
        else:
            self._task = loop.create_task(self._run(), name=f"job {run.label}")
        return True

    def _start_in_thread(self, context: contextvars.Context) -> None:
        self._started = True
        context.run(log_capture.follow, self.run)
        try:
            arguments = self.run.arguments()
            self._bound = True
            self.run.on_withdraw = self._withdraw
            self._call_in_thread(arguments, self._on_result, context)
        except BaseException as error:  # noqa: BLE001
            # As in _run: also an error of a type's own conversion concerns its job alone.
            self._on_result(None, error)

    def _call_in_thread(self, arguments: dict[str, Any], on_result: OnResult, context: contextvars.Context) -> None:
        executor, run = self._executor, self.run
        call = run.handler.function
        if executor.in_thread or executor.thread_lifespan is not None:
            run.bind()
            call = functools.partial(_call_wrapped, run, executor.in_thread, executor.thread_lifespan)
        function = functools.partial(_timed, run, call, arguments)
        self._thread = executor.threads.call(function, on_result, context, run.handler.name)

    async def _run(self) -> None:
        value, error, run = None, None, self.run
        try:
            self._started = True
            if run.began is None:
                # Not when the task was made: those of one turn of the loop begin one after the other.
                run.began = time.monotonic()
            log_capture.follow(run)
            if run.reason is not None:
                raise asyncio.CancelledError
            arguments = {} if self.child is not None else run.arguments()
            self._bound = True
            if self._executor.middleware:
                value = await self._through_middleware(arguments)
            elif self.child is None and run.handler.kind == "async":
                value = await run.handler.function(**arguments)
                run.end_copy()
            else:
                value = await self._call(arguments)
        except BaseException as raised:  # noqa: BLE001
            # Any exception of a handler, SystemExit included, concerns its job alone.
            error = raised
            run.end_copy(error)
        finally:
            if self.child is not None:
                self._executor.children.put_back(self.child)
        self._on_result(value, error)

    async def _through_middleware(self, arguments: dict[str, Any]) -> Any:
        run = self.run
        run.bind()

        async def innermost(_: Called) -> Any:
            return await self._call(arguments)

        chain: Next = innermost
        for each in self._executor.middleware:
            chain = _wrapped(each, chain)
        return await chain(run.called)

    async def _call(self, arguments: dict[str, Any]) -> Any:
        run = self.run
        if self.child is not None:
            ending = await self._executor.children.run(run, self.child)
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
        future: asyncio.Future[Any] = self._executor.loop.create_future()
        self._call_in_thread(arguments, functools.partial(_answer, future), contextvars.copy_context())
        try:
            return await future
        except _Raised as raised:
            raise raised.error from None

    # Its result

    def _on_result(self, value: Any, error: BaseException | None) -> None:
        """Called when the handler returned or raised."""
        if self.done:
            if self._thread is None and self.child is None:
                self._executor.on_leak(-1)
            return
        try:
            made = self._endings(value, error)
        except BaseException as unreadable:  # noqa: BLE001
            failed = Failed(f"what the handler returned or raised could not be read: {describe(unreadable)}")
            made = [failed for _ in self.run.jobs]
        self._finish(made)

    def _endings(self, value: Any, error: BaseException | None) -> Sequence[Ending]:
        run = self.run
        if isinstance(error, InvalidArguments) and not self._bound:
            return [endings.unreadable(error) for _ in run.jobs]
        if error is not None:
            run.bind()  # a retry rule of the user may look at the job
            stopped = self._interrupted(error)
            return [stopped or endings.of_error(run.handler, job, error) for job in run.jobs]
        if run.handler.batch is None or self.child is not None:
            return [endings.of_value(run.handler, run.jobs[0], value)]
        return endings.of_batch(run.handler, run.jobs, value)

    def _interrupted(self, error: BaseException | None) -> Ending | None:
        """The ending of a run that was asked to stop, and did."""
        match self.run.reason:
            case None:
                return None
            case "timed out":
                return Failed(f"timed out after {self.run.timeout:g} s", None if error is None else traceback_of(error))
            case _:
                return Interrupted()

    def _finish(self, made: Sequence[Ending | None]) -> None:
        run = self.run
        self.done = True
        run.on_stop = run.on_withdraw = None
        for timer in self._timers:
            timer.cancel()
        if run.by_handler or run.waiting or run.lost or run.reason == "lost":
            made = [self._unless_over(job, ending) for job, ending in zip(run.jobs, made, strict=True)]
        self._executor.on_result(run, made)

    def _unless_over(self, job: Job, ending: Ending | None) -> Ending | None:
        if job.id in self.run.waiting or isinstance(ending, Suspended):
            return Suspended()
        if job.id in self.run.by_handler:
            return None if ending is None else endings.by_handler(ending)
        return None if self.run.reason == "lost" or job.id in self.run.lost else ending

    # Stopping it

    def _time_passed(self, timeout: float) -> None:
        """The timeout has passed since the call was made. It counts from its beginning."""
        began = self.run.began
        left = timeout if began is None else began + timeout - time.monotonic()
        if left > 0:
            self._timers.append(self._executor.loop.call_later(left, self._time_passed, timeout))
        else:
            self.run.stop("timed out")

    def _withdraw(self) -> bool:
        """Take the call back if it still waits for a thread."""
        if self.done or self._thread is None or not self._thread.withdraw():
            return False
        self._finish([Interrupted() if self.run.noted else NotBegun()] * len(self.run.jobs))
        return True

    def _stop(self, reason: StopReason) -> None:
        if self.run.on_withdraw is not None and self._withdraw():
            return
        leeway = LEEWAY[reason]
        if self.child is not None:
            leeway = CHILD_LEEWAY if reason == "cancelled" else leeway
            if self._started:
                self.child.interrupt()
        elif self._thread is None and self._started and not self._asked:
            # Only once: a second cancellation would disturb its cleanup.
            self._asked = True
            # In its first, eager step the invocation does not know its task yet.
            task = self._task or asyncio.current_task()
            assert task is not None
            task.cancel()
        if leeway is not None:
            self._timers.append(self._executor.loop.call_later(leeway, self._abandon))

    def _abandon(self) -> None:
        """The handler was asked to stop, and has not. Its jobs end without it."""
        if self.done:
            return
        if self._thread is not None:
            if not self._thread.abandon():
                return
        elif self.child is None:
            self._executor.on_leak(1)
        self._finish([self._interrupted(None) or Interrupted()] * len(self.run.jobs))
        if self.child is not None:
            self.child.kill()
        if self._task is not None and (self._thread is not None or self.child is not None):
            self._task.cancel()


def _timed(run: Run, call: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call the handler in its thread."""
    began = time.monotonic()
    if not run.noted and began > run.services.held_until:
        run.reason = run.reason or "fenced"
        raise asyncio.CancelledError
    run.began = began
    try:
        return call(**arguments)
    finally:
        run.took = time.monotonic() - began


def _call_wrapped(
    run: Run, around: Sequence[SyncMiddleware], lifespan: ThreadLifespan | None, /, **arguments: Any
) -> Any:
    """Call the handler through what its thread has around it. All of it counts for the timeout."""
    if lifespan is not None:
        lifespan.enter()
    return middleware.through(around, run.called, functools.partial(run.call_handler, arguments))


def _wrapped(around: Middleware, inner: Next) -> Next:
    async def outer(called: Called) -> Any:
        return await around(called, inner)

    return outer


def _answer(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(_Raised(error))


class _Raised(Exception):
    """Carries any BaseException through a future, which does not accept StopIteration or SystemExit."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
