"""The completer: everything that a worker writes about the jobs it holds, in batches.

One batch is written while the next one gathers: alone, an ending is written at once; under load, batches
grow by themselves. A batch that the database refuses as a whole is halved until the culprit is found, so
that one bad row never keeps its neighbours from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from howdah.context import Context
from howdah.errors import DatabaseUnavailable
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


class Ended(NamedTuple):
    job: Job
    ending: Ending


class Completer:
    """Writes starts, reports and endings."""

    def __init__(self, link: Link, context: Context, written: Callable[[Job, Ending, str | None], None]) -> None:
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

    async def close(self) -> None:
        self._closing = True
        self._something.set()
        with contextlib.suppress(DatabaseUnavailable):
            await self._task

    # The loop

    def _stir(self) -> None:
        self._idle.clear()
        self._something.set()

    async def _work(self) -> None:
        while not self._closing:
            await self._something.wait()
            self._something.clear()
            while self._starts or self._endings:
                await self._write_starts()
                await self._write_endings()
            await self._write_reports()
            if not (self._starts or self._endings or self._reports):
                self._idle.set()

    async def _write_starts(self) -> None:
        starts, self._starts = self._starts, []
        if not starts:
            return
        holds = [hold_of(job) for jobs, _ in starts for job in jobs]
        begun = await self._persist(lambda: calls.start(self._context, holds))
        for _, answer in starts:
            if not answer.done():
                answer.set_result(begun or set())

    async def _write_endings(self) -> None:
        batch, self._endings = self._endings[:BATCH], self._endings[BATCH:]
        if any(hold_of(ended.job) in self._reports for ended in batch):
            await self._write_reports(of={hold_of(ended.job) for ended in batch})
        for kind, group in _by_kind(batch):
            await self._write(kind, group)

    async def _write(self, kind: type, group: Sequence[Ended]) -> None:
        pairs = [(hold_of(job), ending) for job, ending in group]
        try:
            statuses = await self._until_reached(lambda: calls.end(self._context, pairs))
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001
            # Whatever it was: an ending that is dropped here would leave its job held for ever.
            await self._divide(kind, group, error)
            return
        for job, ending in group:
            self._written(job, ending, statuses.get(job.id))

    async def _divide(self, kind: type, group: Sequence[Ended], error: Exception) -> None:
        if len(group) > 1:
            half = len(group) // 2
            await self._write(kind, group[:half])
            await self._write(kind, group[half:])
            return
        ((job, ending),) = group
        log.error("the end of job %s (%s) was refused by the database: %s", job.id, job.job_type, describe(error))
        if isinstance(ending, Failed) and ending.error.startswith("this attempt's end could not be stored"):
            # Not even that could be written: its lease or its deadline will end it.
            self._written(job, ending, None)
            return
        failed = Failed(f"this attempt's end could not be stored: {describe(error)}")
        await self._write(Failed, [Ended(job, failed)])

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
        await self._persist(lambda: calls.progress(self._context, batch))

    # Calls

    async def _persist(self, plan: Callable[[], Plan[R]]) -> R | None:
        try:
            return await self._until_reached(plan)
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("a write was refused by the database")
            return None

    async def _until_reached(self, plan: Callable[[], Plan[R]]) -> R:
        """Runs a plan, again and again while the database cannot be reached. Fenced: doing it twice changes nothing."""
        backoff = Backoff(longest=2)
        while True:
            try:
                return await self._link.run(plan())
            except DatabaseUnavailable:
                if self._closing:
                    raise
                await asyncio.sleep(backoff.next())


def _by_kind(batch: Sequence[Ended]) -> Iterator[tuple[type, list[Ended]]]:
    groups: dict[type, list[Ended]] = {}
    for ended in batch:
        groups.setdefault(type(ended.ending), []).append(ended)
    return iter(groups.items())
