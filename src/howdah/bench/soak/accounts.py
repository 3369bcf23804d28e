"""What became of every job, by three witnesses: who enqueued it, the handlers that ran it, and the rows that are there.

The queue's own counters are none of them. An acknowledged job has ended once: that is, there is one row in the archive, and
none among the live ones. A completed job has been run: a handler noted its end under the token that is in the row.
To run a job again is allowed where the first holder was taken from it, and each such case is looked at.
"""

from __future__ import annotations

import dataclasses
import struct
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from howdah.bench.soak.faults import KILL, STOP, Fault
from howdah.bench.soak.ledger import END, START, Note
from howdah.bench.soak.load import ATTEMPTS

_MOST_NAMED: Final = 10
_AFTERMATH: Final = 60.0
"""Seconds after a fault for which it may still explain something."""
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
    unfinished: int
    """Acknowledged, and still there when nobody waited any longer."""
    lost: int
    """Acknowledged, and nowhere; or completed, though no handler ran it."""
    doubled: int
    """Ended twice, or enqueued twice by one call, or handed out twice under one token."""
    repeated: int
    """Handlers that came to their end again, for a job that had been run before."""
    unexplained: int
    """Those of them whose first worker was not disturbed meanwhile."""
    wrong: tuple[str, ...]
    """Some of the lost and the doubled, in words."""

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
    """What a note says of a job that is known."""

    token: int
    word: int
    pid: int
    at: float


class Runs:
    """All notes, by job. As bytes: there may be millions of them."""

    def __init__(self, notes: Iterable[Note]) -> None:
        self._of: dict[bytes, bytes] = {}
        for note in notes:
            packed = _PACKED.pack(note.token, note.word, note.pid, note.at)
            self._of[note.id] = self._of.get(note.id, b"") + packed

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
) -> Accounts:
    rows: Counter[bytes] = Counter()
    numbers: dict[int, bytes] = {}
    statuses: Counter[str] = Counter()
    lost, doubled = list[str](), list[str]()
    for row in ended:
        rows[row.id] += 1
        statuses[_end_of(row)] += 1
        if numbers.setdefault(row.number, row.id) != row.id:
            doubled.append(f"enqueued twice by one call: {_id(numbers[row.number])} and {_id(row.id)}")
        if row.status == "completed" and not any(n.word == END and n.token == row.token for n in runs.of(row.id)):
            lost.append(f"completed, but no handler ran it under that token: {_id(row.id)}")
    doubled += [f"ended {count} times: {_id(job)}" for job, count in rows.items() if count > 1]
    doubled += [f"ended, but still there: {_id(job)}" for job in unended if job in rows]
    doubled += [f"handed out twice under one token: {_id(job)}" for job, notes in runs if _shares_a_token(notes)]
    lost += [f"acknowledged, but nowhere: {_id(job)}" for job in acknowledged if not rows[job] and job not in unended]
    repeats = [pair for _, notes in runs for pair in _repeats(notes)]
    return Accounts(
        acknowledged=len(acknowledged),
        unanswered=unanswered,
        completed=statuses["completed"],
        failed_as_planned=statuses["as planned"],
        failed_by_faults=statuses["by faults"],
        unfinished=sum(job in acknowledged for job in unended),
        lost=len(lost),
        doubled=len(doubled),
        repeated=len(repeats),
        unexplained=sum(not _is_explained(first, again, faults) for first, again in repeats),
        wrong=(*lost[:_MOST_NAMED], *doubled[:_MOST_NAMED]),
    )


def recoveries(faults: Iterable[Fault], runs: Runs) -> list[Recovery]:
    """For each worker that was taken from its jobs, how long it took until all of them had been begun elsewhere."""
    found = []
    for fault in faults:
        if fault.kind in (KILL, STOP):
            waits = [wait for job in fault.held if (wait := _begun_again(runs.of(job), fault)) is not None]
            found.append(Recovery(fault.kind, fault.at, len(fault.held), len(waits), max(waits, default=None)))
    return found


def _end_of(row: Ended) -> str:
    if row.status != "failed":
        return row.status
    return "as planned" if row.fails >= ATTEMPTS else "by faults"


def _shares_a_token(notes: Sequence[Run]) -> bool:
    tokens = [note.token for note in notes if note.word == START]
    return len(set(tokens)) < len(tokens)


def _repeats(notes: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Each end but the first, after the one before it."""
    return list(pairwise(sorted((note for note in notes if note.word == END), key=lambda note: note.at)))


def _is_explained(first: Run, again: Run, faults: Iterable[Fault]) -> bool:
    """Whether something befell one of the two workers: it could not write, or came too late."""
    return any(
        fault.pid in (first.pid, again.pid)
        and fault.at <= again.at
        and (fault.until is None or fault.until + _AFTERMATH >= first.at)
        for fault in faults
    )


def _begun_again(notes: Iterable[Run], fault: Fault) -> float | None:
    starts = [note.at for note in notes if note.word == START and note.at > fault.at and note.pid != fault.pid]
    return min(starts) - fault.at if starts else None


def _id(job: bytes) -> str:
    return str(uuid.UUID(bytes=job))


def by_kind(faults: Iterable[Fault]) -> Mapping[str, int]:
    return Counter(fault.kind for fault in faults)
