"""The jobs as a model, for the admin and for queries. Nothing is written through it: jobs change by the verbs of the queue."""

from __future__ import annotations

from typing import Any

from django.db import models

from howdah.django.schema import table


class Job(models.Model):
    """A job, live or archived."""

    class Status(models.TextChoices):
        PENDING = "pending"
        CLAIMED = "claimed"
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True)
    job_type = models.CharField("queue", max_length=50)
    status = models.CharField(max_length=20, choices=Status.choices)
    priority = models.IntegerField()
    attempts = models.IntegerField()
    max_attempts = models.IntegerField()
    progress = models.IntegerField()
    current_stage = models.TextField(null=True)
    worker_id = models.CharField("worker", max_length=100, null=True)
    created_at = models.DateTimeField("enqueued")
    run_at = models.DateTimeField("due")
    started_at = models.DateTimeField("started", null=True)
    finished_at = models.DateTimeField("finished", null=True)
    last_error = models.TextField(null=True)
    key = models.TextField(null=True)
    flow_key = models.TextField(null=True)
    data = models.JSONField()
    result = models.JSONField(null=True)
    errors = models.JSONField(null=True)
    meta = models.JSONField(null=True)

    class Meta:
        managed = False
        db_table = table("job_details")
        ordering = ("-id",)
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        return f"{self.task} {self.id}"

    @property
    def task(self) -> str:
        """The path of the task; the job type of a job that is no task."""
        found: Any = (self.meta or {}).get("task") if isinstance(self.meta, dict) else None
        if found is None and isinstance(self.data, dict):
            found = self.data.get("task")
        return str(found or self.job_type)

    def save(self, *_: Any, **__: Any) -> None:
        raise TypeError(
            "jobs are not saved by the ORM: use the verbs of the queue, such as backend.queue.retry(job.id)"
        )

    delete = save
