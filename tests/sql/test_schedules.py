"""Schedules in SQL: one row each, and a fence that lets each fire happen once."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from howdah import JobQueue
from howdah.verbs.schedules import FireReport, fire_due
from tests.clock import TestClock
from tests.conftest import Connect, Db

FIRST = datetime(2026, 3, 29, 1, 0, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


def look(queue: JobQueue) -> FireReport:
    """Fire what is due, as a worker does."""
    return queue._database.run(fire_due(queue._context))


def create(db: Db, name: str = "nightly", **arguments: Any) -> dict[str, Any]:
    given = {"job_type": "report", "every": HOUR, "next_run_at": FIRST, **arguments}
    named = ", ".join(f"p_{argument} => %({argument})s" for argument in given)
    row = db.execute(
        f"SELECT * FROM schedule(p_name => %(name)s, {named})".encode(), {"name": name, **given}
    ).fetchone()
    assert row is not None
    return row


def stored(db: Db, name: str = "nightly") -> dict[str, Any]:
    row = db.execute("SELECT * FROM schedules WHERE name = %s", (name,)).fetchone()
    assert row is not None
    return row


def fire(
    db: Db, expected: datetime, instants: list[datetime], following: datetime | None, name: str = "nightly"
) -> list[dict[str, Any]]:
    return db.execute(
        "SELECT * FROM fire_schedule(%s, %s, %s::timestamptz[], %s)", (name, expected, instants, following)
    ).fetchall()


def jobs(db: Db) -> list[dict[str, Any]]:
    return db.execute("SELECT * FROM live ORDER BY id").fetchall()


# A fire


def test_a_fire_adds_a_job_for_each_instant_and_moves_on(db: Db) -> None:
    create(
        db,
        data='{"kind": "daily"}',
        priority=7,
        max_attempts=9,
        timeout=timedelta(minutes=5),
        retry_policy='{"kind": "fixed", "delay": 60}',
    )
    instants = [FIRST, FIRST + HOUR]
    answers = fire(db, FIRST, instants, FIRST + 2 * HOUR)
    assert [(each["instant"], each["created"]) for each in answers] == [(instants[0], True), (instants[1], True)]
    added = jobs(db)
    assert [job["id"] for job in added] == [each["job_id"] for each in answers]
    for job, instant in zip(added, instants, strict=True):
        assert (job["job_type"], job["data"], job["run_at"]) == ("report", {"kind": "daily"}, instant)
        assert (job["priority"], job["max_attempts"], job["timeout"]) == (7, 9, timedelta(minutes=5))
        assert job["retry_policy"] == {"kind": "fixed", "delay": 60}
        assert (job["key"], job["meta"]["schedule"]) == (None, "nightly")
        # Whatever the session's time zone, it is written in UTC.
        assert job["meta"]["scheduled_for"] == instant.isoformat()
    row = stored(db)
    assert (row["next_run_at"], row["last_run_at"]) == (FIRST + 2 * HOUR, FIRST + HOUR)
    assert row["last_job_id"] == added[-1]["id"]


def test_options_that_the_schedule_lacks_come_from_the_type(db: Db) -> None:
    db.execute("SELECT declare_type('report', p_priority => 42, p_max_attempts => 5)")
    create(db)
    fire(db, FIRST, [FIRST], FIRST + HOUR)
    assert [(job["priority"], job["max_attempts"]) for job in jobs(db)] == [(42, 5)]


def test_a_fire_that_saw_another_moment_does_nothing(db: Db) -> None:
    create(db)
    assert fire(db, FIRST - HOUR, [FIRST - HOUR], FIRST) == []
    assert fire(db, FIRST, [FIRST], FIRST + HOUR, name="unknown") == []
    db.execute("SELECT pause_schedule('nightly')")
    assert fire(db, FIRST, [FIRST], FIRST + HOUR) == []
    assert jobs(db) == []
    assert stored(db)["next_run_at"] == FIRST


def test_a_fire_may_skip_everything(db: Db) -> None:
    create(db)
    assert fire(db, FIRST, [], FIRST + HOUR) == []
    row = stored(db)
    assert (row["next_run_at"], row["last_run_at"], row["last_job_id"]) == (FIRST + HOUR, None, None)


def test_a_schedule_without_a_next_instant_sleeps(db: Db, queue: JobQueue) -> None:
    create(db)
    fire(db, FIRST, [FIRST], None)
    assert stored(db)["next_run_at"] is None
    assert look(queue) == FireReport(fired=0, skipped=0, next_in=None)
    assert len(jobs(db)) == 1


def test_jobs_of_a_schedule_without_overlap_wait_for_the_earlier_one_to_end(db: Db, queue: JobQueue) -> None:
    create(db, overlap=False)
    first, second = fire(db, FIRST, [FIRST, FIRST + HOUR], FIRST + 2 * HOUR)
    assert (first["created"], second["created"]) == (True, False)
    assert first["job_id"] == second["job_id"]
    (job,) = queue.claim(["report"])
    assert [each["created"] for each in fire(db, FIRST + 2 * HOUR, [FIRST + 2 * HOUR], FIRST + 3 * HOUR)] == [False]
    # Skipped instants did not run.
    assert stored(db)["last_run_at"] == FIRST
    queue.complete(job)
    assert [each["created"] for each in fire(db, FIRST + 3 * HOUR, [FIRST + 3 * HOUR], FIRST + 4 * HOUR)] == [True]
    assert stored(db)["last_run_at"] == FIRST + 3 * HOUR


# Once


def test_a_second_caller_waits_and_finds_that_it_was_done(db: Db, connect: Connect) -> None:
    create(db)
    one, two = connect(autocommit=False), connect()
    assert len(fire(one, FIRST, [FIRST], FIRST + HOUR)) == 1
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(fire, two, FIRST, [FIRST], FIRST + HOUR)
        wait_until_blocked(db, two)
        one.commit()
        assert second.result() == []
    assert len(jobs(db)) == 1


def test_a_second_caller_does_it_if_the_first_one_dies(db: Db, connect: Connect) -> None:
    create(db)
    one, two = connect(autocommit=False), connect()
    assert len(fire(one, FIRST, [FIRST], FIRST + HOUR)) == 1
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(fire, two, FIRST, [FIRST], FIRST + HOUR)
        wait_until_blocked(db, two)
        db.execute("SELECT pg_terminate_backend(%s)", (one.info.backend_pid,))
        assert len(second.result()) == 1
    assert len(jobs(db)) == 1
    assert stored(db)["next_run_at"] == FIRST + HOUR


def wait_until_blocked(db: Db, conn: Db) -> None:
    while not db.execute("SELECT FROM pg_locks WHERE pid = %s AND NOT granted", (conn.info.backend_pid,)).rowcount:
        pass


def test_each_instant_fires_once_however_many_fire_it_at_the_same_time(db: Db, connect: Connect) -> None:
    create(db)
    rounds, crowd = 50, 4
    barrier = threading.Barrier(crowd)

    def race(conn: Db) -> int:
        won = 0
        for number in range(rounds):
            barrier.wait()
            at = FIRST + number * HOUR
            won += len(fire(conn, at, [at], at + HOUR))
        return won

    with ThreadPoolExecutor(crowd) as pool:
        won = sum(pool.map(race, [connect() for _ in range(crowd)]))
    assert won == rounds
    assert Counter(job["run_at"] for job in jobs(db)) == {FIRST + number * HOUR: 1 for number in range(rounds)}


def test_workers_that_look_again_and_again_fire_each_second_once(
    dsn: str, db: Db, queue: JobQueue, clock: TestClock
) -> None:
    queue.schedules.set("tick", "beat", cron="* * * * * *", missed="all")
    queue.schedules.set("span", "beat", every=1, missed="all")
    begin, over = clock.now, threading.Event()

    def worker() -> int:
        fired = 0
        with JobQueue(dsn) as mine:
            while True:
                last = over.is_set()
                fired += look(mine).fired
                if last:
                    return fired

    with ThreadPoolExecutor(3) as pool:
        workers = [pool.submit(worker) for _ in range(3)]
        for _ in range(60):
            clock.advance(1)
        over.set()
        assert sum(each.result() for each in workers) == 120
    seconds = Counter((job["meta"]["schedule"], job["run_at"]) for job in jobs(db))
    assert set(seconds.values()) == {1}
    assert {at for name, at in seconds if name == "span"} == {begin + timedelta(seconds=n + 1) for n in range(60)}
    assert len({at for name, at in seconds if name == "tick"}) == 60


# Create, change


def test_a_schedule_that_stays_as_it_is_is_not_even_written(db: Db) -> None:
    assert create(db)["created"] is True
    version = db.execute("SELECT xmin::text, ctid::text FROM schedules").fetchall()
    again = create(db, next_run_at=FIRST + HOUR)
    assert (again["created"], again["next_run_at"]) == (False, FIRST)
    assert db.execute("SELECT xmin::text, ctid::text FROM schedules").fetchall() == version


@pytest.mark.parametrize(
    "change", [{"every": 2 * HOUR}, {"every": None, "cron": "0 3 * * *"}, {"timezone": "Asia/Kathmandu"}]
)
def test_a_new_rhythm_sets_when_it_fires_next(db: Db, change: dict[str, Any]) -> None:
    create(db)
    fire(db, FIRST, [FIRST], FIRST + HOUR)
    changed = create(db, **change, next_run_at=FIRST + 5 * HOUR)
    assert (changed["created"], changed["next_run_at"], changed["last_run_at"]) == (False, FIRST + 5 * HOUR, FIRST)


def test_any_other_change_leaves_the_rhythm_alone(db: Db) -> None:
    create(db)
    fire(db, FIRST, [FIRST], FIRST + HOUR)
    db.execute("SELECT pause_schedule('nightly')")
    changed = create(
        db, job_type="other", data='{"a": 1}', missed="all", overlap=False, priority=3, next_run_at=FIRST + 5 * HOUR
    )
    assert (changed["next_run_at"], changed["last_run_at"]) == (FIRST + HOUR, FIRST)
    assert changed["paused_at"] is not None
    assert (changed["job_type"], changed["data"], changed["missed"], changed["overlap"]) == (
        "other",
        {"a": 1},
        "all",
        False,
    )
    # Options that are left out are reset: a schedule is declared as a whole.
    assert create(db)["priority"] is None


def test_twenty_at_once_make_one(dsn: str, db: Db, connect: Connect) -> None:
    barrier = threading.Barrier(20)

    def make(conn: Db) -> bool:
        barrier.wait()
        return bool(create(conn)["created"])

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(make, [connect() for _ in range(20)])) == 1


@pytest.mark.parametrize(
    ("arguments", "state"),
    [
        ({"name": ""}, "JQ001"),
        ({"name": "x" * 101}, "JQ001"),
        ({"name": "a\nb"}, "JQ001"),
        ({"every": None}, "JQ001"),
        ({"cron": "* * * * *"}, "JQ001"),
        ({"every": timedelta(milliseconds=999)}, "JQ001"),
        ({"every": timedelta(days=40_000)}, "JQ001"),
        ({"missed": "some"}, "JQ001"),
        ({"every": None, "cron": "0 " * 1_000}, "JQ001"),
        ({"timezone": "x" * 101}, "JQ001"),
        ({"next_run_at": "0044-03-15 BC"}, "JQ001"),
        ({"retry_policy": f'{{"kind": "none", "x": "{"x" * 10_000}"}}'}, "JQ003"),
        ({"max_attempts": 0}, "JQ001"),
        ({"timeout": timedelta(0)}, "JQ001"),
        ({"retry_policy": '{"kind": "never"}'}, "JQ001"),
        ({"job_type": ""}, "JQ002"),
        ({"job_type": "x" * 51}, "JQ002"),
    ],
    ids=str,
)
def test_what_no_schedule_can_be_is_refused(db: Db, arguments: dict[str, Any], state: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        create(db, **arguments)
    assert refused.value.sqlstate == state
    assert db.execute("SELECT * FROM schedules").fetchall() == []


def test_a_span_is_kept_in_seconds_whatever_it_was_written_in(db: Db) -> None:
    """A calendar day has 23 or 25 hours when clocks change; an interval of 24 hours does not."""
    db.execute("SELECT schedule('a', 'x', p_every => '1 day 2 hours')")
    assert db.execute("SELECT every::text FROM schedules").fetchall() == [{"every": "26:00:00"}]


# Without Python


def test_sql_alone_may_leave_the_first_fire_to_a_worker(db: Db, queue: JobQueue, clock: TestClock) -> None:
    db.execute("SELECT schedule('every second', 'x', p_cron => '* * * * * *', p_missed => 'all')")
    db.execute("SELECT schedule('on the hour', 'x', p_cron => '0 * * * *')")
    assert [each.next_run_at for each in queue.schedules.list()] == [None, None]
    clock.advance(3)
    # From its creation, not from the first check.
    report = look(queue)
    assert report.fired in (3, 4)
    assert report.next_in is not None
    assert 0 < report.next_in <= 1
    planned = queue.schedules.get("on the hour").next_run_at
    assert planned is not None
    assert (planned > clock.now, planned.minute, planned.second) == (True, 0, 0)


def test_a_span_needs_no_worker_to_be_planned(db: Db, clock: TestClock) -> None:
    db.execute("SELECT schedule('span', 'x', p_every => '90 seconds')")
    assert stored(db, "span")["next_run_at"] == clock.now + timedelta(seconds=90)


def test_sql_alone_may_resume(db: Db, queue: JobQueue, clock: TestClock) -> None:
    begin = clock.now
    create(db, "cron", cron="* * * * * *", every=None, missed="all", next_run_at=begin)
    create(db, "span", every=timedelta(seconds=60), missed="all", next_run_at=begin + timedelta(seconds=60))
    for seconds in (10, 100):
        db.execute("SELECT pause_schedule(name) FROM schedules")
        clock.advance(seconds)
        db.execute("SELECT resume_schedule(name) FROM schedules")
        # In phase, whether it was due meanwhile or not.
        beat = begin + timedelta(seconds=60 if seconds == 10 else 120)
        assert (stored(db, "span")["next_run_at"], stored(db, "span")["next_run_known"]) == (beat, True)
    clock.advance(2)
    assert look(queue).fired == 2


# Due schedules


def test_due_schedules_come_longest_due_first(db: Db, clock: TestClock) -> None:
    for number, name in enumerate(["c", "a", "b", "later", "paused", "asleep"]):
        create(db, name, next_run_at=clock.now - timedelta(seconds=10 - number))
    db.execute("SELECT pause_schedule('paused')")
    db.execute("UPDATE schedules SET next_run_at = %s WHERE name = 'later'", (clock.now + timedelta(seconds=7),))
    db.execute("UPDATE schedules SET next_run_at = NULL WHERE name = 'asleep'")
    rows = db.execute("SELECT * FROM due_schedules()").fetchall()
    assert [row["name"] for row in rows] == ["c", "a", "b"]
    assert {row["now"] for row in rows} == {clock.now}
    assert [row["name"] for row in db.execute("SELECT * FROM due_schedules(1, ARRAY['c'])")] == ["a"]


def test_how_long_it_is_until_the_next_one(db: Db, clock: TestClock) -> None:
    def next_fire(*leave_out: str) -> timedelta | None:
        row = db.execute("SELECT next_fire(%s::varchar[])", (list(leave_out),)).fetchone()
        assert row is not None
        wait: timedelta | None = row["next_fire"]
        return wait

    assert next_fire() is None
    create(db, "far", next_run_at=clock.now + HOUR)
    create(db, "near", next_run_at=clock.now + timedelta(seconds=5))
    create(db, "paused", next_run_at=clock.now)
    db.execute("SELECT pause_schedule('paused')")
    assert next_fire() == timedelta(seconds=5)
    assert next_fire("near") == HOUR
    assert next_fire("near", "far") is None
    clock.advance(7)
    assert next_fire() == timedelta(seconds=-2)


# The other verbs


def test_pause_and_resume_return_whether_they_changed_anything(db: Db, clock: TestClock) -> None:
    create(db)

    def answer(call: str) -> bool:
        row = db.execute(f"SELECT {call} AS answer".encode(), {"at": FIRST + HOUR}).fetchone()
        assert row is not None
        return bool(row["answer"])

    assert answer("pause_schedule('nightly')")
    assert not answer("pause_schedule('nightly')")
    assert stored(db)["paused_at"] == clock.now
    assert answer("resume_schedule('nightly', %(at)s)")
    assert (stored(db)["paused_at"], stored(db)["next_run_at"]) == (None, FIRST + HOUR)
    # One that is not paused keeps its rhythm.
    assert not answer("resume_schedule('nightly', now())")
    assert stored(db)["next_run_at"] == FIRST + HOUR
    assert answer("delete_schedule('nightly')")
    assert not answer("delete_schedule('nightly')")


@pytest.mark.parametrize("verb", ["pause_schedule", "resume_schedule", "run_schedule"])
def test_an_unknown_name_has_its_own_sqlstate(db: Db, verb: str) -> None:
    with pytest.raises(psycopg.Error, match="there is no schedule nowhere") as refused:
        db.execute(f"SELECT {verb}('nowhere')".encode())
    assert refused.value.sqlstate == "JQ007"


def test_a_run_by_hand_leaves_the_rhythm_alone(db: Db, clock: TestClock) -> None:
    create(db, data='{"a": 1}', priority=7, overlap=False)
    db.execute("SELECT pause_schedule('nightly')")
    (run,) = db.execute("SELECT * FROM run_schedule('nightly')").fetchall()
    (again,) = db.execute("SELECT * FROM run_schedule('nightly')").fetchall()
    assert (run["created"], again) == (True, {"job_id": run["job_id"], "created": False})
    (job,) = jobs(db)
    assert (job["id"], job["data"], job["priority"], job["run_at"]) == (run["job_id"], {"a": 1}, 7, clock.now)
    assert datetime.fromisoformat(job["meta"]["scheduled_for"]) == clock.now
    row = stored(db)
    assert (row["next_run_at"], row["last_run_at"], row["last_job_id"]) == (FIRST, clock.now, run["job_id"])


def test_a_producer_cannot_keep_a_schedule_from_its_jobs(db: Db, queue: JobQueue) -> None:
    create(db, overlap=False)
    for call in (
        "enqueue('report', p_key => 'schedule:nightly')",
        "enqueue_many('report', '{1}', '{schedule:nightly}')",
    ):
        with pytest.raises(psycopg.Error) as refused:
            db.execute(f"SELECT {call}".encode())
        assert refused.value.sqlstate == "JQ001"
    assert db.execute("SELECT created FROM run_schedule('nightly')").fetchone() == {"created": True}
    assert db.execute("SELECT created FROM run_schedule('nightly')").fetchone() == {"created": False}


def test_what_is_due_and_cannot_fire_is_not_looked_at_without_a_pause(db: Db, queue: JobQueue) -> None:
    create(db)
    db.execute("UPDATE schedules SET next_run_at = '0044-03-15 BC'")
    report = queue._database.run(fire_due(queue._context))
    assert (report.fired, report.next_in) == (0, 1.0)
