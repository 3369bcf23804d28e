"""Producers that are faster than the workers: they wait for room, and every job runs."""

from __future__ import annotations

import asyncio

from howdah import JobQueue
from tests.conftest import Db

JOBS = 12
MOST = 3


def test_producers_wait_for_workers_and_every_job_runs_once(queue: JobQueue, db: Db) -> None:
    ran: list[int] = []
    longest = 0

    @queue.job(max_pending=MOST, when_full="wait", concurrency=1)
    async def work(n: int) -> None:
        nonlocal longest
        row = db.execute("SELECT pending FROM backlogs WHERE job_type = 'work'").fetchone()
        assert row is not None
        longest = max(longest, row["pending"])
        ran.append(n)

    async def produce_and_work() -> None:
        async with queue:
            worker = asyncio.create_task(queue.run_worker())
            while not await queue.limits.alist():  # the worker has not stored the bound yet
                await asyncio.sleep(0)
            # One after the other: what is in flight is not counted.
            for n in range(JOBS):
                await work.using(room_timeout=300).aenqueue(n=n)
            await queue.await_for(await queue.alist(job_type="work"), timeout=300)
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    asyncio.run(produce_and_work())
    assert sorted(ran) == list(range(JOBS))
    assert longest <= MOST
