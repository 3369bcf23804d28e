"""What a worker asks of the database. Its verbs are batches, and say what was refused instead of raising."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import psycopg
from psycopg.types.json import Jsonb

from howdah.checks.context import Context
from howdah.checks.values import stored_mapping, stored_text
from howdah.db.adapters import Ids, JsonTexts, Tokens
from howdah.db.plan import Begin, Plan, Row, call, call_within, read, read_raw, write
from howdah.handlers.outcome import Cancelled, Completed, Crashed, Failed, Interrupted, Snoozed
from howdah.model.claimed_job import claimed_job
from howdah.model.job import Job
from howdah.worker.claim.claimed_rows import ClaimedRows

Hold: TypeAlias = tuple[uuid.UUID, int]
"""The id of a claimed job, and the token of the claim."""

LOCK_TIMEOUT: Final = "100ms"
"""How long a batch waits for a row that another transaction has locked, before it passes that row over."""

DECLARED_AT_ONCE: Final = 500
"""Types. One by one, ten thousand of them would keep a worker from its first job for many seconds."""

P = TypeVar("P")
R = TypeVar("R")


class Batch(NamedTuple):
    """What a batch has brought, and the jobs that it passed over, because another transaction has locked them."""

    answer: Any
    locked: frozenset[uuid.UUID]


class Word(NamedTuple):
    """What the database has to say about a job that this worker holds, or should not hold."""

    id: uuid.UUID
    token: int
    word: str

    @property
    def hold(self) -> Hold:
        return self.id, self.token


class Report(NamedTuple):
    """Where a job stands: percent of the whole, the stage that it is in, and that one's counts."""

    percent: float | None
    stage: str | None
    done: float | None
    total: float | None


class Told(NamedTuple):
    """Something that happened to a job: an event or a log record, its data as JSON, and when, by the monotonic clock."""

    kind: str
    name: str
    data: str
    at: float
    number: int = 0
    """1, 2, 3 … within the claim, as it was told."""


class Cursor(NamedTuple):
    job_type: str
    priority: int
    run_at: datetime
    id: uuid.UUID


class Claim(NamedTuple):
    """What a claim brought, best first."""

    jobs: list[Job]
    cut: bool
    """There is more, but the next one may not wait."""


def declare(context: Context, declarations: Sequence[Mapping[str, Any]]) -> Plan[None]:
    for first in range(0, len(declarations), DECLARED_AT_ONCE):
        some = [_declared(each) for each in declarations[first : first + DECLARED_AT_ONCE]]
        yield from call("declare_types", types=Jsonb(some))


