"""Connections: opened when needed, one pool for threads and one for each loop, and gone at the end."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import uuid
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from howdah import JobQueue, QueueClosed
from howdah.db.session import heed_cancellation
from tests.conftest import Db


class Named:
    """A DSN whose connections are distinguished from all others."""

    def __init__(self, dsn: str, db: Db) -> None:
        self._name = f"pools {uuid.uuid4().hex}"
        self._db = db
        self.dsn = make_conninfo(dsn, application_name=self._name)

    def connections(self) -> int:
        row = self._db.execute(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = %s", (self._name,)
        ).fetchone()
        assert row is not None
        return int(row["n"])

    def all_gone(self) -> bool:
        """Whether none is left; a server needs a moment to notice that a client has closed its end."""
        return any(self.connections() == 0 for _ in range(20_000))


@pytest.fixture
def named(dsn: str, db: Db) -> Named:
    return Named(dsn, db)


def python(program: str, dsn: str, *options: str) -> str:
    """Runs a program in a process of its own, in which every warning is an error, and returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", *options, "-c", program, dsn],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    # A loaded machine makes asyncio's debug mode report slow callbacks, which have nothing to do with pools.
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("Executing <")]
    assert (done.returncode, complaints) == (0, []), done.stderr
    return done.stdout


def test_nothing_is_opened_before_it_is_needed(named: Named) -> None:
    with JobQueue(named.dsn) as queue:
        assert named.connections() == 0
        queue.enqueue("mail")
        assert named.connections() > 0
    assert named.all_gone()
    JobQueue("host=/nowhere").close()


