"""Calls that are made at the same time, sent as one.

A commit waits for the disk, and a call for its commit. So calls of a kind that can be merged (``GatheredCall``) are gathered
while earlier ones are under way, and go as one statement in one transaction. Each caller gets its answer after that commit.

- A call that finds no other under way goes by itself, at once: a lone producer waits for no other, and pays nothing.
- On an event loop, the other calls of the same turn gather until its end. At most ``MOST_UNDER_WAY`` are under way at a time.
- Where a merged call has no answer for a caller, because it was refused or its connection was lost, the caller sends its own call,
  the usual way. So its call must be repeatable. Its errors, pauses and timeouts are those of any other call.
- If what is under way does not end, it may wait for a lock. Then the calls behind it go by themselves, too.

One gathering serves the threads of a process, and one each event loop, as the pools do.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from howdah.db.plan import GatheredCall, Row
from howdah.db.session import AsyncSession, SyncSession

if TYPE_CHECKING:
    from howdah.db.database import Database

MOST_UNDER_WAY: Final = 2
"""The server writes one while the other waits for the disk."""

MOST_TOGETHER: Final = 1_000
MOST_SIZE: Final = 4_000_000
"""Characters of data in the calls that go together; one of them may exceed it."""

STUCK_AFTER: Final = 1.0
"""Seconds without any answer, after which the calls that wait go by themselves."""


class _Waiting:
    """A call that waits to be sent."""

    __slots__ = ("since", "step")

    def __init__(self, step: GatheredCall) -> None:
        self.step = step
        self.since = time.monotonic()


class _WaitingThread(_Waiting):
    __slots__ = ("_woken", "batch", "rows")

    def __init__(self, step: GatheredCall) -> None:
        super().__init__(step)
        self.rows: list[Row] | None = None
        self.batch: list[_WaitingThread] = []
        """The calls that this thread is to send, its own among them; none if another thread sends it."""
        self._woken = threading.Lock()
        self._woken.acquire()

    def wait(self, seconds: float) -> bool:
        return self._woken.acquire(timeout=seconds)

    def wake(self) -> None:
        self._woken.release()


class _WaitingTask(_Waiting):
    __slots__ = ("answer", "is_under_way")

    def __init__(self, step: GatheredCall, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(step)
        self.answer: asyncio.Future[list[Row] | None] = loop.create_future()
        self.is_under_way = False
        """Whether its task is to send it, and counts as one of those under way."""


class ThreadGathering:
    """The calls of all threads of a process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: list[_WaitingThread] = []
        self._under_way = 0
        self._ended_at = 0.0

    def rows(self, step: GatheredCall, session: SyncSession) -> list[Row]:
        """The answer of a call. session: the caller's, which sends the call by itself where it does not go with others."""
        if self._may_go():
            try:
                return session.rows(step.call)
            finally:
                self._ended()
        waiting = _WaitingThread(step)
        self._wait(waiting)
        if len(waiting.batch) > 1:
            self._send(waiting.batch)
        if waiting.rows is not None:
            return waiting.rows
        session.wait_at_most = _time_left(self._database, waiting)
        try:
            return session.rows(step.call)
        finally:
            if len(waiting.batch) == 1:
                self._ended()

    def _may_go(self) -> bool:
        """Whether a call may go at once. Then it is under way."""
        with self._lock:
            goes = self._under_way < MOST_UNDER_WAY
            self._under_way += goes
            return goes

    def _wait(self, waiting: _WaitingThread) -> None:
        """Returns when the call has been answered, or this thread is to send it."""
        patience = _patience(self._database)
        try:
            with self._lock:
                if self._under_way < MOST_UNDER_WAY:  # one has ended meanwhile, and would wake no other thread
                    self._under_way += 1
                    waiting.batch = [waiting]
                    return
                self._waiting.append(waiting)
            while not waiting.wait(patience):
                with self._lock:
                    is_stuck = time.monotonic() - self._ended_at >= patience
                    if is_stuck and waiting in self._waiting:
                        self._waiting.remove(waiting)
                        return
        except BaseException:
            # The handler of a signal raised. Other threads must not wait for this one.
            with self._lock:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)
            if waiting.batch:
                self._answer(waiting.batch, [None] * len(waiting.batch))
            raise

    def _send(self, batch: list[_WaitingThread]) -> None:
        answers: Sequence[list[Row] | None] = [None] * len(batch)
        try:
            session = SyncSession(self._database, None, wait_at_most=_time_left(self._database, batch[0]))
            answers = session.run(batch[0].step.together([each.step.call for each in batch]))
        except Exception:  # noqa: BLE001, S110
            pass  # Each caller sends its own call, and gets its own error.
        finally:
            self._answer(batch, answers)

    def _answer(self, batch: list[_WaitingThread], answers: Sequence[list[Row] | None]) -> None:
        for each, rows in zip(batch, answers, strict=True):
            each.rows = rows
            if each is not batch[0]:
                each.wake()
        self._ended()

    def _ended(self) -> None:
        """Called when a call has ended, or several that went together. The thread that has waited longest sends the next ones."""
        with self._lock:
            self._ended_at = time.monotonic()
            if not self._waiting:
                self._under_way -= 1
                return
            count = _how_many(self._waiting)
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
            batch[0].batch = batch
        batch[0].wake()


