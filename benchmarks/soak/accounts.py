"""The outcome of every job, from three sources: the producers, the notes of the handlers, and the rows of the database.

The queue's own counters are not used. An acknowledged job must have ended once: with one row in the archive, and none among the
live ones. A completed job must have run: a handler noted its end under the token of the row. A job may run again if it was taken
from its first holder; each such case is checked, and so is each failure that was not planned. The explanation is a fault of a
holder, or a stall: on a busy machine a worker may be silent for as long as its lease without any fault.
"""

from __future__ import annotations

import bisect
import dataclasses
import struct
import uuid
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any, Final, NamedTuple

from benchmarks.soak.faults import KILL, STOP, Fault
from benchmarks.soak.ledger import END, START, Note
from benchmarks.soak.load import ATTEMPTS

_MOST_NAMED: Final = 10
_AFTERMATH: Final = 60.0
"""Seconds after a fault for which it may still explain something."""
_MOST_OF_A_LEASE: Final = 0.75
"""A worker's last heartbeat may have been a fifth of its lease before it stalled."""
_PACKED: Final = struct.Struct("=qiid")


class Ended(NamedTuple):
    """A row of the archive."""

    id: bytes
    number: int
    fails: int
    token: int
    status: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """How many, and which of those that should not be."""

    acknowledged: int
    unanswered: int
    completed: int
    failed_as_planned: int
    failed_by_faults: int
    """Which is an end like any other: an attempt whose worker died is spent."""
    failed_unexplained: int
    """Not planned, and fewer faults hit the holders than the job had attempts."""
    cancelled: int
    """Not planned."""
    unfinished: int
    """Acknowledged, and still live at the end of the wait."""
    lost: int
    """Acknowledged, and nowhere; or completed, though no handler ran it."""
    doubled: int
    """Ended twice, or enqueued twice by one call, or claimed twice under one token."""
    repeated: int
    """Handlers that came to their end again, for a job that had been run before."""
    stalled: int
    """Those of them whose first worker had stalled, though no fault hit it."""
    unexplained: int
    """Those of them that nothing explains."""
    wrong: tuple[str, ...]
    """Some of the wrong cases, as text."""

    @property
    def inexplicable(self) -> int:
        """All that has happened and that nothing explains."""
        return self.unexplained + self.failed_unexplained + self.cancelled

    def as_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Recovery:
    """How long the jobs of a worker that was killed or stopped have waited for the next one."""

    kind: str
    at: float
    held: int
    again: int
    slowest: float | None


class Run(NamedTuple):
    """Enters a note of a known job."""

    token: int
    kind: int
    pid: int
    at: float


class Runs:
    """All notes, by job. As bytes: there may be millions of them."""

    def __init__(self, notes: Iterable[Note]) -> None:
        self._of: dict[bytes, bytes] = {}
        starts: defaultdict[int, array[float]] = defaultdict(lambda: array("d"))
        for note in notes:
            if note.kind == START:
                starts[note.pid].append(note.at)
            packed = _PACKED.pack(note.token, note.kind, note.pid, note.at)
            self._of[note.id] = self._of.get(note.id, b"") + packed
        # Its threads and children write a little out of order.
        self._starts = {pid: array("d", sorted(moments)) for pid, moments in starts.items()}

    def silence(self, pid: int, since: float, until: float) -> float:
        """For how long at most a worker has begun nothing between two moments. While jobs come, it was stalled for so long."""
        moments = self._starts.get(pid, array("d"))
        between = moments[bisect.bisect_left(moments, since) : bisect.bisect_right(moments, until)]
        return max((later - earlier for earlier, later in pairwise([since, *between, until])), default=0.0)

    def of(self, job: bytes) -> list[Run]:
        return [Run._make(each) for each in _PACKED.iter_unpack(self._of.get(job, b""))]

    def __iter__(self) -> Iterator[tuple[bytes, list[Run]]]:
        return ((job, self.of(job)) for job in self._of)


