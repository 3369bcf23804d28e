"""When schedules fire: by example, above all where clocks change."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from typing import Any

import cronsim
import pytest

from howdah import InvalidOption
from howdah.model.schedule import MISSED, Missed
from howdah.verbs import cron
from howdah.verbs.cron import Due, Every

NOW = datetime(2026, 11, 15, 12, 0, 30, tzinfo=timezone.utc)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(timezone.utc)


def local(expression: str, zone: str, start: str, count: int) -> list[str]:
    """The first instants after a local moment, each as the clock on the wall shows it, with its offset."""
    rhythm = cron.check(expression, None, zone)
    found = itertools.islice(cron.instants(rhythm, utc(start)), count)
    made = cron._zone(zone)
    return [each.astimezone(made).isoformat(sep=" ", timespec="minutes") for each in found]


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        # A time that the clock skips fires right after the gap ...
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", ["2026-03-29 03:00+02:00", "2026-03-30 02:30+02:00"]),
        ("0 30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", ["2026-03-29 03:00+02:00"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00+10:30", ["2026-10-04 02:30+11:00"]),
        ("0 0 * * *", "America/Santiago", "2026-09-05T12:00-04:00", ["2026-09-06 01:00-03:00"]),
        # ... once, however many of them there are.
        (
            "0,20,40 2,3 * * *",
            "America/New_York",
            "2026-03-08T01:00-05:00",
            ["2026-03-08 03:00-04:00", "2026-03-08 03:20-04:00", "2026-03-08 03:40-04:00", "2026-03-09 02:00-04:00"],
        ),
        # A time that comes twice fires the first time,
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00+02:00", ["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00+11:00", ["2026-04-05 01:45+11:00", "2026-04-06 01:45+10:30"]),
        # and not again for a first look in between.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T02:10+01:00", ["2026-10-26 02:30+01:00"]),
        # With a star, the clock on the wall is followed: what it skips does not fire,
        ("0 * * * *", "Europe/Berlin", "2026-03-29T00:30+01:00", ["2026-03-29 01:00+01:00", "2026-03-29 03:00+02:00"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", ["2026-03-30 02:00+02:00"]),
        # and what it shows twice fires twice.
        (
            "30 * * * *",
            "Europe/Berlin",
            "2026-10-25T01:45+02:00",
            ["2026-10-25 02:30+02:00", "2026-10-25 02:30+01:00", "2026-10-25 03:30+01:00"],
        ),
        (
            "45 * * * *",
            "Australia/Lord_Howe",
            "2026-04-05T01:00+11:00",
            ["2026-04-05 01:45+11:00", "2026-04-05 01:45+10:30", "2026-04-05 02:45+10:30"],
        ),
        ("* 2 * * *", "Australia/Lord_Howe", "2026-04-05T01:00+11:00", ["2026-04-05 02:00+10:30"]),
        ("* 3 * * *", "Australia/Lord_Howe", "2026-10-04T01:00+10:30", ["2026-10-04 03:00+11:00"]),
        # Ramadan moves Casablanca's clock back, and forward again.
        ("30 * * * *", "Africa/Casablanca", "2026-02-15T02:00+01:00", ["2026-02-15 02:30+01:00", "2026-02-15 02:30+00:00"]),
        ("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00+00:00", ["2026-03-22 03:00+01:00"]),
        ("15 6 * * *", "Asia/Kathmandu", "2026-03-21T12:00+05:45", ["2026-03-22 06:15+05:45"]),
        # The calendar.
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00+00:00", ["2028-02-29 00:00+00:00", "2032-02-29 00:00+00:00"]),
        ("0 0 L * *", "UTC", "2026-02-01T00:00+00:00", ["2026-02-28 00:00+00:00", "2026-03-31 00:00+00:00"]),
        ("0 9 * * MON-FRI", "UTC", "2026-11-13T10:00+00:00", ["2026-11-16 09:00+00:00"]),
    ],
)  # fmt: skip
def test_it_fires_when_it_should(expression: str, zone: str, start: str, expected: list[str]) -> None:
    assert local(expression, zone, start, len(expected)) == expected


def test_a_span_is_counted_from_its_anchor_and_never_drifts() -> None:
    anchor = utc("2026-03-28T12:00:00.25+00:00")
    rhythm = Every(timedelta(days=1), anchor)
    assert cron.after(rhythm, anchor) == anchor + timedelta(days=1)
    assert cron.after(rhythm, anchor - timedelta.resolution) == anchor
    # A thousand years of ten seconds and a third, and still on the spot.
    third = Every(timedelta(microseconds=10_333_333), anchor)
    later = anchor + 3_000_000_000 * third.span
    assert cron.after(third, later - timedelta.resolution) == later
    assert cron.after(third, later) == later + third.span


MINUTELY = cron.check("* * * * *", None, "UTC")


def minute(number: int) -> datetime:
    return datetime(2026, 11, 15, 11, number, tzinfo=timezone.utc)


def test_what_is_not_due_does_not_fire() -> None:
    later = NOW + timedelta(microseconds=1)
    for missed in MISSED:
        assert cron.due(MINUTELY, later, NOW, missed) == Due((), later, 0)


def test_a_fire_on_time_happens_whatever_the_policy() -> None:
    at = NOW.replace(second=0)
    for missed in MISSED:
        assert cron.due(MINUTELY, at, NOW, missed) == Due((at,), at + timedelta(minutes=1), 0)


@pytest.mark.parametrize(
    ("missed", "fired", "following", "skipped"),
    [
        ("none", [], 14, 4),
        ("last", [13], 14, 3),
        ("all", [10, 11, 12, 13], 14, 0),
    ],
)
def test_the_policies_for_missed_fires(missed: Any, fired: list[int], following: int, skipped: int) -> None:
    now = minute(13) + timedelta(seconds=31)
    due = cron.due(MINUTELY, minute(10), now, missed)
    assert due == Due(tuple(map(minute, fired)), minute(following), skipped)


def test_none_makes_up_for_what_is_not_older_than_the_tolerance() -> None:
    assert cron.due(MINUTELY, minute(10), minute(13) + timedelta(seconds=30), "none").instants == (minute(13),)
    assert cron.due(MINUTELY, minute(13), minute(13) + timedelta(seconds=31), "none").instants == ()
    wide = cron.due(MINUTELY, minute(10), minute(13), "none", tolerance=timedelta(minutes=1))
    assert wide == Due((minute(12), minute(13)), minute(14), 2)


def test_all_goes_on_where_its_limit_stopped_it() -> None:
    first = cron.due(MINUTELY, minute(0), minute(5), "all", limit=4)
    assert first == Due(tuple(map(minute, range(4))), minute(4), 0)
    assert first.next_run_at is not None
    assert cron.due(MINUTELY, first.next_run_at, minute(5), "all", limit=4).instants == (minute(4), minute(5))


def test_moments_of_one_zone_are_compared_by_when_they_are_not_by_what_its_clock_shows() -> None:
    """As they come from the database: 02:30 for the first time is before 02:10 for the second."""
    berlin = cron._zone("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    now = datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=berlin)
    half_hourly = cron.check("30 * * * *", None, "Europe/Berlin")
    missed: Missed
    for missed in ("last", "all"):
        due = cron.due(half_hourly, first, now, missed)
        assert due == Due((utc("2026-10-25T02:30+02:00"),), utc("2026-10-25T02:30+01:00"), 0)
    assert cron.due(half_hourly, first, now, "none") == Due((), utc("2026-10-25T02:30+01:00"), 1)


def test_a_moment_that_was_set_by_hand_fires_although_the_rhythm_does_not_have_it() -> None:
    by_hand = minute(3) + timedelta(seconds=7)
    for missed in MISSED:
        assert cron.due(MINUTELY, by_hand, minute(3) + timedelta(seconds=9), missed) == Due((by_hand,), minute(4), 0)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
@pytest.mark.parametrize("expression", ["* * * * * *", "*/5 * * * *", "0 3 * * *", "* * * * 1 *", "0 0 29 2 *"])
@pytest.mark.parametrize("missed", MISSED)
def test_years_of_missed_fires_are_not_walked_through(
    missed: Any, expression: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    class Counting(cronsim.CronSim):
        def __next__(self) -> datetime:
            nonlocal steps
            steps += 1
            return super().__next__()

    monkeypatch.setattr(cron, "CronSim", Counting)
    rhythm = cron.rhythm(expression, None, zone)
    long_ago = cron.after(rhythm, NOW - timedelta(days=3_650))
    assert long_ago is not None
    due = cron.due(rhythm, long_ago, NOW, missed)
    assert steps < 2_500
    assert len(due.instants) <= 1_000
    assert due.skipped <= 1_000


def test_a_rhythm_that_has_ended_has_no_next() -> None:
    # Both must match, because one of them begins with a star: never.
    rhythm = cron.rhythm("* * */20 * 1L", None, "UTC")
    assert cron.after(rhythm, NOW) is None
    assert cron.due(rhythm, NOW, NOW, "last") == Due((NOW,), None, 0)


@pytest.mark.parametrize(
    ("expression", "every", "zone", "words"),
    [
        (None, None, "UTC", "either cron or every"),
        ("* * * * *", 5, "UTC", "either cron or every"),
        ("", None, "UTC", "wrong number of fields"),
        ("61 * * * *", None, "UTC", "bad minute"),
        ("0 25 * * *", None, "UTC", "minute hour day-of-month month day-of-week"),
        ("0 0 30 2 *", None, "UTC", "bad day-of-month"),
        ("* * */20 * 1L", None, "UTC", "a day that does not exist"),
        ("0 0 " + "1," * 5_000 + "1 * *", None, "UTC", "characters"),
        (5, None, "UTC", "cron is a str"),
        (None, 0, "UTC", "at least a second"),
        (None, 0.999, "UTC", "at least a second"),
        (None, -5, "UTC", "must not be negative"),
        (None, float("nan"), "UTC", "not a duration"),
        (None, "5m", "UTC", "seconds or a timedelta"),
        (None, timedelta(days=40_000), "UTC", "a hundred years"),
        ("* * * * *", None, "Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("* * * * *", None, "Europe", "no time zone 'Europe'"),
        ("* * * * *", None, "../../etc/passwd", "no time zone"),
        ("* * * * *", None, "/etc/localtime", "no time zone"),
        ("* * * * *", None, "a\x00b", "control character"),
        ("* * * * *", None, None, "timezone is a str"),
        (None, 5, "Nowhere/AtAll", "no time zone"),
    ],
)  # fmt: skip
def test_an_invalid_rhythm_is_refused_with_a_reason(expression: Any, every: Any, zone: Any, words: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        cron.check(expression, every, zone)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 300


def test_nicknames_are_the_fields_that_cron_gives_them() -> None:
    names = {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@yearly": "0 0 1 1 *",
        " @Annually ": "0 0 1 1 *",
    }
    for name, fields in names.items():
        assert cron.check(name, None, "UTC") == cron.check(fields, None, "UTC")
        assert cron.explain(name) == cron.explain(fields) is not None
    with pytest.raises(InvalidOption, match=r"starts of a machine.*@hourly, @daily"):
        cron.check("@reboot", None, "UTC")
    with pytest.raises(InvalidOption, match=r"no such name.*@annually"):
        cron.check("@dayly", None, "UTC")


def test_what_is_no_policy_is_refused() -> None:
    for value in ("some", None, ["last"]):
        with pytest.raises(InvalidOption, match="missed is one of none, last, all"):
            cron.missed_policy(value)


def test_spaces_do_not_matter() -> None:
    assert cron.check("  */5\t* *  * mon ", None, "UTC") == cron.check("*/5 * * * mon", None, "UTC")
