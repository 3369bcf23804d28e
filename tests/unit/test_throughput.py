"""The throughput that a worker measures: right while there is work, and always a number."""

from __future__ import annotations

import json
import math
import threading
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah import Job
from howdah.worker.run import throughput
from howdah.worker.run.throughput import ThroughputMeter

NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
TICK = st.floats(1e-6, 1e5) | st.sampled_from([0.0, 0.001, 1.0])


class Types:
    """A worker's types, and a clock that is moved by hand: the database's is the same, from noon on."""

    def __init__(self) -> None:
        self.now = 5_000.0
        self.meter = ThroughputMeter(clock=lambda: self.now)

    def at(self, before: float = 0.0) -> datetime:
        return NOON + timedelta(seconds=self.now - before)

    def come(self, job_type: str = "work", *, due: float = 0.0, starts: bool = True) -> Job:
        """A job that has been due for so many seconds, and is started by its claim."""
        status = "running" if starts else "claimed"
        job = job_of(job_type, self.at(due), claimed_at=self.at(), status=status)
        self.meter.claimed([job])
        return job

    def passes(self, seconds: float) -> None:
        self.now += seconds

    def works(self, jobs: int, seconds: float, *, due: float = 0.0) -> None:
        """One job after the other, for so many seconds each."""
        for _ in range(jobs):
            job = self.come(due=due)
            self.passes(seconds)
            self.meter.ended(job, seconds)

    def snapshot(self, job_type: str = "work") -> dict[str, float]:
        return self.meter.snapshot()[job_type]


def job_of(job_type: str, run_at: datetime, **fields: Any) -> Job:
    common = {"id": uuid.uuid4(), "priority": 0, "status": "running", "data": {}, "max_attempts": 3}
    return Job(job_type=job_type, created_at=run_at, run_at=run_at, **{**common, **fields})


def about(value: float) -> Any:
    return pytest.approx(value, rel=0.05)


# Always a number


@given(
    st.lists(
        st.tuples(st.sampled_from(["come", "end", "leave", "tell"]), st.integers(0, 3), TICK, st.booleans()),
        max_size=60,
    )
)
def test_a_snapshot_is_finite_and_not_negative_whatever_happens(steps: list[tuple[str, int, float, bool]]) -> None:
    types, held = Types(), list[tuple[Job, float]]()
    for step, which, seconds, starts in steps:
        types.passes(seconds)
        if step == "come":
            held.append((types.come(f"type {which}", due=seconds, starts=starts), types.now))
        elif step == "tell":
            check(types.meter.snapshot())
        elif held:
            job, since = held.pop(which % len(held))
            if step == "end":
                types.meter.ended(job, types.now - since)
            else:
                types.meter.released(job)
    check(types.meter.snapshot())


def check(told: throughput.Throughput) -> None:
    for measured in json.loads(json.dumps(told, allow_nan=False)).values():
        assert set(measured) == {"per_second", "run", "wait"}
        assert all(math.isfinite(value) and value >= 0 for value in measured.values())
        assert measured["per_second"] > 0


def test_a_snapshot_has_four_significant_digits() -> None:
    types = Types()
    types.works(3, 0.0123456789, due=12.3456789)
    assert types.snapshot() == {"per_second": 81.0, "run": 0.01235, "wait": 12.35}


# True


@settings(max_examples=25)
@given(
    per_second=st.floats(0.01, 10),
    slots=st.integers(1, 50),
    heartbeat=st.floats(0.5, 20),
    due=st.floats(0, 1000),
    batch=st.sampled_from([1, 1, 10]),
)
def test_steady_work_has_the_pace_that_it_has(
    per_second: float, slots: int, heartbeat: float, due: float, batch: int
) -> None:
    types, next_beat = Types(), 0.0
    run = slots / per_second
    held = [types.come(due=due) for _ in range(slots * batch)]
    for _ in range(max(int(10 * throughput.MEMORY * per_second), 50)):
        types.passes(1 / per_second)
        for _ in range(batch):
            types.meter.ended(held.pop(0), run)
            held.append(types.come(due=due))
        while next_beat < types.now:
            next_beat = max(next_beat, types.now) + heartbeat
            types.meter.snapshot()
    told = types.snapshot()
    assert told["per_second"] == about(per_second * batch)
    assert told["run"] == about(run)
    assert told["wait"] == pytest.approx(due, rel=0.05, abs=1e-3)


@given(
    gaps=st.lists(st.floats(0, 500), min_size=1, max_size=20), burst=st.integers(1, 20), seconds=st.floats(0.001, 20)
)
def test_idle_gaps_do_not_lower_it(gaps: list[float], burst: int, seconds: float) -> None:
    types = Types()
    for gap in gaps:
        types.works(burst, seconds)
        before = types.snapshot()
        types.passes(gap)
        assert types.snapshot() == before
        assert before["per_second"] == about(1 / seconds)


@given(claim=st.floats(0, throughput.LONGEST_GAP), seconds=st.floats(0.001, 1))
def test_the_time_that_claims_take_belongs_to_the_work_where_jobs_are_due(claim: float, seconds: float) -> None:
    types = Types()
    for _ in range(100):
        types.works(1, seconds, due=60)
        types.passes(claim)
    assert types.snapshot()["per_second"] == about(1 / (seconds + claim))


