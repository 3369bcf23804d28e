"""A job as Django's TaskResult."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.utils import timezone

from howdah.django import registry
from howdah.django.framework import (
    TASK_MAX_PRIORITY,
    TASK_MIN_PRIORITY,
    InvalidTask,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
)
from howdah.model.job import Job

if TYPE_CHECKING:
    from howdah.django.backend import HowdahBackend

PRIORITY: Final = 100
"""Howdah's usual priority, which is Django's 0: so tasks take turns with jobs of others in the same database."""

_STATUSES: Final = {
    "pending": TaskResultStatus.READY,
    "claimed": TaskResultStatus.READY,
    "running": TaskResultStatus.RUNNING,
    "completed": TaskResultStatus.SUCCESSFUL,
    "failed": TaskResultStatus.FAILED,
    "cancelled": TaskResultStatus.FAILED,
}
_CANCELLED: Final = "howdah.errors.JobCancelled"
_UNNAMED: Final = "builtins.Exception"


def task_of(job: Job) -> Task | None:
    """The registered task of a job. Its path is in ``meta``; jobs of schedules have none, and have it in their data."""
    named = (job.meta or {}).get("task") or (job.data.get("task") if isinstance(job.data, dict) else None)
    return registry.find(named)


def task_result(backend: HowdahBackend, task: Task, job: Job) -> TaskResult:
    result = TaskResult(
        task=_as_enqueued(backend, task, job),
        id=str(job.id),
        status=_STATUSES[job.status],
        enqueued_at=moment(job.created_at),
        started_at=moment(_first_start(job)),
        finished_at=moment(job.finished_at),
        last_attempted_at=moment(job.started_at),
        args=job.data.get("args") or [],
        kwargs=job.data.get("kwargs") or {},
        backend=backend.alias,
        errors=_errors(job),
        worker_ids=_workers(job),
    )
    set_field(result, "_return_value", job.result)
    return result


def set_field(result: TaskResult, name: str, value: Any) -> None:
    """Results are frozen, and change while a task runs."""
    object.__setattr__(result, name, value)


def moment(value: datetime | None) -> datetime | None:
    """A time as the project has times: naive and local without USE_TZ."""
    if value is None or settings.USE_TZ:
        return value
    return timezone.make_naive(value, timezone.get_default_timezone())


def task_error(error: BaseException, traceback: str) -> TaskError:
    kind = type(error)
    return TaskError(exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback=traceback)


def _as_enqueued(backend: HowdahBackend, task: Task, job: Job) -> Task:
    """The task with the options of this job that Django has, too."""
    priority = max(TASK_MIN_PRIORITY, min(job.priority - PRIORITY, TASK_MAX_PRIORITY))
    changes = {"priority": priority, "queue_name": job.job_type, "backend": backend.alias}
    if job.first_due_at is not None and job.first_due_at > job.created_at:
        changes["run_after"] = moment(job.first_due_at)
    try:
        return dataclasses.replace(task, **changes)
    except InvalidTask:
        # Its queue is not in the settings any more.
        return task


def _first_start(job: Job) -> datetime | None:
    return next((each.started_at for each in job.errors if each.started_at is not None), job.started_at)


def _errors(job: Job) -> list[TaskError]:
    errors = [
        TaskError(exception_class_path=each.exception or _UNNAMED, traceback=each.traceback or each.error)
        for each in job.errors
    ]
    if job.status == "cancelled":
        reason = f": {job.last_error}" if job.last_error else ""
        errors.append(TaskError(exception_class_path=_CANCELLED, traceback=f"the job was cancelled{reason}"))
    return errors


def _workers(job: Job) -> list[str]:
    """A worker for each attempt: Django counts attempts by them."""
    by_attempt: dict[int, str] = {}
    later = job.attempts if job.status in ("claimed", "running") else job.attempts + 1
    for each in reversed(job.errors):
        if each.attempt >= later:
            # Of an earlier time: a retry counts attempts from 1 again.
            break
        later = each.attempt
        by_attempt[later] = each.worker or ""
    return [by_attempt.get(attempt, job.worker_id or "") for attempt in range(1, job.attempts + 1)]
