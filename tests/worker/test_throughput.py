"""The throughput that a worker reports, and what is computed from it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from howdah import Job, JobQueue
from howdah.model.worker_info import Throughput
from howdah.worker import Worker
from tests.conftest import Db
from tests.worker.in_process import PATIENCE, beats, ended, happened, run, statuses, until, working


def paces(queue: JobQueue, worker: Worker) -> Mapping[str, Throughput]:
    return next((each.throughput for each in queue.workers() if each.worker_id == worker.worker_id), {})


def place(db: Db, job: Job) -> dict[str, Any]:
    row = db.execute("SELECT * FROM howdah.queue_position(%s)", (job.id,)).fetchone()
    assert row is not None
    return row


def test_a_worker_reports_its_throughput(queue: JobQueue, db: Db) -> None:
    go_on = threading.Event()
    own: list[float] = []

    @queue.job
    def work() -> None:
        began = time.monotonic()
        go_on.wait(PATIENCE)
        own.append(time.monotonic() - began)

    @queue.job
    def never() -> None: ...

    async def main() -> None:
        jobs = [queue.enqueue("work") for _ in range(2)]
        async with working(queue, threads=2) as worker:
            await until(lambda: statuses(db, "work") == {"running": 2})
            await beats(db, worker, 2)
            assert paces(queue, worker) == {}
            go_on.set()
            for job in jobs:
                await ended(queue, job)
            await beats(db, worker, 2)
            told = paces(queue, worker)
            assert set(told) == {"work"}
            # It is rounded.
            assert told["work"].run >= min(own) * 0.999
            assert 0 < told["work"].per_second <= 2 / min(own) * 1.001
            assert told["work"].wait > 0

    run(main())


def test_the_time_in_which_others_run_first_does_not_count(queue: JobQueue, db: Db) -> None:
    own: list[float] = []

    @queue.job
    async def blocks() -> None:
        began = time.monotonic()
        time.sleep(0.01)  # noqa: ASYNC251 (nothing else runs meanwhile)
        own.append(time.monotonic() - began)

    async def main() -> None:
        # Python 3.11 has no other tasks: each takes its first step when those before it have.
        asyncio.get_running_loop().set_task_factory(lambda loop, work, **named: asyncio.Task(work, loop=loop, **named))
        queue.enqueue_many("blocks", [{} for _ in range(20)])
        async with working(queue) as worker:
            await until(lambda: statuses(db, "blocks") == {"completed": 20})
            await beats(db, worker, 2)
            told = paces(queue, worker)["blocks"]
            assert told.run < 2 * sum(own) / len(own)

    run(main())


def test_each_job_of_a_batch_counts(queue: JobQueue, db: Db) -> None:
    async def main() -> None:
        go_on = asyncio.Event()
        sizes: list[int] = []

        @queue.job(batch_size=10)
        async def many(jobs: Sequence[Job]) -> None:
            sizes.append(len(jobs))
            await go_on.wait()

        jobs = [queue.enqueue("many") for _ in range(10)]
        async with working(queue) as worker:
            await until(lambda: sizes)
            await beats(db, worker, 2)
            go_on.set()
            for job in jobs:
                await ended(queue, job)
            await beats(db, worker, 2)
            assert sizes == [10]
            told = paces(queue, worker)["many"]
            # One call, in which nearly all of the time has passed: ten jobs ended in it.
            assert 5 < told.per_second * told.run < 10.1

    run(main())


def test_it_is_known_when_a_job_that_waits_will_start(queue: JobQueue, db: Db) -> None:
    go_on = threading.Event()

    @queue.job(concurrency=1)
    def work() -> None:
        go_on.wait(PATIENCE)

    async def three_of_which_one_runs() -> list[Job]:
        jobs = [queue.enqueue("work") for _ in range(3)]
        await until(lambda: queue.get(jobs[0]).status == "running")
        return jobs

    async def main() -> None:
        async with working(queue) as worker:
            jobs = await three_of_which_one_runs()
            unknown = place(db, jobs[2])
            assert (unknown["ahead"], unknown["starts_at"]) == (1, None)
            go_on.set()
            for job in jobs:
                await ended(queue, job)
            go_on.clear()
            await until(lambda: paces(queue, worker))

            jobs = await three_of_which_one_runs()
            known = place(db, jobs[2])
            assert (known["ahead"], known["because"]) == (1, None)
            assert known["per_second"] > 0
            assert known["starts_at"] > jobs[2].run_at
            go_on.set()

    run(main())


def test_failures_count_and_what_was_cancelled_does_not(queue: JobQueue, db: Db) -> None:
    begun = threading.Event()

    @queue.job(max_attempts=1)
    async def fails() -> None:
        raise ValueError("no")

    @queue.job
    async def hangs() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def main() -> None:
        async with working(queue) as worker:
            job = queue.enqueue("hangs")
            await happened(begun)
            queue.cancel(job)
            assert (await ended(queue, job)).status == "cancelled"
            assert (await ended(queue, queue.enqueue("fails"))).status == "failed"
            await beats(db, worker, 2)
            assert set(paces(queue, worker)) == {"fails"}

    run(main())


def test_it_is_sent_once_and_again_after_its_row_was_deleted(queue: JobQueue, db: Db) -> None:
    @queue.job
    async def work() -> None: ...

    async def main() -> None:
        async with working(queue) as worker:
            await ended(queue, queue.enqueue("work"))
            await beats(db, worker, 2)
            told = paces(queue, worker)
            assert set(told) == {"work"}
            db.execute("UPDATE howdah.workers SET throughput = NULL")
            await beats(db, worker, 2)
            assert paces(queue, worker) == {}
            db.execute("DELETE FROM howdah.workers")
            await until(lambda: paces(queue, worker) == told)

    run(main())


def test_a_job_that_has_always_been_due_spoils_neither_claims_nor_heartbeats(queue: JobQueue, db: Db) -> None:
    @queue.job
    async def work() -> str:
        return "done"

    async def main() -> None:
        row = db.execute("SELECT id FROM enqueue('work', p_run_at => '-infinity')").fetchone()
        assert row is not None
        async with working(queue) as worker:
            assert (await queue.await_for(row["id"], timeout=PATIENCE)).result == "done"
            await beats(db, worker, 2)
            assert math.isfinite(paces(queue, worker)["work"].wait)

    run(main())
