"""Lists all jobs of a queue. Tests have few."""

from __future__ import annotations

import uuid
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
