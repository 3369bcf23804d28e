"""The archive: ended jobs are added to one open segment, which is closed at intervals and dropped as a whole when it is old."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from howdah import JobQueue
from tests.clock import TestClock
from tests.sql.repeating import beside
from tests.worker.processes import until

SCHEMA = "archive_test"
HOUR = 3600
DAY = 24 * HOUR
MOST_CLOSED = 16
Db = psycopg.Connection[dict[str, Any]]
Rows = list[dict[str, Any]]


@pytest.fixture
def queue(server_dsn: str) -> Iterator[JobQueue]:
    """A schema of its own, because these tests close and drop its segments."""
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
    with JobQueue(server_dsn, SCHEMA) as queue:
        queue.migrate()
        yield queue


@pytest.fixture
def db(server_dsn: str, queue: JobQueue) -> Iterator[Db]:
    with connect(server_dsn) as conn:
        yield conn


@pytest.fixture
def clock(server_dsn: str, queue: JobQueue, db: Db) -> Iterator[TestClock]:
    """A stopped clock, at the time when the open segment was opened."""
    with TestClock(server_dsn, SCHEMA) as clock:
        db.execute("UPDATE segments SET opened_at = clock()")
        yield clock


@pytest.fixture
def reader(server_dsn: str, queue: JobQueue) -> Iterator[Db]:
    """A connection whose transactions stay open, like those of a forgotten report."""
    with connect(server_dsn, autocommit=False, application_name="forgotten report") as conn:
        conn.commit()
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        yield conn


def connect(dsn: str, **options: Any) -> Db:
    conn = psycopg.connect(dsn, row_factory=dict_row, **{"autocommit": True, **options})
    conn.execute("SELECT set_config('search_path', %s, false)", (SCHEMA,))
    return conn


def finish_one(queue: JobQueue, job_type: str = "a") -> UUID:
    queue.enqueue(job_type)
    (job,) = queue.claim([job_type], 1)
    queue.complete(job)
    return job.id


def tables(db: Db) -> list[str]:
    """The tables of all segments except the next one, which always exists and is always empty."""
    rows = db.execute(
        "SELECT c.relname FROM pg_class AS c JOIN pg_inherits ON inhrelid = c.oid"
        " WHERE inhparent = 'archive'::regclass AND relname <> 'archive_next' ORDER BY c.oid"
    )
    return [row["relname"] for row in rows]


def home_of(db: Db, job_id: UUID) -> str:
    (row,) = db.execute("SELECT tableoid::regclass::text AS home FROM jobs WHERE id = %s", (job_id,)).fetchall()
    return str(row["home"])


def rotate(db: Db, keep: timedelta | None = None) -> Rows:
    return db.execute("SELECT * FROM rotate(%s)", (keep,)).fetchall()


def rotate_at_once(db: Db) -> bool:
    return [row["closed"] for row in rotate(db, timedelta(0))] == [True]


def segments(db: Db) -> Rows:
    return db.execute("SELECT * FROM segments ORDER BY number").fetchall()


# When a segment is closed


def test_ended_jobs_are_added_to_the_open_segment_and_are_jobs_as_before(queue: JobQueue, db: Db) -> None:
    assert tables(db) == ["archive_open"]
    job = finish_one(queue)
    assert home_of(db, job) == "archive_open"
    assert rotate_at_once(db)
    assert tables(db) == ["archive_1", "archive_open"]
    assert home_of(db, job) == "archive_1"
    assert home_of(db, finish_one(queue)) == "archive_open"
    assert queue.get(job).status == "completed"
    assert queue.stats()["a"].completed == 2


@pytest.mark.parametrize(
    ("keep", "after"),
    [
        (None, 28 * HOUR),
        (timedelta(hours=1), 300),
        (timedelta(minutes=1), 5),
        (timedelta(milliseconds=1), 5),
    ],
    ids=["the setting", "an hour", "a minute", "a millisecond"],
)
def test_a_segment_is_closed_after_a_twelfth_of_what_is_kept_and_five_seconds_at_least(
    queue: JobQueue, db: Db, clock: TestClock, keep: timedelta | None, after: float
) -> None:
    opened_at = clock.now
    finish_one(queue)
    clock.advance(after - 0.001)
    assert rotate(db, keep) == []
    assert tables(db) == ["archive_open"]
    closed_at = clock.advance(0.001)
    assert rotate(db, keep) == [{"segment": 1, "opened_at": opened_at, "closed": True, "reason": None}]
    assert tables(db) == ["archive_1", "archive_open"]
    assert [(row["number"], row["opened_at"], row["closed_at"]) for row in segments(db)] == [
        (1, opened_at, closed_at),
        (2, closed_at, None),
    ]
    finish_one(queue)
    assert rotate(db, keep) == [], "the next one is young"


def test_the_setting_determines_how_long_a_segment_is_open(queue: JobQueue, db: Db, clock: TestClock) -> None:
    db.execute("UPDATE settings SET archive_retention = '12 minutes'")
    finish_one(queue)
    clock.advance(59)
    assert rotate(db) == []
    clock.advance(1)
    assert [row["closed"] for row in rotate(db)] == [True]


def test_where_nothing_is_kept_a_segment_is_closed_at_once(queue: JobQueue, db: Db, clock: TestClock) -> None:
    for number in (1, 2, 3):
        finish_one(queue)
        assert [(row["segment"], row["closed"]) for row in rotate(db, timedelta(0))] == [(number, True)]


def test_an_empty_segment_is_never_closed(queue: JobQueue, db: Db, clock: TestClock) -> None:
    queue.enqueue("a")
    assert rotate(db, timedelta(0)) == []
    clock.advance(400 * DAY)
    assert rotate(db) == []
    assert queue.prune(keep=0) == []
    assert tables(db) == ["archive_open"]


def test_no_more_than_sixteen_are_closed_and_jobs_go_on_ending(queue: JobQueue, db: Db, clock: TestClock) -> None:
    jobs = []
    for number in range(MOST_CLOSED + 4):
        jobs.append(finish_one(queue))
        assert rotate_at_once(db) == (number < MOST_CLOSED)
    clock.advance(400 * DAY)
    assert rotate(db) == []
    assert tables(db) == [*(f"archive_{number}" for number in range(1, MOST_CLOSED + 1)), "archive_open"]
    assert {queue.get(job).status for job in jobs} == {"completed"}
    assert home_of(db, finish_one(queue)) == "archive_open"
    assert queue.stats()["a"].completed == len(jobs) + 1
    assert all(segment.dropped for segment in queue.prune())
    assert tables(db) == ["archive_open"]
    assert rotate_at_once(db), "there is room again"


def test_a_large_segment_is_closed_early_until_there_are_four(queue: JobQueue, db: Db, clock: TestClock) -> None:
    for number in range(5):
        finish_one(queue)
        assert rotate(db) == [], "it is young and small"
        blow_up(db, "archive_open")
        assert [row["closed"] for row in rotate(db)] == ([True] if number < 4 else [])
    clock.advance(28 * HOUR)
    assert [row["closed"] for row in rotate(db)] == [True]
    db.execute("SELECT prune('0')")
    assert tables(db) == ["archive_open"]


def blow_up(db: Db, table: str) -> None:
    """Make the files of a table as large as 4 GB, by holes that take no space."""
    (row,) = db.execute("SELECT pg_relation_filepath(%s) AS path", (table,)).fetchall()
    parts = " ".join(row["path"] + part for part in ("", ".1", ".2", ".3"))
    # What reads nothing may be gone before COPY has written.
    command = sql.Literal(f"cat > /dev/null && truncate -s 1G {parts}")
    db.execute(sql.SQL("COPY (SELECT) TO PROGRAM {}").format(command))


def test_a_month_without_maintenance_does_no_harm(queue: JobQueue, db: Db, clock: TestClock) -> None:
    jobs = []
    for _ in range(30):
        clock.advance(DAY)
        jobs.append(finish_one(queue))
    assert {home_of(db, job) for job in jobs} == {"archive_open"}
    assert queue.prune(keep=timedelta(days=300)) == []
    assert {home_of(db, job) for job in jobs} == {"archive_1"}
    assert home_of(db, finish_one(queue)) == "archive_open"
    assert {queue.get(job).status for job in jobs} == {"completed"}
    assert queue.stats()["a"].completed == 31


# When a segment is dropped


def test_a_segment_is_dropped_when_its_last_job_has_been_kept_long_enough(
    queue: JobQueue, db: Db, clock: TestClock
) -> None:
    first_end = clock.now
    old = [finish_one(queue)]
    last_end = clock.advance(DAY)
    old.append(finish_one(queue))
    clock.advance(10 * DAY)
    assert queue.prune() == []
    assert tables(db) == ["archive_1", "archive_open"]
    recent = finish_one(queue)
    clock.advance(4 * DAY - 0.001)
    # The open one is of an age to be closed, and too young to be dropped.
    assert queue.prune() == []
    assert queue.stats()["a"].completed == 3
    clock.advance(0.001)
    (pruned,) = queue.prune()
    assert (pruned.segment, pruned.dropped, pruned.reason) == (1, True, None)
    assert (pruned.first_end, pruned.last_end) == (first_end, last_end)
    assert tables(db) == ["archive_2", "archive_open"]
    assert [row["id"] for row in db.execute("SELECT id FROM jobs")] == [recent]
    assert recent not in old
    assert queue.stats()["a"].completed == 1
    assert queue.prune() == []


def test_prune_keeps_jobs_as_set_unless_keep_is_given(queue: JobQueue, db: Db, clock: TestClock) -> None:
    db.execute("UPDATE settings SET archive_retention = '1 hour'")
    finish_one(queue)
    clock.advance(HOUR - 1)
    assert queue.prune() == []
    assert [row["dropped"] for row in db.execute("SELECT * FROM prune('2 hours')")] == []
    clock.advance(1)
    assert [segment.dropped for segment in queue.prune()] == [True]
    with pytest.raises(psycopg.Error) as raised:
        db.execute("SELECT prune('-1 second')")
    assert raised.value.sqlstate == "JQ001"


def test_where_nothing_is_kept_everything_that_has_ended_is_dropped(queue: JobQueue, db: Db, clock: TestClock) -> None:
    live = queue.enqueue("b")
    for _ in range(3):
        finish_one(queue)
    assert [(segment.segment, segment.dropped) for segment in queue.prune(keep=0)] == [(1, True)]
    assert [row["id"] for row in db.execute("SELECT id FROM jobs")] == [live.id]
    assert "a" not in queue.stats()
    assert home_of(db, finish_one(queue)) == "archive_open"


@pytest.mark.parametrize("way", ["SELECT retry(ARRAY[%s])", "DELETE FROM jobs WHERE id = %s"])
def test_a_segment_whose_jobs_are_all_gone_is_dropped_by_the_time_of_its_end(
    queue: JobQueue, db: Db, clock: TestClock, way: str
) -> None:
    job = finish_one(queue)
    assert rotate_at_once(db)
    db.execute(way.encode(), (job,))
    clock.advance(14 * DAY - 1)
    assert queue.prune() == []
    assert [row["last_end"] for row in segments(db)] == [None, None]
    clock.advance(1)
    (pruned,) = queue.prune()
    assert (pruned.segment, pruned.dropped, pruned.first_end, pruned.last_end) == (1, True, None, None)


# Transactions in the way


def test_a_reader_postpones_a_rotation_and_is_named(queue: JobQueue, db: Db, clock: TestClock, reader: Db) -> None:
    job = finish_one(queue)
    clock.advance(2 * DAY)
    reader.execute("SELECT count(*) FROM jobs")
    (tried,) = rotate(db)
    assert not tried["closed"]
    assert f"pid {reader.info.backend_pid} (forgotten report, idle in transaction, since " in tried["reason"]
    (kept,) = queue.prune(tries=2)
    assert (kept.segment, kept.dropped, kept.first_end, kept.last_end) == (1, False, None, None)
    assert "forgotten report" in (kept.reason or "")
    assert tables(db) == ["archive_open"]
    assert segments(db)[0]["closed_at"] is None
    assert home_of(db, job) == home_of(db, finish_one(queue)) == "archive_open"
    assert queue.stats()["a"].completed == 2
    reader.rollback()
    assert queue.prune() == []
    assert tables(db) == ["archive_1", "archive_open"]
    assert queue.stats()["a"].completed == 2


def test_a_reader_postpones_a_drop_and_is_named(queue: JobQueue, db: Db, clock: TestClock, reader: Db) -> None:
    job = finish_one(queue)
    assert rotate_at_once(db)
    clock.advance(100 * DAY)
    reader.execute("SELECT count(*) FROM jobs")
    (kept,) = queue.prune(tries=2)
    assert (kept.segment, kept.dropped) == (1, False)
    assert "forgotten report" in (kept.reason or "")
    assert queue.get(job).status == "completed"
    assert queue.stats()["a"].completed == 1
    reader.rollback()
    assert [(segment.segment, segment.dropped) for segment in queue.prune()] == [(1, True)]
    assert tables(db) == ["archive_open"]
    assert "a" not in queue.stats()


def test_jobs_are_read_while_a_drop_waits_for_a_reader(queue: JobQueue, db: Db, clock: TestClock, reader: Db) -> None:
    """They may wait for as long as the drop does, which stops soon: far below this lock_timeout."""
    finish_one(queue)
    assert rotate_at_once(db)
    clock.advance(100 * DAY)
    reader.execute("SELECT count(*) FROM jobs")

    def read() -> None:
        assert db.execute("SELECT count(*) AS n FROM jobs").fetchall() == [{"n": 1}]

    db.execute("SET lock_timeout = '60s'")
    assert [segment.dropped for segment in beside(lambda: queue.prune(tries=5), read)] == [False]


def test_one_segment_in_use_does_not_keep_the_others(queue: JobQueue, db: Db, clock: TestClock, reader: Db) -> None:
    for _ in range(3):
        finish_one(queue)
        assert rotate_at_once(db)
    clock.advance(100 * DAY)
    reader.execute("SELECT count(*) FROM archive_2")
    assert [(segment.segment, segment.dropped) for segment in queue.prune(tries=1)] == [
        (1, True),
        (2, False),
        (3, True),
    ]
    assert tables(db) == ["archive_2", "archive_open"]
    assert queue.stats()["a"].completed == 1


def test_an_older_snapshot_sees_each_job_once_through_a_rotation(queue: JobQueue, db: Db, reader: Db) -> None:
    finish_one(queue)
    # It holds its snapshot, and no table yet.
    reader.execute("SELECT 1")
    finish_one(queue)
    assert rotate_at_once(db)
    finish_one(queue)
    assert reader.execute("SELECT count(*) AS n FROM jobs").fetchall() == [{"n": 1}]
    reader.rollback()
    assert reader.execute("SELECT count(*) AS n FROM jobs").fetchall() == [{"n": 3}]


def test_jobs_go_on_ending_while_a_rotation_waits_for_a_reader(
    queue: JobQueue, db: Db, clock: TestClock, reader: Db
) -> None:
    """They may wait for as long as the rotation does, which stops soon: far below this lock_timeout."""
    finish_one(queue, "b")
    clock.advance(100 * DAY)
    reader.execute("SELECT count(*) FROM jobs")
    completed = 1

    def complete_one() -> None:
        nonlocal completed
        db.execute("SELECT enqueue('b')")
        held = db.execute("SELECT id, token FROM claim('w', ARRAY['b'], 1)").fetchall()
        arguments = ([row["id"] for row in held], [row["token"] for row in held])
        completed += len(db.execute("SELECT * FROM complete(%s, %s)", arguments).fetchall())

    db.execute("SET lock_timeout = '60s'")
    assert [segment.dropped for segment in beside(lambda: queue.prune(tries=5), complete_one)] == [False]
    assert completed > 20
    assert tables(db) == ["archive_open"]
    assert queue.stats()["b"].completed == completed
    reader.rollback()
    assert queue.prune() == []
    assert tables(db) == ["archive_1", "archive_open"]
    assert queue.stats()["b"].completed == completed


def test_a_completion_that_waited_for_a_rotation_goes_to_the_new_segment(
    queue: JobQueue, db: Db, server_dsn: str
) -> None:
    finish_one(queue)
    queue.enqueue("a")
    (job,) = queue.claim(["a"], 1)
    with connect(server_dsn, autocommit=False) as other, ThreadPoolExecutor(1) as pool:
        assert rotate_at_once(other)
        completing = pool.submit(queue.complete, job)
        wait_for_lock(db, "archive_open")
        other.commit()
        completing.result()
    assert home_of(db, job.id) == "archive_open"
    assert queue.stats()["a"].completed == 2
    assert_counted(queue, db)


def wait_for_lock(db: Db, table: str) -> None:
    """Return when a session waits for a table that had this name when it was requested."""
    waits = "SELECT FROM pg_locks WHERE NOT granted AND relation = to_regclass(%s)"
    until(lambda: db.execute(waits, (table,)).fetchall(), f"a session waits for {table}")


def test_two_prunes_at_once_agree(queue: JobQueue, db: Db, server_dsn: str, clock: TestClock) -> None:
    for _ in range(5):
        finish_one(queue)
        assert rotate_at_once(db)
    clock.advance(100 * DAY)
    with JobQueue(server_dsn, SCHEMA) as other, ThreadPoolExecutor(2) as pool:
        results = [future.result() for future in [pool.submit(q.prune) for q in (queue, other)]]
    dropped = [segment.segment for pruned in results for segment in pruned if segment.dropped]
    assert sorted(dropped) == [1, 2, 3, 4, 5]
    assert queue.prune() == []
    assert "a" not in queue.stats()


# Counts


def counted(db: Db) -> dict[int, int]:
    rows = db.execute("SELECT segment, sum(jobs)::int AS jobs FROM archive_counts GROUP BY 1 HAVING sum(jobs) <> 0")
    return {row["segment"]: row["jobs"] for row in rows}


def assert_counted(queue: JobQueue, db: Db) -> None:
    """Assert that the figures of stats, and the counts of each segment, match the rows."""
    there: Counter[tuple[str, str]] = Counter()
    by_segment: Counter[int] = Counter()
    for row in db.execute("SELECT tableoid::regclass::text AS home, job_type, status FROM archive"):
        there[row["job_type"], row["status"]] += 1
        by_segment[int(row["home"].removeprefix("archive_").replace("open", "0"))] += 1
    said = {
        (job_type, status): getattr(stats, status)
        for job_type, stats in queue.stats().items()
        for status in ("completed", "failed", "cancelled")
    }
    assert {key: number for key, number in said.items() if number} == there
    assert counted(db) == by_segment


def test_a_rotation_takes_the_counts_along(queue: JobQueue, db: Db) -> None:
    for _ in range(3):
        finish_one(queue)
    assert counted(db) == {0: 3}
    assert rotate_at_once(db)
    assert counted(db) == {1: 3}
    finish_one(queue)
    assert counted(db) == {1: 3, 0: 1}


@pytest.mark.parametrize("way", ["SELECT retry(ARRAY[%s])", "DELETE FROM jobs WHERE id = %s"])
def test_a_job_that_leaves_the_archive_is_counted_for_the_segment_it_was_in(
    queue: JobQueue, db: Db, clock: TestClock, way: str
) -> None:
    closed = finish_one(queue)
    finish_one(queue)
    assert rotate_at_once(db)
    clock.advance(DAY)
    opened = finish_one(queue)
    db.execute(way.encode(), (closed,))
    assert counted(db) == {1: 1, 0: 1}
    db.execute(way.encode(), (opened,))
    assert counted(db) == {1: 1}
    assert queue.stats()["a"].completed == 1
    clock.advance(13 * DAY)
    assert [segment.segment for segment in queue.prune() if segment.dropped] == [1]
    assert counted(db) == {}
    assert all(stats.completed == 0 for stats in queue.stats().values())


def test_counts_are_folded_without_changing_them(queue: JobQueue, db: Db) -> None:
    for number in range(20):
        finish_one(queue)
        if number == 9:
            assert rotate_at_once(db)
    before = queue.stats()["a"]
    assert db.execute("SELECT compact_counts(12) AS n").fetchone() == {"n": 0}
    assert db.execute("SELECT compact_counts(11) AS n").fetchone() == {"n": 11}
    assert db.execute("SELECT count(*) AS n FROM archive_counts").fetchone() == {"n": 2}
    assert counted(db) == {1: 10, 0: 10}
    assert queue.stats()["a"] == before


def test_counts_are_not_folded_beside_a_rotation_nor_the_other_way_round(
    queue: JobQueue, db: Db, server_dsn: str
) -> None:
    for _ in range(3):
        finish_one(queue)
    with connect(server_dsn, autocommit=False) as other:
        assert other.execute("SELECT compact_counts(1) AS n").fetchone() == {"n": 3}
        assert rotate(db, timedelta(0)) == []
        finish_one(queue)
        other.commit()
        assert counted(db) == {0: 4}
        assert rotate_at_once(other)
        assert db.execute("SELECT compact_counts(1) AS n").fetchone() == {"n": 0}
        other.commit()
    assert counted(db) == {1: 4}
    finish_one(queue)
    assert_counted(queue, db)


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_right_whatever_happens_to_jobs_and_segments(
    queue: JobQueue, db: Db, clock: TestClock, seed: int
) -> None:
    chance = random.Random(seed)

    def end() -> None:
        job_type = chance.choice("ab")
        number = chance.randint(1, 5)
        queue.enqueue_many(job_type, ({} for _ in range(number)))
        for job in queue.claim([job_type], number):
            match chance.choice(["complete", "cancel", "fail"]):
                case "complete":
                    queue.complete(job)
                case "cancel":
                    queue.cancel(job)
                case _:
                    queue.fail(job, "broken", give_up=True)

    def some() -> list[UUID]:
        return [row["id"] for row in db.execute("SELECT id FROM archive") if chance.random() < 0.3]

    steps: list[Callable[[], object]] = [
        end,
        end,
        lambda: db.execute("SELECT retry(%s)", (some(),)),
        lambda: db.execute("DELETE FROM jobs WHERE id = ANY (%s)", (some(),)),
        lambda: db.execute("UPDATE jobs SET status = 'failed' WHERE id = ANY (%s)", (some(),)),
        lambda: rotate(db, timedelta(0)),
        lambda: db.execute("SELECT bound_segments()"),
        lambda: db.execute("SELECT compact_counts(1)"),
        lambda: clock.advance(chance.choice([1, HOUR, DAY])),
        lambda: db.execute("SELECT prune('2 days')"),
    ]
    for _ in range(60):
        chance.choice(steps)()
        assert_counted(queue, db)


def test_counts_are_right_after_everything_has_happened_at_once(queue: JobQueue, db: Db, server_dsn: str) -> None:
    over, rotated = threading.Event(), threading.Event()

    def rounds() -> Iterator[int]:
        yield from range(40)
        # A rotation stops where it does not get its lock at once: on a busy machine it takes several tries.
        latest = time.monotonic() + 60
        while not rotated.is_set():
            assert time.monotonic() < latest, "no rotation got its lock"
            yield 40

    def end_jobs(number: int) -> None:
        with connect(server_dsn) as conn:
            for _ in rounds():
                conn.execute("SELECT enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[5]))", (f"t{number}",))
                conn.execute(
                    "WITH held AS (SELECT id, token FROM claim('w', ARRAY[%s], 5))"
                    " SELECT complete(array_agg(id), array_agg(token)) FROM held",
                    (f"t{number}",),
                )

    def take_out(statement: str, seed: int) -> None:
        chance = random.Random(seed)
        with connect(server_dsn) as conn:
            for _ in rounds():
                ended = [row["id"] for row in conn.execute("SELECT id FROM archive ORDER BY id DESC LIMIT 50")]
                conn.execute(statement.encode(), (chance.sample(ended, min(3, len(ended))),))

    def look_after() -> None:
        with connect(server_dsn) as conn:
            while not over.is_set():
                if rotate_at_once(conn):
                    rotated.set()
                conn.execute("SELECT compact_counts(1)")
                conn.execute("SELECT bound_segments()")

    with ThreadPoolExecutor(5) as pool:
        caring = pool.submit(look_after)
        working = [
            pool.submit(end_jobs, 1),
            pool.submit(end_jobs, 2),
            pool.submit(take_out, "SELECT retry(%s)", 1),
            pool.submit(take_out, "DELETE FROM jobs WHERE id = ANY (%s)", 2),
        ]
        try:
            for each in working:
                each.result()
        finally:
            over.set()
        caring.result()
    assert_counted(queue, db)


# Bounds


def bound(db: Db) -> int:
    (row,) = db.execute("SELECT bound_segments() AS n").fetchall()
    return int(row["n"])


def bound_and_validate(db: Db) -> int:
    added = bound(db)
    assert bound(db) == added
    return added


def bounds(db: Db) -> dict[str, bool]:
    rows = db.execute(
        "SELECT conrelid::regclass::text AS home, convalidated FROM pg_constraint"
        " WHERE conname = 'archive_ends' AND connamespace = current_schema()::regnamespace"
    )
    return {row["home"]: row["convalidated"] for row in rows}


def scanned(db: Db, where: str, *arguments: Any) -> set[str]:
    """The segments that the planner does not skip."""
    plan = psycopg.ClientCursor(db).execute(f"EXPLAIN SELECT * FROM archive WHERE {where}", arguments)
    lines = " ".join(str(line) for row in plan.fetchall() for line in dict(row).values())
    return {table for table in tables(db) if f" on {table} " in f"{lines} "}


def three_days(queue: JobQueue, db: Db, clock: TestClock) -> list[datetime]:
    """When the first and the last job of each of three closed segments ended."""
    ends = []
    for _ in range(3):
        for _ in range(2):
            finish_one(queue)
            ends.append(clock.now)
            clock.advance(HOUR)
        assert rotate_at_once(db)
    finish_one(queue)
    return ends


def test_the_planner_leaves_out_segments_by_the_ends_of_their_jobs(queue: JobQueue, db: Db, clock: TestClock) -> None:
    ends = three_days(queue, db, clock)
    everything = {"archive_1", "archive_2", "archive_3", "archive_open"}
    assert scanned(db, "finished_at = %s", ends[2]) == everything
    assert bound_and_validate(db) == 3
    assert bounds(db) == dict.fromkeys(("archive_1", "archive_2", "archive_3"), True)
    assert [(row["first_end"], row["last_end"]) for row in segments(db)] == [
        *zip(ends[::2], ends[1::2], strict=True),
        (None, None),
    ]
    assert scanned(db, "finished_at = %s", ends[2]) == {"archive_2", "archive_open"}
    assert scanned(db, "finished_at >= %s", ends[4]) == {"archive_3", "archive_open"}
    assert scanned(db, "finished_at > %s", ends[5]) == {"archive_open"}
    assert scanned(db, "finished_at < %s", ends[2]) == {"archive_1", "archive_open"}
    assert scanned(db, "finished_at IS NOT NULL") == everything
    # Once is enough.
    assert bound(db) == 0


def test_bounds_do_not_depend_on_how_a_session_writes_times(queue: JobQueue, db: Db, clock: TestClock) -> None:
    ends = three_days(queue, db, clock)
    db.execute("SET datestyle = 'SQL, DMY'")
    db.execute("SET timezone = 'Asia/Kolkata'")
    assert bound_and_validate(db) == 3
    db.execute("RESET datestyle")
    db.execute("SET timezone = 'UTC'")
    assert [(row["first_end"], row["last_end"]) for row in segments(db)] == [
        *zip(ends[::2], ends[1::2], strict=True),
        (None, None),
    ]
    assert scanned(db, "finished_at = %s", ends[2]) == {"archive_2", "archive_open"}


def test_a_reader_postpones_a_bound_and_nothing_else(queue: JobQueue, db: Db, clock: TestClock, reader: Db) -> None:
    ends = three_days(queue, db, clock)
    reader.execute("SELECT count(*) FROM archive_2")
    assert bound_and_validate(db) == 2
    assert bounds(db) == {"archive_1": True, "archive_3": True}
    # It is known all the same when its last job ended.
    assert segments(db)[1]["last_end"] == ends[3]
    assert {"archive_2"} < scanned(db, "finished_at = %s", ends[2])
    reader.rollback()
    assert bound_and_validate(db) == 1
    assert scanned(db, "finished_at = %s", ends[2]) == {"archive_2", "archive_open"}


def test_a_segment_without_jobs_needs_no_bound(queue: JobQueue, db: Db) -> None:
    queue.retry(finish_one(queue))
    assert rotate_at_once(db)
    assert bound(db) == 0
    assert bounds(db) == {}


def test_a_bound_stays_right_when_jobs_leave(queue: JobQueue, db: Db, clock: TestClock) -> None:
    ends = three_days(queue, db, clock)
    bound_and_validate(db)
    queue.retry(db.execute("SELECT id FROM archive_2").fetchall()[0]["id"])
    assert bound(db) == 0
    assert len(db.execute("SELECT id FROM archive WHERE finished_at >= %s", (ends[2],)).fetchall()) == 4


def test_rows_are_never_looked_at_under_a_lock_that_keeps_readers_out(
    queue: JobQueue, db: Db, clock: TestClock, reader: Db
) -> None:
    three_days(queue, db, clock)
    with db.transaction():
        assert bound(db) == 3
        assert bounds(db) == dict.fromkeys(("archive_1", "archive_2", "archive_3"), False)
    with db.transaction():
        assert bound(db) == 3
        assert bounds(db) == dict.fromkeys(("archive_1", "archive_2", "archive_3"), True)
        reader.execute("SET lock_timeout = '10s'")
        assert len(reader.execute("SELECT FROM archive").fetchall()) == 7
