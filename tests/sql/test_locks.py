"""Locks that other sessions hold for long: calls that need them continue without, or fail soon, and never wait for ever.

The statement_timeout of the connection would end an unbounded wait, and fail the test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel, errors

from howdah import JobQueue
from howdah.verbs import schedules
from howdah.verbs.produce import BULK_SIZE
from tests.conftest import Connect, Db

Hold = Callable[..., Db]

BOUND = "SET statement_timeout = '40s'"


@pytest.fixture
def db(db: Db) -> Db:
    db.execute(BOUND)
    return db


@pytest.fixture
def hold(connect: Connect) -> Hold:
    """Open sessions that hold advisory locks, given as the arguments of pg_advisory_lock."""

    def hold(arguments: str, form: str = "") -> Db:
        conn = connect()
        conn.execute(f"SELECT pg_advisory_lock{form}({arguments})".encode())
        return conn

    return hold


def held_by(db: Db) -> int:
    """How many advisory locks the session itself holds."""
    row = db.execute(
        "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted"
    ).fetchone()
    assert row is not None
    return int(row["n"])


# Sleepers and watchers

SIGN_UP = [("add_sleeper", "remove_sleeper", 0), ("add_watcher", "remove_watcher", 32)]


@pytest.mark.parametrize(("begin", "end", "first"), SIGN_UP)
def test_a_session_that_cannot_share_a_lock_gets_an_empty_answer_and_holds_none(
    db: Db, hold: Hold, begin: str, end: str, first: int
) -> None:
    types = [f"type {n}" for n in range(40)]
    row = db.execute(f"SELECT {begin}(%s) AS buckets".encode(), (types,)).fetchone()
    assert row is not None
    buckets = row["buckets"]
    assert held_by(db) == len(buckets) > 10
    db.execute(f"SELECT {end}(%s)".encode(), (types,))
    holder = hold(f"'live'::regclass::oid::int, {first + buckets[-1]}")
    row = db.execute(f"SELECT {begin}(%s) AS buckets".encode(), (types,)).fetchone()
    assert row == {"buckets": []}
    assert held_by(db) == 0
    holder.execute("SELECT pg_advisory_unlock_all()")
    row = db.execute(f"SELECT {begin}(%s) AS buckets".encode(), (types,)).fetchone()
    assert row == {"buckets": buckets}
    assert held_by(db) == len(buckets)


@pytest.mark.parametrize(("begin", "end", "first"), SIGN_UP)
def test_a_session_that_shares_them_already_keeps_its_own(
    db: Db, connect: Connect, begin: str, end: str, first: int
) -> None:
    """Two sleepers of one session: a lock that one is refused is not taken from the other."""
    row = db.execute(f"SELECT {begin}(ARRAY['a']) AS buckets".encode()).fetchone()
    other = (
        "SELECT t FROM unnest(ARRAY['b', 'c', 'd']) AS t WHERE abs(hashtext(t) % 32) <> abs(hashtext('a') % 32) LIMIT 1"
    )
    found = db.execute(other).fetchone()
    assert row is not None
    assert found is not None
    holder = connect()
    holder.execute(
        "SELECT pg_advisory_lock('live'::regclass::oid::int, %s + abs(hashtext(%s) %% 32))", (first, found["t"])
    )
    refused = db.execute(f"SELECT {begin}(%s) AS buckets".encode(), (["a", found["t"]],)).fetchone()
    assert refused == {"buckets": []}
    assert held_by(db) == 1
    db.execute(f"SELECT {end}(ARRAY['a'])".encode())
    assert held_by(db) == 0


def test_a_search_for_sleepers_refuses_no_sleeper(db: Db, connect: Connect) -> None:
    """Producers hold the lock of a bucket for a moment, at each enqueue."""
    producers = [connect() for _ in range(3)]
    look = "SELECT count(has_sleeper('a')) FROM generate_series(1, 20000)"
    with ThreadPoolExecutor(len(producers)) as pool:
        looking = [pool.submit(producer.execute, look) for producer in producers]
        rounds = 0
        while rounds < 20 or not all(each.done() for each in looking):
            row = db.execute("SELECT add_sleeper(ARRAY['a']) AS buckets").fetchone()
            assert row is not None
            assert row["buckets"]
            db.execute("SELECT remove_sleeper(ARRAY['a'])")
            rounds += 1
        for each in looking:
            each.result()


# Bulks with keys


def bulk(queue: JobQueue, conn: psycopg.Connection[Any], count: int) -> int:
    return queue.enqueue_many("a", range(count), key=str, conn=conn)


@pytest.mark.parametrize("count", [2, BULK_SIZE + 1])
@pytest.mark.parametrize("form", ["", "_shared"])
def test_a_bulk_does_not_wait_for_a_session_that_adds_no_jobs(
    queue: JobQueue, connect: Connect, hold: Hold, count: int, form: str
) -> None:
    holder = hold("'types'::regclass::oid::int, hashtext('a')", form)
    conn = connect()
    conn.execute(BOUND)
    said: list[str] = []
    conn.add_notice_handler(lambda note: said.append(f"{note.message_primary} {note.message_hint}"))
    assert bulk(queue, conn, count) == count
    if not (form and count == 2):
        assert f"pid {holder.info.backend_pid} holds their lock" in said[0]
        assert f"pg_terminate_backend({holder.info.backend_pid})" in said[0]
    assert conn.execute("SHOW lock_timeout").fetchone() == {"lock_timeout": "0"}


def test_a_bulk_does_not_wait_for_a_session_that_only_reads_jobs(queue: JobQueue, connect: Connect) -> None:
    reader, conn = connect(autocommit=False), connect()
    reader.execute("SELECT count(*) FROM live_jobs")
    reader.execute("SELECT pg_advisory_xact_lock('types'::regclass::oid::int, hashtext('a'))")
    conn.execute(BOUND)
    assert bulk(queue, conn, 2) == 2


def test_a_bulk_waits_for_one_that_adds_jobs_however_long(queue: JobQueue, connect: Connect, db: Db) -> None:
    first, second = connect(autocommit=False), connect()
    second.execute(BOUND)
    bulk(queue, first, BULK_SIZE + 1)
    pid = second.info.backend_pid
    waits = "SELECT waitstart FROM pg_locks WHERE pid = %s AND NOT granted"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bulk, queue, second, BULK_SIZE + 2)
        seen: set[Any] = set()
        # It waits again and again, and has not ended.
        while len(seen) < 3:
            assert not waiting.done()
            seen |= {row["waitstart"] for row in db.execute(waits, (pid,)).fetchall() if row["waitstart"]}
        first.commit()
        assert waiting.result() == 1


# A type that becomes ordered


def declare(db: Db, *, ordered: bool = True) -> None:
    db.execute("SELECT declare_type('o', p_ordered => %s)", (ordered,))


def settled(db: Db) -> bool:
    row = db.execute("SELECT settling FROM types WHERE job_type = 'o'").fetchone()
    assert row is not None
    return row["settling"] is None


def recover(db: Db) -> None:
    db.execute("SELECT recover()")


@pytest.mark.parametrize("isolation", [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ])
@pytest.mark.parametrize("ordered", [True, False])
def test_an_open_producer_blocks_nothing_and_its_jobs_follow(
    queue: JobQueue, db: Db, connect: Connect, isolation: IsolationLevel, ordered: bool
) -> None:
    if not ordered:
        declare(db)
        recover(db)
    adding = connect(autocommit=False)
    adding.commit()
    adding.isolation_level = isolation
    adding.execute("SELECT enqueue('o')")
    declare(db, ordered=ordered)
    # If it is stricter, it adds jobs by the state of the type when it began.
    adding.execute("SELECT enqueue('o')")
    impatient = connect()
    impatient.execute("SET lock_timeout = '1s'")
    impatient.execute("SELECT enqueue('o')")
    recover(db)
    assert not settled(db)
    (job,) = queue.claim(["o"], 5)
    queue.complete(job)
    adding.commit()
    recover(db)
    assert settled(db)
    keys = {row["order_key"] for row in db.execute("SELECT order_key FROM live").fetchall()}
    assert keys == {"" if ordered else None}
    assert len(queue.claim(["o"], 5)) == (1 if ordered else 2)


def test_a_job_that_was_added_as_its_type_became_ordered_keeps_its_place(db: Db, connect: Connect) -> None:
    adding = connect(autocommit=False)
    first = adding.execute("SELECT id FROM enqueue('o')").fetchall()
    declare(db)
    adding.commit()
    second = db.execute("SELECT id FROM enqueue('o')").fetchall()
    for expected in (first, second):
        held = db.execute("SELECT id, token FROM claim('w', ARRAY['o'], 5)").fetchall()
        assert [{"id": row["id"]} for row in held] == expected
        db.execute("SELECT complete(ARRAY[%(id)s], ARRAY[%(token)s])", held[0])


def test_a_transaction_that_begins_before_the_declaration_is_committed_counts(db: Db, connect: Connect) -> None:
    declaring, adding = connect(autocommit=False), connect(autocommit=False)
    declare(declaring)
    adding.execute("SELECT enqueue('o')")
    declaring.commit()
    recover(db)
    assert not settled(db)
    adding.commit()
    recover(db)
    assert settled(db)
    assert db.execute("SELECT order_key FROM live").fetchall() == [{"order_key": ""}]


def test_a_locked_row_follows_when_it_is_free(db: Db, connect: Connect) -> None:
    db.execute("SELECT enqueue('o')")
    plain = connect(autocommit=False)
    plain.execute("SELECT FROM jobs FOR UPDATE")
    declare(db)
    recover(db)
    assert not settled(db)
    plain.rollback()
    recover(db)
    # The transaction was there when it was looked for; the next sweep finds that it is over.
    recover(db)
    assert settled(db)
    assert db.execute("SELECT order_key FROM live").fetchall() == [{"order_key": ""}]


def test_jobs_that_follow_wake_sleepers(db: Db, connect: Connect) -> None:
    adding = connect(autocommit=False)
    adding.execute("SELECT enqueue('o')")
    declare(db)
    recover(db)
    sleeper = connect()
    row = sleeper.execute("SELECT channel() AS name").fetchone()
    assert row is not None
    sleeper.execute(f'LISTEN "{row["name"]}"'.encode())
    adding.commit()
    sleeper.execute("SELECT add_sleeper(ARRAY['o'])")
    recover(db)
    assert [note.payload.split()[0] for note in sleeper.notifies(timeout=30, stop_after=1)] == ["wake"]


@pytest.fixture
def autovacuum(db: Db) -> Iterator[Callable[[], bool]]:
    """A process of autovacuum that is busy with a table of this database for long. Yields a check whether it still is."""
    busy = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'autovacuum: VACUUM%public.slow%'"
    db.execute(
        "CREATE TABLE public.slow (line text) WITH (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_cost_delay = 100,"
        " autovacuum_vacuum_cost_limit = 1)"
    )
    db.execute("INSERT INTO public.slow SELECT repeat('x', 900) FROM generate_series(1, 8000)")
    db.execute("DELETE FROM public.slow")
    db.execute("SELECT pg_stat_force_next_flush()")
    db.execute("ALTER SYSTEM SET autovacuum_naptime = 1")
    db.execute("SELECT pg_reload_conf()")
    try:
        until = time.monotonic() + 60
        while db.execute(busy).fetchone() is None:
            assert time.monotonic() < until, "autovacuum does not come"
        yield lambda: db.execute(busy).fetchone() is not None
    finally:
        db.execute("ALTER SYSTEM RESET autovacuum_naptime")
        db.execute("SELECT pg_reload_conf()")
        db.execute("DROP TABLE public.slow")


def test_a_type_does_not_wait_for_autovacuum(db: Db, autovacuum: Callable[[], bool]) -> None:
    declare(db)
    recover(db)
    recover(db)
    assert settled(db)
    assert autovacuum()


# Rows that an operator has locked, in a transaction that stays open


@pytest.fixture
def operator(connect: Connect) -> Db:
    return connect(autocommit=False)


def test_a_type_that_does_not_change_is_declared_beside_an_open_pause(db: Db, operator: Db) -> None:
    db.execute("SELECT declare_type('o', p_priority => 7)")
    operator.execute("SELECT pause_type('o')")
    db.execute("SELECT declare_type('o', p_priority => 7)")
    with pytest.raises(errors.LockNotAvailable):
        db.execute("SELECT declare_type('o', p_priority => 8)")


@pytest.mark.parametrize(
    "call",
    [
        "heartbeat('w', %(incarnation)s)",
        "register_worker('w', gen_random_uuid())",
        "unregister_worker('w', %(incarnation)s)",
    ],
)
def test_a_worker_stops_waiting_soon_for_its_locked_row(db: Db, operator: Db, call: str) -> None:
    incarnation = "00000000-0000-0000-0000-000000000001"
    db.execute("SELECT register_worker('w', %s)", (incarnation,))
    operator.execute("SELECT FROM workers FOR UPDATE")
    with pytest.raises(errors.LockNotAvailable):
        db.execute(f"SELECT {call}".encode(), {"incarnation": incarnation})
    operator.rollback()
    db.execute(f"SELECT {call}".encode(), {"incarnation": incarnation})


def test_the_sweep_stops_waiting_soon_for_locked_workers(db: Db, operator: Db) -> None:
    operator.execute("LOCK TABLE workers IN ACCESS EXCLUSIVE MODE")
    with pytest.raises(errors.LockNotAvailable):
        recover(db)


def test_a_schedule_that_is_locked_does_not_keep_others_from_firing(queue: JobQueue, db: Db, operator: Db) -> None:
    for name in ("locked", "free"):
        db.execute(
            "SELECT schedule(%s, 'a', p_every => '1 hour', p_next_run_at => now() - interval '1 minute')", (name,)
        )
    operator.execute("SELECT FROM schedules WHERE name = 'locked' FOR UPDATE")
    report = queue._database.run(schedules.fire_due(queue._context))
    assert report.fired == 1
    assert [name for name, _ in report.errors] == ["locked"]
    operator.rollback()
    assert queue._database.run(schedules.fire_due(queue._context)).fired == 1


def test_operators_do_not_wait_for_ever_for_a_job_that_another_transaction_has_locked(
    queue: JobQueue, db: Db, operator: Db
) -> None:
    """A producer that has sent a signal to it, for example, or a plain client that works."""
    pending, ended = queue.enqueue("a"), queue.enqueue("a")
    queue.cancel(ended)
    operator.execute("SELECT FROM jobs FOR UPDATE")
    calls: list[Callable[[], object]] = [
        lambda: queue.cancel(pending),
        lambda: queue.delete(pending),
        lambda: queue.reprioritise(pending, 5),
        lambda: queue.reschedule(pending, delay=5),
        lambda: queue.retry(ended),
    ]
    with ThreadPoolExecutor(len(calls)) as pool:
        failures = [running.exception(60) for running in [pool.submit(call) for call in calls]]
    for failure in failures:
        assert isinstance(failure, errors.LockNotAvailable)
        assert "howdah doctor names old ones" in failure.__notes__[0]
    operator.rollback()
    assert all(call() for call in calls[2:])
