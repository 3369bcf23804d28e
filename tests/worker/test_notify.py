"""Wake-ups: an idle worker is notified at once, and finds jobs by polling if notifications do not arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from howdah import DatabaseUnavailable, Job, JobQueue
from howdah.db.statements import render, source
from howdah.worker import calls
from howdah.worker.claim import claimer, notifier
from howdah.worker.claim.notifier import Notifier
from howdah.worker.connection import WorkerConnection
from tests.conftest import Connect, Db
from tests.worker.in_process import PATIENCE, asleep, ended, run, sleeps, until, working


@pytest.fixture
def work(queue: JobQueue) -> Any:
    @queue.job
    async def work(n: int = 0) -> str:
        return "done"

    return work


def listeners(db: Db) -> set[int]:
    rows = db.execute("SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle'").fetchall()
    return {row["pid"] for row in rows}


def test_a_job_that_is_enqueued_to_an_idle_worker_starts(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with asleep(queue, db, monkeypatch):
            for _ in range(5):
                assert (await ended(queue, await work.aenqueue())).result == "done"
            ids = (await queue.aenqueue_many("work", [{} for _ in range(5)], return_ids=True)).ids
            for id in ids or ():
                await queue.await_for(id, timeout=PATIENCE)

    run(main())


def test_a_job_that_plain_sql_inserts_starts(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with asleep(queue, db, monkeypatch):
            row = db.execute("INSERT INTO jobs (job_type, data) VALUES ('work', '{\"n\": 5}') RETURNING id").fetchone()
            assert row is not None
            await queue.await_for(row["id"], timeout=PATIENCE)
            row = db.execute("SELECT id FROM enqueue('work')").fetchone()
            assert row is not None
            await queue.await_for(row["id"], timeout=PATIENCE)

    run(main())


def test_a_job_that_becomes_due_in_a_moment_starts_then(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with asleep(queue, db, monkeypatch):
            for delay in (0.2, 0.7):
                done = await ended(queue, await work.using(delay=delay).aenqueue())
                assert done.started_at is not None
                assert done.started_at >= done.run_at

    run(main())


def test_a_job_that_another_worker_releases_starts_here(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with asleep(queue, db, monkeypatch):
            released, failed = await held(queue, db), await held(queue, db)
            await queue.arelease(released)
            await ended(queue, released)
            await queue.afail(failed, "not here", delay=0)
            assert (await ended(queue, failed)).attempts == 2

    run(main())


async def held(queue: JobQueue, db: Db) -> Job:
    """A job that another client holds before the worker is notified of it."""
    with db.transaction():
        queue.enqueue("work", conn=db)
        (job,) = queue.claim(["work"], worker_id="another", conn=db)
    return job


def test_a_job_that_an_operator_retries_or_reschedules_starts(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with asleep(queue, db, monkeypatch):
            cancelled = await work.using(delay=3600).aenqueue()
            await queue.acancel(cancelled)
            assert await queue.aretry(cancelled)
            assert (await ended(queue, cancelled)).status == "completed"
            later = await work.using(delay=3600).aenqueue()
            await queue.areschedule(later)
            assert (await ended(queue, later)).status == "completed"

    run(main())


def test_a_type_that_is_resumed_goes_on(queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with asleep(queue, db, monkeypatch):
            await queue.apause("work")
            job = await work.aenqueue()
            await until(lambda: sleeps(db, "work"))
            assert (await queue.aget(job)).status == "pending"
            await queue.aresume("work")
            assert (await ended(queue, job)).status == "completed"

    run(main())


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_the_next_of_an_ordered_type_starts_when_another_worker_ends_the_one_before(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    @queue.job(ordered=True)
    async def work() -> None: ...

    async def main() -> None:
        async with asleep(queue, db, monkeypatch):
            first = await held(queue, db)
            second = await work.aenqueue()
            await until(lambda: sleeps(db, "work"))
            match end:
                case "complete":
                    await queue.acomplete(first)
                case "fail":
                    await queue.afail(first, "no", give_up=True)
                case "cancel":
                    await queue.acancel(first)
            assert (await ended(queue, second)).status == "completed"

    run(main())


def test_a_cancelled_running_job_is_stopped_at_once(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = asyncio.Event()

    @queue.job
    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    async def main() -> None:
        async with asleep(queue, db, monkeypatch, grace=0):
            job = await waits.aenqueue()
            await started.wait()
            await queue.acancel(job)
            assert (await ended(queue, job)).status == "cancelled"

    run(main())


def test_a_job_that_is_cancelled_before_its_worker_listens_is_stopped_as_soon_as_it_does(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = asyncio.Event()
    listen = Notifier._listen

    @queue.job
    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    async def main() -> None:
        may_listen = asyncio.Event()

        async def listen_later(self: Notifier) -> None:
            await may_listen.wait()
            await listen(self)

        monkeypatch.setattr(Notifier, "_listen", listen_later)
        async with working(queue, poll=3600, heartbeat=60, lease=600, sweep=3600):
            job = await waits.aenqueue()
            await started.wait()
            assert await queue.acancel(job)
            may_listen.set()
            assert (await ended(queue, job)).status == "cancelled"

    run(main())


def test_a_worker_whose_listening_connection_is_cut_listens_again(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with asleep(queue, db, monkeypatch):
            before = listeners(db)
            db.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", (list(before),))
            await until(lambda: listeners(db) - before)
            assert (await ended(queue, await work.aenqueue())).result == "done"

    run(main())


def test_jobs_enqueued_without_a_listener_are_found_by_polling(queue: JobQueue, db: Db, work: Any) -> None:
    async def main() -> None:
        async with working(queue, poll=0.2):
            await until(lambda: sleeps(db, "work"))
            with db.transaction():
                job = queue.enqueue("work", conn=db)
                pids = list(listeners(db))
                db.execute("SELECT pg_terminate_backend(pid, 10000) FROM unnest(%s::int[]) AS pid", (pids,))
            assert (await ended(queue, job)).result == "done"

    run(main())


def sleepers(db: Db) -> set[int]:
    """The sessions that wait for notifications of jobs."""
    rows = db.execute(
        "SELECT l.pid FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database AND d.datname = current_database()"
        " WHERE l.locktype = 'advisory' AND l.classid = 'howdah.live'::regclass AND l.objid < 32"
    ).fetchall()
    return {row["pid"] for row in rows}


def test_a_connection_that_stands_in_for_the_claimers_does_not_sleep_for_it(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would still do so when the claimer's own is back, and every enqueue would notify a worker that is awake."""

    async def no_room() -> Any:
        raise DatabaseUnavailable("sorry, too many clients already")

    async def main() -> None:
        async with working(queue) as worker:
            await ended(queue, await work.aenqueue())
            # The backend of the test before may still be ending.
            await until(lambda: sleepers(db) == {pid_of(worker._claims)})
            (claiming,) = worker._claimers
            with monkeypatch.context() as meanwhile:
                meanwhile.setattr(worker._database, "aconnect", no_room)
                db.execute("SELECT pg_terminate_backend(%s, 10000)", (pid_of(worker._claims),))
                assert (await ended(queue, await work.aenqueue())).result == "done"
                await until(lambda: claiming.group.empty_at == claiming.group.activity)
                assert not worker._claims.is_open
            await until(lambda: worker._claims.is_open and pid_of(worker._claims) in sleepers(db))
            assert sleepers(db) == {pid_of(worker._claims)}

    run(main())


