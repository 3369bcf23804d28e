"""Back-pressure: how many jobs of a type may wait, and what a producer does when so many do.

The database decides whether there is room. A type whose producers wait refuses a call as any other does: the wait is here, outside
of any transaction, which would keep the database from cleaning up.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final

import psycopg

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.db.error_mapping import queue_full
from howdah.db.outage import Backoff
from howdah.db.plan import Call, GatheredCall, Pause, Plan, Row, call
from howdah.model.connection import Connection
from howdah.model.results import WhenFull

ROOM_TIMEOUT: Final = 30.0

FULL: Final = "JQ022"


def set_max_pending(
    context: Context,
    job_type: str,
    max_pending: int | None,
    *,
    when_full: WhenFull | None = None,
    conn: Connection | None = None,
) -> Plan[None]:
    """Sets how many jobs of a type may wait. It applies instead of the handler's ``max_pending``. Jobs that wait already stay.

    max_pending: None resets it: then the handler's applies again, if it has one.
    when_full: what ``enqueue`` does when so many wait: "raise", "wait" or "drop_oldest"; the handler's if not given.
    """
    yield from call(
        "set_max_pending",
        job_type=options.job_type(job_type),
        max_pending=None if max_pending is None else options.integer(max_pending, "max_pending", least=1),
        when_full=None if when_full is None else options.when_full(when_full),
    )


def room_timeout_of(value: Seconds | None) -> float:
    return ROOM_TIMEOUT if value is None else options.span(value, "room_timeout").total_seconds()


def with_room(
    step: Call | GatheredCall, count: int, timeout: float, conn: Connection | None, enqueued: int = 0
) -> Plan[list[Row]]:
    """Sends a call that adds jobs, and again when there is room for them, if producers of their type wait for it.

    enqueued: how many jobs the caller has added before, for the error.
    """
    rows: list[Row]
    backoff, waits_until = Backoff(longest=1.0), None
    while True:
        try:
            rows = yield step
        except psycopg.Error as error:
            if error.sqlstate != FULL or conn is not None:
                raise
            refusal = error
        else:
            return rows
        detail: dict[str, Any] = json.loads(refusal.diag.message_detail or "{}")
        if detail["when_full"] != "wait" or not detail["fits"]:
            if detail["counted"]:
                # The count was rolled back with the call. This one is kept, and spares the next calls theirs.
                yield from _has_room(detail["job_type"], count)
            raise queue_full(refusal, enqueued=enqueued) from refusal
        waits_until = waits_until or time.monotonic() + timeout
        while True:
            left = waits_until - time.monotonic()
            if left <= 0:
                hint = f"There was none within {timeout:g} seconds (room_timeout=)."
                raise queue_full(refusal, hint=hint, enqueued=enqueued) from refusal
            yield Pause(min(backoff.next(), left))
            if (yield from _has_room(detail["job_type"], count)):
                break


def _has_room(job_type: str, count: int) -> Plan[bool]:
    (row,) = yield from call("has_room", job_type=job_type, count=count)
    return bool(row["has_room"])
