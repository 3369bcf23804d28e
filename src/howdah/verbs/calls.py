"""The verbs: for each, what is sent to the database and what the answer means.

The only Python that knows the SQL functions. Every verb takes ``conn=``, a psycopg connection of the
caller's: the verb is then part of the caller's transaction. Who runs the plan looks at it, not the plan.
"""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import psycopg
from psycopg.types.json import Jsonb

from howdah.checks import options
from howdah.checks.context import Connection, Context
from howdah.checks.options import JobOrId, Seconds
from howdah.checks.payload import clean_text
from howdah.checks.stored import stored_data, stored_json, stored_mapping, stored_result, stored_text
from howdah.db.adapters import JsonTexts
from howdah.db.batch_size import Portion
from howdah.db.plan import Ahead, Begin, Call, Pause, Plan, Row, Take, call, given, read
from howdah.errors import InvalidInput, InvalidItem, InvalidOption, JobNotFound, LeaseLost, NotPermitted
from howdah.handlers.retry import Policy, as_data
from howdah.model.codec import PLAIN, REDACTED
from howdah.model.failure import describe, traceback_of
from howdah.model.ids import new_id
from howdah.model.job import Job, Status, from_row, why_unreadable
from howdah.model.results import EnqueuedCount, JobPage, PrunedSegment, Recovered, Stats, TypeStats

BULK_SIZE: Final = 2_000
WINDOW: Final = 10_000
PAGE_BYTES: Final = 32 << 20
"""How much a page of whole jobs may have, as the database stores it."""
UNREADABLE_DELAY: Final = 60.0
"""Seconds until a job that could not be read is tried again: by then another worker, with the right key, may be there."""


# Producers


def enqueue(
    context: Context,
    job_type: str,
    data: Any = None,
    *,
    priority: int | None = None,
    run_at: datetime | None = None,
    delay: Seconds | None = None,
    max_attempts: int | None = None,
    key: str | None = None,
    id: uuid.UUID | str | None = None,
    timeout: Seconds | None = None,
    expires_at: datetime | None = None,
    expires_in: Seconds | None = None,
    retry_policy: Policy | Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    conn: Connection | None = None,
) -> Plan[Job]:
    """Adds a job and returns it.

    data: anything that JSON can hold; a reference where it is large.
    priority: the higher is claimed first; the type's own, or 100, if not given.
    run_at, delay: not before a moment, or not for so many seconds.
    max_attempts: how often it may be started; the type's own, or 3, if not given.
    key: unique among the live jobs of the type. If one has it already, that one is returned instead,
        with ``created=False``. A login that may not read jobs gets its id and options, and no more of it.
    id: a UUID of the caller's, for calls that may be repeated: the job is added once.
    timeout: how long one attempt may run.
    expires_at, expires_in: not worth starting after this moment, or so long after it is due.
    retry_policy: when to try again after a failure, such as
        ``Fixed(60)`` or ``{"kind": "fixed", "delay": 60}``; exponential if neither job nor type says.
    meta: tags and trace context, kept beside the data.
    """
    job_type = options.job_type(job_type)
    shared = _options(
        context, job_type, priority, run_at, delay, max_attempts, timeout, expires_at, expires_in, retry_policy, meta
    )
    # Made here where the call may be repeated, and by the database, which need not look for it, in the caller's transaction.
    job_id = options.job_id(id) if id is not None else new_id() if conn is None else None
    arguments = given(
        job_type=job_type,
        data=stored_data(context, job_type, data),
        key=None if key is None else options.name(key, "key", options.MAX_KEY_LENGTH),
        id=job_id,
        alone=conn is None,
        **shared,
    )
    answer = (yield Call("enqueue", arguments, repeatable=True))[0]
    # A job of the id that was made here is this call's own, even if it was sent twice because a reply was lost.
    if not answer["created"] and (id is not None or answer["id"] != job_id):
        return (yield from _existing(context, job_type, None if answer["id"] == job_id else key, answer))
    return _answered(
        context,
        answer,
        job_type=job_type,
        status="pending",
        data={} if data is None else data,
        key=key,
        first_due_at=answer["run_at"],
        meta=meta,
    )


