"""Throughput: how many jobs of each type a worker finishes per second, measured while it works.

The loop counts; the heartbeat's thread reads the counts, and keeps what it read. Counts only ever grow, so neither has to
wait for the other.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from howdah.model.claimed_job import due_for
from howdah.model.job import Job

Throughput: TypeAlias = dict[str, dict[str, float]]
"""As in ``workers.throughput``: for each type, ``per_second``, ``run`` and ``wait``."""

MEMORY = 30.0
"""Seconds after which an observation counts a third (1/e) of a new one."""
MEMORY_OF_ENDS = 3.0
"""Or, if that is longer, after this many ends: a type whose jobs take minutes is not judged by the last one alone."""
FORGOTTEN_AFTER = 600.0
MOST_TYPES = 200
LONGEST_GAP = 0.1
"""Seconds without a job, while the next one was due, that count as work: as long as a claim may take."""


class ThroughputMeter:
    """Measures the throughput of each type. Jobs are counted in one thread; ``snapshot`` may be called in one other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._types: dict[str, _TypeCounts] = {}
        self._last: Job
        """Of the last claim."""
        self._claimed: float
        """When that was answered."""

    def claimed(self, jobs: Sequence[Job]) -> None:
        """These jobs are held from now on."""
        if not jobs:
            return
        now = self._clock()
        types = self._types
        self._last, self._claimed = jobs[-1], now
        for job in jobs:
            counts = types.get(job.job_type)
            if counts is None:
                counts = types[job.job_type] = _TypeCounts(now)
            if not counts.held:
                # A job that was due when the last one ended had to wait for a claim: that is no idle time.
                counts.busy += min(now - counts.counted_until, due_for(job), LONGEST_GAP)
                counts.counted_until = now
            counts.held += 1

    def ended(self, job: Job, seconds: float, now: float | None = None) -> None:
        """An attempt ended; its handler ran for ``seconds``."""
        now = self._clock() if now is None else now
        counts = self._types[job.job_type]
        counts.held -= 1
        counts.busy += now - counts.counted_until
        counts.counted_until = now
        counts.ran += seconds
        if job.status == "running":
            waited = due_for(job)
        else:
            # It waited here as well. Until the last claim the database's clock counts, from then on the local one.
            waited = _between(job.run_at, _claimed_at(self._last)) + now - seconds - self._claimed
        if waited > 0:
            counts.waited += waited
        counts.ended += 1

    def released(self, job: Job) -> None:
        """A job is no longer held, and no attempt of it ended here: it was handed back, or lost."""
        now = self._clock()
        counts = self._types[job.job_type]
        counts.held -= 1
        if not counts.held:
            counts.busy += now - counts.counted_until
            counts.counted_until = now

    def snapshot(self) -> Throughput:
        """The throughput of the types that ran lately."""
        now = self._clock()
        types = [(counts.last_held(now), name) for name, counts in list(self._types.items())]
        measured: Throughput = {}
        for last_held, name in heapq.nlargest(MOST_TYPES, types):
            counts = self._types[name]
            if now - last_held > FORGOTTEN_AFTER:
                counts.memory = _Memory(counts.totals())
            elif throughput := counts.memory.throughput(counts, now):
                measured[name] = throughput
        return measured


class _Counts(NamedTuple):
    ended: float
    busy: float
    ran: float
    waited: float


class _TypeCounts:
    """The counts of one type."""

    __slots__ = ("busy", "counted_until", "ended", "held", "memory", "ran", "waited")

    def __init__(self, now: float) -> None:
        self.held = 0
        self.ended = 0
        self.busy = 0.0
        """Seconds with work, counted up to the last end, or until nothing was left."""
        self.counted_until = now
        self.ran = 0.0
        self.waited = 0.0
        self.memory = _Memory(self.totals())

    def totals(self) -> _Counts:
        return _Counts(self.ended, self.busy, self.ran, self.waited)

    def last_held(self, now: float) -> float:
        return now if self.held else self.counted_until

    def without_end(self, now: float) -> float:
        """Seconds with work in which nothing ended, so far."""
        return self.busy - self.memory.seen.busy + (now - self.counted_until if self.held else 0.0)


class _Memory:
    """The observations of one type. Old ones count less than new ones."""

    __slots__ = ("looked", "seen", "sums")

    def __init__(self, seen: _Counts) -> None:
        self.seen = seen
        self.sums = _Counts(0.0, 0.0, 0.0, 0.0)
        self.looked = 0.0

    def throughput(self, counts: _TypeCounts, now: float) -> dict[str, float] | None:
        """None while nothing has ended."""
        self._look(counts.totals(), now)
        ended, busy, ran, waited = self.sums
        if not busy:
            return None
        run = ran / ended
        # If none has ended for longer than a run and than the memory, the type has become slower.
        late = max(counts.without_end(now) - run - MEMORY, 0.0)
        kept = self._kept(late)
        per_second = min(ended / busy, (ended * kept + 1) / (busy * kept + late))
        return {"per_second": _rounded(per_second), "run": _rounded(run), "wait": _rounded(waited / ended)}

    def _look(self, counts: _Counts, now: float) -> None:
        # Time without an end belongs to the next end: otherwise a long job would count as none, and then as one.
        if counts.ended > self.seen.ended:
            kept = self._kept(now - self.looked)
            self.sums = _Counts(
                *(kept * was + new - old for was, new, old in zip(self.sums, counts, self.seen, strict=True))
            )
            self.seen, self.looked = counts, now

    def _kept(self, seconds: float) -> float:
        """How much the memory still counts after these seconds."""
        ended, busy, _, _ = self.sums
        return math.exp(-seconds / max(MEMORY, MEMORY_OF_ENDS * busy / max(ended, 1.0)))


def _claimed_at(job: Job) -> datetime:
    assert job.claimed_at is not None
    return job.claimed_at


def _between(earlier: datetime, later: datetime) -> float:
    return max(later.timestamp() - earlier.timestamp(), 0.0)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
