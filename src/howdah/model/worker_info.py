"""Workers, as their last heartbeats described them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from howdah.model.progress import number_in


@dataclasses.dataclass(frozen=True, slots=True)
class Throughput:
    """How fast a worker processes the jobs of a type, as measured lately.

    per_second: how many it ends in a second while there are any. run, wait: the mean seconds that they run, and
    that they waited after they were due.
    """

    per_second: float
    run: float
    wait: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A worker, as its last heartbeat described it.

    incarnation: differs from one start of the process to the next.
    host, pid, version: where it runs, and its version of Howdah.
    job_types: the types that it handles.
    capacity, running: how many jobs it can run at once, and how many it runs.
    age: seconds since that heartbeat, by the database's clock.
    alive: whether the age is less than its lease. The next sweep releases the jobs of a dead worker, and
        removes it from the list.
    lease: how long it may send no heartbeat before that.
    last_claim_at: when it last claimed jobs; None if it has not begun to.
    loop_lag: how late its event loop was; long if a handler blocks it.
    leaked: how many handlers ignored their cancellation, and still run without their jobs.
    throughput: how fast it is, by type; only types that it ran lately.
    meta: other facts; Howdah's own workers list the schedules in their code, and the bytes of memory that they use.
    """

    worker_id: str
    incarnation: uuid.UUID
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
    throughput: Mapping[str, Throughput] = dataclasses.field(default_factory=dict)

    @property
    def memory(self) -> int | None:
        """The bytes of memory that its process used, child processes not counted. None if it has not said."""
        number = number_in((self.meta or {}).get("memory"))
        return None if number is None or number < 0 else round(number)

    @property
    def ready(self) -> bool:
        """Whether it is alive and has begun to claim."""
        return self.alive and self.last_claim_at is not None


def worker_info(row: Mapping[str, Any]) -> WorkerInfo:
    """Columns of a newer schema or a newer worker are left out, and so are malformed values."""
    known = {name: row[name] for name in WorkerInfo.__slots__}
    return WorkerInfo(
        **{
            **known,
            "job_types": _job_types(row["job_types"]),
            "throughput": _throughput(row["throughput"]),
            "meta": row["meta"] if isinstance(row["meta"], dict) else None,
        }
    )


def _job_types(stored: list[Any] | None) -> list[str] | None:
    return None if stored is None else [each for each in stored if isinstance(each, str)]


def _throughput(stored: Any) -> dict[str, Throughput]:
    measurements = (
        (job_type, _throughput_of(measured))
        for job_type, measured in (stored.items() if isinstance(stored, dict) else ())
    )
    return {job_type: each for job_type, each in measurements if each is not None}


def _throughput_of(measured: Any) -> Throughput | None:
    per_second = number_in(measured.get("per_second")) if isinstance(measured, dict) else None
    if per_second is None or per_second < 0:
        return None
    return Throughput(per_second, *(max(number_in(measured.get(name)) or 0, 0) for name in ("run", "wait")))
