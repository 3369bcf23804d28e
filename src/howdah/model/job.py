"""A job, as the database shows it."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, get_args, overload

from typing_extensions import TypeVar

from howdah.errors import NotRunning
from howdah.model.codec import PLAIN, Codec, Unreadable, decoded, decoded_text
from howdah.model.connection import Connection
from howdah.model.failed_job import decoded_data
from howdah.model.progress import Progress, progress_of
from howdah.model.workflow import Workflow

Conflict: TypeAlias = Literal["kept", "replaced", "rescheduled"]
Status: TypeAlias = Literal["pending", "claimed", "running", "completed", "failed", "cancelled"]
STATUSES: tuple[Status, ...] = get_args(Status)
GIVEN_KEY: Final = "key:"
"""What a unique key begins with that the caller gave, and that is no hash of arguments."""
FINAL_STATUSES: tuple[Status, ...] = ("completed", "failed", "cancelled")

Seconds: TypeAlias = float | timedelta
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True, default=object)
U = TypeVar("U")
Item = TypeVar("Item", covariant=True)


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptError:
    """Why one attempt ended without success.

    attempt, token: which attempt it was; a retry counts attempts from 1 again, and tokens stay distinct.
    started_at, at: when it started, and when it ended.
    kind: how it ended: ``"failed"``, ``"crashed"``, ``"worker died"``, ``"timed out"``, …
    error, traceback: what its handler raised, or what the sweep found.
    exception: the class of what its handler raised, such as ``"builtins.ValueError"``.
    worker: the worker that held the job.
    """

    attempt: int
    at: datetime
    kind: str
    error: str = dataclasses.field(repr=False)
    worker: str | None = None
    traceback: str | None = dataclasses.field(default=None, repr=False)
    token: int = 0
    started_at: datetime | None = None
    exception: str | None = None


class Tracked(Protocol[Item]):
    """What ``job.track`` returns: the items, sync or async as they were given."""

    def __iter__(self) -> Iterator[Item]: ...

    def __aiter__(self) -> AsyncIterator[Item]: ...


class Reporter(Protocol):
    """Takes the progress and the events of a handler."""

    def progress(self, percent: float | None, stage: str | None, done: float | None, total: float | None) -> None: ...

    def advance(self, n: float, total: float | None, stage: str | None) -> None: ...

    def track(
        self, items: Any, stage: str | None, total: float | None, done: float, weight: float | None
    ) -> Tracked[Any]: ...

    def stage(self, name: str, weight: float | None) -> AbstractContextManager[None]: ...

    def event(self, name: str, data: Mapping[str, Any]) -> None: ...


class StepCall(NamedTuple):
    """A step of a handler: a function to be called with these arguments, unless its result is recorded."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    arguments: Mapping[str, Any]
    conn: Connection | None


class Attempt(Protocol):
    """The running attempt of a job: the verbs of a handler's job call it."""

    resources: Mapping[str | type, Any]

    def is_cancelled(self, job: Job) -> bool: ...

    def reporter(self, job: Job) -> Reporter: ...

    def checkpoint(self, job: Job, data: Any, conn: Connection | None) -> None: ...

    async def acheckpoint(self, job: Job, data: Any, conn: Connection | None) -> None: ...

    def step(self, job: Job, step: StepCall) -> Any: ...

    async def astep(self, job: Job, step: StepCall) -> Any: ...

    def wait_signal(self, job: Job, name: str, key: str | None, timeout: Seconds | None) -> Any: ...

    async def await_signal(self, job: Job, name: str, key: str | None, timeout: Seconds | None) -> Any: ...  # noqa: ASYNC109

    def sleep(self, job: Job, moment: datetime | None, delay: Seconds | None) -> None: ...

    async def asleep(self, job: Job, moment: datetime | None, delay: Seconds | None) -> None: ...

    def complete(self, job: Job, result: Any, conn: Connection | None) -> None: ...

    async def acomplete(self, job: Job, result: Any, conn: Connection | None) -> None: ...

    def spawn(
        self, job: Job, target: Any, items: Iterable[Mapping[str, Any]], chosen: Mapping[str, Any] | None
    ) -> None: ...


