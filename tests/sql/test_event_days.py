"""The days of the events: made and dropped together with those of the archive, and in nobody's way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from howdah import JobQueue
from tests.clock import TestClock
from tests.sql.holding import Held, hold, tell
from tests.sql.streaming import read

SCHEMA = "event_days_test"
DAY = 24 * 3600
Db = psycopg.Connection[dict[str, Any]]


@pytest.fixture
def db(server_dsn: str) -> Iterator[Db]:
    """A schema of its own, because these tests drop and make its partitions."""
    with psycopg.connect(server_dsn, autocommit=True, row_factory=dict_row) as conn:
        conn.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        with JobQueue(server_dsn, SCHEMA) as queue:
            queue.migrate()
        conn.execute("SELECT set_config('search_path', %s, false)", (SCHEMA,))
        yield conn


@pytest.fixture
def clock(server_dsn: str, db: Db) -> Iterator[TestClock]:
    with TestClock(server_dsn, SCHEMA) as clock:
        yield clock


@pytest.fixture
def reader(server_dsn: str, db: Db) -> Iterator[Db]:
    """A connection that reads the events, and stays in its transaction."""
    with psycopg.connect(server_dsn, row_factory=dict_row, application_name="forgotten watcher") as conn:
        conn.execute("SELECT set_config('search_path', %s, false)", (SCHEMA,))
        conn.commit()
        yield conn


def days(db: Db, table: str) -> list[date]:
    rows = db.execute(
        "SELECT right(relname, 8) AS day FROM pg_class JOIN pg_inherits ON inhrelid = oid"
        " WHERE inhparent = %s::regclass AND relname !~ 'default' ORDER BY 1",
        (table,),
    )
    return [datetime.strptime(row["day"], "%Y%m%d").date() for row in rows]  # noqa: DTZ007


def today(clock: TestClock) -> date:
    return clock.now.astimezone(timezone.utc).date()


def tell_one(db: Db) -> Held:
    """An event, and the completion of its job."""
    (job,) = hold(db)
    tell(db, job)
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", job)
    return job


def homes(db: Db, job: Held) -> list[str]:
    rows = db.execute("SELECT tableoid::regclass::text AS home FROM events WHERE job_id = %s ORDER BY seq", (job.id,))
    return [row["home"] for row in rows]


def prune(db: Db, keep: timedelta | None = None) -> list[dict[str, Any]]:
    return db.execute("SELECT * FROM prune(%s)", (keep,)).fetchall()


def test_a_week_is_made_ahead_of_events_too(db: Db, clock: TestClock) -> None:
    assert days(db, "events") == days(db, "archive") == [today(clock) + timedelta(days=n) for n in range(8)]


def test_an_event_is_at_home_in_the_day_of_utc_on_which_it_happened(db: Db, clock: TestClock) -> None:
    tomorrow = datetime.combine(today(clock) + timedelta(days=1), datetime.min.time(), timezone.utc)
    clock.advance((tomorrow - clock.now).total_seconds())
    db.execute("SET timezone = 'Pacific/Kiritimati'")
    (job,) = hold(db)
    db.execute(
        "SELECT record_events(array_fill(%s, ARRAY[2]), array_fill(%s::bigint, ARRAY[2]), ARRAY['a', 'b'],"
        " p_ages => ARRAY['0', interval '1 ms'])",
        job,
    )
    assert homes(db, job) == [f"events_{day:%Y%m%d}" for day in (tomorrow, tomorrow - timedelta(days=1))]


def test_what_finds_no_day_is_kept_and_is_put_in_its_place_later_which_is_no_news(db: Db, clock: TestClock) -> None:
    clock.advance(30 * DAY)
    job = tell_one(db)
    assert homes(db, job) == ["events_default"] * 2
    before = db.execute("SELECT * FROM events ORDER BY n").fetchall()
    both, position = read(db)
    happened_on = today(clock)
    clock.advance(DAY)
    assert all(row["created"] for row in db.execute("SELECT * FROM create_partitions()"))
    assert homes(db, job) == [f"events_{happened_on:%Y%m%d}"] * 2
    assert db.execute("SELECT * FROM events ORDER BY n").fetchall() == before
    assert db.execute("SELECT * FROM events_default").fetchall() == []
    assert read(db, position)[0] == []
    assert [event["seq"] for event in read(db, both[0]["position"])[0]] == [2]
    assert happened_on in days(db, "events")
    assert happened_on in days(db, "archive")


def test_prune_drops_a_day_of_the_archive_and_of_the_events_together(db: Db, clock: TestClock) -> None:
    old = tell_one(db)
    clock.advance(15 * DAY)
    db.execute("SELECT create_partitions()")
    recent = tell_one(db)
    pruned = prune(db)
    assert len(pruned) == len({row["day"] for row in pruned})
    assert all(row["dropped"] for row in pruned)
    assert days(db, "events") == days(db, "archive")
    assert (homes(db, old), len(homes(db, recent))) == ([], 2)
    assert [row["id"] for row in db.execute("SELECT id FROM jobs")] == [recent.id]


def test_prune_of_what_found_no_day(db: Db, clock: TestClock) -> None:
    clock.advance(30 * DAY)
    job = tell_one(db)
    clock.advance(13 * DAY)
    prune(db)
    assert len(homes(db, job)) == 2
    clock.advance(2 * DAY)
    prune(db)
    assert homes(db, job) == []


def test_a_day_whose_events_somebody_reads_is_left_whole(db: Db, clock: TestClock, reader: Db) -> None:
    job = tell_one(db)
    clock.advance(100 * DAY)
    reader.execute(f"SELECT * FROM events_{today(clock) - timedelta(days=100):%Y%m%d}".encode())
    kept = [row for row in prune(db) if not row["dropped"]]
    assert [row["day"] for row in kept] == [today(clock) - timedelta(days=100)]
    assert "forgotten watcher" in kept[0]["reason"]
    assert len(homes(db, job)) == 2
    assert db.execute("SELECT id FROM jobs").fetchall() == [{"id": job.id}]
    reader.rollback()
    assert [row["dropped"] for row in prune(db)] == [True]
    assert (homes(db, job), db.execute("SELECT id FROM jobs").fetchall()) == ([], [])


def test_completions_go_on_undisturbed_while_prune_waits_for_who_reads_events(
    db: Db, clock: TestClock, reader: Db, server_dsn: str
) -> None:
    """A completion that had to queue behind the DROP would meet this lock_timeout, far below prune's 100 ms."""
    clock.advance(100 * DAY)
    db.execute("SELECT create_partitions()")
    reader.execute("SELECT * FROM events")
    pruning_over = threading.Event()

    def prune_again_and_again() -> list[bool]:
        try:
            with psycopg.connect(server_dsn, autocommit=True, row_factory=dict_row) as conn:
                conn.execute("SELECT set_config('search_path', %s, false)", (SCHEMA,))
                return [row["dropped"] for _ in range(3) for row in prune(conn)]
        finally:
            pruning_over.set()

    completed = 0
    db.execute("SET lock_timeout = '40ms'")
    with ThreadPoolExecutor(1) as pool:
        pruning = pool.submit(prune_again_and_again)
        while not pruning_over.is_set() or completed < 20:
            tell_one(db)
            completed += 1
        assert not any(pruning.result())


def test_who_reads_events_is_not_in_the_way_of_the_archive_and_the_other_way_round(
    db: Db, clock: TestClock, reader: Db
) -> None:
    reader.execute("SELECT * FROM events")
    clock.advance(2 * DAY)
    made = db.execute("SELECT * FROM create_partitions()").fetchall()
    assert [row["created"] for row in made].count(False) == 1
    week = [today(clock) + timedelta(days=n) for n in range(-2, 8)]
    assert (days(db, "archive"), days(db, "events")) == (week, week[:-2])
    reader.rollback()
    reader.execute("SELECT * FROM archive")
    clock.advance(DAY)
    db.execute("SELECT create_partitions()")
    assert (days(db, "archive"), days(db, "events")) == (week, [*week, week[-1] + timedelta(days=1)])
    reader.rollback()
    assert all(row["created"] for row in db.execute("SELECT * FROM create_partitions()"))
    assert days(db, "archive") == days(db, "events")
