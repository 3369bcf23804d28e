"""A bound on the jobs of a type that wait: producers get an error, wait for room, or drop the oldest job."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from howdah import InvalidOption, JobCancelled, JobQueue, QueueFull
from howdah.db.session import AsyncSession, SyncSession
from howdah.model.results import WhenFull
from tests.conftest import Db

LARGE = 1_500


class Pauses:
    """Every wait for room of a session, with something that happens in place of it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.instead: Callable[[int], object] = lambda number: None

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.instead(len(self.seconds))

    async def awaited(self, seconds: float) -> None:
        # The verbs that a test calls here block.
        await asyncio.to_thread(self, seconds)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    pauses = Pauses()
    monkeypatch.setattr("howdah.db.session.time.sleep", pauses)
    monkeypatch.setattr("howdah.db.session.asyncio.sleep", pauses.awaited)
    return pauses


def waiting(queue: JobQueue, job_type: str = "t") -> int:
    return len(queue.list(job_type=job_type, status="pending", limit=10_000))


def claim_one(queue: JobQueue) -> None:
    (job,) = queue.claim(["t"], 1)
    queue.complete(job)


# raise


def test_the_error_names_what_is_full_how_full_and_the_remedy(queue: JobQueue) -> None:
    queue.limits.set_max_pending("t", 2)
    queue.enqueue_many("t", [{}] * 2)
    with pytest.raises(QueueFull) as refused:
        queue.enqueue("t")
    assert str(refused.value) == (
        "there is no room for another job of type t: 2 wait, and at most 2 may. Enqueue it again later, or run more"
        " workers. An operator can change the bound: set_max_pending."
    )
    error = pickle.loads(pickle.dumps(refused.value))
    assert (error.job_type, error.max_pending, error.pending, error.enqueued) == ("t", 2, 2, 0)
    assert error.args == refused.value.args
    claim_one(queue)
    queue.enqueue("t")
    with pytest.raises(QueueFull):
        queue.enqueue("t", unique=True)


@pytest.mark.parametrize("most", [20, LARGE])
def test_of_many_producers_at_once_each_gets_its_job_or_its_error(queue: JobQueue, most: int) -> None:
    queue.limits.set_max_pending("t", most)
    queue.enqueue_many("t", [{}] * (most - 20))

    async def all_of_them() -> list[Any]:
        async with queue:
            answers: list[Any] = await asyncio.gather(*(queue.aenqueue("t") for _ in range(60)), return_exceptions=True)
            return answers

    answers = asyncio.run(all_of_them())
    refused = [answer for answer in answers if isinstance(answer, QueueFull)]
    assert all(error.job_type == "t" for error in refused)
    added = {answer.id for answer in answers if not isinstance(answer, BaseException)}
    assert len(added) + len(refused) == 60
    with JobQueue(queue._database.configured) as other:
        # Two calls are under way at a time.
        assert most <= waiting(other) <= most + 60
        assert added <= {job.id for job in other.list(job_type="t", limit=10_000)}
        assert waiting(other) == most - 20 + len(added)


def test_a_bulk_is_refused_as_a_whole(queue: JobQueue) -> None:
    queue.limits.set_max_pending("t", 5)
    queue.enqueue("t")
    with pytest.raises(QueueFull, match="no room for 5 more jobs of type t: 1 wait") as refused:
        queue.enqueue_many("t", [{}] * 5)
    assert (refused.value.enqueued, waiting(queue)) == (0, 1)
    with pytest.raises(QueueFull, match="never have room: enqueue fewer at a time"):
        queue.enqueue_many("t", [{}] * 6)
    assert queue.enqueue_many("t", [{}] * 4) == 4
    queue.limits.set_max_pending("t", 3_000)
    with pytest.raises(QueueFull, match=r"Nothing was enqueued\. Pass chunk_size"):
        queue.enqueue_many("t", ({} for _ in range(5_000)))
    assert waiting(queue) == 5


