"""The worker's loop: what it claims, when it ends, and what happens to the jobs that it holds."""

from __future__ import annotations

import asyncio
import threading
import uuid

import pytest
from psycopg.conninfo import make_conninfo

from howdah import Job, JobQueue
from tests.conftest import Connect, Db
from tests.worker.in_process import beats, drain, ended, happened, run, statuses, until, working

# Draining


def test_a_worker_that_drains_ends_when_nothing_is_due(queue: JobQueue, db: Db) -> None:
    @queue.job
    async def work() -> None: ...

    assert drain(queue).counts == {}
    queue.enqueue_many("work", [{} for _ in range(300)])
    later = work.using(delay=3600).enqueue()
    report = drain(queue)
    assert (report.counts, report.exit_code) == ({"completed": 300}, 0)
    assert queue.get(later).status == "pending"
    assert queue.workers() == [], "it has left"


def test_draining_includes_what_handlers_enqueue(queue: JobQueue, db: Db) -> None:
    @queue.job
    async def work(depth: int) -> None:
        for _ in range(2 if depth else 0):
            await work.aenqueue(depth=depth - 1)

    work.enqueue(depth=6)
    drain(queue)
    assert statuses(db, "work") == {"completed": 2**7 - 1}


@pytest.mark.parametrize("first", ["on_loop", "in_thread", "in_batches"])
def test_draining_includes_what_handlers_enqueue_for_handlers_of_another_kind(
    queue: JobQueue, db: Db, first: str
) -> None:
    after = {"on_loop": "in_thread", "in_thread": "in_batches", "in_batches": "on_loop"}

    @queue.job
    async def on_loop(left: int) -> None:
        if left:
            await queue.aenqueue(after["on_loop"], {"left": left - 1})

    @queue.job
    def in_thread(left: int) -> None:
        if left:
            queue.enqueue(after["in_thread"], {"left": left - 1})

    @queue.job(batch_size=5)
    async def in_batches(jobs: list[Job]) -> None:
        for job in jobs:
            if job.data["left"]:
                await queue.aenqueue(after["in_batches"], {"left": job.data["left"] - 1})

    # Without a poll that would come in between.
    for _ in range(5):
        queue.enqueue(first, {"left": 4})
        drain(queue, poll=60)
    done = [statuses(db, name).get("completed", 0) for name in after]
    assert sum(done) == 25


def test_draining_does_not_wait_for_jobs_that_another_worker_holds(dsn: str, queue: JobQueue) -> None:
    @queue.job
    async def work() -> None: ...

    held = work.enqueue()
    queue.claim(["work"], worker_id="another")
    drain(queue)
    assert queue.get(held).status == "claimed"


# The end of a worker


def test_a_worker_that_is_cancelled_releases_its_jobs(queue: JobQueue, db: Db) -> None:
    started = asyncio.Semaphore(0)
    told: list[bool] = []

    @queue.job
    async def work(job: Job) -> None:
        started.release()
        try:
            await asyncio.Event().wait()
        finally:
            told.append(job.cancelled)

    async def main() -> None:
        jobs = [await work.aenqueue() for _ in range(3)]
        task = asyncio.create_task(queue.run_worker(grace=0, poll=0.05, concurrency=2))
        await started.acquire()
        await started.acquire()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        back = [await queue.aget(job) for job in jobs]
        assert [(job.status, job.attempts, job.interruptions) for job in back] == [
            ("pending", 0, 1),
            ("pending", 0, 1),
            ("pending", 0, 0),
        ]
        assert queue.workers() == []

    run(main())
    assert told == [True, True]


def test_what_runs_may_finish_within_the_grace(queue: JobQueue) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @queue.job
    async def work() -> str:
        started.set()
        await go_on.wait()
        return "finished"

    async def main() -> None:
        job = await work.aenqueue()
        worker = queue.worker(grace=60, poll=0.05)
        task = asyncio.create_task(worker.run())
        await started.wait()
        worker.stop()
        next_job = await work.aenqueue()
        await asyncio.sleep(0)
        go_on.set()
        report = await task
        assert (await queue.aget(job)).result == "finished"
        left = await queue.aget(next_job)
        assert (left.status, left.attempts) == ("pending", 0), "a worker that stops begins nothing"
        assert (report.exit_code, report.counts["completed"]) == (0, 1)

    run(main())


