"""The archive: a partition for each day, made ahead and dropped whole, and never in the way of a completion."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from howdah import JobQueue
from tests.clock import TestClock

SCHEMA = "archive_test"
Db = psycopg.Connection[dict[str, Any]]
Reader = Callable[[], Db]


@pytest.fixture
def queue(server_dsn: str) -> Iterator[JobQueue]:
    """A schema of its own, because these tests drop and make its partitions."""
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
    with JobQueue(server_dsn, SCHEMA) as queue:
        queue.migrate()
        yield queue


@pytest.fixture
def db(server_dsn: str, queue: JobQueue) -> Iterator[Db]:
    with psycopg.connect(server_dsn, autocommit=True, row_factory=dict_row) as conn:
        conn.execute("SELECT set_config('search_path', %s, false)", (SCHEMA,))
        yield conn


@pytest.fixture
def reader(server_dsn: str, queue: JobQueue) -> Iterator[Reader]:
    """Opens a REPEATABLE READ transaction that reads the view and stays open."""
    with psycopg.connect(server_dsn, row_factory=dict_row, application_name="forgotten report") as conn:

        def read_and_stay() -> Db:
            conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            conn.execute(f"SELECT count(*) FROM {SCHEMA}.jobs".encode())
            return conn

        yield read_and_stay


@pytest.fixture
def clock(server_dsn: str, queue: JobQueue) -> Iterator[TestClock]:
    with TestClock(server_dsn, SCHEMA) as clock:
        yield clock


def days(db: Db) -> list[date]:
    rows = db.execute(
        "SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = oid"
        " WHERE inhparent = 'archive'::regclass AND relname <> 'archive_default' ORDER BY 1"
    )
    return [datetime.strptime(row["relname"][8:], "%Y%m%d").date() for row in rows]  # noqa: DTZ007


def today(clock: TestClock) -> date:
    return clock.now.astimezone(timezone.utc).date()


def finish_one(queue: JobQueue) -> Any:
    queue.enqueue("a")
    (job,) = queue.claim(["a"], 1)
    queue.complete(job)
    return job.id


def home_of(db: Db, job_id: Any) -> str:
    row = db.execute("SELECT tableoid::regclass::text AS home FROM archive WHERE id = %s", (job_id,)).fetchone()
    assert row is not None
    return str(row["home"])


def test_a_week_is_made_ahead(db: Db, clock: TestClock) -> None:
    assert days(db) == [today(clock) + timedelta(days=n) for n in range(8)]


def test_the_days_are_those_of_utc_whatever_the_session_thinks(queue: JobQueue, db: Db, clock: TestClock) -> None:
    db.execute("SET timezone = 'Pacific/Kiritimati'")
    assert home_of(db, finish_one(queue)) == f"archive_{today(clock):%Y%m%d}"


def test_after_midnight_with_no_worker_the_first_completion_finds_its_partition(
    queue: JobQueue, db: Db, clock: TestClock
) -> None:
    clock.advance(24 * 3600)
    assert home_of(db, finish_one(queue)) == f"archive_{today(clock):%Y%m%d}"


def test_after_a_month_alone_completions_still_work_and_are_put_in_place_later(
    queue: JobQueue, db: Db, clock: TestClock
) -> None:
    clock.advance(30 * 24 * 3600)
    job = finish_one(queue)
    assert home_of(db, job) == "archive_default"
    finished_on = today(clock)
    clock.advance(24 * 3600)
    queue.prune(keep=timedelta(days=365))
    assert home_of(db, job) == f"archive_{finished_on:%Y%m%d}"
    assert queue.get(job).status == "completed"
    assert queue.stats()["a"].completed == 1


def test_prune_drops_what_is_older_than_the_retention_and_counts_it_no_more(
    queue: JobQueue, db: Db, clock: TestClock
) -> None:
    old = finish_one(queue)
    clock.advance(13 * 24 * 3600)
    assert queue.prune() == []
    clock.advance(2 * 24 * 3600)
    recent = finish_one(queue)
    pruned = queue.prune()
    assert all(day.dropped for day in pruned)
    assert today(clock) - timedelta(days=15) in [day.day for day in pruned]
    assert queue.get(recent).status == "completed"
    assert [row["id"] for row in db.execute("SELECT id FROM jobs")] == [recent]
    assert old != recent
    assert queue.stats()["a"].completed == 1


def test_prune_of_the_default_partition(queue: JobQueue, clock: TestClock) -> None:
    clock.advance(30 * 24 * 3600)
    finish_one(queue)
    clock.advance(100 * 24 * 3600)
    queue.prune()
    assert queue.stats().get("a") is None or queue.stats()["a"].completed == 0


def test_a_reader_with_an_open_transaction_keeps_a_day_and_is_named(
    queue: JobQueue, db: Db, clock: TestClock, reader: Reader
) -> None:
    clock.advance(100 * 24 * 3600)
    open_reader = reader()
    kept = queue.prune(tries=1)
    assert kept
    assert not any(day.dropped for day in kept)
    assert "forgotten report" in (kept[0].reason or "")
    open_reader.rollback()
    assert all(day.dropped for day in queue.prune(tries=1))


def test_completions_go_on_undisturbed_while_prune_waits_for_a_reader(
    queue: JobQueue, db: Db, clock: TestClock, reader: Reader
) -> None:
    """A completion that had to queue behind the DROP would meet this lock_timeout, far below prune's 100 ms."""
    clock.advance(100 * 24 * 3600)
    db.execute("SELECT * FROM create_partitions()")
    reader()
    pruning_over = threading.Event()

    def prune() -> None:
        try:
            queue.prune(tries=5)
        finally:
            pruning_over.set()

    completed = 0
    db.execute("SET lock_timeout = '40ms'")
    with ThreadPoolExecutor(1) as pool:
        pruning = pool.submit(prune)
        while not pruning_over.is_set() or completed < 20:
            db.execute("SELECT enqueue('b')")
            held = db.execute("SELECT id, token FROM claim('w', ARRAY['b'], 1)").fetchall()
            arguments = ([row["id"] for row in held], [row["token"] for row in held])
            completed += len(db.execute("SELECT * FROM complete(%s, %s)", arguments).fetchall())
        pruning.result()
    assert queue.stats()["b"].completed == completed


