"""Timeouts: a handler that takes too long is stopped, and one that will not stop is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

import pytest

from howdah import Job, JobQueue
from howdah.handlers.retry import Immediately
from howdah.worker.run import executor
from tests.conftest import Db
from tests.worker import child_handlers
from tests.worker.in_process import PATIENCE, drain, ended, happened, run, until, working


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers that will not stop are left behind soon."""
    monkeypatch.setitem(executor.LEEWAY, "timed out", 0.2)


def test_an_async_handler_is_cancelled_and_its_attempt_has_failed(queue: JobQueue) -> None:
    cancelled: list[Job] = []

    @queue.job(timeout=0.1, max_attempts=2, retry=Immediately())
    async def work(job: Job) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert job.cancelled
            cancelled.append(job)
            raise

    job = work.enqueue()
    report = drain(queue, sweep=60)
    done = queue.get(job)
    assert (done.status, done.attempts) == ("failed", 2)
    assert [error.error for error in done.errors] == ["timed out after 0.1 s"] * 2
    assert "in work" in str(done.errors[0].traceback), "it names where the handler was"
    assert len(cancelled) == 2
    assert report.exit_code == 0


def test_a_handler_that_is_quick_enough_is_left_alone(queue: JobQueue) -> None:
    @queue.job(timeout=60)
    async def work() -> str:
        return "done"

    job = work.enqueue()
    drain(queue)
    assert queue.get(job).result == "done"


def test_a_timeout_can_be_given_with_the_job(queue: JobQueue) -> None:
    @queue.job(timeout=3600, max_attempts=1)
    async def work() -> None:
        await asyncio.Event().wait()

    job = work.using(timeout=0.05).enqueue()
    drain(queue, sweep=60)
    assert queue.get(job).last_error == "timed out after 0.05 s"


def test_what_the_handler_raises_when_it_is_stopped_is_a_timeout_all_the_same(queue: JobQueue) -> None:
    @queue.job(timeout=0.05, max_attempts=1)
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("in the way")

    job = work.enqueue()
    drain(queue, sweep=60)
    done = queue.get(job)
    assert done.last_error == "timed out after 0.05 s"
    assert "in the way" in str(done.errors[0].traceback)


def test_a_result_that_comes_in_spite_of_the_timeout_counts(queue: JobQueue) -> None:
    @queue.job(timeout=0.05, max_attempts=1)
    async def work() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "just in time"

    job = work.enqueue()
    drain(queue, sweep=60)
    done = queue.get(job)
    assert (done.status, done.result) == ("completed", "just in time")


@pytest.mark.usefixtures("impatient")
def test_a_thread_that_takes_too_long_is_left_behind_and_its_slot_is_free(queue: JobQueue) -> None:
    go_on = threading.Event()
    told: list[bool] = []

    @queue.job(timeout=0.1, max_attempts=1)
    def work(job: Job) -> str:
        go_on.wait()
        told.append(job.cancelled)
        return "too late"

    @queue.job
    def other() -> str:
        return "done"

    async def main() -> Job:
        async with working(queue, threads=1, sweep=60) as worker:
            stuck = await work.aenqueue()
            failed = await ended(queue, stuck)
            assert (failed.status, failed.last_error) == ("failed", "timed out after 0.1 s")
            assert worker.leaked == 1
            assert (await ended(queue, await other.aenqueue())).result == "done"
            go_on.set()
            await until(lambda: worker.leaked == 0)
        assert (worker.summary.exit_code, worker.summary.left_threads) == (0, False)
        return await queue.aget(stuck)

    assert run(main()).result is None, "what comes too late changes nothing"
    assert told == [True]


@pytest.mark.usefixtures("impatient")
def test_a_worker_that_leaves_a_thread_behind_logs_it(queue: JobQueue) -> None:
    go_on = threading.Event()

    @queue.job(timeout=0.1, max_attempts=1)
    def work() -> None:
        go_on.wait()

    work.enqueue()
    report = drain(queue, sweep=60)
    go_on.set()
    assert (report.left_threads, report.exit_code) == (True, 0)