def test_a_second_stop_does_not_wait_for_the_grace(queue: JobQueue) -> None:
    started = asyncio.Event()

    @queue.job
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    async def main() -> None:
        job = await work.aenqueue()
        worker = queue.worker(grace=3600, poll=0.05)
        task = asyncio.create_task(worker.run())
        await started.wait()
        worker.stop()
        worker.stop()
        report = await task
        assert (await queue.aget(job)).status == "pending"
        assert (report.exit_code, report.interrupted) == (6, 1)

    run(main())


def test_a_worker_can_be_stopped_before_it_runs(queue: JobQueue) -> None:
    @queue.job
    async def work() -> None: ...

    async def main() -> None:
        job = await work.aenqueue()
        worker = queue.worker()
        worker.stop()
        report = await worker.run()
        assert (report.counts, (await queue.aget(job)).status) == ({}, "pending")

    run(main())


def test_a_worker_that_cannot_begin_leaves_nothing_behind(dsn: str) -> None:
    async def main() -> None:
        with JobQueue(dsn, schema="nowhere") as queue:

            @queue.job
            async def work() -> None: ...

            before = asyncio.all_tasks()
            with pytest.raises(Exception, match="not installed"):
                await queue.run_worker()
            assert asyncio.all_tasks() == before

    run(main())


def test_a_worker_is_listed_with_what_it_does_while_it_runs(queue: JobQueue, db: Db) -> None:
    started, go_on = threading.Event(), threading.Event()

    @queue.job
    def work() -> None:
        started.set()
        go_on.wait()

    async def main() -> None:
        await work.aenqueue()
        async with working(queue, name="mine", threads=3, heartbeat=0.1) as worker:
            await happened(started)
            await beats(db, worker, 2)
            (known,) = await queue.aworkers()
            go_on.set()
        assert (known.worker_id, known.job_types, known.capacity, known.running) == ("mine", ["work"], 3, 1)
        assert known.alive
        assert known.ready
        assert known.leaked == 0

    run(main())


# What it finds


def test_jobs_that_were_committed_late_are_found_behind_those_that_were_claimed(
    queue: JobQueue, connect: Connect, db: Db
) -> None:
    @queue.job
    async def work() -> None: ...

    late = connect(autocommit=False)

    async def main() -> None:
        queue.enqueue_many("work", [{} for _ in range(100)], conn=late)
        async with working(queue):
            queue.enqueue_many("work", [{} for _ in range(100)])
            await until(lambda: statuses(db, "work") == {"completed": 100})
            late.commit()
            await until(lambda: statuses(db, "work") == {"completed": 200})

    run(main())


def test_a_job_starts_when_it_becomes_due(queue: JobQueue) -> None:
    @queue.job
    async def work() -> str:
        return "done"

    async def main() -> None:
        async with working(queue, poll=60):
            jobs = [await work.using(delay=delay).aenqueue() for delay in (0.6, 0.2, 0.4)]
            done = [await ended(queue, job) for job in jobs]
        assert all(job.started_at is not None and job.started_at >= job.run_at for job in done)

    run(main())


def test_a_paused_type_is_left_alone_until_it_is_resumed(queue: JobQueue, db: Db) -> None:
    @queue.job
    async def work() -> None: ...

    @queue.job
    async def other() -> None: ...

    async def main() -> None:
        await queue.apause("work", "the API is down")
        paused = await work.aenqueue()
        async with working(queue):
            await ended(queue, await other.aenqueue())
            assert (await queue.aget(paused)).status == "pending"
            await queue.aresume("work")
            assert (await ended(queue, paused)).status == "completed"

    run(main())


