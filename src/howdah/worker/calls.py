"""The database calls of a worker. They take batches, and return which jobs were refused instead of raising."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import psycopg
from psycopg.types.json import Jsonb

from howdah.checks.context import Context
from howdah.checks.values import stored_json, stored_mapping, stored_text
from howdah.db.adapters import Ids, JsonTexts, RawRows, Tokens, clamped
from howdah.db.plan import Begin, Plan, Row, call, call_within, read, read_raw, write
from howdah.handlers.outcome import (
    Cancelled,
    Completed,
    CompletedAndSpawned,
    Crashed,
    Failed,
    Interrupted,
    NotBegun,
    Snoozed,
    Spawned,
)
from howdah.model.claimed_job import claimed_job
from howdah.model.codec import PLAIN, Unreadable
from howdah.model.job import Job
from howdah.verbs.inputs import Runs, with_inputs

ClaimRef: TypeAlias = tuple[uuid.UUID, int]
"""A claim: the id of the job, and the token of the claim."""
Statuses: TypeAlias = list[str | None]

LOCK_TIMEOUT: Final = "100ms"
"""How long a batch waits for a row that another transaction has locked, before it skips that row."""

SPAWNED_AT_ONCE: Final = 1_000

DECLARED_AT_ONCE: Final = 500
"""Types. One by one, ten thousand of them would delay a worker's first job by many seconds."""

P = TypeVar("P")
R = TypeVar("R")


class Batch(NamedTuple):
    """The answer to a batch, and the jobs that it skipped because another transaction has locked them."""

    answer: Any
    locked: frozenset[uuid.UUID]


class HeldState(NamedTuple):
    """The database's view of a claim: ``cancel``, ``lost``, or ``unknown`` to this worker."""

    id: uuid.UUID
    token: int
    state: str

    @property
    def ref(self) -> ClaimRef:
        return self.id, self.token


class ProgressUpdate(NamedTuple):
    """The progress of a job: percent of the whole, its current stage, and the counts of that stage."""

    percent: float | None
    stage: str | None
    done: float | None
    total: float | None


class NewEvent(NamedTuple):
    """An event or a log record that is not stored yet: its data as JSON, and its time by the monotonic clock."""

    kind: str
    name: str
    data: str
    at: float
    number: int = 0
    """1, 2, 3 … within the claim, in the order of the calls."""


class Cursor(NamedTuple):
    job_type: str
    priority: int
    run_at: datetime
    id: uuid.UUID


class Demand(NamedTuple):
    """The types, limits and number of jobs of a claim."""

    types: Sequence[str]
    limits: Sequence[int | None] | None
    batch_size: int
    start: int
    ahead_types: Sequence[str] | None = None
    """The types of which jobs may be claimed that no slot is free for."""
    start_ahead: bool = False
    """Whether the claim starts those too: each begins within milliseconds."""

    def at_most(self, size: int) -> Demand:
        return self._replace(batch_size=min(self.batch_size, size), start=min(self.start, size))


class Claim(NamedTuple):
    """The jobs of a claim, most urgent first."""

    jobs: list[Job]
    cut: bool
    """There are more, but the next one may not be claimed ahead of its start."""
    started: int
    """So many, of the first ones, were started because slots are free for them. Others that run were started ahead."""
    has_inputs: bool = False
    """Some have results of other jobs as arguments, or could not get them."""


def claim_ref(job: Job) -> ClaimRef:
    return job.id, job.token


def declare(context: Context, declarations: Sequence[Mapping[str, Any]]) -> Plan[None]:
    for first in range(0, len(declarations), DECLARED_AT_ONCE):
        some = [_declared(context, each) for each in declarations[first : first + DECLARED_AT_ONCE]]
        yield from call("declare_types", types=Jsonb(some))


