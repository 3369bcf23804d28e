"""Plans: what a verb does, written once for the sync and the async client.

A plan is a generator that yields steps and is sent their answers. It never touches a connection:
``database`` runs it, on a pool or on the caller's own connection, blocking or awaiting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from howdah.db.adapters import WireRows

R = TypeVar("R")

Row: TypeAlias = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call of the SQL function of this name, by named arguments. Answered with its rows."""

    function: str
    arguments: Mapping[str, Any]
    repeatable: bool = False
    """Whether it may be sent once more after a lost connection, because a second call changes nothing."""
    lock_timeout: str | None = None
    """How long it may wait for a lock, such as "100ms"; None: as long as the connection lets it. Only for functions of ids."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ahead:
    """A call that is sent, and one that was sent before: answered with the rows of that one, None if there was none.

    So the next call is made ready while the database is at work. Inside of a transaction only.
    """

    call: Call | None


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """One statement of ``sql/reads``, which changes nothing. Answered with its rows; sent once more after a lost connection."""

    name: str
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """One statement of ``sql/writes``. Answered with its rows; never sent once more."""

    name: str
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Wire:
    """A ``Write`` that answers with many rows of which little is looked at: with WireRows."""

    name: str
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Script:
    """SQL of ours without parameters, already rendered for its schema."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Begin:
    """From here on everything is one transaction, which ends with the plan."""

    discard: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Undo:
    """Rolls back what was begun, though the plan goes on: it may begin anew."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Take:
    """The next items of an iterator, at most so many. Answered with a list; an empty one is the end."""

    source: Iterator[Any] | AsyncIterator[Any]
    count: int


Step: TypeAlias = Call | Ahead | Read | Write | Wire | Script | Begin | Undo | Pause | Take
Plan: TypeAlias = Generator[Step, Any, R]


def call(function: str, /, **arguments: Any) -> Plan[list[Row]]:
    rows: list[Row] = yield Call(function, given(**arguments))
    return rows


def call_within(lock_timeout: str | None, function: str, /, **arguments: Any) -> Plan[list[Row]]:
    """``call``, but it raises LockNotAvailable where it would have to wait longer than that for a lock."""
    rows: list[Row] = yield Call(function, given(**arguments), lock_timeout=lock_timeout)
    return rows


def read(name: str, /, **arguments: Any) -> Plan[list[Row]]:
    rows: list[Row] = yield Read(name, arguments)
    return rows


def write(name: str, /, **arguments: Any) -> Plan[list[Row]]:
    rows: list[Row] = yield Write(name, arguments)
    return rows


def wire(name: str, /, **arguments: Any) -> Plan[WireRows]:
    rows: WireRows = yield Wire(name, arguments)
    return rows


def given(**arguments: Any) -> dict[str, Any]:
    """Arguments of a call without those that are None: they are left to the function's own defaults."""
    return {name: value for name, value in arguments.items() if value is not None}
