"""Everything that the doctor can find. The page docs/how-to/doctor.md shows this table."""

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
    Entry("schema-newer", "warning", "the schema is newer than the Howdah that asks", "update Howdah here"),
    Entry(
        "schema-drift",
        "error",
        "something is not as this Howdah installs it",
        "run howdah migrate --reinstall; what was changed in tables, undo by hand",
    ),
    Entry(
        "open-to-public",
        "error",
        "every login of the database may call functions of the queue, or read its tables",
        "run howdah migrate",
    ),
    Entry("index-missing", "error", "an index is not there, so that claims read whole tables", "create it again"),
    Entry("index-invalid", "error", "an index is not used, because making it has failed", "make it anew, or drop it"),
    # The server
    Entry("fsync-off", "error", "a crash of the machine may destroy the whole database", "turn fsync on"),
    Entry("full-page-writes-off", "error", "a crash of the machine may leave torn pages", "turn full_page_writes on"),
    Entry("damaged-pages-zeroed", "error", "damaged pages are read as empty, and their jobs are gone", "turn it off"),
    Entry(
        "commits-not-durable",
        "error",
        "a job whose enqueue was confirmed may be lost in a crash",
        "turn synchronous_commit on",
    ),
    Entry("table-unlogged", "error", "a table of the queue is emptied by a crash", "make it logged"),
    Entry(
        "server-read-only",
        "error",
        "a standby, or a server that refuses writes: no job can be added or run",
        "connect to the primary",
    ),
    Entry(
        "tracking-off",
        "warning",
        "the server does not note what its sessions do, or what its tables need",
        "turn it on",
    ),
    Entry(
        "settings-harmful", "warning", "a setting interrupts or slows workers", "reset it for the role of the workers"
    ),
    Entry("clock-off", "warning", "the clock of this machine is not the database's", "synchronise the clocks"),
    Entry("connections-scarce", "error", "nearly all connections are in use", "end some, or allow more"),
    Entry(
        "connections-overcommitted",
        "warning",
        "the living workers need more connections than there are",
        "run fewer, or allow more",
    ),
    Entry(
        "pooler-in-transaction-mode",
        "warning",
        "no notification comes through: workers and waiting clients poll",
        "connect directly, or in session mode",
    ),
    Entry(
        "notifications-piling-up",
        "error",
        "a listener does not take its notifications, and the queue for them fills",
        "end that session",
    ),
    Entry(
        "slot-retains-wal",
        "warning",
        "a replication slot that nobody reads fills the disk",
        "drop it, or start its reader",
    ),
    # What is in the way
    Entry("xmin-held", "warning", "an old transaction keeps dead rows from being removed", "end it"),
    Entry("table-locked", "error", "somebody has locked a table that workers need", "end that session"),
    Entry(
        "advisory-lock-held",
        "warning",
        "a session keeps an advisory lock of the queue to itself: others poll, or cannot migrate",
        "end that session",
    ),
    Entry("autovacuum-off", "error", "dead rows of a table of the queue are never removed", "turn autovacuum on"),
    Entry(
        "vacuum-behind",
        "warning",
        "there are many dead rows, and no vacuum came for long",
        "vacuum by hand, and see why none came",
    ),
    Entry(
        "wraparound-near",
        "error",
        "a table was not frozen for long; in the end the server stops to take writes",
        "vacuum it",
    ),
    Entry(
        "live-bloated",
        "warning",
        "the table of waiting jobs takes many times the room that its jobs need",
        "make its indexes anew, or rewrite it in a quiet moment",
    ),
    Entry(
        "segments-late",
        "warning",
        "the archive's open segment was not closed, or an old one not dropped, when it was time",
        "run howdah prune, and end the transaction in its way",
    ),
    # Jobs
    Entry(
        "type-unhandled",
        "error",
        "jobs are due, and no living worker handles their type",
        "start a worker that has the handler",
    ),
    Entry("type-paused", "warning", "jobs of a paused type are due", "resume it"),
    Entry(
        "lane-stuck",
        "error",
        "jobs are due for long, and living workers do not take them",
        "give the workers room, or look at their logs",
    ),
    Entry("job-orphaned", "error", "a worker that is gone still holds jobs", "start a worker, or run howdah recover"),
    Entry(
        "lease-passed",
        "error",
        "a lease has passed, and nobody has taken the job back",
        "start a worker, or run howdah recover",
    ),
    Entry("deadline-passed", "error", "a job runs on behind its deadline", "start a worker, or run howdah recover"),
    Entry(
        "cancel-overdue", "warning", "a cancelled job runs on behind its grace", "start a worker, or run howdah recover"
    ),
    Entry("job-expired", "warning", "a job has expired and is still there", "start a worker, or run howdah recover"),
    Entry(
        "job-spent",
        "warning",
        "a job has no attempts left and waits nevertheless",
        "start a worker, or run howdah recover",
    ),
    Entry(
        "type-failing",
        "warning",
        "at least half of the jobs of a type have failed, today or yesterday",
        "look at their errors",
    ),
    Entry("schedule-overdue", "error", "a schedule should have fired", "start a worker, or mend the schedule"),
    Entry(
        "schedule-unhandled",
        "warning",
        "no living worker handles the type of a schedule",
        "start a worker that has the handler",
    ),
    Entry(
        "schedule-left-code",
        "warning",
        "a schedule was made by @queue.periodic, and no live worker has it in its code any more",
        "delete it, or start a worker whose code has it",
    ),
    # Workers
    Entry(
        "worker-dead",
        "warning",
        "a dead worker is still listed, because nobody sweeps",
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
        "handlers that were told to stop run on without their jobs",
        "restart the worker; make them end",
    ),
    Entry(
        "versions-mixed",
        "warning",
        "workers of several versions run side by side, and no deployment is under way",
        "restart the older ones",
    ),
)

CATALOGUE: Final = {entry.code: entry for entry in _ENTRIES}


def finding(code: str, *, what: str, culprit: str, remedy: str, **details: Any) -> Finding:
    severity = CATALOGUE[code].severity
    return Finding(code=code, severity=severity, what=what, culprit=culprit, remedy=remedy, details=details)
