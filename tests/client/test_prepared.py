"""Statements are prepared where that is possible. Where it is not, or when a prepared one is lost, no call fails."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from psycopg.abc import PQGen
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from howdah import JobQueue, PayloadTooLarge
from howdah.db import prepared, statements
from howdah.db.outage import Outage
from howdah.worker import calls
from howdah.worker.connection import WorkerConnection
from tests.conftest import Connect, Db

DEALLOCATE = b"DEALLOCATE ALL"  # past psycopg, which would notice
WAITING = "SELECT pid FROM pg_locks WHERE relation = 'howdah.live'::regclass AND NOT granted"
PREPARED = "SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%howdah%'"
CHANGED_RESULT = """
DO $$ DECLARE f record; BEGIN
    -- As a migration does that adds a column to what the function answers.
    SELECT pg_get_functiondef(oid) AS text INTO f FROM pg_proc WHERE oid = 'howdah.enqueue'::regproc;
    DROP FUNCTION howdah.enqueue;
    EXECUTE replace(f.text, 'retry_policy jsonb)' || E'\n LANGUAGE', 'retry_policy jsonb, more int)' || E'\n LANGUAGE');
END $$
"""


@pytest.fixture(autouse=True)
def _as_before(dsn: str) -> Iterator[None]:
    """Whatever a test made of the function, the next one finds it as it was."""
    yield
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("DROP FUNCTION howdah.enqueue")
        conn.execute(statements.render(statements.source("functions/enqueue"), "howdah").encode())


def forgotten(queue: JobQueue) -> None:
    """What a pooler does that gives each transaction to another backend."""
    with queue._database.pool().connection() as conn:
        conn.pgconn.exec_(DEALLOCATE)


def changed(queue: JobQueue) -> None:
    with psycopg.connect(queue.dsn, autocommit=True) as conn:
        conn.execute(CHANGED_RESULT)


def test_what_is_sent_again_and_again_is_prepared(queue: JobQueue) -> None:
    for _ in range(5):
        queue.enqueue("work")
    with queue._database.pool().connection() as conn:
        assert conn.execute(PREPARED).fetchall() != []


def test_a_call_is_prepared_when_it_comes_for_the_third_time(queue: JobQueue) -> None:
    counts = []
    for _ in range(4):
        queue.enqueue("work")
        with queue._database.pool().connection() as conn:
            counts.append(len(conn.execute(PREPARED, prepare=False).fetchall()))
    assert counts == [0, 0, 1, 1]


def test_each_set_of_arguments_and_types_has_its_own_statement(queue: JobQueue) -> None:
    kinds: list[dict[str, Any]] = [
        {},
        {"priority": 1},
        {"priority": 2**31 - 1},
        {"delay": 5},
        {"run_at": datetime.now(timezone.utc) + timedelta(days=1)},
        {"retry_policy": {"kind": "fixed", "delay": 5}, "meta": {"a": "ä"}},
        {"key": "k"},
    ]
    for _ in range(5):
        for kind in kinds:
            job = queue.enqueue("wörk", {"ä": 1}, **kind)
            assert dataclasses.replace(queue.get(job.id), created=job.created) == job


def test_a_prepared_call_has_the_same_errors(queue: JobQueue, db: Db) -> None:
    db.execute("UPDATE settings SET max_payload_bytes = 65536")
    with JobQueue(queue.dsn, max_payload_bytes=1_000_000) as queue:
        messages = set()
        for _ in range(5):
            with pytest.raises(PayloadTooLarge) as caught:
                queue.enqueue("work", "x" * 70_000)
            messages.add(str(caught.value))
        assert len(messages) == 1
        assert queue.enqueue("work", 1).data == 1


def test_a_prepared_call_can_be_interrupted(queue: JobQueue, connect: Connect, db: Db) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def when_it_waits() -> None:
        waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%enqueue%$1%'"
        assert any(db.execute(waiting, prepare=False).fetchall() for _ in range(200_000))
        signal.pthread_kill(main, signal.SIGUSR1)

    for _ in range(5):
        queue.enqueue("work")
    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, interrupt)
    locker = connect(autocommit=False)
    locker.execute("LOCK TABLE live IN SHARE MODE")
    helper = threading.Thread(target=when_it_waits)
    try:
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            queue.enqueue("interrupted")
    finally:
        helper.join()
        signal.signal(signal.SIGUSR1, before)
        locker.rollback()
    queue.enqueue("work")
    assert {job.job_type for job in queue.list()} == {"work"}


def test_a_signal_inside_of_a_call_leaves_a_usable_connection(
    queue: JobQueue, db: Db, caplog: pytest.LogCaptureFixture
) -> None:
    runs = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"

    def sleep(conn: psycopg.Connection[Any]) -> PQGen[None]:
        conn.pgconn.send_query(b"SELECT pg_sleep(600)")
        # The rest continues after a cancellation before it runs.
        while db.execute(runs, (conn.info.backend_pid,)).fetchone() is None:
            pass
        if conn.pgconn.is_busy():
            raise KeyboardInterrupt
        yield from execute(conn.pgconn)

    with queue._database.pool().connection() as conn:
        with pytest.raises(KeyboardInterrupt):
            conn.wait(sleep(conn))
        assert conn.info.transaction_status == TransactionStatus.IDLE
    assert queue.enqueue("work", 1).data == 1
    assert not caplog.records


def test_a_signal_inside_of_a_pipeline_does_not_wait_for_an_end_that_never_comes(queue: JobQueue) -> None:
    def send(conn: psycopg.Connection[Any]) -> PQGen[None]:
        # Without a sync, the server answers nothing.
        conn.pgconn.send_query_params(b"SELECT 1", None)
        if conn.pgconn.transaction_status == TransactionStatus.ACTIVE:
            raise KeyboardInterrupt
        yield from execute(conn.pgconn)

    pool = queue._database.pool()
    conn = pool.getconn()
    conn.pgconn.enter_pipeline_mode()
    with pytest.raises(KeyboardInterrupt):
        conn.wait(send(conn))
    pool.putconn(conn)
    assert queue.enqueue("work", 1).data == 1


@pytest.mark.parametrize("lost", [forgotten, changed])
def test_a_statement_that_is_no_longer_prepared_is_sent_again(
    queue: JobQueue, lost: Callable[[JobQueue], None]
) -> None:
    before = [queue.enqueue("work").id for _ in range(5)]
    lost(queue)
    after = [queue.enqueue("work").id for _ in range(5)]
    assert {job.id for job in queue.list()} == {*before, *after}


@pytest.mark.parametrize("lost", ["DEALLOCATE ALL", CHANGED_RESULT])
def test_so_is_one_of_an_awaited_verb(queue: JobQueue, lost: str) -> None:
    async def main() -> int:
        for _ in range(5):
            await queue.aenqueue("work")
        async with (await queue._database.apool()).connection() as conn:
            conn.pgconn.exec_(lost.encode())
        for _ in range(5):
            await queue.aenqueue("work")
        jobs = await queue.alist()
        await queue.aclose()
        return len(jobs)

    assert asyncio.run(main()) == 10


def test_inside_of_a_transaction_nothing_is_prepared_because_it_could_not_be_sent_again(
    queue: JobQueue, connect: Connect, db: Db
) -> None:
    queue.enqueue("other")
    conn = connect(autocommit=False)
    conn.prepare_threshold = 2
    for _ in range(10):
        queue.enqueue("work", conn=conn)
    assert conn.execute(PREPARED, prepare=False).fetchall() == []
    conn.commit()
    assert db.execute("SELECT count(*) AS n FROM howdah.live WHERE job_type = 'work'").fetchall()[0]["n"] == 10


def test_a_workers_own_connection_goes_on_too(queue: JobQueue) -> None:
    async def main() -> int:
        queue._database.prepare()
        connection = WorkerConnection(queue._database, Outage(logging.getLogger("test")))
        found = [await connection.run(calls.next_due(queue._context, ["work"])) for _ in range(5)]
        assert connection._conn is not None
        connection._conn.pgconn.exec_(DEALLOCATE)
        found += [await connection.run(calls.next_due(queue._context, ["work"])) for _ in range(5)]
        generation = connection.generation
        await connection.close()
        assert found == [None] * 10
        return generation

    assert asyncio.run(main()) == 1


def test_a_prepared_call_whose_backend_is_ended_is_sent_again(queue: JobQueue, connect: Connect) -> None:
    """The server gives a reason and closes the connection: the driver reports both."""
    for _ in range(5):
        queue.enqueue("work")
    watcher, blocker = connect(), connect(autocommit=False)
    for number in range(5):
        blocker.execute("LOCK TABLE howdah.live IN EXCLUSIVE MODE")
        made: list[uuid.UUID] = []
        producer = threading.Thread(target=lambda: made.append(queue.enqueue("work", {"n": number}).id))  # noqa: B023
        producer.start()
        while not (waiting := watcher.execute(WAITING).fetchall()):
            pass
        watcher.execute("SELECT pg_terminate_backend(%s, 10000)", (waiting[0]["pid"],))
        blocker.rollback()
        producer.join()
        assert len(made) == 1
    assert watcher.execute("SELECT count(*) AS jobs FROM howdah.live").fetchone() == {"jobs": 10}


def test_of_several_results_the_error_is_raised(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends a connection in the middle of a call gives several."""
    for _ in range(5):
        queue.enqueue("work")

    def with_an_error(pgconn: PGconn) -> PQGen[list[PGresult]]:
        results = yield from execute(pgconn)
        return [pgconn.make_empty_result(ExecStatus.FATAL_ERROR), *results]

    monkeypatch.setattr(prepared, "execute", with_an_error)
    with pytest.raises(psycopg.Error):
        queue.enqueue("work")
