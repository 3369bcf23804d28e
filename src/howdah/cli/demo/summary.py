"""How a demo went, read back from the database."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.text import Text

from howdah.cli.demo.view import STYLES
from howdah.cli.demo.workload import Kind
from howdah.cli.output import plain, table, text
from howdah.job import Job
from howdah.queue import JobQueue


@dataclasses.dataclass(frozen=True, slots=True)
class KindSummary:
    """How the jobs of one priority fared; times are since the first job was enqueued."""

    priority: str
    job_type: str
    jobs: int
    completed: int
    failed: int
    cancelled: int
    retries: int
    first_start_ms: int | None
    last_end_ms: int | None


def read_back(queue: JobQueue, kinds: Mapping[str, Kind]) -> list[KindSummary]:
    """A summary for each kind, the highest priority first."""
    by_type: collections.defaultdict[str, list[Job]] = collections.defaultdict(list)
    for job in _jobs(queue, list(kinds)):
        by_type[job.job_type].append(job)
    began = min(job.created_at for jobs in by_type.values() for job in jobs)
    return [_summary(kind, job_type, by_type[job_type], began) for job_type, kind in kinds.items()]


def as_json(summaries: Sequence[KindSummary]) -> dict[str, Any]:
    return {
        "priorities": [plain(summary) for summary in summaries],
        "high_priority_first": high_priority_first(summaries),
    }


def high_priority_first(summaries: Sequence[KindSummary]) -> bool:
    """Whether each priority was begun and done before the next one."""
    return all(
        _in_order(higher.first_start_ms, lower.first_start_ms) and _in_order(higher.last_end_ms, lower.last_end_ms)
        for higher, lower in pairwise(summaries)
    )


def print_summary(console: Console, summaries: Sequence[KindSummary], kinds: Iterable[Kind]) -> None:
    headers = ("priority", "jobs", "completed", "failed", "cancelled", "retries", "first start", "last end")
    made = table(*headers, right=headers[1:])
    for summary, kind in zip(summaries, kinds, strict=True):
        made.add_row(
            text(summary.priority, f"bold {STYLES[kind.priority]}"),
            text(summary.jobs),
            text(summary.completed, "green"),
            text(summary.failed, "red" if summary.failed else "dim"),
            text(summary.cancelled, "magenta" if summary.cancelled else "dim"),
            text(summary.retries, "" if summary.retries else "dim"),
            text(_milliseconds(summary.first_start_ms)),
            text(_milliseconds(summary.last_end_ms)),
        )
    console.print(made)
    console.print()
    console.print(_verdict(summaries))


def _jobs(queue: JobQueue, job_types: Sequence[str]) -> Iterable[Job]:
    stats = queue.stats()
    expected = sum(
        counts.pending + counts.claimed + counts.running + counts.completed + counts.failed + counts.cancelled
        for job_type, counts in stats.items()
        if job_type in job_types
    )
    jobs: list[Job] = []
    page = queue.list(job_type=job_types, limit=1_000)
    jobs.extend(page)
    # Older runs lie behind this one's jobs: no need to look through them.
    while page.next is not None and len(jobs) < expected:
        page = queue.list(job_type=job_types, limit=1_000, before=page.next)
        jobs.extend(page)
    return jobs


def _summary(kind: Kind, job_type: str, jobs: Sequence[Job], began: datetime) -> KindSummary:
    statuses = collections.Counter(job.status for job in jobs)
    return KindSummary(
        priority=kind.priority.name,
        job_type=job_type,
        jobs=len(jobs),
        completed=statuses["completed"],
        failed=statuses["failed"],
        cancelled=statuses["cancelled"],
        retries=sum(max(job.attempts - 1, 0) for job in jobs),
        first_start_ms=_after(began, min((job.started_at for job in jobs if job.started_at), default=None)),
        last_end_ms=_after(began, max((job.finished_at for job in jobs if job.finished_at), default=None)),
    )


def _after(began: datetime, moment: datetime | None) -> int | None:
    return None if moment is None else round((moment - began).total_seconds() * 1000)


def _milliseconds(count: int | None) -> str:
    return "" if count is None else f"{count:,} ms"


def _in_order(earlier: int | None, later: int | None) -> bool:
    return earlier is None or later is None or earlier <= later


def _verdict(summaries: Sequence[KindSummary]) -> Text:
    first, last = summaries[0], summaries[-1]
    if high_priority_first(summaries):
        return Text(f"High priority went first: {first.priority}, enqueued last, was done before {last.priority}.")
    return Text("There were too few jobs for the priorities to show: they all ran at once. Try more of them.")
