"""Cases in which clocks are wrong, or change."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import psycopg

from tests.clock import TestClock
from tests.faults.case import case
from tests.faults.handlers_clocks import SPAN
from tests.faults.stage import Stage
from tests.properties.test_schedules import MINUTE, Watched
from tests.worker.processes import RECOVERY, WorkerProcess, until

REAL_MONOTONIC = {"DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
"""Only the wall clock is wrong, as on a machine without NTP."""

SPANS = ("snoozes", "tries_again", "puts_off")
MOMENTS = ("created_at", "run_at", "claimed_at", "started_at", "completed_at")


@case(35, "clock-skew", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_clocks")
def clock_skew(stage: Stage) -> None:
    """The clocks of two workers are an hour ahead and an hour behind: all times come from the database's clock."""
    stage.needs(shutil.which("faketime"), "faketime is not installed here (Debian: apt-get install faketime)")
    began = stage.now()
    skewed = [started_in_another_hour(stage, shift) for shift in ("+1h", "-1h")]
    for worker in (*skewed, *stage.start(stage.scaled(2, 0), concurrency=10)):
        worker.await_ready()
    stage.fault(len(skewed))
    with stage.producing():
        for number in range(stage.scaled(200, 24)):
            stage.enqueue(SPANS[number % len(SPANS)], priority=150)

        def have_all_worked() -> bool:
            # One worker may have claimed all jobs before the first claim of the other.
            for job_type in SPANS:
                stage.enqueue(job_type, priority=150)
            return all(has_worked(stage, worker) for worker in skewed)

        until(have_all_worked, "both have run some of them")
    stage.fleet.await_drained()
    check_moments(stage, began)
    assert {(job["crashes"], job["interruptions"]) for job in stage.fleet.jobs()} == {(0, 0)}, (
        "a live worker was declared dead"
    )
    failed = {job["job_type"] for job in stage.fleet.jobs("status <> 'completed'")}
    assert failed <= {"doomed"}


def started_in_another_hour(stage: Stage, shift: str) -> WorkerProcess:
    """Not under the command itself, because the worker's process would be a child of its."""
    shown = subprocess.run(["faketime", "-f", shift, "env"], stdout=subprocess.PIPE, text=True, check=True).stdout
    settings = dict(line.split("=", 1) for line in shown.splitlines() if line.startswith(("LD_PRELOAD=", "FAKETIME=")))
    return stage.fleet.start(stage.new_name(), environment=settings | REAL_MONOTONIC, concurrency=10)


def has_worked(stage: Stage, worker: WorkerProcess) -> bool:
    mine = stage.fleet.ledger.entries("END", where=lambda entry: entry.worker == worker.name)
    return set(SPANS) <= {entry.job_type for entry in mine}


def check_moments(stage: Stage, began: datetime) -> None:
    """All times are of this case, and every requested delay has passed."""
    ended = stage.now()
    jobs = {job["id"]: job for job in stage.fleet.jobs()}
    for job in jobs.values():
        for column in MOMENTS:
            moment = job[column]
            assert moment is None or began <= moment <= ended, (
                f"{job['job_type']}: {column} is {moment}, now is {ended}"
            )
    for job in jobs.values():
        if job["job_type"] in ("snoozes", "tries_again"):
            again = job["claimed_at"] - job["created_at"]
            assert again >= timedelta(seconds=SPAN), f"{job['job_type']} was back after {again}"
        if job["job_type"] == "probe":
            assert job["run_at"] - job["created_at"] == timedelta(seconds=SPAN)


@case(41, "clock-back", checks="I1 I2 I3 I4 I5 I6 I7")
def clock_back(stage: Stage) -> None:
    """The server's clock goes back by an hour; then a worker joins, and another dies: no live worker's job is taken."""
    live, dying = stage.start(2, concurrency=6)
    for worker in (live, dying):
        worker.await_judge()
    long = [stage.enqueue("work", {"seconds": 3 * RECOVERY}) for _ in range(12)]
    until(lambda: stage.fleet.ledger.count("START") == len(long), "the long jobs run")
    # Now, so that it may get some of the jobs of the worker that is killed.
    kept = {entry.id for entry in stage.fleet.ledger.entries("START", where=lambda entry: entry.worker == live.name)}
    stage.enqueue_many("work", stage.scaled(200, 40), {"seconds": 0.01})
    set_back(stage, timedelta(hours=1))
    stage.fault()
    stage.start(1, concurrency=6)
    stage.kill(dying)
    stage.fleet.await_drained()
    repeated = [job for job in stage.fleet.jobs() if job["id"] in kept and (job["crashes"], job["attempts"]) != (0, 1)]
    assert kept, "the live worker ran some of them"
    assert not repeated, f"a live worker's jobs were taken: {repeated}"


def set_back(stage: Stage, span: timedelta) -> None:
    """The time for Howdah: every decision uses this function."""
    with psycopg.connect(stage.dsn, autocommit=True) as conn:
        conn.execute(
            f"CREATE OR REPLACE FUNCTION howdah.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE"
            f" RETURN now() - interval '{span.total_seconds()} seconds'".encode()
        )


