"""Calls of enqueue that are made at the same time go as one, and each caller gets the truth about its own."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from howdah import DatabaseUnavailable, Job, JobQueue, PayloadTooLarge, QueueClosed
from howdah.db import gathering
from tests.client.test_codec import Sealing, everything_stored
from tests.conftest import Connect, Db
from tests.tcp_proxy import TcpProxy
from tests.tenant import Tenant
from tests.worker.in_process import until

NEVER = 10_000.0


@pytest.fixture(autouse=True)
def never_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine may need more than a second for anything."""
    monkeypatch.setattr(gathering, "STUCK_AFTER", NEVER)


def transactions(db: Db) -> int:
    """In how many transactions the live jobs were added."""
    row = db.execute("SELECT count(DISTINCT xmin::text) AS n FROM live").fetchone()
    assert row is not None
    return int(row["n"])


def stored(db: Db) -> list[Any]:
    """The data of all live jobs."""
    return [row["data"] for row in db.execute("SELECT data FROM live ORDER BY data").fetchall()]


@contextmanager
def no_job_can_be_added(connect: Connect) -> Iterator[Db]:
    """As long as the block lasts, every INSERT into the table of jobs waits."""
    conn = connect(autocommit=False)
    conn.execute("LOCK TABLE live IN SHARE MODE")
    yield conn
    conn.rollback()


def blocked(db: Db, function: str = "enqueue") -> list[int]:
    """The backends that wait for a lock inside of this function."""
    rows = db.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND query ~ ('\\m' || %s || '\"?\\(')",
        (function,),
    ).fetchall()
    return [row["pid"] for row in rows]


async def are_blocked(db: Db, *functions: str) -> None:
    for function in functions:
        await until(lambda function=function: blocked(db, function))  # type: ignore[misc]


def test_of_a_thousand_tasks_ten_are_refused_and_the_others_are_not(dsn: str, db: Db) -> None:
    db.execute("UPDATE settings SET max_payload_bytes = 65536")
    too_large = "x" * 70_000
    refused = set(range(7, 1000, 100))

    async def main() -> list[Job[Any] | BaseException]:
        async with JobQueue(dsn, max_payload_bytes=1_000_000) as queue:
            calls = (queue.aenqueue("mail", {"n": n, "text": too_large if n in refused else ""}) for n in range(1000))
            return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(main())
    for n, answer in enumerate(answers):
        if n in refused:
            assert isinstance(answer, PayloadTooLarge)
        else:
            assert isinstance(answer, Job)
            assert (answer.data, answer.created) == ({"n": n, "text": ""}, True)
    ids = {row["data"]["n"]: row["id"] for row in db.execute("SELECT id, data FROM live").fetchall()}
    assert ids == {n: answer.id for n, answer in enumerate(answers) if isinstance(answer, Job)}
    assert len(ids) == 990
    assert transactions(db) < 200


def test_the_tasks_of_one_turn_go_together(dsn: str, db: Db) -> None:
    async def main() -> None:
        async with JobQueue(dsn) as queue:
            await asyncio.gather(*(queue.aenqueue("mail", n) for n in range(500)))

    asyncio.run(main())
    assert stored(db) == list(range(500))
    assert transactions(db) == 2, "the first call goes by itself, at once"


def test_what_is_enqueued_while_others_are_under_way_goes_together(dsn: str, connect: Connect, db: Db) -> None:
    async def main() -> None:
        async with JobQueue(dsn) as queue:
            with no_job_can_be_added(connect):
                tasks = [asyncio.create_task(queue.aenqueue("mail", n)) for n in range(3)]
                await are_blocked(db, "enqueue", "enqueue_each")
                for n in range(3, 50):
                    tasks.append(asyncio.create_task(queue.aenqueue("mail", n)))
                    await asyncio.sleep(0)
            jobs = await asyncio.gather(*tasks)
            assert [job.data for job in jobs] == list(range(50))

    asyncio.run(main())
    assert stored(db) == list(range(50))
    assert transactions(db) == 3


