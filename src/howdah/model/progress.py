"""The progress of a job: how far it is, how fast, and its history.

The database stores it, and computes the rate and the expected end, so that all clients show the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, Final

_MOST: Final = 1e18
_LAST_EPOCH: Final = 253_402_300_800
"""The first epoch after Python's last year."""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """How far a job was at a moment, and in which attempt."""

    at: datetime
    percent: float
    attempt: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a job has reported.

    percent: of the whole job, finer than the column. done, total: of the stage that it is in, if it counts.
    attempt: the attempt that reported it. first_report_at, last_report_at: its first and its last report.
    rate, pace: how many are done, and how many percent, in a second, as measured lately.
    finishes_at: when it will be done at this pace. stalls_at: when it counts as stalled without another report.
    history: at most 40 points, over all attempts.
    """

    percent: float
    done: float | None
    total: float | None
    rate: float | None
    pace: float | None
    finishes_at: datetime | None
    attempt: int
    first_report_at: datetime
    last_report_at: datetime
    stalls_at: datetime
    history: tuple[Point, ...]


def number_in(value: Any) -> float | None:
    """A JSON value as a number; None if it is not one, or too large. As ``number_in`` in SQL."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) <= _MOST else None  # NaN is not


def progress_of(report: Any) -> Progress | None:
    """The column ``report`` of a job; None if the job has not reported. Malformed parts are left out."""
    if not isinstance(report, dict) or (last := _moment(report.get("at"))) is None:
        return None
    return Progress(
        percent=number_in(report.get("percent")) or 0,
        done=number_in(report.get("done")),
        total=number_in(report.get("total")),
        rate=number_in(report.get("rate")),
        pace=number_in(report.get("pace")),
        finishes_at=_moment(report.get("eta")),
        attempt=int(number_in(report.get("attempt")) or 0),
        first_report_at=_moment(report.get("first")) or last,
        last_report_at=last,
        stalls_at=_moment(report.get("stalls")) or last,
        history=tuple(_points(report.get("points"))),
    )


def _points(stored: Any) -> Iterator[Point]:
    for point in stored if isinstance(stored, list) else ():
        match point:
            case [at, percent, attempt] if (moment := _moment(at)) is not None:
                yield Point(moment, number_in(percent) or 0, int(number_in(attempt) or 0))


def _moment(epoch: Any) -> datetime | None:
    seconds = number_in(epoch)
    return None if seconds is None or not 0 <= seconds < _LAST_EPOCH else datetime.fromtimestamp(seconds, timezone.utc)
