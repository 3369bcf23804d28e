"""A worker whose locks another session holds: it works all the same, and its log names that session."""

from __future__ import annotations

import asyncio
import logging

import psycopg
import pytest

from howdah import Job, JobQueue
from howdah.worker.claim import claimer
from tests.conftest import Db
from tests.worker.in_process import ended, run, sleeps, until, working

TAKE = "SELECT pg_advisory_lock('howdah.live'::regclass::oid::int, n) FROM generate_series(0, 95) AS n"


def said(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if getattr(record, "event", None) == event]


@pytest.mark.parametrize("application", ["by hand", ""])
def test_a_worker_that_cannot_register_as_asleep_polls_and_tries_again(
    queue: JobQueue,
    db: Db,
    dsn: str,
    application: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(claimer, "ASK_AGAIN_AFTER", 0.2)

    # Two slot groups, each with a claimer that would sleep.
    @queue.job
    async def work() -> None: ...

    @queue.job
    def in_a_thread() -> None: ...

    async def main() -> None:
        with psycopg.connect(dsn, autocommit=True, application_name=application) as holder:
            holder.execute(TAKE)
            async with working(queue):
                await until(lambda: said(caplog, "sleep_refused"))
                for handler in (work, in_a_thread):
                    assert (await ended(queue, await handler.aenqueue())).status == "completed"
                (message,) = said(caplog, "sleep_refused")
                pid = holder.info.backend_pid
                assert f"pid {pid} of role " in message
                assert (f"({application})" if application else " holds an") in message
                assert "()" not in message
                assert f"SELECT pg_terminate_backend({pid});" in message
                holder.execute("SELECT pg_advisory_unlock_all()")
                await until(lambda: said(caplog, "sleep_granted"))
                await until(lambda: sleeps(db, "work"))

    with caplog.at_level(logging.INFO, logger="howdah.worker"):
        run(main())


@pytest.mark.parametrize("batch", [False, True])
def test_a_type_that_cannot_be_declared_is_not_claimed_and_the_others_are(
    queue: JobQueue, db: Db, dsn: str, caplog: pytest.LogCaptureFixture, batch: bool
) -> None:
    running: set[str] = set()
    together: list[int] = []

    @queue.job
    async def work() -> None: ...

    if batch:

        @queue.job(name="held", priority=7, batch_size=5)
        async def held(jobs: list[Job]) -> None: ...

    else:

        @queue.job(name="held", ordered=True)
        async def held_in_line(job: Job) -> None:
            running.add(str(job.id))
            together.append(len(running))
            await asyncio.sleep(0)
            running.discard(str(job.id))

    async def main() -> None:
        with psycopg.connect(dsn) as operator:
            operator.execute("SELECT howdah.pause_type('held')")
            async with working(queue):
                jobs = [await queue.aenqueue("held") for _ in range(5)]
                for _ in range(3):
                    assert (await ended(queue, await work.aenqueue())).status == "completed"
                (message,) = said(caplog, "undeclared")
                assert "held. another transaction has locked" in message
                assert {(await queue.aget(job)).status for job in jobs} == {"pending"}
                operator.rollback()
                for job in jobs:
                    assert (await ended(queue, job)).status == "completed"

    run(main())
    assert set(together) <= {1}


def test_a_lock_on_the_row_of_the_worker_is_logged_with_the_table(
    queue: JobQueue, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the start nor the heartbeat waits forever."""

    @queue.job
    async def work() -> None: ...

    async def main() -> None:
        with psycopg.connect(dsn) as operator:
            operator.execute("SELECT howdah.register_worker('w', gen_random_uuid())")
            async with working(queue, name="w"):
                await until(lambda: said(caplog, "database_lost"))
                operator.rollback()
                assert (await ended(queue, await work.aenqueue())).status == "completed"

    run(main())
    assert 'relation "workers"' in said(caplog, "database_lost")[0]
