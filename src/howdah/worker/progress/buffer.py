"""The reports: what the handlers of a worker have said and is not in the database yet.

All of it is written together, a few times in a second: one statement for where the jobs stand, one for what happened.
What cannot be written now, because the database is gone or another transaction has locked the job, stays with its tracker,
and where jobs stand is only ever the last word. A job that is locked is passed over, and written on its own, aside from
everything else. What can never be written is said in the log, and keeps nothing else from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Container, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg

from howdah.checks.context import Context
from howdah.db.batch_size import BatchSize
from howdah.db.outage import is_cut_short
from howdah.db.plan import Plan
from howdah.errors import DatabaseUnavailable, HowdahError, InvalidInput
from howdah.model.failure import describe, loggable
from howdah.worker import calls
from howdah.worker.background.service import Complaint
from howdah.worker.calls import Batch, Hold, Told
from howdah.worker.progress.tracker import Tracker

log = logging.getLogger("howdah.worker")

REPORT_EVERY: Final = 0.3
MOST_EVENTS: Final = 2_000
MOST_CHARACTERS: Final = 4_000_000
"""Of the data of events in one statement."""
LONGEST_PAUSE: Final = 10.0

Persist: TypeAlias = Callable[[Callable[[], Plan[Any]]], Awaitable[Any]]
"""Runs the plan that it is given a maker of, as often as it takes to reach the database."""


class Reports:
    """What was said, by the claims that it is about."""

    def __init__(self, context: Context, news: Callable[[], None]) -> None:
        self.refused = 0
        """How many could never be stored."""
        self._context = context
        self._news = news
        # Reentrant, for the same reason as a tracker's. Never held while a tracker's is taken.
        self._lock = threading.RLock()
        self._trackers: dict[Hold, Tracker] = {}
        self._writing: set[Hold] = set()
        self._aside: asyncio.Task[None] | None = None
        self._written_at = float("-inf")
        self._portion = BatchSize(MOST_EVENTS)
        self._complaint = Complaint()

    def __bool__(self) -> bool:
        return bool(self._trackers or self._writing)

    def __contains__(self, hold: object) -> bool:
        return hold in self._trackers or hold in self._writing

    def changed(self, tracker: Tracker) -> None:
        """There is something to be taken from a tracker. From any thread."""
        with self._lock:
            self._trackers[tracker.hold] = tracker
        self._news()

    def forget(self, hold: Hold) -> None:
        """The claim is over."""
        with self._lock:
            self._trackers.pop(hold, None)

    def wait(self) -> float | None:
        """Seconds until there is something to be written; None if nothing was said, or others see to it."""
        with self._lock:
            moments = [
                tracker.quiet_until
                for hold, tracker in self._trackers.items()
                if hold not in self._writing and not (tracker.aside and self._aside)
            ]
        return max(self._written_at + REPORT_EVERY, min(moments)) - time.monotonic() if moments else None

    async def write(self, persist: Persist, of: Collection[Hold] | None = None, *, alone: bool = False) -> set[Hold]:
        """Writes what was said, of all jobs or of some, and answers for which of those that has to wait.

        alone: nobody else waits for it, and so it may wait for a lock.
        """
        taken = self._take(of, alone=alone)
        if of is None:
            self._written_at = time.monotonic()
        try:
            await self._write_progress(persist, [each for each in taken if each.report is not None])
            while parts := _parts(taken, self._portion.size):
                await self._write_events(persist, parts)
        except DatabaseUnavailable:
            raise
        except Exception as error:
            log.error("unexpected, while what was said of %d jobs was written", len(taken), exc_info=loggable(error))
        finally:
            left = {each.tracker.hold for each in taken if self._put_back(each)}
        done = {each.tracker.hold for each in taken} - left
        return left if of is None else {hold for hold in of if hold in left or (hold not in done and hold in self)}

    async def write_alone(self, persist: Persist, hold: Hold, *, within: float) -> bool:
        """Writes what was said of one job, as soon as nobody else does that. Whether it could, in so many seconds."""
        with contextlib.suppress(TimeoutError, DatabaseUnavailable):
            async with asyncio.timeout(within):
                while await self.write(persist, {hold}, alone=True):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                return True
        return False

    def write_aside(self, persist: Persist) -> None:
        """Sees to it that what must not keep others waiting is written meanwhile, one job after another."""
        now = time.monotonic()
        with self._lock:
            due = [hold for hold, tracker in self._trackers.items() if tracker.aside and tracker.quiet_until <= now]
        if due and self._aside is None:
            self._aside = asyncio.create_task(self._write_each(persist, due))

    async def _write_each(self, persist: Persist, holds: Sequence[Hold]) -> None:
        try:
            for hold in holds:
                await self.write(persist, {hold}, alone=True)
        except DatabaseUnavailable:
            await asyncio.sleep(REPORT_EVERY)
        finally:
            self._aside = None
            self._news()

    def last_words(self, tracker: Tracker) -> Plan[None]:
        """Writes what was said of one job, also what is on its way: the database keeps what has its number once.

        It stays with the tracker: who runs this knows if, and when, that is committed.
        """
        report, told = tracker.unwritten()
        if report is not None:
            yield from calls.write_progress(self._context, [(tracker.hold, report)])
        for piece in _pieces(told):
            yield from calls.write_events(self._context, [(tracker.hold, each) for each in piece])

    def settle(self, tracker: Tracker, run: Callable[[Plan[None]], None]) -> bool:
        """Writes what was said of one job while nothing else can be done. Whether it could."""
        said = tracker.unwritten()
        try:
            run(self.last_words(tracker))
        except Exception as error:
            log.warning("what was said of job %s could not be written yet", tracker.hold[0], exc_info=loggable(error))
            return False
        tracker.report_is_written()
        tracker.is_written(said.told[-1].number if said.told else 0)
        return True

    # Taking it, and putting back what could not be written

    def _take(self, of: Collection[Hold] | None, *, alone: bool) -> list[_Taken]:
        now = time.monotonic()
        with self._lock:
            chosen = [
                hold
                for hold in (list(self._trackers) if of is None else of)
                if hold not in self._writing
                and (tracker := self._trackers.get(hold)) is not None
                and (alone or not tracker.aside)
                and (of is not None or tracker.quiet_until <= now)
            ]
            self._writing.update(chosen)
            trackers = [self._trackers.pop(hold) for hold in chosen]
        return [_Taken(tracker, alone=len(trackers) == 1) for tracker in trackers]

    def _put_back(self, taken: _Taken) -> bool:
        """Keeps what is left of it for later. Whether there is anything."""
        tracker = taken.tracker
        if taken.has_to_wait and taken.alone:
            tracker.pause = min(max(2 * tracker.pause, 1.0), LONGEST_PAUSE)
            tracker.quiet_until = time.monotonic() + tracker.pause
        # One that was found locked once may be again.
        tracker.aside = taken.has_to_wait or tracker.pause > 0 or (tracker.aside and taken.is_left)
        if taken.is_left:
            tracker.look_again()
        with self._lock:
            self._writing.discard(tracker.hold)
            if taken.is_left:
                self._trackers[tracker.hold] = tracker
        if tracker.hold in self._trackers:
            self._news()
        return taken.is_left

    # Writing it

    async def _write_progress(self, persist: Persist, taken: Sequence[_Taken]) -> None:
        if not taken:
            return
        size = min(self._portion.size, len(taken))
        if size < len(taken):
            await self._write_progress(persist, taken[:size])
            await self._write_progress(persist, taken[size:])
            return
        reports = [(each.tracker.hold, each.report) for each in taken if each.report is not None]
        locked, error = await self._tried(persist, lambda: calls.progress(self._context, reports), size)
        if error is None:
            for each in taken:
                if each.id in locked:
                    each.has_to_wait_itself()
                else:
                    each.report_is_done()
        elif not (is_about_the_value(error) or is_cut_short(error)):
            for each in taken:
                each.has_to_wait = True
        elif size > 1:
            await self._write_progress(persist, taken[: size // 2])
            await self._write_progress(persist, taken[size // 2 :])
        elif is_cut_short(error):
            self._is_slow(taken[0])
        else:
            self._refuse(taken[0], "progress", error)
            taken[0].report_is_done()

    async def _write_events(self, persist: Persist, parts: Sequence[_Part]) -> None:
        entries = [(part.taken.tracker.hold, told) for part in parts for told in part.told]
        locked, error = await self._tried(persist, lambda: calls.record_events(self._context, entries), len(entries))
        if error is None:
            for part in parts:
                if part.taken.id in locked:
                    part.taken.has_to_wait_itself()
                else:
                    part.taken.is_done(part.size)
        elif not (is_about_the_value(error) or is_cut_short(error)):
            for part in parts:
                part.taken.has_to_wait = True
        elif len(entries) > 1:
            await self._write_halves(persist, parts)
        elif is_cut_short(error):
            self._is_slow(parts[0].taken)
        else:
            (taken, _) = parts[0]
            self._refuse(taken, f"{taken.told[0].kind} {taken.told[0].name!r}", error)
            taken.is_done(1)

    async def _write_halves(self, persist: Persist, parts: Sequence[_Part]) -> None:
        if len(parts) > 1:
            half = len(parts) // 2
            await self._write_events(persist, parts[:half])
            await self._write_events(persist, parts[half:])
            return
        taken, size = parts[0]
        await self._write_events(persist, [_Part(taken, size // 2)])
        if not taken.has_to_wait:
            await self._write_events(persist, [_Part(taken, size - size // 2)])

    async def _tried(
        self, persist: Persist, plan: Callable[[], Plan[Batch]], size: int
    ) -> tuple[Container[uuid.UUID], Exception | None]:
        """The jobs that were passed over, and what went wrong."""
        try:
            locked = (await persist(plan)).locked
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001
            if is_cut_short(error):
                self._portion.was_cut_short(size)
            return (), error
        self._portion.went_well(size)
        return locked, None

    def _is_slow(self, taken: _Taken) -> None:
        self._complaint.say(f"what was said of job {taken.id} is tried again")
        taken.has_to_wait_itself()

    def _refuse(self, taken: _Taken, what: str, error: Exception) -> None:
        self.refused += 1
        log.error(
            "the %s of job %s was refused by the database, and is lost: %s",
            what,
            taken.tracker.hold[0],
            describe(loggable(error)),
            extra={"event": "report_refused", "job_id": str(taken.tracker.hold[0])},
        )


class _Taken:
    """What was taken from a tracker and is not written yet."""

    def __init__(self, tracker: Tracker, *, alone: bool) -> None:
        self.tracker = tracker
        self.report, self.told = tracker.look()
        self.alone = alone
        """Whether it is this job that has to wait, if something has to."""
        self.has_to_wait = False

    @property
    def id(self) -> uuid.UUID:
        return self.tracker.hold[0]

    def has_to_wait_itself(self) -> None:
        """It is this job that has to wait."""
        self.has_to_wait = self.alone = True

    @property
    def is_left(self) -> bool:
        return self.report is not None or bool(self.told)

    def report_is_done(self) -> None:
        self.report = None
        self.tracker.report_is_written()

    def is_done(self, size: int) -> None:
        self.tracker.is_written(self.told[size - 1].number)
        del self.told[:size]


class _Part(NamedTuple):
    """So many of what a job has to tell, from the first on."""

    taken: _Taken
    size: int

    @property
    def told(self) -> list[Told]:
        return self.taken.told[: self.size]


def _parts(taken: Sequence[_Taken], most: int) -> list[_Part]:
    """What goes into the next statement. Of a job whose turn has not come, nothing may overtake the rest."""
    parts: list[_Part] = []
    events, characters = 0, 0
    for each in taken:
        size = 0
        for told in () if each.has_to_wait else each.told:
            if events >= most or (events and characters + len(told.data) > MOST_CHARACTERS):
                break
            events, characters, size = events + 1, characters + len(told.data), size + 1
        if size:
            parts.append(_Part(each, size))
    return parts


def _pieces(told: Sequence[Told]) -> Iterator[list[Told]]:
    """All of it, in pieces that go into one statement each."""
    piece: list[Told] = []
    characters = 0
    for each in told:
        if len(piece) == MOST_EVENTS or (piece and characters + len(each.data) > MOST_CHARACTERS):
            yield piece
            piece, characters = [], 0
        piece.append(each)
        characters += len(each.data)
    if piece:
        yield piece


def is_about_the_value(error: Exception) -> bool:
    """Whether to try again would be in vain: not an outage, a lock, a schema in the middle of its migration."""
    if isinstance(error, psycopg.Error):
        return isinstance(error, psycopg.DataError) or (error.sqlstate or "").startswith(("22", "23", "54", "JQ", "P0"))
    return not isinstance(error, TimeoutError | OSError | HowdahError) or isinstance(error, InvalidInput)
