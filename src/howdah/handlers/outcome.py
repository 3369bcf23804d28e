"""Outcomes: what a handler may return or raise instead of a result.

Each can be returned or raised::

    return Snooze(60)             # run again in a minute; costs no attempt
    raise Retry(delay=5)          # this attempt failed; try again in five seconds
    raise Fail("no such user")    # failed for good, with attempts left
    raise Cancel("not wanted")    # ends as cancelled
"""

from __future__ import annotations

import copyreg
import dataclasses
from datetime import datetime
from typing import Any, TypeAlias

from howdah.checks import options
from howdah.checks.options import Seconds
from howdah.errors import InvalidOption


class Outcome(Exception):
    """What the job becomes after this attempt. Returned or raised by a handler."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle calls an exception's class with its args, which are not the arguments of these classes.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class Retry(Outcome):
    """This attempt failed. The job runs again at a moment, or after a delay; by the retry policy if neither is given."""

    def __init__(
        self,
        message: str = "the handler asked for a retry",
        *,
        delay: Seconds | None = None,
        at: datetime | None = None,
    ) -> None:
        super().__init__(options.text(message, "message"))
        self.delay, self.at = _when(delay, at)


class Snooze(Outcome):
    """The job runs again at a moment, or after a delay. Costs no attempt."""

    def __init__(self, delay: Seconds | None = None, *, at: datetime | None = None) -> None:
        super().__init__("the handler put the job off")
        if delay is None and at is None:
            raise InvalidOption("Snooze needs to know until when: a delay, or at=")
        self.delay, self.at = _when(delay, at)


class Cancel(Outcome):
    """Ends the job as cancelled."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(options.text(reason, "reason"))


class Fail(Outcome):
    """Ends the job as failed, with attempts left."""

    def __init__(self, message: str = "failed for good") -> None:
        super().__init__(options.text(message, "message"))


class AttemptSuspended(BaseException):
    """Leaves a handler whose attempt has ended because its job waits. Let it pass: whatever the handler does then is not recorded."""


def _when(delay: Seconds | None, at: datetime | None) -> tuple[float | None, datetime | None]:
    if delay is not None and at is not None:
        raise InvalidOption("delay and at exclude each other: pass one of them")
    return (
        None if delay is None else options.span(delay, "delay").total_seconds(),
        None if at is None else options.moment(at, "at"),
    )


# What the worker writes, as plain values that can be sent to and from child processes.


@dataclasses.dataclass(frozen=True, slots=True)
class Completed:
    result: Any = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Spawned:
    """Jobs of a type that a handler adds, and their options, as they are stored."""

    job_type: str
    data: list[Any] = dataclasses.field(repr=False)
    options: dict[str, Any] | None = None
    flow_keys: list[str | None] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CompletedAndSpawned(Completed):
    """The handler returned, and these jobs are added in the same transaction."""

    spawned: tuple[Spawned, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    error: str = dataclasses.field(repr=False)
    traceback: str | None = dataclasses.field(default=None, repr=False)
    delay: float | None = None
    at: datetime | None = None
    give_up: bool = False
    exception: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Snoozed:
    delay: float | None = None
    at: datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Suspended:
    """The job waits for a signal or a moment. Nothing is left to write: the wait has ended the attempt."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cancelled:
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Crashed:
    """The child process that ran the job died."""

    error: str


@dataclasses.dataclass(frozen=True, slots=True)
class Interrupted:
    """The worker stopped the handler, or the job was about to begin: it is released."""


@dataclasses.dataclass(frozen=True, slots=True)
class NotBegun:
    """The job waited for a slot: it is released, as if it had not been claimed."""


@dataclasses.dataclass(frozen=True, slots=True)
class CompletedByHandler:
    """The handler completed the job in its own transaction. Nothing is left to write, unless that was rolled back."""

    otherwise: Completed | Failed | Snoozed | Suspended | Cancelled | Crashed | Interrupted | NotBegun
    """The outcome if it was rolled back."""


Ending: TypeAlias = (
    Completed
    | CompletedAndSpawned
    | Failed
    | Snoozed
    | Suspended
    | Cancelled
    | Crashed
    | Interrupted
    | NotBegun
    | CompletedByHandler
)


def in_ascii(ending: Ending) -> Ending:
    """The same in ASCII, which a database of any encoding can store. Other characters are escaped."""
    match ending:
        case Failed():
            traceback = None if ending.traceback is None else _escaped(ending.traceback)
            exception = None if ending.exception is None else _escaped(ending.exception)
            return dataclasses.replace(ending, error=_escaped(ending.error), traceback=traceback, exception=exception)
        case Crashed():
            return dataclasses.replace(ending, error=_escaped(ending.error))
        case Cancelled():
            return dataclasses.replace(ending, reason=_escaped(ending.reason))
    return ending


def _escaped(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
