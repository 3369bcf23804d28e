"""Schedules add jobs periodically."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, get_args

from howdah.model.codec import Codec, codec_of, decoded

Missed: TypeAlias = Literal["none", "last", "all"]
MISSED: Final[tuple[Missed, ...]] = get_args(Missed)

_JOB_OPTIONS: Final = ("priority", "max_attempts", "timeout", "retry_policy")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule: which jobs it adds, when, and when it fires next.

    A snapshot, like a ``Job``.

    data: the data of each of its jobs.
    cron, every: when it fires; one of the two.
    timezone, missed, overlap: as they were given to ``queue.schedules.set``.
    options: those of the job options that the schedule sets.
    next_run_at: None: never again, or no worker has read it yet.
    last_run_at, last_job_id: when it last fired, and the job that it added then.
    paused: whether it is paused, and does not fire.
    created: True if ``set`` created it, False if it existed.
    declared_at: when a worker whose code has it (``@queue.periodic``) last started; None if a call created it.
    left_code: it was in the code, and no live worker has it there any more. It still fires: ``queue.schedules.delete`` removes it.
    """

    name: str
    job_type: str
    data: Any = dataclasses.field(repr=False)
    cron: str | None
    every: timedelta | None
    timezone: str
    missed: Missed
    overlap: bool
    options: Mapping[str, Any]
    next_run_at: datetime | None
    last_run_at: datetime | None
    last_job_id: uuid.UUID | None
    paused: bool
    created_at: datetime
    created: bool = False
    declared_at: datetime | None = None
    left_code: bool = False


def schedule_of(row: Mapping[str, Any], codec: Codec) -> Schedule:
    return Schedule(
        name=row["name"],
        job_type=row["job_type"],
        data=decoded(row["data"], codec_of(row, codec)),
        cron=row["cron"],
        every=row["every"],
        timezone=row["timezone"],
        missed=row["missed"],
        overlap=row["overlap"],
        options={option: row[option] for option in _JOB_OPTIONS if row[option] is not None},
        next_run_at=row["next_run_at"],
        last_run_at=row["last_run_at"],
        last_job_id=row["last_job_id"],
        paused=row["paused_at"] is not None,
        created_at=row["created_at"],
        created=row.get("created", False),
        declared_at=row.get("declared_at"),
        left_code=row.get("left_code", False),
    )
