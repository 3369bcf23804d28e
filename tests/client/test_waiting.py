"""``wait_for``: the ends of one job or of many, by whatever ends them."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from howdah import Group, InvalidOption, Job, JobNotFound, JobQueue, NotRunning, QueueClosed, WaitTimeout
from howdah.watch.mailbox import Mailbox, Message
from tests.client.listener import FLAVOURS, PATIENCE, held
from tests.conftest import Db
from tests.worker.processes import until

every_flavour = pytest.mark.parametrize("flavour", FLAVOURS)


class Watcher:
    """A codec that only records when a job was first read."""

    def __init__(self) -> None:
        self.read = threading.Event()

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        self.read.set()
        return value


def wait(queue: JobQueue, flavour: str, jobs: Any, *args: Any, **kwargs: Any) -> Any:
    if flavour == "plain":
        return queue.wait_for(jobs, *args, **kwargs)

    async def main() -> Any:
        try:
            return await queue.await_for(jobs, *args, **kwargs)
        finally:
            pool = queue._database._pools.by_loop.pop(asyncio.get_running_loop(), None)
            if pool is not None:
                await pool.close()

    return asyncio.run(main())


class Waiting:
    """A wait beside the test."""

    def __init__(self, queue: JobQueue, flavour: str, jobs: Any, *args: Any, **kwargs: Any) -> None:
        self._answer: list[Any] = []
        self._errors: list[BaseException] = []

        def work() -> None:
            try:
                self._answer.append(wait(queue, flavour, jobs, *args, **kwargs))
            except BaseException as error:  # noqa: BLE001
                self._errors.append(error)

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def answer(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        for error in self._errors:
            raise error
        return self._answer[0]


def begun(queue: JobQueue) -> bool:
    """Waits until there is a new subscription."""
    event = threading.Event()
    while not queue._hub()._subscriptions:
        event.wait(0.002)
    return True


def complete(queue: JobQueue, *job_types: str) -> None:
    for job in queue.claim(job_types or ["mail"], 100_000):
        queue.complete(job, job.data)


# One


@every_flavour
def test_a_job_that_has_ended_is_returned_at_once_and_without_a_thread(queue: JobQueue, flavour: str) -> None:
    job = queue.enqueue("mail")
    queue.complete(queue.claim(["mail"])[0], {"sent": 1})
    ended = wait(queue, flavour, job, timeout=0)
    assert (ended.status, ended.result, ended.ended) == ("completed", {"sent": 1}, True)
    assert wait(queue, flavour, str(job.id)) == wait(queue, flavour, job.id) == ended
    assert queue._hub()._thread is None


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


@pytest.mark.parametrize("source", ["enqueue", "get", "list", "claim", "wait_for", "watch"])
@every_flavour
def test_a_job_that_came_from_a_queue_can_be_waited_for_itself(queue: JobQueue, flavour: str, source: str) -> None:
    enqueued = queue.enqueue("mail", 7)
    if source == "wait_for":
        complete(queue)
    sources: dict[str, Callable[[], Any]] = {
        "enqueue": lambda: enqueued,
        "get": lambda: queue.get(enqueued),
        "list": lambda: queue.list()[0],
        "claim": lambda: queue.claim(["mail"])[0],
        "wait_for": lambda: queue.wait_for(enqueued),
        "watch": lambda: next(queue.watch(enqueued)).job,
    }
    job: Job = sources[source]()

    async def awaited() -> Job:
        return await job.await_for(PATIENCE)

    ending = threading.Timer(0, lambda: queue.complete(job, 7) if source == "claim" else complete(queue))
    if source != "wait_for":
        ending.start()
    ended = job.wait_for(PATIENCE) if flavour == "plain" else asyncio.run(awaited())
    assert (ended.id, ended.status, ended.value()) == (enqueued.id, "completed", 7)
    if source != "wait_for":
        ending.join()


def test_a_job_without_a_queue_names_the_call_that_has_one(queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    orphan = Job(
        **{
            field: getattr(job, field)
            for field in ("id", "job_type", "priority", "status", "data", "created_at", "max_attempts", "run_at")
        }
    )
    with pytest.raises(NotRunning, match=r"queue\.get"):
        orphan.wait_for()


@pytest.mark.parametrize("timeout", [0, 0.05])
@every_flavour
def test_a_timeout_of_a_wait_is_raised_and_leaves_the_job_alone(queue: JobQueue, flavour: str, timeout: float) -> None:
    job = queue.enqueue("mail")
    with pytest.raises(WaitTimeout, match=f"{job.id} has not ended after {timeout:g} s") as late:
        wait(queue, flavour, job, timeout=timeout)
    assert isinstance(late.value, TimeoutError)
    assert queue.get(job).status == "pending"
    assert queue._hub()._subscriptions == set()


def test_a_failed_attempt_is_not_the_end(queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    queue.fail(queue.claim(["mail"])[0], "once more")
    with pytest.raises(WaitTimeout):
        queue.wait_for(job, timeout=0.02)


def test_a_job_that_ended_and_was_retried_between_two_reads_is_waited_for_again(queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    with psycopg.connect(queue.dsn) as conn:
        waiting = Waiting(queue, "plain", job)
        begun(queue)
        queue.cancel(job, conn=conn)
        queue.retry(job, conn=conn)
    complete(queue)
    assert waiting.answer().status == "completed"


@every_flavour
def test_a_job_that_does_not_exist_is_not_waited_for(queue: JobQueue, flavour: str) -> None:
    unknown = uuid.uuid4()
    for jobs in (unknown, [queue.enqueue("mail"), unknown]):
        with pytest.raises(JobNotFound, match=str(unknown)):
            wait(queue, flavour, jobs)


@every_flavour
def test_a_job_that_ends_and_is_deleted_between_two_reads_is_not_waited_for_any_longer(
    dsn: str, queue: JobQueue, flavour: str
) -> None:
    job = queue.enqueue("mail")
    waiting = Waiting(queue, flavour, job)
    begun(queue)
    with psycopg.connect(dsn) as conn:
        assert queue.cancel(job, conn=conn)
        conn.execute("DELETE FROM howdah.jobs WHERE id = %s", (job.id,))
    with pytest.raises(JobNotFound):
        waiting.answer()


@pytest.mark.parametrize("timeout", [-1, float("nan"), True, "5"], ids=repr)
@every_flavour
def test_a_senseless_timeout_is_refused(queue: JobQueue, flavour: str, timeout: Any) -> None:
    job = queue.enqueue("mail")
    with pytest.raises(InvalidOption, match="timeout"):
        wait(queue, flavour, job, timeout=timeout)


@pytest.mark.parametrize("jobs", [5, None, "x", [5], ["x"]], ids=repr)
def test_what_is_no_job_is_refused(queue: JobQueue, jobs: Any) -> None:
    with pytest.raises(InvalidOption):
        queue.wait_for(jobs)


def test_a_task_that_is_cancelled_waits_no_longer(dsn: str) -> None:
    async def main() -> None:
        async with JobQueue(dsn) as queue:
            job = await queue.aenqueue("mail")
            waiting = asyncio.create_task(queue.await_for(job))
            while not queue._hub()._subscriptions:
                await asyncio.sleep(0.002)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert queue._hub()._subscriptions == set()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


@every_flavour
def test_closing_the_queue_ends_a_wait_with_queue_closed(dsn: str, flavour: str) -> None:
    queue = JobQueue(dsn)
    job = queue.enqueue("mail")
    waiting = Waiting(queue, flavour, job)
    begun(queue)
    queue.close()
    with pytest.raises(QueueClosed):
        waiting.answer()


# Several


@pytest.mark.parametrize(
    "given", [list, tuple, iter, lambda jobs: (job.id for job in jobs), lambda jobs: [str(job.id) for job in jobs]]
)
@every_flavour
def test_several_are_returned_in_the_order_in_which_they_were_given(
    queue: JobQueue, flavour: str, given: Callable[[list[Job]], Iterable[Any]]
) -> None:
    jobs = [queue.enqueue("mail", n) for n in range(9)]
    asked = [jobs[n] for n in (3, 1, 8, 1, 0)]
    waiting = Waiting(queue, flavour, given(asked))
    begun(queue)
    complete(queue)
    assert [job.value() for job in waiting.answer()] == [3, 1, 8, 1, 0]
    assert wait(queue, flavour, []) == []


@every_flavour
def test_ten_thousand_can_be_waited_for(queue: JobQueue, flavour: str) -> None:
    ids = queue.enqueue_many("mail", range(10_000), return_ids=True).ids
    assert ids is not None
    seen: list[Group] = []
    waiting = Waiting(queue, flavour, reversed(ids), PATIENCE, on_progress=seen.append)
    begun(queue)
    claimed = queue.claim(["mail"], 10_000)
    with psycopg.connect(queue.dsn) as conn:
        tokens = [job.token for job in claimed]
        results = [str(job.data) for job in claimed]
        for part in (slice(0, 4_000), slice(4_000, 10_000)):
            conn.execute(
                "SELECT count(*) FROM howdah.complete(%s, %s, %s::jsonb[])",
                ([job.id for job in claimed][part], tokens[part], results[part]),
            )
            conn.commit()
    assert [job.result for job in waiting.answer()] == list(reversed(range(10_000)))
    assert (seen[0].pending, seen[0].percent) == (10_000, 0)
    assert (seen[-1].completed, seen[-1].percent) == (10_000, 100)


@every_flavour
def test_the_error_of_a_timeout_counts_the_ended_jobs(queue: JobQueue, flavour: str) -> None:
    jobs = [queue.enqueue("mail", n) for n in range(3)]
    queue.complete(queue.claim(["mail"], 1)[0])
    queue.cancel(jobs[1])
    with pytest.raises(WaitTimeout, match=r"^2 of 3 jobs have ended after 3 s"):
        Waiting(queue, flavour, jobs, timeout=3).answer()


@every_flavour
def test_on_progress_is_called_at_first_on_every_change_and_at_the_end(queue: JobQueue, db: Db, flavour: str) -> None:
    running, failing = held(queue), held(queue)
    pending, cancelled = queue.enqueue("mail"), queue.enqueue("mail")
    queue.cancel(cancelled)
    seen: list[Group] = []
    changed = threading.Condition()

    def tell(group: Group) -> None:
        with changed:
            seen.append(group)
            changed.notify_all()

    def until(condition: Callable[[Group], object]) -> None:
        with changed:
            assert changed.wait_for(lambda: seen and condition(seen[-1]), PATIENCE), seen

    waiting = Waiting(queue, flavour, [running, failing, pending, cancelled], on_progress=tell)
    until(lambda group: group.ended == 1)
    assert seen == [Group(total=4, pending=1, running=2, completed=0, failed=0, cancelled=1, percent=25.0)]
    queue.progress(running, 40)
    until(lambda group: group.percent == 35)
    queue.fail(failing, "no", give_up=True)
    until(lambda group: group.failed == 1)
    assert seen[-1] == Group(total=4, pending=1, running=1, completed=0, failed=1, cancelled=1, percent=60.0)
    queue.complete(running)
    until(lambda group: group.completed == 1)
    complete(queue)
    assert [job.status for job in waiting.answer()] == ["completed", "failed", "completed", "cancelled"]
    assert seen[-1] == Group(total=4, pending=0, running=0, completed=2, failed=1, cancelled=1, percent=100.0)
    assert seen[-1].ended == 4
    assert all(group.pending + group.running + group.ended == 4 for group in seen)
    assert len(set(map(repr, seen))) == len(seen), "only what is new"


@every_flavour
def test_a_timeout_is_raised_however_many_updates_come(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch, flavour: str
) -> None:
    job = held(queue)
    counted = threading.Event()
    put = Mailbox.put

    def watched(self: Mailbox, note: Message, key: Any = None) -> None:
        put(self, note, key)
        counted.set()

    monkeypatch.setattr(Mailbox, "put", watched)
    seen: list[Group] = []

    def tell(group: Group) -> None:
        """Takes its time, and by then there is something new."""
        seen.append(group)
        assert len(seen) < 3, "its time has been up before"
        if len(seen) == 2:
            time.sleep(1)
            counted.clear()
        queue.progress(job, 10 * len(seen))
        if len(seen) == 2:
            assert counted.wait(PATIENCE)

    with pytest.raises(WaitTimeout):
        wait(queue, flavour, job, timeout=1, on_progress=tell)


def test_on_progress_is_called_once_for_jobs_that_have_ended(queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    complete(queue)
    seen: list[Group] = []
    queue.wait_for(job, on_progress=seen.append)
    queue.wait_for([], on_progress=seen.append)
    assert [(group.total, group.completed, group.percent) for group in seen] == [(1, 1, 100.0), (0, 0, 100.0)]


@every_flavour
def test_an_error_of_the_callers_own_ends_the_wait(queue: JobQueue, flavour: str) -> None:
    class Enough(Exception):
        pass

    def tell(group: Group) -> None:
        raise Enough

    with pytest.raises(Enough):
        wait(queue, flavour, queue.enqueue("mail"), on_progress=tell)
    assert queue._hub()._subscriptions == set()


def test_on_progress_of_an_awaited_wait_may_be_a_coroutine(dsn: str) -> None:
    async def main() -> list[int]:
        seen: list[int] = []

        async def tell(group: Group) -> None:
            await asyncio.sleep(0)
            seen.append(group.ended)

        async with JobQueue(dsn) as queue:
            job = await queue.aenqueue("mail")
            waiting = asyncio.create_task(queue.await_for([job], PATIENCE, on_progress=tell))
            while not seen:
                await asyncio.sleep(0.002)
            (claimed,) = await queue.aclaim(["mail"])
            await queue.acomplete(claimed)
            await waiting
        return seen

    seen = asyncio.run(main())
    assert (seen[0], seen[-1]) == (0, 1)


def test_of_many_waits_at_once_each_gets_the_progress_of_its_own_group(queue: JobQueue) -> None:
    groups = [[queue.enqueue(f"type {n}", m) for m in range(n + 1)] for n in range(5)]
    seen: list[list[Group]] = [[] for _ in groups]
    waits = [
        Waiting(queue, flavour, jobs, PATIENCE, on_progress=told.append)
        for (jobs, told), flavour in zip(zip(groups, seen, strict=True), FLAVOURS * 3, strict=False)
    ]
    for number in (3, 0, 4, 2, 1):
        complete(queue, f"type {number}")
        assert [job.value() for job in waits[number].answer()] == list(range(number + 1))
    for number, told in enumerate(seen):
        assert {group.total for group in told} == {number + 1}
        assert told[-1].completed == number + 1


@pytest.mark.parametrize(
    "payload", ["news 9", "news " + "9" * 5_000, "wake " + "9" * 5_000, "news ٩", "cancel x", "", "\u202e"]
)
def test_what_any_login_may_notify_ends_no_wait(queue: JobQueue, db: Db, payload: str) -> None:
    job = queue.enqueue("work")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.wait_for, job, 60)
        watches = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted"
        until(lambda: db.execute(watches).fetchone(), "it waits")
        db.execute("SELECT pg_notify(channel(), %s)", (payload,))
        queue.cancel(job)
        assert waiting.result().status == "cancelled"