def _existing(context: Context, job_type: str, key: str | None, answer: Row) -> Plan[Job]:
    """The job that was there already; as much of it as ``enqueue`` answers with, for a login that may add jobs, not read them."""
    (asked,) = yield from read("may_read_jobs")
    if asked["may"]:
        return dataclasses.replace((yield from get(context, answer["id"])), created=False)
    # No status: a guess would be taken for one.
    return _answered(context, answer, job_type=job_type, status=REDACTED, data=REDACTED, key=key, created=False)


def _answered(context: Context, answer: Row, **known: Any) -> Job:
    return Job(
        id=answer["id"],
        priority=answer["priority"],
        run_at=answer["run_at"],
        created_at=answer["created_at"],
        max_attempts=answer["max_attempts"],
        timeout=answer["timeout"],
        expires_at=answer["expires_at"],
        retry_policy=answer["retry_policy"],
        _home=context.home,
        **known,
    )


def enqueue_many(
    context: Context,
    job_type: str,
    items: Iterable[Any] | AsyncIterable[Any],
    *,
    key: Callable[[Any], str] | None = None,
    priority: int | None = None,
    run_at: datetime | None = None,
    delay: Seconds | None = None,
    max_attempts: int | None = None,
    timeout: Seconds | None = None,
    expires_at: datetime | None = None,
    expires_in: Seconds | None = None,
    retry_policy: Policy | Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    chunk_size: int | None = None,
    return_ids: bool = False,
    conn: Connection | None = None,
) -> Plan[EnqueuedCount]:
    """Adds a job for each item of data, and returns how many; they are claimed in the items' order.

    The items are streamed: a generator of millions needs no more memory than one of thousands. All of
    them are one transaction, so that a bad item enqueues nothing; with ``chunk_size`` each chunk is
    one of its own, and the ``InvalidItem`` that a bad item raises says how many are in. ``key`` is
    called with each item; an item whose key a live job of the type has is left out of the count. A bulk with
    keys, of 2,000 items or more, and in one transaction, lets others of its type that have keys, and more than one item,
    wait until that transaction ends.
    """
    job_type = options.job_type(job_type)
    shared = _options(
        context, job_type, priority, run_at, delay, max_attempts, timeout, expires_at, expires_in, retry_policy, meta
    )
    size = BULK_SIZE if chunk_size is None else options.integer(chunk_size, "chunk_size", least=1, most=100_000)
    portion, source = Portion(size), _iterator(items)
    enqueued, taken, ids = 0, 0, list[uuid.UUID]()
    if chunk_size is None:
        yield Begin()
    more = True
    while more:
        chunk = yield Take(source, size)
        more = bool(chunk)
        if key is not None and chunk_size is None and not taken and len(chunk) == size:
            # More may come, and keys are sorted within a chunk only.
            yield from call("lock_type_for_bulk", job_type=job_type)
        committed = 0 if chunk_size is None else enqueued
        arguments = given(
            job_type=job_type,
            data=JsonTexts([_item(context, job_type, item, taken + i, committed) for i, item in enumerate(chunk)]),
            keys=None if key is None else [_key(key, item, taken + i, committed) for i, item in enumerate(chunk)],
            return_ids=return_ids,
            **shared,
        )
        if chunk_size is None:
            # In one transaction, a chunk is made ready while the one before is being written.
            rows = yield from _ahead(Call("enqueue_many", arguments) if more else None)
        else:
            rows = yield from _in_portions(portion, arguments, divisible=conn is None)
        for row in rows or ():
            enqueued += row["enqueued"]
            ids.extend(row["ids"] or ())
        taken += len(chunk)
    return EnqueuedCount(enqueued, ids if return_ids else None)


