"""A worker, as its last heartbeat described it."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from howdah.model.progress import number_in


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How fast a worker goes through the jobs of a type, as measured lately.

    per_second: how many it ends in a second while there are any. run, wait: the mean seconds that they run, and
    that they had been due before.
    """

    per_second: float
    run: float
    wait: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A worker, as its last heartbeat described it.

    boot: this life of the worker: after a restart it is another.
    host, pid, version: where it runs, and which Howdah.
    job_types: what it handles.
    capacity, running: how many jobs it can run at once, and how many it has.
    age: seconds since that heartbeat, by the database's clock.
    alive: whether that is less than its lease. A dead one's jobs are taken back by the next sweep, which
        also removes it from the list.
    lease: how long it may be silent before that.
    last_claim_at: when it last asked for jobs; None if it has not begun.
    loop_lag: how late its event loop was; long if a handler blocks it.
    leaked: how many handlers would not end, and run on without their jobs.
    pace: how fast it goes, by the type; only of those that it ran lately.
    meta: what else it was registered with; a worker of Howdah's own says which schedules its code has.
    """

    worker_id: str
    boot: uuid.UUID
    host: str | None
    pid: int | None
    version: str | None
    job_types: Sequence[str] | None
    capacity: int | None
    running: int | None
    started_at: datetime
    heartbeat_at: datetime
    age: float
    alive: bool
    lease: timedelta
    last_claim_at: datetime | None
    loop_lag: timedelta | None
    leaked: int | None
    meta: Mapping[str, Any] | None
    pace: Mapping[str, Pace] = dataclasses.field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether it lives and has begun to claim."""
        return self.alive and self.last_claim_at is not None


def worker_info(row: Mapping[str, Any]) -> WorkerInfo:
    """What a newer schema, or a newer worker, says besides is passed over; what is not as it should be is not there."""
    known = {name: row[name] for name in WorkerInfo.__slots__}
    return WorkerInfo(
        **{
            **known,
            "job_types": _job_types(row["job_types"]),
            "pace": _pace(row["pace"]),
            "meta": row["meta"] if isinstance(row["meta"], dict) else None,
        }
    )


def _job_types(stored: list[Any] | None) -> list[str] | None:
    return None if stored is None else [each for each in stored if isinstance(each, str)]


def _pace(stored: Any) -> dict[str, Pace]:
    paces = (
        (job_type, _pace_of(measured)) for job_type, measured in (stored.items() if isinstance(stored, dict) else ())
    )
    return {job_type: pace for job_type, pace in paces if pace is not None}


def _pace_of(measured: Any) -> Pace | None:
    per_second = number_in(measured.get("per_second")) if isinstance(measured, dict) else None
    if per_second is None or per_second < 0:
        return None
    return Pace(per_second, *(max(number_in(measured.get(name)) or 0, 0) for name in ("run", "wait")))
