"""What a bench is made of: the plan of a mixed day, the size of rounds, the tally, threads, the loop."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import threading
import types
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah.bench import catalogue, mixed
from howdah.bench.handlers import BACKFILL, FILE, JOB_TYPES, URGENT, USUAL
from howdah.bench.run import jobs_of_a_round
from howdah.bench.scenario import Options, Round
from howdah.bench.tally import Sample, Tally, shared_file
from howdah.bench.threads import together
from howdah.worker import event_loop

SIZED = next(each for each in catalogue.SCENARIOS if each.usual is None)
FIXED = next(each for each in catalogue.SCENARIOS if each.usual is not None)


# What is chosen


def test_the_words_of_the_command_line_choose_in_the_order_of_the_catalogue() -> None:
    assert catalogue.chosen([]) == list(catalogue.SCENARIOS)
    assert [each.what for each in catalogue.chosen(["pickup", "enqueue", "pickup"])] == ["enqueue"] * 3 + ["pickup"]
    assert len({each.name for each in catalogue.SCENARIOS}) == len(catalogue.SCENARIOS)


@given(st.integers(min_value=1, max_value=10**9), st.floats(min_value=1e-3, max_value=1e3))
def test_a_round_has_as_many_jobs_as_take_some_seconds_here(jobs: int, seconds: float) -> None:
    warm_up = Round(jobs, seconds, {})
    chosen = jobs_of_a_round(SIZED, Options(), warm_up)
    assert SIZED.few <= chosen <= SIZED.most
    if SIZED.few < chosen < SIZED.most:
        assert chosen == pytest.approx(SIZED.seconds * jobs / seconds, abs=1)
    assert jobs_of_a_round(FIXED, Options(), warm_up) == FIXED.usual


def test_a_round_has_as_many_jobs_as_were_asked_for_within_reason() -> None:
    warm_up = Round(1, 1.0, {})
    assert jobs_of_a_round(SIZED, Options(jobs=7), warm_up) == 7
    assert jobs_of_a_round(FIXED, Options(jobs=10**9), warm_up) == FIXED.most
    assert jobs_of_a_round(mixed.MIXED, Options(jobs=1), warm_up) == mixed.MIXED.least


def test_the_payload_is_added_to_the_data() -> None:
    assert list(Options().numbered(2)) == [{"n": 0}, {"n": 1}]
    assert list(Options(payload=3).numbered(1)) == [{"n": 0, "filler": "xxx"}]


# An ordinary day


@given(st.integers(min_value=1, max_value=3_000))
def test_the_plan_of_a_day_has_every_job_once_and_in_its_time(jobs: int) -> None:
    calls = list(mixed.plan(jobs))
    assert sum(call.jobs for call in calls) == jobs
    assert [call.number for call in calls] == sorted(call.number for call in calls)
    assert all(call.number < jobs for call in calls)
    assert {call.job_type for call in calls} <= set(JOB_TYPES)
    assert all(call.jobs == 1 or call.job_type == BACKFILL for call in calls)


def test_a_day_has_all_priorities_bulk_and_failures() -> None:
    calls = list(mixed.plan(1_000))
    shares = Counter[str]()
    for call in calls:
        shares[call.job_type] += call.jobs
    assert shares == {URGENT: 100, USUAL: 600, FILE: 100, BACKFILL: 200}
    failures = Counter(mixed.fails(call) for call in calls)
    assert (failures[1], failures[3]) == (40, 10)
    assert {call.job_type for call in calls if mixed.fails(call)} == {USUAL}
    # Every figure has its samples, in the smallest round, too.
    assert {call.job_type for call in mixed.plan(mixed.MIXED.least)} == {URGENT, USUAL, FILE, BACKFILL}


# The tally


@pytest.fixture
def tallies() -> Iterator[tuple[Tally, Tally]]:
    """The same one, as a worker has it and as the bench does."""
    file = shared_file()
    ours, theirs = Tally(file), Tally(file)
    os.close(file)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_what_a_worker_counts_is_seen_outside(tallies: tuple[Tally, Tally]) -> None:
    worker, bench = tallies
    assert (bench.handled, bench.first, bench.samples()) == (0, None, [])
    worker.begin()
    first = bench.first
    worker.begin()
    worker.count()
    worker.count(500)
    worker.sample(150, 0.0)
    assert (bench.handled, bench.first, bench.sampled) == (501, first, 1)
    (sample,) = bench.samples()
    assert sample == Sample(150, sample.waited)
    assert sample.waited > 0
    bench.forget()
    assert (worker.handled, worker.first, worker.samples()) == (0, None, [])


def test_threads_miss_no_count(tallies: tuple[Tally, Tally]) -> None:
    worker, bench = tallies
    with ThreadPoolExecutor(8) as pool:
        for _ in range(4_000):
            pool.submit(worker.count_in_thread)
            pool.submit(worker.sample, 100, 0.0)
    assert (bench.handled, len(bench.samples())) == (4_000, 4_000)


# Threads, and the loop


def test_threads_work_together() -> None:
    meeting = threading.Barrier(4)
    assert together(4, lambda _: (meeting.wait(60), None)[1]) > 0


def test_when_one_thread_fails_the_others_stop_and_the_error_is_told() -> None:
    turns = iter(range(2))

    def produce(stopped: threading.Event) -> None:
        if next(turns) == 0:
            raise ConnectionError("gone")
        assert stopped.wait(60)

    with pytest.raises(ConnectionError, match="gone"):
        together(2, produce)


def test_uvloop_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.loop_factory() is None
    assert event_loop.loop_name() == "asyncio"
    fake = types.ModuleType("uvloop")
    monkeypatch.setattr(fake, "new_event_loop", asyncio.new_event_loop, raising=False)
    monkeypatch.setitem(sys.modules, "uvloop", fake)
    monkeypatch.setattr(metadata, "version", lambda name: f"of {name}")
    assert event_loop.loop_factory() is asyncio.new_event_loop
    assert event_loop.loop_name() == "uvloop of uvloop"


def test_options_are_plain_data() -> None:
    assert set(dataclasses.asdict(Options())) == {"jobs", "rounds", "processes", "concurrency", "payload", "rate"}
