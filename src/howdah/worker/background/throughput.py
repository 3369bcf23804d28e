"""The pace: how fast a worker goes through the jobs of each type, measured while it works.

The loop counts; the heartbeat's thread reads, and remembers what it read. What is counted only ever grows, so that
neither waits for the other.
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

Told: TypeAlias = dict[str, dict[str, float]]
"""As in ``workers.pace``: of each type, ``per_second``, ``run`` and ``wait``."""

MEMORY = 30.0
"""Seconds after which what was seen counts a third (1/e) of what is new."""
MEMORY_OF_ENDS = 3.0
"""Or, where that is longer, after so many ends: a type whose jobs take minutes is not judged by the last one alone."""
FORGOTTEN_AFTER = 600.0
MOST_TYPES = 200
LONGEST_GAP = 0.1
"""Seconds without a job, while the next one was due, that belong to the work: as long as a claim may take."""


class PaceMeter:
    """Measures the pace of each type. Jobs come and go in one thread; ``told`` may be called in one other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lanes: dict[str, _Lane] = {}
        self._last: Job
        """Of the last claim."""
        self._claimed: float
        """When that was answered."""

    def came(self, jobs: Sequence[Job]) -> None:
        """A claim brought these: they are held from now on."""
        if not jobs:
            return
        now = self._clock()
        lanes = self._lanes
        self._last, self._claimed = jobs[-1], now
        for job in jobs:
            lane = lanes.get(job.job_type)
            if lane is None:
                lane = lanes[job.job_type] = _Lane(now)
            if not lane.held:
                lane.begins(job, now)
            lane.held += 1

    def ended(self, job: Job, seconds: float) -> None:
        """An attempt ended: its handler ran for so many seconds."""
        now = self._clock()
        lane = self._lanes[job.job_type]
        lane.held -= 1
        lane.busy += now - lane.counted_until
        lane.counted_until = now
        lane.ran += seconds
        if job.status == "running":
            waited = due_for(job)
        else:
            # It waited here as well: the database's clock tells until the last claim, and ours from there.
            waited = _between(job.run_at, _claimed_at(self._last)) + now - seconds - self._claimed
        if waited > 0:
            lane.waited += waited
        lane.ended += 1

    def left(self, job: Job) -> None:
        """A job is no longer held, and no attempt of it ended here: it was handed back, or lost."""
        now = self._clock()
        lane = self._lanes[job.job_type]
        lane.held -= 1
        if not lane.held:
            lane.busy += now - lane.counted_until
            lane.counted_until = now

    def told(self) -> Told:
        """The pace of the types that were run lately."""
        now = self._clock()
        lanes = [(lane.last_held(now), name) for name, lane in list(self._lanes.items())]
        told: Told = {}
        for last_held, name in heapq.nlargest(MOST_TYPES, lanes):
            lane = self._lanes[name]
            if now - last_held > FORGOTTEN_AFTER:
                lane.memory = _Memory(lane.counts())
            elif pace := lane.memory.pace(lane, now):
                told[name] = pace
        return told


class _Counts(NamedTuple):
    ended: float
    busy: float
    ran: float
    waited: float


class _Lane:
    """What was counted of one type."""

    __slots__ = ("busy", "counted_until", "ended", "held", "memory", "ran", "waited")

    def __init__(self, now: float) -> None:
        self.held = 0
        self.ended = 0
        self.busy = 0.0
        """Seconds with work, as far as they are counted: up to the last end, or until nothing was left."""
        self.counted_until = now
        self.ran = 0.0
        self.waited = 0.0
        self.memory = _Memory(self.counts())

    def counts(self) -> _Counts:
        return _Counts(self.ended, self.busy, self.ran, self.waited)

    def begins(self, job: Job, now: float) -> None:
        # What was due when the last one ended was kept waiting by a claim, and not by idleness.
        self.busy += min(now - self.counted_until, due_for(job), LONGEST_GAP)
        self.counted_until = now

    def last_held(self, now: float) -> float:
        return now if self.held else self.counted_until

    def without_end(self, now: float) -> float:
        """Seconds with work in which nothing ended, so far."""
        return self.busy - self.memory.seen.busy + (now - self.counted_until if self.held else 0.0)


class _Memory:
    """What was seen of one type. The old counts less than the new."""

    __slots__ = ("looked", "seen", "sums")

    def __init__(self, seen: _Counts) -> None:
        self.seen = seen
        self.sums = _Counts(0.0, 0.0, 0.0, 0.0)
        self.looked = 0.0

    def pace(self, lane: _Lane, now: float) -> dict[str, float] | None:
        """None while nothing has ended."""
        self._look(lane.counts(), now)
        ended, busy, ran, waited = self.sums
        if not busy:
            return None
        run = ran / ended
        # For longer than they run, and than is remembered, none has ended: then it has become slower.
        late = max(lane.without_end(now) - run - MEMORY, 0.0)
        kept = self._kept(late)
        per_second = min(ended / busy, (ended * kept + 1) / (busy * kept + late))
        return {"per_second": _rounded(per_second), "run": _rounded(run), "wait": _rounded(waited / ended)}

    def _look(self, counts: _Counts, now: float) -> None:
        # A time without any end belongs to the next one: else a job that takes long would be none, and then one.
        if counts.ended > self.seen.ended:
            kept = self._kept(now - self.looked)
            self.sums = _Counts(
                *(kept * was + new - old for was, new, old in zip(self.sums, counts, self.seen, strict=True))
            )
            self.seen, self.looked = counts, now

    def _kept(self, seconds: float) -> float:
        """How much of what is remembered still counts after so many seconds."""
        ended, busy, _, _ = self.sums
        return math.exp(-seconds / max(MEMORY, MEMORY_OF_ENDS * busy / max(ended, 1.0)))


def _claimed_at(job: Job) -> datetime:
    assert job.claimed_at is not None
    return job.claimed_at


def _between(earlier: datetime, later: datetime) -> float:
    return max(later.timestamp() - earlier.timestamp(), 0.0)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
