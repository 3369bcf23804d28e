"""``prune``: whole segments of ended jobs go, and one that a transaction holds stays until later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from howdah import InvalidOption, Job, JobNotFound, JobQueue, PrunedSegment
from tests.clock import TestClock

SCHEMA = "pruning"
DAY = 86_400


@pytest.fixture
def own_queue(dsn: str) -> Iterator[JobQueue]:
    """In a schema of its own: with the clock moved, prune drops segments that others are using."""
    with JobQueue(dsn, SCHEMA) as queue:
        queue.migrate()
        yield queue
    with psycopg.connect(dsn) as conn:
        conn.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.fixture
def own_clock(dsn: str, own_queue: JobQueue) -> Iterator[TestClock]:
    with TestClock(dsn, SCHEMA) as clock:
        yield clock


@pytest.fixture
def conn(dsn: str, own_queue: JobQueue) -> Iterator[psycopg.Connection[Any]]:
    """For transactions of the caller's own."""
    with psycopg.connect(dsn) as conn:
        yield conn


def completed(queue: JobQueue) -> Job:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.complete(job)
    return queue.get(job)


def closed(dsn: str) -> list[int]:
    """The segments that are closed."""
    with psycopg.connect(dsn) as conn:
        rows = conn.execute(f"SELECT number FROM {SCHEMA}.segments WHERE closed_at IS NOT NULL ORDER BY number")
        return [number for (number,) in rows]


def test_segments_older_than_the_retention_go_and_live_jobs_stay(own_queue: JobQueue, own_clock: TestClock) -> None:
    live = own_queue.enqueue("mail", delay=timedelta(days=365))
    old = completed(own_queue)
    ended_at = own_clock.now
    own_clock.advance(10 * DAY)
    assert own_queue.prune() == []
    recent = completed(own_queue)
    own_clock.advance(6 * DAY)
    assert own_queue.prune() == [PrunedSegment(1, ended_at, ended_at, True, None)]
    with pytest.raises(JobNotFound, match="pruned"):
        own_queue.get(old)
    assert own_queue.get(recent).status == "completed"
    assert own_queue.get(live).status == "pending"
    assert (own_queue.stats()["mail"].completed, own_queue.stats()["mail"].pending) == (1, 1)
    assert own_queue.prune() == []


def test_the_retention_can_be_given(own_queue: JobQueue, own_clock: TestClock) -> None:
    job = completed(own_queue)
    own_clock.advance(3 * DAY)
    assert own_queue.prune() == []
    assert [each.dropped for each in own_queue.prune(keep=timedelta(days=1))] == [True]
    with pytest.raises(JobNotFound):
        own_queue.get(job)


def test_a_segment_that_could_not_be_closed_is_named_with_the_reader(
    dsn: str, own_queue: JobQueue, own_clock: TestClock
) -> None:
    job = completed(own_queue)
    own_clock.advance(20 * DAY)
    with psycopg.connect(dsn, application_name="reporting") as reader:
        reader.execute(f"SELECT count(*) FROM {SCHEMA}.jobs")
        (held,) = own_queue.prune(tries=1)
        assert (held.segment, held.first_end, held.last_end, held.dropped) == (1, None, None, False)
        assert "reporting" in (held.reason or "")
        assert own_queue.get(job).status == "completed"
        assert closed(dsn) == []
    assert [each.dropped for each in own_queue.prune()] == [True]
    with pytest.raises(JobNotFound):
        own_queue.get(job)


def test_a_segment_that_could_not_be_dropped_is_named_with_the_reader(
    dsn: str, own_queue: JobQueue, own_clock: TestClock
) -> None:
    job = completed(own_queue)
    ended_at = own_clock.now
    own_clock.advance(2 * DAY)
    assert own_queue.prune() == []
    own_clock.advance(20 * DAY)
    with psycopg.connect(dsn, application_name="reporting") as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute(f"SELECT count(*) FROM {SCHEMA}.jobs")
        (held,) = own_queue.prune(tries=1)
        assert (held.segment, held.first_end, held.last_end, held.dropped) == (1, ended_at, ended_at, False)
        assert "reporting" in (held.reason or "")
        assert own_queue.get(job).status == "completed"
        assert completed(own_queue).status == "completed"
    assert all(each.dropped for each in own_queue.prune())
    with pytest.raises(JobNotFound):
        own_queue.get(job)


def test_inside_a_transaction_of_the_callers_no_segment_is_closed(
    dsn: str, own_queue: JobQueue, own_clock: TestClock, conn: psycopg.Connection[Any]
) -> None:
    """What ends jobs would wait for that transaction."""
    old = completed(own_queue)
    own_clock.advance(20 * DAY)
    assert own_queue.prune(keep=0, conn=conn) == []
    assert own_queue.get(completed(own_queue)).status == "completed"
    conn.commit()
    assert closed(dsn) == []
    assert own_queue.get(old).status == "completed"
    assert [each.dropped for each in own_queue.prune(keep=0)] == [True]


def test_inside_a_transaction_of_the_callers_closed_segments_are_dropped_with_it(
    own_queue: JobQueue, own_clock: TestClock, conn: psycopg.Connection[Any]
) -> None:
    job = completed(own_queue)
    own_clock.advance(2 * DAY)
    own_queue.prune()
    own_clock.advance(20 * DAY)
    for end in (conn.rollback, conn.commit):
        assert own_queue.get(job).status == "completed"
        assert [each.dropped for each in own_queue.prune(conn=conn)] == [True]
        end()
    with pytest.raises(JobNotFound):
        own_queue.get(job)
    assert own_queue.stats().get("mail") is None


def test_a_transaction_of_another_isolation_is_refused(own_queue: JobQueue, conn: psycopg.Connection[Any]) -> None:
    completed(own_queue)
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with pytest.raises(InvalidOption, match="READ COMMITTED"):
        own_queue.prune(keep=0, conn=conn)


def test_beside_another_prune_there_is_nothing_to_do(
    own_queue: JobQueue, own_clock: TestClock, conn: psycopg.Connection[Any]
) -> None:
    completed(own_queue)
    own_clock.advance(2 * DAY)
    own_queue.prune()
    own_clock.advance(20 * DAY)
    assert [each.dropped for each in own_queue.prune(conn=conn)] == [True]
    assert own_queue.prune() == []
    conn.rollback()
    assert [each.dropped for each in own_queue.prune()] == [True]


def test_awaiting(own_queue: JobQueue, own_clock: TestClock) -> None:
    completed(own_queue)
    ended_at = own_clock.now
    own_clock.advance(20 * DAY)

    async def prune() -> list[PrunedSegment]:
        async with JobQueue(own_queue.dsn, SCHEMA) as queue:
            return await queue.aprune()

    assert asyncio.run(prune()) == [PrunedSegment(1, ended_at, ended_at, True, None)]


@pytest.mark.parametrize(
    "arguments", [{"keep": -1}, {"keep": float("nan")}, {"keep": True}, {"tries": 0}, {"tries": True}], ids=repr
)
def test_a_senseless_retention_is_refused(queue: JobQueue, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        queue.prune(**arguments)