def test_two_prunes_at_once_agree(queue: JobQueue, server_dsn: str, clock: TestClock) -> None:
    clock.advance(100 * 24 * 3600)
    with JobQueue(server_dsn, SCHEMA) as other, ThreadPoolExecutor(2) as pool:
        results = [future.result() for future in [pool.submit(q.prune) for q in (queue, other)]]
    assert all(day.dropped for days in results for day in days)
    assert queue.prune() == []


def test_counts_are_folded_without_changing_what_they_say(queue: JobQueue, db: Db) -> None:
    for _ in range(20):
        finish_one(queue)
    before = queue.stats()["a"]
    folded = db.execute("SELECT compact_counts(10) AS n").fetchone()
    assert folded == {"n": 20}
    assert db.execute("SELECT count(*) AS n FROM archive_counts").fetchone() == {"n": 1}
    assert queue.stats()["a"] == before


def test_the_days_do_not_depend_on_how_a_session_writes_dates(queue: JobQueue, db: Db, clock: TestClock) -> None:
    clock.advance(20 * 24 * 3600)
    db.execute("SET datestyle = 'SQL, DMY'")
    db.execute("SET timezone = 'Asia/Kolkata'")
    db.execute("SELECT * FROM create_partitions()")
    assert home_of(db, finish_one(queue)) == f"archive_{today(clock):%Y%m%d}"
    db.execute("SET datestyle = 'ISO'")
    db.execute("SET timezone = 'UTC'")
    bounds = db.execute(
        "SELECT pg_get_expr(relpartbound, oid) AS bounds FROM pg_class WHERE oid = %s::regclass",
        (f"{SCHEMA}.archive_{today(clock):%Y%m%d}",),
    ).fetchone()
    assert bounds is not None
    assert f"'{today(clock)} 00:00:00+00'" in bounds["bounds"]
