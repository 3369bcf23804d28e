"""Statements are prepared where that is possible. Where it is not, or when a prepared one is lost, no call fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import psycopg
import pytest

from howdah import JobQueue
from howdah.db import statements
from howdah.db.outage import Outage
from howdah.worker import calls
from howdah.worker.connection import WorkerConnection
from tests.conftest import Connect, Db

DEALLOCATE = b"DEALLOCATE ALL"  # past psycopg, which would notice
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
