"""Child processes, for handlers that may use up a core or die: one job at a time in each.

A child that dies takes nothing with it but its own job, which is recorded as crashed. A child that is
told to stop gets a signal, and SIGKILL when it does not end.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from howdah import outcome
from howdah.database import Database
from howdah.outcome import Crashed, Ending
from howdah.worker.child import STOP_SIGNAL, Assignment, main
from howdah.worker.run import Run

_ENDINGS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        outcome.Completed,
        outcome.Failed,
        outcome.Snoozed,
        outcome.Cancelled,
        outcome.Interrupted,
    )
}


BIRTHS = 3
"""How many children may die before they have a job, until that is taken for the job's own fault."""


class Children:
    """The child processes of a worker. Those that wait for a job are kept."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._context = multiprocessing.get_context("spawn")
        # Of its own: handlers may hold all threads of the loop.
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "howdah-children")
        self._idle: list[Child] = []
        self._all: set[Child] = set()

    async def run(self, run: Run, begun: Callable[[Child], None]) -> Ending:
        """Runs a job in a child process, and answers how it ended."""
        for attempt in range(BIRTHS):
            child = self._take_idle() or await self._born()
            begun(child)
            try:
                ending = await child.perform(self._assignment(run), run)
            finally:
                self._put_back(child)
            # Otherwise it died while it waited, or as it was born, and never had the job.
            if child.began or run.reason is not None or attempt == BIRTHS - 1:
                break
        return ending

    def _take_idle(self) -> Child | None:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            self._all.discard(child)
        return None

    def _put_back(self, child: Child) -> None:
        if child.alive and not child.told_to_stop:
            self._idle.append(child)
        else:
            self._all.discard(child)
            child.kill()

    async def close(self) -> None:
        for child in self._all:
            child.kill()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._reap)
        self._thread.shutdown(wait=False)

    def _reap(self) -> None:
        for child in self._all:
            child.reap()

    async def _born(self) -> Child:
        child = await asyncio.get_running_loop().run_in_executor(self._thread, Child, self._context)
        child.listen(asyncio.get_running_loop())
        self._all.add(child)
        return child

    def _assignment(self, run: Run) -> Assignment:
        (job,) = run.jobs
        handler = run.handler
        fields = msgspec.to_builtins(dataclasses.replace(job, _attempt=None))
        return Assignment(
            module=handler.function.__module__,
            qualname=handler.function.__qualname__,
            name=handler.name,
            dsn=self._database.dsn(),
            schema=self._database.schema,
            job=fields,
        )


class Child:
    """One child process."""

    def __init__(self, context: multiprocessing.context.SpawnContext) -> None:
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(theirs,), name="howdah-child")
        self._process.start()
        theirs.close()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answer: asyncio.Future[Ending] | None = None
        self._run: Run | None = None
        self.alive = True
        self.told_to_stop = False
        self.began = False
        """Whether it has the job: if not, its death is not the job's doing."""

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.add_reader(self._pipe.fileno(), self._receive)

    async def perform(self, assignment: Assignment, run: Run) -> Ending:
        assert self._loop is not None
        self._run, self.began = run, False
        self._answer = self._loop.create_future()
        try:
            self._pipe.send_bytes(msgspec.json.encode(assignment))
        except OSError:
            self._died()
        if not self.alive:
            return Crashed("the child process died before it had the job")
        return await self._answer

    def interrupt(self) -> None:
        """Tells the handler to stop."""
        self.told_to_stop = True
        self._signal(STOP_SIGNAL)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        if self._loop is not None and self.alive:
            self._loop.remove_reader(self._pipe.fileno())
        self.alive = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Crashed("the child process was killed"))

    def reap(self) -> None:
        self._process.join(5)
        with contextlib.suppress(ValueError):
            self._process.close()
        self._pipe.close()

    def _signal(self, number: int) -> None:
        if self._process.pid is not None and self._process.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def _receive(self) -> None:
        try:
            message = msgspec.json.decode(self._pipe.recv_bytes())
        except (EOFError, OSError):
            self._died()
            return
        if "began" in message:
            self.began = True
        elif "progress" in message and self._run is not None:
            (job,) = self._run.jobs
            self._run.desk.report(job, *message["progress"])
        elif "kind" in message and self._answer is not None and not self._answer.done():
            if message["completed_by_handler"] and self._run is not None:
                self._run.by_handler.update(job.id for job in self._run.jobs)
            self._answer.set_result(_ending(message))

    def _died(self) -> None:
        if not self.alive:
            return
        assert self._loop is not None
        self.alive = False
        self._loop.remove_reader(self._pipe.fileno())
        if self._answer is not None and not self._answer.done():
            self._process.join(1)
            self._answer.set_result(Crashed(f"the child process that ran the job {_how(self._process.exitcode)}"))


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
