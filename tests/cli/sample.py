"""Jobs, records and updates that no database has seen, for what only shows them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest import mock

import pytest

from howdah.model.event import Event
from howdah.model.job import Job
from howdah.model.progress import Point, Progress
from howdah.watch.watch import Update

HOSTILE = (
    "\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066\r\b\n[bold red]not markup[/]\u2028\ufeff\x00日本語" + "long " * 300
)


NOW = datetime.now(timezone.utc)


def moment(seconds: float = 0) -> datetime:
    """So many seconds from the fixed time of the tests."""
    return NOW + timedelta(seconds=seconds)


@pytest.fixture
def still() -> Iterator[None]:
    """Makes it so, where jobs are described."""
    with mock.patch("howdah.cli.render.progress.now", return_value=NOW):
        yield


BEGIN = moment(-60)


def job(number: int = 1, **changes: Any) -> Job:
    """A running job; its id ends with the number."""
    usual: dict[str, Any] = {
        "id": uuid.UUID(int=number),
        "job_type": "resize_photo",
        "priority": 100,
        "status": "running",
        "data": {},
        "attempts": 1,
        "max_attempts": 3,
        "created_at": BEGIN,
        "run_at": BEGIN,
        "started_at": BEGIN + timedelta(seconds=30),
    }
    return Job(**{**usual, **changes})


def record(percent: float = 40, **changes: Any) -> Progress:
    usual: dict[str, Any] = {
        "done": None,
        "total": None,
        "rate": None,
        "pace": None,
        "finishes_at": None,
        "attempt": 1,
        "first_report_at": moment(-20),
        "last_report_at": moment(),
        "stalls_at": moment(30),
        "history": (),
    }
    return Progress(percent=percent, **{**usual, **changes})


def points(*percents: float, every: float = 1, attempt: int = 1) -> tuple[Point, ...]:
    begin = moment()
    return tuple(Point(begin + timedelta(seconds=n * every), done, attempt) for n, done in enumerate(percents))


def event(kind: Any, name: str, data: Any = None, *, seq: int = 1, **changes: Any) -> Event:
    usual: dict[str, Any] = {
        "job_id": uuid.UUID(int=1),
        "job_type": "resize_photo",
        "at": moment(),
        "attempt": 1,
        "token": 1,
    }
    return Event(kind=kind, name=name, data=data, seq=seq, **{**usual, **changes})


def event_update(kind: Any, name: str, data: Any = None, number: int = 1, **changes: Any) -> Update:
    """An update with an event of the job of this number."""
    usual: dict[str, Any] = {"job_type": "resize_photo", "at": moment(), "position": "1", "attempt": 1}
    return Update(kind=kind, job_id=uuid.UUID(int=number), name=name, data=data, **{**usual, **changes})


def stands(seen: Job) -> Update:
    """An update with the progress of a job."""
    return Update(
        kind="progress",
        job_id=seen.id,
        job_type=seen.job_type,
        at=moment(),
        position="1",
        attempt=seen.attempts,
        job=seen,
    )
