"""When a failed attempt is tried again: stored policies, and the rules that need the exception itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from howdah import InvalidOption, Job, JobQueue
from howdah.handlers.outcome import Retry
from howdah.handlers.retry import Exponential, Fixed, Immediately, Linear
from tests.clock import TestClock
from tests.conftest import Db
from tests.worker.in_process import drain

DEFAULT = "exponential, 2 s at first, 20% more or less"


def failing(queue: JobQueue, error: BaseException | None = None, **options: Any) -> Any:
    """A handler that always fails."""

    async def failing() -> None:
        raise ValueError("broken") if error is None else error

    return queue.job(**options)(failing)


def delays(queue: JobQueue, clock: TestClock, job: Job, attempts: int) -> list[float]:
    """The seconds between the attempts of a job that fails each time."""
    waited: list[float] = []
    for _ in range(attempts):
        drain(queue)
        run_at = queue.get(job).run_at
        waited.append((run_at - clock.now).total_seconds())
        clock.advance(waited[-1])
    return waited


POLICIES = [
    (Exponential(delay=2, factor=3, jitter=0), [2, 6, 18]),
    (Exponential(delay=10, factor=10, max=50, jitter=0), [10, 50, 50]),
    (Fixed(7), [7, 7, 7]),
    (Linear(5), [5, 10, 15]),
    (Linear(5, max=12), [5, 10, 12]),
    ({"kind": "fixed", "delay": 3}, [3, 3, 3]),
    ([5, timedelta(hours=2)], [5, 7200, 7200]),
]


@pytest.mark.parametrize(("policy", "expected"), POLICIES, ids=lambda value: str(value))
def test_a_policy_sets_the_delays_between_attempts(
    queue: JobQueue, clock: TestClock, policy: Any, expected: list[float]
) -> None:
    job = failing(queue, retry=policy, max_attempts=9).enqueue()
    assert delays(queue, clock, job, 3) == expected


@pytest.mark.parametrize(("policy", "expected"), POLICIES, ids=lambda value: str(value))
def test_a_policy_by_class_does_the_same_as_a_stored_one(
    queue: JobQueue, clock: TestClock, policy: Any, expected: list[float]
) -> None:
    job = failing(queue, retry={ValueError: policy}, max_attempts=9).enqueue()
    assert delays(queue, clock, job, 3) == expected


def test_immediately_uses_up_all_attempts_in_one_run(queue: JobQueue) -> None:
    job = failing(queue, retry=Immediately(), max_attempts=4).enqueue()
    report = drain(queue)
    done = queue.get(job)
    assert (done.status, done.attempts, len(done.errors)) == ("failed", 4, 4)
    assert (report.counts["retried"], report.counts["failed"]) == (3, 1)


def test_without_a_policy_the_delays_grow_and_vary(queue: JobQueue, clock: TestClock) -> None:
    handler = failing(queue)
    jobs = [handler.using(max_attempts=9).enqueue() for _ in range(20)]
    drain(queue)
    waited = [(queue.get(job).run_at - clock.now).total_seconds() for job in jobs]
    assert all(1.6 <= seconds <= 2.4 for seconds in waited)
    assert len(set(waited)) > 1, "those that failed together do not come back together"


@pytest.mark.parametrize(
    ("policy", "stored"),
    [
        (Exponential(), {"kind": "exponential", "delay": 2, "factor": 2, "max": 3600, "jitter": 0.2}),
        (Fixed(5, jitter=0.5), {"kind": "fixed", "delay": 5, "jitter": 0.5}),
        (Linear(5), {"kind": "linear", "delay": 5, "max": 3600, "jitter": 0}),
        (Immediately(), {"kind": "none"}),
        (None, None),
        (lambda job, error: 1.0, None),
        ({ValueError: Fixed(5)}, None),
    ],
    ids=["exponential", "fixed", "linear", "immediately", "none", "callable", "by class"],
)
def test_a_worker_stores_the_policy_with_the_type_for_producers_without_the_handler(
    dsn: str, queue: JobQueue, db: Db, policy: Any, stored: dict[str, Any] | None
) -> None:
    failing(queue, retry=policy)
    drain(queue)
    row = db.execute("SELECT retry_policy FROM howdah.types WHERE job_type = 'failing'").fetchone()
    assert row == {"retry_policy": stored}
    with JobQueue(dsn) as producer:
        assert producer.enqueue("failing").retry_policy == stored


@pytest.mark.parametrize("policy", [Fixed(-1), Exponential(factor=0.1), {"kind": "fxied", "delay": 5}], ids=repr)
def test_a_policy_that_makes_no_sense_is_refused_before_anything_runs(queue: JobQueue, policy: Any) -> None:
    def declare_and_start() -> None:
        failing(queue, retry=policy)
        drain(queue)

    with pytest.raises(InvalidOption, match="retry policy"):
        declare_and_start()


def test_a_policy_can_be_given_with_the_job(queue: JobQueue, clock: TestClock) -> None:
    handler = failing(queue, retry=Fixed(100))
    chosen = handler.using(retry_policy=Fixed(7)).enqueue()
    plain = handler.enqueue()
    drain(queue)
    assert queue.get(chosen).run_at == clock.now + timedelta(seconds=7)
    assert queue.get(plain).run_at == clock.now + timedelta(seconds=100)


@pytest.mark.parametrize("rule", [lambda job, error: 100.0, {ValueError: Fixed(100)}], ids=["callable", "by class"])
def test_a_policy_that_is_given_with_the_job_wins_over_the_rules_of_its_handler(
    queue: JobQueue, clock: TestClock, rule: Any
) -> None:
    job = failing(queue, retry=rule).using(retry_policy=Fixed(7)).enqueue()
    drain(queue)
    assert queue.get(job).run_at == clock.now + timedelta(seconds=7)


# A function that decides


def test_a_function_is_asked_with_the_job_and_the_exception(queue: JobQueue, clock: TestClock) -> None:
    asked: list[tuple[Job, BaseException]] = []

    def decide(job: Job, error: BaseException) -> float:
        asked.append((job, error))
        return job.attempts * 10.0

    job = failing(queue, retry=decide).enqueue()
    assert delays(queue, clock, job, 2) == [10, 20]
    assert [(job.attempts, str(error)) for job, error in asked] == [(1, "broken"), (2, "broken")]


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_a_function_that_returns_none_ends_the_retries(queue: JobQueue, asynchronous: bool) -> None:
    def breaks() -> None:
        raise ValueError("broken")

    async def breaks_on_loop() -> None:
        breaks()

    job = queue.job(retry=lambda job, error: None)(breaks_on_loop if asynchronous else breaks).enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.attempts, done.last_error) == ("failed", 1, "ValueError: broken")


def _raises(job: Job, error: BaseException) -> float:
    raise RuntimeError("what now?")


def _exits(job: Job, error: BaseException) -> float:
    raise SystemExit("what now?")


@pytest.mark.parametrize(
    "decide",
    [
        _raises,
        _exits,
        lambda job, error: "soon",
        lambda job, error: float("nan"),
        lambda job, error: float("inf"),
        lambda job, error: 1e300,
        lambda job, error: 2.0**60,
        lambda job, error: {},
    ],
    ids=["raises", "exits", "text", "nan", "infinity", "1e300", "2**60", "dict"],
)
def test_a_broken_retry_function_falls_back_to_the_default_policy(
    queue: JobQueue, clock: TestClock, decide: Callable[[Job, BaseException], Any]
) -> None:
    @queue.job
    async def fine() -> None: ...

    job = failing(queue, retry=decide).enqueue()
    neighbour = fine.enqueue()
    drain(queue)
    failed = queue.get(job)
    assert (failed.status, failed.attempts, failed.last_error) == ("pending", 1, "ValueError: broken")
    assert failed.run_at > clock.now, DEFAULT
    assert queue.get(neighbour).status == "completed"


def test_a_function_that_returns_a_time_in_the_past_means_at_once(queue: JobQueue) -> None:
    job = failing(queue, retry=lambda job, error: -50.0).enqueue()
    drain(queue)
    assert (queue.get(job).status, queue.get(job).attempts) == ("failed", 3)


# By class


class Busy(Exception):
    """As from an API."""


class VeryBusy(Busy):
    """Worse."""


def test_policies_by_class_hold_for_subclasses_and_others_get_the_default(queue: JobQueue, clock: TestClock) -> None:
    rules = {VeryBusy: Fixed(500), Busy: Fixed(50), asyncio.CancelledError: Fixed(5)}
    waited = {}
    for error in (Busy(), VeryBusy(), asyncio.CancelledError(), KeyError("x")):
        job = failing(queue, error, retry=rules, name=f"failing.{type(error).__name__}").enqueue()
        drain(queue)
        waited[type(error)] = (queue.get(job).run_at - clock.now).total_seconds()
    assert (waited[Busy], waited[VeryBusy], waited[asyncio.CancelledError]) == (50, 500, 5)
    assert 1.6 <= waited[KeyError] <= 2.4, DEFAULT


def test_an_explicit_retry_is_not_overruled(queue: JobQueue, clock: TestClock) -> None:
    job = failing(queue, Retry("mine", delay=3), retry={Exception: Fixed(50)}, give_up=[Retry]).enqueue()
    drain(queue)
    assert queue.get(job).run_at == clock.now + timedelta(seconds=3)


# Giving up


@pytest.mark.parametrize("retry", [None, Immediately(), lambda job, error: 0.0, {Busy: Immediately()}])
def test_some_exceptions_are_final_whatever_the_policy(queue: JobQueue, retry: Any) -> None:
    job = failing(queue, VeryBusy("closed"), retry=retry, give_up=[Busy]).enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.attempts, done.last_error) == ("failed", 1, "VeryBusy: closed")


def test_others_are_tried_again(queue: JobQueue) -> None:
    job = failing(queue, KeyError("x"), retry=Immediately(), give_up=[Busy, TypeError]).enqueue()
    drain(queue)
    assert queue.get(job).attempts == 3


def test_a_list_of_delays_sets_one_attempt_more_without_max_attempts(queue: JobQueue, clock: TestClock) -> None:
    handler = failing(queue, retry=[5, 60])
    jobs = {
        "the handler's": handler.enqueue(),
        "the call's": handler.using(retry_policy=[1]).enqueue(),
        "both": handler.using(retry_policy=[1], max_attempts=4).enqueue(),
        "without the handler": queue.enqueue("other", retry_policy=(1, 2, 3)),
    }
    schedule = queue.schedules.set("nightly", "other", cron="@daily", retry_policy=[1, 2])
    assert {name: job.max_attempts for name, job in jobs.items()} == {
        "the handler's": 3,
        "the call's": 2,
        "both": 4,
        "without the handler": 4,
    }
    assert (schedule.cron, schedule.options["max_attempts"]) == ("0 0 * * *", 3)
    for wait in (5, 60):
        drain(queue)
        clock.advance(wait)
    drain(queue)
    assert queue.get(jobs["the handler's"]).status == "failed"
    assert queue.get(jobs["the call's"]).status == "failed"