def _declared(context: Context, declaration: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration of a type as JSON."""
    if (policy := declaration["retry_policy"]) is not None:
        stored_mapping(policy, "retry_policy")  # refuses what cannot be stored
    spans = {name: f"{v.total_seconds():.6f} s" for name, v in declaration.items() if isinstance(v, timedelta)}
    rule = declaration["unique_rule"]
    if rule is not None and context.codec is not PLAIN:
        # SQL cannot read the arguments.
        rule = {**rule, "hashed_by": "client"}
    return {**declaration, **spans, "unique_rule": rule}


def register(context: Context, incarnation: uuid.UUID, *, schedules: Sequence[str] = (), **facts: Any) -> Plan[None]:
    """schedules: the names of those in the worker's code."""
    meta = Jsonb({"schedules": list(schedules)}) if schedules else None
    yield from call("register_worker", worker_id=context.worker_id, incarnation=incarnation, meta=meta, **facts)


def heartbeat(
    context: Context, incarnation: uuid.UUID, *, throughput: Mapping[str, Any] | None = None, **facts: Any
) -> Plan[bool]:
    stored = None if throughput is None else Jsonb(throughput)
    rows = yield from call(
        "heartbeat", worker_id=context.worker_id, incarnation=incarnation, throughput=stored, **facts
    )
    return bool(rows[0]["heartbeat"])


def leave(context: Context, incarnation: uuid.UUID) -> Plan[None]:
    yield from call("unregister_worker", worker_id=context.worker_id, incarnation=incarnation)


class ClaimedRows:
    """Reads the rows of one claim, as ``writes/claim.sql`` packs them.

    It holds none of them: a job that runs for long must not keep the others in memory.
    """

    def __init__(self, wired: RawRows, worker_id: str) -> None:
        self.json = wired.json
        self._wired = wired
        self._worker_id = worker_id

    def is_plain(self, row: Sequence[Any]) -> bool:
        return row[-1] is None

    def rare(self, row: Sequence[Any]) -> Any:
        return self._wired.value(row, "rare")

    def value(self, row: Sequence[Any], column: str) -> Any:
        """The value of a column. Raises KeyError if there is no such column."""
        match column:
            case "worker_id":
                return self._worker_id
            case "started_at":
                return self._wired.value(row, "claimed_at") if self._wired.value(row, "status") == "running" else None
            case "created_at" | "first_due_at":
                return self._wired.value(row, column) or self._wired.value(row, "run_at")
        try:
            return self._wired.value(row, column)
        except KeyError:
            rare = self._wired.value(row, "rare") or {}
            if isinstance(rare, Unreadable):
                # It is not known which of them is unreadable. A job with a checkpoint must not start from the beginning.
                rare = {"checkpoint": rare}
            return _unpacked(column, rare[column])


def _unpacked(column: str, value: Any) -> Any:
    """A value that was packed as JSON."""
    if value is None:
        return None
    if column.endswith("_at"):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return clamped(value)
    return uuid.UUID(value) if column in ("parent_id", "workflow_id") else value


def _awaits_inputs(claimed: ClaimedRows, row: Sequence[Any]) -> bool:
    """Whether results of other jobs are among its arguments."""
    if claimed.is_plain(row):
        return False
    rare = claimed.rare(row)
    return isinstance(rare, Mapping) and bool(rare.get("inputs"))


def claim(
    context: Context,
    incarnation: uuid.UUID,
    demand: Demand,
    cursors: Sequence[Cursor],
    *,
    oldest: bool,
    suspects: bool,
    lazily: bool = False,
    database: Runs | None = None,
    lazy: Sequence[tuple[str, str]] = (),
) -> Plan[Claim]:
    """Claim jobs; ``oldest``: those that have waited longest; ``suspects``: also those that crashed a worker."""
    limits, ahead_types = demand.limits, None if oldest else demand.ahead_types
    wired = yield from read_raw(
        "claim",
        worker_id=context.worker_id,
        job_types=list(demand.types),
        batch_size=demand.batch_size,
        start=demand.start,
        cursor_types=[c.job_type for c in cursors],
        cursor_priorities=[c.priority for c in cursors],
        cursor_run_ats=[c.run_at for c in cursors],
        cursor_ids=Ids(c.id for c in cursors),
        incarnation=incarnation,
        limits=None if limits is None else list(limits),
        oldest=oldest,
        include_crashed=suspects,
        prefetch_types=None if ahead_types is None else list(ahead_types),
        start_ahead=demand.start_ahead and not oldest,
        lazily=lazily,
    )
    claimed, codec = ClaimedRows(wired, context.worker_id), context.codec
    rows = wired.take()
    jobs = [claimed_job(claimed, row, codec) for row in rows]
    # Still pending: not claimed, but a sign that there is more.
    cut = bool(jobs) and jobs[-1].status == "pending"
    jobs = jobs[:-1] if cut else jobs
    waiting = [
        job for job, row in zip(jobs, rows, strict=False) if not claimed.is_plain(row) and _awaits_inputs(claimed, row)
    ]
    if waiting and database is not None:
        jobs = yield from with_inputs(context, database, lazy, jobs, waiting)
    return Claim(jobs, cut, demand.start, has_inputs=bool(waiting))


def next_due(context: Context, types: Sequence[str]) -> Plan[float | None]:
    due: timedelta | None = (yield from call("next_due", job_types=list(types)))[0]["next_due"]
    return None if due is None else due.total_seconds()


def add_sleeper(context: Context, types: Sequence[str]) -> Plan[frozenset[int]]:
    """Record that the claimer sleeps. Returns its wake-up buckets; none if another session blocks a lock that sleepers share."""
    return frozenset((yield from call("add_sleeper", job_types=list(types)))[0]["add_sleeper"])


def lock_holders(context: Context) -> Plan[list[Row]]:
    """The sessions that hold advisory locks of Howdah for themselves."""
    return (yield from read("doctor/advisory_locks", seconds=0))


def remove_sleeper(context: Context, types: Sequence[str]) -> Plan[None]:
    yield from call("remove_sleeper", job_types=list(types))


def channel(context: Context) -> Plan[str]:
    return str((yield from call("channel"))[0]["channel"])


def echo(context: Context, payload: str) -> Plan[None]:
    yield from write("echo", payload=payload)


def check_held(context: Context, refs: Sequence[ClaimRef]) -> Plan[list[HeldState]]:
    """Which of these claims are cancelled or lost, and which others the database has for this worker."""
    rows = yield from call("check_held", worker_id=context.worker_id, **_fences(refs))
    return [HeldState(**row) for row in rows]


def is_held(ref: ClaimRef) -> Plan[bool]:
    job_id, token = ref
    return bool((yield from call("is_held", id=job_id, token=token))[0]["is_held"])


def release_unknown(context: Context, incarnation: uuid.UUID, refs: Sequence[ClaimRef]) -> Plan[set[uuid.UUID]]:
    """Hand back claims that this worker knows nothing of."""
    fences = _fences(refs)
    rows = yield from call_within(
        LOCK_TIMEOUT, "release_unknown", worker_id=context.worker_id, incarnation=incarnation, **fences
    )
    return {row["id"] for row in rows}


def sweep(context: Context, limit: int) -> Plan[list[Row]]:
    return (yield from call("recover", limit=limit, worker_id=context.worker_id))


def passing_over(
    write: Callable[[Sequence[P]], Plan[R]], items: Sequence[P], id_of: Callable[[P], uuid.UUID]
) -> Plan[Batch]:
    """Write a batch. Jobs that another transaction has locked are skipped."""
    try:
        return Batch((yield from write(items)), frozenset())
    except psycopg.errors.LockNotAvailable:
        yield Begin()
    locked = frozenset((yield from call("skip_locked", ids=Ids(id_of(item) for item in items)))[0]["skip_locked"])
    return Batch((yield from write([item for item in items if id_of(item) not in locked])), locked)


def start(context: Context, refs: Sequence[ClaimRef]) -> Plan[set[uuid.UUID]]:
    """Mark jobs as running, except those that another transaction has locked: these are handed back as unknown later."""
    begun = yield from passing_over(_start, refs, lambda ref: ref[0])
    return set(begun.answer)


def _start(refs: Sequence[ClaimRef]) -> Plan[Iterable[uuid.UUID]]:
    fences = _fences(refs)
    return _changed((yield from write("start", **fences, lock_timeout=LOCK_TIMEOUT)), fences["ids"])


def record_progress(context: Context, updates: Sequence[tuple[ClaimRef, ProgressUpdate]]) -> Plan[Batch]:
    return (yield from passing_over(lambda some: write_progress(context, some, LOCK_TIMEOUT), updates, _id))


def write_progress(
    context: Context, updates: Sequence[tuple[ClaimRef, ProgressUpdate]], lock_timeout: str | None = None
) -> Plan[None]:
    yield from call_within(
        lock_timeout,
        "progress",
        **_fences([ref for ref, _ in updates]),
        percents=[update.percent for _, update in updates],
        stages=[update.stage for _, update in updates],
        dones=[update.done for _, update in updates],
        totals=[update.total for _, update in updates],
    )


def record_events(context: Context, entries: Sequence[tuple[ClaimRef, NewEvent]]) -> Plan[Batch]:
    return (yield from passing_over(lambda some: write_events(context, some, LOCK_TIMEOUT), entries, _id))


def write_events(
    context: Context, entries: Sequence[tuple[ClaimRef, NewEvent]], lock_timeout: str | None = None
) -> Plan[None]:
    """Store events, those of each job in the order of their numbers. By the numbers, storing them twice changes nothing."""
    now = time.monotonic()
    yield from call_within(
        lock_timeout,
        "record_events",
        **_fences([ref for ref, _ in entries]),
        names=[event.name for _, event in entries],
        data=[Jsonb(event.data, dumps=str) for _, event in entries],
        kinds=[event.kind for _, event in entries],
        ages=[timedelta(seconds=max(now - event.at, 0)) for _, event in entries],
        numbers=[event.number for _, event in entries],
    )


# The ends of attempts. Each returns the new status of every job in its place; None if the database refused its end.


def complete(context: Context, ended: Sequence[tuple[ClaimRef, Completed]]) -> Plan[Statuses]:
    results = [end.result for _, end in ended]
    given = JsonTexts(results) if results.count(None) < len(results) else None
    fences = _fences([ref for ref, _ in ended])
    rows = yield from write("complete", **fences, results=given, lock_timeout=LOCK_TIMEOUT)
    only: list[uuid.UUID] | None = rows[0]["only"]
    if only is None:  # all of them: nothing has to be looked up
        return ["completed"] * len(ended)
    return _in_place(dict.fromkeys(only, "completed"), ended)


def complete_and_spawn(context: Context, ended: Sequence[tuple[ClaimRef, CompletedAndSpawned]]) -> Plan[Batch]:
    """Complete jobs, and add those that they spawned, in one transaction. Jobs that another transaction has locked are skipped."""
    yield Begin()
    ids = Ids(ref[0] for ref, _ in ended)
    locked = frozenset((yield from call("skip_locked", ids=ids))[0]["skip_locked"])
    free = [(ref, end) for ref, end in ended if ref[0] not in locked]
    for ref, end in free:
        yield from spawn(context, ref, end.spawned)
    return Batch((yield from complete(context, free)) if free else [], locked)


def spawn(context: Context, ref: ClaimRef, spawned: Sequence[Spawned]) -> Plan[None]:
    """Add jobs for a held one. If that is no longer held, nothing is added, and its completion is refused, too."""
    job_id, token = ref
    for each in spawned:
        for first in range(0, len(each.data), SPAWNED_AT_ONCE):
            some = slice(first, first + SPAWNED_AT_ONCE)
            yield from call(
                "spawn",
                id=job_id,
                token=token,
                job_type=each.job_type,
                data=JsonTexts([stored_json(context, data) for data in each.data[some]]),
                options=None if each.options is None else Jsonb(each.options),
                flow_keys=None if each.flow_keys is None else each.flow_keys[some],
            )


def fail(context: Context, ended: Sequence[tuple[ClaimRef, Failed]]) -> Plan[Statuses]:
    rows = yield from call_within(
        LOCK_TIMEOUT,
        "fail",
        **_fences([ref for ref, _ in ended]),
        errors=[stored_text(context, end.error) for _, end in ended],
        tracebacks=[stored_text(context, end.traceback) for _, end in ended],
        run_ats=[end.at for _, end in ended],
        delays=[_delay(end.delay) for _, end in ended],
        give_ups=[end.give_up for _, end in ended],
        exceptions=[end.exception for _, end in ended],
    )
    return _statuses(rows, ended)


def snooze(context: Context, ended: Sequence[tuple[ClaimRef, Snoozed]]) -> Plan[Statuses]:
    rows = yield from call_within(
        LOCK_TIMEOUT,
        "snooze",
        **_fences([ref for ref, _ in ended]),
        run_ats=[end.at for _, end in ended],
        delays=[_delay(end.delay) for _, end in ended],
    )
    return _statuses(rows, ended)


def cancel(context: Context, ended: Sequence[tuple[ClaimRef, Cancelled]]) -> Plan[Statuses]:
    reasons = [stored_text(context, end.reason) for _, end in ended]
    fences = _fences([ref for ref, _ in ended])
    return _statuses((yield from call_within(LOCK_TIMEOUT, "cancel_held", **fences, reasons=reasons)), ended)


def crash(context: Context, ended: Sequence[tuple[ClaimRef, Crashed]]) -> Plan[Statuses]:
    errors = [stored_text(context, end.error) for _, end in ended]
    fences = _fences([ref for ref, _ in ended])
    return _statuses((yield from call_within(LOCK_TIMEOUT, "crash", **fences, errors=errors)), ended)


def release(context: Context, ended: Sequence[tuple[ClaimRef, Interrupted | NotBegun]]) -> Plan[Statuses]:
    interrupted = isinstance(ended[0][1], Interrupted)
    fences = _fences([ref for ref, _ in ended])
    return _statuses((yield from call_within(LOCK_TIMEOUT, "release", **fences, interrupted=interrupted)), ended)


_WRITES: dict[type, Callable[[Context, Any], Plan[Statuses]]] = {
    Completed: complete,
    Failed: fail,
    Snoozed: snooze,
    Cancelled: cancel,
    Crashed: crash,
    Interrupted: release,
    NotBegun: release,
}


def end(context: Context, ended: Sequence[tuple[ClaimRef, Any]]) -> Plan[Batch]:
    """Write endings of one kind. The answer has the statuses of those that are not locked."""
    if isinstance(ended[0][1], CompletedAndSpawned):
        return (yield from complete_and_spawn(context, ended))
    write = _WRITES[type(ended[0][1])]
    return (yield from passing_over(lambda some: write(context, some), ended, _id))


def _id(item: tuple[ClaimRef, Any]) -> uuid.UUID:
    return item[0][0]


def _fences(refs: Sequence[ClaimRef]) -> dict[str, Any]:
    return {"ids": Ids([id for id, _ in refs]), "tokens": Tokens([token for _, token in refs])}


def _changed(rows: list[Row], ids: Ids) -> Iterable[uuid.UUID]:
    """The jobs that a call changed: all of them, unless the answer names only some."""
    only: list[uuid.UUID] | None = rows[0]["only"]
    return ids if only is None else only


def _statuses(rows: list[Row], ended: Sequence[tuple[ClaimRef, Any]]) -> Statuses:
    return _in_place({row["id"]: row["status"] for row in rows}, ended)


def _in_place(statuses: Mapping[uuid.UUID, str], ended: Sequence[tuple[ClaimRef, Any]]) -> Statuses:
    return [statuses.get(job_id) for (job_id, _), _ in ended]


def _delay(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
