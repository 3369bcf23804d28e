"""The completer: everything that a worker writes about the jobs it holds, in batches.

One batch is written while the next one gathers: alone, an ending is written at once; under load, batches
grow by themselves. A batch that the database refuses as a whole, or that waits for somebody's lock, is halved
until the culprit is found, so that one bad or locked row never keeps its neighbours from ending. The culprit
is written on its own, for as long as that takes.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import psycopg

from howdah.context import Context
from howdah.database import Database
from howdah.errors import DatabaseUnavailable, HowdahError, InvalidInput
from howdah.failure import describe
from howdah.job import Job
from howdah.outcome import Ending, Failed
from howdah.plan import Plan
from howdah.worker import calls
from howdah.worker.calls import Hold
from howdah.worker.link import Backoff, Link
from howdah.worker.run import hold_of

log = logging.getLogger("howdah.worker")

R = TypeVar("R")

BATCH = 1_000
PROGRESS_EVERY = 0.3
PATIENCE = 2.0
"""Seconds that a batch may wait for a lock before it is divided."""


class Ended(NamedTuple):
    job: Job
    ending: Ending


class Completer:
    """Writes starts, reports and endings."""

    def __init__(
        self, database: Database, link: Link, context: Context, written: Callable[[Job, Ending, str | None], None]
    ) -> None:
        self._database = database
        self._link = link
        self._context = context
        self._written = written
        self._endings: list[Ended] = []
        self._starts: list[tuple[Sequence[Job], asyncio.Future[set[uuid.UUID]]]] = []
        self._reports: dict[Hold, tuple[Job, int | None, str | None]] = {}
        self._reporting = threading.Lock()
        self._reported = 0.0
        self._something = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        self._stragglers: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._work(), name="howdah completer")

    @property
    def backlog(self) -> int:
        return len(self._endings)

    def end(self, job: Job, ending: Ending) -> None:
        self._endings.append(Ended(job, ending))
        self._stir()

    async def start(self, jobs: Sequence[Job]) -> set[uuid.UUID]:
        """Marks claimed jobs as running, and answers which of them may be run."""
        answer: asyncio.Future[set[uuid.UUID]] = self._loop.create_future()
        self._starts.append((jobs, answer))
        self._stir()
        return await answer

    def report(self, job: Job, percent: int | None, stage: str | None) -> None:
        """Remembers the last word about a job. May be called from any thread, a million times."""
        hold = hold_of(job)
        with self._reporting:
            _, known_percent, known_stage = self._reports.get(hold, (job, None, None))
            first = not self._reports
            self._reports[hold] = (
                job,
                known_percent if percent is None else percent,
                known_stage if stage is None else stage,
            )
        if first:
            self._loop.call_soon_threadsafe(self._stir)

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

    # The loop

    def _stir(self) -> None:
        self._idle.clear()
        self._something.set()

    async def _work(self) -> None:
        while not self._closing:
            await self._something.wait()
            self._something.clear()
            try:
                while self._starts or self._endings:
                    await self._write_starts()
                    await self._write_endings()
                await self._write_reports()
            except DatabaseUnavailable:
                return  # the worker ends, and what is not written comes back when its lease has passed
            except Exception:
                log.exception("the completer failed unexpectedly; it goes on")
                self._something.set()
                await asyncio.sleep(0.1)
            if not (self._starts or self._endings or self._reports):
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
        """Those that were started. One that somebody has locked is not: it is handed back when it is found unknown."""
        begun = await self._persist(lambda: calls.start(self._context, holds))
        if begun is not None or len(holds) == 1:
            return begun or set()
        half = len(holds) // 2
        return await self._started(holds[:half]) | await self._started(holds[half:])

    async def _write_endings(self) -> None:
        batch, self._endings = self._endings[:BATCH], self._endings[BATCH:]
        if any(hold_of(ended.job) in self._reports for ended in batch):
            await self._write_reports(of={hold_of(ended.job) for ended in batch})
        for group in _by_kind(batch):
            await self._write(group)

    async def _write(self, group: Sequence[Ended]) -> None:
        pairs = [(hold_of(job), ending) for job, ending in group]
        try:
            statuses = await self._until_reached(lambda: calls.end(self._context, pairs))
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001
            # Whatever it was: an ending that is dropped here would leave its job held for ever.
            if len(group) == 1:
                self._write_alone(group[0], error)
            else:
                half = len(group) // 2
                await self._write(group[:half])
                await self._write(group[half:])
            return
        for job, ending in group:
            self._tell(job, ending, statuses.get(job.id))

    def _write_alone(self, ended: Ended, error: Exception) -> None:
        task = asyncio.create_task(self._insist(ended, error))
        self._stragglers.add(task)
        task.add_done_callback(self._stragglers.discard)

    async def _insist(self, ended: Ended, error: Exception) -> None:
        """Writes one ending, however long that takes; what cannot be stored at all becomes a failure that can."""
        job, ending = ended
        backoff = Backoff()
        while True:
            if ending is ended.ending and _is_about_the_value(error):
                log.error("the end of %s %s was refused by the database: %s", job.job_type, job.id, describe(error))
                ending = Failed(f"this attempt's end could not be stored: {describe(error)[:1000]}")
            try:
                pairs = [(hold_of(job), ending)]
                statuses = await self._database.arun(calls.end(self._context, pairs))
            except Exception as again:  # noqa: BLE001
                error = again
                if self._closing:
                    return
                await asyncio.sleep(backoff.next())
            else:
                self._tell(job, ending, statuses.get(job.id))
                return

    def _tell(self, job: Job, ending: Ending, status: str | None) -> None:
        try:
            self._written(job, ending, status)
        except Exception:
            log.exception("unexpected, after the end of %s %s was written", job.job_type, job.id)

    async def _write_reports(self, of: set[Hold] | None = None) -> None:
        """Writes what was reported: at most every so often, or, of jobs that end, at once."""
        if not self._reports:
            return
        wait = self._reported + PROGRESS_EVERY - time.monotonic()
        if of is None and wait > 0 and not self._closing:
            self._loop.call_later(wait, self._something.set)
            return
        with self._reporting:
            reports = {hold: self._reports.pop(hold) for hold in (of or set(self._reports)) & self._reports.keys()}
        self._reported = time.monotonic()
        batch = [(hold_of(job), percent, stage) for job, percent, stage in reports.values()]
        if await self._persist(lambda: calls.progress(self._context, batch)) is None and len(batch) > 1:
            for report in batch:
                await self._persist(lambda report=report: calls.progress(self._context, [report]))  # type: ignore[misc]

    # Calls

    async def _persist(self, plan: Callable[[], Plan[R]]) -> R | None:
        try:
            return await self._until_reached(plan)
        except DatabaseUnavailable:
            raise
        except TimeoutError:
            return None
        except Exception:
            log.exception("a write was refused by the database")
            return None

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
    groups: dict[type, list[Ended]] = {}
    for ended in batch:
        groups.setdefault(type(ended.ending), []).append(ended)
    return iter(groups.values())


def _is_about_the_value(error: Exception) -> bool:
    """Whether to try again would be in vain: not an outage, a lock, a schema in the middle of its migration."""
    if isinstance(error, psycopg.Error):
        return isinstance(error, psycopg.DataError) or (error.sqlstate or "").startswith(("22", "23", "54", "JQ", "P0"))
    return not isinstance(error, TimeoutError | OSError | HowdahError) or isinstance(error, InvalidInput)
