"""Options: of workers, and of handlers, overridable with each job."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest

from howdah import InvalidInput, InvalidOption, Job, JobQueue
from tests.clock import TestClock
from tests.conftest import Db
from tests.worker.in_process import drain, statuses

# Of workers


@pytest.fixture
def served(queue: JobQueue) -> JobQueue:
    @queue.job
    async def work() -> None: ...

    return queue


def test_without_options_a_worker_is_as_documented(served: JobQueue) -> None:
    made = served.worker().options
    assert (made.concurrency, made.threads, made.children) == (50, 10, os.cpu_count())
    assert (made.lease, made.heartbeat, made.sweep, made.poll, made.grace) == (15, 3, 5, 1, 30)
    assert (made.drain, made.fair_share, made.max_leaked, made.types) == (False, 0, 10, None)
    assert made.lazy_claims is False


def test_types_may_have_wildcards_which_stand_for_the_handlers_that_match(queue: JobQueue) -> None:
    for name in ("mail.send", "mail.bounce", "report", "re*"):
        queue.job(name=name)(lambda: None)
    cases = {
        ("mail.*",): ["mail.bounce", "mail.send"],
        ("*.send", "report"): ["mail.send", "report"],
        ("mail.send", "mail.*"): ["mail.send", "mail.bounce"],
        ("*",): ["mail.bounce", "mail.send", "re*", "report"],
        ("re*",): ["re*"],  # a type of that very name
        ("rep*t",): ["report"],
    }
    for types, expected in cases.items():
        assert list(queue.worker(types=types).handlers) == expected
    for wrong in ("sms.*", "mail", "m.*l"):
        with pytest.raises(InvalidOption, match=r"there are mail.bounce, mail.send, re\*, report"):
            queue.worker(types=[wrong])
    mails = [queue.enqueue(name) for name in ("mail.send", "mail.bounce")]
    other = queue.enqueue("report")
    drain(queue, types=["mail.*"])
    assert [queue.get(job).status for job in (*mails, other)] == ["completed", "completed", "pending"]


def test_each_worker_has_a_name_of_its_own_unless_it_is_given_one(served: JobQueue) -> None:
    assert served.worker().worker_id != served.worker().worker_id
    assert served.worker(name="mine").worker_id == "mine"


def test_spans_are_seconds_or_timedeltas(served: JobQueue) -> None:
    made = served.worker(lease=timedelta(minutes=1), heartbeat=0.5, grace=0).options
    assert (made.lease, made.heartbeat, made.grace) == (60, 0.5, 0)


@pytest.mark.parametrize(
    "chosen",
    [
        {"concurrency": 0},
        {"concurrency": "5"},
        {"threads": -1},
        {"children": 0},
        {"grace": -1},
        {"lease": 0},
        {"heartbeat": 0},
        {"heartbeat": 10},
        {"lease": 5},
        {"sweep": 0},
        {"poll": 0},
        {"poll": float("nan")},
        {"fair_share": -0.1},
        {"fair_share": 1.1},
        {"fair_share": True},
        {"max_leaked": -1},
        {"name": ""},
        {"name": "x" * 101},
        {"types": "work"},
        {"types": [5]},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(served: JobQueue, chosen: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(chosen)).removesuffix("s")):
        served.worker(**chosen)


def test_an_option_that_does_not_exist_is_refused(served: JobQueue) -> None:
    with pytest.raises(InvalidOption, match="concurency"):
        served.worker(concurency=5)  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="prority"):
        served.job(prority=5)(lambda: None)  # type: ignore[call-overload]


# Of handlers


def chooses(queue: JobQueue, **options: Any) -> Any:
    async def work() -> None:
        raise ValueError("broken")

    return queue.job(**options)(work)


CHOSEN: dict[str, Any] = {"priority": 150, "max_attempts": 7, "timeout": 60, "expires_in": 3600}


def seen(job: Job) -> tuple[Any, ...]:
    expires_in = None if job.expires_at is None else job.expires_at - job.run_at
    return job.priority, job.max_attempts, job.timeout, expires_in


def test_a_handlers_options_are_those_of_its_jobs_also_before_the_first_worker_runs(
    queue: JobQueue, clock: TestClock
) -> None:
    work = chooses(queue, **CHOSEN)
    expected = (150, 7, timedelta(seconds=60), timedelta(hours=1))
    assert seen(work.enqueue()) == seen(queue.enqueue("work")) == expected
    work.enqueue_many([{}])
    queue.enqueue_many("work", [{}])
    assert {seen(job) for job in queue.list().jobs} == {expected}


def test_producers_without_the_handler_get_them_once_a_worker_has_run(dsn: str, queue: JobQueue, db: Db) -> None:
    chooses(queue, **CHOSEN)
    drain(queue)
    expected = (150, 7, timedelta(seconds=60), timedelta(hours=1))
    with JobQueue(dsn) as producer:
        assert seen(producer.enqueue("work")) == expected
        id = db.execute("SELECT id FROM howdah.enqueue('work')").fetchone()
        assert id is not None
        assert seen(producer.get(id["id"])) == expected


def test_each_can_be_overridden_with_the_job(queue: JobQueue, clock: TestClock) -> None:
    work = chooses(queue, **CHOSEN)
    moment = clock.now + timedelta(minutes=5)
    job = work.using(priority=1, max_attempts=2, timeout=5, expires_at=moment).enqueue()
    assert seen(job) == (1, 2, timedelta(seconds=5), timedelta(minutes=5))
    delayed = work.using(delay=60, key="once").enqueue()
    assert (delayed.run_at, delayed.key) == (clock.now + timedelta(seconds=60), "once")
    assert work.using(delay=60, key="once").enqueue().id == delayed.id
    work.using(priority=3).enqueue_many([{}, {}])
    assert [job.priority for job in queue.list(most_priority=3, least_priority=3).jobs] == [3, 3]


def test_a_changed_option_holds_for_jobs_to_come(dsn: str, queue: JobQueue) -> None:
    chooses(queue, priority=150)
    drain(queue)
    with JobQueue(dsn) as newer:
        chooses(newer, priority=50)
        drain(newer)
    with JobQueue(dsn) as producer:
        assert producer.enqueue("work").priority == 50


def test_attempts_are_limited_by_the_option_of_the_handler(queue: JobQueue) -> None:
    work = chooses(queue, max_attempts=2, retry={"kind": "none"})
    twice, once = work.enqueue(), work.using(max_attempts=1).enqueue()
    drain(queue)
    assert [(queue.get(job).status, queue.get(job).attempts) for job in (twice, once)] == [("failed", 2), ("failed", 1)]


def test_a_job_that_has_expired_is_not_run(queue: JobQueue, db: Db, clock: TestClock) -> None:
    ran: list[int] = []

    @queue.job(expires_in=60)
    async def work(n: int) -> None:
        ran.append(n)

    stale = work.enqueue(n=1)
    patient = work.using(expires_at=clock.now + timedelta(hours=1)).enqueue(n=2)
    clock.advance(61)
    drain(queue)
    queue.recover()
    done = queue.get(stale)
    assert (done.status, done.last_error, done.attempts) == ("cancelled", "expired", 0)
    assert (queue.get(patient).status, ran) == ("completed", [2])
    assert statuses(db, "work") == {"completed": 1, "cancelled": 1}


def test_an_option_that_enqueue_does_not_know_is_refused(queue: JobQueue) -> None:
    work = chooses(queue)
    wrong: list[dict[str, Any]] = [{"concurrency": 5}, {"data": {}}, {"job_type": "x"}, {"prority": 5}]
    for chosen in wrong:
        with pytest.raises(InvalidOption, match="not an option of enqueue"):
            work.using(**chosen)


@pytest.mark.parametrize(
    "chosen",
    [
        {"priority": "high"},
        {"max_attempts": 0},
        {"timeout": 0},
        {"timeout": -1},
        {"expires_in": 0},
        {"concurrency": 0},
        {"max_crashes": 0},
        {"batch_size": 0},
        {"batch_size": 5, "batch_wait": -1},
        {"name": ""},
        {"name": "x" * 51},
        {"retry": 5},
        {"give_up": [5]},
    ],
    ids=str,
)
def test_an_option_of_a_handler_that_makes_no_sense_is_refused(queue: JobQueue, chosen: dict[str, Any]) -> None:
    async def work(jobs: Any) -> None: ...

    with pytest.raises(InvalidInput):
        queue.job(**chosen)(work)
    assert queue.handlers == {}
