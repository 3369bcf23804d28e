"""Child processes, for handlers that use a whole core or may crash. Each runs one job at a time.

A child that crashes affects only its own job, which is recorded as crashed. To stop a handler, its child gets a signal, and
SIGKILL if it does not end.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from howdah.db import forks
from howdah.db.database import Database
from howdah.errors import HowdahError
from howdah.handlers import outcome
from howdah.handlers.handler import Handler
from howdah.handlers.outcome import Crashed, Ending, Failed, Interrupted, Spawned
from howdah.model.job import Job, why_unreadable
from howdah.worker.run.child import STOP_SIGNAL, Assignment, Flushed, Reports, main, packed
from howdah.worker.run.run import Run

_ENDINGS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        outcome.Completed,
        outcome.Failed,
        outcome.Snoozed,
        outcome.Suspended,
        outcome.Cancelled,
        outcome.Interrupted,
    )
}

START_ATTEMPTS = 3
"""How many children may end, or hang, before they are ready, until that is an error."""
READY_WITHIN = 60.0


class ChildStartError(HowdahError):
    """No child process could be started."""


class Children:
    """The child processes of a worker. Idle ones are kept."""

    def __init__(self, database: Database, begin: Callable[[], None] | None = None) -> None:
        self._database = database
        self._begin = begin
        self._context = multiprocessing.get_context("spawn")
        # Its own thread: handlers may use all threads of the loop's executor. All children are started in it, and it must live for
        # as long as they do: Linux kills a child when the thread ends that started it.
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "howdah-children")
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self.accepting = True
        """Whether more may be started."""

    async def reserve(self, handler: Handler[Any, Any, Any]) -> Child:
        """A child that has imported the handler's module and waits for a job. Raises ChildStartError."""
        for _ in range(START_ATTEMPTS):
            child = self._take_idle() or await self._start(handler.function.__module__)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READY_WITHIN):
                    if await child.is_ready():
                        return child
            self._forget(child)
        raise ChildStartError("no child process could be started: each ended, or hung, before it was ready")

    async def run(self, run: Run, child: Child) -> Ending:
        """Run a job in a reserved child. Returns its ending."""
        reason = why_unreadable(run.jobs[0])
        if reason is not None:
            return Failed(reason, give_up=True)
        return await child.perform(self._assignment(run), run)

    def _take_idle(self) -> Child | None:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            self._forget(child)
        return None

    def _forget(self, child: Child) -> None:
        child.kill()
        # When the worker ends, all are reaped together.
        if self.accepting and child in self._all:
            self._all.discard(child)
            self._thread.submit(child.reap)

    def put_back(self, child: Child) -> None:
        """The child is free again. One that has ended, is out of memory, or was asked to stop is dropped."""
        if child in self._idle:
            return
        if child.alive and not child.asked_to_stop and not child.used_up:
            self._idle.append(child)
        else:
            self._forget(child)

    def accept_no_more(self) -> None:
        """The worker ends: a wait for a child that is not ready ends at once, with an error."""
        self.accepting = False
        for child in list(self._all):
            if not child.has_been_ready:
                child.kill()

    async def close(self) -> None:
        self.accepting = False
        for child in list(self._all):
            child.kill()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._reap)
        self._thread.shutdown(wait=False)

    def _reap(self) -> None:
        """In the thread that starts children, and so after the last start, which the loop may not know of yet."""
        for child in list(self._all):
            if child.alive:
                child.kill()
            child.reap()
            self._all.discard(child)

    async def _start(self, module: str) -> Child:
        if not self.accepting:
            raise ChildStartError("no child process is started any more: the worker ends")
        try:
            child = await asyncio.get_running_loop().run_in_executor(self._thread, self._start_process, module)
        except (OSError, RuntimeError) as error:
            raise ChildStartError(f"no child process could be started: {error}") from error
        if not self.accepting:
            raise ChildStartError("no child process is needed any more: the worker ends")
        child.listen(asyncio.get_running_loop())
        return child

    def _start_process(self, module: str) -> Child:
        child = Child(self._context, module, self._begin)
        self._all.add(child)
        return child

    def _assignment(self, run: Run) -> Assignment:
        (job,) = run.jobs
        handler = run.handler
        fields = msgspec.to_builtins(dataclasses.replace(job, _attempt=None, _home=None, _results=None))
        return Assignment(
            module=handler.function.__module__,
            qualname=handler.function.__qualname__,
            name=handler.name,
            dsn=self._database.dsn(),
            schema=self._database.schema,
            capture_logs=run.services.capture_logs,
            job=fields,
        )


