"""Plain middleware and the lifespan of threads: what runs where plain handlers run."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from howdah import InvalidOption, Job, JobQueue
from howdah.worker.run import threads
from tests.worker import thread_hooks
from tests.worker.in_process import drain, ended, happened, run, until, working


def test_the_handler_sees_the_thread_locals_and_context_variables_of_the_hook(queue: JobQueue) -> None:
    local = threading.local()
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")
    order: list[str] = []

    @queue.middleware
    def first(job: Job, call_next: Any) -> Any:
        order.append("first")
        local.session, _ = job.id, tenant.set("acme")
        result = call_next(job)
        assert local.session == job.id  # the same thread, before and after
        return {"wrapped": result}

    @queue.middleware
    async def outermost(job: Job, call_next: Any) -> Any:
        order.append("async")
        return await call_next(job)

    @queue.middleware
    def second(job: Job, call_next: Any) -> Any:
        order.append("second")
        job.event("seen")
        return call_next(job)

    @queue.job
    def work(job: Job) -> list[Any]:
        return [local.session == job.id, tenant.get()]

    job = work.enqueue()
    drain(queue)
    assert queue.get(job).result == {"wrapped": [True, "acme"]}
    assert order == ["async", "first", "second"]
    assert [event.name for event in queue.events(job) if event.kind == "event"] == ["seen"]


def test_a_job_in_the_same_thread_does_not_see_the_context_of_the_one_before(queue: JobQueue) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")
    before: list[str] = []

    @queue.middleware
    def sets(job: Job, call_next: Any) -> Any:
        before.append(tenant.get())
        tenant.set("acme")
        return call_next(job)

    @queue.job
    def work() -> None: ...

    work.enqueue_many([{}] * 3)
    drain(queue, threads=1)
    assert before == ["none"] * 3


def test_handlers_on_the_loop_run_without_it(queue: JobQueue, caplog: pytest.LogCaptureFixture) -> None:
    called: list[str] = []

    @queue.middleware
    def around(job: Job, call_next: Any) -> Any:
        called.append(job.job_type)
        return call_next(job)

    @queue.job
    async def on_loop() -> str:
        return "done"

    job = on_loop.enqueue()
    drain(queue)
    assert (queue.get(job).result, called) == ("done", [])
    (warning,) = [record.getMessage() for record in caplog.records if "never called" in record.getMessage()]
    assert "around" in warning
    caplog.clear()

    @queue.job
    def in_thread(job: Job) -> str:
        return "done"

    @queue.job(batch_size=10)
    def in_batches(jobs: list[Job]) -> None: ...

    on_loop.enqueue()
    in_thread.enqueue()
    drain(queue, types=["on_loop", "in_thread"])
    assert called == ["in_thread"]
    assert not [record for record in caplog.records if "never called" in record.getMessage()]


def test_a_batch_handler_in_a_thread_is_wrapped_once_for_its_jobs(queue: JobQueue) -> None:
    sizes: list[int] = []

    @queue.middleware
    def around(jobs: list[Job], call_next: Any) -> Any:
        sizes.append(len(jobs))
        return call_next(jobs)

    @queue.job(batch_size=10)
    def in_batches(jobs: list[Job]) -> None: ...

    in_batches.enqueue_many([{}] * 3)
    drain(queue)
    assert sum(sizes) == 3


def test_exceptions_pass_through_the_hook_and_its_own_fail_the_job(queue: JobQueue) -> None:
    passed: list[BaseException] = []

    @queue.middleware
    def around(job: Job, call_next: Any) -> Any:
        if job.data["where"] == "before":
            raise ValueError("hook broke before")
        try:
            call_next(job)
        except BaseException as error:
            passed.append(error)
            raise
        raise ValueError("hook broke after")

    @queue.job(max_attempts=1)
    def work(where: str) -> None:
        if where == "exit":
            raise SystemExit(3)
        if where == "handler":
            raise KeyError("lost")

    jobs = {where: work.enqueue(where=where) for where in ("handler", "exit", "before", "after")}
    drain(queue)
    assert {where: (queue.get(job).status, queue.get(job).last_error) for where, job in jobs.items()} == {
        "handler": ("failed", "KeyError: 'lost'"),
        "exit": ("failed", "SystemExit: 3"),
        "before": ("failed", "ValueError: hook broke before"),
        "after": ("failed", "ValueError: hook broke after"),
    }
    assert sorted(type(error).__name__ for error in passed) == ["KeyError", "SystemExit"]


def test_timeouts_and_cancels_reach_handlers_inside_of_hooks(queue: JobQueue) -> None:
    running, free = threading.Event(), threading.Event()
    after: list[str] = []

    @queue.middleware
    def around(job: Job, call_next: Any) -> Any:
        try:
            return call_next(job)
        finally:
            after.append(job.job_type)

    @queue.job
    def cancelled(job: Job) -> None:
        running.set()
        while not job.cancelled:
            time.sleep(0.005)
        raise RuntimeError("stopped")

    @queue.job(timeout=0.1, max_attempts=1)
    def stuck() -> None:
        free.wait(60)

    async def main() -> tuple[Job, Job]:
        try:
            async with working(queue) as worker:
                first, second = await cancelled.aenqueue(), await stuck.aenqueue()
                await happened(running)
                await queue.acancel(first, "unwanted")
                found = await ended(queue, first), await ended(queue, second)
                free.set()
                await until(lambda: not worker.leaked)
                return found
        finally:
            free.set()

    first, second = run(main())
    assert (first.status, first.last_error) == ("cancelled", "unwanted")
    assert (second.status, second.last_error) == ("failed", "timed out after 0.1 s")
    assert sorted(after) == ["cancelled", "stuck"]


def test_child_processes_run_the_hooks_of_the_queue_that_they_import(dsn: str) -> None:
    queue = thread_hooks.queue
    queue.connect_to(dsn)
    first, second = thread_hooks.looks.enqueue(), thread_hooks.looks_awaited.enqueue()
    broken = thread_hooks.breaks.enqueue()
    drain(queue, children=1)
    for job in (first, second):
        result = queue.get(job).result
        assert result["pid"] == result["pid_of_hook"] != os.getpid()
        assert result["converted"] == "a set"  # by the json_default of the queue
        # One child, so one life of its thread.
        assert (result["session"], result["tenant"], result["lives"]) == (str(job.id), "acme", 1)
    assert queue.get(broken).last_error == "ValueError: through the hook: 'lost'"


def test_each_thread_enters_its_lifespan_once_and_leaves_it_when_the_worker_stops(dsn: str) -> None:
    entered: list[int] = []
    left: list[int] = []
    local = threading.local()
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    together = threading.Barrier(2, timeout=60)

    @contextlib.contextmanager
    def lifespan(queue: JobQueue) -> Iterator[None]:
        local.connection = object()
        variable.set("of the thread")
        entered.append(threading.get_ident())
        yield
        # In the same context and the same thread.
        assert (local.connection is not None, variable.get()) == (True, "of the thread")
        left.append(threading.get_ident())

    queue = JobQueue(dsn, thread_lifespan=lifespan)

    @queue.job
    def work() -> list[Any]:
        together.wait()
        return [hasattr(local, "connection"), variable.get(), threading.get_ident()]

    @queue.job
    async def on_loop() -> None: ...

    on_loop.enqueue()
    drain(queue)
    assert entered == []
    jobs = [work.enqueue() for _ in range(6)]
    drain(queue, threads=2)
    results = [queue.get(job).result for job in jobs]
    # A context variable belongs to a call: the hook around the handler sets it.
    assert [result[:2] for result in results] == [[True, "none"]] * 6
    assert sorted(entered) == sorted(left) == sorted({result[2] for result in results})
    assert len(entered) == 2
    queue.close()


def test_a_lifespan_of_a_thread_that_fails_fails_its_job_and_is_tried_again(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []

    @contextlib.contextmanager
    def lifespan(queue: JobQueue) -> Iterator[None]:
        calls.append("enter")
        if len(calls) == 1:
            raise ConnectionError("no database")
        yield
        raise RuntimeError("could not close")

    queue = JobQueue(dsn, thread_lifespan=lifespan)

    @queue.job(max_attempts=1)
    def work() -> None: ...

    jobs = [work.enqueue(), work.enqueue()]
    drain(queue, threads=1)
    assert sorted(queue.get(job).last_error or "" for job in jobs) == ["", "ConnectionError: no database"]
    assert calls == ["enter", "enter"]
    assert "could not be left" in caplog.text
    queue.close()


def test_a_worker_does_not_wait_for_ever_for_its_threads(
    dsn: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "END_WITHIN", 0.05)
    free = threading.Event()

    @contextlib.contextmanager
    def lifespan(queue: JobQueue) -> Iterator[None]:
        yield
        free.wait(60)

    queue = JobQueue(dsn, thread_lifespan=lifespan)

    @queue.job
    def work() -> None: ...

    job = work.enqueue()
    try:
        drain(queue)
    finally:
        free.set()
    assert queue.get(job).status == "completed"
    assert "threads for handlers that have not ended within 0.05 s: 1" in caplog.text
    queue.close()


def test_what_cannot_be_middleware_is_refused(queue: JobQueue) -> None:
    def generator(job: Job, call_next: Any) -> Iterator[None]:
        yield

    wrong: dict[Any, str] = {
        generator: "not a generator",
        "text": "'text'",
        (lambda job: None): "cannot be called with two arguments",
    }
    for function, complaint in wrong.items():
        with pytest.raises(InvalidOption, match=complaint):
            queue.middleware(function)
