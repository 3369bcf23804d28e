"""Cancelling: waiting jobs never run, and running handlers are stopped."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import pytest

from howdah import Job, JobQueue
from howdah.handlers.outcome import Cancel, Completed, Ending, Interrupted
from howdah.worker.run import children, executor
from howdah.worker.run.children import Children
from howdah.worker.run.executor import Executor, Invocation
from howdah.worker.run.run import Run, RunServices
from tests.conftest import Db
from tests.worker import child_handlers
from tests.worker.in_process import NoSink, beats, drain, ended, happened, run, until, working

# What waits


def test_a_waiting_job_that_is_cancelled_never_runs(queue: JobQueue) -> None:
    ran: list[int] = []

    @queue.job
    async def work(n: int) -> None:
        ran.append(n)

    first, second = work.enqueue(n=1), work.enqueue(n=2)
    assert queue.cancel(first, "unwanted")
    drain(queue)
    done = queue.get(first)
    assert (done.status, done.last_error, done.attempts) == ("cancelled", "unwanted", 0)
    assert (ran, queue.get(second).status) == ([2], "completed")


def test_a_job_that_waits_in_a_worker_for_its_turn_can_be_cancelled(queue: JobQueue, db: Db) -> None:
    calls: list[list[int]] = []

    @queue.job(batch_size=3, batch_wait=3600)
    async def work(jobs: list[Job]) -> None:
        calls.append([job.data["n"] for job in jobs])

    async def main() -> None:
        async with working(queue, heartbeat=0.1) as worker:
            jobs = [await work.aenqueue(n=n) for n in (1, 2)]
            await until(lambda: {queue.get(job).status for job in jobs} == {"claimed"})
            assert await queue.acancel(jobs[0])
            await beats(db, worker, 3)
            jobs += [await work.aenqueue(n=n) for n in (3, 4)]
            for job in jobs[1:]:
                await ended(queue, job)
            assert (await queue.aget(jobs[0])).status == "cancelled"
        assert worker.summary.counts["completed"] == 3

    run(main())
    assert calls == [[2, 3, 4]], "its place in the batch is free for another"


# What runs


def test_an_async_handler_gets_cancelled_error(queue: JobQueue) -> None:
    started = asyncio.Event()
    seen: list[str] = []

    @queue.job
    async def work(job: Job) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(f"told: {job.cancelled}")
            raise

    async def main() -> Job:
        job = await work.aenqueue()
        async with working(queue):
            await started.wait()
            assert await queue.acancel(job, "changed my mind")
            assert not await queue.acancel(job), "once is enough"
            return await ended(queue, job)

    done = run(main())
    assert (done.status, done.last_error, done.attempts) == ("cancelled", "changed my mind", 1)
    assert seen == ["told: True"]


def test_a_job_beside_a_cancelled_one_continues(queue: JobQueue) -> None:
    started = asyncio.Semaphore(0)
    go_on = asyncio.Event()

    @queue.job
    async def work(job: Job) -> bool:
        started.release()
        await go_on.wait()
        return job.cancelled

    async def main() -> tuple[Job, Job]:
        jobs = [await work.aenqueue() for _ in range(2)]
        async with working(queue):
            await started.acquire()
            await started.acquire()
            await queue.acancel(jobs[0])
            first = await ended(queue, jobs[0])
            go_on.set()
            return first, await ended(queue, jobs[1])

    first, second = run(main())
    assert (first.status, second.status, second.result) == ("cancelled", "completed", False)


def test_a_handler_that_completes_nevertheless_has_completed(queue: JobQueue) -> None:
    started = asyncio.Event()

    @queue.job
    async def work() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "it was too late"
        return ""

    async def main() -> Job:
        job = await work.aenqueue()
        async with working(queue):
            await started.wait()
            await queue.acancel(job)
            return await ended(queue, job)

    done = run(main())
    assert (done.status, done.result) == ("completed", "it was too late")


def test_what_a_cancelled_handler_does_to_end_is_not_disturbed_again(queue: JobQueue, db: Db) -> None:
    started, cleaning, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()
    story: list[str] = []

    @queue.job
    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await cleaned.wait()
            story.append("cleaned up")

    async def main() -> Job:
        job = await work.aenqueue()
        async with working(queue, heartbeat=0.1) as worker:
            await started.wait()
            await queue.acancel(job)
            await cleaning.wait()
            await beats(db, worker, 5)
            cleaned.set()
            return await ended(queue, job)

    assert run(main()).status == "cancelled"
    assert story == ["cleaned up"]


@pytest.mark.parametrize("way", ["returns", "raises", "outcome"])
def test_a_thread_sees_that_its_job_is_cancelled(queue: JobQueue, way: str) -> None:
    started = threading.Event()

    @queue.job
    def work(job: Job) -> Any:
        started.set()
        while not job.cancelled:
            threading.Event().wait(0.005)
        if way == "raises":
            raise InterruptedError("told to stop")
        return Cancel("stopped") if way == "outcome" else "all of it"

    async def main() -> Job:
        job = await work.aenqueue()
        async with working(queue):
            await happened(started)
            await queue.acancel(job, "changed my mind")
            return await ended(queue, job)

    done = run(main())
    if way == "returns":
        assert (done.status, done.result) == ("completed", "all of it")
    else:
        assert done.status == "cancelled"


def test_a_thread_that_does_not_look_loses_its_job_when_the_grace_is_over(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(executor.LEEWAY, "lost", 0.2)
    db.execute("UPDATE howdah.settings SET cancel_grace = '100 ms'")
    started, go_on = threading.Event(), threading.Event()

    @queue.job
    def work() -> str:
        started.set()
        go_on.wait()
        return "too late"

    @queue.job
    def other() -> str:
        return "done"

    async def main() -> Job:
        job = await work.aenqueue()
        async with working(queue, threads=1, heartbeat=0.1, sweep=0.1) as worker:
            await happened(started)
            await queue.acancel(job, "unwanted")
            done = await ended(queue, job)
            await until(lambda: worker.leaked == 1)
            assert (await ended(queue, await other.aenqueue())).result == "done", "the slot has a new thread"
            go_on.set()
            await until(lambda: worker.leaked == 0)
        assert (await queue.aget(job)).result is None
        return done

    done = run(main())
    assert (done.status, done.last_error) == ("cancelled", "unwanted")


@pytest.mark.parametrize("name", ["forever", "awaits_forever"])
def test_a_child_process_is_ended(dsn: str, name: str) -> None:
    queue = child_handlers.connected(dsn)

    async def main() -> tuple[Job, int]:
        job = await queue.aenqueue(name)
        async with working(queue, types=[name, "echo"], children=1):
            await until(lambda: queue.get(job).current_stage)
            child = int(str(queue.get(job).current_stage).removeprefix("pid "))
            await queue.acancel(job, "unwanted")
            done = await ended(queue, job)
            assert (await ended(queue, await child_handlers.echo.aenqueue(value=1))).result == 1
        return done, child

    done, child = run(main())
    assert (done.status, done.last_error, done.crashes) == ("cancelled", "unwanted", 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_child_process_that_will_not_end_is_killed(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "CHILD_LEEWAY", 0.2)
    queue = child_handlers.connected(dsn)

    async def main() -> tuple[Job, int]:
        job = await child_handlers.stubborn.aenqueue()
        async with working(queue, types=["stubborn"], children=1) as worker:
            await until(lambda: queue.get(job).current_stage)
            child = int(str(queue.get(job).current_stage).removeprefix("pid "))
            await queue.acancel(job)
            done = await ended(queue, job)
            assert worker.leaked == 0
        return done, child

    done, child = run(main())
    assert (done.status, done.crashes) == ("cancelled", 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_job_that_is_cancelled_while_its_child_process_starts_does_not_run(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, started = child_handlers.connected(dsn), asyncio.Event()
    is_ready = children.Child.is_ready

    async def is_ready_later(child: children.Child) -> bool:
        await started.wait()
        return await is_ready(child)

    monkeypatch.setattr(children.Child, "is_ready", is_ready_later)

    async def main() -> None:
        job = await child_handlers.echo.aenqueue(value="unwanted")
        async with working(queue, types=["echo"], children=1) as worker:
            await until(lambda: queue.get(job).status == "claimed")
            assert await queue.acancel(job)
            started.set()
            assert (await ended(queue, await child_handlers.echo.aenqueue(value="next"))).result == "next"
        assert worker.summary.counts["completed"] == 1

    run(main())


# Stopped before the first step


@pytest.mark.parametrize("reason", ["cancelled", "shutdown"])
@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_a_handler_that_is_stopped_before_its_first_step_ends(queue: JobQueue, reason: Any, asynchronous: bool) -> None:
    @queue.job
    async def on_loop() -> None:
        await asyncio.Event().wait()

    @queue.job
    def in_thread() -> None: ...

    (job,) = (queue.enqueue(handler.name) for handler in ((on_loop,) if asynchronous else (in_thread,)))
    leaked: list[int] = []

    async def main() -> list[Ending | None]:
        ends: asyncio.Future[list[Ending | None]] = asyncio.get_running_loop().create_future()
        executor = Executor(
            1,
            Children(queue._database),
            (),
            on_result=lambda run, made: ends.set_result(list(made)),
            on_leak=leaked.append,
        )
        handler = queue.handlers[job.job_type]
        services = RunServices({}, queue._context, queue._database, NoSink())
        launched = Run(handler, [job], services)
        Invocation(executor, launched).start(time.monotonic())
        launched.stop(reason)
        return await ends

    (ending,) = run(main())
    # A thread that has the call already is not to be stopped, and is quick.
    assert isinstance(ending, Interrupted if asynchronous else Interrupted | Completed)
    assert sum(leaked) == 0
