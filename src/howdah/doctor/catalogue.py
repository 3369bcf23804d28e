"""Everything that the doctor can find. docs/how-to/doctor.md shows this table."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from howdah.doctor.finding import Finding, Severity


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A kind of finding."""

    code: str
    severity: Severity
    meaning: str
    remedy: str


_ENTRIES: Final = (
    # The schema
    Entry("schema-missing", "error", "Howdah is not installed in this schema", "run howdah migrate"),
    Entry(
        "schema-outdated",
        "error",
        "the schema is older than this Howdah, or was made for an older PostgreSQL",
        "run howdah migrate",
    ),
    Entry("schema-newer", "warning", "the schema is newer than the Howdah that runs the doctor", "update Howdah here"),
    Entry(
        "schema-drift",
        "error",
        "an object of the schema differs from what this Howdah installs",
        "run howdah migrate --reinstall; undo changes of tables by hand",
    ),
    Entry(
        "open-to-public",
        "error",
        "every login of the database may call the queue's functions, or read its tables",
        "run howdah migrate",
    ),
    Entry("index-missing", "error", "an index is missing, so that claims read whole tables", "create it again"),
    Entry("index-invalid", "error", "an index is not used, because its creation failed", "rebuild it, or drop it"),
    # The server
    Entry("fsync-off", "error", "a crash of the machine may destroy the whole database", "turn fsync on"),
    Entry("full-page-writes-off", "error", "a crash of the machine may leave torn pages", "turn full_page_writes on"),
    Entry(
        "damaged-pages-zeroed",
        "error",
        "damaged pages are read as empty, and their jobs are lost",
        "turn zero_damaged_pages off",
    ),
    Entry(
        "commits-not-durable",
        "error",
        "a job whose enqueue was confirmed may be lost in a crash",
        "turn synchronous_commit on",
    ),
    Entry("table-unlogged", "error", "a crash empties a table of the queue", "make it logged"),
    Entry(
        "server-read-only",
        "error",
        "the server is a standby, or refuses writes: no job can be added or run",
        "connect to the primary",
    ),
    Entry(
        "tracking-off",
        "warning",
        "the server does not record what its sessions do, or what its tables need",
        "turn the setting on",
    ),
    Entry(
        "settings-harmful", "warning", "a setting interrupts or slows workers", "reset it for the role of the workers"
    ),
    Entry("clock-off", "warning", "the clocks of this machine and of the database differ", "synchronise the clocks"),
    Entry("connections-scarce", "error", "nearly all connections are in use", "close some, or allow more"),
    Entry(
        "connections-overcommitted",
        "warning",
        "the live workers need more connections than the server allows",
        "run fewer workers, or allow more connections",
    ),
    Entry(
        "pooler-in-transaction-mode",
        "warning",
        "notifications do not get through: workers and waiting clients poll",
        "connect directly, or in session mode",
    ),
    Entry(
        "notifications-piling-up",
        "error",
        "a session listens and does not read its notifications: the server's queue for them fills up",
        "end that session",
    ),
    Entry("slot-retains-wal", "warning", "an unused replication slot fills the disk", "drop it, or start its reader"),
    # What is in the way
    Entry("xmin-held", "warning", "an old transaction prevents the removal of dead rows", "end it"),
    Entry("table-locked", "error", "a session has locked a table that workers need", "end that session"),
    Entry(
        "advisory-lock-held",
        "warning",
        "a foreign session holds an advisory lock of the queue: workers poll, or migrations wait",
        "end that session",
    ),
    Entry("autovacuum-off", "error", "dead rows of a table of the queue are never removed", "turn autovacuum on"),
    Entry(
        "vacuum-behind",
        "warning",
        "a table has many dead rows, and its last vacuum was long ago",
        "vacuum it, and find out why autovacuum did not",
    ),
    Entry(
        "wraparound-near",
        "error",
        "a table has not been frozen for long; in the end the server refuses writes",
        "vacuum it",
    ),
    Entry(
        "live-bloated",
        "warning",
        "the table of live jobs takes many times the room that its jobs need",
        "rebuild its indexes, or rewrite it at a quiet time",
    ),
    Entry(
        "segments-late",
        "warning",
        "the archive's open segment was not closed in time, or an old one was not dropped",
        "run howdah prune, and end the transaction that blocks it",
    ),
    # Jobs
    Entry(
        "type-unhandled",
        "error",
        "jobs are due, and no live worker handles their type",
        "start a worker that has the handler",
    ),
    Entry("type-paused", "warning", "jobs of a paused type are due", "resume the type"),
    Entry(
        "type-stuck",
        "error",
        "jobs have been due for long, and live workers do not claim them",
        "give the workers more slots, or read their logs",
    ),
    Entry("job-orphaned", "error", "a dead worker still holds jobs", "start a worker, or run howdah recover"),
    Entry(
        "lease-passed",
        "error",
        "a lease has expired, and the job was not recovered",
        "start a worker, or run howdah recover",
    ),
    Entry(
        "deadline-passed", "error", "a job is still running after its deadline", "start a worker, or run howdah recover"
    ),
    Entry(
        "cancel-overdue",
        "warning",
        "a cancelled job is still running after its grace period",
        "start a worker, or run howdah recover",
    ),
    Entry("job-expired", "warning", "a job has expired, and was not ended", "start a worker, or run howdah recover"),
    Entry("job-spent", "warning", "a job is waiting with no attempts left", "start a worker, or run howdah recover"),
    Entry(
        "workflow-stuck",
        "error",
        "a workflow waits for jobs that are gone",
        "cancel it, and retry it",
    ),
    Entry("workflow-behind", "warning", "no worker does what is left to do for a workflow", "start a worker"),
    Entry(
        "type-failing",
        "warning",
        "at least half of the jobs of a type that ended today or yesterday have failed",
        "read their errors",
    ),
    Entry("schedule-overdue", "error", "a schedule did not fire in time", "start a worker, or correct the schedule"),
    Entry(
        "schedule-unhandled",
        "warning",
        "no live worker handles the type of a schedule",
        "start a worker that has the handler",
    ),
    Entry(
        "schedule-left-code",
        "warning",
        "a schedule was made by @queue.periodic, and is no longer in the code of any live worker",
        "delete it, or start a worker whose code has it",
    ),
    # Workers
    Entry(
        "worker-dead",
        "warning",
        "a dead worker is still listed, because no sweep has run",
        "start a worker, or run howdah recover",
    ),
    Entry(
        "loop-blocked",
        "warning",
        "a handler blocks the event loop of a worker",
        "make it a plain function, or await what blocks",
    ),
    Entry(
        "handlers-leaked",
        "warning",
        "handlers that lost their jobs are still running",
        "restart the worker, and make the handlers stop when asked",
    ),
    Entry(
        "versions-mixed",
        "warning",
        "workers of several versions run side by side, outside of a deployment",
        "restart the older ones",
    ),
)

CATALOGUE: Final = {entry.code: entry for entry in _ENTRIES}


def finding(code: str, *, what: str, cause: str, remedy: str, **details: Any) -> Finding:
    severity = CATALOGUE[code].severity
    return Finding(code=code, severity=severity, what=what, cause=cause, remedy=remedy, details=details)
