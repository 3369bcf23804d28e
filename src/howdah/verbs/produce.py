"""The verbs that add jobs."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import psycopg

from howdah.checks import options
from howdah.checks.context import Connection, Context
from howdah.checks.options import Seconds
from howdah.checks.values import stored_data, stored_mapping
from howdah.db.adapters import JsonTexts
from howdah.db.batch_size import BatchSize
from howdah.db.plan import Begin, Call, NextItems, PipelinedCall, Plan, Row, call, read
from howdah.errors import InvalidInput, InvalidItem, InvalidOption
from howdah.handlers.retry import Policy, as_data
from howdah.model.codec import REDACTED
from howdah.model.ids import new_id
from howdah.model.job import Job
from howdah.model.results import EnqueuedCount
from howdah.verbs.operate import get

BULK_SIZE: Final = 2_000


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

    data: any JSON value; store a reference to large data.
    priority: the higher is claimed first; the type's own, or 100, if not given.
    run_at, delay: it is not started before this moment, or for so many seconds.
    max_attempts: how often it may be started; the type's own, or 3, if not given.
    key: unique among the live jobs of the type. If a live job has it already, that job is returned,
        with ``created=False``. A login that may not read jobs gets only its id and options.
    id: a UUID of the caller's, for calls that may be repeated: the job is added once.
    timeout: how long one attempt may run.
    expires_at, expires_in: it is not started after this moment, or so long after it is due.
    retry_policy: when to try again after a failure, such as
        ``Fixed(60)`` or ``{"kind": "fixed", "delay": 60}``; exponential if neither job nor type has one.
    meta: tags and trace context, stored beside the data.
    """
    job_type = options.job_type(job_type)
    shared = _job_options(
        context, job_type, priority, run_at, delay, max_attempts, timeout, expires_at, expires_in, retry_policy, meta
    )
    # Made here if the call may be repeated. In the caller's transaction the database makes it, and saves a lookup.
    job_id = options.job_id(id) if id is not None else new_id() if conn is None else None
    arguments = {
        "job_type": job_type,
        "data": stored_data(context, job_type, data),
        "key": None if key is None else options.name(key, "key", options.MAX_KEY_LENGTH),
        "id": job_id,
        "alone": conn is None,
        **shared,
    }
    answer = (yield Call("enqueue", arguments, repeatable=True))[0]
    job: Job = Job(
        id=answer["id"],
        job_type=job_type,
        status="pending",
        data={} if data is None else data,
        key=key,
        priority=answer["priority"],
        run_at=answer["run_at"],
        first_due_at=answer["run_at"],
        created_at=answer["created_at"],
        max_attempts=answer["max_attempts"],
        timeout=answer["timeout"],
        expires_at=answer["expires_at"],
        retry_policy=answer["retry_policy"],
        meta=meta,
        _home=context.home,
    )
    # A job with the id that was made here is this call's own, even if it was sent twice because a reply was lost.
    if answer["created"] or (id is None and job.id == job_id):
        return job
    return (yield from _existing(context, job, is_of_key=job.id != job_id))


