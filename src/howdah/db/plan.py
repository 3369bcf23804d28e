"""Plans: what a verb does, written once for the sync and the async client.

A plan is a generator that yields steps and is sent their answers. It never touches a connection:
``Database`` runs it, on a pool or on the caller's own connection, blocking or awaiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from howdah.db.adapters import RawRows

R = TypeVar("R")

Row: TypeAlias = dict[str, Any]


# Wakers


class ThreadWaker(threading.Event):
    """Ends the pause of a thread."""

    def wait(self, timeout: float | None = None) -> bool:
        is_woken = super().wait(timeout)
        self.clear()
        return is_woken


class LoopWaker:
    """Ends the pause of a task. Belongs to the event loop that is running when it is made."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.event = asyncio.Event()

    async def wait(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.event.wait()
        self.event.clear()


Waker: TypeAlias = ThreadWaker | LoopWaker


# Steps


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """Call the SQL function of this name, by named arguments. Answered with its rows.

    An argument that is None is left to the function's own default.
    """

    function: str
    arguments: Mapping[str, Any]
    repeatable: bool = False
    """Whether it may be sent once more after a lost connection, because a second call changes nothing."""
    lock_timeout: str | None = None
    """How long it may wait for a lock, such as "100ms"; None: as the connection has it. Only for functions of ids."""
    is_frequent: bool = False
    """Whether connections of a pool prepare it themselves: see ``PreparedCalls``."""

    @property
    def given(self) -> dict[str, Any]:
        """The arguments that are not left to the function."""
        return {name: value for name, value in self.arguments.items() if value is not None}


@dataclasses.dataclass(frozen=True, slots=True)
class GatheredCall:
    """A repeatable call that may go together with others of the same moment. Answered with its own rows.

    On the caller's connection, it goes by itself.
    """

    call: Call
    together: Callable[[Sequence[Call]], Plan[Sequence[list[Row] | None]]]
    """Makes one plan of several calls, the same for all of them. It returns the rows of each; None: it is to be sent by itself."""
    size: int
    """About how many characters it sends."""


@dataclasses.dataclass(frozen=True, slots=True)
class PipelinedCall:
    """Send a call without waiting for it. Answered with the rows of the previous one, None on the first.

    So the next call is prepared while the database works. Inside a transaction only.
    """

    call: Call | None


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """Run one statement of ``sql/reads``, which changes nothing. Answered with its rows; sent once more after a lost connection."""

    name: str
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """Run one statement of ``sql/writes``. Answered with its rows; never sent once more."""

    name: str
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ReadRaw:
    """A ``Write`` that returns many rows of which few columns are used. Answered with RawRows."""

    name: str
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Script:
    """Run SQL of ours without parameters, already rendered for its schema."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Begin:
    """Begin a transaction, which ends with the plan."""

    discard: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Rollback:
    """Roll the transaction back. The plan goes on, and may begin another one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so many seconds, or until the waker is woken. seconds: None only with a waker."""

    seconds: float | None
    waker: Waker | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NextItems:
    """Take the next items of an iterator, at most so many. Answered with a list; an empty one is the end."""

    source: Iterator[Any] | AsyncIterator[Any]
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class Emit:
    """Give values to the caller, which iterates over ``Database.stream``."""

    values: Sequence[Any]


Step: TypeAlias = (
    Call | GatheredCall | PipelinedCall | Read | Write | ReadRaw | Script | Begin | Rollback | Pause | NextItems | Emit
)
Plan: TypeAlias = Generator[Step, Any, R]


# Plans of one step


def call(function: str, /, **arguments: Any) -> Plan[list[Row]]:
    rows: list[Row] = yield Call(function, arguments)
    return rows


def call_within(lock_timeout: str | None, function: str, /, **arguments: Any) -> Plan[list[Row]]:
    """``call``, but it raises LockNotAvailable where it would have to wait longer than that for a lock."""
    rows: list[Row] = yield Call(function, arguments, lock_timeout=lock_timeout)
    return rows


def read(name: str, /, **arguments: Any) -> Plan[list[Row]]:
    rows: list[Row] = yield Read(name, arguments)
    return rows


def write(name: str, /, **arguments: Any) -> Plan[list[Row]]:
    rows: list[Row] = yield Write(name, arguments)
    return rows


def read_raw(name: str, /, **arguments: Any) -> Plan[RawRows]:
    rows: RawRows = yield ReadRaw(name, arguments)
    return rows


def until_emitted(plan: Plan[None]) -> Plan[Emit | None]:
    """Runs a plan until it emits values, and returns these; None when the plan has ended."""
    answer: Any = None
    failure: Exception | None = None
    while True:
        try:
            step = plan.throw(failure) if failure else plan.send(answer)
        except StopIteration:
            return None
        if isinstance(step, Emit):
            return step
        try:
            answer, failure = (yield step), None
        except Exception as error:  # noqa: BLE001
            failure = error
