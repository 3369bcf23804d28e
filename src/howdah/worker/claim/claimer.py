"""The claimer of a slot group: claims as many jobs as there is room for, and sleeps while there are none.

Cursors. While any transaction in the database is open, the index keeps the entries of jobs long gone, and a claim from the
front would have to skip them all. So a claim names, for each type and priority, the place where the last one ended. The part before
the cursors is claimed from every LOOK_BEHIND seconds, and before sleeping: it has late commits, retries with an older place,
and jobs that were handed back. Jobs found there move the cursor back.

Sleeping. The claimer records that it sleeps, looks once more, and then waits for a wake-up, for the next job that becomes
due, or for the next poll. If jobs arrive now and then, it claims them without recording each time that it is awake. Polls
start soon after the last job and become rarer: a transaction that enqueued while the claimer was awake may commit just
after it fell asleep. A claimer that is woken very soon, even for a job that another worker gets, does not sleep again but
looks every few milliseconds, until it has found nothing for a while: a wake-up costs every transaction that enqueues.
While another connection stands in for its own, it only polls.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import psycopg

from howdah.checks.context import Context
from howdah.db.batch_size import BatchSize
from howdah.db.outage import is_cut_short
from howdah.db.plan import Row
from howdah.errors import DatabaseUnavailable, WorkerUnknown
from howdah.model.job import Job
from howdah.worker import calls
from howdah.worker.background.heartbeat import Heartbeat
from howdah.worker.calls import Claim, Cursor, Demand
from howdah.worker.claim.notifier import Notifier
from howdah.worker.connection import WorkerConnection
from howdah.worker.options import WorkerOptions
from howdah.worker.run.dispatcher import Dispatcher
from howdah.worker.run.slot_group import SlotGroup
from howdah.worker.service import Service, happens

log = logging.getLogger("howdah.worker")

LOOK_BEHIND = 0.2
LOOK_BEHIND_SHARE = 0.1
"""Of the time: if looking behind is expensive, it is done more rarely."""
MOST_CURSORS = 64
FIRST_POLL = 0.01
STANDSTILL = 0.05
"""Seconds between checks whether the worker may claim again."""
SHORT_NAP = 0.01
LINGER = 0.005
"""Seconds between looks, while jobs arrive so often that each would have to wake a sleeper."""
EMPTY_LOOKS = 1
"""In a row, after which the claimer sleeps again."""
LARGEST_CLAIM = 100_000
"""The database's limit."""
ASK_AGAIN_AFTER = 60.0


class SleepLocks:
    """Whether the claimers of a worker can have the advisory locks that mark sleepers.

    Any login can hold these locks. Then the worker polls, logs that once, and asks again later.
    """

    def __init__(self, poll: float) -> None:
        self._poll = poll
        self._ask_at = float("-inf")
        self._is_refused = False

    def may_be_asked_for(self) -> bool:
        return time.monotonic() >= self._ask_at

    def granted(self) -> None:
        if self._is_refused:
            self._is_refused = False
            log.info("the locks of sleepers are free again: polling ends", extra={"event": "sleep_granted"})

    def refused(self, holders: Sequence[Row]) -> None:
        """holders: the sessions that hold them, as the doctor finds them."""
        self._ask_at = time.monotonic() + ASK_AGAIN_AFTER
        if self._is_refused:
            return
        self._is_refused = True
        named = ", ".join(
            f"pid {row['pid']} of role {row['role']}{_in_brackets(row['application'])}" for row in holders
        )
        remedy = f" End it: SELECT pg_terminate_backend({holders[0]['pid']});" if holders else ""
        log.warning(
            "%s holds an advisory lock that sleeping workers share: this one polls, every %g s at least, which costs latency"
            " and nothing else.%s",
            named or "a session that has ended since",
            self._poll,
            remedy,
            extra={"event": "sleep_refused"},
        )


def _in_brackets(application: str) -> str:
    return f" ({application})" if application else ""


