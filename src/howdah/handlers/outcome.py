"""What a handler may say besides returning a result: retry, snooze, cancel, fail.

Each can be returned or raised::

    return Snooze(60)             # not now; costs no attempt
    raise Retry(delay=5)          # this attempt failed; try again in five seconds
    raise Fail("no such user")    # failed for good, whatever attempts are left
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
    """What a handler wants to become of its job. Returned or raised."""

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is unpickled by calling its class with its args, which are not what these are made of.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class Retry(Outcome):
    """This attempt failed; try again at a moment, or after a delay (by the retry policy if neither is given)."""

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
    """Not now: again at a moment, or after a delay. Costs no attempt."""

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
    """Ends the job as failed, whatever attempts are left."""

    def __init__(self, message: str = "failed for good") -> None:
        super().__init__(options.text(message, "message"))


def _when(delay: Seconds | None, at: datetime | None) -> tuple[float | None, datetime | None]:
    if delay is not None and at is not None:
        raise InvalidOption("delay and at say the same thing twice: pass one of them")
    return (
        None if delay is None else options.span(delay, "delay").total_seconds(),
        None if at is None else options.moment(at, "at"),
    )


# What the worker writes, as plain values that also cross to and from child processes.


@dataclasses.dataclass(frozen=True, slots=True)
class Completed:
    result: Any = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    error: str = dataclasses.field(repr=False)
    traceback: str | None = dataclasses.field(default=None, repr=False)
    delay: float | None = None
    at: datetime | None = None
    give_up: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Snoozed:
    delay: float | None = None
    at: datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Cancelled:
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Crashed:
    """The child process that ran the job died."""

    error: str


@dataclasses.dataclass(frozen=True, slots=True)
class Interrupted:
    """The handler was stopped by the worker, or had not begun: the job is handed back."""


@dataclasses.dataclass(frozen=True, slots=True)
class CompletedByHandler:
    """The handler completed the job in a transaction of its own: nothing is left to write, unless that was rolled back."""

    otherwise: Completed | Failed | Snoozed | Cancelled | Crashed | Interrupted
    """What becomes of the job then."""


Ending: TypeAlias = Completed | Failed | Snoozed | Cancelled | Crashed | Interrupted | CompletedByHandler


def in_ascii(ending: Ending) -> Ending:
    """The same in words that a database of any encoding can store: what is beyond ASCII is escaped."""
    match ending:
        case Failed():
            traceback = None if ending.traceback is None else _escaped(ending.traceback)
            return dataclasses.replace(ending, error=_escaped(ending.error), traceback=traceback)
        case Crashed():
            return dataclasses.replace(ending, error=_escaped(ending.error))
        case Cancelled():
            return dataclasses.replace(ending, reason=_escaped(ending.reason))
    return ending


def _escaped(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
