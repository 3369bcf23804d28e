"""A job as a JSON object, for programs."""

from __future__ import annotations

from typing import Any

from howdah.cli.render.output import plain
from howdah.model.job import Job


def job_as_json(job: Job) -> dict[str, Any]:
    """Every field of the job; ``created`` says something about an enqueue, and nothing about a job."""
    fields = plain(job)
    del fields["created"]
    return fields
