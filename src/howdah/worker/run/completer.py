"""The completer: everything that a worker writes about the jobs it holds, in batches.

One batch is written while the next one gathers: alone, an ending is written at once; under load, batches
grow by themselves. A batch that the database refuses as a whole is halved until the culprit is found, so that one
bad row never keeps its neighbours from ending. The culprit is written on its own. A job that another transaction has
locked is passed over, and tried again in short intervals until the lock is gone. A batch that the server cuts short
(statement_timeout) is halved, too, and those that follow stay small for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Container, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

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
from howdah.worker.background.connection import Link
from howdah.worker.background.service import Complaint
from howdah.worker.calls import Hold
from howdah.worker.progress.buffer import Persist, Reports, is_about_the_value
from howdah.worker.progress.tracker import Tracker
from howdah.worker.run.run import hold_of

log = logging.getLogger("howdah.worker")

R = TypeVar("R")

BATCH = 2_000
GATHERED = 1_000
"""Endings that are worth a write of their own while more are about to come: each write is a commit."""
PATIENCE = 2.0
"""Seconds that a batch may take before it is divided."""
LOOK_AGAIN = 0.05
"""Seconds after which a job that is locked is tried again; they grow tenfold while it stays so."""


class Ended(NamedTuple):
    job: Job
    ending: Ending


class Written(NamedTuple):
    """An ending that is in the database, as the status that the job has now, or that was refused there (None)."""

    job: Job
    ending: Ending
    status: str | None


class Completer:
    """Writes starts, reports and endings."""

    def __init__(
        self,
        database: Database,
        link: Link,
        context: Context,
        written: Callable[[Sequence[Written]], None],
        more_comes: Callable[[], bool] = lambda: False,
    ) -> None:
        self._database = database
        self._link = link
        self._context = context
        self._written = written
        self._more_comes = more_comes
        """Whether jobs are about to run, some of which may end at once."""
        self._endings: list[Ended] = []
        self._starts: list[tuple[Sequence[Job], asyncio.Future[set[uuid.UUID]]]] = []
        self._settling: list[tuple[Hold, asyncio.Future[bool]]] = []
        self._reports = Reports(context, self._hear)
        self._report_timer: asyncio.TimerHandle | None = None
        self._something = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        self._stragglers: set[asyncio.Task[None]] = set()
        self._locked: list[Ended] = []
        self._waiting_for_locks = False
        self._slow: list[Ended] = []
        """Those that the server cuts short although they are alone."""
        self._trying_slow = False
        self._portion = BatchSize(BATCH)
        self._complaint = Complaint()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._task = asyncio.create_task(self._work(), name="howdah completer")

    @property
    def backlog(self) -> int:
        return len(self._endings) + len(self._locked) + len(self._slow)

    def end(self, job: Job, ending: Ending) -> None:
        self._endings.append(Ended(job, ending))
        if len(self._endings) == 1:
            self._stir()

    async def start(self, jobs: Sequence[Job]) -> set[uuid.UUID]:
        """Marks claimed jobs as running, and answers which of them may be run."""
        answer: asyncio.Future[set[uuid.UUID]] = self._loop.create_future()
        self._starts.append((jobs, answer))
        self._stir()
        return await answer

    def forget(self, job: Job) -> None:
        """The job is somebody else's: what was said of it here does not count."""
        self._reports.forget(hold_of(job))

    # What handlers say; from any thread

    def changed(self, tracker: Tracker) -> None:
        self._reports.changed(tracker)

    def settle(self, tracker: Tracker, *, ends: bool) -> bool:
        """Answers whether what was said of a job is written, which it waits for, if nobody has locked the job."""
        if threading.get_ident() != self._thread:
            settled = self.asettle(tracker, ends=ends)
            return asyncio.run_coroutine_threadsafe(settled, self._loop).result()
        # Nothing else can be done on this loop until this returns.
        if not ends:
            return tracker.hold not in self._reports or self._reports.settle(tracker, self._database.run)
        tracker.tell_left_out()
        return tracker.hold not in self._reports

    async def asettle(self, tracker: Tracker, *, ends: bool) -> bool:
        """``settle``, awaited."""
        if ends:
            tracker.tell_left_out()
        if tracker.hold not in self._reports:
            return True
        if self._task.done():
            return False
        answer: asyncio.Future[bool] = self._loop.create_future()
        self._settling.append((tracker.hold, answer))
        self._stir()
        return await answer or await self._reports.write_alone(self._through_pool, tracker.hold, within=PATIENCE)

    def rest(self, tracker: Tracker) -> Plan[None]:
        """Writes what could not be settled, together with the end of the job."""
        tracker.aside = True  # until that is committed, the job is locked
        yield Begin()  # in the caller's transaction, a part that can fail alone
        yield from self._reports.last_words(tracker)

    async def flush(self) -> None:
        """Waits until everything that was said is written."""
        self._stir()
        await self._idle.wait()
        if self._stragglers:
            await asyncio.wait(set(self._stragglers), timeout=PATIENCE)

    async def close(self) -> None:
        self._closing = True
        self._something.set()
        await self._task
        _answer(self._settling, self._reports)

    # The loop

    def _hear(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is left to be told
            self._loop.call_soon_threadsafe(self._stir)

    def _stir(self) -> None:
        self._idle.clear()
        self._something.set()

    async def _work(self) -> None:
        while not self._closing or self._starts or self._endings:
            await self._something.wait()
            self._something.clear()
            try:
                await self._write_starts()
                await self._write_at_once()
                await self._write_endings()
                # Each time: where jobs end without a pause, the others are to be seen too.
                await self._write_reports()
            except DatabaseUnavailable:
                return  # the worker ends, and what is not written comes back when its lease has passed
            except Exception as error:
                log.error("the completer failed unexpectedly; it goes on", exc_info=loggable(error))
                self._something.set()
                await asyncio.sleep(0.1)
            if self._starts or self._endings or self._settling:
                self._something.set()
            elif not self._reports:
                self._idle.set()

    async def _write_starts(self) -> None:
        starts, self._starts = self._starts, []
        if not starts:
            return
        begun = await self._started([hold_of(job) for jobs, _ in starts for job in jobs])
        for _, answer in starts:
            if not answer.done():
                answer.set_result(begun)

    async def _started(self, holds: Sequence[Hold]) -> set[uuid.UUID]:
        """Those that were started."""
        size = min(self._portion.size, len(holds))
        if size < len(holds):
            return await self._started(holds[:size]) | await self._started(holds[size:])
        try:
            begun = await self._until_reached(lambda: calls.start(self._context, holds))
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001
            self._start_failed(holds, error)
        else:
            self._portion.went_well(size)
            return begun
        if size == 1:
            return set()
        return await self._started(holds[: size // 2]) | await self._started(holds[size // 2 :])

    def _start_failed(self, holds: Sequence[Hold], error: Exception) -> None:
        if is_cut_short(error):
            self._portion.was_cut_short(len(holds))
            if len(holds) == 1:
                self._complaint.say(f"job {holds[0][0]} is not started, and goes back")
        elif not isinstance(error, TimeoutError):
            log.error("a write was refused by the database", exc_info=loggable(error))

    async def _write_endings(self) -> None:
        while self._more_comes() and 0 < len(self._endings) < GATHERED:  # noqa: ASYNC110
            await asyncio.sleep(0)
        size = self._portion.size
        batch, self._endings = self._endings[:size], self._endings[size:]
        await self._write_batch(batch, self._until_reached)

    async def _write_batch(self, batch: Sequence[Ended], persist: Persist) -> None:
        if batch and self._reports:
            batch = await self._after_last_words(batch, persist)
        for group in _by_kind(batch):
            await self._write(group, persist)

    async def _after_last_words(self, batch: Sequence[Ended], persist: Persist) -> list[Ended]:
        """Writes what was said of jobs that end. Those for which that has to wait have to wait too."""
        said = {hold for ended in batch if (hold := hold_of(ended.job)) in self._reports}
        waiting = await self._reports.write(persist, said, alone=True)
        self._put_off([ended for ended in batch if hold_of(ended.job) in waiting])
        return [ended for ended in batch if hold_of(ended.job) not in waiting]

    async def _write(self, group: Sequence[Ended], persist: Persist) -> None:
        size = min(self._portion.size, len(group))
        if size < len(group):
            await self._write(group[:size], persist)
            await self._write(group[size:], persist)
            return
        pairs = [(hold_of(job), ending) for job, ending in group]
        try:
            statuses, locked = await persist(lambda: calls.end(self._context, pairs))
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001
            # Whatever it was: an ending that is dropped here would leave its job held for ever.
            if is_cut_short(error):
                self._portion.was_cut_short(size)
            if size > 1:
                await self._write(group[: size // 2], persist)
                await self._write(group[size // 2 :], persist)
            elif is_cut_short(error):
                self._is_slow(group[0])
            else:
                self._write_alone(group[0], error)
            return
        self._portion.went_well(size)
        self._put_off([ended for ended in group if ended.job.id in locked])
        self._tell([Written(job, ending, statuses.get(job.id)) for job, ending in group if job.id not in locked])

    def _put_off(self, batch: Sequence[Ended]) -> None:
        """Keeps the endings of jobs that another transaction has locked, and sees to it that they are tried again."""
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
                    # Not by the link, which others would wait for.
                    await self._write_batch(batch, self._through_pool)
                except DatabaseUnavailable:
                    self._locked += batch
                pause = LOOK_AGAIN if len(self._locked) < len(batch) else min(1.5 * pause, 10 * LOOK_AGAIN)
        finally:
            self._waiting_for_locks = False

    def _is_slow(self, ended: Ended) -> None:
        """Keeps an ending that takes longer than the server allows. Its job stays held."""
        self._complaint.say(f"the end of {ended.job.job_type} {ended.job.id} is tried again, and the job stays held")
        self._slow.append(ended)
        if not self._trying_slow:
            self._trying_slow = True
            self._begin(self._write_slow())

    async def _write_slow(self) -> None:
        """One at a time, and more once one gets through: each that does not has cost the server all the time that it allows."""
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

    def _write_alone(self, ended: Ended, error: Exception) -> None:
        self._begin(self._insist(ended, error))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._stragglers.add(task)
        task.add_done_callback(self._stragglers.discard)

    async def _insist(self, ended: Ended, error: Exception) -> None:
        """Writes one ending, however long that takes; what cannot be stored at all becomes a failure that can."""
        job, ending = ended
        backoff, refusals = Backoff(), 0
        while True:
            if isinstance(error, InvalidInput) and (plainer := in_ascii(ending)) != ending:
                # The database's encoding lacks a character of it.
                ending = plainer
            elif is_about_the_value(error) and refusals < 2:
                refusals += 1
                reason = describe(loggable(error))
                log.error("the end of %s %s was refused by the database: %s", job.job_type, job.id, reason)
                # Refused again: it is the job's retry policy that is wrong, and without one there is no next attempt.
                give_up = refusals == 2
                ending = Failed(f"this attempt's end could not be stored: {describe(error)[:1000]}", give_up=give_up)
            try:
                if await self._reports.write(self._through_pool, {hold_of(job)}, alone=True):
                    raise TimeoutError
                statuses, locked = await self._database.arun(calls.end(self._context, [(hold_of(job), ending)]))
                if locked:
                    raise TimeoutError
            except Exception as refused:  # noqa: BLE001
                error = refused
                if self._closing:
                    return
                await asyncio.sleep(backoff.next())
            else:
                self._tell([Written(job, ending, statuses.get(job.id))])
                return

    def _tell(self, written: Sequence[Written]) -> None:
        if self._reports:
            for job, _, _ in written:
                self._reports.forget(hold_of(job))
        try:
            self._written(written)
        except Exception:
            log.exception("unexpected, after the ends of %d jobs were written", len(written))

    async def _write_at_once(self) -> None:
        """Writes what was said of jobs that wait for it."""
        settling, self._settling = self._settling, []
        left: Container[Hold] = self._reports
        try:
            if settling:
                left = await self._reports.write(self._until_reached, {hold for hold, _ in settling})
        finally:
            _answer(settling, left)

    async def _write_reports(self) -> None:
        """Writes what was said, if it is time for that, or sees to it that somebody looks when it is."""
        wait = self._reports.wait()
        if wait is None:
            return
        if wait <= 0 or self._closing:
            self._reports.write_aside(self._through_pool)
            await self._reports.write(self._until_reached)
            wait = self._reports.wait()
        if self._report_timer is not None:
            self._report_timer.cancel()
        self._report_timer = None if wait is None else self._loop.call_later(wait, self._something.set)

    # Calls

    async def _through_pool(self, plan: Callable[[], Plan[R]]) -> R:
        async with asyncio.timeout(PATIENCE):
            return await self._database.arun(plan())

    async def _until_reached(self, plan: Callable[[], Plan[R]]) -> R:
        """Runs a plan, again and again while the database cannot be reached. Fenced: doing it twice changes nothing."""
        backoff = Backoff(longest=2)
        while True:
            try:
                async with asyncio.timeout(PATIENCE):
                    return await self._link.run(plan())
            except DatabaseUnavailable:
                if self._closing:
                    raise
                await asyncio.sleep(backoff.next())


def _by_kind(batch: Sequence[Ended]) -> Iterator[list[Ended]]:
    groups: defaultdict[type, list[Ended]] = defaultdict(list)
    for ended in batch:
        groups[type(ended.ending)].append(ended)
    return iter(groups.values())


def _answer(settling: Sequence[tuple[Hold, asyncio.Future[bool]]], left: Container[Hold]) -> None:
    for hold, answer in settling:
        if not answer.done():
            answer.set_result(hold not in left)