def test_a_worker_whose_connections_are_cut_again_and_again_drains_the_queue(dsn: str, db: Db) -> None:
    name = f"cut {uuid.uuid4().hex}"
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"

    async def main() -> None:
        with JobQueue(make_conninfo(dsn, application_name=name)) as queue:

            @queue.job(max_attempts=100)
            async def work() -> None: ...

            @queue.job(max_attempts=100)
            def in_thread() -> None: ...

            for job_type in ("work", "in_thread"):
                queue.enqueue_many(job_type, [{} for _ in range(200)], max_attempts=100)
            async with working(queue, heartbeat=0.1, lease=2, sweep=0.2, concurrency=3, threads=3):
                for goal in range(20, 200, 20):
                    await until(lambda goal=goal: statuses(db, "work").get("completed", 0) >= goal)  # type: ignore[misc]
                    db.execute(cut, (name,))
                for job_type in ("work", "in_thread"):
                    await until(lambda job_type=job_type: statuses(db, job_type) == {"completed": 200})  # type: ignore[misc]

    run(main())


def test_a_claim_whose_answer_was_lost_is_released(queue: JobQueue, db: Db) -> None:
    @queue.job
    async def work() -> None: ...

    async def main() -> Job:
        async with working(queue, heartbeat=0.1, lease=1, poll=0.05) as worker:
            await beats(db, worker, 1)
            orphan = await work.using(delay=3600).aenqueue()
            db.execute(
                "UPDATE howdah.live SET status = 'claimed', worker_id = %s, claimed_at = howdah.clock(), attempts = 1,"
                " token = token + 1, run_at = howdah.clock(), own_write = NOT own_write WHERE id = %s",
                (worker.worker_id, orphan.id),
            )
            return await ended(queue, orphan)

    done = run(main())
    assert (done.status, done.attempts, done.crashes) == ("completed", 1, 0)


def test_a_job_that_comes_back_to_its_worker_while_its_old_handler_still_runs_has_one_new_run(
    queue: JobQueue, db: Db
) -> None:
    calls: list[Job] = []
    go_on = [threading.Event() for _ in range(10)]

    @queue.job
    def work(job: Job) -> str:
        calls.append(job)
        number = len(calls)
        go_on[number - 1].wait()
        return f"run {number}"

    async def main() -> Job:
        async with working(queue, heartbeat=0.1, threads=5) as worker:
            job = await work.aenqueue()
            await until(lambda: len(calls) == 1)
            db.execute("SELECT * FROM howdah.release(ARRAY[%s], ARRAY[%s]::bigint[], true)", (job.id, calls[0].token))
            await until(lambda: len(calls) == 2)
            await until(lambda: calls[0].cancelled)
            assert not calls[1].cancelled
            go_on[0].set()
            await beats(db, worker, 6)
            go_on[1].set()
            done = await ended(queue, job)
            for event in go_on:
                event.set()
            return done

    try:
        done = run(main())
    finally:
        for event in go_on:
            event.set()
    assert (done.status, done.result, done.token) == ("completed", "run 2", calls[1].token)
    assert len(calls) == 2


def test_a_worker_that_is_declared_dead_releases_its_jobs_and_starts_anew(queue: JobQueue, db: Db) -> None:
    started = asyncio.Semaphore(0)
    told: list[uuid.UUID] = []
    tokens: list[int] = []

    @queue.job
    async def work(job: Job) -> None:
        started.release()
        tokens.append(job.token)
        if len(tokens) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                told.append(job.id)

    async def main() -> Job:
        job = await work.aenqueue()
        async with working(queue, heartbeat=0.1) as worker:
            await started.acquire()
            with db.transaction():
                db.execute("DELETE FROM howdah.workers WHERE worker_id = %s", (worker.worker_id,))
                db.execute("SELECT * FROM howdah.release_worker(%s)", (worker.worker_id,))
            done = await ended(queue, job)
            assert told == [job.id]
            return done

    done = run(main())
    assert (done.status, done.crashes, done.attempts) == ("completed", 1, 2)