@pytest.mark.usefixtures("impatient")
def test_an_async_handler_that_swallows_its_cancellation_is_left_behind_too(queue: JobQueue) -> None:
    go_on = asyncio.Event()

    @queue.job(timeout=0.1, max_attempts=1)
    async def work() -> str:
        while not go_on.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go_on.wait()
        return "too late"

    @queue.job
    async def other() -> str:
        return "done"

    async def main() -> Job:
        async with working(queue, concurrency=1, sweep=60) as worker:
            stuck = await work.aenqueue()
            failed = await ended(queue, stuck)
            assert (failed.status, failed.last_error) == ("failed", "timed out after 0.1 s")
            assert worker.leaked == 1
            assert (await ended(queue, await other.aenqueue())).result == "done"
            go_on.set()
            await until(lambda: worker.leaked == 0)
        return await queue.aget(stuck)

    assert run(main()).result is None


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in threads"])
def test_with_too_many_left_behind_the_worker_stops_to_be_started_anew(queue: JobQueue, asynchronous: bool) -> None:
    go_on, go_on_in_thread = asyncio.Event(), threading.Event()

    @queue.job
    async def on_loop() -> None:
        while not go_on.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go_on.wait()

    @queue.job
    def in_thread() -> None:
        go_on_in_thread.wait()

    handler = on_loop if asynchronous else in_thread

    async def main() -> None:
        jobs = [await handler.using(timeout=0.1, max_attempts=1).aenqueue() for _ in range(3)]
        report = await queue.run_worker(max_leaked=2, poll=0.05, sweep=60)
        go_on.set()
        go_on_in_thread.set()
        assert (report.exit_code, report.shed, report.left_threads) == (7, True, True)
        assert [(await queue.aget(job)).status for job in jobs] == ["failed"] * 3

    run(main())


@pytest.mark.usefixtures("impatient")
def test_up_to_the_limit_it_goes_on(queue: JobQueue) -> None:
    go_on = threading.Event()

    @queue.job(timeout=0.1, max_attempts=1)
    def work() -> None:
        go_on.wait()

    @queue.job
    async def other() -> str:
        return "done"

    async def main() -> None:
        async with working(queue, max_leaked=2, sweep=60) as worker:
            for job in [await work.aenqueue() for _ in range(2)]:
                await ended(queue, job)
            assert worker.leaked == 2
            assert (await ended(queue, await other.aenqueue())).result == "done"
            go_on.set()
            await until(lambda: worker.leaked == 0)
        assert worker.summary.exit_code == 0

    run(main())


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", ["forever", "stubborn"])
def test_a_child_process_that_takes_too_long_is_ended(dsn: str, name: str) -> None:
    queue = child_handlers.connected(dsn)

    async def main() -> tuple[Job, int]:
        async with working(queue, types=[name, "echo"], children=1, sweep=60) as worker:
            # So that there is a child when the time begins to count.
            assert (await ended(queue, await child_handlers.echo.aenqueue(value=1))).result == 1
            failed = await ended(queue, await queue.aenqueue(name, timeout=0.5, max_attempts=1))
            assert (await ended(queue, await child_handlers.echo.aenqueue(value=2))).result == 2
            assert worker.leaked == 0, "a process can be killed"
        return failed, int(str(failed.current_stage).removeprefix("pid "))

    failed, child = run(main())
    assert (failed.status, failed.last_error, failed.crashes) == ("failed", "timed out after 0.5 s", 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_handlers_that_fill_the_loops_own_threads_do_not_keep_a_worker_from_ending(queue: JobQueue) -> None:
    go_on = threading.Event()
    started = asyncio.Semaphore(0)

    @queue.job
    async def work() -> None:
        started.release()
        await asyncio.to_thread(go_on.wait)

    async def main() -> None:
        count = (os.cpu_count() or 1) + 4
        jobs = [await work.aenqueue() for _ in range(count)]
        task = asyncio.create_task(queue.run_worker(grace=0, poll=0.05))
        for _ in range(count):
            await started.acquire()
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=PATIENCE / 2)
        go_on.set()
        assert done, "it waits for a thread that others have"
        assert [(await queue.aget(job)).status for job in jobs] == ["pending"] * count

    run(main())


def test_the_deadline_is_in_the_database_for_when_the_worker_hangs(queue: JobQueue, db: Db) -> None:
    started, go_on = threading.Event(), threading.Event()

    @queue.job(timeout=3600)
    def work() -> None:
        started.set()
        go_on.wait()

    async def main() -> None:
        job = await work.aenqueue()
        async with working(queue):
            await happened(started)
            row = db.execute("SELECT deadline_at - started_at AS span FROM howdah.live WHERE id = %s", (job.id,))
            found = row.fetchone()
            assert found is not None
            assert found["span"].total_seconds() == 3600
            go_on.set()

    run(main())
