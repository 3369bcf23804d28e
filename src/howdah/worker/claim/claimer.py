"""The claimer of a crew: asks for as many jobs as there is room for, and sleeps where there are none.

Cursors. With a transaction open anywhere in the database, the index keeps the entries of jobs long
gone, and a claim that starts at the front wades through them. So a claim says, for each type and
priority, where the last one ended. What lies behind is looked at every LOOK_BEHIND seconds, and before
sleeping: late commits, retries with an older place, jobs handed back. Found ones move the cursor back.

Sleeping. The claimer records that it sleeps, looks once more, and then waits for a wake-up, for the
next job that becomes due, or for the next poll. Where jobs come now and then, it takes them in its sleep.
Polls begin soon after the last job and grow rarer: a transaction that enqueued while the claimer was awake
may commit just after it fell asleep. One that has hardly slept when it is woken, be it for a job that
another worker gets, does not sleep again but looks every few milliseconds, until it has found nothing for a
while: a wake-up is a burden on everybody who commits. While another connection stands in for its own, it only polls.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import psycopg

from howdah.checks.context import Context
from howdah.db.batch_size import BatchSize
from howdah.db.outage import is_cut_short
from howdah.errors import DatabaseUnavailable, WorkerUnknown
from howdah.model.job import Job
from howdah.worker import calls
from howdah.worker.background.connection import Link
from howdah.worker.background.service import Service, happens
from howdah.worker.calls import Claim, Cursor
from howdah.worker.claim.sleep_locks import SleepLocks
from howdah.worker.claim.slot_group import Crew, Demand

LOOK_BEHIND = 0.2
LOOK_BEHIND_SHARE = 0.1
"""Of the time: where looking behind is expensive, it is done more rarely."""
MOST_CURSORS = 64
FIRST_POLL = 0.01
STANDSTILL = 0.05
"""Seconds until it is asked again whether claims may be made."""
SHORT_NAP = 0.01
LINGER = 0.005
"""Seconds between looks, where jobs come so often that whoever enqueues them would have to wake somebody each time."""
LARGEST_CLAIM = 100_000
"""That the database takes."""
EMPTY_LOOKS = 5
"""In a row, after which it is no longer so."""


class Arrived(Protocol):
    def __call__(self, crew: Crew, claim: Claim, *, by_age: bool) -> None: ...


class Claimer(Service):
    """Claims for one crew."""

    def __init__(
        self,
        crew: Crew,
        link: Link,
        context: Context,
        *,
        poll: float,
        fair_share: float,
        boot: Callable[[], uuid.UUID],
        may_claim: Callable[[], bool],
        wants_suspects: Callable[[], bool],
        hears: Callable[[], bool],
        sleep_locks: SleepLocks,
        arrived: Arrived,
        found_nothing: Callable[[], None],
    ) -> None:
        super().__init__(f"claimer of {crew.name}", self._step)
        self.crew = crew
        self.in_flight = False
        self.last_claim: float | None = None
        self.activity = 0
        """Grows with each job that came or ended here; ``empty_at`` is its value at the last look that found nothing."""
        self.empty_at = -1
        self._link = link
        self._context = context
        self._poll = poll
        self._fair_share = fair_share
        self._fair_due = 0.0
        self._boot = boot
        self._may_claim = may_claim
        self._wants_suspects = wants_suspects
        self._hears = hears
        self._sleep_locks = sleep_locks
        self._arrived = arrived
        self._found_nothing = found_nothing
        self._cursors: dict[tuple[str, int], Cursor] = {}
        self._looked_behind = 0.0
        self._look_cost = 0.0
        self._wake = asyncio.Event()
        self._looks_left = 0
        self._types = sorted(crew.handlers)
        self._portion = BatchSize(LARGEST_CLAIM)
        self._asleep_on: frozenset[int] = frozenset()
        self._asleep_in: int | None = None
        crew.on_unbound = self.wake

    def wake(self, bucket: int | None = None) -> None:
        """There may be something to claim, of a type in this bucket."""
        if bucket is None or not self._asleep_on or bucket in self._asleep_on:
            self._wake.set()

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self._wake.set()
        self.crew.room.set()

    # The loop

    async def _step(self) -> None:
        if not self._may_claim():
            await self.pause(STANDSTILL)
            return
        self.crew.room.clear()
        demand = self._demand()
        if demand is None:
            await self.crew.room.wait()
            return
        self._wake.clear()
        if await self._fair_claim(demand):
            demand = self._demand()
            if demand is None:
                return
        found = await self._claim(demand, exact=self._is_time_to_look_behind())
        if found < demand.batch_size and self._looks_left:
            self._looks_left = EMPTY_LOOKS if found else self._looks_left - 1
            await self.pause(LINGER)
        elif found < demand.batch_size:
            await self._sleep()

    async def _sleep(self) -> None:
        poll = min(FIRST_POLL, self._poll)
        since, woken = time.monotonic(), False
        try:
            while self._goes_on():
                # Before it can be told: who tells it while it falls asleep has woken it.
                self._wake.clear()
                await self._record_sleep()
                demand = self._demand() if self._goes_on() else None
                activity = self.activity
                now = time.monotonic()
                found = 0 if demand is None else await self._claim(demand, exact=True)
                if found or woken:
                    if now - since < SHORT_NAP:
                        self._looks_left = EMPTY_LOOKS
                        return
                    since = now
                    # One of those that enqueued when the wake-up was on its way may commit a moment after this look.
                    poll = min(FIRST_POLL, self._poll)
                if demand is None or found == demand.batch_size:
                    return
                if not found:
                    self.empty_at = activity
                    self._found_nothing()
                due = None if self._wake.is_set() else await self._link.run(calls.next_due(self._context, demand.types))
                woken = await happens(self._wake, poll if due is None else min(poll, due + 0.001))
                poll = min(poll * 2, self._poll)
        finally:
            # Only now: whoever was woken claims first, and says that it is awake while its job already runs.
            await self._forget_sleep()

    def _goes_on(self) -> bool:
        return not self.stopping.is_set() and self._may_claim()

    async def _record_sleep(self) -> None:
        if self._asleep_in == self._link.generation or not (self._hears() and self._sleep_locks.may_be_asked_for()):
            return
        buckets = await self._link.run_here(calls.fall_asleep(self._context, self._types))
        if buckets:
            self._asleep_on, self._asleep_in = buckets, self._link.generation
            self._sleep_locks.granted()
        elif buckets is not None:
            self._sleep_locks.refused(await self._link.run(calls.lock_holders(self._context)))

    async def _forget_sleep(self) -> None:
        recorded_in, self._asleep_in, self._asleep_on = self._asleep_in, None, frozenset()
        if recorded_in is not None and recorded_in == self._link.generation:
            await self._link.run_here(calls.stay_awake(self._context, self._types))

    # A claim

    def _demand(self) -> Demand | None:
        """What there is room for, as far as the server lets a claim of it pass."""
        demand = self.crew.demand()
        return None if demand is None else _at_most(self._portion.size, demand)

    async def _claim(self, demand: Demand, *, exact: bool) -> int:
        self.in_flight = True
        try:
            began = time.monotonic()
            try:
                claim = await self._ask(demand, [] if exact else list(self._cursors_of(demand.types)))
            finally:
                if exact:  # one that was cut short, too: the next, from the cursors on, may be done in time
                    self._looked_behind = time.monotonic()
                    self._look_cost = self._looked_behind - began
            self._take(claim)
        finally:
            self.in_flight = False
        self._remember(claim.jobs)
        return demand.batch_size if claim.cut else len(claim.jobs)

    async def _ask(self, demand: Demand, cursors: Sequence[Cursor], *, oldest: bool = False) -> Claim:
        """Claims; less than that, if the server cuts it short."""
        while True:
            asked = _at_most(self._portion.size, demand)
            try:
                claim = await self._ask_once(asked, cursors, oldest=oldest)
            except psycopg.Error as error:
                if not is_cut_short(error):
                    raise
                self._portion.was_cut_short(asked.batch_size)
                if asked.batch_size == 1:
                    raise
            else:
                self._portion.went_well(asked.batch_size)
                return claim

    async def _ask_once(self, demand: Demand, cursors: Sequence[Cursor], *, oldest: bool) -> Claim:
        try:
            claim = await self._link.run(
                calls.claim(
                    self._context,
                    self._boot(),
                    types=demand.types,
                    limits=demand.limits,
                    batch_size=demand.batch_size,
                    start=demand.start,
                    cursors=cursors,
                    oldest=oldest,
                    suspects=self._wants_suspects(),
                    ahead_types=None if oldest else demand.ahead_types,
                )
            )
        except WorkerUnknown:
            # The heartbeat finds out too, and registers anew; until then there is nothing to claim under this boot.
            raise DatabaseUnavailable("this worker is about to register anew") from None
        self.last_claim = time.monotonic()
        return claim

    def _take(self, claim: Claim, *, by_age: bool = False) -> None:
        if claim.jobs or claim.cut:
            self.activity += 1
            self._arrived(self.crew, claim, by_age=by_age)

    async def _fair_claim(self, demand: Demand) -> int:
        """Where a share of the room is kept for what has waited longest: takes that share, now and then."""
        if not self._fair_share:
            return 0
        self._fair_due += demand.batch_size * self._fair_share
        share = min(int(self._fair_due), demand.batch_size, self.crew.slots)
        if not share:
            return 0
        self._fair_due = 0
        self.in_flight = True
        try:
            small = demand._replace(batch_size=share, start=min(demand.start, share))
            claim = await self._ask(small, [], oldest=True)
            self._take(claim, by_age=True)
        finally:
            self.in_flight = False
        return len(claim.jobs)

    # Cursors

    def _is_time_to_look_behind(self) -> bool:
        pause = max(LOOK_BEHIND, self._look_cost * (1 / LOOK_BEHIND_SHARE - 1))
        return time.monotonic() - self._looked_behind >= pause

    def _cursors_of(self, types: Sequence[str]) -> Iterator[Cursor]:
        asked = set(types)
        return (cursor for cursor in self._cursors.values() if cursor.job_type in asked)

    def _remember(self, jobs: Sequence[Job]) -> None:
        """Moves the cursors to what was claimed: to the last job of each type and priority."""
        seen: set[tuple[str, int]] = set()
        for job in reversed(jobs):
            key = job.job_type, job.priority
            if key not in seen:
                seen.add(key)
                self._cursors[key] = Cursor(*key, job.run_at, job.id)
        if len(self._cursors) > MOST_CURSORS:
            self._forget_cursors()

    def _forget_cursors(self) -> None:
        """Of the types with the most priorities: there, the next claim reads across priorities, and without cursors."""
        for job_type, _ in Counter(job_type for job_type, _ in self._cursors).most_common():
            for key in [key for key in self._cursors if key[0] == job_type]:
                del self._cursors[key]
            if len(self._cursors) <= MOST_CURSORS // 2:
                return


def _at_most(size: int, demand: Demand) -> Demand:
    if demand.batch_size <= size:
        return demand
    return demand._replace(batch_size=size, start=min(demand.start, size))