class Home(Protocol):
    """The queue that a job or a workflow came from, as far as these need it."""

    def wait_for(self, job: Job[T], timeout: float | timedelta | None) -> Job[T]: ...

    async def await_for(self, job: Job[T], timeout: float | timedelta | None) -> Job[T]: ...  # noqa: ASYNC109

    def value(self, job: Job[T]) -> T: ...

    def wait_for_workflow(self, workflow_id: uuid.UUID, timeout: float | timedelta | None) -> Workflow: ...

    async def await_for_workflow(self, workflow_id: uuid.UUID, timeout: float | timedelta | None) -> Workflow: ...  # noqa: ASYNC109

    def watch_workflow(
        self, workflow_id: uuid.UUID, after: str | None, kinds: Sequence[Any] | None
    ) -> Generator[Any, None, None]: ...

    def awatch_workflow(
        self, workflow_id: uuid.UUID, after: str | None, kinds: Sequence[Any] | None
    ) -> AsyncGenerator[Any, None]: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[T_co]):
    """One job: what is to be done, how far it is, and how it ended.

    A snapshot: it does not change when the job does. ``queue.get(job.id)`` returns a new one.

    A handler's parameter with this annotation receives the job that it runs. Only that one has verbs:
    ``progress``, ``advance``, ``track``, ``stage``, ``event``, ``checkpoint``, ``step``, ``wait_signal``, ``sleep_until``,
    ``sleep_for``, ``complete``, ``spawn``, ``cancelled``, ``resources``.

    priority: the higher is claimed first.
    data: its arguments; ``Unreadable`` where the codec cannot read it, as in the other fields with users' values.
    percent, current_stage: how far its attempt is, and in which stage; 0 again when the next attempt begins.
    events_count: how many events its handlers have recorded; log lines are not counted.
    worker_id, claimed_at: the worker that holds it, and since when; of a completed job, the one that completed it.
    created_at: when it was enqueued.
    started_at: when its last attempt started.
    completed_at: when it was completed; None if it ended otherwise.
    attempts, max_attempts: how many were started, and how many may be.
    last_error: the error of the last failed attempt, or why the job was cancelled.
    token: grows with each claim; writes of an older claim are refused.
    run_at: it is not started before this moment; a retry or a ``Snooze`` moves it.
    first_due_at: when it was first due, before any retry: its position among the jobs of an ordered type.
    key: unique among the live jobs of its type, or as its unique rule says.
    flow_key: its key within the type, for order, limits and turns between keys; "" if the type has no ``per``. None: none of
        these apply.
    cost: how many tokens of rates it takes; None: as many as its type says.
    order_key: its flow key, if jobs of a key run one after another; otherwise None.
    timeout, deadline_at: how long an attempt may run, and when the current one times out.
    expires_at: it is not started after this moment.
    lease, lease_until: how long a holder that is not a registered worker may send nothing, and until when this one may.
    crashes: how many attempts ended because a process died.
    interruptions: how many attempts ended because a worker had to stop; they are not counted as attempts.
    cancel_requested_at: when it was cancelled while it ran.
    result: what its handler returned.
    resumed: the data of the last checkpoint, from which an attempt resumes.
    errors: one for each attempt that failed; of more than 100, the first and the last 99.
    retry_policy: when to try again, if the job has a policy of its own.
    parent_id: the job that spawned it. workflow_id, node: its workflow, and the number of its node there.
    meta: tags and trace context.
    finished_at: when it ended, with whatever status.
    record: its progress and speed; None if it never reported any.
    stalled: it is running, and has not reported for much longer than its usual interval.
    created: False if ``enqueue`` found an existing job.
    conflict: what a unique rule did to that job: "kept", "replaced" or "rescheduled".
    waits_for: in words, the signal or the moment that a pending job waits for, because its handler asked to.
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
    flow_key: str | None = None
    cost: int | None = None
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
    node: int | None = None
    meta: Mapping[str, Any] | None = None
    finished_at: datetime | None = None
    record: Progress | None = None
    stalled: bool = False
    created: bool = True
    conflict: Conflict | None = None

    waits_for: str | None = None

    _has_steps: bool = dataclasses.field(default=False, repr=False, compare=False)
    _attempt: Attempt | None = dataclasses.field(default=None, repr=False, compare=False)
    _home: Home | None = dataclasses.field(default=None, repr=False, compare=False)
    _redacted: bool = dataclasses.field(default=False, repr=False, compare=False)
    _results: Any = dataclasses.field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        # Without the data, which may be secret: a job is often logged.
        return f"<Job {self.job_type!r} {self.id}: {self.status}, attempt {self.attempts} of {self.max_attempts}>"

    @property
    def ended(self) -> bool:
        """Whether the job has reached its final status."""
        return self.status in FINAL_STATUSES

    # Inside its handler

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: the job was cancelled, timed out or lost, or the worker stops.

        Stop by raising any exception. A handler that returns completes its job.
        """
        return self._running().is_cancelled(self)

    @property
    def resources(self) -> Mapping[str | type, Any]:
        """The resources that the queue's lifespan yielded for this worker."""
        return self._running().resources

    def progress(
        self,
        percent: float | None = None,
        stage: str | None = None,
        *,
        done: float | None = None,
        total: float | None = None,
    ) -> None:
        """Reports how far the job is: from 0 to 100, or ``done`` of ``total``; inside a stage, how far the stage is.

        Returns at once. The worker writes the latest report every so often.
        """
        self._reporter().progress(percent, stage, done, total)

    def advance(self, n: float = 1, *, total: float | None = None, stage: str | None = None) -> None:
        """Reports that ``n`` more are done, of ``total`` if that was given once."""
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
        """The items, counted as they are iterated: ``for row in job.track(rows):``, or ``async for``.

        total: how many in all, if ``len(items)`` does not say. done: how many an earlier attempt has done, which this one
        resumes. stage, weight: as of ``stage``.
        """
        return self._reporter().track(items, stage, total, done, weight)

    def stage(self, name: str, weight: float | None = None) -> AbstractContextManager[None]:
        """A part of the job: ``with job.stage("load", weight=70):``. Stages follow one another, and nest.

        weight: its percent of the job, or of the stage around it; all that is left if not given. Inside, percent and
        counts are those of the stage.
        """
        return self._reporter().stage(name, weight)

    def event(self, name: str, /, **data: Any) -> None:
        """Records an event, which watchers see at once, and ``queue.events`` later. Returns at once."""
        self._reporter().event(name, data)

    def checkpoint(self, data: Any, *, conn: Connection | None = None) -> None:
        """Stores data that the next attempt finds in ``job.resumed``. Returns when it is committed. With ``conn``, it is
        part of the caller's transaction: the work and its checkpoint commit together. Raises LeaseLost.

        Blocks: in an async handler, await ``acheckpoint``.
        """
        self._running().checkpoint(self, data, conn)

    async def acheckpoint(self, data: Any, *, conn: Connection | None = None) -> None:
        """``checkpoint``, awaited."""
        await self._running().acheckpoint(self, data, conn)

    def step(
        self, name: str, function: Callable[..., U], /, *args: Any, conn: Connection | None = None, **arguments: Any
    ) -> U:
        """What ``function(*args, **arguments)`` returns; if an earlier attempt has done this step, what it returned then.

        The result is recorded under the name, which is unique within the job; it is any JSON value, or what the function's return
        annotation says. A step of which the attempt ended before the record runs again.

        conn: the record is part of the caller's transaction, and the function gets the connection if it has a parameter
        ``conn``: what the step writes through it happens exactly once. Raises LeaseLost.

        Blocks: in an async handler, await ``astep``.
        """
        value: U = self._running().step(self, StepCall(name, function, args, arguments, conn))
        return value

    @overload
    async def astep(
        self,
        name: str,
        function: Callable[..., Coroutine[Any, Any, U]],
        /,
        *args: Any,
        conn: Connection | None = None,
        **arguments: Any,
    ) -> U: ...

    @overload
    async def astep(
        self, name: str, function: Callable[..., U], /, *args: Any, conn: Connection | None = None, **arguments: Any
    ) -> U: ...

    async def astep(
        self, name: str, function: Callable[..., Any], /, *args: Any, conn: Connection | None = None, **arguments: Any
    ) -> Any:
        """``step``, awaited; the function may be async."""
        return await self._running().astep(self, StepCall(name, function, args, arguments, conn))

    def wait_signal(self, name: str, *, key: str | None = None, timeout: Seconds | None = None) -> Any:
        """The data of a signal that ``queue.signal(name, data, key=key)`` sends.

        If one is kept already, it is taken. If not, this attempt ends here, without being counted, and holds no slot. When the signal
        comes, the handler is called again, and this returns its data: do what must not be repeated in steps before.
        Waits for the same name and key are told apart by their order in the handler.

        timeout: raises SignalTimeout when so many seconds have passed since the wait began.

        Blocks: in an async handler, await ``await_signal``. It leaves the handler by a BaseException: let that pass.
        """
        return self._running().wait_signal(self, name, key, timeout)

    async def await_signal(self, name: str, *, key: str | None = None, timeout: Seconds | None = None) -> Any:  # noqa: ASYNC109
        """``wait_signal``, awaited."""
        return await self._running().await_signal(self, name, key, timeout)

    def sleep_until(self, moment: datetime) -> None:
        """Returns when the moment has passed. Until then this attempt ends, as in ``wait_signal``, and holds no slot."""
        self._running().sleep(self, moment, None)

    async def asleep_until(self, moment: datetime) -> None:
        """``sleep_until``, awaited."""
        await self._running().asleep(self, moment, None)

    def sleep_for(self, seconds: Seconds) -> None:
        """Returns when so many seconds, or a timedelta, have passed since the first attempt that came here: see ``sleep_until``."""
        self._running().sleep(self, None, seconds)

    async def asleep_for(self, seconds: Seconds) -> None:
        """``sleep_for``, awaited."""
        await self._running().asleep(self, None, seconds)

    def complete(self, result: Any = None, *, conn: Connection | None = None) -> None:
        """Completes the job as part of the caller's transaction on ``conn``: both commit, or neither.

        The worker then writes nothing more. Raises LeaseLost if this attempt does not hold the job any more.
        """
        self._running().complete(self, result, conn)

    async def acomplete(self, result: Any = None, *, conn: Connection | None = None) -> None:
        """``complete``, on an async connection."""
        await self._running().acomplete(self, result, conn)

    def spawn(self, handler: Any, /, *, options: Mapping[str, Any] | None = None, **arguments: Any) -> None:
        """Adds a job, in the transaction in which this one completes: an attempt that fails adds nothing, and a repeated one not twice.

        In a workflow it belongs to the node of this job: what waits for that waits for it, too. Elsewhere it is a job with this one as its
        parent. handler: a handler, ``handler.using(…)``, or the name of a job type. Returns at once.
        """
        self._running().spawn(self, handler, [arguments], options)

    def spawn_many(
        self, handler: Any, items: Iterable[Mapping[str, Any]], /, *, options: Mapping[str, Any] | None = None
    ) -> None:
        """``spawn``, for each mapping of arguments."""
        self._running().spawn(self, handler, items, options)

    # Outside its handler

    def wait_for(self, timeout: float | timedelta | None = None) -> Job[T_co]:
        """The job, once it has ended. Raises WaitTimeout after ``timeout`` seconds; the job continues."""
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
    """Makes it the job that a handler runs: its verbs work from now on."""
    object.__setattr__(job, "_attempt", attempt)


