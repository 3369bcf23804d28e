"""Results of verbs that are not jobs."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, overload

from howdah.model.job import Conflict, Job, Status
from howdah.model.rate import Rate

WhenFull: TypeAlias = Literal["raise", "wait", "drop_oldest"]
"""What enqueueing does when as many jobs of a type wait as may."""


class EnqueuedCount(int):
    """How many jobs were added; ``ids`` lists them with ``return_ids=True``.

    ``conflicts`` counts the items for which there was a job already, by what a unique rule did to it: "kept", "replaced" or
    "rescheduled".
    """

    ids: list[uuid.UUID] | None
    conflicts: Mapping[Conflict, int]

    def __new__(
        cls, count: int, ids: list[uuid.UUID] | None = None, conflicts: Mapping[Conflict, int] | None = None
    ) -> EnqueuedCount:
        self = super().__new__(cls, count)
        self.ids = ids
        self.conflicts = conflicts or {}
        return self


class SelectedCount(int):
    """How many jobs a selection has; ``groups`` has the number for each type and status."""

    groups: Mapping[tuple[str, Status], int]

    def __new__(cls, count: int, groups: Mapping[tuple[str, Status], int] | None = None) -> SelectedCount:
        self = super().__new__(cls, count)
        self.groups = dict(groups or {})
        return self


class ChangedCount(int):
    """How many jobs a verb of a selection has changed.

    asked: how many of these run, and were asked to stop, by ``cancel``.
    unchanged: how many others matched, but could not be changed: a live job has their key (``retry``), or they were asked to stop
        before (``cancel``).
    skipped: how many others matched, but another transaction had locked them, or changed them at that moment.
    """

    asked: int
    unchanged: int
    skipped: int

    def __new__(cls, changed: int = 0, *, asked: int = 0, unchanged: int = 0, skipped: int = 0) -> ChangedCount:
        self = super().__new__(cls, changed)
        self.asked, self.unchanged, self.skipped = asked, unchanged, skipped
        return self

    def plus(self, *, changed: int, asked: int, unchanged: int, skipped: int) -> ChangedCount:
        """This, and one batch more."""
        return ChangedCount(
            self + changed,
            asked=self.asked + asked,
            unchanged=self.unchanged + unchanged,
            skipped=self.skipped + skipped,
        )

    def __repr__(self) -> str:
        return f"ChangedCount({int(self)}, asked={self.asked}, unchanged={self.unchanged}, skipped={self.skipped})"

    __str__ = int.__repr__


class JobPage(Sequence[Job[Any]]):
    """A page of jobs.

    next: what to pass as ``before`` for the next page; None if there is none.
    complete: False if the search stopped at its limit: older jobs may match, too.
    """

    def __init__(self, jobs: Sequence[Job[Any]], *, next: uuid.UUID | None, complete: bool) -> None:
        self.jobs = tuple(jobs)
        self.next = next
        self.complete = complete

    @overload
    def __getitem__(self, index: int) -> Job[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Job[Any]]: ...

    def __getitem__(self, index: int | slice) -> Job[Any] | Sequence[Job[Any]]:
        return self.jobs[index]

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        return f"JobPage({len(self)} jobs, next={self.next}, complete={self.complete})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How many jobs may run at once over all workers, how many do, and how often they may start; or how many of a type may wait.

    job_type, flow_key, each_key, group: of a type, of one of its keys, of each of its keys, or of a group of types.
    max_running: None if it has no limit. running: with each_key, those of all keys. rate: how often they may start.
    by_operator: False if the handler declares it.
    max_pending, pending, when_full: how many jobs of the type may wait, how many do, and what ``enqueue`` does when it is full.
    """

    job_type: str | None = None
    flow_key: str | None = None
    group: str | None = None
    each_key: bool = False
    max_running: int | None = None
    weight: int | None = None
    paused_at: datetime | None = None
    paused_because: str | None = None
    by_operator: bool = True
    running: int | None = None
    rate: Rate | None = None
    max_pending: int | None = None
    when_full: WhenFull | None = None
    pending: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TypeStats:
    """How many jobs of one type are in each status.

    ``scheduled`` ones are pending, but not due yet; ``stalled`` ones are running, but have stopped reporting.

    oldest_due: when the job that has waited longest became due; None if none waits.
    paused, paused_because: whether the type is paused, and the reason that was given.
    limit, key_limit: how many may run at once over all workers, of the type and of each flow key; None for no limit.
    paused_keys: how many flow keys are paused.
    """

    pending: int = 0
    scheduled: int = 0
    claimed: int = 0
    running: int = 0
    stalled: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    oldest_due: datetime | None = None
    paused: bool = False
    paused_because: str | None = None
    limit: int | None = None
    key_limit: int | None = None
    paused_keys: int = 0


class Stats(Mapping[str, TypeStats]):
    """The statistics of each type, by its name; ``total`` is their sum."""

    def __init__(self, types: Mapping[str, TypeStats]) -> None:
        self._types = dict(types)

    def __getitem__(self, job_type: str) -> TypeStats:
        return self._types[job_type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __repr__(self) -> str:
        return f"Stats({'; '.join(f'{job_type}: {_counts(each)}' for job_type, each in self.items())})"

    @property
    def total(self) -> TypeStats:
        """All types together; paused if all of them are."""
        counts = ("pending", "scheduled", "claimed", "running", "stalled", "completed", "failed", "cancelled")
        oldest = [each.oldest_due for each in self.values() if each.oldest_due]
        return TypeStats(
            **{count: sum(getattr(each, count) for each in self.values()) for count in counts},
            oldest_due=min(oldest, default=None),
            paused=bool(self) and all(each.paused for each in self.values()),
        )


def _counts(stats: TypeStats) -> str:
    counts = ("pending", "claimed", "running", "completed", "failed", "cancelled")
    counted = [f"{count:,} {name}" for name in counts if (count := getattr(stats, name))]
    return ", ".join([*counted, *(["paused"] if stats.paused else [])]) or "no jobs"


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """A job that the sweep released or ended, and why."""

    id: uuid.UUID
    status: Status
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class PrunedSegment:
    """A segment of the archive whose jobs are older than they are kept. It was dropped; or not, and ``reason`` says why."""

    segment: int
    first_end: datetime | None
    """When the first of its jobs ended, and ``last_end`` the last. None: it is empty, or could not be closed."""
    last_end: datetime | None
    dropped: bool
    reason: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """Where a pending job stands in the queue of its type.

    ahead: how many jobs of its type come before it; at least so many where ``exact`` is False.
    per_second: how many of them the live workers end in a second, as measured lately.
    starts_at: when it will start at that rate; None if that cannot be said.
    because: what it waits for, such as a limit or a job of its key that comes first, or why its start is unknown.
    """

    ahead: int
    exact: bool
    per_second: float | None
    starts_at: datetime | None
    because: str | None
