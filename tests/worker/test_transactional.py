"""Completion in the handler's own transaction: effect and completion commit together, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from howdah import Job, JobQueue, LeaseLost
from howdah.handlers.outcome import Cancel, Fail, Retry, Snooze
from howdah.handlers.retry import Fixed
from tests.clock import TestClock
from tests.conftest import Db
from tests.worker import child_handlers
from tests.worker.in_process import drain, ended, happened, run, until, working


@pytest.fixture(autouse=True)
def effects(db: Db) -> Iterator[None]:
    db.execute("CREATE TABLE public.howdah_test_effects (id uuid)")
    yield
    db.execute("DROP TABLE public.howdah_test_effects")


def counted(db: Db) -> int:
    row = db.execute("SELECT count(*) AS n FROM public.howdah_test_effects").fetchone()
    assert row is not None
    return int(row["n"])


INSERT = "INSERT INTO public.howdah_test_effects VALUES (%s)"


def handler(queue: JobQueue, dsn: str, asynchronous: bool, then: Any, **options: Any) -> Any:
    """Writes an effect, completes in the same transaction, and then does something inside of it."""

    async def on_loop(job: Job) -> Any:
        async with await psycopg.AsyncConnection.connect(dsn) as conn, conn.transaction():
            await conn.execute(INSERT, (job.id,))
            await job.acomplete({"in": "the transaction"}, conn=conn)
            return then(job)

    def in_thread(job: Job) -> Any:
        with psycopg.connect(dsn) as conn, conn.transaction():
            conn.execute(INSERT, (job.id,))
            job.complete({"in": "the transaction"}, conn=conn)
            return then(job)

    return queue.job(name="pays", **options)(on_loop if asynchronous else in_thread)


KINDS = pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])


def raises(error: BaseException) -> Any:
    """Raise the error in the first attempt, and continue in the next."""

    def then(job: Job) -> str:
        if job.attempts == 1:
            raise error
        return "ignored"

    return then


@KINDS
def test_a_commit_completes_the_job_and_the_worker_writes_nothing_more(
    dsn: str, queue: JobQueue, db: Db, asynchronous: bool
) -> None:
    job = handler(queue, dsn, asynchronous, lambda job: "ignored").enqueue()
    report = drain(queue)
    done = queue.get(job)
    assert (done.status, done.attempts, done.result) == ("completed", 1, {"in": "the transaction"})
    assert (counted(db), report.counts) == (1, {"completed": 1})


@KINDS
def test_an_exception_rolls_both_back_and_the_attempt_has_failed(
    dsn: str, queue: JobQueue, db: Db, asynchronous: bool
) -> None:
    then = raises(ValueError("after the completion"))
    job = handler(queue, dsn, asynchronous, then, retry={"kind": "none"}).enqueue()
    report = drain(queue)
    done = queue.get(job)
    assert (done.status, done.attempts, done.result) == ("completed", 2, {"in": "the transaction"})
    assert [error.error for error in done.errors] == ["ValueError: after the completion"]
    assert "in then" in str(done.errors[0].traceback)
    assert (counted(db), report.counts) == (1, {"retried": 1, "completed": 1})


@KINDS
@pytest.mark.parametrize("commits", [True, False])
def test_a_checkpoint_commits_with_the_work_or_not_at_all(
    dsn: str, queue: JobQueue, db: Db, asynchronous: bool, commits: bool
) -> None:
    def first_attempt(job: Job) -> None:
        job.event("noted")
        with psycopg.connect(dsn) as conn:
            conn.execute(INSERT, (job.id,))
            job.checkpoint({"done": 1}, conn=conn)
            if commits:
                conn.commit()
            raise ValueError("after the checkpoint")

    async def first_attempt_on_loop(job: Job) -> None:
        job.event("noted")
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            await conn.execute(INSERT, (job.id,))
            await job.acheckpoint({"done": 1}, conn=conn)
            if commits:
                await conn.commit()
            raise ValueError("after the checkpoint")

    async def on_loop(job: Job) -> Any:
        return job.resumed if job.attempts > 1 else await first_attempt_on_loop(job)

    def in_thread(job: Job) -> Any:
        return job.resumed if job.attempts > 1 else first_attempt(job)

    job = queue.job(name="steps", retry={"kind": "none"})(on_loop if asynchronous else in_thread).enqueue()
    drain(queue)
    assert queue.get(job).result == ({"done": 1} if commits else None)
    assert counted(db) == int(commits)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Fail("hopeless"), ("failed", 1, "hopeless", 0)),
        (Cancel("unwanted"), ("cancelled", 1, "unwanted", 0)),
        (Retry("again", delay=50), ("pending", 1, "again", 50)),
        (Snooze(60), ("pending", 0, None, 60)),
        (KeyError("x"), ("pending", 1, "KeyError: 'x'", 70)),
        (PermissionError("no"), ("failed", 1, "PermissionError: no", 0)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_the_outcome_of_a_handler_that_rolls_back_counts(
    dsn: str, queue: JobQueue, db: Db, clock: TestClock, error: BaseException, expected: tuple[Any, ...]
) -> None:
    job = handler(queue, dsn, True, raises(error), retry={KeyError: Fixed(70)}, give_up=[PermissionError]).enqueue()
    drain(queue)
    done = queue.get(job)
    status, attempts, message, delay = expected
    assert (done.status, done.attempts, done.last_error) == (status, attempts, message)
    if status == "pending":
        assert done.run_at == clock.now + timedelta(seconds=delay)
    assert counted(db) == 0


@KINDS
def test_a_silent_rollback_of_the_handler_fails_the_job_with_the_reason(
    dsn: str, queue: JobQueue, db: Db, asynchronous: bool
) -> None:
    @queue.job
    async def on_loop(job: Job) -> str:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            await conn.execute(INSERT, (job.id,))
            await job.acomplete(conn=conn)
            await conn.rollback()
        return "fine"

    @queue.job
    def in_thread(job: Job) -> str:
        with psycopg.connect(dsn) as conn:
            conn.execute(INSERT, (job.id,))
            job.complete(conn=conn)
            conn.rollback()
        return "fine"

    job = (on_loop if asynchronous else in_thread).using(max_attempts=1).enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.attempts) == ("failed", 1)
    assert "its transaction was not committed" in str(done.last_error)
    assert counted(db) == 0


def test_an_exception_after_the_commit_changes_nothing(dsn: str, queue: JobQueue, db: Db) -> None:
    @queue.job
    def pays(job: Job) -> None:
        with psycopg.connect(dsn) as conn:
            conn.execute(INSERT, (job.id,))
            job.complete("paid", conn=conn)
        raise ValueError("after the commit")

    job = pays.enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.result, done.errors, counted(db)) == ("completed", "paid", (), 1)


def test_a_transaction_that_ends_after_its_handler_is_waited_for(dsn: str, queue: JobQueue, db: Db) -> None:
    conn = psycopg.connect(dsn)
    returned = threading.Event()

    @queue.job
    def pays(job: Job) -> None:
        conn.execute(INSERT, (job.id,))
        job.complete("paid", conn=conn)
        returned.set()

    async def main() -> Job:
        job = await pays.aenqueue()
        async with working(queue):
            await happened(returned)
            # Until the worker's own look waits for the row that the handler's transaction holds.
            await until(
                lambda: (
                    db.execute(
                        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND %s = ANY (pg_blocking_pids(pid))",
                        (conn.info.backend_pid,),
                    ).fetchone()
                    is not None
                )
            )
            conn.commit()
            return await ended(queue, job)

    with conn:
        done = run(main())
    assert (done.status, done.result, done.errors, counted(db)) == ("completed", "paid", (), 1)


@KINDS
def test_without_a_connection_the_completion_stands_on_its_own(queue: JobQueue, asynchronous: bool) -> None:
    @queue.job
    async def on_loop(job: Job) -> None:
        await job.acomplete(5)
        assert (await queue.aget(job)).status == "completed"

    @queue.job
    def in_thread(job: Job) -> None:
        job.complete(5)
        assert queue.get(job).status == "completed"

    job = (on_loop if asynchronous else in_thread).enqueue()
    report = drain(queue)
    assert (queue.get(job).result, report.counts) == (5, {"completed": 1})


def test_a_completion_after_the_lease_was_lost_raises_and_rolls_the_effect_back(
    dsn: str, queue: JobQueue, db: Db
) -> None:
    started, go_on = threading.Event(), threading.Event()
    caught: list[BaseException] = []

    @queue.job
    def pays(job: Job) -> None:
        if not started.is_set():
            started.set()
            go_on.wait()
        try:
            with psycopg.connect(dsn) as conn:
                conn.execute(INSERT, (job.id,))
                job.complete(f"token {job.token}", conn=conn)
        except LeaseLost as error:
            caught.append(error)
            raise

    async def main() -> Job:
        job = await pays.aenqueue()
        async with working(queue) as worker:
            await happened(started)
            db.execute(
                "SELECT * FROM howdah.release(ARRAY[%s], ARRAY[%s]::bigint[], true)", (job.id, queue.get(job).token)
            )
            done = await ended(queue, job)
            go_on.set()
            await until(lambda: caught)
        assert worker.summary.counts["completed"] == 1
        return done

    done = run(main())
    assert (done.status, done.result) == ("completed", f"token {done.token}")
    assert counted(db) == 1, "the effect of the one that was too late is gone"


def test_a_child_process_can_do_it_too(dsn: str, db: Db) -> None:
    queue = child_handlers.connected(dsn)
    never_again = {"kind": "none"}
    fine = child_handlers.moves_money.using(retry_policy=never_again).enqueue(dsn=dsn, how="fine")
    broken = child_handlers.moves_money.using(retry_policy=never_again).enqueue(dsn=dsn, how="raise")
    report = drain(queue, types=["moves_money"], children=1)
    done = [queue.get(job) for job in (fine, broken)]
    assert [(job.status, job.attempts, job.result) for job in done] == [
        ("completed", 1, {"how": "fine"}),
        ("completed", 2, {"how": "raise"}),
    ]
    assert "after the completion" in done[1].errors[0].error
    assert (counted(db), report.counts) == (2, {"completed": 2, "retried": 1})


def test_a_cancelled_job_that_completes_in_its_transaction_has_completed(dsn: str, queue: JobQueue, db: Db) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @queue.job
    async def pays(job: Job) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as conn, conn.transaction():
            await conn.execute(INSERT, (job.id,))
            await job.acomplete("paid", conn=conn)
        started.set()
        await go_on.wait()

    async def main() -> Job:
        job = await pays.aenqueue()
        async with working(queue):
            await started.wait()
            assert not await queue.acancel(job), "it has ended"
            go_on.set()
            return await ended(queue, job)

    assert (run(main()).status, counted(db)) == ("completed", 1)