def from_row(row: dict[str, Any], codec: Codec, home: Home | None = None) -> Job:
    """A row of the table ``live``, or of the views ``live_jobs`` and ``job_details``, as a job."""
    row["percent"], row["resumed"], row["record"] = (
        row.pop("progress"),
        row.pop("checkpoint"),
        row.pop("progress_report"),
    )
    row["_redacted"] = row.pop("is_redacted", False)
    row["_has_steps"] = row.pop("has_steps", None)
    unique_key = row.pop("unique_key", None)
    if unique_key is not None and unique_key.startswith(GIVEN_KEY):
        row["key"] = unique_key.removeprefix(GIVEN_KEY)
    # What was redacted did not come through the codec.
    codec = PLAIN if row["_redacted"] else codec
    for name in _FOR_OTHERS:
        row.pop(name, None)
    for name, convert in (_STRUCTURES if codec is PLAIN else CONVERSIONS).items():
        row[name] = convert(row.get(name), codec)
    try:
        return Job(**row, _home=home)
    except TypeError:
        # A newer schema has columns that are not known here.
        return Job(**{name: value for name, value in row.items() if name in Job.__slots__}, _home=home)


def why_unreadable(job: Job) -> str | None:
    """Why a job cannot run here, because its data or its checkpoint cannot be read; None if they can."""
    found = (value for value in (job.data, job.resumed) if isinstance(value, Unreadable))
    return next((f"this job cannot be read here: {value.reason}" for value in found), None)


