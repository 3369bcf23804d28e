"""Every exception that Howdah raises on purpose.

::

    HowdahError
    ├── InvalidInput (ValueError)        the call has an invalid value; nothing was written
    │   ├── InvalidJobType
    │   ├── InvalidPayload               its message has the path inside the value
    │   │   └── PayloadTooLarge
    │   ├── InvalidOption                priority, delay, run_at, limits, …
    │   ├── InvalidArguments             the arguments do not fit the handler; has the field
    │   └── InvalidItem                  one item of a bulk; has its index
    ├── JobNotFound (LookupError)
    ├── ScheduleNotFound (LookupError)
    ├── WorkflowNotFound (LookupError)
    ├── JobNotChanged                    the state of the job does not allow the change
    │   ├── LeaseLost                    the claim is over: the write changed nothing
    │   ├── NotRunning                   a verb of the handler's job, used outside of its handler
    │   └── WorkerUnknown                the worker is not registered, or was declared dead
    ├── DuplicateJob                     the conflict "raise" of a unique rule; has the id of the other job
    ├── UniqueKeyBusy                    another transaction holds a unique key: try again
    ├── SignalBusy                       another transaction sends or takes the same signal: try again
    ├── SignalTimeout (TimeoutError)     raised by job.wait_signal(): the signal has not come in time
    ├── QueueFull                        as many jobs of the type wait as may; has their number and the bound
    ├── NotSuccessful                    raised by job.value(); has the job
    │   ├── JobFailed                    has the error, its kind, and the handler's traceback
    │   ├── JobCancelled
    │   ├── WorkflowFailed               raised by flow.value(): it has failed, or was cancelled
    │   └── NotEnded
    ├── Undecodable                      the queue's codec cannot read a stored value
    │   └── KeyMissing                   has the id of the key
    ├── PositionLost                     not a position of this database's event stream
    ├── WaitTimeout (TimeoutError)
    ├── SchemaError                      its message has the command to run
    │   ├── SchemaMissing
    │   ├── SchemaOutdated
    │   ├── SchemaTooNew
    │   └── SchemaConflict               an object that is not Howdah's is in the way
    ├── NotPermitted (PermissionError)   the database's login lacks the role for it
    ├── DatabaseUnavailable (ConnectionError)   an outage: try again
    │   └── LoginRefused                 a wrong password or login: trying again does not help
    ├── EmbeddedServerError              the embedded PostgreSQL could not be started
    └── QueueClosed

An exception's docstring is its default message.
"""

from __future__ import annotations

import functools
import inspect
import uuid
from typing import Any, Final


