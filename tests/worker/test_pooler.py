"""A worker behind a real PgBouncer in transaction mode: no notification arrives there, and no session state stays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from howdah import JobQueue
from tests.pooler import pgbouncer


@pytest.fixture
def pooled_dsn(dsn: str) -> Iterator[str]:
    """The test's database through a PgBouncer of its own."""
    with pgbouncer(dsn) as pooled:
        yield pooled


def test_a_worker_behind_a_pooler_polls_logs_it_once_and_leaves_no_lock_behind(
    pooled_dsn: str, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "howdah.worker")

    async def scenario() -> None:
        async with JobQueue(pooled_dsn) as queue:
            done = asyncio.Queue[int]()

            @queue.job
            async def count(n: int) -> int:
                done.put_nowait(n)
                return n

            worker = queue.worker(lease=4, heartbeat=0.5, poll=0.1)
            running = asyncio.create_task(worker.run())
            async with asyncio.timeout(240):
                await queue.aenqueue_many("count", ({"n": n} for n in range(500)))
                assert sorted([await done.get() for _ in range(500)]) == list(range(500))
                while not _polling_warnings(caplog):
                    await asyncio.sleep(0.05)
                # Once more, after it has found the pooler.
                await count.aenqueue(n=500)
                assert await done.get() == 500
                worker.stop()
                report = await running
            assert report.counts["completed"] == 501
            assert report.exit_code == 0

    asyncio.run(scenario())
    assert len(_polling_warnings(caplog)) == 1
    with psycopg.connect(dsn) as conn:
        locks = conn.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
    assert locks == (0,), "a sleeper's lock stays with a server connection that another client gets next"


def test_clients_prepare_nothing_where_each_transaction_may_have_another_backend(pooled_dsn: str, dsn: str) -> None:
    with JobQueue(dsn) as direct:
        direct.migrate()
    with JobQueue(pooled_dsn, pool_size=10) as queue, ThreadPoolExecutor(10) as threads:
        jobs = list(threads.map(lambda n: queue.enqueue("work", {"n": n}), range(300)))
        found = list(threads.map(lambda job: queue.get(job.id).data["n"], jobs))
        assert queue.enqueue_many("work", ({"n": n} for n in range(5_000))) == 5_000
        prepared = "SELECT count(*) FROM pg_prepared_statements"
        with psycopg.connect(pooled_dsn, prepare_threshold=None, autocommit=True) as conn:
            assert {conn.execute(prepared).fetchone() for _ in range(20)} == {(0,)}
    assert found == list(range(300))


def _polling_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if getattr(record, "event", None) == "polling_only"]
