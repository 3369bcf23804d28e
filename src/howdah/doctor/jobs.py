"""Jobs that are due and not claimed, jobs that no sweep has ended, failing types, and schedules that do not fire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from howdah.db.plan import Row
from howdah.doctor.catalogue import finding
from howdah.doctor.finding import Finding, Patient
from howdah.doctor.words import count, listed, span
from howdah.errors import InvalidOption
from howdah.verbs import cron

RESTART: Final = 30.0
"""Seconds that a type may be without a worker: two leases, enough to restart one."""
LATE: Final = 60.0
FAILURES: Final = 20
FAILING_SHARE: Final = 0.5

_OVERDUE: Final = {
    "orphaned": ("job-orphaned", "is still held by a dead worker", "are still held by dead workers"),
    "lease": ("lease-passed", "is still held after its lease expired", "are still held after their leases expired"),
    "deadline": ("deadline-passed", "is still running after its deadline", "are still running after their deadlines"),
    "cancel": ("cancel-overdue", "was cancelled and is still running", "were cancelled and are still running"),
    "expired": ("job-expired", "has expired and was not ended", "have expired and were not ended"),
    "spent": ("job-spent", "is waiting with no attempts left", "are waiting with no attempts left"),
}


def due(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["paused_for"] is not None:
            yield from _paused(patient, row)
        elif row["workers"]:
            yield from _stuck(patient, row)
        elif row["seconds"] >= RESTART and not _has_a_loop_of_its_own(row):
            yield from _unhandled(patient, row)


def _paused(patient: Patient, row: Row) -> Iterator[Finding]:
    waited = min(row["paused_for"], row["seconds"])
    if waited >= patient.patience:
        because = f" ({row['paused_because']})" if row["paused_because"] else ""
        yield finding(
            "type-paused",
            what=f"{count(row['jobs'], 'job')} of type {row['job_type']} {_are(row)} due, and the type has been paused for"
            f" {span(row['paused_for'])}{because}",
            cause=f"the pause of {row['job_type']}",
            remedy=patient.command("resume", row["job_type"]),
            **_lane(row),
        )


def _stuck(patient: Patient, row: Row) -> Iterator[Finding]:
    if row["moves"] or row["seconds"] < patient.patience:
        return
    if row["is_full"]:
        why = "every slot of its workers is taken"
        remedy = "run more workers or give them more slots; or run them with --fair-share 0.1, so that low priorities are not starved"
    else:
        why = "its workers have free slots"
        remedy = "read the logs of these workers, and restart them"
    yield finding(
        "type-stuck",
        what=f"{count(row['jobs'], 'job')} of type {row['job_type']} {_are(row)} due, the first for {span(row['seconds'])}; none"
        f" was claimed lately, and {why}",
        cause=f"worker {listed(row['workers'])}",
        remedy=remedy,
        workers=row["workers"],
        **_lane(row),
    )


def _unhandled(patient: Patient, row: Row) -> Iterator[Finding]:
    if not row["living"]:
        why = "no worker is alive"
    elif row["living"] == 1:
        why = "the only live worker has no handler for it"
    else:
        why = f"none of the {row['living']:,} live workers has a handler for it"
    yield finding(
        "type-unhandled",
        what=f"{count(row['jobs'], 'job')} of type {row['job_type']} {_are(row)} due, the first for {span(row['seconds'])}, and {why}",
        cause=f"type {row['job_type']}{'' if row['declared'] else ', for which no worker ever had a handler'}",
        remedy=f"{patient.command('work', 'MODULE:QUEUE')}  # with a handler for this type. If the name is wrong:"
        f" {patient.command('list', '--type', row['job_type'], '--status', 'pending')}, and {patient.command('cancel', 'ID')}",
        **_lane(row),
    )


def _has_a_loop_of_its_own(row: Row) -> bool:
    """A loop that claims by itself need not register: only its recent completions show that it exists."""
    return bool(row["moves"] or (row["completed_lately"] and not row["declared"]))


def _lane(row: Row) -> dict[str, object]:
    return {"job_type": row["job_type"], "jobs": row["jobs"], "seconds": row["seconds"]}


def _are(row: Row) -> str:
    return "is" if row["jobs"] == 1 else "are"


def overdue(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        code, one, many = _OVERDUE[row["cause"]]
        holders = f"worker {listed(row['workers'])}" if row["workers"] else f"job {row['first_id']}"
        yield finding(
            code,
            what=f"{count(row['jobs'], 'job')} {one if row['jobs'] == 1 else many}, for {span(row['seconds'])}",
            cause=holders,
            remedy=patient.sweep(row["living"]),
            jobs=row["jobs"],
            first_id=row["first_id"],
            job_types=row["job_types"],
            workers=row["workers"] or [],
            seconds=row["seconds"],
        )


def failures(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["failed"] >= FAILURES and row["failed"] >= FAILING_SHARE * row["ended"]:
            yield finding(
                "type-failing",
                what=f"{row['failed']:,} of {row['ended']:,} jobs of type {row['job_type']} that ended today or yesterday"
                " have failed",
                cause=f"type {row['job_type']}",
                remedy=f"{patient.command('list', '--type', row['job_type'], '--status', 'failed')}  #"
                f" {patient.command('show', 'ID')} has the error; once its cause is fixed, {patient.command('retry', 'ID')}",
                job_type=row["job_type"],
                failed=row["failed"],
                ended=row["ended"],
            )


def schedules(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["late"] is not None and row["late"] >= LATE:
            yield _late(patient, row)
        elif row["living"] and not row["is_handled"] and not row["was_worked_on"]:
            yield finding(
                "schedule-unhandled",
                what=f"schedule {row['name']} adds jobs of type {row['job_type']}, which no live worker handles",
                cause=f"schedule {row['name']}",
                remedy=f"start a worker with a handler for it, or {patient.command('schedule', 'delete', row['name'])}",
                schedule=row["name"],
                job_type=row["job_type"],
            )
        if row["left_code"] and row["declared"] >= patient.patience:
            yield finding(
                "schedule-left-code",
                what=f"schedule {row['name']} was made by @queue.periodic, and is no longer in the code of any live worker; it still fires",
                cause=f"schedule {row['name']}",
                remedy=f"{patient.command('schedule', 'delete', row['name'])}  # or start a worker whose code has it",
                schedule=row["name"],
                job_type=row["job_type"],
            )


def workflows(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        about = f"{count(row['nodes'], 'node')} of {count(row['workflows'], 'workflow')} ({listed(row['names'])})"
        one = row["nodes"] == 1
        if row["cause"] == "lost":
            yield finding(
                "workflow-stuck",
                what=f"{about} {'waits' if one else 'wait'} for {count(row['jobs'], 'job')} that {'is' if row['jobs'] == 1 else 'are'} gone",
                cause="jobs that were removed from the tables below jobs, or were not restored",
                remedy=f"SELECT {patient.schema}.cancel_workflow('{row['first_id']}'); -- retry_workflow continues it from there",
                workflow=row["first_id"],
            )
        else:
            why = "no worker is alive" if not row["living"] else "no worker has advanced them"
            yield finding(
                "workflow-behind",
                what=f"{about} {'has' if one else 'have'} had nothing left to wait for, for a minute, and {why}",
                cause="workers, which advance workflows after each commit",
                remedy=patient.command("work", "MODULE:QUEUE")
                if not row["living"]
                else "read the logs of the workers: look for service_failed",
                workflow=row["first_id"],
            )


def _late(patient: Patient, row: Row) -> Finding:
    reason = _unreadable(row)
    if reason is not None:
        why, remedy = (
            f"cannot be read: {reason}",
            f"correct it: {patient.command('schedule', 'add', row['name'], row['job_type'])} …",
        )
    elif not row["living"]:
        why, remedy = "waits for a worker: none is alive", patient.command("work", "MODULE:QUEUE")
    else:
        why, remedy = "none of the live workers fired it", "look for schedule_failed in their logs"
    return finding(
        "schedule-overdue",
        what=f"schedule {row['name']} should have fired {span(row['late'])} ago, and {why}",
        cause=f"schedule {row['name']}",
        remedy=remedy,
        schedule=row["name"],
        seconds=row["late"],
    )


def _unreadable(row: Row) -> str | None:
    try:
        cron.rhythm(row["cron"], row["every"], row["timezone"])
    except InvalidOption as error:
        return str(error)
    return None
