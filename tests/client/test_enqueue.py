"""``enqueue``: one job, and what the call returns."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from howdah import (
    InvalidInput,
    InvalidJobType,
    InvalidOption,
    InvalidPayload,
    JobQueue,
    PayloadTooLarge,
    Priority,
)
from tests.clock import TestClock
from tests.conftest import Db


def test_a_job_needs_only_a_type(queue: JobQueue, clock: TestClock) -> None:
    job = queue.enqueue("mail")
    assert (job.status, job.data, job.priority, job.attempts, job.max_attempts) == ("pending", {}, 100, 0, 3)
    assert (job.run_at, job.created_at, job.created, job.token) == (clock.now, clock.now, True, 0)
    assert queue.get(job.id) == job


def test_the_job_that_enqueue_returns_is_the_job_that_is_stored(queue: JobQueue, clock: TestClock) -> None:
    job = queue.enqueue(
        "mail",
        {"to": ["a", "b"], "n": 1.5, "none": None},
        priority=Priority.EXPLICIT,
        delay=timedelta(minutes=5),
        max_attempts=7,
        key="k",
        timeout=90,
        expires_at=clock.now + timedelta(days=1),
        retry_policy={"kind": "fixed", "delay": 60},
        meta={"tags": ["x"]},
    )
    assert queue.get(job.id) == job
    assert job.run_at == clock.now + timedelta(minutes=5)
    assert (job.priority, job.max_attempts, job.key, job.timeout) == (150, 7, "k", timedelta(seconds=90))


def test_the_job_that_enqueue_returns_has_the_defaults_of_its_type(queue: JobQueue, db: Db, clock: TestClock) -> None:
    db.execute(
        "SELECT declare_type('mail', p_priority => 7, p_max_attempts => 9, p_timeout => '1 minute',"
        """ p_expires_in => '1 hour', p_retry_policy => '{"kind": "fixed", "delay": 1}')"""
    )
    job = queue.enqueue("mail")
    assert (job.priority, job.max_attempts) == (7, 9)
    assert queue.get(job.id) == job


@pytest.mark.parametrize("data", [{}, [], [1], "text", 0, False, 1.5, "", {"a": {"b": [None]}}], ids=repr)
def test_data_is_any_json(queue: JobQueue, data: Any) -> None:
    assert queue.get(queue.enqueue("mail", data).id).data == data


def test_a_key_is_unique_among_the_live_jobs_of_its_type(queue: JobQueue) -> None:
    first = queue.enqueue("mail", {"n": 1}, key="k")
    again = queue.enqueue("mail", {"n": 2}, key="k")
    assert (again.id, again.created, again.data) == (first.id, False, {"n": 1})
    assert queue.enqueue("other", key="k").created
    queue.cancel(first)
    anew = queue.enqueue("mail", {"n": 3}, key="k")
    assert (anew.created, anew.id != first.id) == (True, True)


def test_a_call_repeated_with_its_id_adds_the_job_once(queue: JobQueue) -> None:
    mine = uuid.uuid4()
    first = queue.enqueue("mail", {"n": 1}, id=mine)
    again = queue.enqueue("mail", {"n": 1}, id=str(mine))
    assert (first.id, first.created, again.id, again.created) == (mine, True, mine, False)
    assert len(queue.list()) == 1


def test_a_call_repeated_after_the_job_has_ended_does_not_add_it_again(queue: JobQueue) -> None:
    mine = uuid.uuid4()
    queue.enqueue("mail", id=mine)
    (claimed,) = queue.claim(["mail"])
    queue.complete(claimed, {"sent": 1})
    again = queue.enqueue("mail", id=mine)
    assert (again.created, again.status, again.result) == (False, "completed", {"sent": 1})
    assert queue.claim(["mail"]) == []


def test_a_delay_of_a_day_is_24_hours_also_when_the_clocks_change(queue: JobQueue, clock: TestClock) -> None:
    # The test server's time zone is Europe/Berlin: on 28 March 2027 the day there has 23 hours.
    clock.advance((datetime(2027, 3, 27, 12, tzinfo=timezone.utc) - clock.now).total_seconds())
    job = queue.enqueue("mail", delay=timedelta(days=1))
    assert job.run_at.astimezone(timezone.utc) == datetime(2027, 3, 28, 12, tzinfo=timezone.utc)


def test_moments_of_any_time_zone_are_kept(queue: JobQueue) -> None:
    moment = datetime(2030, 6, 1, 12, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    assert queue.get(queue.enqueue("mail", run_at=moment).id).run_at == moment


@pytest.mark.parametrize("year", [1, 9999])
@pytest.mark.parametrize("hours", [-14, 0, 14])
def test_the_ends_of_time_can_be_stored_and_read(queue: JobQueue, year: int, hours: int) -> None:
    there = timezone(timedelta(hours=hours))
    moment = datetime(1, 1, 1, tzinfo=there) if year == 1 else datetime(9999, 12, 31, 23, 59, 59, tzinfo=there)
    job = queue.enqueue("mail", run_at=moment)
    assert queue.get(job.id).run_at.year == year
    assert [each.id for each in queue.list()] == [job.id]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("",), InvalidJobType),
        (("x" * 51,), InvalidJobType),
        (("a\x00b",), InvalidJobType),
        ((None,), InvalidJobType),
        (("mail", float("nan")), InvalidPayload),
        (("mail", {"a": "\x00"}), InvalidPayload),
        (("mail", {"a": "\ud800"}), InvalidPayload),
        (("mail", {"a": object()}), InvalidPayload),
        (("mail", "x" * 70_000), PayloadTooLarge),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bad_data_or_types_are_refused_and_nothing_is_written(
    queue: JobQueue, arguments: tuple[Any, ...], kind: type[InvalidInput]
) -> None:
    with pytest.raises(kind):
        queue.enqueue(*arguments)
    assert len(queue.list()) == 0


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 2**31},
        {"priority": "high"},
        {"priority": True},
        {"max_attempts": 0},
        {"max_attempts": 2**31},
        {"delay": -1},
        {"delay": float("nan")},
        {"delay": 5, "run_at": NOW},
        {"run_at": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"expires_at": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"timeout": 0},
        {"key": ""},
        {"key": "a\x00"},
        {"id": "nonsense"},
        {"retry_policy": "fixed"},
        {"retry_policy": {"kind": "nonsense"}},
        {"retry_policy": {"kind": "fixed", "delay": -1}},
        {"retry_policy": {"kind": "fixed", "delay": "soon"}},
        {"meta": [1]},
        {"meta": {"a": float("inf")}},
    ],
    ids=repr,
)
def test_bad_options_are_refused_and_nothing_is_written(queue: JobQueue, options: dict[str, Any]) -> None:
    with pytest.raises((InvalidOption, InvalidPayload)):
        queue.enqueue("mail", **options)
    if not options.keys() & {"id", "key"}:
        with pytest.raises((InvalidOption, InvalidPayload)):
            queue.enqueue_many("mail", [1], **options)
    assert len(queue.list()) == 0


def test_meta_has_a_limit_too(queue: JobQueue) -> None:
    with pytest.raises(PayloadTooLarge):
        queue.enqueue("mail", meta={"a": "x" * 1_000_000})


def test_the_limit_of_the_payload_can_be_set(dsn: str) -> None:
    with JobQueue(dsn, max_payload_bytes=100) as queue:
        assert queue.get(queue.enqueue("mail", "x" * 98).id).data == "x" * 98
        with pytest.raises(PayloadTooLarge, match=r"limit is 100\b"):
            queue.enqueue("mail", "x" * 99)
    with JobQueue(dsn, max_payload_bytes=1_000_000) as queue:
        assert queue.enqueue("mail", "x" * 900_000).created
