"""How the jobs of each type ended, read back from the database."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rich.table import Table

from howdah.cli.arguments.duration import format_duration
from howdah.cli.commands.demo.workload import STYLES, Kind
from howdah.cli.render.output import table, text
from howdah.model.job import Job
from howdah.queue import JobQueue


@dataclasses.dataclass(frozen=True, slots=True)
class TypeSummary:
    """The jobs of one type. A wait counts from when a job was due, or from the first start of any job."""

    job_type: str
    priority: int
    runs: str
    jobs: int
    completed: int
    failed: int
    cancelled: int
    attempts: int
    least_wait: timedelta | None
    most_wait: timedelta | None

    @property
    def left(self) -> int:
        return self.jobs - self.completed - self.failed - self.cancelled


def read_back(queue: JobQueue) -> list[Job]:
    """All jobs of the schema."""
    page = queue.list(limit=1_000)
    jobs = list(page)
    while page.next is not None:
        page = queue.list(limit=1_000, before=page.next)
        jobs.extend(page)
    return jobs


def summaries(kinds: Sequence[Kind], jobs: Sequence[Job]) -> list[TypeSummary]:
    began = min((job.started_at for job in jobs if job.started_at), default=None)
    return [_summary(kind, [job for job in jobs if job.job_type == kind.job_type], began) for kind in kinds]


def as_table(kinds: Sequence[Kind], made: Sequence[TypeSummary]) -> Table:
    numbers = ("prio", "done", "tries", "waited")
    shown = table("type", "prio", "runs in", "done", "otherwise", "tries", "waited", right=numbers)
    for kind, summary in zip(kinds, made, strict=True):
        counts = {"failed": summary.failed, "cancelled": summary.cancelled, "not ended": summary.left}
        shown.add_row(
            text(summary.job_type, f"bold {STYLES[kind.priority]}"),
            text(summary.priority),
            text(summary.runs),
            text(f"{summary.completed}/{summary.jobs}", "green"),
            text(", ".join(f"{n} {how}" for how, n in counts.items() if n), "red" if summary.failed else "magenta"),
            text(summary.attempts, "yellow" if summary.attempts > summary.jobs else ""),
            text(_waited(summary)),
        )
    return shown


def conclusion(kinds: Sequence[Kind], made: Sequence[TypeSummary]) -> tuple[bool, str]:
    """Whether every job is there and has ended, and a sentence about it."""
    total, completed, failed, cancelled, left = (
        sum(getattr(each, name) for each in made) for name in ("jobs", "completed", "failed", "cancelled", "left")
    )
    missing = sum((kind.count or 0) - each.jobs for kind, each in zip(kinds, made, strict=True) if kind.count)
    ended = f"{completed:,} completed, {failed} failed for good, {cancelled} cancelled"
    if missing or left:
        return False, f"{missing} of the enqueued jobs are missing, and {left} have not ended: {ended}."
    return True, f"Nothing was lost: all {total:,} jobs have ended, {ended}."


def _summary(kind: Kind, jobs: Sequence[Job], began: datetime | None) -> TypeSummary:
    statuses = collections.Counter(job.status for job in jobs)
    waits = list(_waits(jobs, began))
    return TypeSummary(
        job_type=kind.job_type,
        priority=kind.priority.value,
        runs=kind.runs,
        jobs=len(jobs),
        completed=statuses["completed"],
        failed=statuses["failed"],
        cancelled=statuses["cancelled"],
        attempts=sum(job.attempts for job in jobs),
        least_wait=min(waits, default=None),
        most_wait=max(waits, default=None),
    )


def _waits(jobs: Sequence[Job], began: datetime | None) -> Iterator[timedelta]:
    for job in jobs:
        if job.started_at is not None and began is not None:
            yield max(job.started_at - max(job.run_at, began), timedelta())


def _waited(summary: TypeSummary) -> str:
    if summary.least_wait is None or summary.most_wait is None:
        return ""
    least, most = format_duration(summary.least_wait), format_duration(summary.most_wait)
    return least if least == most else f"{least} to {most}"
