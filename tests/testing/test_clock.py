"""``Clock`` moves the time of the database, and sets it going again."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from howdah import InvalidOption, JobQueue
from howdah.testing import Clock, TestDatabase


def test_it_stands_still_until_it_is_moved(howdah_queue: JobQueue, howdah_clock: Clock) -> None:
    start = howdah_clock.now
    assert howdah_queue.enqueue("a").created_at == howdah_queue.enqueue("b").created_at == start
    assert howdah_clock.advance(90) == howdah_clock.now == start + timedelta(seconds=90)
    assert howdah_clock.advance(timedelta(days=1)) == start + timedelta(days=1, seconds=90)
    assert howdah_queue.enqueue("c").created_at == howdah_clock.now


def test_it_travels_to_any_moment(howdah_queue: JobQueue, howdah_clock: Clock) -> None:
    for moment in (
        datetime(2031, 3, 30, 2, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        datetime(1999, 12, 31, tzinfo=timezone.utc),
    ):
        assert howdah_clock.travel_to(moment) == moment
        assert howdah_queue.enqueue("a").created_at == moment


def test_a_moment_without_a_time_zone_and_a_step_back_are_refused(howdah_clock: Clock) -> None:
    start = howdah_clock.now
    with pytest.raises(InvalidOption, match="time zone"):
        howdah_clock.travel_to(datetime(2031, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidOption, match="negative"):
        howdah_clock.advance(-1)
    assert howdah_clock.now == start


def test_afterwards_the_time_is_the_real_one_again(howdah_queue: JobQueue, howdah_database: TestDatabase) -> None:
    with howdah_database.clock() as clock:
        clock.advance(timedelta(days=365))
    with psycopg.connect(howdah_database.dsn) as conn:
        created_at = howdah_queue.enqueue("a", conn=conn).created_at
        row = conn.execute("SELECT now()").fetchone()
    assert row == (created_at,)
    with pytest.raises(InvalidOption, match="with block"):
        clock.advance(1)
