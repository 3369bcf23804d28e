"""The verbs that show jobs, types and workers, and change what is there."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import JobOrId, Seconds
from howdah.checks.type_names import has_wildcard, matching
from howdah.checks.values import clean_text, stored_json, stored_text
from howdah.db.adapters import Ids
from howdah.db.plan import Pause, Plan, Row, call, read
from howdah.errors import InvalidOption, JobNotFound, NotPermitted
from howdah.model.codec import PLAIN
from howdah.model.connection import Connection
from howdah.model.job import Job, Status, from_row
from howdah.model.results import JobPage, PrunedSegment, QueuePosition, Recovered, Stats, TypeStats
from howdah.model.worker_info import WorkerInfo, worker_info

WINDOW: Final = 10_000
PAGE_BYTES: Final = 32 << 20
"""How many bytes a page of whole jobs may have, as the database stores them."""


def get(context: Context, job: JobOrId, *, conn: Connection | None = None) -> Plan[Job[Any]]:
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
    per: str | int | None = None,
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

    job_type, status: one or several; ``mail.*`` is every type that begins so and has a handler here or in a worker.
    per: exactly this flow key. data: what the job's data must contain, such as ``{"user": 7}``.
    since, until: by the time of creation. stalled: only running jobs that have stopped reporting.
    before: the job after which the page begins; pass a page's ``next`` for the next page.
    brief: without large fields, which are not fetched: ``data``, ``result``, ``resumed``, ``errors`` and ``meta``
        are empty (but for the ``task`` of Django in ``meta``). If not, a page of large jobs ends at 32 MB of these, and may have fewer than ``limit``.

    Only ids and statuses have an index. For the other filters the newest jobs are scanned, at most
    ``scan_limit`` of them. If more may match, the page's ``complete`` is False, and its ``next`` continues there.
    """
    hidden = [name for name, wanted in (("data", data), ("flow keys", per)) if wanted is not None]
    if hidden and not (yield from read("may_see_data"))[0]["may"]:
        # It would search [redacted], and find nothing.
        raise NotPermitted(
            f"this login may not see the {' and '.join(hidden)} of jobs, and cannot search by them: that needs SELECT on"
            " the table live"
        )
    if stalled and status is None:
        status = "running"  # so that no other jobs are scanned
    types = None if job_type is None else options.job_types([job_type] if isinstance(job_type, str) else job_type)
    filters = {
        "statuses": None if status is None else options.statuses(status),
        "job_types": (yield from matching_types(context, types)),
        "flow_key": None if per is None else options.flow_key(per),
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


def matching_types(context: Context, names: list[str] | None) -> Plan[list[str] | None]:
    """Job types of a filter: those with a wildcard stand for types that have a handler, in this process or in any worker."""
    if names is None or not has_wildcard(names):
        return names
    rows = yield from read("type_names")
    return matching(names, {*context.known, *(row["job_type"] for row in rows)})


def _searched(context: Context, data: Any) -> Any:
    if context.codec is not PLAIN:
        raise InvalidOption("data cannot be searched: this queue stores it through a codec")
    return stored_json(context, data)


def cancel(context: Context, job: JobOrId, reason: str | None = None, *, conn: Connection | None = None) -> Plan[bool]:
    """Cancels a job. A waiting one is cancelled at once; a running one is asked to stop.

    False: nothing changed, because the job has ended or was asked before. Raises JobNotFound.
    """
    rows = yield from call(
        "cancel",
        ids=Ids([options.job_id(job)]),
        reason=None if reason is None else stored_text(context, options.text(reason, "reason")),
    )
    return (yield from _changed(context, job, rows))


def retry(context: Context, job: JobOrId, *, fresh: bool = False, conn: Connection | None = None) -> Plan[bool]:
    """Runs an ended job again: it is pending, with all its attempts; the old errors stay.

    It goes on after the steps and the checkpoint that it has recorded, and waits again for signals that timed out. fresh: it begins
    without them. False: nothing changed, because the job has not ended, or a live job has its key. Raises JobNotFound.
    """
    rows = yield from call("retry", ids=Ids([options.job_id(job)]), fresh=bool(fresh) or None)
    return (yield from _changed(context, job, rows))


def reschedule(
    context: Context,
    job: JobOrId,
    *,
    run_at: datetime | None = None,
    delay: Seconds | None = None,
    conn: Connection | None = None,
) -> Plan[bool]:
    """Sets when a pending job becomes due; now if neither is given. False: it is not pending, or it waits for a signal or sleeps."""
    rows = yield from call("reschedule", ids=Ids([options.job_id(job)]), **options.due(run_at, delay))
    return (yield from _changed(context, job, rows))


def reprioritise(context: Context, job: JobOrId, priority: int, *, conn: Connection | None = None) -> Plan[bool]:
    """Sets the priority of a pending job. False: it is not pending."""
    rows = yield from call(
        "reprioritise", ids=Ids([options.job_id(job)]), priority=options.integer(priority, "priority")
    )
    return (yield from _changed(context, job, rows))


def delete(context: Context, job: JobOrId, *, conn: Connection | None = None) -> Plan[bool]:
    """Deletes a job that waits or has ended, with its events. False: it is running; cancel it first. Raises JobNotFound."""
    rows = yield from call("delete_jobs", ids=Ids([options.job_id(job)]))
    return (yield from _changed(context, job, rows))


def _changed(context: Context, job: JobOrId, rows: list[Row]) -> Plan[bool]:
    if not rows:
        yield from get(context, job)
    return bool(rows)


def now() -> Plan[datetime]:
    """The time by the clock of the database."""
    rows = yield from call("clock")
    moment: datetime = rows[0]["clock"]
    return moment


def pause(
    context: Context,
    job_type: str,
    because: str | None = None,
    *,
    per: str | int | None = None,
    conn: Connection | None = None,
) -> Plan[bool]:
    """Stops claims of jobs of the type, or of one flow key of it (``per``); running ones continue. False: it was paused already."""
    function = "pause_type" if per is None else "pause_key"
    reason = None if because is None else clean_text(options.text(because, "because"))
    rows = yield from call(function, **_type_or_key(job_type, per), because=reason)
    return bool(rows[0][function])


def resume(
    context: Context, job_type: str, *, per: str | int | None = None, conn: Connection | None = None
) -> Plan[bool]:
    """Allows claims of jobs of the type, or of one flow key of it (``per``), again. False: it was not paused."""
    function = "resume_type" if per is None else "resume_key"
    rows = yield from call(function, **_type_or_key(job_type, per))
    return bool(rows[0][function])


def _type_or_key(job_type: str, per: str | int | None) -> dict[str, str]:
    return {"job_type": options.job_type(job_type)} | ({} if per is None else {"flow_key": options.flow_key(per)})


def stats(context: Context, *, conn: Connection | None = None) -> Plan[Stats]:
    """How many jobs of each type are in each status."""
    rows = yield from read("stats")
    return Stats({row["job_type"]: TypeStats(**{k: v for k, v in row.items() if k != "job_type"}) for row in rows})


def recover(context: Context, *, conn: Connection | None = None) -> Plan[list[Recovered]]:
    """The sweep: releases jobs of dead workers and of passed leases, and ends jobs that have timed out or expired."""
    rows = yield from call("recover")
    return [Recovered(**row) for row in rows]


def recover_stale_jobs(context: Context, timeout: Seconds, *, conn: Connection | None = None) -> Plan[int]:
    """Releases jobs that a client without a registered worker claimed longer ago than ``timeout``, and those of workers
    without a heartbeat for so long. Returns how many."""
    rows = yield from call("recover_stale_jobs", timeout=options.span(timeout, "timeout"))
    return int(rows[0]["recover_stale_jobs"])


def prune(
    context: Context, keep: Seconds | None = None, *, tries: int = 10, conn: Connection | None = None
) -> Plan[list[PrunedSegment]]:
    """Drops the archive's segments whose jobs all ended longer ago than ``keep`` (14 days, unless the table
    settings has another value), and returns the result for each. Closes the open segment, if it is old enough.

    A segment in use is tried ``tries`` times, each for 100 ms at most. In the caller's transaction (``conn``) no segment
    is closed: sessions that end or read jobs would wait until that transaction ends.
    """
    kept = None if keep is None else options.span(keep, "keep")
    tries = options.integer(tries, "tries", least=1, most=1_000)
    dropped: list[PrunedSegment] = []
    for attempt in range(tries):
        rotated = [] if conn else (yield from call("rotate", keep=kept))
        # A bound is added by one call, and validated by another, which may be that of the next prune.
        for _ in range(0 if conn else 2):
            yield from call("bound_segments")
        segments = [PrunedSegment(**row) for row in (yield from call("prune", keep=kept))]
        dropped += [segment for segment in segments if segment.dropped]
        # Segments in use now. One that was, and is not listed any more, was dropped by another prune.
        in_use = [segment for segment in segments if not segment.dropped]
        in_use += [
            PrunedSegment(row["segment"], None, None, False, row["reason"]) for row in rotated if not row["closed"]
        ]
        if not in_use or attempt == tries - 1:
            break
        yield Pause(random.uniform(0.1, 0.5))
    yield from call("compact_counts")
    return sorted(dropped + in_use, key=lambda segment: segment.segment)


def queue_position(context: Context, job: JobOrId, *, conn: Connection | None = None) -> Plan[QueuePosition | None]:
    """Where a pending job stands in the queue of its type, and when it will start. None: it is not pending.

    Raises JobNotFound.
    """
    rows = yield from call("queue_position", id=options.job_id(job))
    if not rows:
        yield from get(context, job)
        return None
    return QueuePosition(**rows[0])


def workers(context: Context, *, conn: Connection | None = None) -> Plan[list[WorkerInfo]]:
    """The registered workers by name: live ones, and dead ones that no sweep has removed yet."""
    rows = yield from read("workers")
    return [worker_info(row) for row in rows]
