"""``prune``: whole days of ended jobs go, and whoever reads one keeps it until later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta, timezone
from typing import Any

import psycopg
import pytest

from howdah import InvalidOption, Job, JobNotFound, JobQueue
from tests.clock import TestClock

SCHEMA = "pruning"


@pytest.fixture
def own_queue(dsn: str) -> Iterator[JobQueue]:
    """In a schema of its own: with the clock moved, prune drops days that others are using."""
    with JobQueue(dsn, SCHEMA) as queue:
        queue.migrate()
        yield queue
    with psycopg.connect(dsn) as conn:
        conn.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.fixture
def own_clock(dsn: str, own_queue: JobQueue) -> Iterator[TestClock]:
    with TestClock(dsn, SCHEMA) as clock:
        yield clock


def completed(queue: JobQueue) -> Job:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.complete(job)
    return queue.get(job)


def test_days_older_than_the_retention_go_and_live_jobs_stay(own_queue: JobQueue, own_clock: TestClock) -> None:
    live = own_queue.enqueue("mail", delay=timedelta(days=365))
    old = completed(own_queue)
    first_day = own_clock.now.astimezone(timezone.utc).date()
    own_clock.advance(10 * 86_400)
    own_queue.prune()
    recent = completed(own_queue)
    own_clock.advance(6 * 86_400)
    pruned = own_queue.prune()
    assert [(each.day, each.dropped) for each in pruned if each.day == first_day] == [(first_day, True)]
    with pytest.raises(JobNotFound, match="pruned"):
        own_queue.get(old)
    assert own_queue.get(recent).status == "completed"
    assert own_queue.get(live).status == "pending"
    assert (own_queue.stats()["mail"].completed, own_queue.stats()["mail"].pending) == (1, 1)
    assert own_queue.prune() == []


def test_the_retention_can_be_given(own_queue: JobQueue, own_clock: TestClock) -> None:
    job = completed(own_queue)
    own_clock.advance(3 * 86_400)
    assert own_queue.prune() == []
    assert all(each.dropped for each in own_queue.prune(keep=timedelta(days=1)))
    with pytest.raises(JobNotFound):
        own_queue.get(job)


def test_a_day_that_somebody_reads_is_named_with_the_reader_and_left(
    dsn: str, own_queue: JobQueue, own_clock: TestClock
) -> None:
    job = completed(own_queue)
    own_clock.advance(20 * 86_400)
    with psycopg.connect(dsn, application_name="reporting") as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute(f"SELECT count(*) FROM {SCHEMA}.jobs")
        held = [each for each in own_queue.prune(tries=1) if not each.dropped]
        assert held
        assert all("reporting" in (each.reason or "") for each in held)
        assert own_queue.get(job).status == "completed"
        assert completed(own_queue).status == "completed"
    assert all(each.dropped for each in own_queue.prune())
    with pytest.raises(JobNotFound):
        own_queue.get(job)


@pytest.mark.parametrize(
    "arguments", [{"keep": -1}, {"keep": float("nan")}, {"keep": True}, {"tries": 0}, {"tries": True}], ids=repr
)
def test_a_senseless_retention_is_refused(queue: JobQueue, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        queue.prune(**arguments)
