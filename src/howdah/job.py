"""A job, as the database shows it."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, TypeAlias, get_args

from howdah.codec import Codec, decode_text
from howdah.errors import NotRunning

Status: TypeAlias = Literal["pending", "claimed", "running", "completed", "failed", "cancelled"]
STATUSES: tuple[Status, ...] = get_args(Status)
FINAL_STATUSES: tuple[Status, ...] = ("completed", "failed", "cancelled")


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptError:
    """Why one attempt ended without success."""

    attempt: int
    at: datetime
    kind: str
    error: str
    worker: str | None = None
    traceback: str | None = None
    token: int = 0


class Attempt(Protocol):
    """What stands behind a job while a handler runs it."""

    resources: Mapping[str | type, Any]

    def is_cancelled(self, job: Job) -> bool: ...

    def report(self, job: Job, percent: float | None, stage: str | None) -> None: ...

    def complete(self, job: Job, result: Any, conn: Any) -> None: ...

    async def acomplete(self, job: Job, result: Any, conn: Any) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job: what is to be done, where it stands, and how it went.

    A snapshot: it does not change when the job does. ``queue.get(job.id)`` takes a new one.

    A handler's parameter annotated so receives the job that it runs. Only that one has verbs:
    ``progress``, ``complete``, ``cancelled``, ``resources``.
    """

    id: uuid.UUID
    job_type: str
    priority: int
    status: Status
    data: Any
    percent: int = 0
    current_stage: str | None = None
    events_count: int = 0
    worker_id: str | None = None
    claimed_at: datetime | None = None
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    attempts: int = 0
    max_attempts: int
    last_error: str | None = None
    token: int = 0
    run_at: datetime
    first_due_at: datetime | None = None
    key: str | None = None
    order_key: str | None = None
    timeout: timedelta | None = None
    deadline_at: datetime | None = None
    expires_at: datetime | None = None
    lease: timedelta | None = None
    lease_until: datetime | None = None
    crashes: int = 0
    interruptions: int = 0
    cancel_requested_at: datetime | None = None
    result: Any = None
    checkpoint: Any = None
    errors: tuple[AttemptError, ...] = ()
    retry_policy: Mapping[str, Any] | None = None
    parent_id: uuid.UUID | None = None
    workflow_id: uuid.UUID | None = None
    meta: Mapping[str, Any] | None = None
    finished_at: datetime | None = None
    created: bool = True
    """False where ``enqueue`` found a job that was there already."""

    _attempt: Attempt | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def ended(self) -> bool:
        """Whether the job has reached its final status."""
        return self.status in FINAL_STATUSES

    # Inside of its handler

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: the job was cancelled, timed out or lost, or the worker ends.

        Stop by raising anything. A handler that returns has completed its job.
        """
        return self._running().is_cancelled(self)

    @property
    def resources(self) -> Mapping[str | type, Any]:
        """What the queue's lifespan opened for this worker."""
        return self._running().resources

    def progress(self, percent: float | None = None, stage: str | None = None) -> None:
        """Says how far the job is, from 0 to 100. Returns at once; the worker writes the last word of each moment."""
        self._running().report(self, percent, stage)

    def complete(self, result: Any = None, *, conn: Any = None) -> None:
        """Completes the job as part of the caller's transaction on ``conn``: both commit, or neither.

        The worker then writes nothing more. Raises LeaseLost if the job is no longer this attempt's.
        """
        self._running().complete(self, result, conn)

    async def acomplete(self, result: Any = None, *, conn: Any = None) -> None:
        """``complete``, on an async connection."""
        await self._running().acomplete(self, result, conn)

    def _running(self) -> Attempt:
        if self._attempt is None:
            raise NotRunning()
        return self._attempt


def bind(job: Job, attempt: Attempt) -> None:
    """Makes a job the one that a handler runs."""
    object.__setattr__(job, "_attempt", attempt)


def from_row(row: dict[str, Any], codec: Codec) -> Job:
    """A row of the table ``live`` or of the view ``job_details`` as a job."""
    for column in ("data", "result", "checkpoint"):
        if row[column] is not None:
            row[column] = codec.decode(row[column])
    if row["last_error"] is not None:
        row["last_error"] = decode_text(codec, row["last_error"])
    row["errors"] = tuple(_attempt_error(entry, codec) for entry in row["errors"] or ())
    row["percent"] = row.pop("progress")
    return Job(**row)


def _attempt_error(entry: dict[str, Any], codec: Codec) -> AttemptError:
    traceback = entry.get("traceback")
    return AttemptError(
        attempt=entry["attempt"],
        at=datetime.fromisoformat(entry["at"]),
        kind=entry["kind"],
        error=decode_text(codec, entry["error"]),
        worker=entry.get("worker"),
        traceback=None if traceback is None else decode_text(codec, traceback),
        token=entry.get("token", 0),
    )
