"""``wait_for``: a job's end, whoever brings it."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

import psycopg
import pytest

from howdah import InvalidOption, JobNotFound, JobQueue, WaitTimeout


class Watcher:
    """A codec that does nothing but tell when a job was first read."""

    def __init__(self) -> None:
        self.read = threading.Event()

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        self.read.set()
        return value


def test_a_job_that_has_ended_is_returned_at_once(queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    queue.complete(queue.claim(["mail"])[0], {"sent": 1})
    ended = queue.wait_for(job, timeout=0)
    assert (ended.status, ended.result, ended.ended) == ("completed", {"sent": 1}, True)


def test_it_waits_until_the_job_ends(dsn: str, queue: JobQueue) -> None:
    watcher = Watcher()
    job = queue.enqueue("mail")
    with JobQueue(dsn, codec=watcher) as waiting:

        def end() -> None:
            watcher.read.wait()
            queue.complete(queue.claim(["mail"])[0], "late")

        ending = threading.Thread(target=end)
        ending.start()
        assert waiting.wait_for(job.id).result == "late"
        ending.join()


def test_it_can_be_awaited_while_the_loop_goes_on(dsn: str) -> None:
    async def main() -> Any:
        watcher = Watcher()
        async with JobQueue(dsn, codec=watcher) as queue:
            job = await queue.aenqueue("mail")
            waiting = asyncio.create_task(queue.await_for(job))
            await asyncio.to_thread(watcher.read.wait)
            (claimed,) = await queue.aclaim(["mail"])
            await queue.afail(claimed, "no", give_up=True)
            return (await waiting).status

    assert asyncio.run(main()) == "failed"


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_a_timeout_is_said_and_the_job_goes_on(queue: JobQueue, timeout: float) -> None:
    job = queue.enqueue("mail")
    with pytest.raises(WaitTimeout, match=f"{job.id} is pending") as late:
        queue.wait_for(job, timeout=timeout)
    assert isinstance(late.value, TimeoutError)
    assert queue.get(job).status == "pending"


def test_a_failed_attempt_is_not_the_end(queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    queue.fail(queue.claim(["mail"])[0], "once more")
    with pytest.raises(WaitTimeout):
        queue.wait_for(job, timeout=0.02)


def test_a_job_that_does_not_exist_is_not_waited_for(queue: JobQueue) -> None:
    with pytest.raises(JobNotFound):
        queue.wait_for(uuid.uuid4())


def test_a_job_that_ends_and_is_deleted_between_two_looks_is_not_waited_for_any_longer(
    dsn: str, queue: JobQueue
) -> None:
    async def main() -> None:
        watcher = Watcher()
        async with JobQueue(dsn, codec=watcher) as waiting_queue:
            job = await waiting_queue.aenqueue("mail")
            waiting = asyncio.create_task(waiting_queue.await_for(job))
            await asyncio.to_thread(watcher.read.wait)
            with psycopg.connect(dsn) as conn:
                assert queue.cancel(job, conn=conn)
                conn.execute("DELETE FROM howdah.jobs WHERE id = %s", (job.id,))
            with pytest.raises(JobNotFound):
                await asyncio.wait_for(waiting, 5)

    asyncio.run(main())


@pytest.mark.parametrize("timeout", [-1, float("nan"), True, "5"], ids=repr)
def test_a_senseless_timeout_is_refused(queue: JobQueue, timeout: Any) -> None:
    job = queue.enqueue("mail")
    with pytest.raises(InvalidOption, match="timeout"):
        queue.wait_for(job, timeout=timeout)
