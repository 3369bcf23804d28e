"""What a caller may ask for, and the message with which anything else is refused."""

from __future__ import annotations

import uuid
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from howdah import InvalidInput, InvalidJobType, InvalidOption, JobQueue
from howdah.checks import options

HUGE = 10**5000
"""So large that Python refuses to print it."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "must not be empty"),
        ("x" * 51, "51 characters"),
        ("x" * 10_000_000, "10000000 characters"),
        ("a\nb", "control character"),
        ("a\x00b", "control character"),
        ("a\x7fb", "control character"),
        ("a\x85b", "control character"),
        ("a\ud800b", "lone surrogate"),
        (None, "NoneType"),
        (5, "int"),
        (b"x", "bytes"),
        (["x"], "list"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_malformed_job_type_is_refused_with_a_reason(value: object, words: str) -> None:
    with pytest.raises(InvalidJobType) as refused:
        options.job_type(value)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 300
    str(refused.value).encode()


@pytest.mark.parametrize("value", ["x", "x" * 50, "é" * 50, "🐘" * 50, "send mail", "a.b:c/d-e_f"])
def test_any_readable_name_up_to_50_characters_is_a_job_type(value: str) -> None:
    assert options.job_type(value) == value


@pytest.mark.parametrize(
    "value", ["mail", b"mail", 5, None, {"mail": 1}, iter(["mail"])], ids=lambda value: type(value).__name__
)
def test_job_types_are_a_list_and_not_one_name(value: object) -> None:
    with pytest.raises(InvalidJobType):
        options.job_types(value)


def test_every_name_in_the_list_of_job_types_is_looked_at() -> None:
    assert options.job_types(("a", "b")) == ["a", "b"]
    with pytest.raises(InvalidJobType):
        options.job_types(["a", "b\n"])


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, 2**31, -(2**31) - 1, HUGE, -HUGE], ids=lambda _: "")
def test_an_int_is_an_int_that_fits_into_the_column(value: object) -> None:
    with pytest.raises(InvalidOption, match="priority"):
        options.integer(value, "priority")


@pytest.mark.parametrize("value", [0, -(2**31), 2**31 - 1])
def test_the_ends_of_the_column_are_ints_too(value: int) -> None:
    assert options.integer(value, "priority") == value


def test_a_naive_datetime_is_refused_with_a_remedy() -> None:
    with pytest.raises(InvalidOption, match=r"run_at has no time zone: use datetime\.now\(timezone\.utc\)"):
        options.moment(datetime(2026, 1, 1), "run_at")  # noqa: DTZ001


@pytest.mark.parametrize("value", ["2026-01-01", 1_700_000_000, date(2026, 1, 1), None], ids=repr)
def test_a_moment_is_a_datetime(value: object) -> None:
    with pytest.raises(InvalidOption, match="run_at is a datetime"):
        options.moment(value, "run_at")


@pytest.mark.parametrize(
    "value",
    [
        -1, -0.5, timedelta(microseconds=-1), float("nan"), float("inf"), float("-inf"), 1e300, HUGE, -HUGE,
        timedelta(days=40_000), True, "5", None,
    ],
    ids=lambda _: "",
)  # fmt: skip
def test_a_delay_is_a_span_of_time_that_is_not_negative(value: object) -> None:
    with pytest.raises(InvalidOption, match="delay"):
        options.span(value, "delay")


def test_a_delay_is_seconds_or_a_timedelta() -> None:
    assert options.span(1.5, "delay") == options.span(timedelta(seconds=1.5), "delay") == timedelta(seconds=1.5)
    assert options.span(0, "delay") == timedelta(0)


def test_a_timeout_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidOption, match="must be positive"):
        options.span(0, "timeout", positive=True)


@pytest.mark.parametrize(
    "value", ["", "k" * 201, "a\x00", "a\ud800", 5, None, b"k"], ids=lambda value: repr(value)[:20]
)
def test_a_key_has_1_to_200_readable_characters(value: object) -> None:
    with pytest.raises(InvalidOption, match="key is a str of 1 to 200 characters"):
        options.name(value, "key", options.MAX_KEY_LENGTH)


def test_a_refusal_does_not_repeat_a_huge_value() -> None:
    with pytest.raises(InvalidOption) as refused:
        options.name("k" * 10_000_000, "key", options.MAX_KEY_LENGTH)
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize("value", ["", "nonsense", "\ud800" * 32, 5, None, b"x" * 16, HUGE], ids=lambda _: "")
def test_what_is_no_id_of_a_job_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match="not a job"):
        options.job_id(value)


def test_an_id_may_be_written_in_any_of_the_ways_of_uuids() -> None:
    value = uuid.uuid4()
    assert options.job_id(value) == options.job_id(str(value)) == options.job_id(value.hex) == value


@pytest.mark.parametrize("value", ["done", "", ["pending", "done"], [None], 5], ids=repr)
def test_an_unknown_status_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match="status"):
        options.statuses(value)


def test_one_status_or_several() -> None:
    assert options.statuses("failed") == ["failed"]
    assert options.statuses(["failed", "cancelled"]) == ["failed", "cancelled"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"schema": "Howdah"},
        {"pool_size": 0},
        {"pool_size": True},
        {"timeout": 0},
        {"timeout": -1},
        {"max_payload_bytes": 0},
        {"max_payload_bytes": "1"},
        {"worker_id": ""},
        {"worker_id": "w" * 101},
        {"worker_id": "a\nb"},
        {"dsn": 5},
    ],
    ids=repr,
)
def test_a_queue_with_a_senseless_option_is_not_made(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        JobQueue(**{"dsn": "host=localhost", **arguments})