def test_the_error_of_a_bulk_in_chunks_counts_those_enqueued(queue: JobQueue) -> None:
    queue.limits.set_max_pending("t", 10)
    with pytest.raises(QueueFull, match="8 jobs before are enqueued") as refused:
        queue.enqueue_many("t", [{}] * 30, chunk_size=4)
    assert (refused.value.enqueued, waiting(queue)) == (8, 8)
    with pytest.raises(QueueFull) as refused:
        queue.enqueue_many("t", [{"n": n // 2} for n in range(8)], chunk_size=2, unique=True)
    assert (refused.value.enqueued, waiting(queue)) == (2, 10)


def test_the_handlers_bound_holds_for_producers_without_it(queue: JobQueue, dsn: str) -> None:
    @queue.job(name="t", max_pending=2, when_full="drop_oldest")
    async def handler() -> None: ...

    asyncio.run(queue.run_worker(drain=True))
    with JobQueue(dsn) as other:
        for n in range(5):
            other.enqueue("t", {"n": n})
        assert {job.data["n"] for job in other.list(job_type="t", status="pending")} == {3, 4}
        (limit,) = other.limits.list()
        assert (limit.max_pending, limit.pending, limit.when_full, limit.by_operator) == (2, 2, "drop_oldest", False)
        other.limits.set_max_pending("t", 3, when_full="raise")
        other.enqueue("t")
        with pytest.raises(QueueFull):
            other.enqueue("t")
        assert [limit.by_operator for limit in other.limits.list()] == [True]
        other.limits.set_max_pending("t", None)
        other.enqueue("t")
        assert waiting(other) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_pending": 0}, "max_pending"),
        ({"max_pending": "many"}, "max_pending"),
        ({"max_pending": 5, "when_full": "explode"}, "when_full is raise, wait, drop_oldest, not 'explode'"),
        ({"max_pending": 5, "when_full": "drop_oldest", "ordered": True, "pause_on_failure": True}, "pause_on_failure"),
    ],
)
def test_options_that_are_not_valid_are_refused(queue: JobQueue, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):

        @queue.job(**options)
        def handler() -> None: ...


def test_a_repeated_call_gets_its_job_though_the_type_is_full(queue: JobQueue) -> None:
    queue.limits.set_max_pending("t", 1)
    job = queue.enqueue("t", key="a")
    assert queue.enqueue("t", id=job.id).id == job.id
    assert queue.enqueue("t", key="a").id == job.id
    with pytest.raises(QueueFull):
        queue.enqueue("t", key="b")


# wait


def test_it_waits_until_there_is_room(queue: JobQueue, pauses: Pauses) -> None:
    queue.limits.set_max_pending("t", 1, when_full="wait")
    queue.enqueue("t")
    pauses.instead = lambda number: claim_one(queue) if number == 3 else None
    job = queue.enqueue("t", {"n": 1})
    assert [each.id for each in queue.list(job_type="t", status="pending")] == [job.id]
    assert len(pauses.seconds) == 3
    assert all(0 < seconds <= 1 for seconds in pauses.seconds)


def test_it_is_awaited_as_well(queue: JobQueue, pauses: Pauses, dsn: str) -> None:
    async def enqueue() -> None:
        async with JobQueue(dsn) as other:
            await other.aenqueue("t", {"n": 1}, unique=True)

    queue.limits.set_max_pending("t", 1, when_full="wait")
    queue.enqueue("t")
    pauses.instead = lambda number: claim_one(queue) if number == 2 else None
    asyncio.run(enqueue())
    assert [each.data for each in queue.list(job_type="t", status="pending")] == [{"n": 1}]


def test_its_patience_has_an_end(queue: JobQueue) -> None:
    queue.limits.set_max_pending("t", 1, when_full="wait")
    queue.enqueue("t")
    with pytest.raises(QueueFull, match=r"There was none within 0.05 seconds \(room_timeout=\)"):
        queue.enqueue("t", room_timeout=0.05)
    with pytest.raises(QueueFull, match="within 0 seconds"):
        queue.enqueue("t", room_timeout=0)
    with pytest.raises(QueueFull, match="within 0 seconds"):
        queue.enqueue_many("t", [{}], room_timeout=0)
    with pytest.raises(InvalidOption, match="room_timeout"):
        queue.enqueue("t", room_timeout=-1)
    assert waiting(queue) == 1


def test_in_the_callers_transaction_it_does_not_wait(queue: JobQueue, dsn: str, pauses: Pauses) -> None:
    queue.limits.set_max_pending("t", 1, when_full="wait")
    queue.enqueue("t")
    for enqueue in (
        lambda conn: queue.enqueue("t", conn=conn),
        lambda conn: queue.enqueue_many("t", [{}], conn=conn),
        lambda conn: queue.enqueue_many("t", [{}], chunk_size=1, conn=conn),
    ):
        with psycopg.connect(dsn) as conn:
            with pytest.raises(
                QueueFull, match=r"not possible within a transaction \(conn=\)|Nothing was enqueued"
            ) as refused:
                enqueue(conn)
            assert refused.value.pending == 1
            conn.rollback()
    assert pauses.seconds == []


def test_each_chunk_of_a_bulk_waits(queue: JobQueue, pauses: Pauses) -> None:
    queue.limits.set_max_pending("t", 4, when_full="wait")
    pauses.instead = lambda number: claim_one(queue)
    assert queue.enqueue_many("t", ({"n": n} for n in range(9)), chunk_size=2) == 9
    assert waiting(queue) <= 4
    pauses.seconds.clear()
    assert queue.enqueue_many("t", [{}] * 4) == 4  # one transaction, and one call
    assert (waiting(queue), len(pauses.seconds)) == (4, 4)
    with pytest.raises(QueueFull, match="never have room"):
        queue.enqueue_many("t", [{}] * 5)
    assert len(pauses.seconds) == 4


def test_it_can_be_interrupted_and_nothing_is_added(queue: JobQueue, pauses: Pauses) -> None:
    def interrupt(number: int) -> None:
        raise KeyboardInterrupt

    queue.limits.set_max_pending("t", 1, when_full="wait")
    first = queue.enqueue("t")
    pauses.instead = interrupt
    with pytest.raises(KeyboardInterrupt):
        queue.enqueue("t")
    assert [job.id for job in queue.list()] == [first.id]
    claim_one(queue)
    queue.enqueue("t")


def test_it_can_be_cancelled_and_nothing_is_added(queue: JobQueue, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait_for_room() -> None:
        paused = asyncio.Event()

        async def pause(seconds: float) -> None:
            paused.set()
            await asyncio.Event().wait()

        async with JobQueue(dsn) as other:
            monkeypatch.setattr("howdah.db.session.asyncio.sleep", pause)
            task = asyncio.create_task(other.aenqueue("t"))
            await paused.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    queue.limits.set_max_pending("t", 1, when_full="wait")
    first = queue.enqueue("t")
    asyncio.run(wait_for_room())
    assert [job.id for job in queue.list()] == [first.id]


def test_a_waiting_producer_holds_no_connection(dsn: str, db: Db) -> None:
    with JobQueue(dsn, pool_size=1) as queue:
        queue.limits.set_max_pending("t", 1, when_full="wait")
        queue.enqueue("t")
        added: list[Any] = []
        producers = [threading.Thread(target=lambda: added.append(queue.enqueue("t").id)) for _ in range(4)]
        for producer in producers:
            producer.start()
        done = 0
        while done < 5:
            for job in queue.claim(["t"], 1):
                queue.complete(job)
                done += 1
        for producer in producers:
            producer.join()
        assert len(set(added)) == 4


@pytest.mark.parametrize("when_full", ["raise", "wait"])
def test_a_full_type_with_a_large_bound_is_counted_once_for_many_refusals(
    queue: JobQueue, db: Db, when_full: WhenFull, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.limits.set_max_pending("t", LARGE, when_full=when_full)
    queue.enqueue_many("t", [{}] * LARGE)
    db.execute("DELETE FROM backlog_counts")
    with pytest.raises(QueueFull):
        queue.enqueue("t", room_timeout=0.01)
    counts = db.execute("SELECT counted_no FROM backlog_counts").fetchall()
    assert len(counts) == 1
    # As if it had taken long: a test cannot know how fast the machine is.
    db.execute("UPDATE backlog_counts SET took = '10 seconds', counted_at = clock_timestamp()")
    with pytest.raises(QueueFull):
        queue.enqueue("t", room_timeout=0)
    assert db.execute("SELECT counted_no FROM backlog_counts").fetchall() == counts


# drop_oldest


def test_a_dropped_job_is_cancelled_for_its_waiters_too(queue: JobQueue) -> None:
    queue.limits.set_max_pending("t", 2, when_full="drop_oldest")
    first = queue.enqueue("t")
    updates = queue.watch(first)
    next(updates)
    queue.enqueue_many("t", [{}] * 2)
    *_, last = updates
    assert last.job is not None
    assert last.job.status == "cancelled"
    ended = queue.wait_for(first, timeout=30)
    assert (ended.status, ended.last_error) == ("cancelled", "dropped: at most 2 jobs of type t may wait")
    with pytest.raises(JobCancelled):
        ended.value()
    assert waiting(queue) == 2


def test_a_running_job_is_never_dropped(queue: JobQueue) -> None:
    queue.limits.set_max_pending("t", 1, when_full="drop_oldest")
    queue.enqueue("t")
    (running,) = queue.claim(["t"], 1)
    for _ in range(3):
        queue.enqueue("t")
    queue.complete(running)
    assert waiting(queue) == 1


def test_a_type_without_a_bound_sends_what_it_always_did(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    for session in (SyncSession, AsyncSession):
        monkeypatch.setattr(session, "_execute", _spied(session._execute, sent))
    queue.enqueue("t")
    sent.clear()
    queue.enqueue("t")
    queue.enqueue_many("t", [{}] * 3)
    assert sent == ["enqueue", "enqueue_many"]


def _spied(execute: Callable[..., Any], sent: list[str]) -> Callable[..., Any]:
    def spy(self: Any, conn: Any, step: Any) -> Any:
        sent.append(getattr(step, "function", step.__class__.__name__))
        return execute(self, conn, step)

    return spy
