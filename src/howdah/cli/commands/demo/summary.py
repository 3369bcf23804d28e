"""How a demo went, read back from the database: what became of the jobs of each type."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rich.table import Table

from howdah.cli.arguments.duration import format_span
from howdah.cli.commands.demo.view import STYLES
from howdah.cli.commands.demo.workload import Kind
from howdah.cli.render.output import table, text
from howdah.model.job import Job
from howdah.queue import JobQueue


@dataclasses.dataclass(frozen=True, slots=True)
class TypeSummary:
    """How the jobs of one type fared. They waited from when they were due, or from the first start of any job."""

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


def read_back(queue: JobQueue) -> list[Job]:
    """All jobs of the schema."""
    jobs: list[Job] = []
    page = queue.list(limit=1_000)
    jobs.extend(page)
    while page.next is not None:
        page = queue.list(limit=1_000, before=page.next)
        jobs.extend(page)
    return jobs


def summaries(kinds: Sequence[Kind], jobs: Sequence[Job]) -> list[TypeSummary]:
    """A summary for each kind, in their order."""
    began = min((job.started_at for job in jobs if job.started_at), default=None)
    return [_summary(kind, [job for job in jobs if job.job_type == kind.job_type], began) for kind in kinds]


def as_table(kinds: Sequence[Kind], made: Sequence[TypeSummary]) -> Table:
    numbers = ("prio", "done", "tries", "waited")
    shown = table("type", "prio", "runs in", "done", "otherwise", "tries", "waited", right=numbers)
    for kind, summary in zip(kinds, made, strict=True):
        shown.add_row(
            text(summary.job_type, f"bold {STYLES[kind.priority]}"),
            text(summary.priority),
            text(summary.runs),
            text(f"{summary.completed}/{summary.jobs}", "green"),
            text(", ".join(_otherwise(summary)), "red" if summary.failed else "magenta"),
            text(summary.attempts, "yellow" if summary.attempts > summary.jobs else ""),
            text(_waited(summary)),
        )
    return shown


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


def _otherwise(summary: TypeSummary) -> Iterator[str]:
    for count, how in ((summary.failed, "failed"), (summary.cancelled, "cancelled")):
        if count:
            yield f"{count} {how}"
    left = summary.jobs - summary.completed - summary.failed - summary.cancelled
    if left:
        yield f"{left} not ended"


def _waited(summary: TypeSummary) -> str:
    if summary.least_wait is None or summary.most_wait is None:
        return ""
    least, most = format_span(summary.least_wait), format_span(summary.most_wait)
    return least if least == most else f"{least} to {most}"