def test_a_lone_call_goes_by_itself(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("_WaitingTask", "_WaitingThread"):
        monkeypatch.delattr(gathering, kind)

    async def main() -> None:
        async with JobQueue(dsn) as queue:
            for n in range(3):
                assert (await queue.aenqueue("mail", n)).data == n

    asyncio.run(main())
    with JobQueue(dsn) as queue:
        assert [queue.enqueue("mail", n).data for n in range(3)] == [0, 1, 2]


def test_the_jobs_that_are_returned_are_those_that_are_stored(dsn: str, db: Db) -> None:
    db.execute("SELECT declare_type('declared', p_priority => 50, p_max_attempts => 5)")

    async def main() -> None:
        async with JobQueue(dsn) as queue:
            options: list[dict[str, Any]] = [
                {},
                {"priority": 7},
                {"delay": 60, "timeout": 5},
                {"expires_in": 30, "meta": {"a": 1}},
                {"retry_policy": {"kind": "fixed", "delay": 3}, "max_attempts": 9},
            ]
            types = ("mail", "declared")
            calls = (queue.aenqueue(name, n, **options[n % len(options)]) for n in range(50) for name in types)
            for job in await asyncio.gather(*calls):
                assert job == await queue.aget(job.id)

    asyncio.run(main())
    assert transactions(db) == 2


@pytest.fixture
def proxy(dsn: str) -> Iterator[TcpProxy]:
    at = conninfo_to_dict(dsn)
    proxy = TcpProxy(Path(f"{at['host']}/.s.PGSQL.{at.get('port') or 5432}"))
    yield proxy
    proxy.close()


def test_a_connection_that_is_lost_before_the_commit_harms_no_caller(dsn: str, connect: Connect, db: Db) -> None:
    async def main() -> list[Job[Any]]:
        async with JobQueue(dsn) as queue:
            with no_job_can_be_added(connect):
                tasks = [asyncio.create_task(queue.aenqueue("mail", n)) for n in range(40)]
                await are_blocked(db, "enqueue", "enqueue_each")
                (together,) = blocked(db, "enqueue_each")
                db.execute("SELECT pg_terminate_backend(%s, 10000)", (together,))
            return await asyncio.gather(*tasks)

    jobs = asyncio.run(main())
    assert [job.data for job in jobs] == list(range(40)) == stored(db)
    assert all(job.created for job in jobs)


def test_a_connection_that_is_lost_after_the_commit_harms_no_caller(dsn: str, db: Db, proxy: TcpProxy) -> None:
    async def main() -> list[Job[Any]]:
        through = make_conninfo(dsn, host="127.0.0.1", port=proxy.port, sslmode="disable")
        async with JobQueue(through) as queue:
            proxy.lose_the_answer_to(b'"enqueue_each"(')
            return await asyncio.gather(*(queue.aenqueue("mail", n) for n in range(40)))

    jobs = asyncio.run(main())
    assert proxy.answers_lost == 1
    assert [job.data for job in jobs] == list(range(40)) == stored(db)
    assert all(job.created for job in jobs)
    assert {row["id"] for row in db.execute("SELECT id FROM live").fetchall()} == {job.id for job in jobs}


def test_threads_survive_a_lost_connection_too(dsn: str, connect: Connect, db: Db, proxy: TcpProxy) -> None:
    with JobQueue(make_conninfo(dsn, host="127.0.0.1", port=proxy.port, sslmode="disable")) as queue:
        with no_job_can_be_added(connect):
            calls = Threads(lambda n: queue.enqueue("mail", n), 12)
            wait(lambda: len(blocked(db)) == 2 and waiting(queue) == 10)
            proxy.lose_the_answer_to(b'"enqueue_each"(')
        jobs = calls.answers()
    assert proxy.answers_lost == 1
    assert [job.data for job in jobs] == list(range(12)) == stored(db)
    assert all(job.created for job in jobs)


def test_a_cancelled_caller_harms_no_other(dsn: str, connect: Connect, db: Db) -> None:
    async def main() -> Any:
        async with JobQueue(dsn) as queue:
            with no_job_can_be_added(connect):
                tasks = [asyncio.create_task(queue.aenqueue("mail", n)) for n in range(20)]
                await are_blocked(db, "enqueue", "enqueue_each")
                tasks += [asyncio.create_task(queue.aenqueue("mail", n)) for n in range(20, 40)]
                await asyncio.sleep(0)
                for task in tasks[::4]:
                    task.cancel()
                await asyncio.wait(tasks[::4])
            return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asyncio.run(main())
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::4])
    kept = [n for n in range(40) if n % 4]
    assert [answers[n].data for n in kept] == kept
    added = stored(db)
    assert set(kept) <= set(added), "a job of a cancelled caller may be there"
    assert not {20, 24, 28, 32, 36} & set(added), "these were cancelled before they were sent"
    assert len(added) == len(set(added))