def test_an_outage_with_a_backlog_is_not_work() -> None:
    types = Types()
    types.works(100, 0.1, due=60)
    types.passes(300)
    types.works(1, 0.1, due=400)
    assert types.snapshot()["per_second"] == about(10)


@given(idle=st.floats(300, 3600), burst=st.integers(20, 200))
def test_a_burst_after_a_pause_is_judged_by_itself(idle: float, burst: int) -> None:
    types = Types()
    for _ in range(100):
        types.works(1, 1.0)
        types.snapshot()
    types.passes(idle)
    types.meter.snapshot()
    types.works(burst, 0.01)
    assert types.snapshot()["per_second"] == about(100)
    assert types.snapshot()["run"] == about(0.01)


def test_what_changes_is_seen_within_its_memory() -> None:
    types = Types()
    for seconds in (0.1, 1.0):
        for _ in range(int(4 * throughput.MEMORY)):
            types.works(int(1 / seconds), seconds)
            types.snapshot()
        told = types.snapshot()
        assert (told["per_second"], told["run"]) == pytest.approx((1 / seconds, seconds), rel=0.2)


def test_jobs_that_take_minutes_are_not_judged_by_the_last_one_alone() -> None:
    types = Types()
    for seconds in (300, 300, 300, 300, 30):
        job = types.come()
        for _ in range(10):
            types.passes(seconds / 10)
            types.meter.snapshot()
        types.meter.ended(job, seconds)
    assert 1 / 300 < types.snapshot()["per_second"] < 1 / 150


def test_it_falls_when_nothing_ends_any_more() -> None:
    types = Types()
    types.works(1000, 0.01)
    fast = types.snapshot()["per_second"]
    types.come()
    types.passes(throughput.MEMORY)
    assert types.snapshot()["per_second"] == fast
    types.passes(600)
    assert 0 < types.snapshot()["per_second"] < 1 / 500


# What counts


def test_released_and_lost_jobs_have_not_ended() -> None:
    types = Types()
    job = types.come()
    types.passes(1)
    types.meter.released(job)
    assert types.meter.snapshot() == {}
    types.works(9, 1.0)
    assert types.snapshot() == {"per_second": 0.9, "run": 1.0, "wait": 0.0}


def test_a_type_without_an_ended_job_is_not_in_the_snapshot() -> None:
    types = Types()
    types.come("first")
    types.passes(1000)
    assert types.meter.snapshot() == {}


def test_the_wait_of_one_that_waited_here_goes_on_until_it_is_started() -> None:
    types = Types()
    job = types.come(due=10, starts=False)
    types.passes(2)
    other = types.come("other")
    types.passes(3)
    types.passes(0.5)
    types.meter.ended(job, 0.5)
    types.meter.released(other)
    assert types.snapshot()["wait"] == 15.0


def test_the_wait_is_right_where_the_clocks_are_changed() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    for month, day in ((3, 29), (10, 25)):
        just_before = datetime(2026, month, day, 0, 59, 50, tzinfo=timezone.utc)
        due = just_before.astimezone(berlin)
        started = (just_before + timedelta(seconds=20)).astimezone(berlin)
        assert due.utcoffset() != started.utcoffset()
        types = Types()
        job = job_of("work", due, claimed_at=started, started_at=started)
        types.meter.claimed([job])
        types.passes(1)
        types.meter.ended(job, 1)
        assert types.snapshot()["wait"] == 20.0


# What is forgotten


def test_types_that_were_not_run_lately_are_dropped_and_start_anew() -> None:
    types = Types()
    types.works(10, 1.0)
    types.passes(throughput.FORGOTTEN_AFTER - 1)
    assert types.snapshot()["per_second"] == 1.0
    types.passes(2)
    assert types.meter.snapshot() == {}
    types.works(1, 0.01)
    assert types.snapshot() == {"per_second": 100.0, "run": 0.01, "wait": 0.0}


def test_a_type_is_not_dropped_while_one_of_its_jobs_runs() -> None:
    types = Types()
    types.works(1, 1000.0)
    types.come()
    types.passes(2 * throughput.FORGOTTEN_AFTER)
    assert types.snapshot()["run"] == 1000.0


def test_a_snapshot_has_only_the_most_recent_types() -> None:
    types = Types()
    names = [f"type {number}" for number in range(throughput.MOST_TYPES + 50)]
    for name in names:
        job = types.come(name)
        types.passes(0.1)
        types.meter.ended(job, 0.1)
    assert set(types.meter.snapshot()) == set(names[50:])


# From another thread


def test_it_may_be_asked_while_jobs_end() -> None:
    meter, stop = ThroughputMeter(), threading.Event()
    asked: list[throughput.Throughput] = []

    def ask() -> None:
        while not stop.is_set():
            asked.append(meter.snapshot())

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for number in range(3_000):
            job = job_of(f"type {number % 300}", NOON, claimed_at=NOON, started_at=NOON)
            meter.claimed([job])
            meter.ended(job, 0.001)
    finally:
        stop.set()
        thread.join()
    for told in asked:
        check(told)
    assert len(meter.snapshot()) == throughput.MOST_TYPES
