"""All jobs of a queue, of which tests have few; and jobs in the messages of failed tests: short, and without control characters."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias

from howdah.checks import options
from howdah.handlers.handler import Handler
from howdah.model.job import Job
from howdah.queue import JobQueue

JobType: TypeAlias = str | Handler[Any, Any, Any]
"""The name of a type, or its handler."""

_PAGE: Final = 1_000


def name_of(job_type: JobType) -> str:
    return job_type.name if isinstance(job_type, Handler) else options.job_type(job_type)


def all_jobs(queue: JobQueue, job_type: str | None = None) -> list[Job]:
    """All jobs, the oldest first."""
    found: list[Job] = []
    before: uuid.UUID | None = None
    while True:
        page = queue.list(job_type=job_type, before=before, limit=_PAGE)
        found += page
        if page.next is None:
            return sorted(found, key=lambda job: (job.created_at, job.id))
        before = page.next


# Jobs as text

MOST: Final = 10
_LONGEST: Final = 200


def listed(jobs: Sequence[Job]) -> str:
    if not jobs:
        return "Nothing was."
    lines = [f"  {described(job)}" for job in jobs[-MOST:]]
    if len(jobs) > MOST:
        lines.insert(0, f"  … {len(jobs) - MOST} before these")
    return "\n".join(["These jobs were, the newest last:", *lines])


def described(job: Job) -> str:
    parts = [f"{printable(job.job_type)} {shortened(job.data)}", job.status, f"priority {job.priority}"]
    if job.key is not None:
        parts.append(f"key {shortened(job.key)}")
    if delay := delay_of(job):
        parts.append(f"delay {delay}")
    return ", ".join(parts)


def failure(job: Job) -> str:
    """A job and the traceback of its last attempt."""
    last = job.errors[-1] if job.errors else None
    text = (last and (last.traceback or last.error)) or job.last_error or ""
    return f"{described(job)}, attempt {job.attempts} of {job.max_attempts}:\n{printable(text.rstrip())}"


def shortened(value: Any) -> str:
    """Its repr, which escapes unprintable characters, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def printable(text: str) -> str:
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text)


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def delay_of(job: Job) -> timedelta:
    """How long after it was enqueued a job was first due."""
    return max((job.first_due_at or job.run_at) - job.created_at, timedelta(0))
