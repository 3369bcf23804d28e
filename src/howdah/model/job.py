"""A job, as the database shows it."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, get_args, overload

from typing_extensions import TypeVar

from howdah.errors import NotRunning
from howdah.model.codec import PLAIN, Codec, Unreadable, codec_of, decoded, decoded_text
from howdah.model.progress import Record, record_of

Status: TypeAlias = Literal["pending", "claimed", "running", "completed", "failed", "cancelled"]
STATUSES: tuple[Status, ...] = get_args(Status)
FINAL_STATUSES: tuple[Status, ...] = ("completed", "failed", "cancelled")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True, default=Any)
U = TypeVar("U")
Item = TypeVar("Item", covariant=True)


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptError:
    """Why one attempt ended without success.

    attempt, token: which one it was; where attempts were counted anew, tokens still tell them apart.
    started_at, at: when it was started, and when it ended.
    kind: how it ended: ``"failed"``, ``"crashed"``, ``"worker died"``, ``"timed out"``, …
    error, traceback: what its handler raised, or what the sweep found.
    worker: who had the job.
    """

    attempt: int
    at: datetime
    kind: str
    error: str = dataclasses.field(repr=False)
    worker: str | None = None
    traceback: str | None = dataclasses.field(default=None, repr=False)
    token: int = 0
    started_at: datetime | None = None


class Tracked(Protocol[Item]):
    """What ``job.track`` returns: the items, sync or async as they were given."""

    def __iter__(self) -> Iterator[Item]: ...

    def __aiter__(self) -> AsyncIterator[Item]: ...


class Reporter(Protocol):
    """Where a handler says how far it is."""

    def progress(self, percent: float | None, stage: str | None, done: float | None, total: float | None) -> None: ...

    def advance(self, n: float, total: float | None, stage: str | None) -> None: ...

    def track(
        self, items: Any, stage: str | None, total: float | None, done: float, weight: float | None
    ) -> Tracked[Any]: ...

    def stage(self, name: str, weight: float | None) -> AbstractContextManager[None]: ...

    def event(self, name: str, data: Mapping[str, Any]) -> None: ...


class Attempt(Protocol):
    """What stands behind a job while a handler runs it."""

    resources: Mapping[str | type, Any]

    def is_cancelled(self, job: Job) -> bool: ...

    def reporter(self, job: Job) -> Reporter: ...

    def checkpoint(self, job: Job, data: Any, conn: Any) -> None: ...

    async def acheckpoint(self, job: Job, data: Any, conn: Any) -> None: ...

    def complete(self, job: Job, result: Any, conn: Any) -> None: ...

    async def acomplete(self, job: Job, result: Any, conn: Any) -> None: ...


class Unread(Protocol):
    """What the database sent of jobs, for as long as nobody has looked at it."""

    def value(self, row: Sequence[Any], column: str) -> Any:
        """What is in a column of a row. Raises KeyError if there is no such column."""

    def json(self, row: Sequence[Any], column: str) -> bytes:
        """A value of the type jsonb, as text."""


class Home(Protocol):
    """The queue that a job came from, as far as the job needs it."""

    def wait_for(self, job: Job[T], timeout: float | timedelta | None) -> Job[T]: ...

    async def await_for(self, job: Job[T], timeout: float | timedelta | None) -> Job[T]: ...  # noqa: ASYNC109

    def value(self, job: Job[T]) -> T: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[T_co]):
    """One job: what is to be done, where it stands, and how it went.

    A snapshot: it does not change when the job does. ``queue.get(job.id)`` takes a new one.

    A handler's parameter annotated so receives the job that it runs. Only that one has verbs:
    ``progress``, ``advance``, ``track``, ``stage``, ``event``, ``checkpoint``, ``complete``, ``cancelled``,
    ``resources``.

    priority: the higher is claimed first.
    data: what it was given; ``Unreadable`` where the codec cannot read it, as in the other fields of a user's own.
    percent, current_stage: how far its attempt is, and in which stage; 0 again when the next one begins.
    events_count: how many events its handlers have told; log lines are not counted.
    worker_id, claimed_at: who has it, and since when; of a completed job, who completed it.
    created_at: when it was enqueued.
    started_at: when its last attempt was started.
    completed_at: when it was completed; None if it ended otherwise.
    attempts, max_attempts: how many were begun, and how many may be.
    last_error: why the last attempt that failed did so, or why the job was cancelled.
    token: grows with each claim; what an older claim wants to write is refused.
    run_at: not before this moment; a retry or a ``Snooze`` moves it.
    first_due_at: when it was due before any retry: its place among those of an ordered type.
    key: unique among the live jobs of its type.
    order_key: not None where jobs of its type run one after another.
    timeout, deadline_at: how long an attempt may run, and when this one will have.
    expires_at: not worth starting after this moment.
    lease, lease_until: how long a holder that is no registered worker may be silent, and until when this one may.
    crashes: how many attempts ended because a process died.
    interruptions: how many ended because a worker had to stop, and cost nothing.
    cancel_requested_at: when somebody cancelled it while it ran.
    result: what its handler returned.
    resumed: what the last checkpoint kept: what an attempt of this job goes on from.
    errors: one for each attempt that failed; of more than 100, the first and the last 99.
    retry_policy: when to try again, if it was given one of its own.
    parent_id, workflow_id: ids that plain SQL may give it. Howdah keeps them, and makes nothing of them.
    meta: tags and trace context.
    finished_at: when it ended, however it did.
    record: how far it is, how fast and how it came there; None if it never reported.
    stalled: it runs, and has reported before, but has been silent for longer than its habit.
    created: False where ``enqueue`` found a job that was there already.
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
    resumed: Any = None
    errors: tuple[AttemptError, ...] = ()
    retry_policy: Mapping[str, Any] | None = None
    parent_id: uuid.UUID | None = None
    workflow_id: uuid.UUID | None = None
    meta: Mapping[str, Any] | None = None
    finished_at: datetime | None = None
    record: Record | None = None
    stalled: bool = False
    created: bool = True

    _attempt: Attempt | None = dataclasses.field(default=None, repr=False, compare=False)
    _home: Home | None = dataclasses.field(default=None, repr=False, compare=False)
    _redacted: bool = dataclasses.field(default=False, repr=False, compare=False)
    _due_for: float | None = dataclasses.field(default=None, repr=False, compare=False)
    _unread: tuple[Unread, Sequence[Any], Codec] | None = dataclasses.field(default=None, repr=False, compare=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Only ever called for what is not there: a field that nobody has asked for yet.
            value = _read_now(self, name)
            object.__setattr__(self, name, value)
            return value

    def __repr__(self) -> str:
        # A job that is logged, or named in somebody's message, gives nothing of its data away.
        return f"<Job {self.job_type!r} {self.id}: {self.status}, attempt {self.attempts} of {self.max_attempts}>"

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

    def progress(
        self,
        percent: float | None = None,
        stage: str | None = None,
        *,
        done: float | None = None,
        total: float | None = None,
    ) -> None:
        """Says how far the job is: from 0 to 100, or ``done`` of ``total``; inside of a stage, how far that is.

        Returns at once; the worker writes the last word of each moment.
        """
        self._reporter().progress(percent, stage, done, total)

    def advance(self, n: float = 1, *, total: float | None = None, stage: str | None = None) -> None:
        """Counts: ``n`` more are done, of ``total`` if that was ever said."""
        self._reporter().advance(n, total, stage)

    @overload
    def track(
        self,
        items: Iterable[U],
        stage: str | None = None,
        *,
        total: float | None = None,
        done: float = 0,
        weight: float | None = None,
    ) -> Tracked[U]: ...

    @overload
    def track(
        self,
        items: AsyncIterable[U],
        stage: str | None = None,
        *,
        total: float | None = None,
        done: float = 0,
        weight: float | None = None,
    ) -> Tracked[U]: ...

    def track(
        self,
        items: Any,
        stage: str | None = None,
        *,
        total: float | None = None,
        done: float = 0,
        weight: float | None = None,
    ) -> Tracked[Any]:
        """The items, counted as they go by: ``for row in job.track(rows):``, or ``async for``.

        total: how many in all, where ``len(items)`` does not say. done: how many were done before these, by an attempt that
        this one resumes. stage, weight: as of ``stage``.
        """
        return self._reporter().track(items, stage, total, done, weight)

    def stage(self, name: str, weight: float | None = None) -> AbstractContextManager[None]:
        """A part of the job: ``with job.stage("load", weight=70):``. Stages come one after the other, and nest.

        weight: how many percent of what it is part of; all that is left if not given. Inside, percent and counts are those
        of the stage.
        """
        return self._reporter().stage(name, weight)

    def event(self, name: str, /, **data: Any) -> None:
        """Tells that something happened, for everybody to see, now and later. Returns at once."""
        self._reporter().event(name, data)

    def checkpoint(self, data: Any, *, conn: Any = None) -> None:
        """Keeps what the next attempt finds in ``job.resumed``. Returns when it is committed; with ``conn``, it is part of
        the caller's transaction: what was done, and that it was done, commit together. Raises LeaseLost.

        Blocks: in an async handler, await ``acheckpoint``.
        """
        self._running().checkpoint(self, data, conn)

    async def acheckpoint(self, data: Any, *, conn: Any = None) -> None:
        """``checkpoint``, awaited."""
        await self._running().acheckpoint(self, data, conn)

    def complete(self, result: Any = None, *, conn: Any = None) -> None:
        """Completes the job as part of the caller's transaction on ``conn``: both commit, or neither.

        The worker then writes nothing more. Raises LeaseLost if the job is no longer this attempt's.
        """
        self._running().complete(self, result, conn)

    async def acomplete(self, result: Any = None, *, conn: Any = None) -> None:
        """``complete``, on an async connection."""
        await self._running().acomplete(self, result, conn)

    # Outside of it

    def wait_for(self, timeout: float | timedelta | None = None) -> Job[T_co]:
        """The job, once it has ended. Raises WaitTimeout after ``timeout`` seconds; the job goes on."""
        return self._from().wait_for(self, timeout)

    async def await_for(self, timeout: float | timedelta | None = None) -> Job[T_co]:  # noqa: ASYNC109
        """``wait_for``, awaited."""
        return await self._from().await_for(self, timeout)

    def value(self) -> T_co:
        """What the handler returned, as its return annotation says.

        Raises JobFailed, with the handler's traceback, if the job has failed; JobCancelled, NotEnded.
        """
        return self._from().value(self)

    def _running(self) -> Attempt:
        if self._attempt is None:
            raise NotRunning()
        return self._attempt

    def _reporter(self) -> Reporter:
        return self._running().reporter(self)

    def _from(self) -> Home:
        if self._home is None:
            raise NotRunning("this job did not come from a queue: ask queue.get(job.id) for one that did")
        return self._home


def bind(job: Job, attempt: Attempt) -> None:
    """Makes a job the one that a handler runs."""
    object.__setattr__(job, "_attempt", attempt)


def from_row(row: dict[str, Any], codec: Codec, home: Home | None = None) -> Job:
    """A row of the table ``live``, or of the views ``live_jobs`` and ``job_details``, as a job."""
    row["percent"], row["resumed"], row["record"] = (
        row.pop("progress"),
        row.pop("checkpoint"),
        row.pop("progress_report"),
    )
    codec, row["_redacted"] = codec_of(row, codec), row.pop("is_redacted", False)
    for name in _FOR_OTHERS:
        row.pop(name, None)
    for name, read in _READ.items():
        row[name] = read(row.get(name), codec)
    try:
        return Job(**row, _home=home)
    except TypeError:
        # A newer schema has columns that are not known here.
        return Job(**{name: value for name, value in row.items() if name in Job.__slots__}, _home=home)


def due_for(job: Job) -> float:
    """Seconds that a claimed job had been due before it was claimed."""
    if job._due_for is not None:
        return max(job._due_for, 0.0)
    return 0.0 if job.claimed_at is None else max(job.claimed_at.timestamp() - job.run_at.timestamp(), 0.0)


def unread(source: Unread, row: Sequence[Any], codec: Codec) -> Job:
    """A claimed job of which only what every worker looks at is decoded. The rest is when somebody asks for it."""
    job: Job = object.__new__(Job)
    _set_unread(job, (source, row, codec))
    for set_field, value in zip(_SETTERS, row, strict=False):
        set_field(job, value)
    return job


def unread_data(job: Job) -> bytes | None:
    """The data of a claimed job as JSON text, if nothing stands between that and its value."""
    if job._unread is None:
        return None
    source, row, codec = job._unread
    return source.json(row, "data") if codec is PLAIN else None


def _read_now(job: Job, name: str) -> Any:
    if name not in _DEFAULTS:
        raise AttributeError(f"{type(job).__name__!r} object has no attribute {name!r}", name=name, obj=job)
    source, row, codec = _UNREAD(job)
    try:
        value = source.value(row, _COLUMNS.get(name, name))
    except KeyError:
        return _DEFAULTS[name]
    return _READ[name](value, codec) if name in _READ else value


def why_unreadable(job: Job) -> str | None:
    """Why a job cannot be run here: its data or its checkpoint cannot be read. None: they can."""
    found = (value for value in (job.data, job.resumed) if isinstance(value, Unreadable))
    return next((f"this job cannot be read here: {value.reason}" for value in found), None)


def _decoded(value: Any, codec: Codec) -> Any:
    return decoded(codec, value)


def _decoded_text(value: str | None, codec: Codec) -> str | None:
    return None if value is None else decoded_text(codec, value)


def _errors(entries: Any, codec: Codec) -> tuple[AttemptError, ...]:
    """Those that can be read: what a newer version wrote, or a hand, is no reason not to show the job."""
    read = (_attempt_error(entry, codec) for entry in (entries if isinstance(entries, list) else ()))
    return tuple(error for error in read if error is not None)


def _mapping(value: Any, _: Codec) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


_FOR_OTHERS: Final = ("stalls_at", "version")
"""Columns of which a job has no field."""
_COLUMNS: Final = {"percent": "progress", "resumed": "checkpoint", "record": "progress_report"}
"""The fields whose columns have other names."""
_READ: Final[dict[str, Any]] = {
    "data": _decoded,
    "result": _decoded,
    "resumed": _decoded,
    "last_error": _decoded_text,
    "errors": _errors,
    "record": lambda report, _: record_of(report),
    "retry_policy": _mapping,
    "meta": _mapping,
}
"""What is made of the columns that are not simply values."""
_DEFAULTS: Final = {
    field.name: None if field.default is dataclasses.MISSING else field.default for field in dataclasses.fields(Job)
}
_UNREAD: Final = Job.__dict__["_unread"].__get__
_set_unread = Job.__dict__["_unread"].__set__
_AT_HAND: Final = ("id", "token", "job_type", "priority", "status", "crashes", "timeout", "_due_for")
"""The first columns of ``writes/claim.sql``."""
_SETTERS: Final = [Job.__dict__[name].__set__ for name in _AT_HAND]


def _attempt_error(entry: Any, codec: Codec) -> AttemptError | None:
    match entry:
        case {"attempt": int(attempt), "at": str(written), "kind": str(kind), "error": str(error)} if at := moment_in(
            written
        ):
            traceback, worker, token = entry.get("traceback"), entry.get("worker"), entry.get("token")
            return AttemptError(
                attempt=attempt,
                at=at,
                kind=kind,
                error=decoded_text(codec, error),
                worker=worker if isinstance(worker, str) else None,
                traceback=decoded_text(codec, traceback) if isinstance(traceback, str) else None,
                token=token if isinstance(token, int) else 0,
                started_at=moment_in(entry.get("started_at")),
            )
    return None


def moment_in(written: Any) -> datetime | None:
    """The moment that a JSON value is; None if it is none, or one that UTC does not have: its year would be 0 or 10000."""
    if not isinstance(written, str):
        return None
    try:
        moment = datetime.fromisoformat(written)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
    return moment