def pid_of(connection: WorkerConnection) -> int:
    assert connection._conn is not None
    return connection._conn.info.backend_pid


@pytest.fixture
def deaf(db: Db) -> Iterator[None]:
    """Listeners in this database listen on a channel that is never notified."""
    db.execute(
        "CREATE OR REPLACE FUNCTION howdah.channel() RETURNS text LANGUAGE sql VOLATILE"
        " RETURN 'howdah_' || gen_random_uuid()"
    )
    yield
    db.execute(render(source("functions/channel"), "howdah").encode())


def test_a_worker_that_is_woken_as_soon_as_it_sleeps_polls_for_a_while_instead(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with asleep(queue, db, monkeypatch):
            monkeypatch.setattr(claimer, "SHORT_NAP", 3600)
            monkeypatch.setattr(claimer, "LINGER", 0.001)
            for _ in range(5):
                db.execute("SELECT howdah.notify_workers('{work}')")
                await until(lambda: sleeps(db, "work"))
            monkeypatch.setattr(claimer, "LINGER", 3600)
            # Another worker may have got the job that this was about.
            db.execute("SELECT howdah.notify_workers('{work}')")
            await until(lambda: not sleeps(db, "work"))

    run(scenario())


def test_a_worker_that_is_woken_while_it_registers_as_asleep_polls_for_a_while_instead(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_sleep = claimer.Claimer._record_sleep

    async def told(self: claimer.Claimer) -> None:
        falls_asleep = self._asleep_in is None
        await record_sleep(self)
        if falls_asleep:
            monkeypatch.setattr(claimer, "LINGER", 3600)
            self.group.wake()

    async def scenario() -> None:
        async with asleep(queue, db, monkeypatch):
            monkeypatch.setattr(claimer, "SHORT_NAP", 3600)
            monkeypatch.setattr(claimer, "LINGER", 0.001)
            monkeypatch.setattr(claimer.Claimer, "_record_sleep", told)
            db.execute("SELECT howdah.notify_workers('{work}')")
            await until(lambda: claimer.LINGER == 3600 and not sleeps(db, "work"))

    run(scenario())


def test_a_worker_that_is_woken_now_and_then_sleeps_on(
    queue: JobQueue, db: Db, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = []
    next_due = calls.next_due

    def noted(*arguments: Any) -> Any:
        looks.append(arguments)
        return next_due(*arguments)

    monkeypatch.setattr(calls, "next_due", noted)

    async def many_looks_later() -> None:
        looks.clear()
        await until(lambda: len(looks) > 15)

    async def scenario() -> None:
        async with working(queue, poll=0.02):
            await many_looks_later()
            monkeypatch.setattr(claimer, "SHORT_NAP", 0.2)
            monkeypatch.setattr(claimer, "LINGER", 3600)
            for _ in range(3):
                # Its own looks are no wake-ups: after these, it has slept for long enough, and sleeps on.
                await many_looks_later()
                db.execute("SELECT howdah.notify_workers('{work}')")
            await many_looks_later()

    run(scenario())


def test_a_worker_that_was_woken_soon_polls_again(
    queue: JobQueue, db: Db, connect: Connect, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with asleep(queue, db, monkeypatch):
            monkeypatch.setattr(claimer, "FIRST_POLL", 0.01)
            # As if another wake-up were on its way: then this one notifies no worker.
            connect().execute(
                "SELECT pg_advisory_lock('howdah.live'::regclass::oid::int, 64 + abs(hashtext('work') % 32))"
            )
            db.execute("SELECT howdah.notify_workers('{work}')")
            assert (await ended(queue, await work.aenqueue())).result == "done"

    run(scenario())


def test_a_long_statement_that_has_enqueued_does_not_block_other_notifications(
    queue: JobQueue, db: Db, connect: Connect, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = connect()
    barrier.execute("SELECT pg_advisory_lock(1, 1)")
    waiting = "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    async def scenario() -> None:
        async with asleep(queue, db, monkeypatch):
            goes_on = asyncio.create_task(
                asyncio.to_thread(
                    connect().execute, "SELECT id, pg_advisory_xact_lock(1, 1) FROM enqueue('work') OFFSET 0"
                )
            )
            await until(lambda: (db.execute(waiting).fetchone() or {"n": 0})["n"])
            assert (await ended(queue, await work.aenqueue())).result == "done"
            barrier.execute("SELECT pg_advisory_unlock(1, 1)")
            row = (await goes_on).fetchone()
            assert row is not None
            await queue.await_for(row["id"], timeout=PATIENCE)

    run(scenario())


def test_where_notifications_do_not_arrive_jobs_are_found_by_looking(
    queue: JobQueue,
    work: Any,
    deaf: None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notifier, "ECHO_WITHIN", 0.3)
    started = asyncio.Event()

    @queue.job
    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    async def main() -> None:
        async with working(queue, poll=0.1, grace=0):
            assert (await ended(queue, await work.aenqueue())).result == "done"
            await until(lambda: "notifications do not arrive" in caplog.text)
            assert (await ended(queue, await work.aenqueue())).result == "done"
            job = await waits.aenqueue()
            await started.wait()
            await queue.acancel(job)
            assert (await ended(queue, job)).status == "cancelled"

    run(main())
    assert caplog.text.count("notifications do not arrive") == 1