def _declared(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a type, as JSON has it."""
    if (policy := declaration["retry_policy"]) is not None:
        stored_mapping(policy, "retry_policy")  # refuses what cannot be stored
    spans = {name: f"{v.total_seconds():.6f} s" for name, v in declaration.items() if isinstance(v, timedelta)}
    return {**declaration, **spans}


def register(context: Context, boot: uuid.UUID, *, schedules: Sequence[str] = (), **facts: Any) -> Plan[None]:
    """schedules: those that the worker's code has."""
    meta = Jsonb({"schedules": list(schedules)}) if schedules else None
    yield from call("register_worker", worker_id=context.worker_id, incarnation=boot, meta=meta, **facts)


def heartbeat(context: Context, boot: uuid.UUID, *, pace: Mapping[str, Any] | None = None, **facts: Any) -> Plan[bool]:
    stored = None if pace is None else Jsonb(pace)
    rows = yield from call("heartbeat", worker_id=context.worker_id, incarnation=boot, throughput=stored, **facts)
    return bool(rows[0]["heartbeat"])


def leave(context: Context, boot: uuid.UUID) -> Plan[None]:
    yield from call("unregister_worker", worker_id=context.worker_id, incarnation=boot)


def claim(
    context: Context,
    boot: uuid.UUID,
    *,
    types: Sequence[str],
    limits: Sequence[int | None] | None,
    batch_size: int,
    start: int,
    cursors: Sequence[Cursor],
    oldest: bool,
    suspects: bool,
    ahead_types: Sequence[str] | None,
) -> Plan[Claim]:
    wired = yield from read_raw(
        "claim",
        worker_id=context.worker_id,
        job_types=list(types),
        batch_size=batch_size,
        start=start,
        cursor_types=[c.job_type for c in cursors],
        cursor_priorities=[c.priority for c in cursors],
        cursor_run_ats=[c.run_at for c in cursors],
        cursor_ids=Ids(c.id for c in cursors),
        incarnation=boot,
        limits=None if limits is None else list(limits),
        oldest=oldest,
        include_crashed=suspects,
        prefetch_types=None if ahead_types is None else list(ahead_types),
    )
    claimed, codec = ClaimedRows(wired, context.worker_id), context.codec
    jobs = [claimed_job(claimed, row, codec) for row in wired.take()]
    # Still pending: only a sign.
    cut = bool(jobs) and jobs[-1].status == "pending"
    return Claim(jobs[:-1] if cut else jobs, cut)


def next_due(context: Context, types: Sequence[str]) -> Plan[float | None]:
    due: timedelta | None = (yield from call("next_due", job_types=list(types)))[0]["next_due"]
    return None if due is None else due.total_seconds()


def fall_asleep(context: Context, types: Sequence[str]) -> Plan[frozenset[int]]:
    """The buckets that wake-ups will name; none if another session keeps a lock that sleepers share."""
    return frozenset((yield from call("add_sleeper", job_types=list(types)))[0]["add_sleeper"])


def lock_holders(context: Context) -> Plan[list[Row]]:
    """Who keeps an advisory lock of ours from us."""
    return (yield from read("doctor/advisory_locks", seconds=0))


def stay_awake(context: Context, types: Sequence[str]) -> Plan[None]:
    yield from call("remove_sleeper", job_types=list(types))


def channel(context: Context) -> Plan[str]:
    return str((yield from call("channel"))[0]["channel"])


def echo(context: Context, payload: str) -> Plan[None]:
    yield from write("echo", payload=payload)


def attend(context: Context, holds: Sequence[Hold]) -> Plan[list[Word]]:
    rows = yield from call("check_held", worker_id=context.worker_id, **_fences(holds))
    return [Word(row["id"], row["token"], row["state"]) for row in rows]


def is_held(hold: Hold) -> Plan[bool]:
    job_id, token = hold
    return bool((yield from call("is_held", id=job_id, token=token))[0]["is_held"])


def disown(context: Context, boot: uuid.UUID, holds: Sequence[Hold]) -> Plan[set[uuid.UUID]]:
    return _ids(
        (
            yield from call_within(
                LOCK_TIMEOUT, "release_unknown", worker_id=context.worker_id, incarnation=boot, **_fences(holds)
            )
        )
    )


def sweep(context: Context, limit: int) -> Plan[list[Row]]:
    return (yield from call("recover", limit=limit, worker_id=context.worker_id))


def passing_over(
    write: Callable[[Sequence[P]], Plan[R]], items: Sequence[P], id_of: Callable[[P], uuid.UUID]
) -> Plan[Batch]:
    """Writes a batch. What another transaction has locked keeps only itself waiting."""
    try:
        return Batch((yield from write(items)), frozenset())
    except psycopg.errors.LockNotAvailable:
        yield Begin()
    locked = frozenset((yield from call("skip_locked", ids=Ids(id_of(item) for item in items)))[0]["skip_locked"])
    return Batch((yield from write([item for item in items if id_of(item) not in locked])), locked)


def start(context: Context, holds: Sequence[Hold]) -> Plan[set[uuid.UUID]]:
    """Marks jobs as running. One that another transaction has locked is not: it is handed back when it is found unknown."""
    begun = yield from passing_over(_start, holds, lambda hold: hold[0])
    return set(begun.answer)


def _start(holds: Sequence[Hold]) -> Plan[Iterable[uuid.UUID]]:
    fences = _fences(holds)
    return _changed((yield from write("start", **fences, lock_timeout=LOCK_TIMEOUT)), fences["ids"])


def progress(context: Context, reports: Sequence[tuple[Hold, Report]]) -> Plan[Batch]:
    return (yield from passing_over(lambda some: write_progress(context, some, LOCK_TIMEOUT), reports, _id))


def write_progress(
    context: Context, reports: Sequence[tuple[Hold, Report]], lock_timeout: str | None = None
) -> Plan[set[uuid.UUID]]:
    rows = yield from call_within(
        lock_timeout,
        "progress",
        **_fences(_holds(reports)),
        percents=[report.percent for _, report in reports],
        stages=[report.stage for _, report in reports],
        dones=[report.done for _, report in reports],
        totals=[report.total for _, report in reports],
    )
    return _ids(rows)


def record_events(context: Context, entries: Sequence[tuple[Hold, Told]]) -> Plan[Batch]:
    return (yield from passing_over(lambda some: write_events(context, some, LOCK_TIMEOUT), entries, _id))


def write_events(context: Context, entries: Sequence[tuple[Hold, Told]], lock_timeout: str | None = None) -> Plan[None]:
    """Keeps what happened, of each job in the order of the numbers. By them, doing it twice changes nothing."""
    now = time.monotonic()
    yield from call_within(
        lock_timeout,
        "record_events",
        **_fences(_holds(entries)),
        names=[told.name for _, told in entries],
        data=[Jsonb(told.data, dumps=str) for _, told in entries],
        kinds=[told.kind for _, told in entries],
        ages=[timedelta(seconds=max(now - told.at, 0)) for _, told in entries],
        numbers=[told.number for _, told in entries],
    )


# The ends of claims. Each answers with the status that every job it changed has now.


def complete(context: Context, ended: Sequence[tuple[Hold, Completed]]) -> Plan[dict[uuid.UUID, str]]:
    results = [end.result for _, end in ended]
    given = JsonTexts(results) if any(result is not None for result in results) else None
    fences = _fences(_holds(ended))
    rows = yield from write("complete", **fences, results=given, lock_timeout=LOCK_TIMEOUT)
    return dict.fromkeys(_changed(rows, fences["ids"]), "completed")


def fail(context: Context, ended: Sequence[tuple[Hold, Failed]]) -> Plan[dict[uuid.UUID, str]]:
    rows = yield from call_within(
        LOCK_TIMEOUT,
        "fail",
        **_fences(_holds(ended)),
        errors=[stored_text(context, end.error) for _, end in ended],
        tracebacks=[stored_text(context, end.traceback) for _, end in ended],
        run_ats=[end.at for _, end in ended],
        delays=[_delay(end.delay) for _, end in ended],
        give_ups=[end.give_up for _, end in ended],
    )
    return _statuses(rows)


def snooze(context: Context, ended: Sequence[tuple[Hold, Snoozed]]) -> Plan[dict[uuid.UUID, str]]:
    rows = yield from call_within(
        LOCK_TIMEOUT,
        "snooze",
        **_fences(_holds(ended)),
        run_ats=[end.at for _, end in ended],
        delays=[_delay(end.delay) for _, end in ended],
    )
    return _statuses(rows)


def abandon(context: Context, ended: Sequence[tuple[Hold, Cancelled]]) -> Plan[dict[uuid.UUID, str]]:
    reasons = [stored_text(context, end.reason) for _, end in ended]
    return _statuses((yield from call_within(LOCK_TIMEOUT, "cancel_held", **_fences(_holds(ended)), reasons=reasons)))


def crash(context: Context, ended: Sequence[tuple[Hold, Crashed]]) -> Plan[dict[uuid.UUID, str]]:
    errors = [stored_text(context, end.error) for _, end in ended]
    return _statuses((yield from call_within(LOCK_TIMEOUT, "crash", **_fences(_holds(ended)), errors=errors)))


def release(context: Context, ended: Sequence[tuple[Hold, Interrupted]]) -> Plan[dict[uuid.UUID, str]]:
    return _statuses((yield from call_within(LOCK_TIMEOUT, "release", **_fences(_holds(ended)), interrupted=True)))


_WRITES: dict[type, Callable[[Context, Any], Plan[dict[uuid.UUID, str]]]] = {
    Completed: complete,
    Failed: fail,
    Snoozed: snooze,
    Cancelled: abandon,
    Crashed: crash,
    Interrupted: release,
}


def end(context: Context, ended: Sequence[tuple[Hold, Any]]) -> Plan[Batch]:
    """Writes endings of one kind."""
    write = _WRITES[type(ended[0][1])]
    return (yield from passing_over(lambda some: write(context, some), ended, _id))


def _id(item: tuple[Hold, Any]) -> uuid.UUID:
    return item[0][0]


def _holds(ended: Iterable[tuple[Hold, Any]]) -> list[Hold]:
    return [hold for hold, _ in ended]


def _fences(holds: Sequence[Hold]) -> dict[str, Any]:
    return {"ids": Ids(id for id, _ in holds), "tokens": Tokens(token for _, token in holds)}


def _changed(rows: list[Row], ids: Ids) -> Iterable[uuid.UUID]:
    """Those that a call has changed: only some, or, if it does not say which, all."""
    only: list[uuid.UUID] | None = rows[0]["only"]
    return ids if only is None else only


def _ids(rows: list[Row]) -> set[uuid.UUID]:
    return {row["id"] for row in rows}


def _statuses(rows: list[Row]) -> dict[uuid.UUID, str]:
    return {row["id"]: row["status"] for row in rows}


def _delay(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
