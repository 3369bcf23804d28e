"""Outcomes: what they may be made of."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from howdah import InvalidOption
from howdah.handlers.outcome import Cancel, Fail, Outcome, Retry, Snooze

MOMENT = datetime(2026, 3, 1, tzinfo=timezone.utc)


def test_a_delay_is_seconds_or_a_timedelta() -> None:
    assert Retry(delay=5).delay == Retry(delay=timedelta(seconds=5)).delay == 5.0
    assert Snooze(0.5).delay == Snooze(timedelta(milliseconds=500)).delay == 0.5
    assert Retry(delay=0).delay == 0.0


def test_a_moment_is_kept_as_it_is() -> None:
    assert (Retry(at=MOMENT).at, Retry(at=MOMENT).delay) == (MOMENT, None)
    assert (Snooze(at=MOMENT).at, Snooze(at=MOMENT).delay) == (MOMENT, None)


def test_a_retry_without_a_time_leaves_it_to_the_policy() -> None:
    assert (Retry().delay, Retry().at, str(Retry())) == (None, None, "the handler asked for a retry")


def test_the_message_is_what_str_gives() -> None:
    assert [str(Retry("a")), str(Cancel("b")), str(Fail("c"))] == ["a", "b", "c"]
    assert all(str(each) for each in (Fail(), Cancel(), Snooze(1)))


def test_each_is_an_exception_that_one_class_catches() -> None:
    assert all(isinstance(each, Outcome) for each in (Retry(), Snooze(1), Cancel(), Fail()))
    assert issubclass(Outcome, Exception)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Snooze(),
        lambda: Snooze(1, at=MOMENT),
        lambda: Retry(delay=1, at=MOMENT),
        lambda: Retry(delay=-1),
        lambda: Snooze(-1),
        lambda: Retry(delay=float("nan")),
        lambda: Retry(delay=float("inf")),
        lambda: Snooze(timedelta(days=10**6)),
        lambda: Snooze(True),
        lambda: Retry(delay="5"),  # type: ignore[arg-type]
        lambda: Retry(at=MOMENT.replace(tzinfo=None)),
        lambda: Snooze(at="tomorrow"),  # type: ignore[arg-type]
        lambda: Fail(5),  # type: ignore[arg-type]
        lambda: Cancel(None),  # type: ignore[arg-type]
        lambda: Retry(5),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidOption):
        make()


@pytest.mark.parametrize(
    "outcome", [Retry("a", delay=5), Snooze(5), Cancel("b"), Fail("c"), Retry(at=MOMENT), Snooze(at=MOMENT)]
)
def test_an_outcome_survives_a_pool_of_processes(outcome: Outcome) -> None:
    copy = pickle.loads(pickle.dumps(outcome))
    assert (type(copy), str(copy), vars(copy)) == (type(outcome), str(outcome), vars(outcome))
