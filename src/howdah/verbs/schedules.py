"""The verbs for schedules, and the check that fires those that are due.

A schedule is a row, and its ``next_run_at`` is the fence: a worker passes the value that it read, and the database adds the
jobs and moves ``next_run_at`` in one transaction, or does nothing because another worker has. So any number of workers may
check, and there is no leader.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any, Final

import psycopg

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.checks.values import stored_data, stored_mapping
from howdah.db.plan import Plan, Row, call, read
from howdah.errors import InvalidOption, ScheduleNotFound
from howdah.handlers.retry import AnyPolicy, as_data, attempts_of
from howdah.model.connection import Connection
from howdah.model.failure import describe
from howdah.model.job import Job
from howdah.model.schedule import Missed, Schedule, schedule_of
from howdah.verbs import cron as fires
from howdah.verbs.both import VerbGroup, both, name_verbs
from howdah.verbs.cron import Cron, Due, Every, Rhythm
from howdah.verbs.operate import get, now

MAX_NAME_LENGTH: Final = 100

_BATCH: Final = 100
# Our own, values out of range, constraints: about this schedule. Anything else is about the database.
_REFUSALS: Final = ("JQ", "22", "23")


@dataclasses.dataclass(frozen=True, slots=True)
class FireReport:
    """The result of firing the schedules that are due.

    fired: jobs added. skipped: fires left out, as missed or because a job of an earlier one is live.
    next_in: seconds until the next fire of any schedule; None if there is none.
    errors: schedules that could not be read or fired, each with the reason. The others fire all the same.
    """

    fired: int
    skipped: int
    next_in: float | None
    errors: tuple[tuple[str, str], ...] = ()


# The verbs


def schedule(
    context: Context,
    name: str,
    job_type: str,
    data: Any = None,
    *,
    cron: str | None = None,
    every: Seconds | None = None,
    timezone: str = "UTC",
    missed: Missed = "last",
    overlap: bool = True,
    priority: int | None = None,
    max_attempts: int | None = None,
    timeout: Seconds | None = None,
    retry_policy: AnyPolicy | None = None,
    conn: Connection | None = None,
) -> Plan[Schedule]:
    """Creates a schedule, or changes the one of this name.

    cron: such as ``"30 6 * * MON-FRI"``; a sixth field in front is seconds. Or ``"@daily"`` and the like.
    every: instead of cron, a duration of at least a second, counted from now.
    timezone: the time zone of the cron expression, such as ``"Europe/Berlin"``.
    missed: which fires are made up for, if no worker was running: ``"none"``, the ``"last"`` one or ``"all"``.
    overlap: False skips a fire while the job of an earlier one has not ended.
    priority, max_attempts, timeout, retry_policy: as in ``enqueue``, for each of its jobs.

    If its times and its time zone do not change, neither do its next and last run. A paused schedule stays paused.
    """
    rhythm = fires.check(cron, every, timezone)
    max_attempts = attempts_of(retry_policy) if max_attempts is None else max_attempts
    arguments = {
        "name": _name(name),
        "job_type": options.job_type(job_type),
        "data": stored_data(context, job_type, data),
        "cron": rhythm.expression if isinstance(rhythm, Cron) else None,
        "every": rhythm.span if isinstance(rhythm, Every) else None,
        "timezone": timezone,
        "missed": fires.missed_policy(missed),
        "overlap": _boolean(overlap, "overlap"),
        "priority": None if priority is None else options.integer(priority, "priority"),
        "max_attempts": None if max_attempts is None else options.integer(max_attempts, "max_attempts", least=1),
        "timeout": None if timeout is None else options.span(timeout, "timeout", positive=True),
        "retry_policy": None if retry_policy is None else stored_mapping(as_data(retry_policy), "retry_policy"),
    }
    rows = yield from call("schedule", **arguments, next_run_at=_next(rhythm, (yield from now())))
    return schedule_of(rows[0], context.codec)


def list_schedules(context: Context, *, conn: Connection | None = None) -> Plan[list[Schedule]]:
    """All schedules, by name."""
    rows = yield from read("schedules", name=None)
    return [schedule_of(row, context.codec) for row in rows]


def get_schedule(context: Context, name: str, *, conn: Connection | None = None) -> Plan[Schedule]:
    """The schedule as it is now. Raises ScheduleNotFound."""
    return schedule_of((yield from _row(name)), context.codec)


def pause_schedule(context: Context, name: str, *, conn: Connection | None = None) -> Plan[bool]:
    """Stops the schedule from firing. False: it was paused already. Raises ScheduleNotFound."""
    rows = yield from call("pause_schedule", name=_name(name))
    return bool(rows[0]["pause_schedule"])


def resume_schedule(context: Context, name: str, *, conn: Connection | None = None) -> Plan[bool]:
    """Lets it fire again, from now on. Fires that it missed while paused are not made up for, with any ``missed``.

    False: it was not paused. Raises ScheduleNotFound.
    """
    row = yield from _row(name)
    rhythm = fires.rhythm(row["cron"], row["every"], row["timezone"])
    rows = yield from call("resume_schedule", name=row["name"], next_run_at=_next(rhythm, row["now"]))
    return bool(rows[0]["resume_schedule"])


def run_schedule(context: Context, name: str, *, conn: Connection | None = None) -> Plan[Job[Any]]:
    """Adds one job of the schedule now and returns it. Its next run does not change.

    If jobs must not overlap and one is live, that one is returned, with ``created=False``. A paused
    schedule can be run, too. Raises ScheduleNotFound.
    """
    answer = (yield from call("run_schedule", name=_name(name)))[0]
    job = yield from get(context, answer["job_id"])
    return dataclasses.replace(job, created=answer["created"])


def delete_schedule(context: Context, name: str, *, conn: Connection | None = None) -> Plan[bool]:
    """Deletes the schedule; the jobs that it added stay. False: there is none of this name."""
    rows = yield from call("delete_schedule", name=_name(name))
    return bool(rows[0]["delete_schedule"])


class Schedules(VerbGroup):
    """The schedules of a queue, as ``queue.schedules``. Each adds jobs of one type at its times."""

    set, aset = both(schedule)
    list, alist = both(list_schedules)
    get, aget = both(get_schedule)
    pause, apause = both(pause_schedule)
    resume, aresume = both(resume_schedule)
    run, arun = both(run_schedule)
    delete, adelete = both(delete_schedule)


name_verbs(Schedules)


def declare(name: str) -> Plan[None]:
    """Stores that a schedule is in the code of a worker that starts."""
    yield from call("declare_schedule", name=_name(name))


# Firing


def fire_due(context: Context) -> Plan[FireReport]:
    """Fires the schedules that are due, each in its own transaction, and returns when to check again."""
    fired, skipped = 0, 0
    errors: dict[str, str] = {}
    while True:
        known = len(errors)
        rows = yield from call("due_schedules", limit=_BATCH, leave_out=list(errors))
        for row in rows:
            try:
                added, left_out = yield from _fire(row)
            except _Unfit as reason:
                errors[row["name"]] = str(reason)
            else:
                fired, skipped = fired + added, skipped + left_out
        # Schedules that cannot fire stay due, and must not block the others.
        if len(rows) < _BATCH or len(errors) == known:
            break
    wait = (yield from call("next_fire", leave_out=list(errors)))[0]["next_fire"]
    next_in = None if wait is None else max(wait.total_seconds(), 0.0)
    if next_in == 0 and not (fired or skipped):
        # Due, and nothing was fired: another check at once would find the same.
        next_in = 1.0
    return FireReport(fired, skipped, next_in, tuple(errors.items()))


class _Unfit(Exception):
    """A schedule cannot be read or fired."""


def _fire(row: Row) -> Plan[tuple[int, int]]:
    """How many jobs a due schedule has added, and how many fires were left out."""
    due = _due(row)
    try:
        jobs = yield from call(
            "fire_schedule",
            name=row["name"],
            expected=row["next_run_at"],
            instants=list(due.instants),
            next_run_at=due.next_run_at,
        )
    except psycopg.errors.LockNotAvailable as error:
        # The other schedules need not wait for it.
        raise _Unfit(
            "another transaction has locked it, or a job with its key: howdah doctor names old ones"
        ) from error
    except psycopg.DatabaseError as error:
        if not (error.sqlstate or "").startswith(_REFUSALS):
            raise
        raise _Unfit(error.diag.message_primary or str(error)) from error
    if due.instants and not jobs:
        # Another worker has fired it, and reports it.
        return 0, 0
    added = sum(job["created"] for job in jobs)
    return added, due.skipped + len(jobs) - added


def _due(row: Row) -> Due:
    try:
        rhythm = fires.counted_from(fires.rhythm(row["cron"], row["every"], row["timezone"]), row["next_run_at"])
        first = row["next_run_at"] if row["next_run_known"] else fires.after(rhythm, row["next_run_at"])
        return Due((), None, 0) if first is None else fires.due(rhythm, first, row["now"], row["missed"])
    except InvalidOption as error:
        raise _Unfit(str(error)) from error
    except Exception as error:
        # Any client may write rows: nothing in one may block the others.
        raise _Unfit(describe(error)) from error


# What the verbs share


def _row(name: str) -> Plan[Row]:
    rows = yield from read("schedules", name=_name(name))
    if not rows:
        raise ScheduleNotFound(f"there is no schedule {name!r} in this schema")
    return rows[0]


def _next(rhythm: Rhythm, now: datetime) -> datetime | None:
    """The next run, for the database: it cannot evaluate cron. For a duration it computes it itself, by its own clock."""
    return fires.after(rhythm, now) if isinstance(rhythm, Cron) else None


def _name(value: object) -> str:
    return options.name(value, "name", MAX_NAME_LENGTH)


def _boolean(value: object, option: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"{option} is True or False, not {options.shown(value)}")
    return value