RHYTHMS: tuple[tuple[str, Callable[[datetime], bool], bool], ...] = (
    ("30 2 * * *", lambda wall: (wall.hour, wall.minute) == (2, 30), True),
    ("15,45 1-2 * * *", lambda wall: wall.hour in (1, 2) and wall.minute in (15, 45), True),
    ("*/20 * * * *", lambda wall: wall.minute % 20 == 0, False),
)
"""Cron expressions, what they mean, and whether they are of fixed times, which are made up for and never come twice."""

CHANGES = (
    ("America/New_York", datetime(2026, 3, 8, 7, tzinfo=timezone.utc)),
    ("Europe/Berlin", datetime(2026, 3, 29, 1, tzinfo=timezone.utc)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=timezone.utc)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=timezone.utc)),
    ("Europe/Berlin", datetime(2026, 10, 25, 1, tzinfo=timezone.utc)),
    ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=timezone.utc)),
)
"""When clocks are put forward and back there."""

AROUND = timedelta(minutes=100)
A_YEAR = 366 * 86_400


@case(36, "cron-dst", checks="I1 I2 I3 I5 I7", handlers="handlers_clocks")
def cron_dst(stage: Stage) -> None:
    """Two workers fire schedules across changes of clocks, and one is killed as it fires: a job for each instant, and one only."""
    with TestClock(stage.dsn) as clock:
        clock.now = CHANGES[0][1] - timedelta(days=1)
        clock.advance(0)
        pair = [start_scheduler(stage, "one"), start_scheduler(stage, "other")]
        for worker in pair:
            worker.await_ready()
        for zone, change in stage.scaled(CHANGES, (CHANGES[1], CHANGES[4])):
            pair = across_a_change(stage, clock, zone, change, pair)
        stage.fleet.await_drained()


def start_scheduler(stage: Stage, name: str) -> WorkerProcess:
    # The clock jumps by months: no worker is declared dead for that.
    return stage.fleet.start(name, lease=A_YEAR, poll=0.05)


def across_a_change(
    stage: Stage, clock: TestClock, zone: str, change: datetime, pair: list[WorkerProcess]
) -> list[WorkerProcess]:
    """Moves the clock over the change, kills one of the pair as it fires, and counts what was fired. Returns the new pair."""
    start = clock.now = change - AROUND
    clock.advance(0)
    rhythms = {f"{cron} {zone} {change}": Watched(cron, matches, fixed, zone) for cron, matches, fixed in RHYTHMS}
    for name, watched in rhythms.items():
        stage.queue.schedules.set(name, "tick", cron=watched.expression, timezone=zone, missed="all")
    dies_at, alive = stage.chance.uniform(-30, 30) * MINUTE + change, pair
    while clock.now < change + AROUND:
        if pair is alive and clock.now >= dies_at:
            alive = killed_as_it_fires(stage, clock, pair)
        clock.advance(60 * stage.chance.choice((5, 10, 20, 35)))
        until(lambda: nothing_is_due(stage), "what is due has fired")
    fired = Counter(
        (row["schedule"], row["instant"].astimezone(timezone.utc))
        for row in stage.execute(
            "SELECT meta ->> 'schedule' AS schedule, (meta ->> 'scheduled_for')::timestamptz AS instant, run_at"
            " FROM howdah.job_details WHERE meta ->> 'schedule' = ANY (%s)",
            list(rhythms),
        )
    )
    expected = Counter(
        (name, instant) for name, watched in rhythms.items() for instant in watched.instants(start, clock.now, MINUTE)
    )
    assert fired == expected, f"too many: {fired - expected}; missing: {expected - fired}"
    stage.acknowledged += [row["id"] for row in stage.execute("SELECT id FROM howdah.job_details")]
    for name in rhythms:
        stage.queue.schedules.delete(name)
    return alive


def nothing_is_due(stage: Stage) -> bool:
    return not stage.execute("SELECT FROM howdah.schedules WHERE next_run_at <= howdah.clock()")


def killed_as_it_fires(stage: Stage, clock: TestClock, pair: list[WorkerProcess]) -> list[WorkerProcess]:
    """Both are about to fire, and one is killed before it gets the reply."""
    victim, other = stage.chance.sample(pair, 2)
    with psycopg.connect(stage.dsn) as holder:
        holder.execute("SELECT FROM howdah.schedules FOR UPDATE")
        # Every twenty minutes by the wall clock can be half an hour apart: Lord Howe's clocks change by thirty minutes.
        clock.advance(60 * 35)
        until(lambda: is_held_up(stage, victim) and is_held_up(stage, other), "both are about to fire")
        stage.kill(victim)
    # Under its name, what it held is back at once, and needs no lease to pass.
    return [start_scheduler(stage, victim.name), other]


def is_held_up(stage: Stage, worker: WorkerProcess) -> bool:
    waiting = "SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
    return bool(stage.execute(waiting, worker.name))
