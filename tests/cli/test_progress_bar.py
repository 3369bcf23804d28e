"""The progress of a job, as text and as a bar."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from rich.console import Console

from howdah.cli.render.progress import (
    amount,
    bar,
    counted,
    describe_place,
    describe_running,
    describe_waiting,
    percent,
    sparkline,
    speed,
    time_left,
)
from howdah.model.results import QueuePosition
from tests.cli.sample import job, moment, points, record, still

__all__ = ["still"]
pytestmark = pytest.mark.usefixtures("still")


def drawn(renderable: object, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "0"), (630, "630"), (1000.0, "1,000"), (1234567.5, "1,234,567.5"), (0.1, "0.1"), (1e300, "1e+300")],
)
def test_a_number_has_no_meaningless_digits(number: float, written: str) -> None:
    assert amount(number) == written


@pytest.mark.parametrize(
    ("rate", "written"),
    [(1234.5, "1,234/s"), (12.34, "12/s"), (1.5, "1.5/s"), (0.2, "12/min"), (0.005, "18/h"), (1e-9, "3.6e-06/h")],
)
def test_what_goes_slowly_is_counted_by_the_minute_or_by_the_hour(rate: float, written: str) -> None:
    assert speed(record(rate=rate)) == written


@pytest.mark.parametrize("rate", [None, 0])
def test_an_unknown_rate_shows_no_speed(rate: float | None) -> None:
    assert speed(record(rate=rate)) == ""


def test_counts_with_and_without_a_total() -> None:
    assert counted(record(done=630, total=1000)) == "630/1,000"
    assert counted(record(done=630)) == "630"
    assert counted(record()) == ""


def test_the_time_left_is_that_of_a_job_that_goes_on() -> None:
    known = record(finishes_at=moment(90))
    assert time_left(job(record=known)) == "1m"
    assert time_left(job(record=record(finishes_at=moment(-90)))) == ""
    assert time_left(job(record=known, stalled=True)) == ""
    assert time_left(job(record=known, status="pending")) == ""
    assert time_left(job(record=known, attempts=2)) == ""
    assert time_left(job()) == time_left(job(record=record())) == ""


def test_an_attempt_does_not_begin_where_the_one_before_it_ended() -> None:
    assert percent(job(record=record(40.4), percent=40)) == 40.4
    assert percent(job(record=record(40.4), percent=0, attempts=2)) == 0


def test_what_a_running_job_does() -> None:
    assert describe_running(job()) == ""
    assert describe_running(job(current_stage="decoding", attempts=2)) == "decoding, attempt 2/3"
    silent = record(last_report_at=moment(-200))
    assert describe_running(job(current_stage="x", stalled=True, record=silent)) == "stalled, silent for 3m, x"
    assert describe_running(job(cancel_requested_at=moment())) == "asked to stop"


def place(
    ahead: int, starts_in: float | None = None, because: str | None = None, *, exact: bool = True
) -> QueuePosition:
    starts_at = None if starts_in is None else moment(starts_in)
    return QueuePosition(ahead=ahead, exact=exact, per_second=1.0, starts_at=starts_at, because=because)


@pytest.mark.parametrize(
    ("stands", "said"),
    [
        (place(12, 40), "12 before it, starts in about 40s"),
        (place(0, -1), "the next of its type"),
        (place(0, None, "its type is paused"), "its type is paused"),
        (place(1234, None, "its type is paused"), "1,234 before it, its type is paused"),
        (place(2, 40, "job 7 is running"), "2 before it, job 7 is running, starts in about 40s"),
        (place(100_000, None, "there are too many", exact=False), "more than 100,000 before it, there are too many"),
    ],
)
def test_where_a_waiting_job_stands(stands: QueuePosition, said: str) -> None:
    assert describe_place(stands) == said


def test_what_a_waiting_job_waits_for() -> None:
    due = job(status="pending", attempts=0)
    assert describe_waiting(due, None) == ""
    assert describe_waiting(due, place(3, 9)) == "3 before it, starts in about 9.0s"
    later = job(status="pending", attempts=0, run_at=moment(300))
    assert describe_waiting(later, place(3, 400)) == "due in 5m"
    again = job(status="pending", attempts=1, run_at=moment(30))
    assert describe_waiting(again, None) == "attempt 2 of 3 in 30s"
    held = job(status="pending", run_at=moment().replace(year=9999))
    assert describe_waiting(held, None) == "waits for other jobs"


def test_a_bar_is_as_long_as_the_job_has_come() -> None:
    assert drawn(bar(job(record=record(50), percent=50), 20)).strip() == "━" * 10
    assert drawn(bar(job(record=record(100), percent=100), 20)).strip() == "━" * 20


def test_a_sparkline_shows_the_way_along_its_time() -> None:
    assert sparkline(points(0, 14, 28, 42, 56, 70, 84, 100), 8).plain == "▁▂▃▄▅▆▇█"
    assert sparkline(points(0, 100, 0, 100), 4).plain == "▁█▁█"


def test_a_sparkline_is_flat_while_nothing_came() -> None:
    history = (*points(0, 50), *points(100)[:1])
    late = [*history[:2], type(history[2])(history[0].at + timedelta(seconds=9), 100, 1)]
    assert sparkline(late, 10).plain == "▁▅▅▅▅▅▅▅▅█"


def test_a_sparkline_of_little_is_short() -> None:
    assert sparkline(()).plain == ""
    assert sparkline(points(100)).plain == "█"
    assert sparkline(points(0, 100, every=0)).plain == "█"
