"""What can be done to jobs and types from the screen. Each says what came of it."""

from __future__ import annotations

from howdah.cli.render.progress_text import short_id
from howdah.model.job import Job
from howdah.queue import JobQueue


def cancel(queue: JobQueue, job: Job) -> str:
    changed = queue.cancel(job)
    now = queue.get(job)
    if now.status == "cancelled":
        return f"{_name(job)} {'is cancelled' if changed else 'was cancelled already'}"
    if now.ended:
        return f"{_name(job)} has ended as {now.status}: nothing was changed"
    return f"{_name(job)} runs, and {'is' if changed else 'was already'} asked to stop"


def retry(queue: JobQueue, job: Job) -> str:
    if queue.retry(job):
        return f"{_name(job)} is pending again, with all its attempts"
    now = queue.get(job)
    if now.ended:
        return f"{_name(job)} stays {now.status}: a live job has its key {now.key!r}"
    return f"{_name(job)} is {now.status}: only a job that has ended can be retried"


def pause(queue: JobQueue, job_type: str) -> str:
    return f"{job_type} is paused" if queue.pause(job_type) else f"{job_type} was paused already"


def resume(queue: JobQueue, job_type: str) -> str:
    return f"{job_type} goes on" if queue.resume(job_type) else f"{job_type} was not paused"


def reprioritise(queue: JobQueue, job: Job, priority: int) -> str:
    if queue.reprioritise(job, priority):
        return f"{_name(job)} has priority {priority}"
    return f"{_name(job)} does not wait any more: its priority stays {job.priority}"


def _name(job: Job) -> str:
    return f"{job.job_type} {short_id(job.id)}"