def test_a_queue_serves_more_threads_than_it_has_connections(named: Named) -> None:
    together = threading.Barrier(8)
    with JobQueue(named.dsn, pool_size=2) as queue:

        def produce() -> None:
            together.wait()
            for n in range(25):
                queue.enqueue("mail", n)

        threads = [threading.Thread(target=produce) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert named.connections() <= 3, "two of the pool, and for a moment the one that looked at the schema"
        assert len(queue.list(limit=1000)) == 200


def test_tasks_share_a_pool_from_their_first_call_on(named: Named) -> None:
    async def main() -> int:
        async with JobQueue(named.dsn, pool_size=3) as queue:
            await asyncio.gather(*(queue.aenqueue("mail", n) for n in range(50)))
            assert len(await queue.alist(limit=100)) == 50
            return named.connections()

    assert asyncio.run(main()) <= 4


def test_one_queue_serves_one_loop_after_the_other(dsn: str, queue: JobQueue) -> None:
    program = """
import asyncio, sys
from howdah import JobQueue
queue = JobQueue(sys.argv[1])
asyncio.run(queue.aenqueue("mail", 1))
asyncio.run(queue.aenqueue("mail", 2))
queue.enqueue("mail", 3)
async def end():
    print([job.data for job in await queue.alist()])
    await queue.aclose()
asyncio.run(end())
"""
    assert python(program, dsn) == "[3, 2, 1]\n"


def test_the_connections_of_a_loop_that_has_ended_are_let_go(named: Named) -> None:
    program = """
import asyncio, gc, sys
import psycopg
from howdah import JobQueue
queue = JobQueue(sys.argv[1])
for n in range(20):
    asyncio.run(queue.aenqueue("mail", n))
gc.collect()
with psycopg.connect(sys.argv[1]) as conn:
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = current_setting('application_name')"
    print(*conn.execute(count).fetchone())
queue.close()
"""
    # Those of the last loop may stay until the next one comes, and some take a moment to go.
    assert int(python(program, named.dsn)) < 10


def test_two_loops_at_once_have_pools_of_their_own(dsn: str, queue: JobQueue) -> None:
    program = """
import asyncio, sys, threading
from howdah import JobQueue
queue = JobQueue(sys.argv[1])
together = threading.Barrier(2)
async def produce(n):
    together.wait()
    await asyncio.gather(*(queue.aenqueue("mail", n) for _ in range(20)))
threads = [threading.Thread(target=asyncio.run, args=(produce(n),)) for n in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
queue.close()
"""
    python(program, dsn)
    assert sorted(job.data for job in queue.list(limit=100)) == [0] * 20 + [1] * 20


@pytest.mark.parametrize("used", [False, True])
def test_a_closed_queue_raises_queue_closed_and_has_no_connections(named: Named, used: bool) -> None:
    queue = JobQueue(named.dsn)
    if used:
        queue.enqueue("mail")
    queue.close()
    queue.close()
    assert named.all_gone()
    for verb in (queue.stats, lambda: queue.enqueue("mail"), lambda: queue.enqueue_many("mail", [1])):
        with pytest.raises(QueueClosed, match="make a new JobQueue"):
            verb()


def test_the_awaited_verbs_of_a_closed_queue_raise_queue_closed(named: Named) -> None:
    async def main() -> None:
        queue = JobQueue(named.dsn)
        await queue.aenqueue("mail")
        await queue.aclose()
        await queue.aclose()
        with pytest.raises(QueueClosed):
            await queue.aenqueue("mail")
        with pytest.raises(QueueClosed):
            queue.enqueue("mail")

    asyncio.run(main())
    assert named.all_gone()


def test_a_block_closes_what_it_opened_also_when_it_fails(named: Named) -> None:
    def work() -> None:
        with JobQueue(named.dsn) as queue:
            opened.append(queue)
            queue.enqueue("mail")
            raise KeyError("of the caller's")

    opened: list[JobQueue] = []
    with pytest.raises(KeyError):
        work()
    assert named.all_gone()
    with pytest.raises(QueueClosed):
        opened[0].stats()


def test_a_closed_queue_can_be_opened_again_in_each_form(named: Named) -> None:
    queue = JobQueue(named.dsn)

    @queue.job
    async def mail() -> str:
        return "sent"

    async def app() -> str | None:
        # As the lifespan of a web app does, in each of its starts: a loop of its own, and a worker beside.
        worker = queue.worker(poll=0.05)
        async with queue:
            work = asyncio.create_task(worker.run())
            job = await queue.await_for(await mail.aenqueue(), timeout=60)
            worker.stop()
            await work
        with pytest.raises(QueueClosed):
            await queue.aget(job)
        with pytest.raises(QueueClosed):
            await queue.await_for(job)
        async with queue:
            # In the same loop.
            return (await queue.await_for(job, timeout=60)).value()

    for _ in range(2):
        assert asyncio.run(app()) == "sent"
        assert named.all_gone()
        with queue:
            assert queue.stats()["mail"].completed > 0
            assert list(queue.watch(queue.list(limit=1)[0]))
        assert named.all_gone()
        with pytest.raises(QueueClosed):
            queue.stats()


def test_a_process_that_closes_its_queue_leaves_no_warning(dsn: str) -> None:
    program = """
import asyncio, sys
from howdah import JobQueue
with JobQueue(sys.argv[1]) as queue:
    queue.enqueue("mail")
async def main():
    async with JobQueue(sys.argv[1]) as queue:
        await queue.aenqueue("mail")
        queue.enqueue("mail")
asyncio.run(main())
print("done")
"""
    assert python(program, dsn) == "done\n"


def test_a_process_that_forgets_to_close_its_queue_ends_all_the_same(dsn: str) -> None:
    program = """
import asyncio, sys
from howdah import JobQueue
queue = JobQueue(sys.argv[1])
queue.enqueue("mail")
asyncio.run(queue.aenqueue("mail"))
print("done", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, dsn], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


FORK = """
import asyncio, os, sys, warnings
from howdah import JobQueue

warnings.simplefilter("ignore", DeprecationWarning)  # that threads and forks do not go well together
queue = JobQueue(sys.argv[1])
queue.enqueue("mail", "before")
async def use(data):
    await queue.aenqueue("mail", data)
    await queue.aclose()
child = os.fork()
if child == 0:
    {child}
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
# A claim is never repeated: it succeeds only if the parent's own connection is still whole.
print(sorted(job.data for job in queue.claim(["mail"])))
queue.enqueue("mail", "after")
queue.close()
"""


@pytest.mark.parametrize(
    ("child", "claimed"),
    [
        ("pass", ["before"]),
        ("queue.enqueue('mail', 'child'); queue.close()", ["before", "child"]),
        ("queue.close()", ["before"]),
        ("asyncio.run(use('child'))", ["before", "child"]),
        ("del queue; import gc; gc.collect()", ["before"]),
    ],
)
def test_parent_and_child_of_a_fork_both_go_on(dsn: str, queue: JobQueue, child: str, claimed: list[str]) -> None:
    assert python(FORK.format(child=child), dsn) == f"{claimed}\n"
    assert [job.data for job in queue.claim(["mail"])] == ["after"]


def test_a_child_does_not_wait_for_a_lock_that_a_thread_of_its_parent_held(dsn: str, queue: JobQueue) -> None:
    program = """
import contextlib, os, sys, threading, warnings
from howdah import JobQueue
from howdah.model import ids
warnings.simplefilter("ignore", DeprecationWarning)
queue = JobQueue(sys.argv[1])
queue.enqueue("mail", "before")
held, leave = threading.Event(), threading.Event()
def hold():
    locks = [each for each in (*vars(queue._database).values(), *vars(ids).values()) if hasattr(each, "acquire")]
    with contextlib.ExitStack() as stack:
        for lock in locks:
            stack.enter_context(lock)
        held.set()
        leave.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    import signal
    signal.alarm(5)
    queue.enqueue("mail", "child")
    queue.close()
    os._exit(0)
leave.set()
thread.join()
print(os.waitpid(child, 0)[1])
queue.close()
"""
    assert python(program, dsn) == "0\n"
    assert [job.data for job in queue.claim(["mail"])] == ["before", "child"]


def test_a_loop_ends_while_its_pool_is_still_connecting(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = psycopg.AsyncConnection.connect
    hanging = threading.Event()

    async def hang(*_: Any, **__: Any) -> Any:
        hanging.set()
        await asyncio.Event().wait()

    async def main(queue: JobQueue) -> None:
        await queue.aenqueue("first")
        monkeypatch.setattr(psycopg.AsyncConnection, "connect", hang)
        held = [asyncio.create_task(queue.aenqueue("more")) for _ in range(5)]
        while not hanging.is_set():
            await asyncio.sleep(0)
        del held

    with JobQueue(dsn) as queue:
        asyncio.run(main(queue))
        monkeypatch.setattr(psycopg.AsyncConnection, "connect", connect)
        assert asyncio.run(queue.aget(queue.enqueue("second"))).status == "pending"


def test_the_queue_works_after_all_other_tasks_were_cancelled(queue: JobQueue) -> None:
    async def main() -> str:
        await queue.aenqueue("first")
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others)
        return (await queue.aenqueue("second")).status

    assert asyncio.run(main()) == "pending"


def test_a_cancellation_that_comes_together_with_the_answer_is_not_lost() -> None:
    async def deaf() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "answered all the same"

    async def main() -> None:
        task = asyncio.create_task(heed_cancellation(deaf()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
