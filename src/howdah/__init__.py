"""Howdah: a job queue that needs PostgreSQL and nothing else."""

from howdah.__about__ import __version__
from howdah.codec import Codec
from howdah.errors import (
    DatabaseUnavailable,
    EmbeddedServerError,
    HowdahError,
    InvalidArguments,
    InvalidInput,
    InvalidItem,
    InvalidJobType,
    InvalidOption,
    InvalidPayload,
    JobNotChanged,
    JobNotFound,
    LeaseLost,
    NotRunning,
    PayloadTooLarge,
    QueueClosed,
    ScheduleNotFound,
    SchemaConflict,
    SchemaError,
    SchemaMissing,
    SchemaOutdated,
    SchemaTooNew,
    WaitTimeout,
    WorkerUnknown,
)
from howdah.handler import Handler
from howdah.job import AttemptError, Job, Status
from howdah.outcome import Cancel, Fail, Outcome, Retry, Snooze
from howdah.priority import Priority
from howdah.queue import JobQueue
from howdah.resource import Resource
from howdah.results import EnqueuedCount, JobPage, PrunedDay, Recovered, Stats, TypeStats
from howdah.retry import Exponential, Fixed, Immediately, Linear
from howdah.schedules import Schedule
from howdah.worker import Worker, WorkerReport
from howdah.workers import WorkerInfo

__all__ = [
    "AttemptError",
    "Cancel",
    "Codec",
    "DatabaseUnavailable",
    "EmbeddedServerError",
    "EnqueuedCount",
    "Exponential",
    "Fail",
    "Fixed",
    "Handler",
    "HowdahError",
    "Immediately",
    "InvalidArguments",
    "InvalidInput",
    "InvalidItem",
    "InvalidJobType",
    "InvalidOption",
    "InvalidPayload",
    "Job",
    "JobNotChanged",
    "JobNotFound",
    "JobPage",
    "JobQueue",
    "LeaseLost",
    "Linear",
    "NotRunning",
    "Outcome",
    "PayloadTooLarge",
    "Priority",
    "PrunedDay",
    "QueueClosed",
    "Recovered",
    "Resource",
    "Retry",
    "Schedule",
    "ScheduleNotFound",
    "SchemaConflict",
    "SchemaError",
    "SchemaMissing",
    "SchemaOutdated",
    "SchemaTooNew",
    "Snooze",
    "Stats",
    "Status",
    "TypeStats",
    "WaitTimeout",
    "Worker",
    "WorkerInfo",
    "WorkerReport",
    "WorkerUnknown",
    "__version__",
]