class HowdahError(Exception):
    """Howdah could not do this."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or inspect.getdoc(type(self)))


class InvalidInput(HowdahError, ValueError):
    """The call has a value that is not valid."""


class InvalidJobType(InvalidInput):
    """A job type is 1 to 50 characters without control characters."""


class InvalidPayload(InvalidInput):
    """The value is not JSON that PostgreSQL can store."""


class PayloadTooLarge(InvalidPayload):
    """The payload is larger than the limit. Store it elsewhere and enqueue a reference to it."""


class InvalidOption(InvalidInput):
    """The value of an option is not valid."""


class InvalidArguments(InvalidInput):
    """The arguments do not fit the handler."""

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidItem(InvalidInput):
    """One item of a bulk enqueue was refused."""

    def __init__(self, message: str, *, index: int, enqueued: int) -> None:
        super().__init__(message)
        self.index = index
        self.enqueued = enqueued

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), index=self.index, enqueued=self.enqueued), self.args


class JobNotFound(HowdahError, LookupError):
    """There is no such job. It may have been pruned."""


class ScheduleNotFound(HowdahError, LookupError):
    """There is no schedule of this name."""


class WorkflowNotFound(HowdahError, LookupError):
    """There is no such workflow. It may have been pruned."""


class JobNotChanged(HowdahError):
    """The state of the job does not allow this."""


class LeaseLost(JobNotChanged):
    """This claim is over: the job was recovered, cancelled or claimed again. Nothing was changed."""


class NotRunning(JobNotChanged):
    """Only the handler that runs the job may call this. Elsewhere, use the queue: queue.progress(job, …)."""


class WorkerUnknown(JobNotChanged):
    """The worker is not registered, or was declared dead. It must register again before it claims."""


class DuplicateJob(HowdahError):
    """There is a job with the same unique key. Nothing was added."""

    def __init__(self, message: str | None = None, *, job_id: uuid.UUID | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), job_id=self.job_id), self.args


class UniqueKeyBusy(HowdahError):
    """Another transaction has added a job with the same unique key, and has not ended. Nothing was changed: try it again."""


class SignalBusy(HowdahError):
    """Another open transaction has sent or taken signals of this name and key. Nothing was sent: try again."""


class SignalTimeout(HowdahError, TimeoutError):
    """The signal has not come in time."""


class QueueFull(HowdahError):
    """As many jobs of the type wait as may. Enqueue it again later."""

    def __init__(
        self,
        message: str | None = None,
        *,
        job_type: str | None = None,
        max_pending: int | None = None,
        pending: int | None = None,
        enqueued: int = 0,
    ) -> None:
        super().__init__(message)
        self.job_type = job_type
        self.max_pending = max_pending
        self.pending = pending
        self.enqueued = enqueued

    def __reduce__(self) -> tuple[Any, ...]:
        about = {name: getattr(self, name) for name in ("job_type", "max_pending", "pending", "enqueued")}
        return functools.partial(type(self), **about), self.args


class NotSuccessful(HowdahError):
    """The job has no value."""

    def __init__(self, message: str | None = None, *, job: Any = None) -> None:
        super().__init__(message)
        self.job = job

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), job=self.job), self.args


class JobFailed(NotSuccessful):
    """The job has failed."""

    @property
    def error(self) -> str | None:
        """The error of its last attempt."""
        return None if self.job is None else self.job.last_error

    @property
    def kind(self) -> str | None:
        """How it ended: "failed", "timed out", "worker died", …"""
        return self.job.errors[-1].kind if self.job is not None and self.job.errors else None

    @property
    def remote_traceback(self) -> str | None:
        """The traceback of the process that ran it."""
        return self.job.errors[-1].traceback if self.job is not None and self.job.errors else None


class JobCancelled(NotSuccessful):
    """The job was cancelled."""


class WorkflowFailed(NotSuccessful):
    """The workflow has failed, or was cancelled."""


class NotEnded(NotSuccessful):
    """The job has not ended. Wait for it: queue.wait_for(job)"""


class Undecodable(HowdahError):
    """The queue's codec cannot read a stored value."""


class KeyMissing(Undecodable):
    """A stored value is encrypted with a key that was not given."""

    def __init__(self, message: str | None = None, *, key_id: str | None = None) -> None:
        super().__init__(message)
        self.key_id = key_id

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), key_id=self.key_id), self.args


class PositionLost(HowdahError):
    """This position is not in the event stream of this database, which may have been restored. Start without a position."""


class WaitTimeout(HowdahError, TimeoutError):
    """The job did not end within the timeout. It continues."""


class SchemaError(HowdahError):
    """The database's schema does not fit this version of Howdah."""


class SchemaMissing(SchemaError):
    """Howdah is not installed in this database. Run: howdah migrate"""


class SchemaOutdated(SchemaError):
    """The database's schema is older than this Howdah. Run: howdah migrate"""


class SchemaTooNew(SchemaError):
    """The database's schema is newer than this Howdah. Run: pip install --upgrade howdah"""


class SchemaConflict(SchemaError):
    """An object that Howdah did not create is in the way."""


class NotPermitted(HowdahError, PermissionError):
    """The login of the database may not do this."""


class DatabaseUnavailable(HowdahError, ConnectionError):
    """The database cannot be reached, or the connection broke. The call itself is valid: try it again."""


class LoginRefused(DatabaseUnavailable):
    """The database refuses this login. Trying again does not help: correct the DSN, or the server's pg_hba.conf."""


class EmbeddedServerError(HowdahError):
    """The embedded PostgreSQL could not be started."""


class QueueClosed(HowdahError):
    """The queue was closed. Open it again with ``with queue:`` or ``async with queue:``, or make a new JobQueue."""


BY_SQLSTATE: Final[dict[str, type[HowdahError]]] = {
    "JQ001": InvalidOption,
    "JQ002": InvalidJobType,
    "JQ003": PayloadTooLarge,
    "JQ005": JobNotChanged,
    "JQ006": WorkerUnknown,
    "JQ007": ScheduleNotFound,
    "JQ008": PositionLost,
    "JQ009": SchemaConflict,
    "JQ020": DuplicateJob,
    "JQ021": UniqueKeyBusy,
    "JQ022": QueueFull,
    "JQ023": SignalBusy,
    "JQ024": WorkflowNotFound,
}