class Child:
    """One child process."""

    def __init__(
        self, context: multiprocessing.context.SpawnContext, module: str, begin: Callable[[], None] | None
    ) -> None:
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        forks.keep_channel(self._pipe)
        self._process = context.Process(target=main, args=(theirs, module, begin), name="howdah-child")
        self._process.start()
        theirs.close()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answer: asyncio.Future[Ending] | None = None
        self._run: Run | None = None
        self._begins = False
        """Whether it has received the job: from then on a crash may be caused by the job."""
        self._flushing: set[asyncio.Task[None]] = set()
        self.alive = True
        self.asked_to_stop = False
        self.used_up = False
        self._ready: asyncio.Future[bool] | None = None

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready = loop.create_future()
        loop.add_reader(self._pipe.fileno(), self._receive)

    @property
    def has_been_ready(self) -> bool:
        return self._ready is not None and self._ready.done()

    async def is_ready(self) -> bool:
        """Wait until the child is ready. False: it ended first."""
        assert self._ready is not None
        return await asyncio.shield(self._ready) and self.alive

    async def perform(self, assignment: Assignment, run: Run) -> Ending:
        assert self._loop is not None
        try:
            self._pipe.send_bytes(packed(assignment))
        except OSError:
            self._on_end()
        if not self.alive:
            # It ended while it was idle: the job is not the cause.
            return Interrupted()
        self._run = run
        self._begins = False
        self._answer = self._loop.create_future()
        return await self._answer

    def interrupt(self) -> None:
        """Ask the handler to stop."""
        self.asked_to_stop = True
        self._signal(STOP_SIGNAL)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        if self._loop is not None and self.alive:
            self._loop.remove_reader(self._pipe.fileno())
        self.alive = False
        self._set_ready(False)
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Crashed("the child process was killed"))

    def reap(self) -> None:
        with contextlib.suppress(ValueError):  # closed already, or cannot be killed
            self._process.join(5)
            self._process.close()
        self._pipe.close()

    def _set_ready(self, ready: bool) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(ready)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, ValueError):  # it has ended, or is even closed
            if self._process.pid is not None and self._process.exitcode is None:
                os.kill(self._process.pid, number)

    def _receive(self) -> None:
        try:
            message = json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            self._on_end()
            return
        if "ready" in message:
            self._set_ready(True)
        elif "begins" in message:
            self._begins = True
        elif "reports" in message and self._run is not None:
            self._on_reports(self._run, msgspec.convert(message, Reports))
        elif "kind" in message and self._answer is not None and not self._answer.done():
            self.used_up = message["used_up"]
            if self._run is not None:
                (job,) = self._run.jobs
                if message["spawned"]:
                    spawned = msgspec.convert(message["spawned"], type=list[Spawned])
                    self._run.spawned.setdefault(job.id, []).extend(spawned)
                if message["completed_by_handler"]:
                    self._run.by_handler.add(job.id)
            self._answer.set_result(_ending(message))

    def _on_reports(self, run: Run, message: Reports) -> None:
        (job,) = run.jobs
        run.reporter(job).feed(message.reports, message.left_out)
        if message.flush:
            flushing = asyncio.ensure_future(self._flush(run, job, message))
            self._flushing.add(flushing)
            flushing.add_done_callback(self._flushing.discard)

    async def _flush(self, run: Run, job: Job, message: Reports) -> None:
        written = await run.services.sink.aflush(run.reporter(job), ends=message.ends)
        if self.alive:
            with contextlib.suppress(OSError):  # it has ended
                self._pipe.send_bytes(msgspec.json.encode(Flushed(message.flush, written)))

    def _on_end(self) -> None:
        if not self.alive:
            return
        assert self._loop is not None
        self.alive = False
        self._set_ready(False)
        self._loop.remove_reader(self._pipe.fileno())
        if self._answer is not None and not self._answer.done():
            self._process.join(1)
            how = f"the child process that ran the job {_how(self._process.exitcode)}"
            self._answer.set_result(Crashed(how) if self._begins else Interrupted())


def _ending(message: dict[str, Any]) -> Ending:
    ending: Ending = msgspec.convert(message["ending"], type=_ENDINGS[message["kind"]])
    return ending


def _how(exitcode: int | None) -> str:
    if exitcode is None:
        return "closed its pipe"
    if exitcode < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-exitcode).name}"
    return f"ended with exit code {exitcode}"
