"""The progress buffer: what the handlers of a worker have reported and is not in the database yet.

All of it is written together, a few times per second: one statement for the progress of all jobs, one for their events.
What cannot be written now, because of an outage or because another transaction has locked the job, stays with its tracker;
of the progress only the latest counts. A locked job is skipped, and written on its own, apart from the others. What can
never be written is logged, and does not delay anything else.
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
from howdah.worker.calls import Batch, ClaimRef, NewEvent
from howdah.worker.progress.tracker import Tracker
from howdah.worker.service import CutShortWarning

log = logging.getLogger("howdah.worker")

REPORT_EVERY: Final = 0.3
MOST_EVENTS: Final = 2_000
MOST_CHARACTERS: Final = 4_000_000
"""The limit for the data of events in one statement."""
LONGEST_PAUSE: Final = 10.0

Persist: TypeAlias = Callable[[Callable[[], Plan[Any]]], Awaitable[Any]]
"""Runs a plan, of which it gets the maker, as often as it takes to reach the database."""


class ProgressBuffer:
    """The trackers that have something to write, by their claims."""

    def __init__(self, context: Context, on_change: Callable[[], None]) -> None:
        self.refused = 0
        """How many reports could never be stored."""
        self._context = context
        self._on_change = on_change
        # Reentrant, for the same reason as a tracker's. Never held while a tracker's is taken.
        self._lock = threading.RLock()
        self._trackers: dict[ClaimRef, Tracker] = {}
        self._writing: set[ClaimRef] = set()
        self._aside: asyncio.Task[None] | None = None
        self._written_at = float("-inf")
        self._batch_size = BatchSize(MOST_EVENTS)
        self._cut_short = CutShortWarning()

    def __bool__(self) -> bool:
        return bool(self._trackers or self._writing)

    def __contains__(self, ref: object) -> bool:
        return ref in self._trackers or ref in self._writing

    def changed(self, tracker: Tracker) -> None:
        """A tracker has something to write. Called from any thread."""
        with self._lock:
            self._trackers[tracker.ref] = tracker
        self._on_change()

    def forget(self, ref: ClaimRef) -> None:
        """The claim is over."""
        with self._lock:
            self._trackers.pop(ref, None)

    def wait(self) -> float | None:
        """Seconds until there is something to write; None if there is nothing, or it is being written."""
        with self._lock:
            moments = [
                tracker.quiet_until
                for ref, tracker in self._trackers.items()
                if ref not in self._writing and not (tracker.aside and self._aside)
            ]
        return max(self._written_at + REPORT_EVERY, min(moments)) - time.monotonic() if moments else None

    async def write(
        self, persist: Persist, of: Collection[ClaimRef] | None = None, *, alone: bool = False
    ) -> set[ClaimRef]:
        """Write the reports of all jobs or of some. Returns the claims whose reports have to wait.

        alone: nothing else waits for this, so it may wait for a lock.
        """
        taken = self._take(of, alone=alone)
        if of is None:
            self._written_at = time.monotonic()
        left: set[ClaimRef] = set()
        done: set[ClaimRef] = set()
        try:
            await self._write_progress(persist, [each for each in taken if each.update is not None])
            while parts := _parts(taken, self._batch_size.size):
                await self._write_events(persist, parts)
        except DatabaseUnavailable:
            raise
        except Exception as error:
            log.error(
                "unexpected error while the reports of %d jobs were written", len(taken), exc_info=loggable(error)
            )
        finally:
            for each in taken:
                (left if self._put_back(each) else done).add(each.tracker.ref)
        if of is not None:
            left.update([ref for ref in of if ref not in done and ref in self])
        return left

    async def write_alone(self, persist: Persist, ref: ClaimRef, *, within: float) -> bool:
        """Write the reports of one job, once nothing else is writing them. Return whether that was possible in time."""
        with contextlib.suppress(TimeoutError, DatabaseUnavailable):
            async with asyncio.timeout(within):
                while await self.write(persist, {ref}, alone=True):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                return True
        return False

    def write_aside(self, persist: Persist) -> None:
        """Start to write the reports that must not keep others waiting, one job after another."""
        now = time.monotonic()
        with self._lock:
            due = [ref for ref, tracker in self._trackers.items() if tracker.aside and tracker.quiet_until <= now]
        if due and self._aside is None:
            self._aside = asyncio.create_task(self._write_each(persist, due))

    async def _write_each(self, persist: Persist, refs: Sequence[ClaimRef]) -> None:
        try:
            for ref in refs:
                await self.write(persist, {ref}, alone=True)
        except DatabaseUnavailable:
            await asyncio.sleep(REPORT_EVERY)
        finally:
            self._aside = None
            self._on_change()

    def write_rest(self, tracker: Tracker) -> Plan[None]:
        """Write all reports of one job, also those that are being written: the database stores each number once.

        They stay with the tracker: only the caller knows whether and when its transaction is committed.
        """
        update, events = tracker.unwritten()
        if update is not None:
            yield from calls.write_progress(self._context, [(tracker.ref, update)])
        for piece in _pieces(events):
            yield from calls.write_events(self._context, [(tracker.ref, each) for each in piece])

    def write_now(self, tracker: Tracker, run: Callable[[Plan[None]], None]) -> bool:
        """Write the reports of one job, blocking. Return whether that was possible."""
        unwritten = tracker.unwritten()
        try:
            run(self.write_rest(tracker))
        except Exception as error:
            log.warning("the reports of job %s could not be written yet", tracker.ref[0], exc_info=loggable(error))
            return False
        tracker.update_is_written()
        tracker.events_are_written(unwritten.events[-1].number if unwritten.events else 0)
        return True

    # Taking reports, and putting back those that could not be written

    def _take(self, of: Collection[ClaimRef] | None, *, alone: bool) -> list[_Taken]:
        now = time.monotonic()
        with self._lock:
            chosen = [
                ref
                for ref in (list(self._trackers) if of is None else of)
                if ref not in self._writing
                and (tracker := self._trackers.get(ref)) is not None
                and (alone or not tracker.aside)
                and (of is not None or tracker.quiet_until <= now)
            ]
            self._writing.update(chosen)
            trackers = [self._trackers.pop(ref) for ref in chosen]
        return [_Taken(tracker, alone=len(trackers) == 1) for tracker in trackers]

    def _put_back(self, taken: _Taken) -> bool:
        """Keep the rest for later. Return whether there is any."""
        tracker = taken.tracker
        is_left = taken.update is not None or bool(taken.events)
        if taken.has_to_wait and taken.alone:
            tracker.pause = min(max(2 * tracker.pause, 1.0), LONGEST_PAUSE)
            tracker.quiet_until = time.monotonic() + tracker.pause
        # A job that was locked once may be again.
        tracker.aside = taken.has_to_wait or tracker.pause > 0 or (tracker.aside and is_left)
        if is_left:
            tracker.is_incomplete()
        with self._lock:
            self._writing.discard(tracker.ref)
            if is_left:
                self._trackers[tracker.ref] = tracker
        if tracker.ref in self._trackers:
            self._on_change()
        return is_left

    # Writing them

    async def _write_progress(self, persist: Persist, taken: Sequence[_Taken]) -> None:
        if not taken:
            return
        size = min(self._batch_size.size, len(taken))
        if size < len(taken):
            await self._write_progress(persist, taken[:size])
            await self._write_progress(persist, taken[size:])
            return
        updates = [(each.tracker.ref, each.update) for each in taken if each.update is not None]
        locked, error = await self._try(persist, lambda: calls.record_progress(self._context, updates), size)
        if error is None:
            for each in taken:
                if each.id in locked:
                    each.is_locked()
                else:
                    each.update_is_done()
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
            taken[0].update_is_done()

    async def _write_events(self, persist: Persist, parts: Sequence[_Part]) -> None:
        entries = [(taken.tracker.ref, event) for taken, size in parts for event in taken.events[:size]]
        locked, error = await self._try(persist, lambda: calls.record_events(self._context, entries), len(entries))
        if error is None:
            for taken, size in parts:
                if taken.id in locked:
                    taken.is_locked()
                else:
                    taken.events_are_done(size)
        elif not (is_about_the_value(error) or is_cut_short(error)):
            for part in parts:
                part.taken.has_to_wait = True
        elif len(entries) > 1:
            await self._write_halves(persist, parts)
        elif is_cut_short(error):
            self._is_slow(parts[0].taken)
        else:
            (taken, _) = parts[0]
            self._refuse(taken, f"{taken.events[0].kind} {taken.events[0].name!r}", error)
            taken.events_are_done(1)

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

    async def _try(
        self, persist: Persist, plan: Callable[[], Plan[Batch]], size: int
    ) -> tuple[Container[uuid.UUID], Exception | None]:
        """The jobs that were skipped, and the error."""
        try:
            locked = (await persist(plan)).locked
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001
            if is_cut_short(error):
                self._batch_size.was_cut_short(size)
            return (), error
        self._batch_size.went_well(size)
        return locked, None

    def _is_slow(self, taken: _Taken) -> None:
        self._cut_short.log(f"the reports of job {taken.id} will be tried again")
        taken.is_locked()

    def _refuse(self, taken: _Taken, what: str, error: Exception) -> None:
        self.refused += 1
        log.error(
            "the database refused the %s of job %s, and it is lost: %s",
            what,
            taken.id,
            describe(loggable(error)),
            extra={"event": "report_refused", "job_id": str(taken.id)},
        )


class _Taken:
    """The reports of one job that are being written."""

    def __init__(self, tracker: Tracker, *, alone: bool) -> None:
        self.tracker = tracker
        self.id = tracker.ref[0]
        self.update, self.events = tracker.read()
        self.alone = alone
        """Whether it is this job that has to wait, if something has to."""
        self.has_to_wait = False

    def is_locked(self) -> None:
        """It is this job that has to wait."""
        self.has_to_wait = self.alone = True

    def update_is_done(self) -> None:
        self.update = None
        self.tracker.update_is_written()

    def events_are_done(self, size: int) -> None:
        self.tracker.events_are_written(self.events[size - 1].number)
        del self.events[:size]


class _Part(NamedTuple):
    """The first ``size`` events of a job."""

    taken: _Taken
    size: int


def _parts(taken: Sequence[_Taken], most: int) -> list[_Part]:
    """The events of the next statement. No event of a job that has to wait may overtake the earlier ones."""
    parts: list[_Part] = []
    events, characters = 0, 0
    for each in taken:
        size = 0
        for event in () if each.has_to_wait else each.events:
            if events >= most or (events and characters + len(event.data) > MOST_CHARACTERS):
                break
            events, characters, size = events + 1, characters + len(event.data), size + 1
        if size:
            parts.append(_Part(each, size))
    return parts


def _pieces(events: Sequence[NewEvent]) -> Iterator[list[NewEvent]]:
    """All events, in pieces for one statement each."""
    piece: list[NewEvent] = []
    characters = 0
    for each in events:
        if len(piece) == MOST_EVENTS or (piece and characters + len(each.data) > MOST_CHARACTERS):
            yield piece
            piece, characters = [], 0
        piece.append(each)
        characters += len(each.data)
    if piece:
        yield piece


def is_about_the_value(error: Exception) -> bool:
    """Whether another try would fail too: no outage, no lock, no schema in the middle of its migration."""
    if isinstance(error, psycopg.Error):
        return isinstance(error, psycopg.DataError) or (error.sqlstate or "").startswith(("22", "23", "54", "JQ", "P0"))
    return not isinstance(error, TimeoutError | OSError | HowdahError) or isinstance(error, InvalidInput)