def _existing(context: Context, job: Job, *, is_of_key: bool) -> Plan[Job]:
    """The job that was there already. A login that may add jobs, and not read them, gets what ``enqueue`` answered."""
    (asked,) = yield from read("may_read_jobs")
    if asked["may"]:
        return dataclasses.replace((yield from get(context, job.id)), created=False)
    # The status is unknown to this login.
    unknown: dict[str, Any] = {"status": REDACTED, "data": REDACTED, "first_due_at": None, "meta": None}
    return dataclasses.replace(job, **unknown, key=job.key if is_of_key else None, created=False)


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

    The items are streamed: a generator of millions needs no more memory than one of thousands. They are
    one transaction: a bad item enqueues nothing. With ``chunk_size`` each chunk is a transaction, and the
    ``InvalidItem`` that a bad item raises says how many were enqueued. ``key`` is called with each item; an item
    whose key a live job of the type has is skipped, and not counted. A bulk of 2,000 items or more with keys in one
    transaction blocks other bulks with keys of its type until the transaction ends.
    """
    job_type = options.job_type(job_type)
    shared = _job_options(
        context, job_type, priority, run_at, delay, max_attempts, timeout, expires_at, expires_in, retry_policy, meta
    )
    size = BULK_SIZE if chunk_size is None else options.integer(chunk_size, "chunk_size", least=1, most=100_000)
    batch_size, source = BatchSize(size), _iterator(items)
    enqueued, taken, ids = 0, 0, list[uuid.UUID]()
    if chunk_size is None:
        yield Begin()
    more = True
    while more:
        chunk = yield NextItems(source, size)
        more = bool(chunk)
        if key is not None and chunk_size is None and not taken and len(chunk) == size:
            # There may be more chunks, and keys are sorted within a chunk only.
            yield from call("lock_type_for_bulk", job_type=job_type)
        committed = 0 if chunk_size is None else enqueued
        arguments = {
            "job_type": job_type,
            "data": JsonTexts([_item(context, job_type, item, taken + i, committed) for i, item in enumerate(chunk)]),
            "keys": None if key is None else [_key(key, item, taken + i, committed) for i, item in enumerate(chunk)],
            "return_ids": return_ids,
            **shared,
        }
        if chunk_size is None:
            # In one transaction, a chunk is prepared while the database writes the previous one.
            rows = yield from _pipelined(Call("enqueue_many", arguments) if more else None)
        else:
            rows = yield from _in_batches(batch_size, arguments, divisible=conn is None)
        for row in rows or ():
            enqueued += row["enqueued"]
            ids.extend(row["ids"] or ())
        taken += len(chunk)
    return EnqueuedCount(enqueued, ids if return_ids else None)


def _pipelined(next_call: Call | None) -> Plan[list[Row] | None]:
    try:
        rows: list[Row] | None = yield PipelinedCall(next_call)
    except psycopg.errors.QueryCanceled as error:
        # The one transaction was rolled back: there is nothing to split.
        error.add_note(
            "Nothing was enqueued. If it was statement_timeout: raise it for this login, or pass chunk_size: then each"
            " chunk is a transaction of its own, and is split if it takes too long."
        )
        raise
    return rows


def _in_batches(batch_size: BatchSize, arguments: dict[str, Any], *, divisible: bool) -> Plan[list[Row]]:
    """Enqueues a chunk, in several calls if the server cancels one. In the caller's transaction it cannot be split."""
    left, rows = arguments, list[Row]()
    while left["data"]:
        size = min(batch_size.size, len(left["data"])) if divisible else len(left["data"])
        some, rest = _split(left, size)
        try:
            rows += yield Call("enqueue_many", some)
        except psycopg.errors.QueryCanceled:
            batch_size.was_cut_short(size)
            if not divisible or size == 1:
                raise
        else:
            batch_size.went_well(size)
            left = rest
    return rows


def _split(arguments: dict[str, Any], size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    lists = {name: arguments[name] for name in ("data", "keys") if arguments[name] is not None}
    return (
        {**arguments, **{name: type(items)(items[:size]) for name, items in lists.items()}},
        {**arguments, **{name: type(items)(items[size:]) for name, items in lists.items()}},
    )


def _job_options(
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
        raise InvalidOption("expires_at and expires_in exclude each other: pass one of them")
    given = {
        **options.due(run_at, delay),
        "priority": None if priority is None else options.integer(priority, "priority"),
        "max_attempts": None if max_attempts is None else options.integer(max_attempts, "max_attempts", least=1),
        "timeout": None if timeout is None else options.span(timeout, "timeout", positive=True),
        "expires_at": None if expires_at is None else options.moment(expires_at, "expires_at"),
        "expires_in": None if expires_in is None else options.span(expires_in, "expires_in", positive=True),
        "retry_policy": None if retry_policy is None else stored_mapping(as_data(retry_policy), "retry_policy"),
        "meta": None if meta is None else stored_mapping(meta, "meta"),
    }
    if known := context.known.get(job_type):
        given.update((name, value) for name, value in known.defaults.items() if given[name] is None)
    return given


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
