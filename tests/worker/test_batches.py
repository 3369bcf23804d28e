"""Batch handlers: one call for many jobs, and an outcome for each."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import psycopg
import pytest

from howdah import InvalidOption, Job, JobQueue, Resource
from howdah.handlers.outcome import Cancel, Fail, Retry, Snooze
from tests.conftest import Db
from tests.worker.in_process import drain, ended, happened, run, statuses, until, working


def batches(queue: JobQueue, answer: Callable[[list[Job]], Any], *, asynchronous: bool = True, **options: Any) -> Any:
    """A batch handler, and the batches that it was called with."""
    calls: list[list[Job]] = []

    async def on_loop(jobs: list[Job]) -> Any:
        calls.append(jobs)
        return answer(jobs)

    def in_thread(jobs: list[Job]) -> Any:
        calls.append(jobs)
        return answer(jobs)

    return queue.job(name="many", **{"batch_size": 10, **options})(on_loop if asynchronous else in_thread), calls


def answers(queue: JobQueue, count: int, answer: Callable[[list[Job]], Any], **options: Any) -> list[Job]:
    """The ended jobs of one batch, in order."""
    handler, calls = batches(queue, answer, **options)
    jobs = [handler.enqueue(n=n) for n in range(count)]
    drain(queue)
    assert len(calls[0]) == count
    return [queue.get(job) for job in jobs]


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_a_call_gets_as_many_as_there_are_up_to_its_size_in_order(queue: JobQueue, asynchronous: bool) -> None:
    handler, calls = batches(queue, lambda jobs: [job.data["n"] * 2 for job in jobs], asynchronous=asynchronous)
    queue.enqueue_many("many", [{"n": n} for n in range(25)])
    urgent = handler.using(priority=150).enqueue(n=100)
    drain(queue)
    assert [len(jobs) for jobs in calls] == [10, 10, 6]
    assert [job.data["n"] for jobs in calls for job in jobs] == [100, *range(25)]
    assert queue.get(urgent).result == 200


def test_a_batch_handler_of_size_one_is_called_for_each(queue: JobQueue) -> None:
    _, calls = batches(queue, lambda jobs: ["one"], batch_size=1)
    queue.enqueue_many("many", [{}, {}, {}])
    drain(queue)
    assert [len(jobs) for jobs in calls] == [1, 1, 1]


def test_a_batch_that_may_wait_is_called_as_soon_as_it_is_full(queue: JobQueue) -> None:
    handler, calls = batches(queue, lambda jobs: None, batch_size=3, batch_wait=3600)

    async def main() -> None:
        async with working(queue, grace=0):
            jobs = [await handler.aenqueue(n=1)]
            await until(lambda: queue.get(jobs[0]).status == "claimed")
            jobs += [await handler.aenqueue(n=n) for n in (2, 3, 4)]
            for job in jobs[:3]:
                await ended(queue, job)
            await until(lambda: queue.get(jobs[3]).status == "claimed")
        assert [[job.data["n"] for job in jobs] for jobs in calls] == [[1, 2, 3]]
        left = queue.get(jobs[3])
        assert (left.status, left.attempts) == ("pending", 0), "what still waits for others is released"

    run(main())


def test_a_batch_that_does_not_fill_is_called_when_its_time_is_up(queue: JobQueue) -> None:
    _, calls = batches(queue, lambda jobs: None, batch_size=1000, batch_wait=0.3)
    queue.enqueue_many("many", [{"n": n} for n in range(7)])
    drain(queue)
    assert [len(jobs) for jobs in calls] == [7]


def test_concurrency_is_how_many_calls_there_are_at_once(queue: JobQueue) -> None:
    at_once: list[int] = []
    running = 0

    @queue.job(batch_size=2, concurrency=3)
    async def many(jobs: list[Job]) -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        if running == 3:
            all_three.set()
        await all_three.wait()
        running -= 1

    all_three = asyncio.Event()
    queue.enqueue_many("many", [{} for _ in range(20)])
    drain(queue)
    assert max(at_once) == 3


# Answers


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_a_list_has_a_value_or_an_outcome_for_each(queue: JobQueue, asynchronous: bool) -> None:
    jobs = answers(
        queue,
        6,
        lambda jobs: ["a", None, Retry("again", delay=3600), Snooze(3600), Cancel("unwanted"), Fail("hopeless")],
        asynchronous=asynchronous,
    )
    assert [(job.status, job.attempts, job.result, job.last_error) for job in jobs] == [
        ("completed", 1, "a", None),
        ("completed", 1, None, None),
        ("pending", 1, None, "again"),
        ("pending", 0, None, None),
        ("cancelled", 1, None, "unwanted"),
        ("failed", 1, None, "hopeless"),
    ]


@pytest.mark.parametrize("key", [lambda job: job.id, lambda job: str(job.id)], ids=["ids", "text"])
def test_a_dict_has_values_by_the_ids_of_the_jobs(queue: JobQueue, key: Callable[[Job], Any]) -> None:
    jobs = answers(queue, 3, lambda jobs: {key(job): job.data["n"] for job in reversed(jobs)})
    assert [job.result for job in jobs] == [0, 1, 2]


def test_a_job_that_a_dict_leaves_out_has_failed(queue: JobQueue) -> None:
    jobs = answers(queue, 3, lambda jobs: {jobs[0].id: "a", jobs[2].id: Fail("no"), uuid.uuid4(): "?"})
    assert [job.status for job in jobs] == ["completed", "pending", "failed"]
    assert "nothing for this job" in str(jobs[1].last_error)


def test_nothing_completes_all(queue: JobQueue) -> None:
    assert {job.status for job in answers(queue, 3, lambda jobs: None)} == {"completed"}


def test_one_outcome_is_meant_for_all(queue: JobQueue) -> None:
    jobs = answers(queue, 3, lambda jobs: Fail("closed"))
    assert {(job.status, job.last_error) for job in jobs} == {("failed", "closed")}


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_an_exception_is_the_failure_of_all(queue: JobQueue, asynchronous: bool) -> None:
    def breaks(jobs: list[Job]) -> Any:
        raise ValueError("the API is down")

    jobs = answers(queue, 3, breaks, asynchronous=asynchronous)
    assert {(job.status, job.attempts, job.last_error) for job in jobs} == {
        ("pending", 1, "ValueError: the API is down")
    }


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1], "1 values"),
        ([1, 2, 3, 4], "4 values"),
        ((), "0 values"),
        ("abc", "a str"),
        (5, "a int"),
        (object(), "obj"),
    ],
    ids=["too few", "too many", "empty", "text", "a number", "an object"],
)
def test_results_that_do_not_fit_the_batch_fail_all_its_jobs_with_the_reason(
    queue: JobQueue, value: Any, words: str
) -> None:
    jobs = answers(queue, 3, lambda jobs: value)
    assert {job.status for job in jobs} == {"pending"}
    assert all("was given 3 jobs" in str(job.last_error) and words in str(job.last_error) for job in jobs)


def test_one_value_that_cannot_be_stored_fails_its_job_alone(queue: JobQueue) -> None:
    jobs = answers(queue, 3, lambda jobs: ["a", object(), "c"])
    assert [job.status for job in jobs] == ["completed", "failed", "completed"]


def test_those_that_failed_come_again_in_a_batch(queue: JobQueue) -> None:
    _, calls = batches(
        queue,
        lambda jobs: [Retry(delay=0) if job.attempts == 1 and job.data["n"] % 2 else "done" for job in jobs],
    )
    queue.enqueue_many("many", [{"n": n} for n in range(10)])
    drain(queue)
    assert sum(len(jobs) for jobs in calls) == 15
    assert {job.data["n"] for jobs in calls[1:] for job in jobs} == {1, 3, 5, 7, 9}


# What else there is


def test_resources_come_beside_the_jobs(dsn: str) -> None:
    class Api:
        sent = 0

    @contextlib.asynccontextmanager
    async def lifespan(queue: JobQueue) -> AsyncIterator[dict[str | type, Any]]:
        yield {"api": Api()}

    with JobQueue(dsn, lifespan=lifespan) as queue:

        @queue.job(batch_size=10)
        async def many(jobs: list[Job], api: Annotated[Any, Resource("api")]) -> list[int]:
            api.sent += len(jobs)
            return [api.sent for _ in jobs]

        job = many.enqueue(anything="goes")
        drain(queue)
        assert queue.get(job).result == 1


def test_a_batch_handler_takes_the_jobs_and_nothing_else(queue: JobQueue) -> None:
    with pytest.raises(InvalidOption, match="list of jobs"):

        @queue.job(batch_size=10)
        async def many(jobs: list[Job], other: int) -> None: ...


def test_a_timeout_is_that_of_the_most_impatient_job(queue: JobQueue) -> None:
    @queue.job(batch_size=10)
    async def many(jobs: list[Job]) -> None:
        await asyncio.Event().wait()

    patient = many.using(timeout=3600).enqueue()
    endless = many.enqueue()
    impatient = many.using(timeout=0.1).enqueue()
    drain(queue, sweep=60)
    for job in (patient, endless, impatient):
        failed = queue.get(job)
        assert (failed.status, failed.attempts) == ("pending", 1)
        assert "timed out" in str(failed.last_error)


def test_cancelling_one_job_of_a_batch_leaves_its_neighbours_alone(queue: JobQueue) -> None:
    started, told = threading.Event(), threading.Event()

    @queue.job(batch_size=3)
    async def many(jobs: list[Job]) -> list[Any]:
        started.set()
        while not any(job.cancelled for job in jobs):
            await asyncio.sleep(0.005)
        told.set()
        return [Cancel("as asked") if job.cancelled else "done" for job in jobs]

    async def main() -> list[Job]:
        jobs = [await many.aenqueue() for _ in range(3)]
        async with working(queue):
            await happened(started)
            assert await queue.acancel(jobs[1], "unwanted")
            await happened(told)
            return [await ended(queue, job) for job in jobs]

    done = run(main())
    assert [job.status for job in done] == ["completed", "cancelled", "completed"]


def test_a_batch_of_which_every_job_is_cancelled_is_stopped(queue: JobQueue) -> None:
    started = threading.Event()

    @queue.job(batch_size=2)
    async def many(jobs: list[Job]) -> None:
        started.set()
        await asyncio.Event().wait()

    async def main() -> list[Job]:
        jobs = [await many.aenqueue() for _ in range(2)]
        async with working(queue, grace=0):
            await happened(started)
            for job in jobs:
                assert await queue.acancel(job)
            return [await ended(queue, job) for job in jobs]

    assert {job.status for job in run(main())} == {"cancelled"}


def test_a_lost_claim_of_one_job_of_a_batch_leaves_the_others_alone(queue: JobQueue, db: Db) -> None:
    started, go_on = threading.Event(), asyncio.Event()
    seen: list[list[Job]] = []

    @queue.job(batch_size=3, concurrency=2)
    async def many(jobs: list[Job]) -> list[str]:
        seen.append(jobs)
        if len(seen) == 1:
            started.set()
            await go_on.wait()
        return ["done" for _ in jobs]

    async def main() -> list[Job]:
        jobs = [await many.aenqueue() for _ in range(3)]
        async with working(queue, heartbeat=0.1):
            await happened(started)
            lost = seen[0][1]
            db.execute("SELECT * FROM howdah.release(ARRAY[%s], ARRAY[%s]::bigint[], true)", (lost.id, lost.token))
            await until(lambda: len(seen) == 2)
            assert (await ended(queue, jobs[1])).interruptions == 1
            go_on.set()
            return [await ended(queue, job) for job in jobs]

    done = run(main())
    assert [(job.status, job.attempts) for job in done] == [("completed", 1)] * 3


def test_some_jobs_of_a_batch_can_be_completed_in_the_handlers_transaction(dsn: str, queue: JobQueue, db: Db) -> None:
    @queue.job(batch_size=3)
    def many(jobs: list[Job]) -> list[Any]:
        with psycopg.connect(dsn) as conn:
            jobs[0].complete("in the transaction", conn=conn)
        return ["ignored", "by the worker", Fail("no")]

    jobs = [many.enqueue() for _ in range(3)]
    drain(queue)
    assert [(queue.get(job).status, queue.get(job).result) for job in jobs] == [
        ("completed", "in the transaction"),
        ("completed", "by the worker"),
        ("failed", None),
    ]
    assert statuses(db, "many") == {"completed": 2, "failed": 1}