def _ahead(next_call: Call | None) -> Plan[list[Row] | None]:
    try:
        rows: list[Row] | None = yield Ahead(next_call)
    except psycopg.errors.QueryCanceled as error:
        # All of it is one transaction, and that is over: there is nothing to halve.
        error.add_note(
            "Nothing was enqueued. If it was statement_timeout: raise it for this login, or pass chunk_size, so that"
            " each chunk is a transaction of its own, and is made as small as need be."
        )
        raise
    return rows


def _in_portions(portion: Portion, arguments: dict[str, Any], *, divisible: bool) -> Plan[list[Row]]:
    """Enqueues a chunk; in several calls, where the server cuts one short. In a transaction of the caller's, that is over then."""
    left, rows = arguments, list[Row]()
    while left["data"]:
        size = min(portion.size, len(left["data"])) if divisible else len(left["data"])
        some, rest = _split(left, size)
        try:
            rows += yield Call("enqueue_many", some)
        except psycopg.errors.QueryCanceled:
            portion.was_cut_short(size)
            if not divisible or size == 1:
                raise
        else:
            portion.went_well(size)
            left = rest
    return rows


def _split(arguments: dict[str, Any], size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    lists = {name: arguments[name] for name in ("data", "keys") if name in arguments}
    return (
        {**arguments, **{name: type(items)(items[:size]) for name, items in lists.items()}},
        {**arguments, **{name: type(items)(items[size:]) for name, items in lists.items()}},
    )


# Operators


def get(context: Context, job: JobOrId, *, conn: Connection | None = None) -> Plan[Job]:
    """The job as it is now. Raises JobNotFound."""
    return from_row((yield from row_of(options.job_id(job))), context.codec, context.home)


def row_of(job_id: uuid.UUID) -> Plan[Row]:
    """The job's row. Raises JobNotFound."""
    rows = yield from read("get", id=job_id)
    if not rows:
        raise not_found(job_id)
    return rows[0]


def not_found(job_id: uuid.UUID) -> JobNotFound:
    return JobNotFound(f"there is no job {job_id}: it may have been pruned, or be in another schema or database")


def list_jobs(
    context: Context,
    *,
    job_type: str | Sequence[str] | None = None,
    status: Status | Sequence[Status] | None = None,
    data: Any = None,
    least_priority: int | None = None,
    most_priority: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    stalled: bool = False,
    limit: int = 50,
    before: JobOrId | None = None,
    scan_limit: int = 100_000,
    brief: bool = False,
    conn: Connection | None = None,
) -> Plan[JobPage]:
    """A page of jobs, the newest first.

    job_type, status: one or several. data: what the job's data must contain, such as ``{"user": 7}``.
    since, until: by the time of creation. stalled: only jobs that run, but have stopped to report.
    before: the job after which the page begins; a page's ``next`` is what to pass for the one after it.
    brief: without what may be large, which is then not even fetched: ``data``, ``result``, ``resumed``, ``errors`` and ``meta``
        are empty. If not, a page of large jobs ends when it has 32 MB of these, and may have fewer than ``limit``.

    Only ids and statuses have an index. For the other filters the newest jobs are looked through, at
    most ``scan_limit`` of them: if more may match, the page says so (``complete`` is False) and its
    ``next`` goes on from there.
    """
    if data is not None and not (yield from read("may_see_data"))[0]["may"]:
        # It would look through [redacted], find nothing, and not know why.
        raise NotPermitted(
            "this login may not see the data of jobs, so that it cannot look for it: that needs SELECT on the table live"
        )
    if stalled and status is None:
        status = "running"  # so that nothing else is looked through
    filters = {
        "statuses": None if status is None else options.statuses(status),
        "job_types": None
        if job_type is None
        else options.job_types([job_type] if isinstance(job_type, str) else job_type),
        "data": None if data is None else _searched(context, data),
        "least_priority": None if least_priority is None else options.integer(least_priority, "least_priority"),
        "most_priority": None if most_priority is None else options.integer(most_priority, "most_priority"),
        "since": None if since is None else options.moment(since, "since"),
        "until": None if until is None else options.moment(until, "until"),
        "stalled": bool(stalled),
    }
    limit = options.integer(limit, "limit", least=1, most=10_000)
    scan_limit = options.integer(scan_limit, "scan_limit", least=1)
    position = None if before is None else options.job_id(before)
    found: list[Job] = []
    scanned = 0
    while True:
        window = min(WINDOW, scan_limit - scanned)
        rows = yield from read(
            "list",
            **filters,
            before=position,
            window=window,
            limit=limit - len(found),
            whole=not brief,
            most_bytes=PAGE_BYTES,
        )
        is_full = bool(rows) and [row.pop("is_last") for row in rows][-1]
        found += [from_row(row, context.codec, context.home) for row in rows]
        if len(found) == limit or is_full:
            return JobPage(found, next=found[-1].id, complete=True)
        ends = yield from read("window_end", statuses=filters["statuses"], before=position, window=window)
        if not ends:
            return JobPage(found, next=None, complete=True)
        scanned += window
        position = ends[0]["id"]
        if scanned >= scan_limit:
            return JobPage(found, next=position, complete=False)


def cancel(context: Context, job: JobOrId, reason: str | None = None, *, conn: Connection | None = None) -> Plan[bool]:
    """Cancels a job. What waits is cancelled at once; what runs is asked to stop.

    False: nothing changed, because the job has ended or was asked before. Raises JobNotFound.
    """
    rows = yield from call(
        "cancel",
        ids=[options.job_id(job)],
        reason=None if reason is None else stored_text(context, options.text(reason, "reason")),
    )
    return (yield from _changed(context, job, rows))


def retry(context: Context, job: JobOrId, *, conn: Connection | None = None) -> Plan[bool]:
    """Gives an ended job a new life: pending, with all its attempts; the old errors stay.

    False: nothing changed, because the job has not ended, or a live job has its key. Raises JobNotFound.
    """
    rows = yield from call("retry", ids=[options.job_id(job)])
    return (yield from _changed(context, job, rows))


def reschedule(
    context: Context,
    job: JobOrId,
    *,
    run_at: datetime | None = None,
    delay: Seconds | None = None,
    conn: Connection | None = None,
) -> Plan[bool]:
    """Sets when a pending job becomes due; now if neither is given. False: it is not pending."""
    rows = yield from call("reschedule", ids=[options.job_id(job)], **_due(run_at, delay))
    return (yield from _changed(context, job, rows))


def reprioritise(context: Context, job: JobOrId, priority: int, *, conn: Connection | None = None) -> Plan[bool]:
    """Sets the priority of a pending job. False: it is not pending."""
    rows = yield from call("reprioritise", ids=[options.job_id(job)], priority=options.integer(priority, "priority"))
    return (yield from _changed(context, job, rows))


def pause(context: Context, job_type: str, because: str | None = None, *, conn: Connection | None = None) -> Plan[bool]:
    """From now on no job of the type is claimed; what runs goes on. False: it was paused already."""
    rows = yield from call(
        "pause_type",
        job_type=options.job_type(job_type),
        because=None if because is None else clean_text(options.text(because, "because")),
    )
    return bool(rows[0]["pause_type"])


def resume(context: Context, job_type: str, *, conn: Connection | None = None) -> Plan[bool]:
    """Lets jobs of the type be claimed again. False: it was not paused."""
    rows = yield from call("resume_type", job_type=options.job_type(job_type))
    return bool(rows[0]["resume_type"])


def stats(context: Context, *, conn: Connection | None = None) -> Plan[Stats]:
    """How many jobs of each type are in each status. Live ones are counted, archived ones are summed up."""
    rows = yield from read("stats")
    return Stats({row["job_type"]: TypeStats(**{k: v for k, v in row.items() if k != "job_type"}) for row in rows})


def recover(context: Context, *, conn: Connection | None = None) -> Plan[list[Recovered]]:
    """The sweep: takes back what dead workers and passed leases hold, ends what has timed out or expired."""
    rows = yield from call("recover")
    return [Recovered(**row) for row in rows]


def recover_stale_jobs(context: Context, timeout: Seconds, *, conn: Connection | None = None) -> Plan[int]:
    """Takes back jobs claimed longer ago than ``timeout`` by somebody who is not a registered worker,
    and those of workers that have not beaten for so long. Returns how many."""
    rows = yield from call("recover_stale_jobs", timeout=options.span(timeout, "timeout"))
    return int(rows[0]["recover_stale_jobs"])


def prune(
    context: Context, keep: Seconds | None = None, *, tries: int = 10, conn: Connection | None = None
) -> Plan[list[PrunedSegment]]:
    """Drops the archive's segments whose jobs all ended longer ago than ``keep`` (14 days, unless the table
    settings says otherwise), and returns what became of each. Closes the open segment, if it is old enough.

    A segment that is in use is tried again ``tries`` times, each for 100 ms at most. Inside a transaction of
    the caller's (``conn``), no segment is closed: what ends or reads jobs would wait until that transaction ends.
    """
    kept = None if keep is None else options.span(keep, "keep")
    tries = options.integer(tries, "tries", least=1, most=1_000)
    dropped: list[PrunedSegment] = []
    for attempt in range(tries):
        rotated = [] if conn else (yield from call("rotate", keep=kept))
        # Added by one call, and validated by another one, which may be that of the next prune.
        for _ in range(0 if conn else 2):
            yield from call("bound_segments")
        segments = [PrunedSegment(**row) for row in (yield from call("prune", keep=kept))]
        dropped += [segment for segment in segments if segment.dropped]
        # What is in use now. A segment that was, and is not listed any more, was dropped by another prune.
        in_use = [segment for segment in segments if not segment.dropped]
        in_use += [
            PrunedSegment(row["segment"], None, None, False, row["reason"]) for row in rotated if not row["closed"]
        ]
        if not in_use or attempt == tries - 1:
            break
        yield Pause(random.uniform(0.1, 0.5))
    yield from call("compact_counts")
    return sorted(dropped + in_use, key=lambda segment: segment.segment)


# Workers that drive their own loop


def claim(
    context: Context,
    job_types: Sequence[str],
    batch_size: int = 10,
    worker_id: str | None = None,
    *,
    lease: Seconds | None = None,
    conn: Connection | None = None,
) -> Plan[list[Job]]:
    """Claims up to ``batch_size`` due jobs of these types, the best first.

    Each is held until it is completed, failed or released, or until ``lease`` (10 minutes) has passed
    without ``start`` or ``progress``: then it goes to somebody else, and this claim's writes are refused.
    """
    rows = yield from call(
        "claim",
        worker_id=context.worker_id if worker_id is None else options.name(worker_id, "worker_id", 100),
        job_types=options.job_types(job_types),
        batch_size=options.integer(batch_size, "batch_size", least=0, most=100_000),
        lease=None if lease is None else options.span(lease, "lease", positive=True),
    )
    jobs: list[Job] = []
    for row in rows:
        job = from_row(row, context.codec, context.home)
        if (reason := why_unreadable(job)) is None:
            jobs.append(job)
        else:
            # One that cannot be read must not take the others with it.
            yield from call(
                "fail",
                **fence(job),
                errors=[stored_text(context, reason)],
                delays=[timedelta(seconds=UNREADABLE_DELAY)],
            )
    return jobs


def start(context: Context, job: Job, *, conn: Connection | None = None) -> Plan[None]:
    """Marks a claimed job as running; its timeout counts from here. Raises LeaseLost."""
    held(job, (yield from call("start", **fence(job))), "start")


def progress(
    context: Context,
    job: Job,
    percent: float | None = None,
    stage: str | None = None,
    *,
    done: float | None = None,
    total: float | None = None,
    conn: Connection | None = None,
) -> Plan[None]:
    """Records how far a held job is, in percent or as ``done`` of ``total``, and renews its lease. Raises LeaseLost."""
    rows = yield from call(
        "progress",
        **fence(job),
        percents=[None if percent is None else options.number(percent, "percent", most=100)],
        stages=[None if stage is None else options.name(stage, "stage", options.MAX_NAME_LENGTH)],
        dones=[None if done is None else options.number(done, "done")],
        totals=[None if total is None else options.number(total, "total")],
    )
    held(job, rows, "report progress of")


def checkpoint(context: Context, job: Job, data: Any, *, conn: Connection | None = None) -> Plan[None]:
    """Keeps what the next attempt of a held job finds in ``job.resumed``, and renews its lease. Raises LeaseLost."""
    stored = Jsonb(None) if data is None else stored_json(context, data, "checkpoint")
    rows = yield from call("checkpoint", id=fence(job)["ids"][0], token=job.token, checkpoint=stored)
    held(job, rows if rows[0]["checkpoint"] else [], "keep a checkpoint of")


def complete(context: Context, job: Job, result: Any = None, *, conn: Connection | None = None) -> Plan[None]:
    """Ends a held job as completed. Raises LeaseLost.

    With ``conn=``, the completion is part of the caller's transaction: effect and completion commit
    together, or not at all.
    """
    claim = fence(job)
    known = context.known.get(job.job_type)
    encoded = result if known is None else known.encode_result(result)
    stored = None if encoded is None else [stored_result(context, encoded)]
    held(job, (yield from call("complete", **claim, results=stored)), "complete")


def fail(
    context: Context,
    job: Job,
    error: BaseException | str,
    *,
    run_at: datetime | None = None,
    delay: Seconds | None = None,
    give_up: bool = False,
    conn: Connection | None = None,
) -> Plan[Status]:
    """Ends the attempt of a held job with an error, and returns the job's new status. Raises LeaseLost.

    It is tried again when its retry policy says, at ``run_at`` or after ``delay``; it has failed for
    good when its attempts are used up, or with ``give_up``.
    """
    due = _due(run_at, delay)
    rows = yield from call(
        "fail",
        **fence(job),
        errors=[stored_text(context, describe(error))],
        tracebacks=[stored_text(context, traceback_of(error))],
        run_ats=[due["run_at"]],
        delays=[due["delay"]],
        give_ups=[give_up],
    )
    held(job, rows, "fail")
    status: Status = rows[0]["status"]
    return status


def snooze(
    context: Context,
    job: Job,
    *,
    run_at: datetime | None = None,
    delay: Seconds | None = None,
    conn: Connection | None = None,
) -> Plan[None]:
    """Puts a running job off without spending an attempt. Raises LeaseLost."""
    due = _due(run_at, delay)
    rows = yield from call("snooze", **fence(job), run_ats=[due["run_at"]], delays=[due["delay"]])
    held(job, rows, "snooze")


def release(context: Context, job: Job, *, interrupted: bool = False, conn: Connection | None = None) -> Plan[None]:
    """Hands a claimed job back at once, with no attempt spent. Raises LeaseLost.

    A job that was started can be handed back as ``interrupted``, a bounded number of times.
    """
    held(job, (yield from call("release", **fence(job), interrupted=interrupted)), "release")


# What the verbs share


def _options(
    context: Context,
    job_type: str,
    priority: int | None,
    run_at: datetime | None,
    delay: Seconds | None,
    max_attempts: int | None,
    timeout: Seconds | None,
    expires_at: datetime | None,
    expires_in: Seconds | None,
    retry_policy: Policy | Mapping[str, Any] | None,
    meta: Mapping[str, Any] | None,
) -> dict[str, Any]:
    if expires_at is not None and expires_in is not None:
        raise InvalidOption("expires_at and expires_in say the same thing twice: pass one of them")
    chosen = {
        **_due(run_at, delay),
        "priority": None if priority is None else options.integer(priority, "priority"),
        "max_attempts": None if max_attempts is None else options.integer(max_attempts, "max_attempts", least=1),
        "timeout": None if timeout is None else options.span(timeout, "timeout", positive=True),
        "expires_at": None if expires_at is None else options.moment(expires_at, "expires_at"),
        "expires_in": None if expires_in is None else options.span(expires_in, "expires_in", positive=True),
        "retry_policy": None if retry_policy is None else stored_mapping(as_data(retry_policy), "retry_policy"),
        "meta": None if meta is None else stored_mapping(meta, "meta"),
    }
    if known := context.known.get(job_type):
        chosen.update((name, value) for name, value in known.defaults.items() if chosen[name] is None)
    return chosen


def _due(run_at: datetime | None, delay: Seconds | None) -> dict[str, datetime | timedelta | None]:
    if run_at is not None and delay is not None:
        raise InvalidOption("run_at and delay say the same thing twice: pass one of them")
    return {
        "run_at": None if run_at is None else options.moment(run_at, "run_at"),
        "delay": None if delay is None else options.span(delay, "delay"),
    }


def _searched(context: Context, data: Any) -> Any:
    if context.codec is not PLAIN:
        raise InvalidOption("data cannot be searched: this queue stores it through a codec")
    return stored_json(context, data)


def _iterator(items: Iterable[Any] | AsyncIterable[Any]) -> Iterator[Any] | AsyncIterator[Any]:
    if isinstance(items, str | bytes | Mapping):
        raise InvalidOption(
            f"enqueue_many takes an iterable of data, one item for each job, not a {type(items).__name__}"
        )
    if isinstance(items, AsyncIterable):
        return aiter(items)
    try:
        return iter(items)
    except TypeError as error:
        raise InvalidOption(f"enqueue_many takes an iterable of data, not a {type(items).__name__}") from error


def _item(context: Context, job_type: str, item: Any, index: int, committed: int) -> Any:
    try:
        return stored_data(context, job_type, item, f"item {index}")
    except InvalidInput as error:
        raise _bad_item(error, index, committed) from error


def _key(key: Callable[[Any], str], item: Any, index: int, committed: int) -> str:
    try:
        return options.name(key(item), "key", options.MAX_KEY_LENGTH)
    except InvalidInput as error:
        raise _bad_item(error, index, committed) from error


def _bad_item(error: InvalidInput, index: int, committed: int) -> InvalidItem:
    state = f"{committed:,} jobs before its chunk are enqueued" if committed else "nothing was enqueued"
    return InvalidItem(f"item {index}: {error} ({state})", index=index, enqueued=committed)


def fence(job: Job) -> dict[str, list[Any]]:
    """What proves the claim."""
    if not isinstance(job, Job):
        raise InvalidOption(
            f"this takes a job that claim returned, not {options.shown(job)}: it has the token that proves the claim"
        )
    return {"ids": [job.id], "tokens": [job.token]}


def held(job: Job, rows: list[Row], verb: str) -> None:
    """Raises LeaseLost if the call changed nothing."""
    if not rows:
        raise LeaseLost(
            f"could not {verb} job {job.id}: this claim (token {job.token}) is over, or the job is not in a state for"
            " it. Nothing was changed."
        )


def _changed(context: Context, job: JobOrId, rows: list[Row]) -> Plan[bool]:
    if not rows:
        yield from get(context, job)
    return bool(rows)