def accounts(
    acknowledged: Collection[bytes],
    unanswered: int,
    ended: Iterable[Ended],
    unended: Collection[bytes],
    runs: Runs,
    faults: Sequence[Fault],
    lease: float,
) -> Accounts:
    causes = _Causes(runs, faults, lease * _MOST_OF_A_LEASE)
    rows: Counter[bytes] = Counter()
    numbers: dict[int, bytes] = {}
    statuses: Counter[str] = Counter()
    lost, doubled, strange = list[str](), list[str](), list[str]()
    for row in ended:
        rows[row.id] += 1
        end = _end_of(row, causes)
        statuses[end] += 1
        if end in (_FOR_NO_REASON, "cancelled"):
            strange.append(f"{row.status}, and nothing explains it: {_id(row.id)}")
        if numbers.setdefault(row.number, row.id) != row.id:
            doubled.append(f"enqueued twice by one call: {_id(numbers[row.number])} and {_id(row.id)}")
        if row.status == "completed" and not any(n.kind == END and n.token == row.token for n in runs.of(row.id)):
            lost.append(f"completed, but no handler ran it under that token: {_id(row.id)}")
    doubled += [f"ended {count} times: {_id(job)}" for job, count in rows.items() if count > 1]
    doubled += [f"ended, but still there: {_id(job)}" for job in unended if job in rows]
    doubled += [f"claimed twice under one token: {_id(job)}" for job, notes in runs if _shares_a_token(notes)]
    lost += [f"acknowledged, but nowhere: {_id(job)}" for job in acknowledged if not rows[job] and job not in unended]
    repeats = [(job, causes.of_repeat(job, *pair)) for job, notes in runs for pair in _repeats(notes)]
    strange += [f"ran again, and nothing explains it: {_id(job)}" for job, cause in repeats if cause is None]
    return Accounts(
        acknowledged=len(acknowledged),
        unanswered=unanswered,
        completed=statuses["completed"],
        failed_as_planned=statuses[_AS_PLANNED],
        failed_by_faults=statuses[_BY_FAULTS],
        failed_unexplained=statuses[_FOR_NO_REASON],
        cancelled=statuses["cancelled"],
        unfinished=sum(job in acknowledged for job in unended),
        lost=len(lost),
        doubled=len(doubled),
        repeated=len(repeats),
        stalled=sum(cause == _STALL for _, cause in repeats),
        unexplained=sum(cause is None for _, cause in repeats),
        wrong=(*lost[:_MOST_NAMED], *doubled[:_MOST_NAMED], *strange[:_MOST_NAMED]),
    )


def recoveries(faults: Iterable[Fault], runs: Runs) -> list[Recovery]:
    """For each worker that was taken from its jobs, how long it took until all of them had been begun elsewhere."""
    found = []
    for fault in faults:
        if fault.kind in (KILL, STOP):
            waits = [wait for job in fault.held if (wait := _begun_again(runs.of(job), fault)) is not None]
            found.append(Recovery(fault.kind, fault.at, len(fault.held), len(waits), max(waits, default=None)))
    return found


_FAULT, _STALL = "fault", "stall"
_AS_PLANNED, _BY_FAULTS, _FOR_NO_REASON = "as planned", "by faults", "for no reason"


class _Causes:
    """Why a job was taken from its holder."""

    def __init__(self, runs: Runs, faults: Sequence[Fault], stall: float) -> None:
        self._runs = runs
        self._stall = stall
        self._faults = faults
        self._of_worker: defaultdict[int, list[Fault]] = defaultdict(list)
        for fault in faults:
            if fault.pid is not None:
                self._of_worker[fault.pid].append(fault)

    def of_repeat(self, job: bytes, first: Run, again: Run) -> str | None:
        """The fault or stall of one of the two workers, because of which it could not write in time."""
        if any(self._faults_of(run.pid, first.at, again.at) for run in (first, again)):
            return _FAULT
        tokens = (first.token, again.token)
        starts = [note for note in self._starts(job) if note.token in tokens]
        return _STALL if any(self._stalled(held, taken) for held, taken in pairwise(starts)) else None

    def explain_failure(self, row: Ended) -> bool:
        """Whether faults hit its holders often enough to have lost each of its attempts."""
        starts = self._starts(row.id)
        hits = [fault for fault in self._faults if row.id in fault.held]
        for held, taken in zip_longest(starts, starts[1:]):
            hits += self._faults_of(held.pid, held.at, held.at + _AFTERMATH if taken is None else taken.at)
        stalls = sum(self._stalled(held, taken) for held, taken in pairwise(starts))
        return row.fails + len({id(fault) for fault in hits}) + stalls >= ATTEMPTS

    def _starts(self, job: bytes) -> list[Run]:
        return sorted((note for note in self._runs.of(job) if note.kind == START), key=lambda note: note.token)

    def _faults_of(self, pid: int, since: float, until: float) -> list[Fault]:
        return [
            fault
            for fault in self._of_worker[pid]
            if fault.at <= until and (fault.until is None or fault.until + _AFTERMATH >= since)
        ]

    def _stalled(self, held: Run, taken: Run) -> bool:
        """Whether the worker that held it was silent for so long that another worker could claim it."""
        return self._runs.silence(held.pid, held.at, taken.at) >= self._stall


def _end_of(row: Ended, causes: _Causes) -> str:
    if row.status != "failed":
        return row.status
    if row.fails >= ATTEMPTS:
        return _AS_PLANNED
    return _BY_FAULTS if causes.explain_failure(row) else _FOR_NO_REASON


def _shares_a_token(notes: Sequence[Run]) -> bool:
    tokens = [note.token for note in notes if note.kind == START]
    return len(set(tokens)) < len(tokens)


def _repeats(notes: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Each end but the first, after the one before it."""
    return list(pairwise(sorted((note for note in notes if note.kind == END), key=lambda note: note.at)))


def _begun_again(notes: Iterable[Run], fault: Fault) -> float | None:
    starts = [note.at for note in notes if note.kind == START and note.at > fault.at and note.pid != fault.pid]
    return min(starts) - fault.at if starts else None


def _id(job: bytes) -> str:
    return str(uuid.UUID(bytes=job))


def by_kind(faults: Iterable[Fault]) -> Mapping[str, int]:
    return Counter(fault.kind for fault in faults)
