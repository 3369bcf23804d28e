"""The record of a job's progress: how far it is, how fast, and how it came there.

The database keeps it, and computes rate and end from what was reported, so that everybody sees the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """How far a job was at a moment, and in which attempt."""

    at: datetime
    percent: float
    attempt: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a job has reported.

    percent: of the whole job, finer than the column. done, total: of the stage that it is in, if it counts.
    attempt: whose reports these are. first_report_at, last_report_at: when that one spoke first, and last.
    rate, pace: what is done, and how many percent, in a second, as measured lately.
    finishes_at: when it will be done if it goes on like this. stalls_at: when it counts as stalled if it says
    nothing more. history: at most 40 points, over all attempts.
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


def record_of(report: Mapping[str, Any] | None) -> Record | None:
    """The column ``report`` of a job; None if the job has not said how far it is."""
    if report is None or "at" not in report:
        return None
    return Record(
        percent=report.get("percent", 0),
        done=report.get("done"),
        total=report.get("total"),
        rate=report.get("rate"),
        pace=report.get("pace"),
        finishes_at=None if report.get("eta") is None else _moment(report["eta"]),
        attempt=report["attempt"],
        first_report_at=_moment(report["first"]),
        last_report_at=_moment(report["at"]),
        stalls_at=_moment(report["stalls"]),
        history=tuple(Point(_moment(at), percent, attempt) for at, percent, attempt in report.get("points", ())),
    )


def _moment(epoch: float) -> datetime:
    return datetime.fromtimestamp(epoch, timezone.utc)
