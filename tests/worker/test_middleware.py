"""Middleware: what is called around every handler, wherever that runs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from howdah import Job, JobQueue
from howdah.handlers.outcome import Cancel, Fail
from tests.worker import child_handlers
from tests.worker.in_process import drain, ended, happened, run, working

Kinds = ("on the loop", "in a thread", "in batches")


def register(queue: JobQueue, kind: str, call: Any) -> Any:
    """A handler of a kind that calls a function."""

    async def on_loop(job: Job) -> Any:
        return call(job)

    def in_thread(job: Job) -> Any:
        return call(job)

    async def in_batches(jobs: list[Job]) -> Any:
        return [call(job) for job in jobs]

    if kind == "in batches":
        return queue.job(name="work", batch_size=10)(in_batches)
    return queue.job(name="work")(on_loop if kind == "on the loop" else in_thread)


@pytest.mark.parametrize("kind", Kinds)
def test_the_first_is_outermost_and_each_is_called_once(queue: JobQueue, kind: str) -> None:
    heard: list[str] = []

    @queue.middleware
    async def outer(job: Any, call_next: Any) -> Any:
        heard.append("outer begins")
        result = await call_next(job)
        heard.append("outer ends")
        return result

    @queue.middleware
    async def inner(job: Any, call_next: Any) -> Any:
        heard.append("inner begins")
        result = await call_next(job)
        heard.append("inner ends")
        return result

    def work(job: Job) -> str:
        heard.append("handler")
        return "done"

    job = register(queue, kind, work).enqueue()
    drain(queue)
    assert heard == ["outer begins", "inner begins", "handler", "inner ends", "outer ends"]
    assert queue.get(job).result == "done"


@pytest.mark.parametrize("kind", Kinds)
def test_it_sees_the_job_and_is_on_the_loop(queue: JobQueue, kind: str) -> None:
    seen: list[Any] = []
    threads: list[bool] = []

    @queue.middleware
    async def look(job: Any, call_next: Any) -> Any:
        seen.append(job)
        threads.append(threading.current_thread() is threading.main_thread())
        return await call_next(job)

    job = register(queue, kind, lambda job: None).enqueue()
    drain(queue)
    (found,) = seen
    if kind == "in batches":
        (found,) = found
    assert (found.id, found.job_type, found.attempts, found.cancelled) == (job.id, "work", 1, False)
    assert threads == [True]


@pytest.mark.parametrize("kind", Kinds)
def test_it_can_replace_the_result(queue: JobQueue, kind: str) -> None:
    @queue.middleware
    async def wrap(job: Any, call_next: Any) -> Any:
        result = await call_next(job)
        return [{"wrapped": each} for each in result] if isinstance(result, list) else {"wrapped": result}

    job = register(queue, kind, lambda job: 5).enqueue()
    drain(queue)
    assert queue.get(job).result == {"wrapped": 5}


@pytest.mark.parametrize("kind", Kinds)
def test_it_can_answer_instead_of_the_handler(queue: JobQueue, kind: str) -> None:
    called: list[Job] = []

    @queue.middleware
    async def refuse(job: Any, call_next: Any) -> Any:
        return Cancel("not on Sundays")

    job = register(queue, kind, called.append).enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.last_error, called) == ("cancelled", "not on Sundays", [])


@pytest.mark.parametrize("kind", Kinds)
@pytest.mark.parametrize("when", ["before", "after"])
def test_one_that_raises_fails_the_job(queue: JobQueue, kind: str, when: str) -> None:
    @queue.middleware
    async def breaks(job: Any, call_next: Any) -> Any:
        if when == "after":
            await call_next(job)
        raise ValueError("middleware broke")

    job = register(queue, kind, lambda job: None).enqueue()
    drain(queue)
    failed = queue.get(job)
    assert (failed.status, failed.attempts, failed.last_error) == ("pending", 1, "ValueError: middleware broke")


@pytest.mark.parametrize("kind", Kinds)
def test_it_sees_what_the_handler_raises_and_can_turn_it_into_a_result(queue: JobQueue, kind: str) -> None:
    seen: list[BaseException] = []

    @queue.middleware
    async def mend(job: Any, call_next: Any) -> Any:
        try:
            return await call_next(job)
        except Exception as error:  # noqa: BLE001
            seen.append(error)
            return None

    def breaks(job: Job) -> None:
        raise KeyError("lost")

    job = register(queue, kind, breaks).enqueue()
    drain(queue)
    assert queue.get(job).status == "completed"
    assert [(type(error), str(error)) for error in seen] == [(KeyError, "'lost'")]


def test_it_sees_system_exit_of_a_thread_as_it_is(queue: JobQueue) -> None:
    seen: list[type[BaseException]] = []

    @queue.middleware
    async def look(job: Any, call_next: Any) -> Any:
        try:
            return await call_next(job)
        except BaseException as error:
            seen.append(type(error))
            raise

    def leaves(job: Job) -> None:
        raise SystemExit(3)

    job = register(queue, "in a thread", leaves).enqueue()
    drain(queue)
    assert seen == [SystemExit]
    assert queue.get(job).last_error == "SystemExit: 3"


def test_an_outcome_passes_through_it(queue: JobQueue) -> None:
    returned: list[Any] = []

    @queue.middleware
    async def look(job: Any, call_next: Any) -> Any:
        returned.append(await call_next(job))
        return returned[-1]

    job = register(queue, "on the loop", lambda job: Fail("hopeless")).enqueue()
    drain(queue)
    assert queue.get(job).last_error == "hopeless"
    assert [type(each) for each in returned] == [Fail]


def test_a_cancelled_job_stops_in_its_middleware(queue: JobQueue) -> None:
    waits = threading.Event()

    @queue.middleware
    async def wait(job: Any, call_next: Any) -> Any:
        waits.set()
        await asyncio.Event().wait()

    async def main() -> Job:
        job = register(queue, "in a thread", lambda job: None).enqueue()
        async with working(queue):
            await happened(waits)
            await queue.acancel(job, "unwanted")
            return await ended(queue, job)

    done = run(main())
    assert (done.status, done.last_error) == ("cancelled", "unwanted")


def test_around_a_child_process_it_sees_results_and_failures_as_anywhere_else(queue: JobQueue) -> None:
    seen: dict[str, Any] = {}

    @queue.middleware
    async def wrap(job: Any, call_next: Any) -> Any:
        try:
            result = await call_next(job)
        except Exception as error:
            seen[job.data.get("word", "")] = str(error)
            raise
        return {"wrapped": result}

    echo = queue.job(process=True)(child_handlers.echo.function)
    says = queue.job(process=True)(child_handlers.says.function)
    fine = echo.enqueue(value=5)
    broken = says.enqueue(word="raise")
    hopeless = says.enqueue(word="fail")
    drain(queue, children=1)
    assert queue.get(fine).result == {"wrapped": 5}
    assert (queue.get(broken).status, queue.get(broken).last_error) == ("pending", "ValueError: broken")
    assert (queue.get(hopeless).status, queue.get(hopeless).last_error) == ("failed", "hopeless")
    assert "broken" in seen["raise"]
    assert "hopeless" in seen["fail"]
