"""Handlers that wait for signals, sleep, and skip the steps that earlier attempts have done."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from howdah import FailedJob, InvalidOption, Job, JobQueue, LeaseLost, Retry, SignalTimeout
from howdah.testing import call
from tests.clock import TestClock
from tests.conftest import Db
from tests.worker import child_handlers, killed_steps
from tests.worker.in_process import drain, run, until, working


@dataclasses.dataclass
class Receipt:
    number: int
    at: datetime


def test_a_handler_waits_without_a_slot_and_goes_on_with_what_it_was_sent(queue: JobQueue) -> None:
    did: list[str] = []

    @queue.job(concurrency=1, max_attempts=1)
    async def order(job: Job, n: int) -> Any:
        async def reserve(what: int) -> str:
            did.append(f"reserve {what}")
            return f"reserved {what}"

        reserved = await job.astep("reserve", reserve, what=n)
        try:
            paid = await job.await_signal("paid", key=str(n))
        except Exception:
            did.append("caught")
            raise
        return [reserved, paid, job.attempts]

    jobs = [order.enqueue(n=n) for n in range(3)]
    assert drain(queue).counts == {"snoozed": 3}
    waiting = queue.get(jobs[0])
    assert (waiting.status, waiting.attempts, waiting.errors) == ("pending", 0, ())
    assert (waiting.waits_for or "").startswith("it waits for the signal paid (key 0) since ")
    assert queue.list()[-1].waits_for == waiting.waits_for
    assert not queue.retry(jobs[0])
    assert not queue.reschedule(jobs[0])

    assert [queue.signal("paid", n, key=str(n)) for n in (2, 0)] == [(1, False)] * 2
    assert queue.signal("paid", key="9") == (0, True)
    assert drain(queue).counts == {"completed": 2}
    assert [queue.get(job).result for job in jobs] == [["reserved 0", 0, 1], None, ["reserved 2", 2, 1]]
    assert did == ["reserve 0", "reserve 1", "reserve 2"]
    assert [(step.name, step.kind, step.state, step.result) for step in queue.steps(jobs[0])] == [
        ("reserve", "step", "done", "reserved 0"),
        ("signal:paid:0#1", "signal", "done", 0),
    ]


def test_a_signal_wakes_a_worker_that_sleeps(queue: JobQueue) -> None:
    @queue.job
    def order(job: Job) -> Any:
        return job.wait_signal("paid")

    async def main() -> None:
        job = await order.aenqueue()
        # It polls so rarely that only a notification wakes it in time.
        async with working(queue, poll=3600, sweep=3600):
            await until(lambda: queue.get(job).waits_for)
            await queue.asignal("paid", {"euro": 5})
            assert (await queue.await_for(job, 60)).result == {"euro": 5}

    run(main())


def test_a_wait_that_times_out_raises_in_the_handler_each_time(queue: JobQueue, clock: TestClock) -> None:
    raised: list[int] = []

    @queue.job(retry=[1])
    def order(job: Job) -> Any:
        with contextlib.suppress(SignalTimeout):
            return job.wait_signal("paid", timeout=timedelta(minutes=1))
        raised.append(job.attempts)
        if job.attempts == 1:
            raise Retry(delay=10)
        return "unpaid"

    job = order.enqueue()
    drain(queue)
    clock.advance(61)
    drain(queue)
    queue.signal("paid")
    clock.advance(10)
    drain(queue)
    assert (queue.get(job).result, raised) == ("unpaid", [1, 2])
    assert [step.state for step in queue.steps(job)] == ["timed out"]


def test_sleeps_end_at_their_moments(queue: JobQueue, clock: TestClock) -> None:
    came: list[str] = []
    moment = clock.now + timedelta(hours=1)

    @queue.job
    async def remind(job: Job) -> None:
        await job.asleep_for(60)
        came.append("a")
        await job.asleep_until(moment)
        came.append("b")
        await job.asleep_until(datetime(2001, 1, 1, tzinfo=timezone.utc))
        came.append("c")

    job = remind.enqueue()
    drain(queue)
    assert (queue.get(job).waits_for or "").startswith("it sleeps until ")
    for seconds in (59, 1, 3539, 1):
        clock.advance(seconds)
        drain(queue)
        came.append("-")
    assert came == ["-", "a", "-", "-", "a", "b", "c", "-"]
    assert [step.state for step in queue.steps(job)] == ["done"] * 3


def test_steps_are_kept_for_a_retry_unless_it_is_fresh(queue: JobQueue) -> None:
    did: list[str] = []
    failed: list[Job] = []

    @queue.job(max_attempts=1)
    def order(job: Job) -> list[Any]:
        def charge(euro: int) -> Receipt:
            did.append("charge")
            return Receipt(euro, datetime(2026, 1, 1, tzinfo=timezone.utc))

        first = job.step("charge", charge, 5)
        nothing = job.step("log", lambda: did.append("log"))
        if not failed:
            failed.append(job)
            raise RuntimeError
        return [first.number, first.at.year, nothing]

    job = order.enqueue()
    drain(queue)
    assert queue.retry(job)
    drain(queue)
    assert (queue.get(job).result, did) == ([5, 2026, None], ["charge", "log"])
    assert queue.select(status="completed").retry(fresh=True) == 1
    drain(queue)
    assert (queue.get(job).status, did) == ("completed", ["charge", "log"] * 2)
    assert queue.retry(job, fresh=True)
    assert queue.steps(job) == []


def test_a_step_that_raised_may_be_tried_again_and_a_name_is_used_once(queue: JobQueue) -> None:
    errors: list[str] = []

    @queue.job
    def order(job: Job) -> str:
        with contextlib.suppress(ZeroDivisionError):
            job.step("a", lambda: 1 // 0)
        job.step("a", lambda: 1)
        for wrong in (
            lambda: job.step("a", lambda: 2),
            lambda: job.step("", lambda: 2),
            lambda: job.step("sleep#1", lambda: 2),
            lambda: job.step("b", asyncio.sleep, 0),
            lambda: job.step("c", lambda: object()),
            lambda: job.wait_signal("", key="a"),
            lambda: job.wait_signal("a", key=""),
            lambda: job.sleep_for(-1),
            lambda: job.sleep_until(datetime(2026, 1, 1)),  # noqa: DTZ001
        ):
            with pytest.raises(ValueError) as error:  # noqa: PT011
                wrong()
            errors.append(str(error.value))
        return job.step("a-2", lambda: "fine")

    job = order.enqueue()
    drain(queue)
    assert queue.get(job).result == "fine"
    for error, part in zip(
        errors,
        ("twice", "name of a step", "names that begin", "await job.astep", "the result of the step 'c'", "name of a signal",
         "key of a signal", "negative", "time zone"),
        strict=True,
    ):  # fmt: skip
        assert part in error


def test_a_step_on_a_connection_is_part_of_its_transaction(queue: JobQueue, dsn: str, db: Db) -> None:
    calls: list[object] = []

    def charge(euro: int, conn: psycopg.Connection[Any]) -> int:
        calls.append(conn)
        return euro

    @queue.job(retry=[0])
    def order(job: Job) -> int:
        with psycopg.connect(dsn) as conn:
            job.step("charge", charge, 5, conn=conn)
            conn.rollback()
            # It was not recorded, and is done again, in this attempt as in a later one.
            job.step("charge", charge, 5, conn=conn)
            if job.attempts == 1:
                with pytest.raises(InvalidOption, match="twice"):
                    job.step("charge", charge, 5, conn=conn)
            conn.commit()
        if job.attempts == 1:
            raise RuntimeError
        return len(calls)

    job = order.enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.status, len(calls)) == ("completed", 2), done.last_error
    assert all(isinstance(conn, psycopg.Connection) for conn in calls)


def test_handlers_in_child_processes_wait_too(queue: JobQueue, dsn: str) -> None:
    children = child_handlers.connected(dsn)
    jobs = [child_handlers.waits_in_process.enqueue(), child_handlers.waits_in_process_awaited.enqueue()]
    assert drain(children).counts == {"snoozed": 2}
    assert [queue.get(job).crashes for job in jobs] == [0, 0]
    queue.signal("go", "now", key="child")
    drain(children)
    first, data, pid, attempts = queue.get(jobs[0]).result
    assert (data, attempts) == ("now", 1)
    assert first != pid, "the step of the first attempt was kept"
    assert queue.get(jobs[1]).result == "now"


def test_a_handler_that_swallows_the_end_of_its_attempt_changes_nothing(queue: JobQueue) -> None:
    @queue.job
    def order(job: Job) -> str:
        for _ in range(2):
            with contextlib.suppress(BaseException):
                job.wait_signal("paid")
        with contextlib.suppress(BaseException):
            job.step("late", lambda: "late")
        return "done"

    @queue.job
    async def grouped(job: Job) -> Any:
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(job.await_signal("paid", key=key)) for key in ("a", "b")]
        return [each.result() for each in waits]

    jobs = [order.enqueue(), grouped.enqueue()]
    assert drain(queue).counts == {"snoozed": 2}
    assert {queue.get(job).status for job in jobs} == {"pending"}
    assert [step.name for step in queue.steps(jobs[0])] == ["signal:paid#1"]


def test_a_job_that_waits_can_be_cancelled_and_one_that_was_cancelled_does_not_wait(queue: JobQueue) -> None:
    @queue.job
    def order(job: Job, cancel: bool) -> None:
        if cancel:
            queue.cancel(job)
        job.wait_signal("paid")

    waiting, asked = order.enqueue(cancel=False), order.enqueue(cancel=True)
    drain(queue)
    assert (queue.get(waiting).status, queue.get(asked).status) == ("pending", "cancelled")
    assert queue.cancel(waiting)
    assert queue.signal("paid") == (0, True)
    assert queue.steps(waiting) == []


def test_a_job_that_waits_keeps_its_key_and_holds_no_limit(queue: JobQueue) -> None:
    order_of: list[str] = []

    @queue.job(per="customer", ordered=True, max_attempts=1, on_failure="told")
    def order(job: Job, customer: str, name: str) -> None:
        order_of.append(name)
        if name == "first":
            job.wait_signal("paid", key=customer)
            raise RuntimeError
        order_of.append(f"{name} done")

    @queue.job
    def told(failed: FailedJob) -> None:
        order_of.append(f"told of {failed.error}")

    first = order.enqueue("a", "first")
    order.enqueue("a", "second")
    order.enqueue("b", "other")
    drain(queue)
    assert sorted(order_of) == ["first", "other", "other done"]
    queue.signal("paid", key="a")
    drain(queue)
    assert queue.get(first).status == "failed"
    rest = order_of[3:]
    assert rest.index("first") < rest.index("second")
    assert "told of RuntimeError" in rest


def test_batches_neither_wait_nor_have_steps(queue: JobQueue) -> None:
    @queue.job(batch_size=5, max_attempts=1)
    def many(jobs: list[Job]) -> None:
        for wrong in (lambda: jobs[0].wait_signal("paid"), lambda: jobs[0].step("a", print)):
            with pytest.raises(InvalidOption, match="takes jobs in batches"):
                wrong()

    many.enqueue()
    assert drain(queue).counts == {"completed": 1}


def test_only_the_holder_of_a_job_waits_and_records(queue: JobQueue, db: Db) -> None:
    errors: list[str] = []

    @queue.job
    def order(job: Job) -> None:
        db.execute("UPDATE live SET token = token + 1, own_write = NOT own_write")
        for stale in (
            lambda: job.step("a", lambda: 1),
            lambda: job.wait_signal("paid"),
            lambda: job.sleep_for(1),
        ):
            with pytest.raises(LeaseLost) as lost:
                stale()
            errors.append(str(lost.value))

    order.enqueue()
    drain(queue)
    assert len(errors) == 3
    assert all("is over. Nothing was changed." in error for error in errors)


def test_what_a_codec_cannot_read_is_an_error_of_the_step(dsn: str) -> None:
    class Sealing:
        def encode(self, value: Any) -> Any:
            return {"sealed": value}

        def decode(self, value: Any) -> Any:
            return value["sealed"]

    def handler_of(queue: JobQueue) -> Any:
        @queue.job(name="order", max_attempts=1)
        def order(job: Job) -> Any:
            return [job.step("a", lambda: "one"), job.wait_signal("paid")]

        return order

    with JobQueue(dsn, codec=Sealing()) as queue, JobQueue(dsn) as plain:
        order = handler_of(queue)
        job, broken = order.enqueue(), order.enqueue()
        drain(queue)
        queue.cancel(broken)
        queue.signal("paid", "two")
        assert plain.steps(job)[0].result == {"sealed": "one"}
        drain(queue)
        assert queue.get(job).result == ["one", "two"]
        assert queue.steps(job)[1].result == "two"
        queue.retry(broken)
        plain.signal("paid", "in clear")
        drain(queue)
        failed = queue.get(broken)
        assert (failed.status, "cannot be read" in (failed.last_error or "")) == ("failed", True)


def test_a_handler_can_be_called_without_a_database_as_far_as_it_waits_for_nothing(queue: JobQueue) -> None:
    @queue.job
    def order(job: Job, waits: bool) -> int:
        job.sleep_for(60)
        charged = job.step("charge", lambda: 5)
        if waits:
            job.wait_signal("paid")
        return charged

    assert call(order, waits=False) == 5
    with pytest.raises(InvalidOption, match="no signals without a database"):
        call(order, waits=True)


def test_a_kill_at_any_moment_of_any_round_trip_leaves_each_effect_of_a_step_once(
    queue: JobQueue, dsn: str, db: Db
) -> None:
    db.execute("CREATE TABLE public.effects (job_type text, name text)")
    try:
        killed = subprocess.run(
            [sys.executable, "-m", "tests.worker.killed_steps", dsn], check=True, stdout=subprocess.PIPE, text=True
        )
        points = int(killed.stdout)
        types = [killed_steps.type_of(n, moment) for n in range(points) for moment in killed_steps.MOMENTS]
        while db.execute("SELECT FROM live").rowcount:
            # The server may not have found yet that the client is gone, whose transaction holds the job.
            queue.recover_stale_jobs(0)
            for job in queue.claim(types, 100):
                queue.start(job)
                killed_steps.attempt(queue, job, dsn)
        rows = db.execute("SELECT job_type, name, count(*) AS n FROM public.effects GROUP BY 1, 2").fetchall()
    finally:
        db.execute("DROP TABLE public.effects")
    counts = {(row["job_type"], row["name"]): row["n"] for row in rows}
    assert points > 10
    for job_type in (*types, killed_steps.type_of(points, "before")):
        for name in ("reserve", "charge", "ship"):
            assert counts[job_type, name] == 1, (job_type, name)
        # Beside its record, an effect happens at least once.
        assert counts[job_type, "notify"] in (1, 2)
    assert 2 in counts.values()
    assert {job.status for job in queue.list(limit=1_000)} == {"completed"}
