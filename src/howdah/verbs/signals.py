"""The verbs for signals and steps: ``signal`` and ``steps`` of the queue, and the calls of a handler that waits or records a step."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import JobOrId
from howdah.checks.values import stored_json
from howdah.db.plan import Pause, Plan, Row, call, read
from howdah.model.connection import Connection
from howdah.model.job import Job
from howdah.model.step import SignalResult, Step, step_of
from howdah.verbs.operate import get

WaitState: TypeAlias = Literal["done", "timed out", "waiting", "lost"]

LONGEST_PAUSE: Final = 1.0
"""Seconds between tries to wait for a signal that another transaction is sending."""


def signal(
    context: Context, name: str, data: Any = None, *, key: str | None = None, conn: Connection | None = None
) -> Plan[SignalResult]:
    """Sends a signal: wakes all jobs that wait for this name and key, or is kept for the wait that comes first.

    data: any JSON value, which ``job.wait_signal`` returns. key: what the signal is about, such as the id of an order.
    Kept signals of a name and key are taken first in, first out; they expire after ``archive_retention`` (14 days).
    With ``conn=`` it is sent when the caller's transaction commits; until then, others that send or take signals of this name
    and key wait. Raises SignalBusy when they have waited for 5 seconds.
    """
    rows = yield from call(
        "signal",
        name=signal_name(name),
        data=stored(context, data, "the data of a signal"),
        key=signal_key(key),
    )
    return SignalResult(rows[0]["woken"], rows[0]["kept"])


def steps(context: Context, job: JobOrId, *, conn: Connection | None = None) -> Plan[list[Step]]:
    """The steps that attempts of a job have recorded, and what it waits for, in order. Raises JobNotFound."""
    job_id = options.job_id(job)
    rows = yield from read("steps", id=job_id)
    if not rows:
        yield from get(context, job_id)
    return [step_of(row, context.codec) for row in rows]


def signal_name(name: str) -> str:
    return options.name(name, "the name of a signal", options.MAX_NAME_LENGTH)


def signal_key(key: str | None) -> str | None:
    return None if key is None else options.name(key, "the key of a signal", options.MAX_KEY_LENGTH)


# For a running attempt


def steps_of(job: Job) -> Plan[list[Row]]:
    """The name, the state and the stored result of each step of a job."""
    return (yield from call("steps_of", id=job.id))


def record_step(context: Context, job: Job, name: str, result: Any) -> Plan[bool]:
    """Record the result of a step. False: the claim is over."""
    kept = stored(context, result, f"the result of the step {name!r}")
    rows = yield from call("record_step", id=job.id, token=job.token, name=name, result=kept)
    return bool(rows[0]["record_step"])


def wait_signal(
    job: Job, step: str, name: str, key: str | None, timeout: timedelta | None
) -> Plan[tuple[WaitState, Any]]:
    """What has become of the wait, and the stored data of the signal. waiting: the attempt has ended."""
    pause = 0.05
    while True:
        (row,) = yield from call(
            "wait_signal", id=job.id, token=job.token, step=step, name=name, key=key, timeout=timeout
        )
        if row["state"] != "busy":
            return row["state"], row["data"]
        # The connection goes back to the pool meanwhile.
        yield Pause(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE)


def sleep_until(job: Job, step: str, moment: datetime | None, delay: timedelta | None) -> Plan[WaitState]:
    rows = yield from call("sleep_until", id=job.id, token=job.token, step=step, until=moment, delay=delay)
    state: WaitState = rows[0]["sleep_until"]
    return state


def stored(context: Context, value: Any, name: str) -> Any:
    """The value as a parameter; None stays None."""
    return None if value is None else stored_json(context, value, name)
