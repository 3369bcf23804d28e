"""Jobs as text in the messages of failed tests: short, and without control characters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from howdah.model.job import Job

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
