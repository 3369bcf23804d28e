"""Actions on many jobs, in batches, while the page shows how far they are."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg

from howdah.checks.context import Context
from howdah.db.plan import Plan
from howdah.errors import HowdahError, InvalidOption
from howdah.model.failure import describe
from howdah.verbs.selection import SelectionVerb
from howdah.web import plans
from howdah.web.access import Visitor
from howdah.web.data import Data
from howdah.web.filters import Filter

log = logging.getLogger("howdah.web")

BATCH: Final = 500
MOST_AT_ONCE: Final = 4
MOST_KEPT: Final = 100
MOST_COUNTED: Final = 20_000
_COUNT_FOR: Final = 0.1
"""Seconds, for a confirmation. Then it says that there may be more."""

DONE: Final[Mapping[str, str]] = {
    "retry": "retried", "cancel": "cancelled", "delete": "deleted", "reprioritise": "reprioritised",
    "reschedule": "rescheduled",
}  # fmt: skip
WHY_UNCHANGED: Final[Mapping[str, str]] = {
    "retry": "They have not ended, or a live job has their key: two jobs with one key must not be live at once.",
    "cancel": "They have ended, or were asked to stop before.",
    "delete": "They are claimed or running: cancel them first.",
    "reprioritise": "They are not pending any more.",
    "reschedule": "They are not pending any more.",
}
APPLIES_TO: Final[Mapping[str, tuple[str, ...]]] = {
    "retry": ("failed", "cancelled", "completed"),
    "cancel": ("pending", "claimed", "running"),
    "delete": ("pending", "completed", "failed", "cancelled"),
    "reprioritise": ("pending",),
    "reschedule": ("pending",),
}


@dataclasses.dataclass(slots=True)
class Run:
    """One action on many jobs. ``ids`` are chosen jobs; None: all that match the filter."""

    verb: SelectionVerb
    wanted: Filter
    ids: Sequence[uuid.UUID] | None
    arguments: Mapping[str, Any]
    visitor: Visitor
    back: str
    expected: int | None
    id: str = dataclasses.field(default_factory=lambda: secrets.token_hex(8))
    seen: int = 0
    changed: int = 0
    locked: int = 0
    is_over: bool = False
    error: str | None = None
    ended_by: str | None = None
    """The error without its text, which can repeat the filter: for the audit."""
    begun: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def unchanged(self) -> int:
        return max(self.seen - self.changed - self.locked, 0)

    @property
    def percent(self) -> float:
        if self.is_over:
            return 100.0
        return min(100.0 * self.seen / self.expected, 99.0) if self.expected else 0.0

    @property
    def outcome(self) -> str:
        said = [f"{self.changed:,} {DONE[self.verb]}"]
        said += [f"{self.unchanged:,} unchanged"] if self.unchanged else []
        said += [f"{self.locked:,} locked"] if self.locked else []
        said += [f"ended by {self.ended_by}"] if self.ended_by else []
        return ", ".join(said)


@dataclasses.dataclass(frozen=True, slots=True)
class Matched:
    """How many jobs match. If ``exact`` is False, more may."""

    jobs: int
    exact: bool


class Runs:
    """The actions of this process: those under way, and the last ones."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._context = data.queue._context
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, run_id: str) -> Run | None:
        return self._runs.get(run_id)

    def begin(self, run: Run) -> None:
        if len(self._tasks) >= MOST_AT_ONCE:
            raise InvalidOption(f"{MOST_AT_ONCE} actions are under way: wait until one of them is done")
        while len(self._runs) >= MOST_KEPT:
            del self._runs[next(iter(self._runs))]
        self._runs[run.id] = run
        task = asyncio.create_task(self._perform(run), name=f"howdah-web-{run.verb}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def count(self, visitor: Visitor, wanted: Filter, verb: SelectionVerb) -> Matched:
        """How many jobs an action would take, as far as that can be counted in a moment."""
        bounded, position, found, seen, began = _bounded(wanted, verb), None, 0, 0, time.monotonic()
        if bounded is None:
            return Matched(0, exact=True)
        if bounded == Filter(status=bounded.status, type=bounded.type):
            return _summed(await self._data.read(visitor, plans.counts()), bounded)
        while True:
            window = await self._data.read(visitor, plans.matching(self._context, bounded, position))
            found, seen, position = found + len(window.ids), seen + plans.WINDOW, window.next
            if position is None:
                return Matched(found, exact=True)
            if seen >= MOST_COUNTED or time.monotonic() - began > _COUNT_FOR:
                return Matched(found, exact=False)

    async def close(self) -> None:
        """Ends what is under way after its present batch."""
        for task in list(self._tasks):
            task.cancel()
        for task in list(self._tasks):
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    async def _perform(self, run: Run) -> None:
        try:
            # First, so that it is there if this process is killed.
            await self._data.write(_entry(self._context, run, None, "begun"))
            if run.ids is not None:
                await self._change(run, run.ids)
            else:
                await self._change_all(run)
        except asyncio.CancelledError:
            run.error, run.ended_by = "the dashboard was stopped before it was done", "the stop of the dashboard"
        except (HowdahError, psycopg.Error) as error:
            run.error, run.ended_by = describe(error), type(error).__name__
        except Exception:
            run.error = run.ended_by = "an error, which the log of the dashboard has"
            log.exception("an action on many jobs failed")
        finally:
            run.is_over = True
            self._data.forget()
        await self._record(run)

    async def _change_all(self, run: Run) -> None:
        # Going down the ids, a job is seen once, also if the action makes it match again. Jobs that come later are left out.
        bounded, position = _bounded(run.wanted, run.verb), None
        while bounded is not None:
            window = await self._data.read(run.visitor, plans.matching(self._context, bounded, position))
            await self._change(run, window.ids)
            position = window.next
            if position is None:
                return

    async def _change(self, run: Run, ids: Sequence[uuid.UUID]) -> None:
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            plan = plans.change(self._context, run.verb, batch, run.arguments)
            changed, locked = await self._data.write(plan)
            run.seen += len(batch)
            run.changed += len(changed)
            run.locked += locked

    async def _record(self, run: Run) -> None:
        try:
            await self._data.write(_entry(self._context, run, run.changed, run.outcome))
        except (HowdahError, psycopg.Error) as error:
            run.error = f"{run.error or ''} The audit has no entry of it: {describe(error)}".strip()


def _summed(counts: plans.Counts, wanted: Filter) -> Matched:
    """By status and type, the database has the numbers already."""
    chosen = [each for each in counts.types if not wanted.type or each.job_type in wanted.type]
    jobs = sum(getattr(each, status) for each in chosen for status in wanted.status)
    return Matched(jobs, exact="pending" not in wanted.status or all(each.exact for each in chosen))


def _entry(context: Context, run: Run, jobs: int | None, outcome: str) -> Plan[None]:
    """An entry of the audit."""
    chosen = None if run.ids is None else [str(each) for each in run.ids[:100]]
    target: dict[str, Any] = {"filter": run.wanted.described()} if chosen is None else {"jobs": chosen}
    target |= {name: str(value) for name, value in run.arguments.items() if value is not None}
    return plans.record(context, run.visitor.name, run.verb, target, jobs, outcome)


def _bounded(wanted: Filter, verb: SelectionVerb) -> Filter | None:
    """The filter, with the statuses that the action applies to; None if there are none of these."""
    most = APPLIES_TO[verb]
    chosen = tuple(status for status in (wanted.status or most) if status in most)
    if verb == "retry" and not wanted.status:
        chosen = ("failed",)
    if wanted.state and {"stalled": "running", "scheduled": "pending"}[wanted.state] not in most:
        return None
    return dataclasses.replace(wanted, status=chosen) if chosen else None