def test_all_callers_of_a_turn_may_be_cancelled(dsn: str, db: Db) -> None:
    async def main() -> None:
        async with JobQueue(dsn) as queue:
            first = asyncio.create_task(queue.aenqueue("mail", 0))
            tasks = [asyncio.create_task(queue.aenqueue("mail", n)) for n in range(1, 9)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            assert (await first).data == 0
            await asyncio.wait(tasks)
            assert (await queue.aenqueue("mail", 9)).data == 9

    asyncio.run(main())
    assert stored(db) == [0, 9]


def test_calls_go_on_after_every_task_was_cancelled(dsn: str, db: Db) -> None:
    async def main() -> None:
        async with JobQueue(dsn) as queue:
            await queue.aenqueue("mail", 0)
            for _ in range(3):
                tasks = [asyncio.create_task(queue.aenqueue("mail", n)) for n in range(1, 9)]
                # The first is under way, and the others have just been given to a task.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                for task in asyncio.all_tasks() - {asyncio.current_task()}:
                    task.cancel()
                await asyncio.wait(tasks)
            await until(lambda: not queue._database.loop_gathering()._under_way)
            await asyncio.gather(*(queue.aenqueue("mail", n) for n in range(10, 20)))

    asyncio.run(main())
    assert stored(db)[-10:] == list(range(10, 20))


class Threads:
    """Calls, each in a thread of its own, numbered from 0."""

    def __init__(self, call: Callable[[int], Any], count: int) -> None:
        self._call = call
        self._answers: list[Any] = []
        self._threads: list[threading.Thread] = []
        self.start(count)

    def start(self, count: int) -> None:
        for _ in range(count):
            self._answers.append(None)
            thread = threading.Thread(target=self._run, args=(len(self._threads),))
            self._threads.append(thread)
            thread.start()

    def left(self) -> int:
        """How many have no answer yet."""
        return sum(answer is None for answer in self._answers)

    def answers(self) -> list[Any]:
        for thread in self._threads:
            thread.join()
        return self._answers

    def _run(self, number: int) -> None:
        try:
            self._answers[number] = self._call(number)
        except BaseException as error:  # noqa: BLE001
            self._answers[number] = error


def wait(condition: Callable[[], object]) -> None:
    assert any(condition() for _ in range(200_000))


def waiting(queue: JobQueue) -> int:
    return len(queue._database.gathering()._waiting)


def test_threads_that_enqueue_at_the_same_time_go_together(dsn: str, connect: Connect, db: Db) -> None:
    with JobQueue(dsn) as queue:
        with no_job_can_be_added(connect):
            calls = Threads(lambda n: queue.enqueue("mail", n), 30)
            wait(lambda: len(blocked(db)) == 2 and waiting(queue) == 28)
        jobs = calls.answers()
    assert [job.data for job in jobs] == list(range(30)) == stored(db)
    assert transactions(db) == 3


def test_of_threads_too_each_gets_its_own_error(dsn: str, connect: Connect, db: Db) -> None:
    db.execute("UPDATE settings SET max_payload_bytes = 65536")
    with JobQueue(dsn, max_payload_bytes=1_000_000) as queue:
        with no_job_can_be_added(connect):
            calls = Threads(lambda n: queue.enqueue("mail", "x" * 70_000 if n % 10 == 5 else n), 30)
            wait(lambda: len(blocked(db)) == 2 and calls.left() == 2 + waiting(queue))
        jobs = calls.answers()
    for n, job in enumerate(jobs):
        assert isinstance(job, PayloadTooLarge) if n % 10 == 5 else job.data == n
    assert stored(db) == [n for n in range(30) if n % 10 != 5]


class Interrupted(BaseException):
    """What the handler of a signal raises, as Ctrl-C does."""


def test_an_interrupted_call_that_waits_is_not_sent(
    dsn: str, connect: Connect, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "STUCK_AFTER", 3600)
    main = threading.get_ident()

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    with JobQueue(dsn) as queue:
        before = signal.signal(signal.SIGUSR1, interrupt)
        try:
            with no_job_can_be_added(connect):
                calls = Threads(lambda n: queue.enqueue("mail", n), 4)
                wait(lambda: len(blocked(db)) == 2 and waiting(queue) == 2)

                def when_it_waits() -> None:
                    wait(lambda: waiting(queue) == 3)
                    signal.pthread_kill(main, signal.SIGUSR1)

                helper = threading.Thread(target=when_it_waits)
                helper.start()
                with pytest.raises(Interrupted):
                    queue.enqueue("mail", "interrupted")
                helper.join()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert [getattr(answer, "data", answer) for answer in calls.answers()] == list(range(4)) == stored(db)


def test_a_thread_that_is_interrupted_before_it_sends_for_others_harms_none(
    dsn: str, connect: Connect, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken = gathering._WaitingThread.wait
    interrupted: list[Any] = []

    def interrupt(self: gathering._WaitingThread, seconds: float) -> bool:
        is_woken = woken(self, seconds)
        if self.batch and not interrupted:
            interrupted.append(self)
            raise Interrupted
        return is_woken

    monkeypatch.setattr(gathering._WaitingThread, "wait", interrupt)
    with JobQueue(dsn) as queue:
        with no_job_can_be_added(connect):
            calls = Threads(lambda n: queue.enqueue("mail", n), 12)
            wait(lambda: len(blocked(db)) == 2 and waiting(queue) == 10)
        answers = calls.answers()
        assert len(interrupted) == 1
        assert sum(isinstance(answer, Interrupted) for answer in answers) == 1
        assert [answer.data for answer in answers if isinstance(answer, Job)] == stored(db)
        assert len(stored(db)) == 11
        assert queue._database.gathering()._under_way == 0


def test_calls_behind_one_that_is_stuck_go_by_themselves(
    dsn: str, connect: Connect, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "STUCK_AFTER", 0.05)

    async def main() -> None:
        async with JobQueue(dsn, pool_size=5) as queue:
            with no_job_can_be_added(connect):
                tasks = [asyncio.create_task(queue.aenqueue("mail", n)) for n in range(3)]
                await are_blocked(db, "enqueue", "enqueue_each")
                tasks += [asyncio.create_task(queue.aenqueue("mail", n)) for n in range(3, 6)]
                await until(lambda: len(blocked(db)) == 4)
            assert [job.data for job in await asyncio.gather(*tasks)] == list(range(6))

    asyncio.run(main())
    with JobQueue(dsn, pool_size=5) as queue:
        with no_job_can_be_added(connect):
            calls = Threads(lambda n: queue.enqueue("mail", 6 + n), 5)
            wait(lambda: len(blocked(db)) == 5)
        assert [job.data for job in calls.answers()] == list(range(6, 11))
    assert stored(db) == list(range(11))


def test_no_caller_waits_longer_for_a_connection_than_it_may(dsn: str, db: Db) -> None:
    async def main() -> None:
        async with JobQueue(dsn, pool_size=1, timeout=0.2) as queue:
            await queue.astats()
            pool = await queue._database.apool()
            async with pool.connection():
                calls = (queue.aenqueue("mail", n) for n in range(20))
                answers = await asyncio.gather(*calls, return_exceptions=True)
                assert all(isinstance(answer, DatabaseUnavailable) for answer in answers)
            assert (await queue.aenqueue("mail", 20)).data == 20

    asyncio.run(main())
    with JobQueue(dsn, pool_size=1, timeout=0.2) as queue:
        queue.stats()
        with queue._database.pool().connection():
            answers = Threads(lambda n: queue.enqueue("mail", n), 20).answers()
            assert all(isinstance(answer, DatabaseUnavailable) for answer in answers)
        assert queue.enqueue("mail", 21).data == 21
    assert stored(db) == [20, 21]


@pytest.mark.parametrize("size", [1, 2])
def test_a_small_pool_is_enough(dsn: str, db: Db, size: int) -> None:
    async def main() -> None:
        async with JobQueue(dsn, pool_size=size) as queue:
            for start in range(0, 200, 50):
                await asyncio.gather(*(queue.aenqueue("mail", start + n) for n in range(50)))

    asyncio.run(main())
    with JobQueue(dsn, pool_size=size) as queue:
        jobs = Threads(lambda n: queue.enqueue("mail", 200 + n), 20).answers()
    assert [job.data for job in jobs] == list(range(200, 220))
    assert stored(db) == list(range(220))


def test_calls_that_wait_when_the_queue_is_closed_raise_queue_closed(dsn: str, connect: Connect, db: Db) -> None:
    with JobQueue(dsn) as queue:
        with no_job_can_be_added(connect):
            calls = Threads(lambda n: queue.enqueue("mail", n), 12)
            wait(lambda: len(blocked(db)) == 2 and waiting(queue) == 10)
            queue.close()
        answers = calls.answers()
    added = [answer for answer in answers if isinstance(answer, Job)]
    assert len(added) == 2
    assert sum(isinstance(answer, QueueClosed) for answer in answers) == 10
    assert sorted(job.data for job in added) == stored(db)


def test_a_fork_gathers_its_own_calls(dsn: str, connect: Connect, db: Db) -> None:
    with JobQueue(dsn) as queue:
        with no_job_can_be_added(connect):
            calls = Threads(lambda n: queue.enqueue("mail", n), 5)
            wait(lambda: len(blocked(db)) == 2 and waiting(queue) == 3)
            assert waiting(queue) == 3
            child = os.fork()
            if child == 0:
                # None of the threads is here, and what they wait for never ends.
                os._exit(waiting(queue))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [job.data for job in calls.answers()] == list(range(5)) == stored(db)


def test_a_login_that_may_only_add_jobs_adds_them_together(server_dsn: str) -> None:
    with Tenant(server_dsn, "together") as tenant:

        async def main() -> list[Job[Any]]:
            async with tenant.queue("producer") as queue:
                return await asyncio.gather(*(queue.aenqueue("mail", n, priority=n % 3) for n in range(100)))

        jobs = asyncio.run(main())
        rows = tenant.admin.execute("SELECT id, data, priority, xmin::text FROM together.live").fetchall()
        assert {(row["id"], row["data"], row["priority"]) for row in rows} == {
            (job.id, job.data, job.priority) for job in jobs
        }
        assert len({row["xmin"] for row in rows}) == 2


def test_what_a_codec_seals_is_sealed_together_too(dsn: str, db: Db) -> None:
    async def main() -> None:
        async with JobQueue(dsn, codec=Sealing()) as queue:
            jobs = await asyncio.gather(*(queue.aenqueue("mail", {"secret": f"hunter{n}"}) for n in range(20)))
            assert [job.data for job in jobs] == [{"secret": f"hunter{n}"} for n in range(20)]
            assert [(await queue.aget(job.id)).data for job in jobs] == [job.data for job in jobs]

    asyncio.run(main())
    assert "hunter" not in everything_stored(db)
    assert transactions(db) == 2


def test_handlers_enqueue_together(dsn: str, db: Db) -> None:
    async def main() -> None:
        async with JobQueue(dsn) as queue:

            @queue.job(priority=9)
            async def mail(n: int) -> None: ...

            jobs = await asyncio.gather(
                *(mail.aenqueue(n=n) for n in range(20)), *(mail.using(delay=5).aenqueue(n=n) for n in range(20, 40))
            )
            assert [job.data for job in jobs] == [{"n": n} for n in range(40)]
            assert {job.priority for job in jobs} == {9}

    asyncio.run(main())
    assert transactions(db) == 2


def test_a_key_an_id_and_the_callers_connection_go_their_own_way(dsn: str, db: Db) -> None:
    id = uuid.uuid4()

    async def main() -> None:
        async with JobQueue(dsn) as queue, await psycopg.AsyncConnection.connect(dsn) as conn:
            jobs = await asyncio.gather(
                *(queue.aenqueue("mail", n, key="k") for n in range(3)),
                *(queue.aenqueue("mail", n, id=id) for n in range(3, 6)),
                queue.aenqueue("mail", 6, conn=conn),
                *(queue.aenqueue("mail", n) for n in range(7, 10)),
            )
            assert sum(job.created for job in jobs[:3]) == 1
            assert sum(job.created for job in jobs[3:6]) == 1
            await conn.rollback()

    asyncio.run(main())
    assert len(stored(db)) == 5


def test_two_loops_gather_for_themselves(dsn: str, db: Db) -> None:
    with JobQueue(dsn) as queue:

        async def produce(first: int) -> list[Job[Any]]:
            return await asyncio.gather(*(queue.aenqueue("mail", first + n) for n in range(100)))

        answers = Threads(lambda n: asyncio.run(produce(100 * n)), 3).answers()
    assert [job.data for jobs in answers for job in jobs] == list(range(300)) == stored(db)
