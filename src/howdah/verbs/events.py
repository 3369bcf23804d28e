"""The verbs that record and read events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import JobOrId
from howdah.checks.values import stored_json
from howdah.db.plan import Plan, call, read
from howdah.errors import InvalidOption
from howdah.model.connection import Connection
from howdah.model.event import EVENT_KINDS, Event, EventKind, event_of
from howdah.model.job import Job
from howdah.verbs.claims import fence, held
from howdah.verbs.operate import get


def event(context: Context, job: Job, name: str, data: Any = None, *, conn: Connection | None = None) -> Plan[int]:
    """Records an event of a held job, and returns its number within the job. Raises LeaseLost.

    data: any JSON value.
    """
    rows = yield from call(
        "record_events",
        **fence(job),
        names=[options.name(name, "name", options.MAX_NAME_LENGTH)],
        data=[None if data is None else stored_json(context, data)],
    )
    held(job, rows, "record an event of")
    return int(rows[0]["seq"])


def events(
    context: Context,
    job: JobOrId,
    *,
    after: int = 0,
    kinds: Sequence[EventKind] | None = None,
    limit: int = 1000,
    last: int | None = None,
    conn: Connection | None = None,
) -> Plan[list[Event]]:
    """The events, log lines and ends of attempts of a job, in order. Raises JobNotFound.

    after: only those after this ``seq``. kinds: some of "event", "log" and "status".
    limit: the first so many of them. last: the last so many instead.
    """
    job_id = options.job_id(job)
    wanted = None if kinds is None else sorted(some_of(kinds, EVENT_KINDS))
    most = options.integer(limit, "limit", least=1, most=10_000)
    rows = yield from read(
        "events" if last is None else "last_events",
        id=job_id,
        after=options.integer(after, "after", least=0),
        kinds=wanted,
        limit=most if last is None else options.integer(last, "last", least=1, most=10_000),
    )
    if not rows:
        yield from get(context, job_id)
    return [event_of(row, context.codec) for row in rows]


def stream_position(context: Context, *, conn: Connection | None = None) -> Plan[str]:
    """The current position in the stream of all events, for ``watch_all(after=…)``."""
    rows = yield from call("stream_position")
    return str(rows[0]["stream_position"])


def is_behind(position: str, types: Sequence[str] | None, kinds: Sequence[EventKind]) -> Plan[bool]:
    """Whether the stream of these types and kinds has more behind this position."""
    rows = yield from call(
        "read_events",
        after=position,
        job_types=None if types is None else list(types),
        kinds=list(kinds),
        limit=1,
    )
    # The last row is not an event.
    return len(rows) > 1


def some_of(kinds: object, known: Sequence[str]) -> frozenset[str]:
    """The kinds, each of which must be a known one. Raises InvalidOption."""
    names = ", ".join(known)
    if isinstance(kinds, str) or not isinstance(kinds, Sequence | set | frozenset):
        raise InvalidOption(f"kinds are a list of some of {names}, not {options.shown(kinds)}")
    for kind in kinds:
        if kind not in known:
            raise InvalidOption(f"{options.shown(kind)} is not a kind: they are {names}")
    if not kinds:
        raise InvalidOption(f"kinds is empty: name some of {names}")
    return frozenset(kinds)