class Claimer(Service):
    """Claims for one slot group."""

    def __init__(
        self,
        group: SlotGroup,
        dispatcher: Dispatcher,
        connection: WorkerConnection,
        context: Context,
        options: WorkerOptions,
        heartbeat: Heartbeat,
        notifier: Notifier,
        sleep_locks: SleepLocks,
    ) -> None:
        super().__init__(f"claimer of {group.name}", self._claim_or_sleep)
        self.group = group
        self._dispatcher = dispatcher
        self._connection = connection
        self._context = context
        self._options = options
        self._heartbeat = heartbeat
        self._notifier = notifier
        self._sleep_locks = sleep_locks
        self._fair_due = 0.0
        self._cursors: dict[tuple[str, int], Cursor] = {}
        self._looked_behind = 0.0
        self._look_cost = 0.0
        self._looks_left = 0
        self._types = sorted(group.handlers)
        self._lazy = [(name, each) for name, handler in group.handlers.items() for each in handler.arguments.lazy]
        self._batch_size = BatchSize(LARGEST_CLAIM)
        self._asleep_in: int | None = None
        """The generation of the connection on which the sleep is recorded."""

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self.group.look.set()
        self.group.room.set()

    # The loop

    async def _claim_or_sleep(self) -> None:
        if not self._dispatcher.may_claim():
            await self.pause(STANDSTILL)
            return
        self.group.room.clear()
        demand = self.group.demand(self._batch_size.size)
        if demand is None:
            await self.group.room.wait()
            return
        self.group.look.clear()
        if self._options.fair_share and await self._claim_fair_share(demand):
            demand = self.group.demand(self._batch_size.size)
            if demand is None:
                return
        pause = max(LOOK_BEHIND, self._look_cost * (1 / LOOK_BEHIND_SHARE - 1))
        found = await self._claim(demand, exact=time.monotonic() - self._looked_behind >= pause)
        if found < demand.batch_size and self._looks_left:
            self._looks_left = EMPTY_LOOKS if found else self._looks_left - 1
            await self.pause(LINGER)
        elif found < demand.batch_size:
            await self._sleep()

    async def _sleep(self) -> None:
        group, poll = self.group, min(FIRST_POLL, self._options.poll)
        since, woken = time.monotonic(), False
        try:
            while self._continues():
                # Before the sleep is recorded: a wake-up from then on must count.
                group.look.clear()
                await self._record_sleep()
                demand = group.demand(self._batch_size.size) if self._continues() else None
                activity, now = group.activity, time.monotonic()
                found = 0 if demand is None else await self._claim(demand, exact=True)
                if found or woken:
                    if now - since < SHORT_NAP:
                        self._looks_left = EMPTY_LOOKS
                        return
                    since = now
                    # A transaction that enqueued while the wake-up was on its way may commit just after this look.
                    poll = min(FIRST_POLL, self._options.poll)
                if demand is None or found == demand.batch_size:
                    return
                if not found:
                    group.empty_at = activity
                    if self._options.drain:
                        self._dispatcher.check_drained()
                look, types = group.look, demand.types
                due = None if look.is_set() else await self._connection.run(calls.next_due(self._context, types))
                woken = await happens(look, poll if due is None else min(poll, due + 0.001))
                poll = min(poll * 2, self._options.poll)
        finally:
            # Only now: a woken claimer claims first, and records that it is awake while its job already runs.
            if self._asleep_in is not None:
                await self._forget_sleep()

    def _continues(self) -> bool:
        return not self.stopping.is_set() and self._dispatcher.may_claim()

    async def _record_sleep(self) -> None:
        generation = self._connection.generation
        if self._asleep_in == generation or not (self._notifier.listening and self._sleep_locks.may_be_asked_for()):
            return
        buckets = await self._connection.run_here(calls.add_sleeper(self._context, self._types))
        if buckets:
            self.group.buckets, self._asleep_in = buckets, self._connection.generation
            self._sleep_locks.granted()
        elif buckets is not None:
            self._sleep_locks.refused(await self._connection.run(calls.lock_holders(self._context)))

    async def _forget_sleep(self) -> None:
        recorded_in, self._asleep_in, self.group.buckets = self._asleep_in, None, frozenset()
        if recorded_in == self._connection.generation:
            await self._connection.run_here(calls.remove_sleeper(self._context, self._types))

    # A claim

    async def _claim(self, demand: Demand, *, exact: bool) -> int:
        """Claim; ``exact``: from the front, not from the cursors on. Returns how many jobs there were."""
        began, types = time.monotonic(), set(demand.types)
        cursors = [] if exact else [cursor for cursor in self._cursors.values() if cursor.job_type in types]
        try:
            claim = await self._claim_at_most(demand, cursors)
        finally:
            if exact:  # also if it was cut short: the next one, from the cursors on, may be done in time
                self._looked_behind = time.monotonic()
                self._look_cost = self._looked_behind - began
        self._remember(claim.jobs)
        return demand.batch_size if claim.cut else len(claim.jobs)

    async def _claim_at_most(self, demand: Demand, cursors: Sequence[Cursor], *, oldest: bool = False) -> Claim:
        """Claim, and hand the jobs to the dispatcher; fewer jobs if the server cuts the statement short."""
        group, asked = self.group, demand
        group.claiming = True
        try:
            while True:
                try:
                    claim = await self._connection.run(
                        calls.claim(
                            self._context,
                            self._heartbeat.incarnation,
                            asked,
                            cursors,
                            oldest=oldest,
                            suspects=self._dispatcher.suspects.has_room,
                            lazily=self._options.lazy_claims,
                            database=self._dispatcher.database,
                            lazy=self._lazy,
                        )
                    )
                    break
                except WorkerUnknown:
                    # The heartbeat notices this too, and registers again. Until then this incarnation can claim nothing.
                    raise DatabaseUnavailable("this worker is about to register again") from None
                except psycopg.Error as error:
                    if not is_cut_short(error):
                        raise
                    self._batch_size.was_cut_short(asked.batch_size)
                    if asked.batch_size == 1:
                        raise
                    asked = demand.at_most(self._batch_size.size)
            group.last_claim = time.monotonic()
            self._batch_size.went_well(asked.batch_size)
            if claim.jobs or claim.cut:
                self._dispatcher.arrived(group, claim, by_age=oldest)
            return claim
        finally:
            group.claiming = False

    async def _claim_fair_share(self, demand: Demand) -> int:
        """If a share of the room is for the jobs that have waited longest: claim that share, now and then."""
        self._fair_due += demand.batch_size * self._options.fair_share
        share = min(int(self._fair_due), demand.batch_size, self.group.slots)
        if not share:
            return 0
        self._fair_due = 0
        return len((await self._claim_at_most(demand.at_most(share), [], oldest=True)).jobs)

    # Cursors

    def _remember(self, jobs: Sequence[Job]) -> None:
        """Move the cursors to the last claimed job of each type and priority."""
        seen: set[tuple[str, int]] = set()
        last: tuple[str, int] | None = None
        for job in reversed(jobs):
            if last is not None and last[0] == job.job_type and last[1] == job.priority:
                continue  # usually
            last = key = job.job_type, job.priority
            if key not in seen:
                seen.add(key)
                self._cursors[key] = Cursor(*key, job.run_at, job.id)
                if len(seen) == MOST_CURSORS:
                    break
        if len(self._cursors) > MOST_CURSORS:
            self._forget_cursors()

    def _forget_cursors(self) -> None:
        """Drop the cursors of the types with the most priorities: their next claim reads across priorities, from the front."""
        by_type: dict[str, list[tuple[str, int]]] = {}
        for key in self._cursors:
            by_type.setdefault(key[0], []).append(key)
        for keys in sorted(by_type.values(), key=len, reverse=True):
            for key in keys:
                del self._cursors[key]
            if len(self._cursors) <= MOST_CURSORS // 2:
                return
