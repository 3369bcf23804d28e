"""The verbs for a worker loop of one's own: claim jobs, and end them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg.types.json import Jsonb

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.checks.values import stored_json, stored_text
from howdah.db.plan import Plan, Row, call
from howdah.errors import InvalidOption, LeaseLost
from howdah.model.connection import Connection
from howdah.model.failure import describe, path_of, traceback_of
from howdah.model.job import Job, Status, from_row, why_unreadable
from howdah.verbs.inputs import with_inputs
from howdah.verbs.maps import advance_all

UNREADABLE_DELAY: Final = 60.0
"""Seconds until a job that could not be read is tried again: by then a worker with the right key may be there."""


def claim(
    context: Context,
    job_types: Sequence[str],
    batch_size: int = 10,
    worker_id: str | None = None,
    *,
    lease: Seconds | None = None,
    conn: Connection | None = None,
) -> Plan[list[Job[Any]]]:
    """Claims up to ``batch_size`` due jobs of these types, in the order of their priority.

    Each is held until it is completed, failed or released, or until ``lease`` (10 minutes) has passed
    without ``start`` or ``progress``. Then it can be claimed again, and this claim's writes are refused.

    The data of a job of a workflow have the results of other jobs that are among its arguments. A claim that finds no job does what is
    left to do for workflows, such as adding the jobs of maps, and looks once more; with ``conn=`` it does not.
    """
    asked = {
        "worker_id": context.worker_id if worker_id is None else options.name(worker_id, "worker_id", 100),
        "job_types": options.job_types(job_types),
        "batch_size": options.integer(batch_size, "batch_size", least=0, most=100_000),
        "lease": None if lease is None else options.span(lease, "lease", positive=True),
    }
    rows = yield from call("claim", **asked)
    # In the caller's transaction, the locks of that work would last until its end.
    if not rows and conn is None and batch_size and (yield from advance_all(context)):
        rows = yield from call("claim", **asked)
    waiting = [bool(row["inputs"]) for row in rows]
    claimed = [from_row(row, context.codec, context.home) for row in rows]
    if any(waiting):
        some = [job for job, waits in zip(claimed, waiting, strict=True) if waits]
        claimed = yield from with_inputs(context, None, (), claimed, some)
    jobs: list[Job] = []
    for job in claimed:
        if (reason := why_unreadable(job)) is None:
            jobs.append(job)
        else:
            # One job that cannot be read must not fail the claim of the others.
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
    """Stores data that the next attempt of a held job finds in ``job.resumed``, and renews its lease. Raises LeaseLost."""
    stored = Jsonb(None) if data is None else stored_json(context, data, "checkpoint")
    rows = yield from call("checkpoint", id=fence(job)["ids"][0], token=job.token, checkpoint=stored)
    held(job, rows if rows[0]["checkpoint"] else [], "store a checkpoint of")


def complete(context: Context, job: Job, result: Any = None, *, conn: Connection | None = None) -> Plan[None]:
    """Ends a held job as completed. Raises LeaseLost.

    With ``conn=``, the completion is part of the caller's transaction: effect and completion commit
    together, or not at all.
    """
    claim = fence(job)
    known = context.known.get(job.job_type)
    encoded = result if known is None else known.encode_result(result)
    stored = None if encoded is None else [stored_json(context, encoded, "result")]
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
    due = options.due(run_at, delay)
    rows = yield from call(
        "fail",
        **fence(job),
        errors=[stored_text(context, describe(error))],
        tracebacks=[stored_text(context, traceback_of(error))],
        run_ats=[due["run_at"]],
        delays=[due["delay"]],
        give_ups=[give_up],
        exceptions=[path_of(error)],
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
    """Runs a running job again later, without counting an attempt. Raises LeaseLost."""
    due = options.due(run_at, delay)
    rows = yield from call("snooze", **fence(job), run_ats=[due["run_at"]], delays=[due["delay"]])
    held(job, rows, "snooze")


def release(context: Context, job: Job, *, interrupted: bool = False, conn: Connection | None = None) -> Plan[None]:
    """Makes a claimed job pending again, without counting an attempt. Raises LeaseLost.

    A job that was started can be released as ``interrupted``, a limited number of times.
    """
    held(job, (yield from call("release", **fence(job), interrupted=interrupted)), "release")


def fence(job: Job) -> dict[str, list[Any]]:
    """The id and the token that prove the claim."""
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
