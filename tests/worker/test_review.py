"""What a review of the worker found, each shown to stay mended."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from howdah import Job, JobQueue, Snooze
from howdah.handlers import middleware
from howdah.worker import Worker
from howdah.worker.run import completer
from tests.conftest import Connect, Db
from tests.worker import child_handlers
from tests.worker.in_process import beats, drain, ended, run, statuses, until, working


def test_a_locked_row_does_not_block_the_ends_of_other_jobs(
    queue: JobQueue, db: Db, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "PATIENCE", 0.2)
    started, go_on = asyncio.Semaphore(0), asyncio.Event()

    @queue.job
    async def work(n: int) -> int:
        started.release()
        await go_on.wait()
        return n

    async def main() -> None:
        jobs = [await work.aenqueue(n=n) for n in range(10)]
        holder = connect(autocommit=False)
        async with working(queue):
            for _ in jobs:
                await started.acquire()
            holder.execute("SELECT FROM live WHERE id = %s FOR UPDATE", (jobs[3].id,))
            go_on.set()
            await until(lambda: statuses(db, "work") == {"completed": 9, "running": 1})
            # And those that come later.
            assert (await ended(queue, await work.aenqueue(n=11))).result == 11
            holder.rollback()
            assert (await ended(queue, jobs[3])).result == 3

    run(main())


class Unreadable(dict[Any, Any]):
    def __contains__(self, key: object) -> bool:
        raise RuntimeError("not even this")


def test_a_result_that_raises_when_it_is_read_fails_its_jobs_and_frees_the_slot(queue: JobQueue) -> None:
    @queue.job(batch_size=2, max_attempts=1)
    async def many(jobs: list[Job]) -> Any:
        return Unreadable(x=1)

    @queue.job
    async def next_one() -> None: ...

    broken = [many.enqueue() for _ in range(3)]
    fine = next_one.enqueue()
    drain(queue)
    assert [queue.get(job).status for job in (*broken, fine)] == ["failed", "failed", "failed", "completed"]
    assert "could not be read" in str(queue.get(broken[0]).last_error)


def test_a_child_that_was_reserved_and_not_used_is_there_for_the_next_job(dsn: str) -> None:
    queue = child_handlers.connected(dsn)
    skipped: list[Job] = []

    @queue.middleware
    async def puts_off(job: Job, call_next: middleware.Next) -> Any:
        if len(skipped) < 5:
            skipped.append(job)
            raise Snooze(0)
        return await call_next(job)

    try:
        job = child_handlers.awaited_in_process.enqueue()
        drain(queue, types=["awaited_in_process"], children=1)
        assert queue.get(job).status == "completed"
        assert len(skipped) == 5
    finally:
        queue._middleware.remove(puts_off)


def test_what_comes_while_a_worker_is_cut_off_starts_when_it_is_back(queue: JobQueue, db: Db) -> None:
    done = asyncio.Event()

    @queue.job(batch_size=5, batch_wait=0.05)
    async def many(jobs: list[Job]) -> None:
        done.set()

    async def main() -> None:
        async with working(queue) as worker:
            await until(lambda: db.execute("SELECT FROM workers").fetchall())
            worker._dispatcher.closed = True
            await many.aenqueue()
            await until(lambda: statuses(db, "many").get("claimed"))
            worker._dispatcher.reopen()
            await done.wait()

    run(main())


def test_quick_jobs_that_turn_slow_are_not_hoarded_and_an_urgent_one_gets_through(queue: JobQueue, db: Db) -> None:
    slow = False
    stuck, go_on, urgent_ran = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @queue.job
    async def work() -> None:
        if slow:
            stuck.set()
            await go_on.wait()

    @queue.job
    async def urgent() -> None:
        urgent_ran.set()

    async def main() -> None:
        nonlocal slow
        async with working(queue, concurrency=4):
            await queue.aenqueue_many("work", [{} for _ in range(200)])
            await until(lambda: statuses(db, "work") == {"completed": 200})
            slow = True
            await queue.aenqueue_many("work", [{} for _ in range(300)])
            await stuck.wait()
            await until(lambda: statuses(db, "work").get("claimed", 0) == 0)
            await urgent.using(priority=150).aenqueue()
            slow = False
            go_on.set()
            await urgent_ran.wait()
            await until(lambda: statuses(db, "work") == {"completed": 500})

    run(main())


def test_a_call_abandoned_before_a_thread_took_it_never_runs(queue: JobQueue) -> None:
    from howdah.worker.run.threads import ThreadCall, Threads

    ran: list[str] = []
    leaks: list[int] = []

    async def main() -> None:
        threads = Threads(1, on_leak=leaks.append)
        first_is_in, go_on = threading.Event(), threading.Event()

        def first() -> None:
            first_is_in.set()
            go_on.wait()
            ran.append("first")

        ended: list[BaseException | None] = []

        def call(function: Callable[[], None]) -> ThreadCall:
            return threads.call(function, lambda _, error: ended.append(error), contextvars.copy_context(), "work")

        call(first)
        await until(first_is_in.is_set)
        two = call(lambda: ran.append("second"))
        assert two.abandon()
        go_on.set()
        call(lambda: ran.append("third"))
        await until(lambda: len(ended) == 2)
        threads.close()

    run(main())
    assert (ran, leaks) == (["first", "third"], [])


def test_a_handler_that_has_completed_its_job_itself_may_take_its_time(queue: JobQueue, dsn: str, db: Db) -> None:
    story: list[str] = []
    workers: list[Worker] = []

    @queue.job
    async def work(job: Job) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            await job.acomplete("mine", conn=conn)
        await beats(db, workers[0], 5)
        story.append("continued undisturbed")

    async def main() -> Job:
        job = await work.aenqueue()
        async with working(queue, heartbeat=0.05) as worker:
            workers.append(worker)
            await until(lambda: story)
            return await ended(queue, job)

    done = run(main())
    assert (done.status, done.result, story) == ("completed", "mine", ["continued undisturbed"])


@pytest.fixture
def without_complete(db: Db) -> Iterator[None]:
    db.execute("ALTER FUNCTION howdah.complete RENAME TO complete_elsewhere")
    yield
    if db.execute("SELECT to_regproc('howdah.complete_elsewhere') AS it").fetchone() != {"it": None}:
        db.execute("ALTER FUNCTION howdah.complete_elsewhere RENAME TO complete")


@pytest.mark.usefixtures("without_complete")
def test_an_error_that_passes_does_not_make_a_failure_of_a_success(queue: JobQueue, db: Db) -> None:
    ran = asyncio.Event()

    @queue.job(max_attempts=1)
    async def work() -> str:
        ran.set()
        return "done"

    async def main() -> Job:
        async with working(queue):
            job = await work.aenqueue()
            await ran.wait()
            db.execute("ALTER FUNCTION howdah.complete_elsewhere RENAME TO complete")
            return await ended(queue, job)

    assert run(main()).status == "completed"


@pytest.mark.parametrize(("percent", "shown"), [(33.4, 33), (150, 100), (-3, 0), (True, None), (float("nan"), None)])
def test_a_remark_about_progress_is_rounded_and_not_what_fails_the_job(
    queue: JobQueue, percent: float, shown: int | None
) -> None:
    @queue.job(max_attempts=1)
    async def work(job: Job) -> None:
        job.progress(percent, "a stage of more than a hundred characters " * 3)
        raise ValueError("to see it as it was")

    job = work.enqueue()
    drain(queue)
    done = queue.get(job)
    if shown is None:
        assert "percent is a number from 0 to 100" in str(done.last_error)
    else:
        assert (done.percent, len(str(done.current_stage)), done.last_error) == (
            shown,
            100,
            "ValueError: to see it as it was",
        )
