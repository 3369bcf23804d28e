"""Segments: the archive and the events are closed and dropped together, by one session at a time, while writers continue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from howdah import JobQueue
from tests.clock import TestClock
from tests.sql.holding import Held, claim, events, hold, record
from tests.sql.plain import until_blocked
from tests.sql.repeating import beside
from tests.sql.streaming import now, read, read_all

SCHEMA = "segments_test"
DAY = 24 * 3600
AT_ONCE = timedelta(0)
Db = psycopg.Connection[dict[str, Any]]
Rows = list[dict[str, Any]]
Connect = Callable[..., Db]


@pytest.fixture
def connect(server_dsn: str) -> Iterator[Connect]:
    """Connections to a schema of its own, because these tests close and drop its segments."""
    with psycopg.connect(server_dsn, autocommit=True) as cleaner:
        cleaner.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
    with JobQueue(server_dsn, SCHEMA) as queue:
        queue.migrate()
    opened: list[Db] = []

    def connect(**options: Any) -> Db:
        conn: Db = psycopg.connect(server_dsn, row_factory=dict_row, **{"autocommit": True, **options})
        opened.append(conn)
        conn.execute("SELECT set_config('search_path', %s, false)", (SCHEMA,))
        if not conn.autocommit:
            conn.commit()
        return conn

    yield connect
    for conn in opened:
        conn.close()


@pytest.fixture
def db(connect: Connect) -> Db:
    return connect()


@pytest.fixture
def other(connect: Connect) -> Db:
    """A second session, whose transactions stay open until the test ends them."""
    return connect(autocommit=False, application_name="forgotten watcher")


@pytest.fixture
def clock(server_dsn: str, db: Db) -> Iterator[TestClock]:
    with TestClock(server_dsn, SCHEMA) as clock:
        db.execute("UPDATE segments SET opened_at = clock()")
        yield clock


def tables(db: Db) -> list[str]:
    """The tables of all segments except the next one, in the order of their creation."""
    rows = db.execute(
        "SELECT c.relname FROM pg_class AS c JOIN pg_inherits ON inhrelid = c.oid"
        " WHERE inhparent IN ('archive'::regclass, 'events'::regclass) AND relname !~ '_next$' ORDER BY c.oid"
    )
    return [row["relname"] for row in rows]


OPEN = ["archive_open", "events_open"]


def rotate(db: Db, keep: timedelta | None = AT_ONCE) -> Rows:
    return db.execute("SELECT * FROM rotate(%s)", (keep,)).fetchall()


def close(db: Db) -> None:
    assert [row["closed"] for row in rotate(db)] == [True]


def prune(db: Db, keep: timedelta | None = None) -> Rows:
    db.execute("SELECT bound_segments()")
    return db.execute("SELECT * FROM prune(%s)", (keep,)).fetchall()


def complete(db: Db, *jobs: Held) -> None:
    arguments = ([job.id for job in jobs], [job.token for job in jobs])
    assert len(db.execute("SELECT * FROM complete(%s, %s)", arguments).fetchall()) == len(jobs)


def record_and_complete(db: Db, job_type: str = "x") -> Held:
    """Record an event, and complete its job, which is the second event."""
    (job,) = hold(db, job_type=job_type)
    record(db, job)
    complete(db, job)
    return job


def homes(db: Db, job: Held) -> tuple[list[str], list[str]]:
    """The table of the job, and those of its events in their order."""
    return (
        [
            row["home"]
            for row in db.execute("SELECT tableoid::regclass::text AS home FROM jobs WHERE id = %s", (job.id,))
        ],
        [
            row["home"]
            for row in db.execute(
                "SELECT tableoid::regclass::text AS home FROM events WHERE job_id = %s ORDER BY seq", (job.id,)
            )
        ],
    )


# The archive and the events


def test_jobs_and_events_are_closed_together(db: Db) -> None:
    assert tables(db) == OPEN
    job = record_and_complete(db)
    assert homes(db, job) == (["archive_open"], ["events_open"] * 2)
    close(db)
    assert tables(db) == ["archive_1", "events_1", *OPEN]
    assert homes(db, job) == (["archive_1"], ["events_1"] * 2)
    assert homes(db, record_and_complete(db)) == (["archive_open"], ["events_open"] * 2)


def test_events_alone_are_enough_to_close_a_segment(db: Db) -> None:
    (job,) = hold(db)
    record(db, job)
    close(db)
    assert homes(db, job) == (["live"], ["events_1"])


def test_a_closed_segment_has_what_the_open_one_has(db: Db) -> None:
    record_and_complete(db)
    close(db)

    def parts(number: int, archive: str, events: str) -> list[str]:
        rows = db.execute(
            "SELECT pg_get_indexdef(indexrelid) AS part FROM pg_index WHERE indrelid IN (%(a)s::regclass, %(e)s::regclass)"
            " UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid IN (%(a)s::regclass, %(e)s::regclass)"
            " ORDER BY 1",
            {"a": archive, "e": events},
        )
        return sorted(
            row["part"].replace(archive, "archive").replace(events, "events").replace(f"_{number}_", "_")
            for row in rows
        )

    assert parts(1, "archive_1", "events_1") == parts(2, "archive_open", "events_open")
    assert len(parts(1, "archive_1", "events_1")) == 7


def test_a_rotation_adds_and_hides_no_events(db: Db) -> None:
    record_and_complete(db)
    before = db.execute("SELECT * FROM events ORDER BY stream_no").fetchall()
    both, position = read(db)
    close(db)
    assert db.execute("SELECT * FROM events ORDER BY stream_no").fetchall() == before
    assert read(db, position)[0] == []
    assert [event["seq"] for event in read(db, both[0]["position"])[0]] == [2]
    job = record_and_complete(db)
    assert [(event["job_id"], event["seq"]) for event in read(db, position)[0]] == [(job.id, 1), (job.id, 2)]


def test_the_stream_is_read_in_order_through_many_segments(db: Db) -> None:
    jobs = hold(db, 5)
    expected = []
    for _ in range(4):
        expected += [(job.id, seq) for job in jobs for seq in record(db, job)]
        close(db)
    assert [(event["job_id"], event["seq"]) for event in read_all(db, limit=3)[0]] == expected


def test_a_job_keeps_its_events_through_rotations(db: Db) -> None:
    (job,) = hold(db)
    for number in (1, 2):
        assert record(db, job) == [number]
        close(db)
    assert record(db, job) == [3]
    complete(db, job)
    assert homes(db, job) == (["archive_open"], ["events_1", "events_2", "events_open", "events_open"])
    assert [event["seq"] for event in events(db, job)] == [1, 2, 3, 4]


def test_a_deleted_job_takes_its_events_out_of_every_segment(db: Db) -> None:
    job, neighbour = hold(db, 2)
    for _ in range(2):
        record(db, job, neighbour)
        close(db)
    complete(db, job, neighbour)
    db.execute("DELETE FROM jobs WHERE id = %s", (job.id,))
    assert homes(db, job) == ([], [])
    assert len(events(db, neighbour)) == 3


def test_prune_drops_a_segment_of_the_archive_and_of_the_events_together(db: Db, clock: TestClock) -> None:
    old = record_and_complete(db)
    close(db)
    clock.advance(10 * DAY)
    recent = record_and_complete(db)
    assert prune(db) == []
    ended_at = clock.now - timedelta(days=10)
    clock.advance(4 * DAY)
    assert prune(db) == [{"segment": 1, "first_end": ended_at, "last_end": ended_at, "dropped": True, "reason": None}]
    assert tables(db) == OPEN
    assert homes(db, old) == ([], [])
    assert homes(db, recent) == (["archive_open"], ["events_open"] * 2)


def test_events_without_a_job_go_by_the_time_of_their_segments_end(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    record(db, job)
    clock.advance(5 * DAY)
    close(db)
    clock.advance(14 * DAY - 1)
    assert prune(db) == []
    clock.advance(1)
    assert [(row["segment"], row["last_end"], row["dropped"]) for row in prune(db)] == [(1, None, True)]
    assert homes(db, job) == (["live"], [])
    assert record(db, job) == [2]


# Transactions in the way


@pytest.mark.parametrize("table", ["archive_open", "events_open"])
def test_a_segment_of_which_one_half_is_read_is_not_closed_by_halves(
    db: Db, clock: TestClock, other: Db, table: str
) -> None:
    job = record_and_complete(db)
    clock.advance(2 * DAY)
    other.execute(f"SELECT * FROM {table}".encode())
    (tried,) = rotate(db, None)
    assert (tried["segment"], tried["closed"]) == (1, False)
    assert "forgotten watcher" in tried["reason"]
    assert tables(db) == OPEN
    assert homes(db, job) == (["archive_open"], ["events_open"] * 2)
    other.rollback()
    assert [row["closed"] for row in rotate(db, None)] == [True]


@pytest.mark.parametrize("table", ["archive_1", "events_1"])
def test_a_segment_of_which_one_half_is_read_is_left_whole(db: Db, clock: TestClock, other: Db, table: str) -> None:
    job = record_and_complete(db)
    close(db)
    clock.advance(100 * DAY)
    other.execute(f"SELECT * FROM {table}".encode())
    (kept,) = prune(db)
    assert (kept["segment"], kept["dropped"]) == (1, False)
    assert "forgotten watcher" in kept["reason"]
    assert homes(db, job) == (["archive_1"], ["events_1"] * 2)
    other.rollback()
    assert [row["dropped"] for row in prune(db)] == [True]
    assert homes(db, job) == ([], [])


@pytest.mark.parametrize(
    "ending", ["complete(ARRAY[%s], ARRAY[%s])", "record_events(ARRAY[%s], ARRAY[%s], ARRAY['e'])"]
)
def test_a_transaction_that_writes_postpones_a_rotation_and_nothing_of_it_is_lost(
    db: Db, other: Db, ending: str
) -> None:
    record_and_complete(db)
    (job,) = hold(db)
    other.execute(f"SELECT {ending}".encode(), job)
    assert [row["closed"] for row in rotate(db)] == [False]
    other.commit()
    close(db)
    assert homes(db, job) == ((["archive_1"], []) if ending.startswith("complete") else (["live"], ["events_1"]))


def test_what_writes_never_touches_a_closed_segment(db: Db, other: Db) -> None:
    """So neither a drop nor a bound of one blocks writers: each would wait for this lock, and fail."""
    record_and_complete(db)
    close(db)
    other.execute("LOCK TABLE archive_1, events_1 IN ACCESS EXCLUSIVE MODE")
    db.execute("SET lock_timeout = '60s'")
    db.execute("SELECT enqueue('y')")
    (completed,) = hold(db)
    record(db, completed)
    db.execute("SELECT progress(ARRAY[%s], ARRAY[%s], ARRAY[50])", completed)
    complete(db, completed)
    (failed,) = hold(db)
    db.execute("SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY['broken'], p_give_ups => ARRAY[true])", failed)
    (released,) = hold(db, start=0)
    db.execute("SELECT release(ARRAY[%s], ARRAY[%s])", released)
    db.execute("SELECT cancel(ARRAY[%s])", (released.id,))
    db.execute("SELECT recover()")
    other.rollback()
    assert homes(db, completed)[0] == homes(db, failed)[0] == homes(db, released)[0] == ["archive_open"]


def test_writing_goes_on_while_a_rotation_waits_for_a_reader_of_events(db: Db, other: Db, connect: Connect) -> None:
    """Writers may wait as long as the rotation does, which stops soon: far below this lock_timeout."""
    record_and_complete(db)
    other.execute("SELECT * FROM events")
    written = 0

    def rotate_again_and_again() -> list[bool]:
        conn = connect()
        return [row["closed"] for _ in range(5) for row in rotate(conn)]

    def write() -> None:
        nonlocal written
        assert homes(db, record_and_complete(db)) == (["archive_open"], ["events_open"] * 2)
        written += 1

    db.execute("SET lock_timeout = '60s'")
    assert beside(rotate_again_and_again, write) == [False] * 5
    other.rollback()
    close(db)
    assert len(db.execute("SELECT FROM events").fetchall()) == 2 * (written + 1)


def test_nothing_is_lost_where_writing_rotating_and_reading_never_stop(db: Db, connect: Connect) -> None:
    rounds, writers = 60, 3
    over = threading.Event()

    def write(number: int) -> None:
        conn = connect()
        for _ in range(rounds):
            record_and_complete(conn, f"x{number}")

    def watch() -> list[int]:
        """Hold a snapshot for a while, again and again; and read the stream, in which no event may be missing."""
        conn = connect(autocommit=False)
        seen: list[int] = []
        position = None
        while True:
            was_over = over.is_set()
            found, position = read_all(conn, position)
            conn.execute("SELECT count(*) FROM jobs")
            conn.commit()
            seen += [event["stream_no"] for event in found]
            if was_over:
                return seen

    def look_after() -> int:
        conn = connect()
        closed = 0
        while not over.is_set():
            closed += [row["closed"] for row in rotate(conn)].count(True)
        return closed

    with ThreadPoolExecutor(writers + 2) as pool:
        caring, watching = pool.submit(look_after), pool.submit(watch)
        try:
            for each in [pool.submit(write, number) for number in range(writers)]:
                each.result()
        finally:
            over.set()
        assert caring.result() >= 1
        seen = watching.result()
    assert len(db.execute("SELECT FROM jobs WHERE status = 'completed'").fetchall()) == rounds * writers
    there = sorted(row["stream_no"] for row in db.execute("SELECT stream_no FROM events"))
    assert len(there) == 2 * rounds * writers
    assert sorted(seen) == there


# One session at a time


def test_while_one_session_works_on_segments_another_does_nothing(db: Db, other: Db, clock: TestClock) -> None:
    record_and_complete(db)
    close(db)
    record_and_complete(db)
    clock.advance(100 * DAY)
    db.execute("SET lock_timeout = '60s'")
    # The kind of work does not matter.
    for begun in ("rotate('0')", "bound_segments()", "prune('1000 days')", "compact_counts(1)"):
        other.execute(f"SELECT {begun}".encode())
        assert rotate(db) == []
        assert db.execute("SELECT bound_segments() AS n").fetchone() == {"n": 0}
        assert db.execute("SELECT * FROM prune('0')").fetchall() == []
        assert db.execute("SELECT compact_counts(1) AS n").fetchone() == {"n": 0}
        other.rollback()
    assert tables(db) == ["archive_1", "events_1", *OPEN]
    close(db)
    assert [row["dropped"] for row in prune(db)] == [True, True]


def test_many_sessions_at_once_close_a_segment_once(db: Db, connect: Connect) -> None:
    record_and_complete(db)
    sessions = [connect() for _ in range(8)]
    start = threading.Barrier(len(sessions))

    def rotate_together(session: Db) -> Rows:
        start.wait()
        return rotate(session)

    with ThreadPoolExecutor(len(sessions)) as pool:
        tried = [row for rows in pool.map(rotate_together, sessions) for row in rows]
    assert [(row["segment"], row["closed"]) for row in tried] == [(1, True)]
    assert tables(db) == ["archive_1", "events_1", *OPEN]


def test_a_rotation_that_is_undone_has_never_been(db: Db, other: Db) -> None:
    job = record_and_complete(db)
    before = db.execute("SELECT * FROM segments").fetchall(), db.execute("SELECT * FROM archive_counts").fetchall()
    close(other)
    other.rollback()
    assert tables(db) == OPEN
    assert homes(db, job) == (["archive_open"], ["events_open"] * 2)
    assert (
        db.execute("SELECT * FROM segments").fetchall(),
        db.execute("SELECT * FROM archive_counts").fetchall(),
    ) == before
    close(db)
    assert tables(db) == ["archive_1", "events_1", *OPEN]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("work", ["rotate('0')", "bound_segments()", "prune('0')", "compact_counts(1)"])
def test_a_transaction_that_does_not_see_what_is_committed_meanwhile_is_refused(
    db: Db, other: Db, level: str, work: str
) -> None:
    record_and_complete(db)
    other.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
    with pytest.raises(psycopg.Error, match="READ COMMITTED") as raised:
        other.execute(f"SELECT {work}".encode())
    assert raised.value.sqlstate == "JQ001"
    assert tables(db) == OPEN


# Plans that were made before

WAYS = {
    "complete": "SELECT complete(ARRAY[%(id)s], ARRAY[%(token)s])",
    "fail": "SELECT fail(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['broken'], p_give_ups => ARRAY[true])",
    "cancel": "SELECT cancel(ARRAY[%(id)s])",
    "a plain Complete": "UPDATE jobs SET status = 'completed', completed_at = now() WHERE id = %(id)s",
    "a plain Fail": "UPDATE jobs SET status = 'failed', last_error = 'broken' WHERE id = %(id)s",
    "a plain INSERT": "INSERT INTO jobs (id, job_type, status) VALUES (gen_random_uuid(), 'y', 'completed')",
}


@pytest.mark.parametrize("way", WAYS)
def test_what_ended_jobs_before_a_rotation_ends_them_in_the_new_segment(db: Db, connect: Connect, way: str) -> None:
    veteran = connect()
    ended = "SELECT count(*) AS n FROM jobs WHERE status NOT IN ('pending', 'claimed', 'running')"
    new = "SELECT count(*) AS n FROM archive_open"
    for number in range(1, 10):
        (job,) = hold(veteran, start=0)
        veteran.execute(WAYS[way].encode(), {"id": job.id, "token": job.token}, prepare=True)
        # The first seven times in one segment, until every plan is a generic one.
        assert veteran.execute(ended, prepare=True).fetchall() == [{"n": number}]
        assert db.execute(new).fetchall() == [{"n": number if number <= 7 else 1}]
        if number >= 7:
            close(db)


def test_sessions_that_wrote_and_read_events_before_a_rotation_continue_after_it(db: Db, connect: Connect) -> None:
    veteran = connect()
    (job,) = hold(db)
    position = now(db)
    for number in range(1, 10):
        assert record(veteran, job) == [number]
        found, position = read(veteran, position)
        assert [event["seq"] for event in found] == [number]
        if number >= 7:
            close(db)
    assert homes(db, job) == (["live"], ["events_1"] * 7 + ["events_2", "events_3"])


def test_what_retried_jobs_before_finds_them_in_every_segment(db: Db, connect: Connect) -> None:
    veteran = connect()
    job = record_and_complete(db)
    for number in range(1, 10):
        assert veteran.execute("SELECT id FROM retry(ARRAY[%s])", (job.id,), prepare=True).fetchall() == [
            {"id": job.id}
        ]
        complete(db, *claim(db))
        if number >= 7:
            close(db)
    assert homes(db, job)[0] == ["archive_3"]


def test_what_read_jobs_before_a_drop_goes_on_after_it(db: Db, clock: TestClock, connect: Connect) -> None:
    veteran = connect()
    for _ in range(3):
        record_and_complete(db)
        close(db)
    read_jobs = "SELECT count(*) AS n FROM jobs"
    for _ in range(7):
        assert veteran.execute(read_jobs, prepare=True).fetchall() == [{"n": 3}]
    clock.advance(100 * DAY)
    assert [row["dropped"] for row in prune(db)] == [True] * 3
    assert veteran.execute(read_jobs, prepare=True).fetchall() == [{"n": 0}]
    record_and_complete(veteran)
    assert veteran.execute(read_jobs, prepare=True).fetchall() == [{"n": 1}]


# A reader that waits for a rotation. It has listed the tables to read before it waits, and takes its snapshot after it.


READERS = {
    "jobs": "SELECT id FROM jobs",
    "job_details": "SELECT id FROM job_details",
    "the archive": "SELECT id FROM archive",
}


@pytest.mark.parametrize("prepare", [False, True], ids=["once", "prepared"])
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_that_waited_for_a_rotation_misses_no_job(
    db: Db, other: Db, connect: Connect, reader: str, prepare: bool
) -> None:
    record_and_complete(db)
    (job,) = hold(db)
    waiting = connect()
    if prepare:
        waiting.execute("SET plan_cache_mode = force_generic_plan")

    def found() -> set[UUID]:
        return {row["id"] for row in waiting.execute(READERS[reader].encode(), prepare=prepare)}

    with ThreadPoolExecutor(1) as pool:
        close(other)
        complete(other, job)
        reading = pool.submit(found)
        until_blocked(db, waiting)
        other.commit()
        assert job.id in reading.result()
    # Neither does a plan that was made while it waited.
    (late,) = hold(db)
    complete(db, late)
    assert {job.id, late.id} <= found()


def test_a_watcher_that_waited_for_a_rotation_misses_no_event(db: Db, other: Db, connect: Connect) -> None:
    record_and_complete(db)
    (job,) = hold(db)
    _, position = read(db)
    waiting = connect()
    with ThreadPoolExecutor(1) as pool:
        close(other)
        record(other, job)
        reading = pool.submit(read, waiting, position)
        until_blocked(db, waiting)
        other.commit()
        seen, position = reading.result()
    complete(db, job)
    assert [event["seq"] for event in [*seen, *read(waiting, position)[0]]] == [1, 2]
