"""``enqueue_many``: all of them or none, in their order, without holding them in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from howdah import InvalidInput, InvalidItem, InvalidOption, JobQueue, PayloadTooLarge
from howdah.verbs.produce import BULK_SIZE
from tests.conftest import Db


def claimed_data(queue: JobQueue, count: int) -> list[Any]:
    return [job.data for job in queue.claim(["mail"], count)]


def test_the_order_of_the_items_is_the_order_of_the_claims(queue: JobQueue) -> None:
    count = BULK_SIZE * 2 + 10
    assert queue.enqueue_many("mail", ({"n": n} for n in range(count))) == count
    assert claimed_data(queue, count) == [{"n": n} for n in range(count)]


def test_the_order_holds_over_chunks_too(queue: JobQueue) -> None:
    assert queue.enqueue_many("mail", range(25), chunk_size=4) == 25
    assert claimed_data(queue, 30) == list(range(25))


def test_ids_are_listed_on_request_in_the_order_of_the_items(queue: JobQueue) -> None:
    assert queue.enqueue_many("mail", [1]).ids is None
    queue.claim(["mail"])
    added = queue.enqueue_many("mail", range(BULK_SIZE + 5), return_ids=True)
    assert added.ids is not None
    assert added.ids == [job.id for job in queue.claim(["mail"], BULK_SIZE + 5)]
    assert [queue.get(added.ids[n]).data for n in (0, BULK_SIZE, BULK_SIZE + 4)] == [0, BULK_SIZE, BULK_SIZE + 4]


def test_no_items_are_no_jobs(queue: JobQueue) -> None:
    added = queue.enqueue_many("mail", [], return_ids=True)
    assert (added, added.ids) == (0, [])


def test_a_bad_item_is_named_and_nothing_is_enqueued(queue: JobQueue) -> None:
    items: list[Any] = [*range(BULK_SIZE + 3), {"a": [float("nan")]}, 5]
    with pytest.raises(InvalidItem, match=rf"item {BULK_SIZE + 3}\.a\[0\] is nan.*nothing was enqueued") as refused:
        queue.enqueue_many("mail", items)
    assert (refused.value.index, refused.value.enqueued) == (BULK_SIZE + 3, 0)
    assert len(queue.list()) == 0


def test_the_error_of_a_bad_item_in_a_later_chunk_counts_those_enqueued(queue: JobQueue) -> None:
    with pytest.raises(InvalidItem, match="4 jobs before its chunk are enqueued") as refused:
        queue.enqueue_many("mail", [0, 1, 2, 3, 4, "\x00"], chunk_size=2)
    assert (refused.value.index, refused.value.enqueued) == (5, 4)
    assert sorted(job.data for job in queue.list()) == [0, 1, 2, 3]


def test_an_item_over_the_limit_is_a_bad_item(queue: JobQueue) -> None:
    with pytest.raises(InvalidItem, match="item 1 is 70,002 bytes") as refused:
        queue.enqueue_many("mail", ["x", "y" * 70_000])
    assert isinstance(refused.value.__cause__, PayloadTooLarge)


def test_a_bad_key_is_named_with_its_index(queue: JobQueue) -> None:
    with pytest.raises(InvalidItem, match=r"item 1\b.*key") as refused:
        queue.enqueue_many("mail", ["a", ""], key=str)
    assert refused.value.index == 1
    assert len(queue.list()) == 0


def test_an_error_of_the_iterable_reaches_the_caller_and_nothing_is_enqueued(queue: JobQueue) -> None:
    def items() -> Iterator[int]:
        yield from range(BULK_SIZE + 1)
        raise KeyError("of the caller's")

    with pytest.raises(KeyError, match="of the caller's"):
        queue.enqueue_many("mail", items())
    assert len(queue.list()) == 0


def test_an_error_of_the_iterable_leaves_whole_chunks_in(queue: JobQueue) -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise KeyError("of the caller's")

    with pytest.raises(KeyError, match="of the caller's"):
        queue.enqueue_many("mail", items(), chunk_size=2)
    assert sorted(job.data for job in queue.list()) == [0, 1, 2, 3]


def test_the_items_are_streamed_and_none_is_to_be_seen_before_the_last(queue: JobQueue, db: Db) -> None:
    working: list[int] = []
    seen: list[int] = []

    def items() -> Iterator[int]:
        yield from range(BULK_SIZE)
        # The first of them are on their way already: a transaction of ours begins to write while this runs.
        writing = "SELECT count(backend_xid) AS n FROM pg_stat_activity WHERE application_name = 'howdah'"
        while not (begun := db.execute(writing).fetchall()[0]["n"]):
            time.sleep(0.01)
        working.append(begun)
        yield BULK_SIZE
        seen.append(len(queue.list()))

    assert queue.enqueue_many("mail", items()) == BULK_SIZE + 1
    assert (working, seen) == ([1], [0])


def test_chunks_are_to_be_seen_before_the_end(queue: JobQueue, db: Db) -> None:
    seen: list[int] = []

    def items() -> Iterator[int]:
        for n in range(6):
            row = db.execute("SELECT count(*) AS jobs FROM jobs").fetchone()
            assert row is not None
            seen.append(row["jobs"])
            yield n

    queue.enqueue_many("mail", items(), chunk_size=2)
    assert seen == [0, 0, 2, 2, 4, 4]


def test_an_item_whose_key_is_taken_is_left_out(queue: JobQueue) -> None:
    queue.enqueue("mail", "old", key="b")
    assert queue.enqueue_many("mail", ["c", "b", "a", "c"], key=str) == 2
    assert claimed_data(queue, 10) == ["old", "c", "a"]


def test_of_two_items_with_one_key_the_first_is_taken(queue: JobQueue) -> None:
    items = [{"k": "x", "n": 1}, {"k": "x", "n": 2}]
    added = queue.enqueue_many("mail", items, key=lambda item: str(item["k"]), return_ids=True)
    assert (added, len(added.ids or ())) == (1, 1)
    assert claimed_data(queue, 10) == [{"k": "x", "n": 1}]


def test_options_are_those_of_every_item(queue: JobQueue) -> None:
    queue.enqueue_many("mail", [1, 2], priority=7, delay=60, max_attempts=9, meta={"tag": "t"})
    for job in queue.list():
        assert (job.priority, job.max_attempts, job.meta) == (7, 9, {"tag": "t"})
        assert job.run_at > job.created_at


@pytest.mark.parametrize("items", ["text", b"bytes", {"a": 1}, 5, None], ids=repr)
def test_what_is_no_iterable_of_data_is_refused(queue: JobQueue, items: Any) -> None:
    with pytest.raises(InvalidOption, match="iterable of data"):
        queue.enqueue_many("mail", items)


@pytest.mark.parametrize("size", [0, -1, True, 1.5, 100_001])
def test_a_senseless_chunk_size_is_refused(queue: JobQueue, size: Any) -> None:
    with pytest.raises(InvalidInput, match="chunk_size"):
        queue.enqueue_many("mail", [1], chunk_size=size)


async def numbers(count: int) -> AsyncIterator[int]:
    for n in range(count):
        await asyncio.sleep(0)
        yield n


def test_an_async_iterable_is_awaited(dsn: str) -> None:
    async def main() -> list[Any]:
        async with JobQueue(dsn) as queue:
            assert await queue.aenqueue_many("mail", numbers(BULK_SIZE + 2)) == BULK_SIZE + 2
            return [job.data for job in await queue.aclaim(["mail"], BULK_SIZE + 2)]

    assert asyncio.run(main()) == list(range(BULK_SIZE + 2))


def test_an_async_iterable_needs_the_verb_that_is_awaited(queue: JobQueue) -> None:
    with pytest.raises(InvalidOption, match="aenqueue_many"):
        queue.enqueue_many("mail", numbers(2))
    assert len(queue.list()) == 0


def test_a_cancelled_bulk_enqueues_nothing(dsn: str) -> None:
    async def main() -> int:
        reached = asyncio.Event()

        async def stuck() -> AsyncIterator[int]:
            for n in range(BULK_SIZE):
                yield n
            reached.set()
            await asyncio.Event().wait()

        async with JobQueue(dsn) as queue:
            task = asyncio.create_task(queue.aenqueue_many("mail", stuck()))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return len(await queue.alist())

    assert asyncio.run(main()) == 0


def test_bulks_with_keys_wait_for_a_long_one_of_their_type_and_for_no_other(dsn: str, queue: JobQueue) -> None:
    impatient = psycopg.connect(dsn, autocommit=True, options="-c lock_timeout=1s")
    with psycopg.connect(dsn) as conn, impatient as other:
        queue.enqueue_many("long", range(BULK_SIZE), key=str, conn=conn)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            queue.enqueue_many("long", ["a", "b"], key=str, conn=other)
        # Single jobs with other keys do not wait for it, and neither do other types.
        assert queue.enqueue_many("long", ["c"], key=str, conn=other) == 1
        for number in range(50):
            assert queue.enqueue_many(f"other {number}", ["a", "b"], key=str, conn=other) == 2
        conn.commit()
        assert queue.enqueue_many("long", ["a", "b", "1"], key=str, conn=other) == 2


@pytest.mark.parametrize("crossed", [False, True])
def test_bulks_after_other_keys_in_open_transactions_do_not_deadlock(dsn: str, queue: JobQueue, crossed: bool) -> None:
    types = ("one", "two") if crossed else ("one", "one")
    with (
        psycopg.connect(dsn, options="-c lock_timeout=60s") as first,
        psycopg.connect(dsn, options="-c lock_timeout=60s") as second,
    ):
        queue.enqueue_many(types[0], ["a", "b"], key=str, conn=first)
        queue.enqueue_many(types[1], ["c", "d"], key=str, conn=second)
        # Both are still open: were one to wait for the other here, the other could wait for it in turn.
        queue.enqueue_many(types[1], (f"first {n}" for n in range(BULK_SIZE + 1)), key=str, conn=first)
        queue.enqueue_many(types[0], (f"second {n}" for n in range(BULK_SIZE + 1)), key=str, conn=second)
    assert sum(each.pending for each in queue.stats().values()) == 2 * (BULK_SIZE + 3)