class LoopGathering:
    """The calls of all tasks of an event loop."""

    def __init__(self, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        self._database = database
        self._loop = loop
        self._waiting: list[_WaitingTask] = []
        self._under_way = 0
        self._ended_at = 0.0
        self._is_scheduled = False
        self._is_watched = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def rows(self, step: GatheredCall, session: AsyncSession) -> list[Row]:
        """The answer of a call. session: the caller's, which sends the call by itself where it does not go with others."""
        if not self._under_way and not self._waiting:
            self._under_way = 1
            try:
                return await session.rows(step.call)
            finally:
                self._ended()
        waiting = _WaitingTask(step, self._loop)
        self._waiting.append(waiting)
        self._schedule()
        try:
            rows = await waiting.answer
            if rows is None:
                session.wait_at_most = _time_left(self._database, waiting)
                rows = await session.rows(step.call)
            return rows
        finally:
            if waiting.is_under_way:
                self._ended()

    def _schedule(self) -> None:
        if self._under_way < MOST_UNDER_WAY:
            if not self._is_scheduled:
                self._is_scheduled = True
                self._loop.call_soon(self._go)
        elif not self._is_watched:
            self._is_watched = True
            self._loop.call_later(_patience(self._database), self._look)

    def _go(self) -> None:
        """Sends the calls that wait, at the end of a turn of the loop."""
        self._is_scheduled = False
        # A caller that was cancelled meanwhile wants no job.
        waiting = [each for each in self._waiting if not each.answer.done()]
        count = _how_many(waiting)
        batch, self._waiting = waiting[:count], waiting[count:]
        if not batch:
            return
        self._under_way += 1
        if len(batch) == 1:
            batch[0].is_under_way = True
            batch[0].answer.set_result(None)
        else:
            # A task of its own, because each of the callers may be cancelled.
            task = self._loop.create_task(self._send(batch))
            self._tasks.add(task)
            task.add_done_callback(functools.partial(self._sent, batch))
        if self._waiting:
            self._schedule()

    async def _send(self, batch: list[_WaitingTask]) -> None:
        session = AsyncSession(self._database, None, wait_at_most=_time_left(self._database, batch[0]))
        answers = await session.run(batch[0].step.together([each.step.call for each in batch]))
        for each, rows in zip(batch, answers, strict=True):
            if not each.answer.done():
                each.answer.set_result(rows)

    def _sent(self, batch: list[_WaitingTask], task: asyncio.Task[None]) -> None:
        """Called when the task has ended, even if it was cancelled before it began."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # Each caller sends its own call, and gets its own error.
        for each in batch:
            if not each.answer.done():
                each.answer.set_result(None)
        self._ended()

    def _ended(self) -> None:
        """Called when a call has ended, or several that went together."""
        self._under_way -= 1
        self._ended_at = time.monotonic()
        if self._waiting:
            self._schedule()

    def _look(self) -> None:
        """Lets the calls that wait go by themselves, if none that is under way has ended for a while."""
        self._is_watched = False
        if time.monotonic() - self._ended_at >= _patience(self._database):
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                if not each.answer.done():
                    each.answer.set_result(None)
        elif self._waiting:
            self._schedule()


def _how_many(waiting: Sequence[_Waiting]) -> int:
    """How many of these calls go together: the first ones."""
    size = 0
    for count, each in enumerate(waiting[:MOST_TOGETHER], 1):
        size += each.step.size
        if size > MOST_SIZE:
            return count
    return min(len(waiting), MOST_TOGETHER)


def _patience(database: Database) -> float:
    return min(STUCK_AFTER, database.timeout)


def _time_left(database: Database, waiting: _Waiting) -> float:
    """How many more seconds a call that has waited may wait for a connection."""
    return max(database.timeout - (time.monotonic() - waiting.since), 0.001)
