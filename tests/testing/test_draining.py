"""``drain`` runs the jobs that are due with the real worker, and returns them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from howdah import Cancel, Fail, Fixed, Immediately, InvalidOption, Job, JobQueue, Retry, Snooze
from howdah.testing import Clock, Drained, TestDatabase, adrain, drain

HOUR = 3600


def ids(jobs: list[Job]) -> list[Any]:
    return [job.id for job in jobs]


def test_jobs_are_run_and_returned_in_the_order_in_which_they_ended(howdah_queue: JobQueue) -> None:
    @howdah_queue.job(concurrency=1)
    async def double(n: int) -> int:
        return 2 * n

    late = double.using(priority=30).enqueue(n=1)
    soon = double.using(priority=150).enqueue(n=2)
    drained = drain(howdah_queue)
    assert ids(drained.completed) == [soon.id, late.id]
    assert [job.result for job in drained] == [4, 2]
    assert repr(drained) == "Drained(2 completed)"


def test_nothing_to_do_is_no_error(howdah_queue: JobQueue) -> None:
    howdah_queue.job(name="idle")(lambda: None)
    drained = drain(howdah_queue)
    assert not drained
    assert repr(drained) == "Drained(nothing)"
    assert not howdah_queue.workers()


def test_what_handlers_enqueue_is_run_too_whatever_kind_they_are(howdah_queue: JobQueue) -> None:
    @howdah_queue.job
    async def ping(n: int) -> None:
        if n:
            await pong.aenqueue(n=n - 1)

    @howdah_queue.job
    def pong(n: int) -> None:
        if n:
            ping.enqueue(n=n - 1)

    ping.enqueue(n=6)
    # Each may be done before the one that has enqueued it.
    assert sorted(job.data["n"] for job in drain(howdah_queue).completed) == [0, 1, 2, 3, 4, 5, 6]


def test_each_job_is_in_the_list_of_what_became_of_it(howdah_queue: JobQueue) -> None:
    @howdah_queue.job
    def act(how: str) -> None:
        outcomes: dict[str, Exception] = {
            "fails": Fail("no"),
            "retries": Retry("again", delay=HOUR),
            "snoozes": Snooze(HOUR),
            "cancels": Cancel(),
        }
        if how in outcomes:
            raise outcomes[how]

    enqueued = {how: act.enqueue(how=how).id for how in ("fails", "retries", "snoozes", "cancels", "completes")}
    drained = drain(howdah_queue)
    assert len(drained) == 5
    assert ids(drained.failed) == [enqueued["fails"]]
    assert ids(drained.retried) == [enqueued["retries"]]
    assert ids(drained.snoozed) == [enqueued["snoozes"]]
    assert ids(drained.cancelled) == [enqueued["cancels"]]
    assert ids(drained.completed) == [enqueued["completes"]]
    assert not drain(howdah_queue)


def test_a_job_that_is_tried_several_times_is_listed_once(howdah_queue: JobQueue) -> None:
    @howdah_queue.job(retry=Immediately(), max_attempts=3)
    def third_time_lucky(job: Job) -> None:
        if job.attempts < 3:
            raise ValueError("not yet")

    third_time_lucky.enqueue()
    drained = drain(howdah_queue, raise_errors=True)
    (job,) = drained
    assert (job.status, job.attempts, len(job.errors)) == ("completed", 3, 2)


def test_a_snooze_after_a_failure_is_a_snooze(howdah_queue: JobQueue) -> None:
    @howdah_queue.job(retry=Immediately())
    def fail_then_snooze(job: Job) -> Snooze:
        if not job.errors:
            raise ValueError("not yet")
        return Snooze(HOUR)

    fail_then_snooze.enqueue()
    drained = drain(howdah_queue)
    assert len(drained.snoozed) == 1
    assert not drained.retried


def test_what_is_due_later_is_run_when_the_clock_has_been_moved(howdah_queue: JobQueue, howdah_clock: Clock) -> None:
    @howdah_queue.job(max_attempts=2, retry=Fixed(HOUR))
    def remind() -> None:
        raise ConnectionError("no network")

    remind.using(delay=HOUR).enqueue()
    assert not drain(howdah_queue)
    howdah_clock.advance(HOUR)
    assert len(drain(howdah_queue).retried) == 1
    assert not drain(howdah_queue)
    howdah_clock.advance(HOUR)
    assert len(drain(howdah_queue).failed) == 1


def test_a_workflow_runs_to_its_end_with_its_maps_and_results(howdah_queue: JobQueue) -> None:
    queue = howdah_queue

    @queue.job
    def numbers() -> list[int]:
        return [1, 2, 3]

    @queue.job
    def double(n: int) -> int:
        return 2 * n

    @queue.job
    def total(of: list[int]) -> int:
        return sum(of)

    with queue.workflow("sums") as flow:
        flow.add(total, of=flow.map(double, flow.add(numbers)))
    done = drain(queue)
    assert [job.job_type for job in done] == ["numbers", "double", "double", "double", "total"]
    assert (flow.status(), flow.value()) == ("completed", 12)


def test_schedules_fire_when_they_are_due(howdah_queue: JobQueue, howdah_clock: Clock) -> None:
    @howdah_queue.periodic(every=HOUR)
    @howdah_queue.job
    def tick() -> None:
        pass

    first = len(drain(howdah_queue))
    howdah_clock.advance(HOUR)
    assert len(drain(howdah_queue).completed) == 1
    assert first == 0


def test_what_has_expired_is_cancelled(howdah_queue: JobQueue, howdah_clock: Clock) -> None:
    @howdah_queue.job(expires_in=60)
    def tell_the_news() -> None:
        pass

    job = tell_the_news.enqueue()
    howdah_clock.advance(61)
    assert ids(drain(howdah_queue).cancelled) == [job.id]


def test_what_does_not_fit_its_handler_has_failed(howdah_queue: JobQueue, howdah_database: TestDatabase) -> None:
    @howdah_queue.job
    def greet(name: str) -> None:
        pass

    with psycopg.connect(howdah_database.dsn, autocommit=True) as conn:
        conn.execute("SELECT set_config('search_path', %s, false)", (howdah_database.schema,))
        conn.execute("""INSERT INTO jobs (job_type, data) VALUES ('greet', '{"nmae": 1}')""")
    drained = drain(howdah_queue)
    assert len(drained.failed) + len(drained.retried) == 1


def test_only_the_types_that_were_named_are_run(howdah_queue: JobQueue) -> None:
    one = howdah_queue.job(name="one")(lambda: None)
    two = howdah_queue.job(name="two")(lambda: None)
    three = howdah_queue.job(name="three")(lambda: None)
    for handler in (one, two, three):
        handler.enqueue()
    assert {job.job_type for job in drain(howdah_queue, types=[one, "three"])} == {"one", "three"}
    assert howdah_queue.stats()["two"].pending == 1
    for nothing in ([], ["four"]):
        with pytest.raises(InvalidOption):
            drain(howdah_queue, types=nothing)


def test_a_limit_is_exact_and_leaves_the_rest_untouched(howdah_queue: JobQueue) -> None:
    @howdah_queue.job
    def write(n: int) -> None:
        pass

    @howdah_queue.job
    async def read(n: int) -> None:
        await asyncio.sleep(0.05)

    for n in range(4):
        write.enqueue(n=n)
        read.enqueue(n=n)
    left = 8
    for limit in (1, 2, 3):
        assert len(drain(howdah_queue, limit=limit).completed) == limit
        left -= limit
        pending = [job for job in howdah_queue.list() if job.status == "pending"]
        assert len(pending) == left
        assert {job.attempts for job in pending} == {0}
    assert len(drain(howdah_queue).completed) == left


def test_a_batch_that_is_larger_than_the_limit_does_not_run(howdah_queue: JobQueue) -> None:
    @howdah_queue.job(batch_size=10)
    def count(jobs: list[Job]) -> None:
        pass

    howdah_queue.enqueue_many("count", [{}] * 3)
    assert not drain(howdah_queue, limit=2)
    assert len(drain(howdah_queue, limit=3).completed) == 3


def test_a_drain_that_takes_too_long_names_the_running_jobs(howdah_queue: JobQueue) -> None:
    @howdah_queue.job
    async def hang() -> None:
        await asyncio.Event().wait()

    job = hang.enqueue()
    # On a slow machine, the job may not have begun in so short a time.
    for timeout in (0.2, 2, 20):
        with pytest.raises(TimeoutError) as caught:
            drain(howdah_queue, timeout=timeout)
        if "1 are running" in str(caught.value):
            break
    assert str(caught.value) == f"not drained after {timeout} s: 0 jobs have ended, 1 are running\n  hang {job.id}"
    assert howdah_queue.get(job).status == "pending"


def test_errors_are_raised_with_the_traceback_of_the_handler(howdah_queue: JobQueue) -> None:
    @howdah_queue.job(max_attempts=1)
    def pay(invoice: int) -> None:
        raise LookupError("no invoice \x1b[31mred")

    pay.enqueue(invoice=17)
    with pytest.raises(AssertionError) as caught:
        drain(howdah_queue, raise_errors=True)
    said = str(caught.value)
    assert said.startswith("A job failed.\n\npay {'invoice': 17}, failed, priority 100, attempt 1 of 1:\nTraceback")
    assert 'raise LookupError("no invoice' in said
    assert said.endswith("LookupError: no invoice \\x1b[31mred")


def test_async_handlers_of_adrain_run_on_the_loop_of_the_test(howdah_queue: JobQueue) -> None:
    @howdah_queue.job
    async def where() -> int:
        return id(asyncio.get_running_loop())

    async def main() -> None:
        await where.aenqueue()
        (job,) = await adrain(howdah_queue)
        assert job.result == id(asyncio.get_running_loop())

    asyncio.run(main())


def test_drain_works_inside_of_a_running_loop(howdah_queue: JobQueue) -> None:
    @howdah_queue.job
    async def where() -> str:
        return threading.current_thread().name

    async def main() -> Drained:
        where.enqueue()
        return drain(howdah_queue)

    assert [job.result for job in asyncio.run(main())] != [threading.current_thread().name]


def test_a_drain_enters_the_lifespan_and_the_middleware(howdah_database: TestDatabase) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: JobQueue) -> AsyncIterator[Mapping[str | type, Any]]:
        seen.append("open")
        yield {}
        seen.append("close")

    queue = JobQueue("host=nowhere", lifespan=lifespan)

    @queue.middleware
    async def around(job: Job, call_next: Any) -> Any:
        seen.append("before")
        return await call_next(job)

    @queue.job
    def handler() -> None:
        seen.append("handler")

    howdah_database.use(queue)
    handler.enqueue()
    drain(queue)
    assert seen == ["open", "before", "handler", "close"]
