"""``conn=``: what a verb does is part of the caller's transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from howdah import InvalidOption, JobNotChanged, JobQueue, LeaseLost
from howdah.verbs.produce import BULK_SIZE


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn) as conn:
        yield conn


def test_a_rolled_back_enqueue_never_happened(queue: JobQueue, conn: psycopg.Connection[Any]) -> None:
    job = queue.enqueue("mail", conn=conn)
    assert queue.get(job, conn=conn) == job
    assert len(queue.list()) == 0
    conn.rollback()
    assert len(queue.list()) == 0


def test_a_committed_enqueue_is_there_from_the_commit_on(queue: JobQueue, conn: psycopg.Connection[Any]) -> None:
    with conn.transaction():
        job = queue.enqueue("mail", conn=conn)
        assert queue.claim(["mail"]) == []
    assert [claimed.id for claimed in queue.claim(["mail"])] == [job.id]


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_a_rolled_back_bulk_never_happened(
    queue: JobQueue, conn: psycopg.Connection[Any], chunk_size: int | None
) -> None:
    """Also as the first statement of the caller's transaction, which a nested block would commit."""
    assert queue.enqueue_many("mail", range(5), chunk_size=chunk_size, conn=conn) == 5
    conn.rollback()
    assert len(queue.list()) == 0


def test_a_rolled_back_async_bulk_never_happened(dsn: str, queue: JobQueue) -> None:
    async def main() -> None:
        async with JobQueue(dsn) as mine, await psycopg.AsyncConnection.connect(dsn) as conn:
            assert await mine.aenqueue_many("mail", range(5), conn=conn) == 5
            await conn.rollback()

    asyncio.run(main())
    assert len(queue.list()) == 0


def test_a_bulk_inside_of_a_transaction_ends_with_it(queue: JobQueue, conn: psycopg.Connection[Any]) -> None:
    with conn.transaction(force_rollback=True):
        assert queue.enqueue_many("mail", range(BULK_SIZE + 1), conn=conn) == BULK_SIZE + 1
    assert len(queue.list()) == 0


def test_a_bad_item_leaves_the_callers_transaction_usable(queue: JobQueue, conn: psycopg.Connection[Any]) -> None:
    with conn.transaction():
        kept = queue.enqueue("mail", "kept", conn=conn)
        with pytest.raises(ValueError, match="nothing was enqueued"):
            queue.enqueue_many("mail", [*range(BULK_SIZE), "\x00"], conn=conn)
    assert [job.id for job in queue.list()] == [kept.id]


def test_a_bulk_on_an_autocommit_connection_is_one_transaction(dsn: str, queue: JobQueue) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        with pytest.raises(ValueError, match="nothing was enqueued"):
            queue.enqueue_many("mail", [*range(BULK_SIZE), "\x00"], conn=conn)
        assert len(queue.list()) == 0
        assert queue.enqueue_many("mail", range(3), conn=conn) == 3
    assert len(queue.list()) == 3


def test_a_savepoint_takes_back_only_what_came_after_it(queue: JobQueue, conn: psycopg.Connection[Any]) -> None:
    with conn.transaction():
        kept = queue.enqueue("mail", 1, conn=conn)
        with conn.transaction(force_rollback=True):
            queue.enqueue("mail", 2, conn=conn)
            queue.cancel(kept, conn=conn)
    assert [(job.id, job.status) for job in queue.list()] == [(kept.id, "pending")]


def test_a_completion_and_its_effect_commit_together_or_not_at_all(
    queue: JobQueue, conn: psycopg.Connection[Any]
) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    conn.execute("CREATE TEMP TABLE sent (n int)")
    conn.commit()
    conn.execute("INSERT INTO sent VALUES (1)")
    queue.complete(job, "done", conn=conn)
    conn.rollback()
    assert queue.get(job).status == "claimed"
    with conn.transaction():
        conn.execute("INSERT INTO sent VALUES (2)")
        queue.complete(job, "done", conn=conn)
    assert queue.get(job).status == "completed"
    assert conn.execute("SELECT n FROM sent").fetchall() == [(2,)]


def test_a_stale_completion_raises_inside_of_the_transaction_so_that_the_effect_is_undone(
    queue: JobQueue, conn: psycopg.Connection[Any]
) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.release(job)

    def work() -> None:
        with conn.transaction():
            conn.execute("CREATE TEMP TABLE effect (n int)")
            queue.complete(job, conn=conn)

    with pytest.raises(LeaseLost):
        work()
    assert conn.execute("SELECT to_regclass('effect')").fetchone() == (None,)


def test_an_async_transaction_is_the_callers_too(dsn: str, queue: JobQueue) -> None:
    async def main() -> None:
        async with JobQueue(dsn) as mine, await psycopg.AsyncConnection.connect(dsn) as conn:
            async with conn.transaction(force_rollback=True):
                await mine.aenqueue("mail", "undone", conn=conn)
            async with conn.transaction():
                await mine.aenqueue("mail", "kept", conn=conn)
                async with conn.transaction(force_rollback=True):
                    await mine.aenqueue_many("mail", ["undone"] * 3, conn=conn)

    asyncio.run(main())
    assert [job.data for job in queue.list()] == ["kept"]


@pytest.mark.parametrize(
    "settings",
    [
        {"row_factory": namedtuple_row},
        {"cursor_factory": psycopg.ClientCursor},
        {"cursor_factory": psycopg.RawCursor},
        {"prepare_threshold": 0},
        {"prepare_threshold": None},
    ],
    ids=lambda settings: next(f"{k}-{getattr(v, '__name__', v)}" for k, v in settings.items()),
)
def test_the_callers_connection_may_be_set_up_as_the_caller_likes(
    dsn: str, queue: JobQueue, settings: dict[str, Any]
) -> None:
    with psycopg.connect(dsn, **settings) as conn:
        job = queue.enqueue("mail", {"n": 1}, conn=conn)
        assert queue.get(job, conn=conn).data == {"n": 1}
        (claimed,) = queue.claim(["mail"], conn=conn)
        queue.complete(claimed, conn=conn)
    assert queue.get(job).status == "completed"


def test_the_callers_connection_is_left_as_it_was(queue: JobQueue, conn: psycopg.Connection[Any]) -> None:
    queue.enqueue("mail", conn=conn)
    queue.enqueue_many("mail", [1], conn=conn)
    assert conn.execute("SELECT 1").fetchone() == (1,)
    row = conn.execute("SELECT current_setting('search_path'), 'infinity'::timestamptz::text").fetchone()
    assert row == ('"$user", public', "infinity")
    assert (conn.autocommit, conn.closed) == (False, False)
    with pytest.raises(psycopg.DataError):
        conn.execute("SELECT 'infinity'::timestamptz").fetchone()


def test_an_error_of_ours_on_the_callers_connection_is_still_ours(
    queue: JobQueue, conn: psycopg.Connection[Any]
) -> None:
    job = queue.enqueue("mail", conn=conn)
    with pytest.raises(InvalidOption, match="retry"), conn.transaction():
        queue.enqueue("mail", retry_policy={"kind": "nonsense"}, conn=conn)
    with pytest.raises(JobNotChanged):
        queue.start(job, conn=conn)
    conn.commit()
    assert queue.get(job).status == "pending"
