"""The completer: writes the starts, reports and endings of the jobs that a worker holds, in batches.

One batch is written while the next one gathers. A single ending is written at once; under load, batches grow by
themselves. A batch that the database refuses is halved until the bad row is found, so that it never keeps the others from
ending. The bad row is then written on its own. A job that another transaction has locked is skipped, and tried again at
short intervals until the lock is gone. A batch that the server cuts short (statement_timeout) is halved too, and the next
ones stay small for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import uuid
from collections.abc import Callable, Container, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

from howdah.checks.context import Context
from howdah.db.batch_size import BatchSize
from howdah.db.database import Database
from howdah.db.outage import Backoff, is_cut_short
from howdah.db.plan import Begin, Plan
from howdah.errors import DatabaseUnavailable, InvalidInput
from howdah.handlers.outcome import Ending, Failed, in_ascii
from howdah.model.failure import describe, loggable
from howdah.model.job import Job
from howdah.worker import calls
from howdah.worker.calls import ClaimRef, claim_ref
from howdah.worker.connection import WorkerConnection
from howdah.worker.progress.buffer import Persist, ProgressBuffer, is_about_the_value
from howdah.worker.progress.tracker import Tracker
from howdah.worker.service import CutShortWarning

log = logging.getLogger("howdah.worker")

R = TypeVar("R")

BATCH = 2_000
GATHERED = 1_000
"""This many endings are written even if more are about to come. Each write is a commit."""
PATIENCE = 2.0
"""Seconds that a batch may take before it is divided."""
LOOK_AGAIN = 0.05
"""Seconds after which a locked job is tried again. They grow up to tenfold."""


Ended: TypeAlias = tuple[Job, Ending]
OnWritten: TypeAlias = Callable[[Sequence[Ended], Sequence[str | None]], None]
"""Called with endings and, in their places, the new statuses of the jobs; None where the database refused an ending."""


class Completer:
    """Writes starts, reports and endings. It is the ReportSink of a worker."""

    def __init__(
        self,
        database: Database,
        connection: WorkerConnection,
        context: Context,
        on_written: OnWritten,
        more_comes: Callable[[], bool] = lambda: False,
    ) -> None:
        self._database = database
        self._connection = connection
        self._context = context
        self._on_written = on_written
        self._more_comes = more_comes
        """Whether jobs are about to run that may end at once."""
        self._endings: list[Ended] = []
        self._starts: list[tuple[Sequence[Job], asyncio.Future[set[uuid.UUID]]]] = []
        self._flushes: list[tuple[ClaimRef, asyncio.Future[bool]]] = []
        self._buffer = ProgressBuffer(context, self._wake_from_thread)
        self.changed = self._buffer.changed
        self._timer: asyncio.TimerHandle | None = None
        self._work_waiting = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        self._stragglers: set[asyncio.Task[None]] = set()
        self._locked: list[Ended] = []
        self._waiting_for_locks = False
        self._slow: list[Ended] = []
        """Endings that the server cuts short although each is written alone."""
        self._trying_slow = False
        self._batch_size = BatchSize(BATCH)
        self._cut_short = CutShortWarning()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._task = asyncio.create_task(self._work(), name="howdah completer")

    @property
    def backlog(self) -> int:
        return len(self._endings) + len(self._locked) + len(self._slow)

    def end(self, job: Job, ending: Ending) -> None:
        self._endings.append((job, ending))
        if len(self._endings) == 1:
            self._wake()

    async def start(self, jobs: Sequence[Job]) -> set[uuid.UUID]:
        """Mark claimed jobs as running. Returns those that may run."""
        answer: asyncio.Future[set[uuid.UUID]] = self._loop.create_future()
        self._starts.append((jobs, answer))
        self._wake()
        return await answer

    def forget(self, job: Job) -> None:
        """The job is no longer held here: drop its reports."""
        self._buffer.forget(claim_ref(job))

    # For reports, from any thread

    def flush(self, tracker: Tracker, *, ends: bool) -> bool:
        """Wait until the reports of a job are written, unless the job is locked. Return whether they are."""
        if threading.get_ident() != self._thread:
            flushed = self.aflush(tracker, ends=ends)
            # In a context of its own: what the driver logs meanwhile is not the handler's.
            flushing = contextvars.Context().run(asyncio.run_coroutine_threadsafe, flushed, self._loop)
            return flushing.result()
        # The loop is blocked until this returns.
        if not ends:
            return tracker.ref not in self._buffer or self._buffer.write_now(tracker, self._database.run)
        tracker.record_left_out()
        return tracker.ref not in self._buffer

    async def aflush(self, tracker: Tracker, *, ends: bool) -> bool:
        """``flush``, awaited."""
        if ends:
            tracker.record_left_out()
        if tracker.ref not in self._buffer:
            return True
        if self._task.done():
            return False
        answer: asyncio.Future[bool] = self._loop.create_future()
        self._flushes.append((tracker.ref, answer))
        self._wake()
        return await answer or await self._buffer.write_alone(self._through_pool, tracker.ref, within=PATIENCE)

    def rest(self, tracker: Tracker) -> Plan[None]:
        """Write what could not be flushed, together with the end of the job."""
        tracker.aside = True  # the job is locked until that is committed
        yield Begin()  # in the caller's transaction, a part that can fail alone
        yield from self._buffer.write_rest(tracker)

    async def flush_all(self) -> None:
        """Wait until everything is written."""
        self._wake()
        await self._idle.wait()
        if self._stragglers:
            await asyncio.wait(set(self._stragglers), timeout=PATIENCE)

    async def close(self) -> None:
        self._closing = True
        self._work_waiting.set()
        await self._task
        _answer(self._flushes, self._buffer)

    # The loop

    def _wake_from_thread(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._idle.clear()
        self._work_waiting.set()

    async def _work(self) -> None:
        while not self._closing or self._starts or self._endings:
            await self._work_waiting.wait()
            self._work_waiting.clear()
            try:
                if self._starts:
                    await self._write_starts()
                if self._flushes:
                    await self._write_flushes()
                if self._endings:
                    await self._write_endings()
                # Each time: if jobs end without a pause, the reports of the others are written too.
                if self._buffer:
                    await self._write_reports()
            except DatabaseUnavailable:
                return  # the worker ends, and the jobs return to the queue when its lease has passed
            except Exception as error:
                log.error("the completer failed unexpectedly and continues", exc_info=loggable(error))
                self._work_waiting.set()
                await asyncio.sleep(0.1)
            if self._starts or self._endings or self._flushes:
                self._work_waiting.set()
            elif not self._buffer:
                self._idle.set()

    async def _write_starts(self) -> None:
        starts, self._starts = self._starts, []
        begun = await self._started([claim_ref(job) for jobs, _ in starts for job in jobs])
        for _, answer in starts:
            if not answer.done():
                answer.set_result(begun)

    async def _started(self, refs: Sequence[ClaimRef]) -> set[uuid.UUID]:
        """Start jobs. Returns those that were started."""
        size = min(self._batch_size.size, len(refs))
        if size < len(refs):
            return await self._started(refs[:size]) | await self._started(refs[size:])
        try:
            begun = await self._until_reached(lambda: calls.start(self._context, refs))
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001
            self._start_failed(refs, error)
        else:
            self._batch_size.went_well(size)
            return begun
        if size == 1:
            return set()
        return await self._started(refs[: size // 2]) | await self._started(refs[size // 2 :])

    def _start_failed(self, refs: Sequence[ClaimRef], error: Exception) -> None:
        if is_cut_short(error):
            self._batch_size.was_cut_short(len(refs))
            if len(refs) == 1:
                self._cut_short.log(f"job {refs[0][0]} is not started, and is handed back")
        elif not isinstance(error, TimeoutError):
            log.error("the database refused a write", exc_info=loggable(error))

    async def _write_endings(self) -> None:
        while self._more_comes() and 0 < len(self._endings) < GATHERED:  # noqa: ASYNC110
            await asyncio.sleep(0)
        size = self._batch_size.size
        batch, self._endings = self._endings[:size], self._endings[size:]
        await self._write_batch(batch, self._until_reached)

    async def _write_batch(self, batch: Sequence[Ended], persist: Persist) -> None:
        if batch and self._buffer:
            batch = await self._after_reports(batch, persist)
        kinds = dict.fromkeys([type(ending) for _, ending in batch])
        for kind in kinds:
            of_kind = batch if len(kinds) == 1 else [ended for ended in batch if type(ended[1]) is kind]
            await self._write(of_kind, persist)

    async def _after_reports(self, batch: Sequence[Ended], persist: Persist) -> list[Ended]:
        """Write the last reports of jobs that end. If those have to wait, the ending has to wait too."""
        refs = [claim_ref(job) for job, _ in batch]
        waiting = await self._buffer.write(persist, [ref for ref in refs if ref in self._buffer], alone=True)
        if waiting:
            self._put_off([ended for ended in batch if claim_ref(ended[0]) in waiting])
        return [ended for ended in batch if claim_ref(ended[0]) not in waiting]

    async def _write(self, group: Sequence[Ended], persist: Persist) -> None:
        size = min(self._batch_size.size, len(group))
        if size < len(group):
            await self._write(group[:size], persist)
            await self._write(group[size:], persist)
            return
        pairs = [((job.id, job.token), ending) for job, ending in group]
        try:
            statuses, locked = await persist(lambda: calls.end(self._context, pairs))
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001
            # For any error: an ending that is dropped here would leave its job held forever.
            if is_cut_short(error):
                self._batch_size.was_cut_short(size)
            if size > 1:
                await self._write(group[: size // 2], persist)
                await self._write(group[size // 2 :], persist)
            elif is_cut_short(error):
                self._is_slow(group[0])
            else:
                self._begin(self._insist(group[0], error))
            return
        self._batch_size.went_well(size)
        if locked:
            self._put_off([ended for ended in group if ended[0].id in locked])
            group = [ended for ended in group if ended[0].id not in locked]
        self._report_written(group, statuses)

    def _put_off(self, batch: Sequence[Ended]) -> None:
        """Keep the endings of jobs that another transaction has locked, and try them again."""
        self._locked += batch
        if self._locked and not self._waiting_for_locks:
            self._waiting_for_locks = True
            self._begin(self._write_locked())

    async def _write_locked(self) -> None:
        pause = LOOK_AGAIN
        try:
            while self._locked and not self._closing:
                await asyncio.sleep(pause)
                batch, self._locked = self._locked, []
                try:
                    # Not on the worker's connection: other writes would wait for it.
                    await self._write_batch(batch, self._through_pool)
                except DatabaseUnavailable:
                    self._locked += batch
                pause = LOOK_AGAIN if len(self._locked) < len(batch) else min(1.5 * pause, 10 * LOOK_AGAIN)
        finally:
            self._waiting_for_locks = False

    def _is_slow(self, ended: Ended) -> None:
        """Keep an ending that takes longer than the server allows. Its job stays held."""
        job = ended[0]
        self._cut_short.log(f"the end of {job.job_type} {job.id} will be tried again, and the job stays held")
        self._slow.append(ended)
        if not self._trying_slow:
            self._trying_slow = True
            self._begin(self._write_slow())

    async def _write_slow(self) -> None:
        """Write one at a time, and more once one succeeds: each failure costs the server a whole statement_timeout."""
        backoff, size = Backoff(longest=10), 1
        try:
            while self._slow and not self._closing:
                await asyncio.sleep(backoff.next())
                before = len(self._slow)
                batch, self._slow = self._slow[:size], self._slow[size:]
                try:
                    await self._write_batch(batch, self._through_pool)
                except DatabaseUnavailable:
                    self._slow += batch
                size = 2 * size if len(self._slow) < before else 1
                if size > 1:
                    backoff.reset()
        finally:
            self._trying_slow = False

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._stragglers.add(task)
        task.add_done_callback(self._stragglers.discard)

    async def _insist(self, ended: Ended, error: Exception) -> None:
        """Write one ending, however long that takes. An ending that cannot be stored becomes a failure that can."""
        job, ending = ended
        backoff, refusals = Backoff(), 0
        while True:
            if isinstance(error, InvalidInput) and (plainer := in_ascii(ending)) != ending:
                # The database's encoding lacks one of its characters.
                ending = plainer
            elif is_about_the_value(error) and refusals < 2:
                refusals += 1
                reason = describe(loggable(error))
                log.error("the database refused the end of %s %s: %s", job.job_type, job.id, reason)
                # Refused again: the job's retry policy is wrong, and without one there is no next attempt.
                give_up = refusals == 2
                ending = Failed(f"this attempt's end could not be stored: {describe(error)[:1000]}", give_up=give_up)
            try:
                if await self._buffer.write(self._through_pool, [claim_ref(job)], alone=True):
                    raise TimeoutError
                statuses, locked = await self._database.arun(calls.end(self._context, [(claim_ref(job), ending)]))
                if locked:
                    raise TimeoutError
            except Exception as refused:  # noqa: BLE001
                error = refused
                if self._closing:
                    return
                await asyncio.sleep(backoff.next())
            else:
                self._report_written([(job, ending)], statuses)
                return

    def _report_written(self, written: Sequence[Ended], statuses: Sequence[str | None]) -> None:
        if self._buffer:
            for job, _ in written:
                self._buffer.forget(claim_ref(job))
        try:
            self._on_written(written, statuses)
        except Exception:
            log.exception("unexpected error after the ends of %d jobs were written", len(written))

    async def _write_flushes(self) -> None:
        """Write the reports for which a handler waits."""
        flushes, self._flushes = self._flushes, []
        left: Container[ClaimRef] = self._buffer
        try:
            left = await self._buffer.write(self._until_reached, {ref for ref, _ in flushes})
        finally:
            _answer(flushes, left)

    async def _write_reports(self) -> None:
        """Write reports if it is time for that, or set a timer."""
        wait = self._buffer.wait()
        if wait is None:
            return
        if wait <= 0 or self._closing:
            self._buffer.write_aside(self._through_pool)
            await self._buffer.write(self._until_reached)
            wait = self._buffer.wait()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if wait is None else self._loop.call_later(wait, self._work_waiting.set)

    # Calls

    async def _through_pool(self, plan: Callable[[], Plan[R]]) -> R:
        async with asyncio.timeout(PATIENCE):
            return await self._database.arun(plan())

    async def _until_reached(self, plan: Callable[[], Plan[R]]) -> R:
        """Run a plan, again while the database cannot be reached. By the fence, running it twice changes nothing."""
        backoff = Backoff(longest=2)
        while True:
            try:
                async with asyncio.timeout(PATIENCE):
                    return await self._connection.run(plan())
            except DatabaseUnavailable:
                if self._closing:
                    raise
                await asyncio.sleep(backoff.next())


def _answer(flushes: Sequence[tuple[ClaimRef, asyncio.Future[bool]]], left: Container[ClaimRef]) -> None:
    for ref, answer in flushes:
        if not answer.done():
            answer.set_result(ref not in left)
