"""How jobs end: results, outcomes returned and raised, and everything that a handler can throw at a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from howdah import Job, JobQueue
from howdah.handlers.outcome import Cancel, Fail, Outcome, Retry, Snooze
from tests.clock import TestClock
from tests.conftest import Db
from tests.worker import child_handlers
from tests.worker.in_process import drain, statuses

WAYS = [
    pytest.param((asynchronous, raised), id=f"{'raised' if raised else 'returned'} {where}")
    for asynchronous, where in ((True, "on the loop"), (False, "in a thread"))
    for raised in (True, False)
]
Way = tuple[bool, bool]


def says(queue: JobQueue, way: Way, make: Callable[[], Outcome], *, times: int = 1, **options: Any) -> Any:
    """A handler that returns or raises an outcome several times, and then succeeds."""
    asynchronous, raised = way
    said: list[Job] = []

    def say(job: Job) -> Any:
        said.append(job)
        if len(said) > times:
            return "done"
        if raised:
            raise make()
        return make()

    async def on_loop(job: Job) -> Any:
        return say(job)

    return queue.job(name="says", **options)(on_loop if asynchronous else say)


# Outcomes


@pytest.mark.parametrize("way", WAYS)
def test_retry_spends_an_attempt_and_is_due_after_its_delay(queue: JobQueue, clock: TestClock, way: Way) -> None:
    job = says(queue, way, lambda: Retry("later", delay=90), times=2).enqueue()
    drain(queue)
    waiting = queue.get(job)
    assert (waiting.status, waiting.attempts, waiting.last_error) == ("pending", 1, "later")
    assert waiting.run_at == clock.now + timedelta(seconds=90)
    clock.advance(89)
    drain(queue)
    assert queue.get(job).attempts == 1
    clock.advance(1)
    drain(queue)
    clock.advance(90)
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.attempts, done.result) == ("completed", 3, "done")
    assert [error.error for error in done.errors] == ["later", "later"]


@pytest.mark.parametrize("way", WAYS)
def test_retry_can_name_a_moment_or_leave_it_to_the_policy(queue: JobQueue, clock: TestClock, way: Way) -> None:
    moment = clock.now + timedelta(days=40)
    outcomes = iter([Retry(), Retry(at=moment)])
    policy = {"kind": "fixed", "delay": 7}
    job = says(queue, way, lambda: next(outcomes), times=2).using(retry_policy=policy).enqueue()
    drain(queue)
    assert queue.get(job).run_at == clock.now + timedelta(seconds=7)
    clock.advance(7)
    drain(queue)
    assert queue.get(job).run_at == moment


@pytest.mark.parametrize("way", WAYS)
def test_retry_on_the_last_attempt_is_a_failure(queue: JobQueue, way: Way) -> None:
    job = says(queue, way, lambda: Retry("not yet", delay=0), times=9).using(max_attempts=2).enqueue()
    report = drain(queue)
    failed = queue.get(job)
    assert (failed.status, failed.attempts, failed.last_error) == ("failed", 2, "not yet")
    assert (report.counts["retried"], report.counts["failed"]) == (1, 1)


@pytest.mark.parametrize("way", WAYS)
def test_snooze_spends_no_attempt_however_often(queue: JobQueue, clock: TestClock, way: Way) -> None:
    job = says(queue, way, lambda: Snooze(60), times=3).using(max_attempts=1).enqueue()
    for _ in range(3):
        drain(queue)
        put_off = queue.get(job)
        assert (put_off.status, put_off.attempts, put_off.errors) == ("pending", 0, ())
        assert put_off.run_at == clock.now + timedelta(seconds=60)
        clock.advance(60)
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.attempts, done.token) == ("completed", 1, done.token)
    assert done.token > 3, "each claim was a new one"


def test_snooze_can_name_a_moment(queue: JobQueue, clock: TestClock) -> None:
    moment = clock.now + timedelta(hours=5)
    job = says(queue, (True, False), lambda: Snooze(at=moment)).enqueue()
    report = drain(queue)
    assert (queue.get(job).run_at, report.counts["snoozed"]) == (moment, 1)


@pytest.mark.parametrize("way", WAYS)
def test_cancel_ends_the_job_as_cancelled_with_the_reason(queue: JobQueue, way: Way) -> None:
    job = says(queue, way, lambda: Cancel("not wanted")).enqueue()
    report = drain(queue)
    done = queue.get(job)
    assert (done.status, done.last_error, done.attempts) == ("cancelled", "not wanted", 1)
    assert report.counts["cancelled"] == 1


@pytest.mark.parametrize("way", WAYS)
def test_fail_ends_the_job_although_attempts_are_left(queue: JobQueue, way: Way) -> None:
    job = says(queue, way, lambda: Fail("no such user")).enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.last_error, done.attempts, done.max_attempts) == ("failed", "no such user", 1, 3)


def test_outcomes_cross_from_child_processes(dsn: str, clock: TestClock) -> None:
    queue = child_handlers.connected(dsn)
    words = (
        "retry", "snooze", "cancel", "fail", "returned fail", "raise", "exit", "interrupt", "unprintable",
        "not JSON", "die", "",
    )  # fmt: skip
    jobs = {word: child_handlers.says.enqueue(word=word) for word in words}
    drain(queue, types=["says"], children=1)
    ended = {word: queue.get(job) for word, job in jobs.items()}

    def seen(word: str) -> tuple[str, int, str]:
        job = ended[word]
        return job.status, job.attempts, job.errors[-1].error if job.errors else ""

    assert seen("") == ("completed", 1, "")
    assert seen("retry") == ("completed", 2, "once more")
    assert seen("snooze") == ("pending", 0, "")
    assert ended["snooze"].run_at == clock.now + timedelta(hours=1)
    assert (ended["cancel"].status, ended["cancel"].last_error) == ("cancelled", "unwanted")
    assert seen("fail") == seen("returned fail") == ("failed", 1, "hopeless")
    assert seen("raise") == ("pending", 1, "ValueError: broken")
    assert seen("exit") == ("pending", 1, "SystemExit: 3")
    assert seen("interrupt") == ("pending", 1, "KeyboardInterrupt")
    assert seen("unprintable")[:2] == ("pending", 1)
    assert "Unprintable" in seen("unprintable")[2]
    assert seen("not JSON")[:2] == ("failed", 1)
    assert "result" in seen("not JSON")[2]
    assert (ended["die"].status, ended["die"].attempts, ended["die"].crashes) == ("completed", 2, 1)
    assert "SIGKILL" in seen("die")[2]
    assert "ValueError: broken" in str(ended["raise"].errors[0].traceback)
    assert ended["raise"].errors[0].exception == "builtins.ValueError"


# Everything that can be thrown


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


class HardlyPrintable(Outcome):
    def __str__(self) -> str:
        raise SystemExit("from __str__")


class UnprintableCancel(Cancel):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def _chained() -> BaseException:
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        return error


THROWN: list[tuple[BaseException, str]] = [
    (ValueError("plain"), "ValueError: plain"),
    (ValueError(), "ValueError"),
    (SystemExit(3), "SystemExit: 3"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (asyncio.CancelledError("mine"), "CancelledError: mine"),
    (TimeoutError("slow"), "TimeoutError: slow"),
    (GeneratorExit(), "GeneratorExit"),
    (StopIteration(5), "StopIteration"),
    (StopAsyncIteration(), "StopAsyncIteration"),
    (MemoryError(), "MemoryError"),
    (RecursionError("deep"), "RecursionError: deep"),
    (ExceptionGroup("several", [ValueError("a"), KeyError("b")]), "several"),
    (_chained(), "ValueError: outer"),
    (Unprintable(), "Unprintable"),
    (ValueError("a\0b"), "ValueError: a"),
    (ValueError("lone \ud800 surrogate"), "ValueError: lone"),
    (ValueError("x" * 5_000_000), "ValueError: xxx"),
    (ValueError({"not": "a str"}), "ValueError: {'not'"),
    (Fail("a\0b"), "a"),
]


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_whatever_is_raised_is_recorded_and_other_jobs_complete(queue: JobQueue, db: Db, asynchronous: bool) -> None:
    def throw(number: int) -> str:
        if number < len(THROWN):
            raise THROWN[number][0]
        return "fine"

    async def throw_on_loop(number: int) -> str:
        return throw(number)

    handler = queue.job(name="throw", max_attempts=1)(throw_on_loop if asynchronous else throw)
    jobs = [handler.using(max_attempts=1).enqueue(number=number) for number in range(len(THROWN) + 20)]
    report = drain(queue)
    for (error, expected), job in zip(THROWN, jobs, strict=False):
        failed = queue.get(job)
        assert failed.status == "failed", error
        assert expected in str(failed.last_error)
        assert len(str(failed.last_error)) <= 100_000
    assert {queue.get(job).result for job in jobs[len(THROWN) :]} == {"fine"}
    assert (report.counts["failed"], report.counts["completed"]) == (len(THROWN), 20)


@pytest.mark.parametrize("make", [HardlyPrintable, UnprintableCancel])
def test_an_exception_that_will_not_be_printed_ends_its_job_and_no_more(
    queue: JobQueue, make: Callable[[], Outcome]
) -> None:
    job = says(queue, (True, True), make).using(max_attempts=1).enqueue()
    drain(queue)
    assert queue.get(job).ended


def test_the_traceback_of_each_attempt_is_kept(queue: JobQueue) -> None:
    @queue.job(retry={"kind": "none"})
    async def breaks(job: Job) -> None:
        raise ValueError(f"attempt {job.attempts}")

    job = breaks.using(retry_policy={"kind": "none"}).enqueue()
    drain(queue)
    errors = queue.get(job).errors
    assert [(error.attempt, error.kind, error.error) for error in errors] == [
        (number, "failed", f"ValueError: attempt {number}") for number in (1, 2, 3)
    ]
    assert all("in breaks" in str(error.traceback) for error in errors)


# Results


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_results_that_json_can_hold_are_stored_as_they_are(queue: JobQueue, asynchronous: bool) -> None:
    results = [None, 0, False, "", [], {}, "ä\u2028", 10**30, 1.5, [1, [2]], {"a": {"b": None}}]

    def give(number: int) -> Any:
        return results[number]

    async def give_on_loop(number: int) -> Any:
        return results[number]

    handler = queue.job(name="give")(give_on_loop if asynchronous else give)
    jobs = [handler.enqueue(number=number) for number in range(len(results))]
    drain(queue)
    stored = [queue.get(job).result for job in jobs]
    assert list(map(repr, stored)) == list(map(repr, results))


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_a_result_that_cannot_be_stored_fails_its_job_alone(queue: JobQueue, db: Db, asynchronous: bool) -> None:
    circular: list[Any] = []
    circular.append(circular)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    results = [object(), {1, 2}, float("nan"), b"bytes", circular, deep, "a\0b", "\ud800", "x" * 70_000]

    def give(number: int) -> Any:
        return results[number] if number < len(results) else "fine"

    async def give_on_loop(number: int) -> Any:
        return give(number)

    handler = queue.job(name="give")(give_on_loop if asynchronous else give)
    jobs = [handler.enqueue(number=number) for number in range(len(results) + 10)]
    drain(queue)
    for result, job in zip(results, jobs, strict=False):
        failed = queue.get(job)
        assert failed.status == "failed", type(result)
        assert "result" in str(failed.last_error)
    assert failed.last_error is not None
    assert "larger" in failed.last_error or "bytes" in failed.last_error, "the last one is too large, with a reason"
    assert statuses(db, "give") == {"failed": len(results), "completed": 10}
    # So that nothing recurses through it when it is freed.
    while deep:
        deep = deep.pop()
