"""Every exception that Howdah raises on purpose.

::

    HowdahError
    ├── InvalidInput (ValueError)        a mistake of the caller; nothing was written
    │   ├── InvalidJobType
    │   ├── InvalidPayload               names the place inside the value
    │   │   └── PayloadTooLarge
    │   ├── InvalidOption                priority, delay, run_at, limits, …
    │   ├── InvalidArguments             they do not fit the handler; has the field
    │   └── InvalidItem                  one item of a bulk; has its index
    ├── JobNotFound (LookupError)
    ├── ScheduleNotFound (LookupError)
    ├── JobNotChanged                    the job was not in a state that allows the move
    │   ├── LeaseLost                    a worker's write came too late: it changed nothing
    │   ├── NotRunning                   a verb of the handler's job, outside of its handler
    │   └── WorkerUnknown                the worker is not registered, or was given up for dead
    ├── NotSuccessful                    what job.value() raises; has the job
    │   ├── JobFailed                    has the error, its kind, and the handler's traceback
    │   ├── JobCancelled
    │   └── NotEnded
    ├── Undecodable                      what is stored cannot be read by the queue's codec
    │   └── KeyMissing                   has the id of the key
    ├── PositionLost                     a place in the stream that this database does not know
    ├── WaitTimeout (TimeoutError)
    ├── SchemaError                      each says which command to run
    │   ├── SchemaMissing
    │   ├── SchemaOutdated
    │   ├── SchemaTooNew
    │   └── SchemaConflict               something that is not ours is in the way
    ├── NotPermitted (PermissionError)   the database's login lacks the role for it
    ├── DatabaseUnavailable (ConnectionError)   an outage, not a mistake: try again
    │   └── LoginRefused                 a wrong password or login: trying again does not help
    ├── EmbeddedServerError              the embedded PostgreSQL could not be started
    └── QueueClosed

An exception's docstring is its default message.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Final


class HowdahError(Exception):
    """Howdah could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or inspect.getdoc(type(self)))


class InvalidInput(HowdahError, ValueError):
    """The call was given a value that cannot be stored."""


class InvalidJobType(InvalidInput):
    """A job type is 1 to 50 characters without control characters."""


class InvalidPayload(InvalidInput):
    """The value is not JSON that PostgreSQL can store."""


class PayloadTooLarge(InvalidPayload):
    """The payload is larger than the limit. Store it elsewhere and enqueue a reference to it."""


class InvalidOption(InvalidInput):
    """An option is outside of what the queue accepts."""


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


class JobNotChanged(HowdahError):
    """The job is not in a state that allows this."""


class LeaseLost(JobNotChanged):
    """This claim is over: the job was recovered, cancelled or claimed again. Nothing was changed."""


class NotRunning(JobNotChanged):
    """This verb belongs to the job that a handler runs. Elsewhere, use the queue's: queue.progress(job, …)."""


class WorkerUnknown(JobNotChanged):
    """The worker is not registered, or was given up for dead. It must register again before it claims."""


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
        """What its last attempt ended with."""
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


class NotEnded(NotSuccessful):
    """The job has not ended. Wait for it: queue.wait_for(job)"""


class Undecodable(HowdahError):
    """The queue's codec cannot read what is stored."""


class KeyMissing(Undecodable):
    """What is stored is encrypted with a key that was not given."""

    def __init__(self, message: str | None = None, *, key_id: str | None = None) -> None:
        super().__init__(message)
        self.key_id = key_id

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), key_id=self.key_id), self.args


class PositionLost(HowdahError):
    """This position is not one of this database's stream: it may have been restored. Begin without one."""


class WaitTimeout(HowdahError, TimeoutError):
    """The job had not ended when the time was up. It goes on."""


class SchemaError(HowdahError):
    """The database's schema does not fit this version of Howdah."""


class SchemaMissing(SchemaError):
    """Howdah is not installed in this database. Run: howdah migrate"""


class SchemaOutdated(SchemaError):
    """The database's schema is older than this Howdah. Run: howdah migrate"""


class SchemaTooNew(SchemaError):
    """The database's schema is newer than this Howdah. Run: pip install --upgrade howdah"""


class SchemaConflict(SchemaError):
    """Something that Howdah did not make is in the way."""


class NotPermitted(HowdahError, PermissionError):
    """The database's login may not do this."""


class DatabaseUnavailable(HowdahError, ConnectionError):
    """The database cannot be reached, or went away. Nothing is wrong with the call: try it again."""


class LoginRefused(DatabaseUnavailable):
    """The database refuses this login. That does not pass by itself: correct the DSN, or the server's pg_hba.conf."""


class EmbeddedServerError(HowdahError):
    """The embedded PostgreSQL could not be started."""


class QueueClosed(HowdahError):
    """The queue was closed. Make a new JobQueue."""


BY_SQLSTATE: Final[dict[str, type[HowdahError]]] = {
    "JQ001": InvalidOption,
    "JQ002": InvalidJobType,
    "JQ003": PayloadTooLarge,
    "JQ005": JobNotChanged,
    "JQ006": WorkerUnknown,
    "JQ007": ScheduleNotFound,
    "JQ008": PositionLost,
    "JQ009": SchemaConflict,
}
