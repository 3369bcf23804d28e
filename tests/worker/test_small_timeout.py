"""Workers whose login has a statement_timeout below what a batch takes: smaller batches get through."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from howdah import Fixed, Job, JobQueue
from tests.conftest import Db
from tests.worker.in_process import drain, run, statuses, until, working

TIMEOUT = 0.4
A_ROW = 0.02
"""Seconds that each row takes: so twenty are too many, however fast the machine."""


@contextlib.contextmanager
def slow(db: Db, table: str, moment: str, condition: str = "true", seconds: float = A_ROW) -> Iterator[None]:
    """Meanwhile each such row takes so long."""
    db.execute(
        "CREATE FUNCTION public.howdah_test_slow() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN PERFORM pg_catalog.pg_sleep({seconds}); RETURN NEW; END $$"
    )
    db.execute(
        f"CREATE TRIGGER howdah_test_slow BEFORE {moment} ON howdah.{table} FOR EACH ROW WHEN ({condition})"
        " EXECUTE FUNCTION public.howdah_test_slow()"
    )
    try:
        yield
    finally:
        db.execute("DROP FUNCTION public.howdah_test_slow() CASCADE")


@pytest.fixture
def hurried(dsn: str) -> Iterator[JobQueue]:
    """A queue whose connections may take no longer."""
    with JobQueue(make_conninfo(dsn, options=f"-c statement_timeout={int(TIMEOUT * 1000)}")) as queue:
        yield queue


# What each of a hundred jobs does at its end, and the rows that then take long.
ENDINGS = {
    "completes": ("archive_open", "INSERT", "true", {"completed": 100}),
    "fails": ("live", "UPDATE", "NEW.status = 'pending'", {"pending": 100}),
    "is claimed": ("live", "UPDATE", "OLD.status = 'pending'", {"completed": 100}),
    "is started": ("live", "UPDATE", "OLD.status = 'claimed'", {"completed": 100}),
}


@pytest.mark.parametrize("what", ENDINGS)
def test_batches_are_halved_until_they_pass(hurried: JobQueue, db: Db, what: str) -> None:
    together = asyncio.Event()
    running = 0

    @hurried.job(max_attempts=2, retry=Fixed(3600))
    async def work() -> None:
        nonlocal running
        running += 1
        if running >= 100 or what in ("is claimed", "is started"):
            together.set()
        await together.wait()
        if what == "fails":
            raise ValueError("broken")

    hurried.enqueue_many("work", [{} for _ in range(100)])
    table, moment, condition, ended = ENDINGS[what]
    with slow(db, table, moment, condition):
        report = drain(hurried, concurrency=10 if what == "is started" else 100)
    assert statuses(db, "work") == ended
    assert report.exit_code == 0
    attempts = db.execute("SELECT max(attempts) AS most, max(crashes) AS crashes FROM job_details").fetchone()
    assert attempts == {"most": 1, "crashes": 0}


def test_reports_are_halved_until_they_pass(hurried: JobQueue, db: Db) -> None:
    @hurried.job
    async def work(job: Job) -> None:
        job.progress(50, "half")
        for n in range(3):
            job.event("seen", n=n)
        await asyncio.sleep(0.5)

    hurried.enqueue_many("work", [{} for _ in range(60)])
    with slow(db, "events_open", "INSERT", "NEW.kind <> 'status'", seconds=0.01):
        drain(hurried, concurrency=100)
    assert statuses(db, "work") == {"completed": 60}
    told = db.execute("SELECT count(*) AS n FROM events WHERE name = 'seen'").fetchone()
    assert told == {"n": 180}


def test_an_end_too_slow_to_write_blocks_only_itself_and_logs_a_remedy(
    hurried: JobQueue, db: Db, caplog: pytest.LogCaptureFixture
) -> None:
    @hurried.job
    async def work(n: int) -> int:
        return n

    async def main() -> None:
        jobs = [await work.aenqueue(n=n) for n in range(30)]
        async with working(hurried, concurrency=30):
            with slow(db, "archive_open", "INSERT", f"NEW.id = '{jobs[7].id}'", seconds=10):
                await until(lambda: statuses(db, "work") == {"completed": 29, "running": 1})
                await until(lambda: "ALTER ROLE … SET statement_timeout" in caplog.text)
                said = [record for record in caplog.records if getattr(record, "event", None) == "cut_short"]
                assert str(jobs[7].id) in said[0].getMessage()
                assert (await work.aenqueue(n=1)).status == "pending"
                await until(lambda: statuses(db, "work") == {"completed": 30, "running": 1})
            await until(lambda: statuses(db, "work") == {"completed": 31})
        ended = await hurried.aget(jobs[7])
        assert (ended.result, ended.attempts) == (7, 1)
        assert len([each for each in caplog.records if each.levelno >= logging.ERROR]) < 5, (
            "it does not log it for ever"
        )

    run(main())


def test_what_a_dead_worker_held_comes_back_in_portions(hurried: JobQueue, db: Db) -> None:
    @hurried.job
    async def work() -> None: ...

    hurried.enqueue_many("work", [{} for _ in range(100)])
    db.execute("SELECT register_worker('dead', gen_random_uuid(), '1 second')")
    db.execute("SELECT * FROM claim('dead', ARRAY['work'], 100, 100)")
    db.execute("UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour' WHERE worker_id = 'dead'")

    async def main() -> None:
        async with working(hurried, sweep=0.1, heartbeat=0.1, lease=0.5):
            await until(lambda: statuses(db, "work") == {"completed": 100})

    with slow(db, "live", "UPDATE", "OLD.worker_id = 'dead' AND NEW.status = 'pending'"):
        run(main())
    assert not db.execute("SELECT FROM workers WHERE worker_id = 'dead'").fetchall()


# Producers


def test_chunks_of_a_bulk_are_halved_until_they_pass(hurried: JobQueue, db: Db) -> None:
    with slow(db, "live", "INSERT"):
        added = hurried.enqueue_many("work", ({"n": n} for n in range(70)), chunk_size=50, return_ids=True)
        keyed = hurried.enqueue_many("keyed", range(40), key=str, chunk_size=40)
    rows = db.execute("SELECT id, data FROM live WHERE job_type = 'work' ORDER BY id").fetchall()
    assert [row["data"]["n"] for row in rows] == list(range(70))
    assert (added, added.ids) == (70, [row["id"] for row in rows])
    assert keyed == 40


def test_a_bulk_in_one_transaction_enqueues_nothing_and_names_the_remedy(hurried: JobQueue, db: Db) -> None:
    with slow(db, "live", "INSERT"), pytest.raises(psycopg.errors.QueryCanceled) as refused:
        hurried.enqueue_many("work", ({} for _ in range(70)))
    assert "chunk_size" in "".join(refused.value.__notes__)
    assert statuses(db, "work") == {}
