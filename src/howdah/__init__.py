"""Howdah: a job queue that needs PostgreSQL and nothing else."""

from howdah.__about__ import __version__
from howdah.codec import Codec
from howdah.errors import (
    DatabaseUnavailable,
    EmbeddedServerError,
    HowdahError,
    InvalidInput,
    InvalidItem,
    InvalidJobType,
    InvalidOption,
    InvalidPayload,
    JobNotChanged,
    JobNotFound,
    LeaseLost,
    PayloadTooLarge,
    QueueClosed,
    SchemaConflict,
    SchemaError,
    SchemaMissing,
    SchemaOutdated,
    SchemaTooNew,
    WaitTimeout,
)
from howdah.job import AttemptError, Job, Status
from howdah.priority import Priority
from howdah.queue import JobQueue
from howdah.results import EnqueuedCount, JobPage, PrunedDay, Recovered, Stats, TypeStats

__all__ = [
    "AttemptError",
    "Codec",
    "DatabaseUnavailable",
    "EmbeddedServerError",
    "EnqueuedCount",
    "HowdahError",
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
    "PayloadTooLarge",
    "Priority",
    "PrunedDay",
    "QueueClosed",
    "Recovered",
    "SchemaConflict",
    "SchemaError",
    "SchemaMissing",
    "SchemaOutdated",
    "SchemaTooNew",
    "Stats",
    "Status",
    "TypeStats",
    "WaitTimeout",
    "__version__",
]
