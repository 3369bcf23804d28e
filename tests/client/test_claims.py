"""A loop of your own: every write names its claim, and a stale one changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from howdah import InvalidInput, InvalidOption, Job, JobNotFound, JobQueue, LeaseLost
from tests.clock import TestClock

WRITES: dict[str, Callable[[JobQueue, Job], object]] = {
    "start": lambda queue, job: queue.start(job),
    "progress": lambda queue, job: queue.progress(job, 50, "half"),
    "complete": lambda queue, job: queue.complete(job, {"done": 1}),
    "fail": lambda queue, job: queue.fail(job, "no"),
    "give up": lambda queue, job: queue.fail(job, "no", give_up=True),
    "snooze": lambda queue, job: queue.snooze(job, delay=5),
    "release": lambda queue, job: queue.release(job),
    "interrupt": lambda queue, job: queue.release(job, interrupted=True),
}


def moved_on(how: str, queue: JobQueue, job: Job, clock: TestClock) -> None:
    clock.advance(1)
    match how:
        case "completed":
            queue.complete(job)
        case "failed":
            queue.fail(job, "other", give_up=True)
        case "backing off":
            queue.fail(job, "other")
        case "released":
            queue.release(job)
        case "cancelled":
            queue.cancel(job)
        case "recovered":
            assert queue.recover_stale_jobs(0) == 1
        case "claimed again":
            queue.release(job)
            assert len(queue.claim(["mail"])) == 1
        case "running again":
            queue.release(job)
            queue.start(queue.claim(["mail"])[0])
        case "retried":
            queue.fail(job, "other", give_up=True)
            queue.retry(job)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    "how",
    [
        "completed",
        "failed",
        "backing off",
        "released",
        "cancelled",
        "recovered",
        "claimed again",
        "running again",
        "retried",
    ],
)
def test_a_stale_write_raises_lease_lost_and_changes_nothing(
    queue: JobQueue, clock: TestClock, write: str, how: str
) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    moved_on(how, queue, job, clock)
    before = queue.get(job)
    if (how, write) == ("completed", "complete"):
        # A call that is repeated because its answer was lost has succeeded.
        queue.complete(job)
    else:
        with pytest.raises(LeaseLost, match=str(job.id)):
            WRITES[write](queue, job)
    assert queue.get(job) == before


@pytest.mark.parametrize("write", WRITES)
def test_a_job_that_was_never_claimed_cannot_be_written(queue: JobQueue, write: str) -> None:
    job = queue.enqueue("mail")
    with pytest.raises(LeaseLost):
        WRITES[write](queue, job)
    assert queue.get(job) == job


@pytest.mark.parametrize("write", WRITES)
def test_a_write_takes_the_job_of_a_claim_and_not_an_id(queue: JobQueue, write: str) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    with pytest.raises(InvalidOption, match="a job that claim returned"):
        WRITES[write](queue, job.id)  # type: ignore[arg-type]


def test_the_life_of_a_job_that_goes_well(queue: JobQueue, clock: TestClock) -> None:
    queue.enqueue("mail", {"to": "you"})
    (job,) = queue.claim(["mail"], worker_id="me")
    assert (job.status, job.attempts, job.worker_id, job.claimed_at) == ("claimed", 1, "me", clock.now)
    assert job.token > 0
    clock.advance(1)
    queue.start(job)
    assert (queue.get(job).status, queue.get(job).started_at) == ("running", clock.now)
    queue.progress(job, 40, "sending")
    queue.progress(job, stage="waiting")
    queue.progress(job, 60)
    running = queue.get(job)
    assert (running.percent, running.current_stage) == (60, "waiting")
    clock.advance(1)
    queue.complete(job, {"sent": True})
    done = queue.get(job)
    assert (done.status, done.percent, done.result, done.completed_at) == ("completed", 100, {"sent": True}, clock.now)
    assert (done.attempts, done.errors, done.last_error, done.worker_id) == (1, (), None, "me")


def test_claims_come_in_the_order_of_priority_then_time(queue: JobQueue, clock: TestClock) -> None:
    queue.enqueue("mail", "late", delay=10)
    queue.enqueue("mail", "low", priority=1)
    queue.enqueue("post", "normal")
    queue.enqueue("mail", "high", priority=200)
    queue.enqueue("other", "unnamed", priority=500)
    assert [job.data for job in queue.claim(["mail", "post"], 2)] == ["high", "normal"]
    clock.advance(10)
    assert [job.data for job in queue.claim(["mail", "post"])] == ["late", "low"]
    assert queue.claim([]) == []
    assert queue.claim(["other"], 0) == []


def test_two_queues_claim_under_names_of_their_own(dsn: str) -> None:
    with JobQueue(dsn) as one, JobQueue(dsn) as two, JobQueue(dsn, worker_id="three") as three:
        one.enqueue_many("mail", range(3))
        names = [each.claim(["mail"], 1)[0].worker_id for each in (one, two, three)]
    assert names[2] == "three"
    assert len(set(names)) == 3


def test_a_snooze_spends_no_attempt(queue: JobQueue, clock: TestClock) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.start(job)
    queue.snooze(job, delay=60)
    put_off = queue.get(job)
    assert (put_off.status, put_off.attempts, put_off.errors) == ("pending", 0, ())
    assert put_off.run_at == clock.now + timedelta(seconds=60)


def test_a_released_job_can_be_claimed_at_once(queue: JobQueue) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.release(job)
    (again,) = queue.claim(["mail"])
    assert (again.id, again.attempts, again.token > job.token) == (job.id, 1, True)


def test_a_started_job_is_released_only_as_interrupted(queue: JobQueue) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.start(job)
    with pytest.raises(LeaseLost):
        queue.release(job)
    queue.release(job, interrupted=True)
    assert (queue.get(job).status, queue.get(job).interruptions) == ("pending", 1)


def test_a_failure_is_tried_again_when_asked_for(queue: JobQueue, clock: TestClock) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    assert queue.fail(job, "once", delay=30) == "pending"
    assert queue.get(job).run_at == clock.now + timedelta(seconds=30)
    clock.advance(30)
    (job,) = queue.claim(["mail"])
    moment = clock.now + timedelta(hours=1)
    assert queue.fail(job, "twice", run_at=moment) == "pending"
    assert queue.get(job).run_at == moment


def test_every_attempt_keeps_its_error_also_after_a_retry(queue: JobQueue, clock: TestClock) -> None:
    queue.enqueue("mail", max_attempts=2, retry_policy={"kind": "fixed", "delay": 10})
    for attempt, expected in [(1, "pending"), (2, "failed")]:
        (job,) = queue.claim(["mail"], worker_id=f"w{attempt}")
        assert queue.fail(job, f"error {attempt}") == expected
        clock.advance(10)
    failed = queue.get(job)
    assert (failed.last_error, failed.finished_at is not None, failed.completed_at) == ("error 2", True, None)
    assert queue.retry(job)
    revived = queue.get(job)
    assert (revived.status, revived.attempts, revived.errors) == ("pending", 0, failed.errors)
    (job,) = queue.claim(["mail"], worker_id="w3")
    assert job.errors == failed.errors
    queue.fail(job, "error 3", give_up=True)
    ended = queue.get(job)
    assert [(each.attempt, each.error, each.worker, each.kind) for each in ended.errors] == [
        (1, "error 1", "w1", "failed"),
        (2, "error 2", "w2", "failed"),
        (1, "error 3", "w3", "failed"),
    ]
    assert [each.token for each in ended.errors] == sorted({each.token for each in ended.errors})


def failed_with(queue: JobQueue, error: BaseException | str) -> Job:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    assert queue.fail(job, error, give_up=True) == "failed"
    return queue.get(job)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return caught


def test_an_exception_keeps_its_type_message_and_traceback(queue: JobQueue) -> None:
    job = failed_with(queue, raised(ValueError("bad address")))
    assert job.last_error == "ValueError: bad address"
    traceback = job.errors[0].traceback
    assert traceback is not None
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert "in raised" in traceback
    assert traceback.endswith("ValueError: bad address")


def test_the_cause_of_an_exception_is_in_its_traceback(queue: JobQueue) -> None:
    def send() -> None:
        try:
            raise ConnectionError("smtp is down")
        except ConnectionError as cause:
            raise RuntimeError("could not send") from cause

    with pytest.raises(RuntimeError) as caught:
        send()
    traceback = failed_with(queue, caught.value).errors[0].traceback or ""
    assert "ConnectionError: smtp is down" in traceback
    assert traceback.index("smtp is down") < traceback.index("could not send")


def test_an_exception_that_was_never_raised_has_no_traceback(queue: JobQueue) -> None:
    job = failed_with(queue, ValueError("no"))
    assert (job.last_error, job.errors[0].traceback) == ("ValueError: no", None)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Wrong(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


@pytest.mark.parametrize("error", [Mute(), Wrong(), raised(Mute())], ids=["raises", "no text", "raised"])
def test_an_exception_that_cannot_be_printed_is_recorded_all_the_same(queue: JobQueue, error: Exception) -> None:
    job = failed_with(queue, error)
    assert job.last_error == f"{type(error).__name__}: (its message could not be read)"


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()], ids=repr
)
def test_what_is_no_exception_but_ends_a_handler_is_recorded(queue: JobQueue, error: BaseException) -> None:
    job = failed_with(queue, raised(error))
    assert job.last_error is not None
    assert job.last_error.startswith(type(error).__name__)


def test_a_group_of_exceptions_shows_its_members(queue: JobQueue) -> None:
    group = raised(ExceptionGroup("both", [ValueError("left"), KeyError("right")]))
    traceback = failed_with(queue, group).errors[0].traceback or ""
    assert "ValueError: left" in traceback
    assert "KeyError: 'right'" in traceback


@pytest.mark.parametrize(
    ("message", "recorded"),
    [
        ("a\x00b", "a\\x00b"),
        ("a\ud800b", "a\\ud800b"),
        ("", ""),
        ("{", "{"),
        ('{"json": 1}', '{"json": 1}'),
        ("\\x00 %s %(a)s {} 🐘\n\t", "\\x00 %s %(a)s {} 🐘\n\t"),
    ],
    ids=ascii,
)
def test_a_message_that_is_not_clean_is_recorded_readably(queue: JobQueue, message: str, recorded: str) -> None:
    job = failed_with(queue, message)
    assert (job.last_error, job.errors[0].error) == (recorded, recorded)
    kept = failed_with(queue, raised(ValueError(message)))
    assert (kept.last_error or "").endswith(recorded)


def test_a_message_of_any_length_is_recorded(queue: JobQueue) -> None:
    job = failed_with(queue, raised(ValueError("x" * 5_000_000)))
    assert job.last_error is not None
    assert job.last_error.startswith("ValueError: xxx")
    assert len(job.last_error) < 200_000


def test_a_bad_result_is_refused_and_the_job_stays_held(queue: JobQueue) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    with pytest.raises(InvalidInput, match=r"^result\.a is nan"):
        queue.complete(job, {"a": float("nan")})
    assert queue.get(job).status == "claimed"
    queue.complete(job, [1])
    assert queue.get(job).result == [1]


@pytest.mark.parametrize("result", [None, False, 0, "", [], {}], ids=repr)
def test_an_empty_result_is_kept_as_it_is(queue: JobQueue, result: Any) -> None:
    queue.enqueue("mail")
    queue.complete(queue.claim(["mail"])[0], result)
    (job,) = queue.list()
    assert job.result == result
    assert type(job.result) is type(result)


@pytest.mark.parametrize(
    "arguments",
    [
        {"percent": 101}, {"percent": -1}, {"percent": True}, {"percent": float("nan")}, {"percent": "5"},
        {"stage": "x" * 101}, {"stage": "a\x00"}, {"stage": 5}, {"done": -1}, {"done": 10**400}, {"total": float("inf")},
    ],
    ids=repr,
)  # fmt: skip
def test_progress_that_makes_no_sense_is_refused(queue: JobQueue, arguments: dict[str, Any]) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    with pytest.raises(InvalidOption):
        queue.progress(job, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("mail",), ([""],), (["mail"], -1), (["mail"], True), (["mail"], 100_001), (["mail"], 1, ""),
        (["mail"], 1, "w" * 101), (["mail"], 1, "a\x00"),
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_a_claim_that_makes_no_sense_is_refused(queue: JobQueue, arguments: tuple[Any, ...]) -> None:
    queue.enqueue("mail")
    with pytest.raises(InvalidInput):
        queue.claim(*arguments)
    assert queue.list()[0].status == "pending"


def test_a_running_job_is_asked_to_stop_and_a_completion_that_comes_first_wins(queue: JobQueue) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.start(job)
    assert queue.cancel(job, "changed my mind")
    assert not queue.cancel(job)
    assert (queue.get(job).status, queue.get(job).cancel_requested_at is not None) == ("running", True)
    queue.complete(job, "in time")
    assert (queue.get(job).status, queue.get(job).result) == ("completed", "in time")


def test_verbs_of_operators_distinguish_what_did_not_change_and_what_does_not_exist(queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    assert queue.reprioritise(job, 5)
    assert queue.reschedule(job, delay=60)
    assert not queue.retry(job)
    assert queue.cancel(job, "not\x00 needed \ud800")
    assert queue.get(job).last_error == "not\\x00 needed \\ud800"
    assert not queue.cancel(job)
    assert not queue.reprioritise(job, 6)
    assert not queue.reschedule(job)
    missing = "0198a000-0000-7000-8000-000000000000"
    for verb in (queue.get, queue.cancel, queue.retry, queue.reschedule):
        with pytest.raises(JobNotFound, match=missing):
            verb(missing)
    with pytest.raises(JobNotFound):
        queue.reprioritise(missing, 5)


def test_a_paused_type_is_not_claimed_until_it_is_resumed(queue: JobQueue) -> None:
    queue.enqueue("mail")
    assert (queue.pause("mail", "provider is down"), queue.pause("mail")) == (True, False)
    assert queue.claim(["mail"]) == []
    assert (queue.resume("mail"), queue.resume("mail")) == (True, False)
    assert len(queue.claim(["mail"])) == 1


@pytest.mark.parametrize("because", ["a\x00b", "a\ud800b", 5], ids=ascii)
def test_a_reason_that_cannot_be_stored_is_a_mistake_of_the_caller_or_is_cleaned(queue: JobQueue, because: Any) -> None:
    try:
        queue.pause("mail", because)
    except InvalidInput:
        assert len(queue.stats()) == 0
    else:
        assert queue.stats()["mail"].paused
