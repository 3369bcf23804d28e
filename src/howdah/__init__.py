"""Howdah: a job queue that needs PostgreSQL and nothing else."""

import importlib
from typing import TYPE_CHECKING, Any

from howdah.__about__ import __version__
from howdah.checks.values import json_default
from howdah.errors import (
    DatabaseUnavailable,
    DuplicateJob,
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
    QueueFull,
    ScheduleNotFound,
    SchemaConflict,
    SchemaError,
    SchemaMissing,
    SchemaOutdated,
    SchemaTooNew,
    SignalBusy,
    SignalTimeout,
    Undecodable,
    UniqueKeyBusy,
    WaitTimeout,
    WorkerUnknown,
    WorkflowFailed,
    WorkflowNotFound,
)
from howdah.handlers.handler import Handler
from howdah.handlers.outcome import Cancel, Fail, Outcome, Retry, Snooze
from howdah.handlers.resource import Resource, resource
from howdah.handlers.retry import Exponential, Fixed, Immediately, Linear
from howdah.handlers.unique import Unique
from howdah.model.codec import Codec, Unreadable
from howdah.model.connection import Connection
from howdah.model.event import Event
from howdah.model.failed_job import FailedJob
from howdah.model.job import AttemptError, Job, Status
from howdah.model.priority import Priority
from howdah.model.progress import Point, Progress
from howdah.model.rate import Rate
from howdah.model.results import (
    ChangedCount,
    EnqueuedCount,
    JobPage,
    PrunedSegment,
    QueuePosition,
    Recovered,
    SelectedCount,
    Stats,
    TypeStats,
)
from howdah.model.schedule import Schedule
from howdah.model.step import SignalResult, Step
from howdah.model.worker_info import Throughput, WorkerInfo
from howdah.model.workflow import Node, Results, Workflow, WorkflowProgress
from howdah.queue import JobQueue
from howdah.verbs.flow import Limits
from howdah.verbs.flows import Flow, Workflows, chain, group
from howdah.verbs.schedules import Schedules
from howdah.verbs.selection import Selection
from howdah.watch.wait import Group
from howdah.watch.watch import Update

if TYPE_CHECKING:
    from howdah.doctor import Diagnosis, Finding, Unseen
    from howdah.worker import Worker, WorkerSummary

__all__ = [
    "AttemptError",
    "Cancel",
    "ChangedCount",
    "Codec",
    "Connection",
    "DatabaseUnavailable",
    "Diagnosis",
    "DuplicateJob",
    "EmbeddedServerError",
    "EnqueuedCount",
    "Event",
    "Exponential",
    "Fail",
    "FailedJob",
    "Finding",
    "Fixed",
    "Flow",
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
    "Limits",
    "Linear",
    "LoginRefused",
    "Node",
    "NotEnded",
    "NotPermitted",
    "NotRunning",
    "NotSuccessful",
    "Outcome",
    "PayloadTooLarge",
    "Point",
    "PositionLost",
    "Priority",
    "Progress",
    "PrunedSegment",
    "QueueClosed",
    "QueueFull",
    "QueuePosition",
    "Rate",
    "Recovered",
    "Resource",
    "Results",
    "Retry",
    "Schedule",
    "ScheduleNotFound",
    "Schedules",
    "SchemaConflict",
    "SchemaError",
    "SchemaMissing",
    "SchemaOutdated",
    "SchemaTooNew",
    "SelectedCount",
    "Selection",
    "SignalBusy",
    "SignalResult",
    "SignalTimeout",
    "Snooze",
    "Stats",
    "Status",
    "Step",
    "Throughput",
    "TypeStats",
    "Undecodable",
    "Unique",
    "UniqueKeyBusy",
    "Unreadable",
    "Unseen",
    "Update",
    "WaitTimeout",
    "Worker",
    "WorkerInfo",
    "WorkerSummary",
    "WorkerUnknown",
    "Workflow",
    "WorkflowFailed",
    "WorkflowNotFound",
    "WorkflowProgress",
    "Workflows",
    "__version__",
    "chain",
    "group",
    "json_default",
    "resource",
]

_LOADED_WHEN_NEEDED = {
    "Diagnosis": "howdah.doctor",
    "Finding": "howdah.doctor",
    "Unseen": "howdah.doctor",
    "Worker": "howdah.worker",
    "WorkerSummary": "howdah.worker",
}
"""A process that only enqueues does not need these, and their modules take time to import."""


def __getattr__(name: str) -> Any:
    if name in _LOADED_WHEN_NEEDED:
        return getattr(importlib.import_module(_LOADED_WHEN_NEEDED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
