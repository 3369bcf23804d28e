"""The reports: what the handlers of a worker have said and is not in the database yet.

All of it is written together, a few times in a second: one statement for where the jobs stand, one for what happened.
What cannot be written now, because the database is gone or somebody has locked the job, stays here, and where jobs
stand is only ever the last word. What can never be written is said in the log, and keeps nothing else from it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg

from howdah.context import Context
from howdah.errors import DatabaseUnavailable, HowdahError, InvalidInput
from howdah.failure import describe
from howdah.plan import Plan
from howdah.worker import calls
from howdah.worker.calls import Hold, Telling
from howdah.worker.tracker import Tracker, Words

log = logging.getLogger("howdah.worker")

REPORT_EVERY: Final = 0.3
MOST_EVENTS: Final = 2_000
MOST_CHARACTERS: Final = 4_000_000
"""Of the data of events in one statement."""
LONGEST_PAUSE: Final = 60.0

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
        self._written_at = float("-inf")

    def __bool__(self) -> bool:
        return bool(self._trackers)

    def __contains__(self, hold: Hold) -> bool:
        return hold in self._trackers

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
        """Seconds until there is something to be written; None if nothing was said."""
        with self._lock:
            moments = [tracker.quiet_until for tracker in self._trackers.values()]
        return max(self._written_at + REPORT_EVERY, min(moments)) - time.monotonic() if moments else None

    async def write(self, persist: Persist, of: Collection[Hold] | None = None) -> set[Hold]:
        """Writes what was said, of all jobs or of some, and answers for which of them that has to wait."""
        taken = self._take(of)
        if of is None:
            self._written_at = time.monotonic()
        try:
            await self._write_progress(persist, [each for each in taken if each.report is not None])
            while parts := _parts(taken):
                await self._write_events(persist, parts)
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("unexpected, while what was said of %d jobs was written", len(taken))
        finally:
            left = {each.tracker.hold for each in taken if self._put_back(each)}
        return left

    def last_words(self, tracker: Tracker) -> Plan[None]:
        """Writes what was said of one job, where nobody can wait for anything else."""
        (taken,) = self._take({tracker.hold}) or [_Taken(tracker, Words(None, []))]
        try:
            if taken.report is not None:
                yield from calls.progress(self._context, [(tracker.hold, taken.report)])
                taken.report = None
            while parts := _parts([taken]):
                yield from calls.record_events(self._context, _tellings(parts))
                _are_kept(parts)
        finally:
            self._put_back(taken)

    # Taking it, and putting back what could not be written

    def _take(self, of: Collection[Hold] | None) -> list[_Taken]:
        now = time.monotonic()
        with self._lock:
            if of is None:
                chosen = [hold for hold, tracker in self._trackers.items() if tracker.quiet_until <= now]
            else:
                chosen = [hold for hold in of if hold in self._trackers]
            trackers = [self._trackers.pop(hold) for hold in chosen]
        return [_Taken(tracker, tracker.take()) for tracker in trackers]

    def _put_back(self, taken: _Taken) -> bool:
        """Keeps what is left of it for later. Whether there is anything."""
        tracker = taken.tracker
        tracker.writing = False
        if not taken.is_left:
            tracker.pause = 0.0
            return False
        if taken.has_to_wait:
            tracker.pause = min(max(2 * tracker.pause, 1.0), LONGEST_PAUSE)
            tracker.quiet_until = time.monotonic() + tracker.pause
        tracker.put_back(Words(taken.report, taken.told))
        with self._lock:
            self._trackers[tracker.hold] = tracker
        return True

    # Writing it

    async def _write_progress(self, persist: Persist, taken: Sequence[_Taken]) -> None:
        if not taken:
            return
        reports = [(each.tracker.hold, each.report) for each in taken if each.report is not None]
        error = await _tried(persist, lambda: calls.progress(self._context, reports))
        if error is None:
            for each in taken:
                each.report = None
        elif len(taken) > 1:
            half = len(taken) // 2
            await self._write_progress(persist, taken[:half])
            await self._write_progress(persist, taken[half:])
        elif is_about_the_value(error):
            self._refuse(taken[0], "progress", error)
            taken[0].report = None
        else:
            taken[0].has_to_wait = True

    async def _write_events(self, persist: Persist, parts: Sequence[_Part]) -> None:
        tellings = _tellings(parts)
        error = await _tried(persist, lambda: calls.record_events(self._context, tellings))
        if error is None:
            _are_kept(parts)
        elif len(parts) > 1:
            half = len(parts) // 2
            await self._write_events(persist, parts[:half])
            await self._write_events(persist, parts[half:])
        elif not is_about_the_value(error):
            parts[0].taken.has_to_wait = True
        elif parts[0].size > 1:
            taken, size = parts[0]
            await self._write_events(persist, [_Part(taken, size // 2)])
            if not taken.has_to_wait:
                await self._write_events(persist, [_Part(taken, size - size // 2)])
        else:
            taken = parts[0].taken
            self._refuse(taken, f"{taken.told[0].kind} {taken.told[0].name!r}", error)
            del taken.told[0]

    def _refuse(self, taken: _Taken, what: str, error: Exception) -> None:
        self.refused += 1
        log.error(
            "the %s of job %s was refused by the database, and is lost: %s",
            what,
            taken.tracker.hold[0],
            describe(error),
            extra={"event": "report_refused", "job_id": str(taken.tracker.hold[0])},
        )


class _Taken:
    """What was taken from a tracker and is not written yet."""

    def __init__(self, tracker: Tracker, words: Words) -> None:
        self.tracker = tracker
        self.report, self.told = words
        self.has_to_wait = False
        tracker.writing = True

    @property
    def is_left(self) -> bool:
        return self.report is not None or bool(self.told)


class _Part(NamedTuple):
    """So many of what a job has to tell, from the first on."""

    taken: _Taken
    size: int


def _parts(taken: Sequence[_Taken]) -> list[_Part]:
    """What goes into the next statement. Of a job whose turn has not come, nothing may overtake the rest."""
    parts: list[_Part] = []
    events, characters = 0, 0
    for each in taken:
        size = 0
        for told in () if each.has_to_wait else each.told:
            if events == MOST_EVENTS or (events and characters + len(told.data) > MOST_CHARACTERS):
                break
            events, characters, size = events + 1, characters + len(told.data), size + 1
        if size:
            parts.append(_Part(each, size))
    return parts


def _tellings(parts: Sequence[_Part]) -> list[Telling]:
    return [Telling(taken.tracker.hold, taken.tracker.stored, taken.told[:size]) for taken, size in parts]


def _are_kept(parts: Sequence[_Part]) -> None:
    for taken, size in parts:
        taken.tracker.stored += size
        del taken.told[:size]


async def _tried(persist: Persist, plan: Callable[[], Plan[Any]]) -> Exception | None:
    try:
        await persist(plan)
    except DatabaseUnavailable:
        raise
    except Exception as error:  # noqa: BLE001
        return error
    return None


def is_about_the_value(error: Exception) -> bool:
    """Whether to try again would be in vain: not an outage, a lock, a schema in the middle of its migration."""
    if isinstance(error, psycopg.Error):
        return isinstance(error, psycopg.DataError) or (error.sqlstate or "").startswith(("22", "23", "54", "JQ", "P0"))
    return not isinstance(error, TimeoutError | OSError | HowdahError) or isinstance(error, InvalidInput)
