"""A job that another transaction has locked keeps only itself waiting: the others of its batch are written, and it is at once
when the lock is gone."""

from __future__ import annotations

import asyncio
from types import GeneratorType
from typing import Any

import psycopg
import pytest

from howdah import Job, JobQueue
from howdah.db.plan import Plan
from howdah.handlers.outcome import Fail
from howdah.worker import Worker, WorkerSummary, calls
from howdah.worker.calls import claim_ref
from howdah.worker.connection import WorkerConnection
from tests.conftest import Db
from tests.worker.in_process import ended, run, statuses, until, working

LOCK = "SELECT FROM howdah.jobs WHERE id = ANY (%s) FOR UPDATE"
"""As a plain client does."""


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many endings each call was to write."""
    sizes: list[int] = []
    original = WorkerConnection.run

    async def counted(connection: WorkerConnection, plan: Plan[Any]) -> Any:
        if isinstance(plan, GeneratorType) and plan.__name__ == "end" and plan.gi_frame is not None:
            sizes.append(len(plan.gi_frame.f_locals["ended"]))
        return await original(connection, plan)

    monkeypatch.setattr(WorkerConnection, "run", counted)
    return sizes


@pytest.mark.parametrize("reports", [False, True], ids=["silent", "with a report"])
@pytest.mark.parametrize("fails", [False, True], ids=["completes", "fails"])
def test_a_locked_job_keeps_no_other_from_ending(
    queue: JobQueue, db: Db, dsn: str, ends: list[int], fails: bool, reports: bool
) -> None:
    begun: list[Job] = []
    go_on = asyncio.Event()

    @queue.job(max_attempts=1)
    async def work(job: Job) -> Fail | None:
        begun.append(job)
        await go_on.wait()
        if reports:
            job.event("last words")
        return Fail("as asked") if fails else None

    end = "failed" if fails else "completed"

    async def main() -> list[Job]:
        jobs = [await work.aenqueue() for _ in range(60)]
        async with working(queue, concurrency=60):
            await until(lambda: len(begun) == 60)
            with psycopg.connect(dsn) as client:
                client.execute(LOCK, ([jobs[7].id, jobs[30].id],))
                go_on.set()
                await until(lambda: statuses(db, "work") == {end: 58, "running": 2})
            return [await ended(queue, job) for job in jobs]

    assert {(job.status, job.attempts) for job in run(main())} == {(end, 1)}
    # The batch was not divided to find them.
    assert not [size for size in ends if 2 < size < 30]


@pytest.mark.parametrize("count", [1, 7])
def test_an_end_that_cannot_be_written_before_the_worker_ends_is_named_and_changes_its_exit_code(
    queue: JobQueue,
    db: Db,
    dsn: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
) -> None:
    # Otherwise it waits for a lease, which must be long: a worker without heartbeats releases its jobs.
    patient = Worker._within
    monkeypatch.setattr(Worker, "_within", lambda worker, _, *awaited: patient(worker, 1, *awaited))
    begun: list[Job] = []
    go_on = asyncio.Event()

    @queue.job
    async def work(job: Job) -> None:
        begun.append(job)
        await go_on.wait()

    async def main() -> WorkerSummary:
        jobs = [await work.aenqueue() for _ in range(count + 1)]
        async with working(queue, lease=60) as worker:
            await until(lambda: len(begun) == count + 1)
            client = psycopg.connect(dsn)
            client.execute(LOCK, ([job.id for job in jobs[1:]],))
            go_on.set()
            await until(lambda: statuses(db, "work").get("completed") == 1)
        client.close()
        return worker.summary

    summary = run(main())
    assert (summary.exit_code, summary.counts["unwritten"]) == (6, count)
    (message,) = [record.getMessage() for record in caplog.records if getattr(record, "event", None) == "unwritten"]
    assert message.startswith("the end of 1 job could" if count == 1 else "the ends of 7 jobs could")
    assert sum(str(job.id) in message for job in begun) == min(count, 5)
    assert message.endswith(" and 2 more") == (count == 7)


def test_a_locked_job_is_not_started_and_the_others_are(queue: JobQueue, db: Db, dsn: str) -> None:
    queue.enqueue_many("work", [{}] * 3)
    held = queue.claim(["work"])
    start = calls.start(queue._context, [claim_ref(job) for job in held])
    with psycopg.connect(dsn) as client:
        client.execute(LOCK, ([held[1].id],))
        assert queue._database.run(start) == {held[0].id, held[2].id}
    assert [queue.get(job).status for job in held] == ["running", "claimed", "running"]