def _errors(entries: Any, codec: Codec) -> tuple[AttemptError, ...]:
    """The errors that can be read. Entries that a newer version or plain SQL wrote are left out."""
    read = (_attempt_error(entry, codec) for entry in (entries if isinstance(entries, list) else ()))
    return tuple(error for error in read if error is not None)


def _mapping(value: Any, _: Codec) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


_FOR_OTHERS: Final = ("stalls_at", "may_wait", "version", "place", "inputs")
"""Columns for which a job has no field."""
COLUMNS: Final = {
    "percent": "progress",
    "resumed": "checkpoint",
    "record": "progress_report",
    "_has_steps": "has_steps",
}
"""The fields whose columns have other names."""
_STRUCTURES: Final[dict[str, Callable[[Any, Codec], Any]]] = {
    "errors": _errors,
    "record": lambda report, _: progress_of(report),
    "retry_policy": _mapping,
    "meta": _mapping,
    "_has_steps": lambda value, _: bool(value),
}
"""How the columns become fields whose JSON has a meaning to Howdah."""
CONVERSIONS: Final = {
    "data": decoded_data,
    "result": decoded,
    "resumed": decoded,
    "last_error": decoded_text,
    **_STRUCTURES,
}
"""How the columns that are not simply values become fields, with a codec."""


def _attempt_error(entry: Any, codec: Codec) -> AttemptError | None:
    match entry:
        case {"attempt": int(attempt), "at": str(written), "kind": str(kind), "error": str(error)} if at := moment_in(
            written
        ):
            traceback, worker, token = entry.get("traceback"), entry.get("worker"), entry.get("token")
            exception = entry.get("exception")
            return AttemptError(
                attempt=attempt,
                at=at,
                kind=kind,
                error=decoded_text(error, codec),
                worker=worker if isinstance(worker, str) else None,
                traceback=decoded_text(traceback, codec) if isinstance(traceback, str) else None,
                token=token if isinstance(token, int) else 0,
                started_at=moment_in(entry.get("started_at")),
                exception=exception if isinstance(exception, str) else None,
            )
    return None


def moment_in(written: Any) -> datetime | None:
    """A JSON value as a moment; None if it is not one, or not one in UTC, where its year would be 0 or 10000."""
    if not isinstance(written, str):
        return None
    try:
        moment = datetime.fromisoformat(written)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
    return moment
