from __future__ import annotations

import argparse
import contextlib
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah.cli.arguments.datetimes import iso, parse_datetime, parse_past
from howdah.cli.arguments.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1.5h", 5_400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("12", 12),
        ("0", 0),
        (" 5 M ", 300),
        (".5s", 0.5),
    ],
)
def test_spans_are_read_as_people_write_them(written: str, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize("written", ["", "m", "-5m", "5 apples", "1h30m", "nan", "inf", "1e5", "٣s", "9" * 40])
def test_what_is_no_span_is_refused(written: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_duration(written)


@given(st.text())
def test_any_text_is_a_span_or_refused(written: str) -> None:
    with contextlib.suppress(argparse.ArgumentTypeError):
        assert parse_duration(written) >= timedelta(0)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0021, "2ms"),
        (1.26, "1.3s"),
        (9.96, "9s"),
        (59.9, "59s"),
        (61, "1m"),
        (7_200, "2h"),
        (200_000, "2d"),
        (-5, "0ms"),
    ],
)
def test_spans_are_shown_at_a_glance(seconds: float, shown: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == shown


@given(st.timedeltas(min_value=timedelta(0)))
def test_every_span_is_short_to_read(duration: timedelta) -> None:
    assert len(format_duration(duration)) <= 12


def test_a_moment_may_name_its_zone_or_is_local() -> None:
    assert parse_datetime("2030-01-02T03:04+01:00") == datetime(2030, 1, 2, 2, 4, tzinfo=timezone.utc)
    assert parse_datetime("2030-01-02T03:04Z") == datetime(2030, 1, 2, 3, 4, tzinfo=timezone.utc)
    assert parse_datetime("2030-01-02").utcoffset() is not None
    with pytest.raises(argparse.ArgumentTypeError, match="2030-12-31"):
        parse_datetime("tomorrow")


def test_a_span_counts_back_from_now_where_the_past_is_meant() -> None:
    before = datetime.now(timezone.utc)
    assert before <= parse_past("2h") + timedelta(hours=2) <= datetime.now(timezone.utc)
    assert parse_past("2020-01-01T00:00Z").year == 2020
    with pytest.raises(argparse.ArgumentTypeError):
        parse_past("5000w5")
    with pytest.raises(argparse.ArgumentTypeError):
        parse_past("200000w")


def test_infinity_is_written_as_a_word() -> None:
    assert iso(datetime.max.replace(tzinfo=timezone.utc)) == "infinity"
