"""The verbs that add jobs."""

from __future__ import annotations

import dataclasses
import uuid
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import psycopg

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.checks.values import plain_json, stored_data, stored_mapping
from howdah.db.adapters import Ids, JsonTexts
from howdah.db.batch_size import BatchSize
from howdah.db.error_mapping import queue_full
from howdah.db.outage import is_cut_short
from howdah.db.plan import Begin, Call, GatheredCall, NextItems, PipelinedCall, Plan, Row, call, read
from howdah.errors import InvalidInput, InvalidItem, InvalidOption
from howdah.handlers.retry import AnyPolicy, as_data, attempts_of
from howdah.handlers.unique import Rule, UniqueOption, digest, unique_rule
from howdah.model.codec import PLAIN, REDACTED
from howdah.model.connection import Connection
from howdah.model.ids import new_id
from howdah.model.job import Conflict, Job
from howdah.model.results import EnqueuedCount
from howdah.verbs.operate import get
from howdah.verbs.pressure import FULL, room_timeout_of, with_room

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
    retry_policy: AnyPolicy | None = None,
    meta: Mapping[str, Any] | None = None,
    per: str | int | None = None,
    cost: int | None = None,
    unique: UniqueOption | None = None,
    debounce: Seconds | None = None,
    throttle: Seconds | None = None,
    room_timeout: Seconds | None = None,
    conn: Connection | None = None,
) -> Plan[Job[Any]]:
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
        ``Fixed(60)``, ``[1, 10, 60]`` or ``{"kind": "fixed", "delay": 60}``; exponential if neither job nor type has one. A
        list has the delay after each failure; max_attempts is one more than that, if not given.
    meta: tags and trace context, stored beside the data.
    per: its flow key, such as a customer: for order, limits and turns between keys. The handler's ``per`` if not given.
    cost: how many tokens of rates it takes; the type's own, or one, if not given.
    unique: whether there may be a second job like it: True if not one with the same arguments, or names of arguments, "key",
        or a rule: ``Unique(…)``; False turns the handler's rule off. ``created`` and ``conflict`` of the returned job say
        what happened. Raises DuplicateJob if the rule says so, and UniqueKeyBusy.
    debounce: a rule that postpones a pending job like it by so many seconds, and gives it this data.
    throttle: a rule that allows one job like it within so many seconds.
    room_timeout: if the type is full and has ``when_full="wait"``, how many seconds to wait for room, 30 if not given.
    conn: your own connection, of psycopg, psycopg2, asyncpg, SQLAlchemy or Django: the job is part of its transaction.

    Raises QueueFull if as many jobs of the type wait as may (``max_pending``). Within the caller's transaction (``conn=``) it never
    waits for room.
    """
    job_type = options.job_type(job_type)
    shared = job_options(
        context, job_type, priority=priority, run_at=run_at, delay=delay, max_attempts=max_attempts, timeout=timeout,
        expires_at=expires_at, expires_in=expires_in, retry_policy=retry_policy, meta=meta, cost=cost,
    )  # fmt: skip
    rule = _rule(context, job_type, unique, debounce, throttle, has_key=key is not None)
    key = None if key is None else options.name(key, "key", options.MAX_KEY_LENGTH)
    # Made here if the call may be repeated. In the caller's transaction the database makes it, and saves a lookup.
    job_id = options.job_id(id) if id is not None else new_id() if conn is None else None
    timeout_for_room = room_timeout_of(room_timeout)
    data = plain_json(context, data, "data")
    flow_key = flow_key_of(context, job_type, data, per)
    stored = stored_data(context, job_type, data)
    step: Call | GatheredCall
    if rule is None:
        arguments = {"job_type": job_type, "data": stored, "key": key, "id": job_id, "alone": conn is None, **shared}
        if flow_key is not None:
            arguments["flow_key"] = flow_key
        call = Call("enqueue", arguments, repeatable=True, is_frequent=True)
        # With a key or an id of the caller's, the answer may be a job that was there before: such a call goes by itself.
        is_new = conn is None and key is None and id is None
        step = GatheredCall(call, enqueue_each, len(stored.obj)) if is_new else call
    else:
        arguments = {
            "job_type": job_type,
            "data": JsonTexts([stored]),
            "unique": stored_mapping(rule, "unique"),
            "keys": _unique_keys(context, rule, [data], None if key is None else [key]),
            "flow_keys": None if flow_key is None else [flow_key],
            "ids": None if job_id is None else Ids([job_id]),
            "alone": conn is None,
            **shared,
        }
        step = Call("enqueue_unique", arguments, repeatable=True)
    (answer,) = yield from with_room(step, 1, timeout_for_room, conn)
    job: Job[Any] = Job(
        id=answer["id"],
        job_type=job_type,
        status="pending",
        data={} if data is None else data,
        key=key,
        flow_key=flow_key,
        cost=cost,
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
    existing = yield from _existing(context, job, is_of_key=job.id != job_id)
    return dataclasses.replace(existing, conflict=answer.get("conflict"))


_EACH: Final = {
    "job_type": "job_types",
    "data": "data",
    "id": "ids",
    "priority": "priorities",
    "run_at": "run_ats",
    "delay": "delays",
    "max_attempts": "max_attempts",
    "timeout": "timeouts",
    "expires_at": "expires_ats",
    "expires_in": "expires_ins",
    "retry_policy": "retry_policies",
    "meta": "metas",
    "flow_key": "flow_keys",
    "cost": "costs",
}
"""The arguments of ``enqueue``, and those of ``enqueue_each`` that are lists of them."""

_LISTS: Final[Mapping[str, type[list[Any]]]] = {
    "id": Ids,
    "data": JsonTexts,
    "retry_policy": JsonTexts,
    "meta": JsonTexts,
}


def enqueue_each(calls: Sequence[Call]) -> Plan[Sequence[list[Row] | None]]:
    """Calls of ``enqueue`` for new jobs, as one call. If the database refuses some of them, the others are sent without these."""
    added: dict[uuid.UUID, Row] = {}
    pending = [list(calls)]
    while pending:
        some = pending.pop()
        try:
            rows: list[Row] = yield Call("enqueue_each", _arguments_of_each(some))
        except psycopg.Error as error:
            if not _is_about_some(error):
                break
            half = len(some) // 2
            pending += [part for part in (some[half:], some[:half]) if len(part) > 1]
        else:
            added.update((id, row) for row in rows for id in row["ids"])
    ids = (call.arguments["id"] for call in calls)
    return [[{**added[id], "id": id, "created": True}] if id in added else None for id in ids]


def _arguments_of_each(calls: Sequence[Call]) -> dict[str, Any]:
    arguments: dict[str, Any] = {"alone": True}
    for one, many in _EACH.items():
        values = [call.arguments.get(one) for call in calls]
        if any(value is not None for value in values):
            arguments[many] = _LISTS.get(one, list)(values)
    return arguments


def _is_about_some(error: psycopg.Error) -> bool:
    """Whether fewer calls may succeed: not if the server is away, is read-only, or lacks the function."""
    if is_cut_short(error):
        return True
    return not isinstance(
        error, psycopg.OperationalError | psycopg.ProgrammingError | psycopg.InternalError | psycopg.NotSupportedError
    )


def _existing(context: Context, job: Job, *, is_of_key: bool) -> Plan[Job[Any]]:
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
    retry_policy: AnyPolicy | None = None,
    meta: Mapping[str, Any] | None = None,
    per: str | int | Callable[[Any], str | int] | None = None,
    cost: int | None = None,
    unique: UniqueOption | None = None,
    debounce: Seconds | None = None,
    throttle: Seconds | None = None,
    chunk_size: int | None = None,
    return_ids: bool = False,
    room_timeout: Seconds | None = None,
    conn: Connection | None = None,
) -> Plan[EnqueuedCount]:
    """Adds a job for each item of data, and returns how many; they are claimed in the items' order.

    The items are streamed: a generator of millions needs no more memory than one of thousands. They are
    one transaction: a bad item enqueues nothing. With ``chunk_size`` each chunk is a transaction, and the
    ``InvalidItem`` that a bad item raises says how many were enqueued. ``key`` is called with each item; an item
    whose key a live job of the type has is skipped, and not counted. A bulk of 2,000 items or more with keys in one
    transaction blocks other bulks with keys of its type until the transaction ends. ``per`` is the flow key of
    all jobs, or is called with each item.

    ``unique``, ``debounce`` and ``throttle`` are those of ``enqueue``; ``conflicts`` of the result counts what happened to
    jobs that were there. Of items that are the same, the first one is added, and the rule applies to the others.

    A bulk for which there is no room raises QueueFull, and nothing is enqueued; with ``chunk_size`` this holds for each chunk, and
    ``enqueued`` of the error counts the jobs of the chunks before. If the type has ``when_full="wait"``, each chunk waits for room,
    and a bulk without ``chunk_size`` does so if it has fewer than 2,000 items.
    """
    job_type = options.job_type(job_type)
    shared = job_options(
        context, job_type, priority=priority, run_at=run_at, delay=delay, max_attempts=max_attempts, timeout=timeout,
        expires_at=expires_at, expires_in=expires_in, retry_policy=retry_policy, meta=meta, cost=cost,
    )  # fmt: skip
    rule = _rule(context, job_type, unique, debounce, throttle, has_key=key is not None)
    has_keys = key is not None or rule is not None
    size = BULK_SIZE if chunk_size is None else options.integer(chunk_size, "chunk_size", least=1, most=100_000)
    batch_size, source = BatchSize(size), _iterator(items)
    enqueued, taken, ids, conflicts = 0, 0, list[uuid.UUID](), Counter[Conflict]()
    timeout_for_room = room_timeout_of(room_timeout)
    chunk = yield NextItems(source, size)
    # A single chunk is a transaction by itself. It can be repeated when there is room for it; a longer bulk cannot.
    in_transaction = chunk_size is None and (conn is not None or len(chunk) == size)
    if in_transaction:
        yield Begin()
    more = True
    while more:
        more = bool(chunk)
        if has_keys and in_transaction and not taken and len(chunk) == size:
            # There may be more chunks, and keys are sorted within a chunk only.
            yield from call("lock_type_for_bulk", job_type=job_type)
        committed = 0 if chunk_size is None else enqueued
        plain = chunk
        if context.json_default is not None:
            plain = [_plain_item(context, item, taken + i, committed) for i, item in enumerate(chunk)]
        data = JsonTexts([_item(context, job_type, item, taken + i, committed) for i, item in enumerate(plain)])
        keys = None if key is None else [_key(key, item, taken + i, committed) for i, item in enumerate(chunk)]
        arguments = {
            "job_type": job_type,
            "data": data,
            "flow_keys": _flow_keys(context, job_type, chunk if callable(per) else plain, per),
            "keys": keys if rule is None else _unique_keys(context, rule, plain, keys),
            **({"return_ids": return_ids} if rule is None else {"unique": stored_mapping(rule, "unique")}),
            **shared,
        }
        call_of_chunk = Call("enqueue_many" if rule is None else "enqueue_unique", arguments)
        if in_transaction:
            # In one transaction, a chunk is prepared while the database writes the previous one.
            rows = yield from _pipelined(call_of_chunk if more else None)
        else:
            rows = yield from _in_batches(
                batch_size,
                call_of_chunk,
                timeout_for_room,
                conn,
                committed,
                divisible=conn is None and chunk_size is not None,
            )
        for row in rows or ():
            if rule is None:
                enqueued += row["enqueued"]
                ids.extend(row["ids"] or ())
            elif row["created"]:
                enqueued += 1
                ids.append(row["id"])
            else:
                conflicts[row["conflict"]] += 1
        taken += len(chunk)
        if more:
            chunk = yield NextItems(source, size)
    return EnqueuedCount(enqueued, ids if return_ids else None, conflicts)


_NOT_SPLIT: Final = (
    "Nothing was enqueued. If it was statement_timeout: raise it for this login, or pass chunk_size: then each"
    " chunk is a transaction of its own, and is split if it takes too long."
)


def _pipelined(next_call: Call | None) -> Plan[list[Row] | None]:
    try:
        rows: list[Row] | None = yield PipelinedCall(next_call)
    except psycopg.errors.QueryCanceled as error:
        # The one transaction was rolled back: there is nothing to split.
        error.add_note(_NOT_SPLIT)
        raise
    except psycopg.Error as error:
        if error.sqlstate == FULL:
            hint = "Nothing was enqueued. Pass chunk_size: then each chunk is a transaction of its own, for which there may be room."
            raise queue_full(error, hint=hint) from error
        raise
    return rows


def _in_batches(
    batch_size: BatchSize, call: Call, room_timeout: float, conn: Connection | None, enqueued: int, *, divisible: bool
) -> Plan[list[Row]]:
    """Enqueues a chunk, in several calls if the server cancels one. A bulk in one transaction cannot be split."""
    left, rows = dict(call.arguments), list[Row]()
    while left["data"]:
        size = min(batch_size.size, len(left["data"])) if divisible else len(left["data"])
        some, rest = _split(left, size)
        try:
            rows += yield from with_room(Call(call.function, some), size, room_timeout, conn, enqueued + _added(rows))
        except psycopg.errors.QueryCanceled as error:
            batch_size.was_cut_short(size)
            if not divisible:
                error.add_note(_NOT_SPLIT)
            if not divisible or size == 1:
                raise
        else:
            batch_size.went_well(size)
            left = rest
    return rows


def _added(rows: Sequence[Row]) -> int:
    """How many jobs were added: ``enqueue_many`` answers with a number, ``enqueue_unique`` with a row for each item."""
    return sum(row["enqueued"] if "enqueued" in row else row["created"] for row in rows)


def _split(arguments: dict[str, Any], size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    lists = {name: arguments[name] for name in ("data", "keys", "flow_keys") if arguments[name] is not None}
    return (
        {**arguments, **{name: type(items)(items[:size]) for name, items in lists.items()}},
        {**arguments, **{name: type(items)(items[size:]) for name, items in lists.items()}},
    )


def flow_key_of(context: Context, job_type: str, data: Any, per: str | int | None) -> str | None:
    """None: the database knows it, by the rules of the type."""
    if per is not None:
        return options.flow_key(per)
    known = context.known.get(job_type)
    if known is None or known.flow_key is None or (known.per is not None and context.codec is PLAIN):
        return None
    return known.flow_key(data or {})


def _flow_keys(
    context: Context, job_type: str, items: Sequence[Any], per: str | int | Callable[[Any], str | int] | None
) -> list[str | None] | None:
    if callable(per):
        return [options.flow_key(per(item)) for item in items]
    if items and flow_key_of(context, job_type, items[0], per) is not None:
        return [flow_key_of(context, job_type, item, per) for item in items]
    return None


def job_options(
    context: Context,
    job_type: str,
    *,
    priority: int | None = None,
    run_at: datetime | None = None,
    delay: Seconds | None = None,
    max_attempts: int | None = None,
    timeout: Seconds | None = None,
    expires_at: datetime | None = None,
    expires_in: Seconds | None = None,
    retry_policy: AnyPolicy | None = None,
    meta: Mapping[str, Any] | None = None,
    cost: int | None = None,
) -> dict[str, Any]:
    """The options of jobs for the database, with the defaults of their handler; empty if there are none."""
    known = context.known.get(job_type)
    chosen = (priority, run_at, delay, max_attempts, timeout, expires_at, expires_in, retry_policy, meta, cost)
    if all(each is None for each in chosen) and not (known and known.defaults):
        return {}
    if expires_at is not None and expires_in is not None:
        raise InvalidOption("expires_at and expires_in exclude each other: pass one of them")
    max_attempts = attempts_of(retry_policy) if max_attempts is None else max_attempts
    given = {
        **options.due(run_at, delay),
        "priority": None if priority is None else options.integer(priority, "priority"),
        "max_attempts": None if max_attempts is None else options.integer(max_attempts, "max_attempts", least=1),
        "timeout": None if timeout is None else options.span(timeout, "timeout", positive=True),
        "expires_at": None if expires_at is None else options.moment(expires_at, "expires_at"),
        "expires_in": None if expires_in is None else options.span(expires_in, "expires_in", positive=True),
        "retry_policy": None if retry_policy is None else stored_mapping(as_data(retry_policy), "retry_policy"),
        "meta": None if meta is None else stored_mapping(meta, "meta"),
        "cost": None if cost is None else options.cost(cost),
    }
    if known:
        given.update((name, value) for name, value in known.defaults.items() if given[name] is None)
    return given


def _rule(
    context: Context,
    job_type: str,
    unique: UniqueOption | None,
    debounce: Seconds | None,
    throttle: Seconds | None,
    *,
    has_key: bool,
) -> Rule | None:
    """The unique rule of a call: its own, or else that of the handler."""
    rule = unique_rule(unique, debounce, throttle, has_key=has_key)
    if rule is None and unique is None and (known := context.known.get(job_type)):
        rule = known.unique
    if rule is not None and has_key != (rule["by"] == "key"):
        raise InvalidOption(
            f"jobs of type {job_type!r} are unique by their arguments here, and key= is given: pass unique='key' to make them"
            " unique by it, or unique=False for the key alone"
            if has_key
            else f"jobs of type {job_type!r} are unique by their key: pass key="
        )
    return rule


def _unique_keys(context: Context, rule: Rule, items: Sequence[Any], keys: list[str] | None) -> list[str] | None:
    """The keys of the call, or hashes of arguments that the database cannot read. None: the database makes them."""
    if keys is None and context.codec is not PLAIN:
        return [digest({} if item is None else item, rule) for item in items]
    return keys


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


def _plain_item(context: Context, item: Any, index: int, committed: int) -> Any:
    try:
        return plain_json(context, item, f"item {index}")
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
