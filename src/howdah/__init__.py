"""Howdah: a job queue that needs PostgreSQL and nothing else."""

import importlib
from typing import TYPE_CHECKING, Any

from howdah.__about__ import __version__
from howdah.codec import Codec, Unreadable
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
    JobCancelled,
    JobFailed,
    JobNotChanged,
    JobNotFound,
    KeyMissing,
    LeaseLost,
    LoginRefused,
    NotEnded,
    NotPermitted,
    NotRunning,
    NotSuccessful,
    PayloadTooLarge,
    PositionLost,
    QueueClosed,
    ScheduleNotFound,
    SchemaConflict,
    SchemaError,
    SchemaMissing,
    SchemaOutdated,
    SchemaTooNew,
    Undecodable,
    WaitTimeout,
    WorkerUnknown,
)
from howdah.event import Event
from howdah.handler import Handler
from howdah.job import AttemptError, Job, Status
from howdah.outcome import Cancel, Fail, Outcome, Retry, Snooze
from howdah.place import Place
from howdah.priority import Priority
from howdah.queue import JobQueue
from howdah.record import Point, Record
from howdah.resource import Resource
from howdah.results import EnqueuedCount, JobPage, PrunedSegment, Recovered, Stats, TypeStats
from howdah.retry import Exponential, Fixed, Immediately, Linear
from howdah.schedules import Schedule
from howdah.waiting import Group
from howdah.watching import Update
from howdah.workers import Pace, WorkerInfo

if TYPE_CHECKING:
    from howdah.doctor import Diagnosis, Finding, Unseen
    from howdah.worker import Worker, WorkerReport

__all__ = [
    "AttemptError",
    "Cancel",
    "Codec",
    "DatabaseUnavailable",
    "Diagnosis",
    "EmbeddedServerError",
    "EnqueuedCount",
    "Event",
    "Exponential",
    "Fail",
    "Finding",
    "Fixed",
    "Group",
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
    "JobCancelled",
    "JobFailed",
    "JobNotChanged",
    "JobNotFound",
    "JobPage",
    "JobQueue",
    "KeyMissing",
    "LeaseLost",
    "Linear",
    "LoginRefused",
    "NotEnded",
    "NotPermitted",
    "NotRunning",
    "NotSuccessful",
    "Outcome",
    "Pace",
    "PayloadTooLarge",
    "Place",
    "Point",
    "PositionLost",
    "Priority",
    "PrunedSegment",
    "QueueClosed",
    "Record",
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
    "Undecodable",
    "Unreadable",
    "Unseen",
    "Update",
    "WaitTimeout",
    "Worker",
    "WorkerInfo",
    "WorkerReport",
    "WorkerUnknown",
    "__version__",
]

_LOADED_WHEN_NEEDED = {
    "Diagnosis": "howdah.doctor",
    "Finding": "howdah.doctor",
    "Unseen": "howdah.doctor",
    "Worker": "howdah.worker",
    "WorkerReport": "howdah.worker",
}
"""Whoever only enqueues has no use for these, and need not wait for what is behind them."""


def __getattr__(name: str) -> Any:
    if name in _LOADED_WHEN_NEEDED:
        return getattr(importlib.import_module(_LOADED_WHEN_NEEDED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
